"""Who must have been there at each decision: what arrivals, cancellations and the horizon demand of the schedule."""

from functools import cached_property

import numpy as np

from sim.analysis.exact import FOREVER, Mask, whole_ns
from sim.analysis.facts import Facts
from sim.request import NEVER, Ints, Status


class Timetable:
    """Requests come at their arrival and go when they have emitted all, or with the first decision after their cancel.

    Decision ``k`` is the one that job k follows from. With a horizon there may be one more after the last job: the
    decision for a job that was still under way when the run was cut off.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._arrival_ns = facts.workload.arrival_ns
        self._cancel_ns = facts.workload.cancel_ns
        horizon_ms = facts.claims.scenario.run.horizon_ms
        self.horizon_ns = FOREVER if horizon_ms is None else whole_ns(horizon_ms)

    @cached_property
    def withdrawn(self) -> Mask:
        """Cancelled before it would arrive: never sent."""
        return np.not_equal(self._cancel_ns, NEVER) & (self._cancel_ns < self._arrival_ns)

    @cached_property
    def sent(self) -> Mask:
        """Whether a request arrives within the run, as far as its workload says."""
        return ~self.withdrawn & (self._arrival_ns <= self.horizon_ns)

    @cached_property
    def _cancelled_ns(self) -> Ints:
        """The first decision at or after each cancel time, as if no job were cut off."""
        facts, cancel_ns = self.facts, self._cancel_ns
        decision_ns = np.where((cancel_ns == NEVER) | (cancel_ns > self.horizon_ns), FOREVER, cancel_ns)
        begun, end_ns = facts.pieces.moments.begun_before(cancel_ns)
        within = (cancel_ns != NEVER) & (begun > 0) & (end_ns >= cancel_ns)
        return np.where(within, end_ns, decision_ns)

    @cached_property
    def _finished_ns(self) -> Ints:
        return np.where(self.facts.all_emitted, self.facts.last_token_ns, FOREVER)

    @cached_property
    def cut_ns(self) -> int:
        """When the job that the horizon cut off began; ``FOREVER`` if there was none."""
        facts = self.facts
        free_ns = int(facts.ends_ns[-1]) if facts.jobs else -1
        gone_ns = np.minimum(self._finished_ns, self._cancelled_ns)
        there = self.sent & (self._arrival_ns <= free_ns) & (gone_ns > free_ns)
        next_ns = free_ns if there.any() else self._next_ns(self._cancelled_ns, free_ns)
        return next_ns if next_ns <= self.horizon_ns and self.horizon_ns != FOREVER else FOREVER

    def _next_ns(self, cancelled_ns: Ints, after_ns: int) -> int:
        comes = self.sent & (self._arrival_ns > after_ns) & (cancelled_ns > self._arrival_ns)
        return int(self._arrival_ns[comes].min()) if comes.any() else FOREVER

    @cached_property
    def cancelled_ns(self) -> Ints:
        """The decision at which each request's cancellation takes effect, ``FOREVER`` if none does."""
        return np.where(self._cancel_ns > self.cut_ns, FOREVER, self._cancelled_ns)

    @cached_property
    def finishes(self) -> Mask:
        return self.facts.all_emitted & (self.facts.last_token_ns <= self.cancelled_ns)

    @cached_property
    def status(self) -> Ints:
        """How each request must have ended."""
        left = Status.FINISHED if self.horizon_ns == FOREVER else Status.UNFINISHED
        otherwise = np.where(self.cancelled_ns < FOREVER, int(Status.CANCELLED), int(left))
        return np.where(self.finishes, int(Status.FINISHED), otherwise)

    @cached_property
    def gone_ns(self) -> Ints:
        """When each request leaves the system; ``FOREVER`` if the horizon finds it there, or not yet there."""
        return np.where(self.finishes, self.facts.last_token_ns, self.cancelled_ns)

    @cached_property
    def decisions(self) -> Ints:
        """The first decision of each piece; at last that of a job that was cut off."""
        cut = [self.facts.jobs] if self.cut_ns < FOREVER else []
        return np.append(self.facts.pieces.first, cut).astype(np.int64)

    def _decisions_before(self, ns: Ints) -> Ints:
        """How many decisions are taken before each instant: at the starts of the jobs, and of one that was cut off."""
        return self.facts.pieces.moments.begun_before(ns)[0] + (ns > self.cut_ns)

    @cached_property
    def arrives(self) -> Ints:
        """The first decision that sees each request; ``FOREVER`` if none does."""
        return np.where(self.sent, self._decisions_before(self._arrival_ns), FOREVER)

    @cached_property
    def goes(self) -> Ints:
        """The first decision that no longer sees each request. Jobs may take no time: who finishes goes by its job."""
        return np.where(self.finishes, self.facts.last_token_job + 1, self._decisions_before(self.gone_ns))

    # Counts for the first decision of each piece, before it decides

    @cached_property
    def waiting(self) -> Ints:
        leaves = np.minimum(self.facts.admitted_job + 1, self.goes)[self.sent]
        arrives = self.arrives[self.sent]
        return self._upto(arrives) - self._upto(np.maximum(leaves, arrives))

    @cached_property
    def running(self) -> Ints:
        return self._between(self.facts.admitted_job)

    @cached_property
    def decoding(self) -> Ints:
        """Of those that run, how many have their prompt computed."""
        return self._between(self.facts.completed_job)

    def _between(self, job: Ints) -> Ints:
        """How many requests are past their ``job`` and not gone."""
        ever = job < FOREVER
        return self._upto(job[ever] + 1) - self._upto(np.maximum(self.goes, job + 1)[ever])

    def _upto(self, places: Ints) -> Ints:
        return np.searchsorted(np.sort(places), self.decisions, side="right")

    # Instants

    @cached_property
    def due_starts_ns(self) -> Ints:
        """The earliest moment at which each piece may start: somebody is there, or the next one comes."""
        facts, cancelled = self.facts, self.sent & ~self.finishes
        free_ns = np.concatenate([[-1], facts.ends_ns[:-1]]).astype(np.int64)[: len(facts.pieces)]
        came = np.sort(self._arrival_ns[self.sent])
        went = np.sort(np.maximum(self.gone_ns, self._arrival_ns)[cancelled])
        there = np.searchsorted(came, free_ns, side="right") - np.searchsorted(went, free_ns, side="right")
        finished = np.sort(facts.last_token_job[self.sent & self.finishes] + 1)
        there -= np.searchsorted(finished, facts.pieces.first, side="right")
        stays = self.sent & (self.finishes | (self.gone_ns > self._arrival_ns))
        coming = np.append(np.sort(self._arrival_ns[stays]), FOREVER)
        return np.where(there > 0, free_ns, coming[np.searchsorted(coming[:-1], free_ns, side="right")])
