"""The device: a resource with one place, which its scheduler holds. It runs one job at a time."""

from collections.abc import Callable, Generator
from typing import NoReturn

from simpy import Environment, Event, Resource, Timeout
from simpy.resources.resource import Request as Slot

from sim.clock import MAX_NS
from sim.costs.base import CostModel, Work
from sim.costs.line import Line
from sim.engine.faults import NONE, Troubles
from sim.engine.plan import Job
from sim.errors import InvariantError, LimitError


class Device(Resource):
    """Runs the jobs of whoever holds it; how long each takes, the cost model says."""

    def __init__(self, env: Environment, cost: CostModel, troubles: Troubles = NONE) -> None:
        super().__init__(env, capacity=1)
        self.cost = cost
        self.troubles = troubles
        self._busy_until_ns = 0
        self._can_fail = bool(troubles.stalls or troubles.slow)
        self._end: Timeout | None = None
        self._line: Callable[[Work], Line | None] = getattr(cost, "line", _no_line)

    def hold(self) -> Generator[Event, None, Slot]:
        """Take the device for good (a scheduler does so once, at its start)."""
        slot = self.request()
        yield slot
        return slot

    def submit(self, job: Job) -> Timeout:
        """Start ``job`` now; the event returned is its end. Its start and end are noted on it.

        Of the ``most`` jobs like it, those that can be are run as one: then their line and count are noted as well.
        """
        now_ns = job.start_ns = int(self._env.now)
        if not self.users or now_ns < self._busy_until_ns:
            raise InvariantError(f"job {job.number} submitted at {now_ns} ns to a device that its submitter can't use")
        if not (job.most and self._runs_alike(job, now_ns)):
            job.end_ns = self._end_alone(now_ns, job.work)
        end_ns = job.end_ns
        if not now_ns <= end_ns < MAX_NS:
            self._refuse(job)
        self._busy_until_ns = end_ns
        end = self._end = Timeout(self._env, end_ns - now_ns)
        return end

    def _runs_alike(self, job: Job, now_ns: int) -> bool:
        """Make it as many jobs like it as end on one line before anything goes wrong; False if it has to run alone."""
        line, count = self._line(job.work), job.most
        if line is None:
            return False
        ends_ns = line.ends_ns(count)
        last_ns = self.troubles.quiet_until_ns(now_ns) if self._can_fail else MAX_NS - 1
        if last_ns <= now_ns:
            return False
        if now_ns + ends_ns > last_ns:
            count, ends_ns = line.within(last_ns - now_ns, count)
            if not count:
                return False
        job.line, job.count, job.end_ns = line, count, now_ns + ends_ns
        return True

    def _end_alone(self, now_ns: int, work: Work) -> int:
        if self._can_fail:
            return self.troubles.end_ns(now_ns, self.cost, work)
        return now_ns + self.cost.job_ns(work)

    def _refuse(self, job: Job) -> NoReturn:
        if job.end_ns < job.start_ns:
            raise InvariantError(f"job {job.number} would end before it starts; a cost model answers 0 ns or more")
        raise LimitError(f"job {job.number} would end at {job.end_ns} ns, beyond the range of the clock ({MAX_NS})")

    def shorten(self, job: Job, count: int, end_ns: int) -> None:
        """What runs now are only ``count`` jobs; whoever waits for its end is told at the new one."""
        late_end = self._end
        if late_end is None or late_end.callbacks is None:
            raise InvariantError(f"job {job.number} is shortened, and does not run")
        job.count, job.end_ns, self._busy_until_ns = count, end_ns, end_ns
        end = self._end = Timeout(self._env, end_ns - int(self._env.now))
        end.callbacks, late_end.callbacks = late_end.callbacks, []


def _no_line(_work: Work) -> None:
    """For a cost model that says nothing about jobs to come."""
