"""What the record does not show: the job that the horizon cut off, worked out by the rules of the policy."""

from typing import NamedTuple

import numpy as np

from sim.analysis import troubles
from sim.analysis.cost import Work, job_ns
from sim.analysis.decisions import decide
from sim.analysis.exact import FOREVER
from sim.analysis.facts import Facts
from sim.analysis.timetable import Timetable
from sim.request import Ints


class CutOff(NamedTuple):
    """Who joined ``running`` with that job, and when it would have ended; nobody and ``None`` without one."""

    joined: list[int]
    end_ns: int | None


def cut_off(facts: Facts, timetable: Timetable) -> CutOff:
    """The job of the decision after the last one, which was still under way at the horizon."""
    if timetable.cut_ns == FOREVER:
        return CutOff([], None)
    due, last = decide(facts, timetable), facts.jobs
    decision = len(facts.pieces)
    axes, goes = facts.claims.axes, timetable.goes
    admitted, chunks, decodes = (int(column[decision]) for column in due)
    here = timetable.sent & (timetable.arrives <= last) & (goes > last)
    queue = np.flatnonzero(here & (facts.admitted_job == FOREVER))
    joined = queue[np.argsort(facts.workload.arrival_ns[queue], kind="stable")][:admitted]
    runs = np.flatnonzero((facts.admitted_job < FOREVER) & (goes > last))
    runs = runs[np.argsort(facts.admission_place[runs])]
    ready = facts.completed_job[runs] < FOREVER
    prefilling = np.concatenate([runs[~ready], joined])[:chunks]
    left = facts.workload.prompt_tokens[prefilling] - facts.scheduled[prefilling]
    if axes.composition == "alternate":
        left = np.minimum(left, axes.chunk_tokens)
    context = facts.scheduled[runs[ready]] + 1 if decodes else left[:0]
    work = Work(_one(left.sum()), _one(decodes), _one(context.sum()), _one(0))
    scenario = facts.claims.scenario
    ends_ns = troubles.ends(scenario, _one(timetable.cut_ns), job_ns(scenario, work))
    return CutOff(joined.tolist(), int(ends_ns[0]))


def _one(value: int) -> Ints:
    return np.array([value], dtype=np.int64)
