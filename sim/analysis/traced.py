"""A trace by itself: what is in it, what a reader might get wrong, and another format of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sim.clock import NS_PER_MS
from sim.complaints import unknown_name
from sim.errors import OutputError, ScenarioError
from sim.record import store
from sim.record.place import nothing_is_ours
from sim.request import NEVER, Workload
from sim.scenario import Scenario
from sim.show import show, show_path
from sim.workload.own_format import VERSION, lines_of
from sim.workload.sending import kept
from sim.workload.trace_formats import FORMATS
from sim.workload.trace_stats import Lengths, Stats, stats
from sim.workload.trace_values import ISO
from sim.workload.trace_write import FORMS, write
from sim.workload.traced import form_of, take_of, workload_of
from sim.workload.traces import TraceRows, read_trace

SLOW_PER_S, FAST_PER_S = 0.01, 1000
"""A rate outside of these is more likely a wrong unit than a server's load."""

TIED = 0.1
"""From this share of requests that arrive with another on, times tick."""


class Warned(NamedTuple):
    """One thing that a reader might get wrong: its name, and figures for its text."""

    what: str
    figures: dict[str, Any]


@dataclass(frozen=True)
class Report:
    """What ``headway trace`` answers."""

    path: str
    rows: TraceRows
    workload: Workload
    stats: Stats
    warnings: list[Warned]

    def to_dict(self) -> dict[str, Any]:
        rows, found = self.rows, self.stats
        return {
            "path": self.path,
            "format": rows.format,
            "sha256": rows.sha256,
            "rows": found.arrivals.n,
            "rowsRead": rows.rows_read,
            "zeroRows": rows.zero_rows,
            "unsorted": rows.unsorted,
            "timed": rows.timed,
            "spanMs": found.arrivals.span_ns / NS_PER_MS,
            "ratePerS": found.arrivals.rate_per_s,
            "cv": found.arrivals.gap_cv,
            "varianceToMean": {str(seconds): value for seconds, value in found.arrivals.dispersion.items()},
            "distinctTimes": found.distinct_times,
            "tied": found.tied,
            "mostAtOnce": found.most_at_once,
            "tickNs": found.tick_ns,
            "promptTokens": _lengths(found.prompt),
            "outputTokens": _lengths(found.output),
            "rankCorrelation": found.rank_correlation,
            "correlation": found.correlation,
            "sharing": None
            if found.sharing is None
            else {
                "ids": found.sharing.ids,
                "pieces": found.sharing.pieces,
                "coveredTokens": found.sharing.covered_tokens,
                "servedTokens": found.sharing.served_tokens,
                "servedShare": found.sharing.served_tokens / max(int(self.workload.prompt_tokens.sum()), 1),
            },
            "notes": list(rows.notes),
            "warnings": [{"what": warned.what, **warned.figures} for warned in self.warnings],
        }


def _lengths(lengths: Lengths | None) -> dict[str, Any] | None:
    return None if lengths is None else {key: value for key, value in lengths._asdict().items() if key != "zero"}


def report(scenario: Scenario) -> Report:
    """The trace of a scenario as its options take it; rows without tokens are left out and counted."""
    trace = scenario.workload.trace
    if trace is None:
        raise TypeError("a scenario without a trace")
    take = take_of(trace, scenario.run.seed)._replace(zero_tokens="skip")
    rows = read_trace(
        scenario.trace_path(), form=form_of(trace), take=take, loop=trace.loop, speedup=trace.speedup,
        allow_empty=trace.allow_empty,
    )  # fmt: skip
    workload = workload_of(rows)
    found = stats(workload)
    return Report(show_path(scenario.trace_path()), rows, workload, found, list(_warnings(rows, found, workload)))


def _warnings(rows: TraceRows, found: Stats, workload: Workload) -> list[Warned]:
    warned = []
    layout = FORMATS[rows.format]
    if rows.timed and layout.unit != ISO and found.arrivals.rate_per_s is not None and found.arrivals.n > 1:
        if found.arrivals.rate_per_s < SLOW_PER_S:
            warned.append(Warned("slow", {"ratePerS": found.arrivals.rate_per_s}))
        if found.arrivals.rate_per_s > FAST_PER_S:
            warned.append(Warned("fast", {"ratePerS": found.arrivals.rate_per_s}))
    if rows.timed and found.tied >= TIED * found.arrivals.n and found.arrivals.n > 1:
        warned.append(Warned("ticks", {"distinctTimes": found.distinct_times, "mostAtOnce": found.most_at_once}))
    if rows.unsorted:
        warned.append(Warned("unsorted", {"rows": rows.unsorted}))
    if rows.zero_rows and layout.zero_tokens == "error":
        warned.append(Warned("zero", {"rows": rows.zero_rows}))
    total = int(workload.prompt_tokens.sum())
    if found.sharing is not None and found.sharing.covered_tokens < 0.9 * total:
        warned.append(Warned("covered", {"share": found.sharing.covered_tokens / total}))
    if not rows.timed:
        warned.append(Warned("untimed", {}))
    return warned


def convert(workload: Workload, format_: str, target: Path, source: Path) -> list[str]:
    """Writes the workload in another format; what it can't hold. ``OutputError``: it can't be written."""
    check_format(format_)
    if target.exists() and target.samefile(source):
        raise OutputError(f"{show_path(target)}: is the trace itself; must be another file")
    written = write(workload, format_)
    store.write_file(target, written.chunks, ours=nothing_is_ours)
    return written.lost


def check_format(format_: str) -> None:
    if format_ not in FORMS:
        raise ScenarioError(f"--to {show(format_)}: {unknown_name(format_, list(FORMS))}")


def save_workload(workloads: Sequence[Workload], target: Path) -> list[str]:
    """The workload that the first run met, to be read as format ``headway``; one of ours is replaced.

    Requests that the run never sent are left out: a later turn, say, whose turn before had not ended at the horizon.
    What to note: how many these are, and whether other runs met another workload.
    """
    first, *others = workloads
    sent = np.flatnonzero(first.arrival_ns != NEVER)
    unsent = len(first) - len(sent)
    saved = kept(replace(first, sending=None), sent) if unsent else first
    store.write_file(target, (line.encode("utf-8") for line in lines_of(saved)), ours=is_workload)
    notes = [f"{show_path(target)} leaves out {unsent} of {len(first)} requests, which were never sent"] * bool(unsent)
    if any(other is not first and other.sha256() != first.sha256() for other in others):
        notes.append(f"{show_path(target)} has the workload of the first run; others met another one")
    return notes


def check_saving(target: Path) -> None:
    """``OutputError``: what stands there is not ours to replace."""
    store.check_writable(target, "file", ours=is_workload)


def is_workload(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(64).startswith(f'{{"headway": "{VERSION}"}}'.encode())
