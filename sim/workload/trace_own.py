"""Somebody's own trace format: a row like the built-in ones."""

from dataclasses import replace
from typing import Any

from sim.guard import Guard
from sim.show import show
from sim.workload.trace_layout import CSV, JSONL, KEYS, NEEDED, PARQUET, Layout
from sim.workload.trace_values import ISO, UNITS

CONTAINERS = (CSV, JSONL, PARQUET)


def layout(thing: Any, guard: Guard) -> Layout:
    """A :class:`Layout`. It is asked for by its name only: no file is taken for one by its first lines."""
    if not isinstance(thing, Layout):
        guard.refuse("not a Layout: Layout(container, what, columns, unit)", thing)
    if thing.container not in CONTAINERS:
        guard.refuse(f"container {show(thing.container)}: unknown; one of {', '.join(CONTAINERS)}")
    missing = [key for key in NEEDED if key not in thing.columns]
    unknown = [key for key in thing.columns if key not in KEYS]
    if missing or unknown:
        problem = f"has no {missing[0]}" if missing else f"has {show(unknown[0])}, which no request has"
        guard.refuse(f"columns {problem}; {', '.join(NEEDED)}, and any of {', '.join(KEYS[len(NEEDED) :])}")
    if thing.unit not in (*UNITS, ISO):
        guard.refuse(f"unit {show(thing.unit)}: unknown; one of {', '.join((*UNITS, ISO))}")
    return replace(thing, marks=(), generic=False, timed=True)
