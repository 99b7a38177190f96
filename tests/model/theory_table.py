"""Writes the table of docs/theory.md: `python tests/model/theory_table.py`, 20 minutes; with words, those cases only.

The runs are those of `make theory`: the same cases, the same seeds.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from test_theory_simulated import RUNS, check
from theory_cases import CASES, Case

from sim.analysis.theory.examine import examine
from sim.report.names import figure

DOCUMENT = Path(__file__).parents[2] / "docs" / "theory.md"
BEGIN, END = "<!-- the table begins -->\n", "<!-- the table ends -->\n"
HEAD = "| case | requests | result | theory | simulated | std. error | off |\n|---|--:|---|--:|--:|--:|--:|\n"


def rows(case: Case) -> list[str]:
    report = examine(case.scenario(), RUNS)
    found = {finding.name: finding for finding in report.findings}
    lines: list[str] = []
    for name, value in case.values.items():
        finding = found[name]
        first = not lines
        share = 100 * (finding.standard_error or 0) / abs(finding.theory)
        cells = [
            case.name if first else "",
            f"{case.requests:,}" if first else "",
            name.partition(": ")[2],
            f"{value:.10g}",
            figure(finding.simulated),
            f"{share:.2f} %",
            f"{100 * (finding.simulated / finding.theory - 1):+.2f} %",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    try:
        check(case, report, case.most_error)
    except AssertionError as error:
        print(f"{case.name}: {error}", flush=True)
    return lines


def main(words: list[str]) -> None:
    chosen = [case for case in CASES if not words or any(word in case.name for word in words)]
    table: list[str] = []
    with ProcessPoolExecutor() as processes:
        for lines in processes.map(rows, chosen):
            print("\n".join(lines), flush=True)
            table += lines
    if not words:
        text = DOCUMENT.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        DOCUMENT.write_text(f"{before}{BEGIN}\n{HEAD}{chr(10).join(table)}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
