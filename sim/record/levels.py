"""How long the pool stood at which level: from the rows of a record, without a row per job."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sim.record.tables import Record
from sim.request import Ints

CHANGES_AT_ONCE = 2**18
JOBS_A_CHANGE = 4
"""So many changes of the level are laid out together; a few jobs without one cost as much."""

MOST_COUNTED = 2**22
"""Levels below this are counted in an array."""


class Levels(NamedTuple):
    """Blocks in use, each level once and in order, and for how many ns in all jobs together."""

    used_blocks: Ints
    duration_ns: Ints


def pool_levels(record: Record, blocks: int) -> Levels:
    """Levels as they stood once each job was scheduled, over the durations of the jobs."""
    levels: dict[int, int] = {}
    for used, duration_ns in _pieces(record, blocks):
        for level, total_ns in zip(*_summed(used, duration_ns), strict=True):
            levels[level] = levels.get(level, 0) + total_ns
    used_blocks = sorted(levels)
    return Levels(
        np.array(used_blocks, dtype=np.int64), np.array([levels[each] for each in used_blocks], dtype=np.int64)
    )


def _summed(used: Ints, duration_ns: Ints) -> tuple[list[int], list[int]]:
    """Each level once, and its durations added up."""
    if len(used) and int(used.max()) < MOST_COUNTED and int(duration_ns.sum()) < 2**53:  # floats are exact up to there
        level = np.flatnonzero(np.bincount(used))
        return level.tolist(), np.bincount(used, weights=duration_ns)[level].astype(np.int64).tolist()
    level, place = np.unique(used, return_inverse=True)
    total_ns = np.zeros(len(level), dtype=np.int64)
    np.add.at(total_ns, place, duration_ns)
    return level.tolist(), total_ns.tolist()


def _pieces(record: Record, blocks: int) -> Iterator[tuple[Ints, Ints]]:
    """(used blocks, duration): an entry for as long as a row stays on a level, some rows at a time."""
    stretches, table = record.stretches, record.rows
    used = blocks - table["withheld_blocks"] - table["free_blocks"]
    start_ns, end_ns = table["start_ns"], table["end_ns"]
    decodes = table["decode_requests"] > 0
    yield used[~decodes], (end_ns - start_ns)[~decodes]
    rows = np.flatnonzero(decodes)
    changes = table["jobs"] * table["decode_requests"] // max(record.block_tokens, 1)  # about so many blocks are taken
    upto = np.cumsum((table["jobs"] // JOBS_A_CHANGE + changes)[rows])
    first = 0
    while first < len(rows):
        done = upto[first - 1] if first else 0
        after = max(int(np.searchsorted(upto, done + CHANGES_AT_ONCE, side="right")), first + 1)
        row, place, grown = _steps(record, rows[first:after])
        begins_ns = start_ns[row]
        inside = np.flatnonzero(place)
        begins_ns[inside] = stretches.ends_ns(row[inside], place[inside])
        ends_ns = np.append(begins_ns[1:], 0)
        last = np.append(row[1:] != row[:-1], True)
        ends_ns[last] = end_ns[row[last]]
        yield used[row] + grown, ends_ns - begins_ns
        first = after


def _steps(record: Record, rows: Ints) -> tuple[Ints, Ints, Ints]:
    """Where these rows, which decode, change their level: (row, its jobs before, blocks taken in them and then)."""
    stretches = record.stretches
    low, high = int(stretches.first_decoding[rows[0]]), int(stretches.first_decoding[rows[-1] + 1])
    begins = stretches.first_decoding[rows] - low
    taken = np.bincount(record.growths(low, high) - low, minlength=high - low)
    taken[begins] = 0  # the first job of a row is told by the row itself
    changes = taken > 0
    changes[begins] = True
    number = np.flatnonzero(changes)
    upto = np.cumsum(taken[number])
    first = np.flatnonzero(np.isin(number, begins, assume_unique=True))
    entries = np.diff(np.append(first, len(number)))
    place = number - np.repeat(number[first], entries)
    return np.repeat(rows, entries), place, upto - np.repeat(upto[first], entries)
