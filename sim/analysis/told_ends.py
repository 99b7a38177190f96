"""How each request ended as the record has it, and what of that can be checked without making any decision again."""

from collections.abc import Iterator

import numpy as np

from sim.analysis.checks_tables import time
from sim.analysis.exact import FOREVER, Mask, whole_ns
from sim.analysis.facts import Facts
from sim.analysis.findings import Difference
from sim.request import NEVER, Ints, Status


class ToldEnds:
    """Columns, one entry a request (:class:`sim.analysis.ends.Ends`). Who finishes is told by the tokens."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._told = told = facts.record.requests
        self.status = told["status"]
        self.finishes: Mask = facts.all_emitted & (facts.emitted > 0)
        self.sent: Mask = (told["arrived_job"] != NEVER) & (self.status != Status.REJECTED)
        self.gone_ns = np.where(self.finishes, facts.last_token_ns, _or_forever(told["ended_ns"]))
        self.arrives = np.where(self.sent, told["arrived_job"], FOREVER)
        self.goes = np.where(self.finishes, facts.last_token_job + 1, _or_forever(told["ended_job"]))

    def differences(self) -> Iterator[Difference]:
        """Who has emitted all has finished, who is cancelled was so in time; a horizon leaves others unfinished."""
        horizon_ms = self._facts.claims.scenario.run.horizon_ms
        cancel_ns, status, ended_ns = self._facts.workload.cancel_ns, self.status, self._told["ended_ns"]
        finished, cancelled = status == Status.FINISHED, status == Status.CANCELLED
        yield from self._rows(finished != self.finishes, "finished", self.finishes, finished)
        yield from self._rows(cancelled & ((cancel_ns == NEVER) | (ended_ns < cancel_ns)), "ended", cancel_ns, ended_ns)
        if horizon_ms is None:
            yield from self._rows(status == Status.UNFINISHED, "unfinished", self.finishes * 0, finished + 1)
        goes = self._told["ended_job"]
        yield from self._rows(finished & (goes != self.goes), "ended_job", self.goes, goes)
        yield from self._arrivals(FOREVER if horizon_ms is None else whole_ns(horizon_ms))

    def _arrivals(self, horizon_ns: int) -> Iterator[Difference]:
        """Before which job each request came. A decision that copies begins all of its jobs at once: then not asked."""
        facts, arrival_ns = self._facts, self._facts.workload.arrival_ns
        withdrawn = (facts.workload.cancel_ns != NEVER) & (facts.workload.cancel_ns < arrival_ns)
        comes, found = ~withdrawn & (arrival_ns <= horizon_ns) & (arrival_ns != NEVER), self._told["arrived_job"]
        yield from self._rows((found != NEVER) != comes, "arrives", comes, found != NEVER)
        if len(facts.record.copies["job"]):
            return
        due, _ = facts.pieces.moments.begun_before(arrival_ns)
        late = (due == facts.jobs) & (found == facts.jobs + 1)  # after the start of a job that the horizon cut off
        if facts.workload.sending is not None:  # who is sent because a decision ended another one comes after it
            late |= found == facts.pieces.moments.begun_before(arrival_ns + 1)[0]
        yield from self._rows(comes & (found != due) & ~late, "arrived_job", due, found)

    def _rows(self, wrong: Mask, name: str, due: Ints | Mask, found: Ints | Mask) -> Iterator[Difference]:
        for index in np.flatnonzero(wrong).tolist():
            values = [time(column[index]) if name == "ended" else int(column[index]) for column in (due, found)]
            yield Difference(f"{self._facts.claims.request(index)}, {name}", *values)


def _or_forever(column: Ints) -> Ints:
    return np.where(column == NEVER, FOREVER, column)
