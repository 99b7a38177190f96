"""What was measured, for people as tables and for programs as JSON."""

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from os import cpu_count
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.calibration import REFERENCE_US
from bench.goals import Judgement, judgements, unit
from bench.measure import Row, Sample, best
from bench.peers import MISSED_RATIO, VERSION, WANTED_RATIO, SideBySide

PIPE_WIDTH = 150
"""In cells, where the output is no terminal."""

STYLES = {"met": "green", "near": "yellow", "missed": "red", "not judged": "dim"}
NOTE = f"Scaled: to a machine on which a bare SimPy timeout costs {REFERENCE_US} µs."


def console() -> Console:
    return Console(width=get_terminal_size(fallback=(PIPE_WIDTH, 0)).columns, highlight=False)


def show(rows: Sequence[Row], screen: Console) -> None:
    screen.print(_times(rows))
    screen.print(NOTE, style="dim")
    screen.print(_phases(rows))


def show_peers(found: SideBySide, steps: Sequence[tuple[Row, float | None]], screen: Console) -> None:
    screen.print(_contenders(found))
    screen.print(
        f"Goal: {WANTED_RATIO:g} times AISimulate {VERSION} without a record (below {MISSED_RATIO:g} is a miss): "
        f"{found.ratio(1):.2f}, [{STYLES[found.verdict()]}]{found.verdict()}[/]. "
        f"With its record per request: {found.ratio(2):.2f}."
    )
    screen.print(_steps(steps))
    screen.print(NOTE, style="dim")


# --- tables ----------------------------------------------------------------------------------------------------------


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left")
    return table


def _times(rows: Sequence[Row]) -> Table:
    by_name = {row.workload.name: row for row in rows}
    table = _table(
        "Whole process, best run; without CPU s: a part of one",
        "workload",
        "CPU s",
        "scaled",
        "µs each",
        "scaled",
        "MB",
        "timeout µs",
        "copy GB/s",
    )
    table.add_column("goal: found")
    for row in rows:
        if row.left_out is not None:
            table.add_row(row.workload.name, *[""] * 7, f"left out: {row.left_out}")
            continue
        taken = best(row.samples)
        each = next(name for name in taken.figures if name.startswith("us_per_"))
        cells = [(taken.figures, "cpu_s"), (taken.scaled, "cpu_s"), (taken.figures, each), (taken.scaled, each)]
        table.add_row(
            row.workload.name,
            *(_short(figures[name]) if name in figures else "" for figures, name in cells),
            f"{taken.figures['rss_mb']:.0f}" if "rss_mb" in taken.figures else "",
            f"{taken.machine.timeout_us:.2f}",
            f"{taken.machine.copy_gb_per_s:.1f}",
            "\n".join(map(_goal, judgements(row, by_name))),
        )
    return table


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _goal(judged: Judgement) -> str:
    goal = judged.goal
    wanted = f"{goal.wanted:g} {unit(goal.figure)}" if goal.times is None else f"{goal.wanted:g} times {goal.times}"
    found = "" if judged.found is None else f"{_short(judged.found)} "
    return f"{wanted}: {found}[{STYLES[judged.verdict]}]{judged.verdict}[/]"


def _phases(rows: Sequence[Row]) -> Table:
    table = _table("CPU s by phase, in a process of their own, unscaled", "workload", *_PHASES, "simulate µs/request")
    table.add_column("work per request")
    for row in rows:
        if row.phases:
            requests = row.workload.requests  # type: ignore[union-attr]  # a run, for it has phases
            table.add_row(
                row.workload.name,
                *(f"{row.phases[f'{name}_s']:.3f}" for name in _PHASES),
                f"{1e6 * row.phases['simulate_s'] / requests:.1f}",
                ", ".join(f"{name} {count / requests:.4g}" for name, count in row.work.items()),
            )
    return table


_PHASES = ("load", "simulate", "metrics", "write")


def _contenders(found: SideBySide) -> Table:
    table = _table(
        f"{found.requests:,} requests of 512/512, prefix cache on: medians, whole process",
        *("simulator", "output tokens per CPU s", "Headway does", "CPU s of each run", "MB", "timeout µs"),
    )
    for place, contender in enumerate(found.contenders):
        figures = [each.figures for each in contender.samples]
        table.add_row(
            contender.name,
            f"{contender.tokens_per_cpu_s:,.0f}",
            f"{found.ratio(place):.2f} times",
            ", ".join(f"{each['cpu_s']:.2f}" for each in figures),
            f"{max(each['rss_mb'] for each in figures):.0f}",
            ", ".join(f"{each.machine.timeout_us:.2f}" for each in contender.samples),
        )
    return table


def _steps(steps: Sequence[tuple[Row, float | None]]) -> Table:
    table = _table("CPU µs a step of vLLM's recorded runs", "recording", "vLLM's scheduler", "Headway", "scaled")
    table.add_column("goal: found")
    for row, theirs in steps:
        recorded = "" if theirs is None else f"{theirs:g}"
        if row.left_out is not None:
            table.add_row(row.workload.name, recorded, "", "", f"left out: {row.left_out}")
            continue
        ours = best(row.samples)
        judged = "\n".join(map(_goal, judgements(row, {})))
        figures = (ours.figures["us_per_step"], ours.scaled["us_per_step"])
        table.add_row(row.workload.name, recorded, *(f"{us:.1f}" for us in figures), judged)
    return table


# --- JSON ------------------------------------------------------------------------------------------------------------


def document(rows: Sequence[Row], instructions: float | None) -> dict[str, Any]:
    by_name = {row.workload.name: row for row in rows}
    return {
        "schema": "headway.bench/1",
        **_circumstances(),
        "instructionsPerRequest": instructions,
        "rows": [_row(row, by_name) for row in rows],
    }


def peers_document(found: SideBySide, steps: Sequence[tuple[Row, float | None]]) -> dict[str, Any]:
    return {
        "schema": "headway.bench-peers/1",
        **_circumstances(),
        "aisimulate": VERSION,
        "requests": found.requests,
        "contenders": [
            {
                "name": each.name,
                "tokensPerCpuS": each.tokens_per_cpu_s,
                "headwayIsTimes": found.ratio(place),
                "runs": _runs(each.samples),
            }
            for place, each in enumerate(found.contenders)
        ],
        "verdict": found.verdict(),
        "steps": [{**_row(row, {}), "vllmUsPerStep": theirs} for row, theirs in steps],
    }


def write(content: Mapping[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _row(row: Row, by_name: Mapping[str, Row]) -> dict[str, Any]:
    return {
        "name": row.workload.name,
        "leftOut": row.left_out,
        "runs": _runs(row.samples),
        "best": row.scaled,
        "phases": row.phases,
        "work": row.work,
        "goals": [asdict(judged) for judged in judgements(row, by_name)],
    }


def _runs(samples: Iterable[Sample]) -> list[dict[str, Any]]:
    return [{"raw": each.figures, "scaled": each.scaled, "machine": each.machine._asdict()} for each in samples]


def _circumstances() -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.system()} {platform.machine()}, {cpu_count()} cores",
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in ("headway", "simpy", "numpy", "pyarrow")},
        "referenceTimeoutUs": REFERENCE_US,
    }
