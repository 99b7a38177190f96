"""The device: a resource with one place, which its scheduler holds. It runs one job at a time."""

from collections.abc import Generator

from simpy import Environment, Event, Resource, Timeout
from simpy.resources.resource import Request as Slot

from sim.clock import MAX_NS
from sim.costs.base import CostModel
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

    def hold(self) -> Generator[Event, None, Slot]:
        """Take the device for good (a scheduler does so once, at its start)."""
        slot = self.request()
        yield slot
        return slot

    def submit(self, job: Job) -> Timeout:
        """Start ``job`` now; the event returned is its end. Its start and end are noted on it."""
        now_ns = int(self._env.now)
        if not self.users or now_ns < self._busy_until_ns:
            raise InvariantError(f"job {job.number} submitted at {now_ns} ns to a device that its submitter can't use")
        job.start_ns, job.end_ns = now_ns, self.troubles.end_ns(now_ns, self.cost, job.work)
        if job.end_ns < now_ns:
            raise InvariantError(f"job {job.number} would end before it starts; a cost model answers 0 ns or more")
        if job.end_ns >= MAX_NS:
            raise LimitError(f"job {job.number} would end at {job.end_ns} ns, beyond the range of the clock ({MAX_NS})")
        self._busy_until_ns = job.end_ns
        return Timeout(self._env, job.end_ns - now_ns)
