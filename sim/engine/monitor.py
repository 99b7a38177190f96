"""Observers of a run while it runs. They are called; they never poll."""

from collections.abc import Callable, Iterable
from typing import Any

from sim.engine.plan import Job
from sim.request import Request, Status


class Monitor:
    """A monitor that does nothing: say in a subclass what you want to hear of. What is left as it is costs nothing."""

    def on_arrival(self, request: Request, jobs_begun: int) -> None: ...

    def on_job(self, job: Job) -> None:
        """``job`` has ended, and with it ``job.count - 1`` more of its like that came right behind it.

        Its tokens are not booked yet: ``computed`` and ``emitted`` are as it found them.
        """

    def on_stretch(self, request: Request, first: int, jobs: int, grows: int) -> None:
        """``request`` decoded in ``jobs`` decoding jobs in a row, from number ``first`` on, and does so no longer.

        It took its first new block in decoding job ``grows``, and one more every block of tokens (NEVER: not so).
        """

    def on_end(self, request: Request, status: Status, reason: str | None, now_ns: int, jobs_begun: int) -> None: ...


def tellers(monitors: Iterable[Monitor], name: str) -> list[Callable[..., Any]]:
    """The method of this name of each monitor that has one of its own, in order: all are called to tell something."""
    nothing = getattr(Monitor, name)
    own = [monitor for monitor in monitors if getattr(type(monitor), name, nothing) is not nothing]
    return [getattr(monitor, name) for monitor in own]
