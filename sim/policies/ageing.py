"""Ageing: whoever has waited long enough, or was passed over often enough, comes before all who have not.

So an order in which somebody could wait for ever starves nobody: beyond the bound it is first come, first served. Who
was admitted so keeps its place in a preemptive order, too: nobody more urgent takes it.
"""

from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Iterator

from sim.engine.queue import Queue, age
from sim.request import Request


class Aged(ABC):
    """A queue in which some are overdue: they come first, the oldest of them before the others."""

    moves = True

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._overdue: list[Request] = []
        """Oldest first."""

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Request]:
        yield from self._overdue
        yield from (request for request in self._queue if request not in self._overdue)

    @property
    def head(self) -> Request | None:
        return self._overdue[0] if self._overdue else self._queue.head

    def add(self, request: Request) -> None:
        self._queue.add(request)
        self._enter(request)

    def put_back(self, request: Request) -> None:
        self._queue.put_back(request)
        self._enter(request)

    def take(self, request: Request) -> None:
        request.overdue = request.overdue or request in self._overdue
        self._leave(request)
        self._queue.take(request)

    def remove(self, request: Request) -> None:
        self._leave(request)
        self._queue.remove(request)

    def settle(self, now_ns: int) -> None:
        self._queue.settle(now_ns)

    @abstractmethod
    def _enter(self, request: Request) -> None:
        """It joined the queue."""

    def _leave(self, request: Request) -> None:
        if request in self._overdue:
            self._overdue.remove(request)


class AgedByTime(Aged):
    """``value_ns`` after its arrival a request is overdue."""

    def __init__(self, queue: Queue, value_ns: int) -> None:
        super().__init__(queue)
        self._value_ns = value_ns
        self._in_time: list[Request] = []
        """Oldest first."""
        self._now_ns = 0

    def settle(self, now_ns: int) -> None:
        super().settle(now_ns)
        self._now_ns = now_ns
        due = 0
        while due < len(self._in_time) and self._is_due(self._in_time[due]):
            insort(self._overdue, self._in_time[due], key=age)
            due += 1
        del self._in_time[:due]

    def _enter(self, request: Request) -> None:
        insort(self._overdue if self._is_due(request) else self._in_time, request, key=age)

    def _is_due(self, request: Request) -> bool:
        return self._now_ns - request.arrival_ns >= self._value_ns

    def _leave(self, request: Request) -> None:
        (self._overdue if request in self._overdue else self._in_time).remove(request)


class AgedByPasses(Aged):
    """After ``most`` admissions of requests that came later, a request is overdue (SGLang bounds ``lpm`` so).

    An admission passes those who waited when its decision began.
    """

    def __init__(self, queue: Queue, most: int) -> None:
        super().__init__(queue)
        self._most = most
        self._passes: dict[int, int] = {}
        """Of those who waited when the decision began, since they joined the queue."""
        self._newcomers: list[Request] = []
        self._waiting: dict[int, Request] = {}

    def settle(self, now_ns: int) -> None:
        super().settle(now_ns)
        for request in self._newcomers:
            self._waiting[request.index], self._passes[request.index] = request, 0
        self._newcomers.clear()

    def _enter(self, request: Request) -> None:
        self._newcomers.append(request)
        if not self._most:
            insort(self._overdue, request, key=age)

    def take(self, request: Request) -> None:
        super().take(request)
        came = age(request)
        for index, other in self._waiting.items():
            if age(other) < came:
                self._passes[index] += 1
                if self._passes[index] == self._most:
                    insort(self._overdue, other, key=age)

    def _leave(self, request: Request) -> None:
        super()._leave(request)
        if self._waiting.pop(request.index, None) is None:
            self._newcomers.remove(request)
        else:
            del self._passes[request.index]
