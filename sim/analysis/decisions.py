"""What a policy must decide, as numbers: how many join, prefill and decode, given how many wait, prefill and decode."""

from typing import NamedTuple

import numpy as np

from sim.analysis.exact import FOREVER
from sim.analysis.facts import Facts
from sim.analysis.timetable import Timetable
from sim.request import Ints


class Decisions(NamedTuple):
    """Per piece, of a decision: how many requests are admitted, are given a chunk, and decode."""

    admitted: Ints
    chunks: Ints
    decodes: Ints


def decide(facts: Facts, timetable: Timetable, *, again: bool = False) -> Decisions:
    """Every decision of the run by the rules of its composition and batching, all at once: the first of each piece.

    ``again``: those behind it, for which the job before is one of the same piece and all who joined run.
    """
    axes = facts.claims.axes
    waiting, running, decoding = timetable.waiting, timetable.running, timetable.decoding
    if again:
        joined = np.append(facts.admissions, np.zeros(len(waiting) - len(facts.admissions), dtype=np.int64))
        waiting, running = waiting - joined, running + joined
    prefilling = running - decoding
    most = FOREVER if axes.max_running is None else axes.max_running
    places = np.maximum(most - running, 0)
    joins = np.minimum(waiting, places)
    if axes.batching == "static":  # a whole batch when nobody runs; then nobody
        batch = np.where(running == 0, joins, 0)
        prefilling, joins = prefilling + batch, np.zeros_like(joins)
    else:
        batch = np.zeros_like(joins)
    can_prefill = prefilling + joins
    if axes.composition == "alternate":
        decoded = np.zeros(len(waiting), dtype=bool)
        before = facts.chunks == 0
        decoded[1:] = before[: len(waiting) - 1]
        if again:
            decoded[: len(before)] = before
        chunks = np.where((can_prefill > 0) & (decoded | (decoding == 0)), 1, 0)
    else:
        chunks = np.minimum(can_prefill, axes.prefills_per_job or FOREVER)
    return Decisions(
        admitted=batch + np.maximum(chunks - prefilling, 0),
        chunks=chunks,
        decodes=np.where(chunks == 0, decoding, 0),
    )
