"""The waiting requests, in queue order. A policy reads them; only the engine changes them."""

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from sim.request import Request

Key = Callable[[Request], tuple[int, ...]]


class Queue(Protocol):
    """Who waits, and who of them is first. Ties everywhere: arrival, then place in the file."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Request]: ...

    @property
    def head(self) -> Request | None: ...

    def add(self, request: Request) -> None:
        """A newcomer."""

    def put_back(self, request: Request) -> None:
        """One that was preempted."""

    def remove(self, request: Request) -> None: ...


class FcfsQueue(deque[Request]):
    """First come, first served: by (arrival, place in the file); who was preempted comes back to the head."""

    @property
    def head(self) -> Request | None:
        return self[0] if self else None

    def add(self, request: Request) -> None:
        """Arrivals of one instant come in the order of the file, whatever woke them."""
        behind: list[Request] = []
        while self and _comes_after(self[-1], request):
            behind.append(self.pop())
        self.append(request)
        self.extend(reversed(behind))

    def put_back(self, request: Request) -> None:
        self.appendleft(request)

    def remove(self, request: Request) -> None:
        if request is self[0]:
            self.popleft()
        else:
            super().remove(request)


class KeyedQueue:
    """The smallest key first; who was preempted comes back to the place of its key."""

    def __init__(self, key: Key) -> None:
        self._key = key
        self._heap: list[tuple[tuple[int, ...], Request]] = []
        self._waiting: dict[int, Request] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Request]:
        return iter(sorted(self._waiting.values(), key=self._ranked))

    @property
    def head(self) -> Request | None:
        while self._heap and self._heap[0][1].index not in self._waiting:
            heapq.heappop(self._heap)
        return self._heap[0][1] if self._heap else None

    def add(self, request: Request) -> None:
        self._waiting[request.index] = request
        heapq.heappush(self._heap, (self._ranked(request), request))

    put_back = add

    def remove(self, request: Request) -> None:
        del self._waiting[request.index]
        if self._heap and self._heap[0][1] is request:
            heapq.heappop(self._heap)

    def _ranked(self, request: Request) -> tuple[int, ...]:
        return (*self._key(request), request.arrival_ns, request.index)


def _comes_after(waiting: Request, newcomer: Request) -> bool:
    """Whether ``waiting`` is a newcomer too (never admitted) whose place is behind that of ``newcomer``."""
    if waiting.admitted_before:
        return False
    return (waiting.arrival_ns, waiting.index) > (newcomer.arrival_ns, newcomer.index)
