"""How long the pool stood at which level: from the rows of a record, without a row per job."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sim.record.tables import Record
from sim.request import Ints

JOBS_AT_ONCE = 2**20
"""So many jobs are laid out together."""


class Levels(NamedTuple):
    """Blocks in use, each level once and in order, and for how many ns in all jobs together."""

    used_blocks: Ints
    duration_ns: Ints


def pool_levels(record: Record, blocks: int) -> Levels:
    """Levels as they stood once each job was scheduled, over the durations of the jobs."""
    levels: dict[int, int] = {}
    for used, duration_ns in _pieces(record, blocks):
        level, place = np.unique(used, return_inverse=True)
        total_ns = np.zeros(len(level), dtype=np.int64)
        np.add.at(total_ns, place, duration_ns)
        for each, ns in zip(level.tolist(), total_ns.tolist(), strict=True):
            levels[each] = levels.get(each, 0) + ns
    used_blocks = sorted(levels)
    return Levels(
        np.array(used_blocks, dtype=np.int64), np.array([levels[each] for each in used_blocks], dtype=np.int64)
    )


def _pieces(record: Record, blocks: int) -> Iterator[tuple[Ints, Ints]]:
    """(used blocks, duration), some rows at a time: one entry for as long as a row stays on a level."""
    stretches, table = record.stretches, record.rows
    used = blocks - table["withheld_blocks"] - table["free_blocks"]
    first = 0
    while first < len(stretches):
        after = int(np.searchsorted(stretches.first, stretches.first[first] + JOBS_AT_ONCE, side="right")) - 1
        rows = np.arange(first, max(after, first + 1))
        row, place, grown = _steps(record, rows)
        begins_ns = np.where(place > 0, stretches.ends_ns(row, place), table["start_ns"][row])
        ends_ns = np.append(begins_ns[1:], 0)
        last = np.append(row[1:] != row[:-1], True)
        ends_ns[last] = table["end_ns"][row[last]]
        yield used[row] + grown, ends_ns - begins_ns
        first = int(rows[-1]) + 1


def _steps(record: Record, rows: Ints) -> tuple[Ints, Ints, Ints]:
    """Where the level changes in these rows: (row, jobs of the row before, blocks taken in the row before and then)."""
    stretches = record.stretches
    begins = stretches.first_decoding[rows]
    low, high = int(begins[0]), int(stretches.first_decoding[rows[-1] + 1])
    taken = np.bincount(record.growths(low, high) - low, minlength=high - low)
    decodes = np.flatnonzero(record.rows["decode_requests"][rows] > 0)
    taken[begins[decodes] - low] = 0  # the first job of a row is told by the row itself
    upto = np.cumsum(taken)
    number = np.flatnonzero(taken)
    inside = rows[decodes][np.searchsorted(begins[decodes], number + low, side="right") - 1]
    row = np.concatenate([rows, inside])
    place = np.concatenate([np.zeros_like(rows), number + low - stretches.first_decoding[inside]])
    at_begin = upto[np.minimum(stretches.first_decoding[inside] - low, max(high - low - 1, 0))] if len(number) else 0
    grown = np.concatenate([np.zeros_like(rows), upto[number] - at_begin])
    order = np.lexsort((place, row))
    return row[order], place[order], grown[order]
