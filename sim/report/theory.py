"""What ``headway theory`` prints: theory beside simulation, and what does not apply."""

import sys
from shutil import get_terminal_size

from rich.console import Console

from sim.analysis.theory.claims import Finding
from sim.analysis.theory.examine import Report
from sim.report.catalogue import texts_of
from sim.report.layout import NOTHING, Column, Page, Row
from sim.report.names import figure, visible
from sim.report.table import PIPE_WIDTH, load_line
from sim.report.texts import Texts


def show(report: Report, *, lang: str) -> None:
    """:func:`render` to stdout, in one write."""
    console = Console(width=get_terminal_size(fallback=(PIPE_WIDTH, 0)).columns)
    with console.capture() as captured:
        render(report, lang=lang, console=console)
    sys.stdout.write(captured.get())


def render(report: Report, *, lang: str, console: Console) -> None:
    """Print the report. ``lang`` is "en" or "zh"; the names of results and the reasons are English in both."""
    texts = texts_of(lang, console.encoding)
    page = Page(console, texts)
    scenario = report.scenario
    runs = texts.replications(report.replications, report.requests, scenario.run.seed)
    heading = f"{visible(scenario.name)}{texts.in_brackets(scenario.scheduler.policy)}{texts.colon}{runs}"
    page.paragraph(heading, "bold")
    if line := load_line(texts, report.load):
        page.paragraph(line)
    page.blank()
    if report.findings:
        names = ("result", "theory", "simulated", "standard_error", "error", "verdict")
        page.table([Column(texts.label[name]) for name in names], [_row(texts, found) for found in report.findings])
        page.blank()
    if report.refusals:
        page.paragraph(texts.label["does_not_apply"], "bold")
        page.rows([Row(refusal.name, [refusal.why]) for refusal in report.refusals])


def _row(texts: Texts, found: Finding) -> list[str]:
    def with_unit(value: float | None) -> str:
        return NOTHING if value is None else f"{figure(value)} {found.unit}".rstrip()

    error = NOTHING if found.error_percent is None else f"{found.error_percent:+.2f} %"
    values = map(with_unit, (found.theory, found.simulated, found.standard_error))
    return [found.name, *values, error, texts.verdict(found.verdict)]
