"""Who sends the requests: processes as a user of SimPy would write them."""

from collections.abc import Callable, Generator
from typing import NamedTuple, Protocol

import numpy as np
from simpy import Environment, Event, Timeout

from sim.request import NEVER, Request, RequestSpec, Status, Workload


class Server(Protocol):
    """What a client sees of the scheduler."""

    def submit(self, request: Request) -> Event:
        """The event fires when the request has ended; its value says how (a :class:`~sim.request.Status`)."""
        ...

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


BEHIND_DECISION_NS = 1
"""A decision ends who was cancelled, and its client acts after it: an instant later, so that the order shows."""


class Wishes(NamedTuple):
    """What clients tell whoever runs the model.

    ``skip``: so many rows will not be sent after all. ``expect``: until this time, in ns, something may come of them.
    """

    skip: Callable[[int], object]
    expect: Callable[[int], object]


class Clients:
    """Those who send a workload that has :class:`~sim.request.Sending`: users, sessions, and who loses patience.

    ``arrival_ns`` and ``cancel_ns`` fill with when each request was sent, and when its client gave it up; ``needed``
    says of which rows there was something to send: none where the attempt before was not in vain.
    """

    def __init__(
        self, env: Environment, server: Server, workload: Workload, wishes: Wishes, max_model_tokens: int = 0
    ) -> None:
        sending = workload.sending
        if sending is None:
            raise TypeError("a workload without clients")
        self.arrival_ns = workload.arrival_ns.copy()
        self.cancel_ns = workload.cancel_ns.copy()
        self.needed = sending.attempt == 0
        self._env = env
        self._server = server
        self._workload = workload
        self._sending = sending
        self._wishes = wishes
        self._max_model_tokens = max_model_tokens
        self._retries = int(sending.attempt.max(initial=0))
        waits = np.flatnonzero(self.needed & (sending.after != NEVER))
        self._next = dict(zip(sending.after[waits].tolist(), waits.tolist(), strict=True))

    def arrive(self) -> Generator[Event, object, None]:
        """Start each client's process when its first request is due; ties in the order of the file."""
        starts = np.flatnonzero(self.needed & (self._sending.after == NEVER))
        arrival_ns, cancel_ns = self._workload.arrival_ns[starts], self._workload.cancel_ns[starts]
        due_ns = np.where((cancel_ns != NEVER) & (cancel_ns < arrival_ns), cancel_ns, arrival_ns)
        order = np.argsort(due_ns, kind="stable")
        for spec, at_ns in zip(self._workload.specs(starts[order]), due_ns[order].tolist(), strict=True):
            if at_ns > self._env.now:
                yield self._env.timeout(at_ns - int(self._env.now))
            self._env.process(self.client(spec))

    def client(self, first: RequestSpec) -> Generator[Event, object, None]:
        """Sends a request, waits for its end, thinks, and sends its next one, until there is none."""
        spec = first
        while True:
            status, left = yield from self._served(spec)
            row, pause_ns = self._next_row(spec.index, left=left)
            if row is None:
                return
            if status is Status.CANCELLED:
                pause_ns = max(pause_ns, BEHIND_DECISION_NS)
            if pause_ns:
                self._wishes.expect(int(self._env.now) + pause_ns)
                yield self._env.timeout(pause_ns)
            spec = self._workload.spec(row)

    def _served(self, spec: RequestSpec) -> Generator[Event, object, tuple[object, bool]]:
        """One request, from now to its end. How it ended, and whether that was because its client lost patience."""
        env, server, row = self._env, self._server, spec.index
        if spec.cancel_ns is not None and spec.cancel_ns < spec.arrival_ns:
            server.cancel(Request(spec, self._max_model_tokens))
            return None, False
        now_ns = self.arrival_ns[row] = int(env.now)
        request = Request(spec._replace(arrival_ns=now_ns), self._max_model_tokens)
        end = server.submit(request)
        patience_ns, cancel_ns = int(self._sending.patience_ns[row]), spec.cancel_ns
        if patience_ns != NEVER and (cancel_ns is None or now_ns + patience_ns < cancel_ns):
            self._wishes.expect(now_ns + patience_ns)
            yield end | env.timeout(patience_ns)
            if not request.ended:
                yield env.timeout(0)  # a token of this very instant is still in time
            if not request.ended and not request.emitted:
                self.cancel_ns[row] = env.now
                server.cancel(request)
                status = yield end
                return status, status is Status.CANCELLED
        if cancel_ns is not None and not request.ended:
            yield end | env.timeout(cancel_ns - int(env.now))
            server.cancel(request)
        return (yield end), False

    def _next_row(self, row: int, *, left: bool) -> tuple[int | None, int]:
        """The row to be sent next, and how long after now: another attempt, or the client's next request."""
        attempt, pause_ns = int(self._sending.attempt[row]), self._sending.pause_ns
        if left and attempt < self._retries:
            again, cancel_ns = row + 1, int(self._workload.cancel_ns[row])
            backoff_ns = max(int(pause_ns[again]), BEHIND_DECISION_NS)
            if cancel_ns == NEVER or self._env.now + backoff_ns < cancel_ns:
                self.needed[again] = True
                return again, backoff_ns
        if attempt < self._retries:
            self._wishes.skip(self._retries - attempt)
        following = self._next.get(row - attempt)
        return (None, 0) if following is None else (following, int(pause_ns[following]))
