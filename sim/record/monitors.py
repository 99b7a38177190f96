"""Observers of a run while it runs. The record itself is kept by another one, :class:`sim.record.log.Log`."""

from collections.abc import Callable
from decimal import Decimal
from time import monotonic
from typing import NoReturn

from sim.clock import ms_text
from sim.engine.monitor import Monitor
from sim.engine.plan import Job
from sim.errors import LimitError, StalledError
from sim.request import Request, Status

LOOK_EVERY = 256
"""After so many jobs, or stretches of jobs, a monitor looks at the real clock."""


class Countdown(Monitor):
    """Calls ``when_done`` once ``requests`` requests have ended."""

    def __init__(self, requests: int, when_done: Callable[[], object]) -> None:
        self.left = requests
        self._when_done = when_done

    def on_end(self, request: Request, status: Status, reason: str | None, now_ns: int, jobs_begun: int) -> None:
        self.skip(1)

    def skip(self, requests: int) -> None:
        """So many more need not be waited for."""
        self.left -= requests
        if not self.left:
            self._when_done()


class Limits(Monitor):
    """Raises ``LimitError`` when the run has taken more than so many jobs, or seconds of real time."""

    def __init__(self, max_jobs: int | None, max_seconds: Decimal | None) -> None:
        self._max_jobs = max_jobs
        self._max_seconds = max_seconds
        self._began = monotonic()
        self._told = 0
        self.any = max_jobs is not None or max_seconds is not None

    def on_job(self, job: Job) -> None:
        if self._max_jobs is not None and job.number + job.count > self._max_jobs:
            before = self._max_jobs - job.number
            start_ns = job.start_ns + (job.line.ends_ns(before) if before and job.line else 0)
            self._stop(f"{self._max_jobs} jobs (run.max_jobs)", self._max_jobs, start_ns)
        self._told += 1
        if self._max_seconds is None or self._told % LOOK_EVERY:
            return
        if monotonic() - self._began > self._max_seconds:
            self._stop(f"{self._max_seconds} s (run.max_seconds)", job.number, job.start_ns)

    def _stop(self, limit: str, jobs: int, start_ns: int) -> NoReturn:
        raise LimitError(f"stopped after {limit}: {jobs} jobs, {ms_text(start_ns)} ms of simulated time")


class Liveness(Monitor):
    """Raises ``StalledError`` when requests only throw each other out, for ever.

    A job that emits nothing computes at least one token or copies a block. Without preemption, so many in a row that
    the pool's slots are passed several times can't be; with it they are a circle, unless something from outside may
    still break it: until ``quiet_from_ns`` only jobs of one instant count.
    """

    def __init__(self, pool_tokens: int, quiet_from_ns: int) -> None:
        self._most_jobs = 4 * pool_tokens + 1000
        self._quiet_from_ns = quiet_from_ns
        self._jobs = 0
        self._since_ns = 0

    def expect(self, ns: int) -> None:
        """Something from outside is to come at this time."""
        self._quiet_from_ns = max(self._quiet_from_ns, ns)

    def on_job(self, job: Job) -> None:
        if job.decoding:
            self._jobs, self._since_ns = 0, job.end_ns
            return
        emits = job.work.decode_requests or any(
            c.request.computed + c.tokens == c.request.prefill_end for c in job.chunks
        )
        goes_on = job.start_ns > self._since_ns and job.start_ns < self._quiet_from_ns
        if emits or goes_on:
            self._jobs, self._since_ns = 0, job.end_ns
            return
        self._jobs += 1
        if self._jobs > self._most_jobs:
            raise StalledError(
                f"no progress: {self._jobs} jobs without a token, up to {ms_text(job.end_ns)} ms of simulated time; "
                f"requests throw each other out of the pool, the last ones {[c.request.id for c in job.chunks]}"
            )


class Progress(Monitor):
    """Tells ``show`` now and then how many requests have ended and how far the simulated time is."""

    def __init__(self, show: Callable[[int, int], object], every_s: float = 0.2) -> None:
        self._show = show
        self._every_s = every_s
        self._ended = 0
        self._told = 0
        self._next = monotonic() + every_s

    def on_job(self, job: Job) -> None:
        looks = self._told % LOOK_EVERY == 0
        self._told += 1
        if looks and monotonic() > self._next:
            self._next = monotonic() + self._every_s
            self._show(self._ended, job.end_ns)

    def on_end(self, request: Request, status: Status, reason: str | None, now_ns: int, jobs_begun: int) -> None:
        self._ended += 1
