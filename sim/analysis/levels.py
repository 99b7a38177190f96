"""How long the pool stood at which level, from the rows of a record: some jobs at a time."""

import numpy as np

from sim.analysis.moments import Moments
from sim.record.tables import Record
from sim.request import Ints


def levels_of(record: Record, blocks: int) -> tuple[Ints, Ints]:
    """``(blocks in use, ns)``: each level that there was, once, and how long all jobs on it took together."""
    table, levels, lasted_ns = record.rows, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    begins = record.stretches.first_decoding
    for laid in Moments(record.stretches).laid():
        used = (blocks - table["withheld_blocks"] - table["free_blocks"])[laid.row]
        low, high = int(begins[laid.rows.start]), int(begins[laid.rows.stop])
        if len(laid.row) > laid.rows.stop - laid.rows.start:
            upto = np.cumsum(np.bincount(record.growths(low, high) - low, minlength=high - low))
            decodes = np.flatnonzero(table["decode_requests"][laid.row] > 0)
            used[decodes] += upto - upto[begins[laid.row[decodes]] - low]
        levels, lasted_ns = _together(np.append(levels, used), np.append(lasted_ns, laid.ends_ns - laid.starts_ns))
    return levels, lasted_ns


def _together(levels: Ints, lasted_ns: Ints) -> tuple[Ints, Ints]:
    """Each level once, in order."""
    each, place = np.unique(levels, return_inverse=True)
    sums_ns = np.zeros(len(each), dtype=np.int64)
    np.add.at(sums_ns, place, lasted_ns)
    return each, sums_ns
