"""How each request must have ended, as columns: what the checks of claims are asked of."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from sim.analysis.exact import FOREVER, Mask
from sim.record.again.walk import Ended
from sim.request import NEVER, Ints, Status


class Ends(Protocol):
    """Columns, one entry a request.

    ``sent``: it came within the run and was not turned away. ``gone_ns``: ``FOREVER`` if it is still there, or never
    was. ``arrives``, ``goes``: the first job whose decision sees it, and no longer sees it.
    """

    @property
    def status(self) -> Ints: ...

    @property
    def sent(self) -> Mask: ...

    @property
    def finishes(self) -> Mask: ...

    @property
    def gone_ns(self) -> Ints: ...

    @property
    def arrives(self) -> Ints: ...

    @property
    def goes(self) -> Ints: ...


class CourseEnds:
    """The same of a run that was decided again."""

    def __init__(self, ends: Sequence[Ended]) -> None:
        def column(values: list[int]) -> Ints:
            return np.array(values, dtype=np.int64)

        self.reasons = [end.reason for end in ends]
        self.status = column([end.status for end in ends])
        self.arrived_job = column([end.arrived_job for end in ends])
        self.ended_job = column([end.ended_job for end in ends])
        self.gone_ns = _or_forever(column([end.ended_ns for end in ends]))
        self.finishes: Mask = np.equal(self.status, Status.FINISHED)
        self.sent: Mask = (self.arrived_job != NEVER) & (self.status != Status.REJECTED)
        self.arrives = np.where(self.sent, self.arrived_job, FOREVER)
        self.goes = _or_forever(self.ended_job)


def _or_forever(column: Ints) -> Ints:
    return np.where(column == NEVER, FOREVER, column)
