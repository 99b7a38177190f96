"""In which order requests wait: a key each, the smallest first; ties by arrival, then by the place in the file."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sim.engine.queue import FcfsQueue, KeyedQueue, Queue
from sim.request import Request


def _priority(request: Request) -> tuple[int, ...]:
    return (request.priority,)


ORDERS: Mapping[str, Callable[[], Queue]] = MappingProxyType(
    {
        "fcfs": FcfsQueue,
        "priority": lambda: KeyedQueue(_priority),
    }
)
