"""What ``headway run`` prints: the requests of each run in figures, and then who gained and who lost."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from shutil import get_terminal_size

import numpy as np
from rich.console import Console

from sim.analysis.theory.load import Load, of_result
from sim.capacity import Ledger
from sim.engine.plan import Blocked
from sim.record.metrics import PoolFigures
from sim.record.quantiles import Distribution
from sim.record.result import Result
from sim.report.catalogue import texts_of
from sim.report.layout import NOTHING, Column, Page, Row
from sim.report.names import figure, hundredths, ms, request_name, setting, visible, whole_ns
from sim.report.tenants import tenants
from sim.report.texts import Texts
from sim.report.verdict import EACH_SHOWN, Comparison, Verdict, best_of_all, percent
from sim.request import NEVER, Status

PIPE_WIDTH = 100
"""In cells, where the output is no terminal and COLUMNS says nothing."""

REASONS_SHOWN = 3
"""How many requests that ended alike without finishing are named with their reasons."""

REQUEST_COLUMNS = (("ttft", "ttft_ns"), ("max_itl", "max_itl_ns"), ("e2e", "e2e_ns"), ("queue", "queue_ns"))
DISTRIBUTIONS = ("ttft", "itl", "tpot", "e2e", "queue")
QUANTILES = (50, 90, 99)
LIMITS = ("token_budget", "max_running")


def show(results: Sequence[Result], *, lang: str) -> None:
    """:func:`render` to stdout, in one write."""
    console = Console(width=get_terminal_size(fallback=(PIPE_WIDTH, 0)).columns)
    with console.capture() as captured:
        render(results, lang=lang, console=console)
    sys.stdout.write(captured.get())


def render(results: Sequence[Result], *, lang: str, console: Console) -> None:
    """Print all runs of one scenario. ``lang`` is "en" or "zh". The same results and width give the same text."""
    texts = texts_of(lang, console.encoding)
    page = Page(console, texts)
    _title(page, texts, results)
    for result in results:
        page.blank()
        _run(page, texts, result, conditions(result, results))
        page.rows(list(tenants(texts, result)))
        page.rows(list(_pool(texts, result, with_ledger=_several_ledgers(results))))
    page.blank()
    page.paragraph(_legend(texts, results), "dim")
    if len(results) > 1:
        _verdicts(page, texts, results)


def _title(page: Page, texts: Texts, results: Sequence[Result]) -> None:
    first = results[0]
    workload = first.record.workload
    totals = texts.workload(len(workload), int(workload.prompt_tokens.sum()), int(workload.output_tokens.sum()))
    page.paragraph(f"{visible(str(first.scenario['name']))}{texts.colon}{totals}", "bold")
    if claim := first.scenario.get("claim"):
        page.paragraph(f"{texts.label['claim']}{texts.colon}{visible(str(claim))}")
    varying, written = _varying(results), first.scenario.get("device", {})
    device = {
        key: value
        for table, _, key in (dotted.partition(".") for dotted in first.settings if dotted not in varying)
        if table == "device" and ((value := first.settings[f"device.{key}"]) or key in written)
    }
    if device:
        settings = texts.comma.join(f"{key}={setting(value)}" for key, value in device.items())
        page.paragraph(f"{texts.label['device']}{texts.colon}{settings}")
    ledger = _ledger(first)
    if ledger and not _several_ledgers(results):
        page.paragraph(f"{_capitalised(texts.label['memory'])}{texts.colon}{texts.ledger(ledger)}")


def conditions(result: Result, results: Sequence[Result]) -> list[str]:
    """The settings to know this run by: its policy, its limits, and what differs between runs of like policy."""
    settings = result.settings
    shown = {} if result.name == result.policy else {"policy": result.policy}
    if settings.get("scheduler.composition") == "alternate":
        shown["chunk_tokens"] = setting(settings.get("scheduler.chunk_tokens"))
    for key in (f"scheduler.{limit}" for limit in LIMITS):
        if settings.get(key) is not None:
            shown[key.partition(".")[2]] = setting(settings[key])
    like = [other for other in results if other.policy == result.policy]
    for key in settings:
        among = like if key.startswith("scheduler.") else results
        if any(other.settings.get(key) != settings[key] for other in among):
            shown.setdefault(key.removeprefix("scheduler."), setting(settings[key]))
    return [f"{key}={value}" for key, value in shown.items()]


def _varying(results: Sequence[Result]) -> set[str]:
    keys = {key for result in results for key in result.settings}
    return {key for key in keys if any(r.settings.get(key) != results[0].settings.get(key) for r in results)}


def _run(page: Page, texts: Texts, result: Result, settings: Sequence[str]) -> None:
    heading = visible(result.name) + (texts.in_brackets(texts.comma.join(settings)) if settings else "")
    page.paragraph(heading, "bold")
    if _each_shown(result):
        page.table(*_requests(texts, result))
    else:
        page.table(*_distributions(texts, result))
    page.paragraph(_totals(texts, result))
    if line := load_line(texts, of_result(result)):
        page.paragraph(line)
    for line in _unfinished(texts, result):
        page.paragraph(line, indent="  ")


def load_line(texts: Texts, load: Load) -> str:
    """λ, λ* and the load; nothing where neither is known."""
    if load.arrival_rate is None and load.saturation_rate is None:
        return ""
    shown = (None if value is None else figure(value) for value in (load.arrival_rate, load.saturation_rate, load.load))
    return texts.load(*shown, too_much=load.saturated)


def _each_shown(result: Result) -> bool:
    return len(result.record.workload) <= EACH_SHOWN


def _requests(texts: Texts, result: Result) -> tuple[list[Column], list[list[str]]]:
    columns = [Column(texts.label["request"])]
    cells = [[request_name(result.record.workload, index) for index in range(len(result.record.workload))]]
    for label, name in REQUEST_COLUMNS:
        columns.append(Column(texts.label[label], "ms"))
        cells.append(_times([None if ns == NEVER else ns for ns in result.requests[name].tolist()]))
    statuses = [Status(status) for status in result.requests["status"].tolist()]
    if any(status is not Status.FINISHED for status in statuses):
        columns.append(Column(texts.label["status"]))
        cells.append([texts.status[status] for status in statuses])
    return columns, [list(row) for row in zip(*cells, strict=True)]


def _distributions(texts: Texts, result: Result) -> tuple[list[Column], list[list[str]]]:
    figures = [result.summary.distributions[name] for name in DISTRIBUTIONS]
    titles = [texts.label["mean"], *(f"p{q}" for q in QUANTILES), texts.label["max"]]
    columns = [Column(texts.label["metric"]), *(Column(title, "ms") for title in titles)]
    cells = [_times(column) for column in zip(*map(_statistics, figures), strict=True)]
    names = [texts.label[name] for name in DISTRIBUTIONS]
    return columns, [list(row) for row in zip(names, *cells, strict=True)]


def _statistics(values: Distribution) -> list[int | None]:
    exact = [values.mean, *(values.percentiles[q] for q in QUANTILES)]
    return [*(None if value is None else whole_ns(value) for value in exact), values.max]


def _times(column: Iterable[int | None]) -> list[str]:
    return [NOTHING if ns is None else ms(ns) for ns in column]


def _totals(texts: Texts, result: Result) -> str:
    summary = result.summary
    makespan = NOTHING if summary.makespan_ns is None else f"{ms(summary.makespan_ns)}\N{NO-BREAK SPACE}ms"
    parts = [
        texts.totals(makespan, summary.jobs),
        texts.finished(summary.by_status[Status.FINISHED], len(result.record.workload)),
    ]
    if summary.preemptions:
        parts.append(texts.preempted(summary.preemptions, summary.recomputed_tokens))
    return texts.semicolon.join(parts)


def _ledger(result: Result) -> Ledger | None:
    """How the blocks came of a memory; None where they were given."""
    memory_gib, bytes_per_token = (result.settings.get(f"kv.{key}") for key in ("memory_gib", "bytes_per_token"))
    if memory_gib is None or bytes_per_token is None:
        return None
    return Ledger(Decimal(str(memory_gib)), bytes_per_token, result.settings["kv.block_tokens"])


def _several_ledgers(results: Sequence[Result]) -> bool:
    return len({_ledger(result) for result in results}) > 1


def _pool(texts: Texts, result: Result, *, with_ledger: bool) -> Iterator[Row]:
    """How the blocks were used, who was kept out by what, and what was done twice; nothing without a pool."""
    summary, settings = result.summary, result.settings
    pool = summary.pool
    if pool is None:
        return
    if with_ledger and (ledger := _ledger(result)):
        yield Row(texts.label["memory"], [texts.ledger(ledger)])
    level = texts.water_level(pool.blocks, pool.used_min, hundredths(pool.used_mean), pool.used_p99, pool.used_max)
    yield Row(texts.label["pool"], [level])
    yield Row(texts.label["queue_head"], [texts.semicolon.join(_admission(texts, pool))])
    if summary.preemptions or summary.wasted_tokens:
        again, wasted = ((count, percent(count, summary.scheduled_tokens)) for count in
                         (summary.recomputed_tokens, summary.wasted_tokens))  # fmt: skip
        yield Row(texts.label["work"], [texts.work(summary.scheduled_tokens, again, wasted)])
    if settings["kv.preemption"] == "swap":
        yield Row(texts.label["swap"], [texts.swapped(pool.swapped, pool.blocks_out, pool.blocks_in)])
    if settings["kv.prefix_cache"]:
        yield Row(texts.label["cache"], [texts.cached(pool.cached_tokens, pool.cached_on_resume_tokens)])


def _admission(texts: Texts, pool: PoolFigures) -> Iterator[str]:
    yield texts.admitted(pool.admissions)
    reasons = [(reason, pool.kept_out[reason]) for reason in Blocked if pool.kept_out.get(reason)]
    jobs = sum(count for _, count in reasons)
    if jobs:
        behind = hundredths(Fraction(pool.behind_head, jobs)) if pool.behind_head else None
        yield texts.kept_out(jobs, reasons, behind)


def _capitalised(label: str) -> str:
    return label[:1].upper() + label[1:]


def _unfinished(texts: Texts, result: Result) -> Iterator[str]:
    """One line for each way of not finishing: how many, and the first few with their reasons."""
    for status in (Status.REJECTED, Status.CANCELLED, Status.UNFINISHED):
        indices = np.flatnonzero(result.requests["status"] == status).tolist()
        if not indices:
            continue
        shown = []
        for index in indices[:REASONS_SHOWN]:
            reason = result.record.reasons.get(index, "")
            name = request_name(result.record.workload, index)
            shown.append(name + (texts.in_brackets(texts.reason.get(reason) or visible(reason)) if reason else ""))
        if len(indices) > REASONS_SHOWN:
            shown.append(texts.more(len(indices) - REASONS_SHOWN))
        yield f"{texts.status[status]} {len(indices):,}{texts.colon}{texts.semicolon.join(shown)}"


def _legend(texts: Texts, results: Sequence[Result]) -> str:
    legend = texts.legend_of_requests if all(map(_each_shown, results)) else texts.legend_of_quantiles
    if all(result.summary.pool is None for result in results):
        return legend
    return texts.sentences(legend, texts.legend_of_pool)


def _verdicts(page: Page, texts: Texts, results: Sequence[Result]) -> None:
    old, *others = results
    for new in others:
        kind = "run" if len(results) > 2 else "setting" if old.policy == new.policy else "policy"
        verdict = Verdict(Comparison(old, new), texts, kind)
        page.blank()
        page.paragraph(verdict.title(), "bold")
        if note := verdict.note():
            page.paragraph(note, indent="  ")
        page.rows(list(verdict.rows()))
        page.paragraph(verdict.conclusion(), "bold", indent="  ")
    page.blank()
    if len(others) > 1 and (best := best_of_all(results, texts)):
        page.paragraph(best, "bold")
    page.paragraph(texts.caveat)
