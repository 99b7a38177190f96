"""What a trace came to: its requests in order of arrival; passes of them behind each other, and faster ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np

from sim.errors import ScenarioError
from sim.fields import MAX_INSTANT_MS
from sim.request import NEVER, Ints, Pieces
from sim.show import show

MAX_LOOPED = 10**7
"""Most requests that ``loop`` makes of a trace."""


@dataclass(frozen=True)
class TraceRows:
    """The requests of a trace in order of arrival, ties in the order of the file. Columns are int64.

    ``arrival_ns`` counts from the first of them. ``sha256`` is of the file as it is stored. ``rows_read`` counts the
    rows looked at, skipped ones included; ``unsorted`` those that stand behind a later one in the file; ``zero_rows``
    those left out for want of tokens. ``more`` has columns by key that not every request's default fills; ``texts``
    likewise. ``notes`` say what a reader might not expect.
    """

    arrival_ns: Ints
    prompt_tokens: Ints
    output_tokens: Ints
    sha256: str
    rows_read: int
    unsorted: int
    format: str = "auto"
    zero_rows: int = 0
    more: Mapping[str, Ints] = field(default_factory=dict)
    texts: Mapping[str, list[str]] = field(default_factory=dict)
    pieces: Pieces | None = None
    timed: bool = True
    notes: tuple[str, ...] = ()


def looped(rows: TraceRows, loop: int, speedup: Decimal) -> TraceRows:
    """``loop`` passes one after the other, a mean gap of the trace between them; then all times by ``speedup``.

    A pass is later by the span and the mean gap, rounded half up. Ids of later passes end with ``+2``, ``+3``, …
    """
    count = len(rows.arrival_ns)
    if loop > 1 and count:
        if count * loop > MAX_LOOPED:
            raise ScenarioError(f"workload.trace.loop = {loop}: {count * loop} requests; at most {MAX_LOOPED}")
        span = int(rows.arrival_ns.max() - rows.arrival_ns.min())
        period = span + ((2 * span + count - 1) // (2 * (count - 1)) if count > 1 else 0)
        rows = replace(rows, **_passes(rows, loop, period))
    up = speedup.as_integer_ratio()
    if up[0] == up[1]:
        return rows
    times = {key: rows.more[key] for key in ("deadline", "cancel") if key in rows.more}
    sped = {key: np.where(t == NEVER, NEVER, faster(np.where(t == NEVER, 0, t), speedup)) for key, t in times.items()}
    return replace(rows, arrival_ns=faster(rows.arrival_ns, speedup), more={**rows.more, **sped})


def _passes(rows: TraceRows, loop: int, period: int) -> dict[str, Any]:
    count = len(rows.arrival_ns)
    turns = np.repeat(np.arange(loop), count)
    if loop * period + int(rows.arrival_ns.max()) > MAX_INSTANT_MS * 10**6:
        raise ScenarioError(f"workload.trace.loop = {loop}: too many; the last arrival may be at most "
                            f"{MAX_INSTANT_MS} ms")  # fmt: skip
    more = {key: np.tile(values, loop) for key, values in rows.more.items()}
    for key, step in (("deadline", period), ("cancel", period), ("parent", count)):
        if key in more:
            more[key] = np.where(more[key] == NEVER, NEVER, more[key] + turns * step)
    texts = {key: values * loop for key, values in rows.texts.items()}
    if "id" in texts:
        ids = rows.texts["id"]
        texts["id"] = [f"{id_}+{turn}" if turn > 1 and id_ else id_ for turn in range(1, loop + 1) for id_ in ids]
        if (longest := max(map(len, texts["id"]))) > 256:
            raise ScenarioError(f"workload.trace.loop = {loop}: an id of {longest} characters; at most 256")
        if len(set(filter(None, texts["id"]))) < sum(map(bool, texts["id"])):
            raise ScenarioError(f"workload.trace.loop = {loop}: ids of later passes are already there")
    return {
        "arrival_ns": np.tile(rows.arrival_ns, loop) + turns * period,
        "prompt_tokens": np.tile(rows.prompt_tokens, loop),
        "output_tokens": np.tile(rows.output_tokens, loop),
        "more": more,
        "texts": texts,
        "pieces": None if rows.pieces is None else rows.pieces.take(np.tile(np.arange(count), loop)),
    }


def faster(time_ns: Ints, speedup: Decimal) -> Ints:
    """Times in ns (at least 0) divided by ``speedup``, rounded half up; exact whatever the numbers."""
    up, down = speedup.as_integer_ratio()
    if up == down or not len(time_ns):
        return time_ns
    latest = int(time_ns.max())
    if (2 * latest * down + up) // (2 * up) > MAX_INSTANT_MS * 10**6:
        raise ScenarioError(
            f"workload.trace.speedup = {show(speedup)}: too small; the last arrival may be at most {MAX_INSTANT_MS} ms"
        )
    if 2 * latest * down + up < 2**62 and 2 * up < 2**62:
        return (2 * down * time_ns + up) // (2 * up)
    return np.array([(2 * ns * down + up) // (2 * up) for ns in time_ns.tolist()], dtype=np.int64)
