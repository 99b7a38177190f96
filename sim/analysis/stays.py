"""Who ran when: from each admission, or each return from the host, to the loss of the blocks or the end."""

from functools import cached_property

import numpy as np

from sim.analysis.exact import FOREVER, Mask
from sim.analysis.facts import Facts
from sim.engine.plan import Kind, Loss
from sim.request import NEVER, Ints, Status


class Stays:
    """Columns, one row a stay, by request and then in time. Jobs are those that tell of it."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        record = facts.record
        admissions, preemptions = record.admissions, record.preemptions
        self._by_request = np.argsort(admissions["request"], kind="stable")
        self.owner = admissions["request"][self._by_request]
        self.first = admissions["job"][self._by_request]
        self.back = admissions["back"][self._by_request] == 1
        lost = np.argsort(preemptions["request"], kind="stable")
        self._lost_owner = preemptions["request"][lost]
        rank = np.arange(len(self.owner)) - np.searchsorted(self.owner, self.owner)
        place = np.searchsorted(self._lost_owner, self.owner) + rank
        self.preempted = place < np.searchsorted(self._lost_owner, self.owner, side="right")
        """Whether it ends with a preemption; the k-th of a request ends its k-th stay."""
        self.loss_row = np.where(self.preempted, np.append(lost, NEVER)[np.where(self.preempted, place, -1)], NEVER)
        """That row of the table of preemptions."""

    @cached_property
    def gone(self) -> Ints:
        """The first job that no longer sees each request, as the record has it; ``FOREVER``: it stays to the end."""
        facts = self.facts
        ended = facts.record.requests["ended_job"]
        status = facts.record.requests["status"]
        leaves = np.where(status == Status.FINISHED, facts.last_token_job + 1, np.where(ended == NEVER, FOREVER, ended))
        return np.where(status == Status.UNFINISHED, FOREVER, leaves)

    @cached_property
    def behind(self) -> Ints:
        """The first job at which the request no longer runs."""
        lost = np.append(self.facts.record.preemptions["job"], NEVER)[self.loss_row]
        return np.where(self.preempted, lost, self.gone[self.owner])

    @cached_property
    def swapped(self) -> Mask:
        """Whether it ends with a copy to the host."""
        loss = np.append(self.facts.record.preemptions["loss"], NEVER)[self.loss_row]
        swapped: Mask = np.equal(loss, Loss.SWAP)
        return self.preempted & swapped

    @cached_property
    def tokens_lost(self) -> Ints:
        """What the record says was computed when it ended with a preemption."""
        return np.append(self.facts.record.preemptions["tokens"], 0)[self.loss_row]

    @cached_property
    def life(self) -> Ints:
        """The life that each stay belongs to."""
        return np.cumsum(~self.back) - 1

    @cached_property
    def decision(self) -> Ints:
        """For each piece the first one of its decision: copies out, copies in and the work belong together."""
        facts, pieces = self.facts, self.facts.pieces
        told = np.zeros(len(pieces), dtype=bool)
        for table in (facts.record.admissions, facts.record.preemptions):
            told[pieces.of(table["job"])] = True
        is_swap = pieces.table["kind"] == Kind.SWAP
        same = np.zeros(len(pieces), dtype=bool)
        same[1:] = is_swap[:-1] & ~told[1:] & (facts.starts_ns[1:] == facts.ends_ns[:-1])
        for name in ("waiting", "running", "swapped", "free_blocks"):
            same[1:] &= pieces.table[name][1:] == pieces.table[name][:-1]
        first = np.where(same, 0, np.arange(len(pieces)))
        return np.maximum.accumulate(first) if len(pieces) else first

    @property
    def cut_off(self) -> Mask:
        """The pieces of a last decision of which only copies are told: at a horizon its work may be missing."""
        pieces = self.facts.pieces
        if not len(pieces) or pieces.table["kind"][-1] != Kind.SWAP:
            return np.zeros(len(pieces), dtype=bool)
        last: Mask = self.decision == self.decision[-1]
        return last

    def count(self, weight: Ints) -> Ints:
        """Per piece the sum of the weights of the stays that it lies in."""
        pieces = self.facts.pieces
        steps = np.zeros(len(pieces) + 1, dtype=np.int64)
        np.add.at(steps, pieces.of(self.first), weight)
        np.subtract.at(steps, pieces.of(np.maximum(self.behind, self.first)), weight)
        return np.cumsum(steps)[: len(pieces)]
