"""Who sends the requests: processes as a user of SimPy would write them."""

from collections.abc import Generator
from typing import Protocol

import numpy as np
from simpy import Environment, Event, Timeout

from sim.request import NEVER, Request, Workload


class Server(Protocol):
    """What a client sees of the scheduler."""

    def submit(self, request: Request) -> Event: ...

    def cancel(self, request: Request) -> None: ...


def open_loop(
    env: Environment, server: Server, workload: Workload, max_model_tokens: int = 0
) -> Generator[Event, object, None]:
    """Start each request's process when it is due, whatever the server does; ties in the order of the file.

    One that is cancelled before it would arrive is withdrawn at that time and never sent.
    """
    cancel_ns, arrival_ns = workload.cancel_ns, workload.arrival_ns
    due_ns = np.where((cancel_ns != NEVER) & (cancel_ns < arrival_ns), cancel_ns, arrival_ns)
    order = np.argsort(due_ns, kind="stable")
    now_ns = int(env.now)
    for spec in workload.specs(order):
        withdrawn = spec.cancel_ns is not None and spec.cancel_ns < spec.arrival_ns
        at_ns = spec.arrival_ns if spec.cancel_ns is None else min(spec.arrival_ns, spec.cancel_ns)
        if at_ns > now_ns:
            yield Timeout(env, at_ns - now_ns)
            now_ns = at_ns
        request = Request(spec, max_model_tokens)
        if withdrawn:
            server.cancel(request)
        else:
            env.process(lifetime(env, server, request))


def lifetime(env: Environment, server: Server, request: Request) -> Generator[Event, object, None]:
    """One request: sent, then waited for until it has ended or nobody wants it any more."""
    end = server.submit(request)
    if request.spec.cancel_ns is not None:
        yield end | env.timeout(request.spec.cancel_ns - int(env.now))
        server.cancel(request)
    yield end
