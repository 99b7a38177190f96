"""Ageing: whoever has waited long enough, or was passed over often enough, comes before all who have not.

So an order in which somebody could wait for ever starves nobody: behind the bound it is first come, first served.
"""

from collections.abc import Collection, Sequence

from sim.engine.queue import Key, Ranking
from sim.request import Request


class AgedByTime:
    """``value_ns`` after its arrival a request goes first."""

    def __init__(self, ranking: Ranking, value_ns: int) -> None:
        self._ranking = ranking
        self._value_ns = value_ns
        self._now_ns = 0

    def settle(self, now_ns: int, waiting: Collection[Request], newcomers: Sequence[Request]) -> None:
        self._now_ns = now_ns
        self._ranking.settle(now_ns, waiting, newcomers)

    def key(self, request: Request) -> Key:
        if self._now_ns - request.arrival_ns >= self._value_ns:
            return (0,)
        return (1, *self._ranking.key(request))

    def taken(self, request: Request, waiting: Collection[Request]) -> None:
        self._ranking.taken(request, waiting)


class AgedByPasses:
    """After ``most`` admissions of requests that came later, a request goes first (SGLang bounds ``lpm`` so).

    An admission passes those who waited when its decision began.
    """

    def __init__(self, ranking: Ranking, most: int) -> None:
        self._ranking = ranking
        self._most = most
        self._passes: dict[int, int] = {}
        """Of those who waited when the decision began, and since they joined the queue."""

    def settle(self, now_ns: int, waiting: Collection[Request], newcomers: Sequence[Request]) -> None:
        self._passes.update((request.index, 0) for request in newcomers)
        self._ranking.settle(now_ns, waiting, newcomers)

    def key(self, request: Request) -> Key:
        if self._passes.get(request.index, 0) >= self._most:
            return (0,)
        return (1, *self._ranking.key(request))

    def taken(self, request: Request, waiting: Collection[Request]) -> None:
        self._ranking.taken(request, waiting)
        self._passes.pop(request.index, None)
        came = (request.arrival_ns, request.index)
        for other in waiting:
            if other.index in self._passes and (other.arrival_ns, other.index) < came:
                self._passes[other.index] += 1
