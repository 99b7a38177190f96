"""The waiting requests, in queue order. A policy reads them; only the engine changes them."""

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from sim.request import Request

Key = tuple[Any, ...]
"""What requests are ranked by, the smallest first: exact numbers, as many for each request of a queue."""


class Queue(Protocol):
    """Who waits, and who of them is first. Ties everywhere: arrival, then place in the file.

    ``moves``: whether the order may change although nobody comes or goes, with time or with what is served.
    """

    moves: bool

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Request]: ...

    @property
    def head(self) -> Request | None: ...

    def add(self, request: Request) -> None:
        """A newcomer."""

    def put_back(self, request: Request) -> None:
        """One that was preempted."""

    def take(self, request: Request) -> None:
        """It is admitted."""

    def remove(self, request: Request) -> None:
        """It ends here."""

    def settle(self, now_ns: int) -> None:
        """A decision begins: the order is that of this instant. Only asked of one that moves."""


class FcfsQueue(deque[Request]):
    """First come, first served: by (arrival, place in the file); who was preempted comes back to the head."""

    moves = False

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

    take = remove

    def settle(self, now_ns: int) -> None: ...


class KeyedQueue:
    """The smallest key first; who was preempted comes back to the place of its key.

    A key may go by how far its request has come, for that stays as it is while the request waits.
    """

    moves = False

    def __init__(self, key: Callable[[Request], Key]) -> None:
        self._key = key
        self._heap: list[tuple[Key, Request]] = []
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

    take = remove

    def settle(self, now_ns: int) -> None: ...

    def _ranked(self, request: Request) -> Key:
        return (*self._key(request), request.arrival_ns, request.index)


@dataclass
class Moment:
    """What changes by itself: when the decision under way began, and how many were admitted from the queue so far."""

    now_ns: int = 0
    admissions: int = 0


class MovingQueue:
    """The smallest key first, the keys being those of the moment: asked for anew whenever that has changed."""

    moves = True

    def __init__(self, key: Callable[[Request], Key], moment: Moment) -> None:
        self._key = key
        self._moment = moment
        self._waiting: dict[int, Request] = {}
        self._head: Request | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Request]:
        return iter(sorted(self._waiting.values(), key=self._ranked))

    @property
    def head(self) -> Request | None:
        if self._head is None and self._waiting:
            self._head = min(self._waiting.values(), key=self._ranked)
        return self._head

    def add(self, request: Request) -> None:
        self._waiting[request.index] = request
        self._head = None

    put_back = add

    def take(self, request: Request) -> None:
        self.remove(request)
        self._moment.admissions += 1

    def remove(self, request: Request) -> None:
        del self._waiting[request.index]
        self._head = None

    def settle(self, now_ns: int) -> None:
        self._moment.now_ns = now_ns
        self._head = None

    def _ranked(self, request: Request) -> Key:
        return (*self._key(request), request.arrival_ns, request.index)


def age(request: Request) -> tuple[int, int]:
    """By what ties are broken everywhere: the smallest is the oldest."""
    return request.arrival_ns, request.index


def _comes_after(waiting: Request, newcomer: Request) -> bool:
    """Whether ``waiting`` is a newcomer too (never admitted) whose place is behind that of ``newcomer``."""
    if waiting.admitted_before:
        return False
    return age(waiting) > age(newcomer)
