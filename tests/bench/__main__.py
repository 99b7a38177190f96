"""The command: `python -m bench run|peers|profile`, with tests/ on Python's path; `make bench` and its like call it."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import measure, peers, profile, report, workloads
from bench.measure import ProcessError, Row
from bench.workloads import Run, Workload

RESULTS = measure.ROOT / "results"


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="bench", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    names = [workload.name for workload in workloads.table()]

    run = commands.add_parser("run", help="every workload of the table")
    run.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"of {', '.join(names)}")
    run.add_argument("--quick", action="store_true", help="the base workload of 1,000 and 10,000 requests")
    run.add_argument("--runs", type=_positive, default=3, help="of each workload; the best counts (3)")
    run.add_argument("--output", type=Path, default=RESULTS / "bench.json")

    others = commands.add_parser("peers", help="side by side with AISimulate, and with vLLM's scheduler as recorded")
    others.add_argument("--requests", type=_positive, default=100_000)
    others.add_argument("--runs", type=_positive, default=3, help="of each, in turn; medians count (3)")
    others.add_argument("--output", type=Path, default=RESULTS / "bench-peers.json")

    runs = [workload.name for workload in workloads.table() if isinstance(workload, Run)]
    where = commands.add_parser("profile", help="where a run spends its time")
    where.add_argument("--only", choices=runs, metavar="NAME", default="base-10k", help="the workload (base-10k)")
    where.add_argument("--output", type=Path, default=RESULTS / "profile.txt")
    return top


def chosen(only: Sequence[str] | None, *, quick: bool) -> list[Workload]:
    return [
        workload
        for workload in workloads.table()
        if (only is None or workload.name in only) and (workload.quick or not quick)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    asked = parser().parse_args(arguments)
    try:
        {"run": _run, "peers": _peers, "profile": _profile}[asked.command](asked)
    except ProcessError as error:
        sys.stderr.write("\n".join(error.args) + "\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _run(asked: argparse.Namespace) -> None:
    screen = report.console()
    rows: list[Row] = []
    for workload in chosen(asked.only, quick=asked.quick):
        _say(f"{workload.name} …")
        rows.append(measure.measured(workload, asked.runs))
        report.write(report.document(rows, None), asked.output)  # a long run that is interrupted leaves what it has
    instructions = None
    if asked.only is None:
        _say("instructions …")
        instructions = measure.instructions_per_request()
    report.show(rows, screen)
    if instructions is not None:
        screen.print(f"Instructions per request, by cachegrind: {instructions:,.0f}")
    elif asked.only is None:
        screen.print("Instructions per request: left out, there is no valgrind here.")
    report.write(report.document(rows, instructions), asked.output)


def _peers(asked: argparse.Namespace) -> None:
    found = peers.side_by_side(asked.requests, asked.runs)
    steps = peers.steps(asked.runs)
    report.show_peers(found, steps, report.console())
    report.write(report.peers_document(found, steps), asked.output)


def _profile(asked: argparse.Namespace) -> None:
    (workload,) = chosen([asked.only], quick=False)
    if not isinstance(workload, Run):
        raise TypeError(workload)
    text = profile.profile(workload)
    profile.write(text, asked.output)
    sys.stdout.write(profile.top(text) + "\n")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number}: must be at least 1")
    return number


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
