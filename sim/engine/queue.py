"""The waiting requests, in queue order. A policy reads them; only the engine changes them."""

from collections import deque
from collections.abc import Iterator

from sim.request import Request


class FcfsQueue:
    """First come, first served: by (arrival, place in the file); who was preempted comes back to the head."""

    def __init__(self) -> None:
        self._requests: deque[Request] = deque()

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests)

    @property
    def head(self) -> Request | None:
        return self._requests[0] if self._requests else None

    def add(self, request: Request) -> None:
        """A newcomer. Arrivals of one instant come in the order of the file, whatever woke them."""
        behind: list[Request] = []
        while self._requests and _comes_after(self._requests[-1], request):
            behind.append(self._requests.pop())
        self._requests.append(request)
        self._requests.extend(reversed(behind))

    def put_back(self, request: Request) -> None:
        """A preempted request: before everybody else."""
        self._requests.appendleft(request)

    def take_head(self) -> Request:
        return self._requests.popleft()

    def remove(self, request: Request) -> None:
        self._requests.remove(request)


def _comes_after(waiting: Request, newcomer: Request) -> bool:
    """Whether ``waiting`` is a newcomer too (never admitted) whose place is behind that of ``newcomer``."""
    if waiting.admitted_before:
        return False
    return (waiting.arrival_ns, waiting.index) > (newcomer.arrival_ns, newcomer.index)
