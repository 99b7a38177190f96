"""Orders that are fair to tenants: each gets its share of the server, however much it asks for."""

from bisect import insort
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from sim.engine.queue import Key
from sim.policies.given import Given
from sim.request import Request


class Counters:
    """The virtual token counter (Sheng et al., OSDI '24): next comes the tenant that was served least, by its weight.

    A tenant's service is ``prompt_token_weight`` for each prompt token, when a request is first admitted, and
    ``output_token_weight`` for each token that it emits. What is computed again is no service. A tenant that comes back
    to the queue is lifted to the least of those who wait there, or, if nobody does, to the one who left it last.
    """

    def __init__(self, given: Given) -> None:
        self._given = given
        self._lifts: dict[str, Fraction] = {}
        self._ended: dict[str, int] = {}
        """Service of requests that have ended, by tenant."""
        self._served: dict[int, Request] = {}
        """Those who were admitted once and have not ended."""
        self._counters: dict[str, Fraction] = {}
        self._left_last: str | None = None

    def settle(self, now_ns: int, waiting: Collection[Request], newcomers: Sequence[Request]) -> None:
        self._count()
        new = {request.index for request in newcomers}
        here = {request.spec.tenant for request in waiting if request.index not in new}
        for request in sorted(newcomers, key=_age):
            tenant = request.spec.tenant
            if tenant not in here:
                self._lift(tenant, here)
                here.add(tenant)

    def key(self, request: Request) -> Key:
        return (self._counters.get(request.spec.tenant, Fraction(0)),)

    def taken(self, request: Request, waiting: Collection[Request]) -> None:
        tenant = request.spec.tenant
        if request.index not in self._served:
            self._served[request.index] = request
            self._add(tenant, self._given.axes.prompt_token_weight * request.prompt_tokens)
        if all(other.spec.tenant != tenant for other in waiting):
            self._left_last = tenant

    def _count(self) -> None:
        """The counters as they stand now."""
        over = [request for request in self._served.values() if request.ended]
        for request in over:
            tenant = request.spec.tenant
            self._ended[tenant] = self._ended.get(tenant, 0) + self._service(request)
            del self._served[request.index]
        self._counters = dict(self._lifts)
        for tenant, service in self._ended.items():
            self._add(tenant, service)
        for request in self._served.values():
            self._add(request.spec.tenant, self._service(request))

    def _service(self, request: Request) -> int:
        axes = self._given.axes
        emitted = request.samples * request.emitted
        return axes.prompt_token_weight * request.prompt_tokens + axes.output_token_weight * emitted

    def _add(self, tenant: str, service: int) -> None:
        before = self._counters.get(tenant, Fraction(0))
        self._counters[tenant] = before + Fraction(service, self._given.weight(tenant))

    def _lift(self, tenant: str, here: Collection[str]) -> None:
        zero, counters = Fraction(0), self._counters
        if here:
            least = min(counters.get(other, zero) for other in here)
        else:
            least = zero if self._left_last is None else counters.get(self._left_last, zero)
        missing = least - counters.get(tenant, zero)
        if missing > 0:
            self._lifts[tenant] = self._lifts.get(tenant, zero) + missing
            counters[tenant] = least


@dataclass
class Rounds:
    """How far deficit round robin is: whose turn comes next, and what each may still spend.

    ``visited``: whether the first of ``ring`` has had its quantum of this round.
    """

    ring: list[str] = field(default_factory=list)
    lines: dict[str, list[Request]] = field(default_factory=dict)
    deficits: dict[str, int] = field(default_factory=dict)
    visited: bool = False

    def copy(self) -> "Rounds":
        return Rounds(self.ring[:], {t: line[:] for t, line in self.lines.items()}, dict(self.deficits), self.visited)


class RoundRobin:
    """Deficit round robin (Shreedhar & Varghese '95) over tenants, in tokens of prompt and predicted output.

    A tenant whose turn it is may spend ``drr_quantum_tokens`` times its weight more, and is served as long as what it
    has reaches for its next request; what is left it keeps while it has anybody waiting.
    """

    moves = False

    def __init__(self, given: Given) -> None:
        self._given = given
        self._rounds = Rounds()
        self._next: tuple[Request, Rounds] | None = None
        """Who is served next, and how things stand when its turn has come."""

    def __len__(self) -> int:
        return sum(map(len, self._rounds.lines.values()))

    def __iter__(self) -> Iterator[Request]:
        rounds = self._rounds
        while rounds.ring:
            request, rounds = self._turn(rounds)
            self._spend(rounds, request)
            yield request

    @property
    def head(self) -> Request | None:
        if self._next is None and self._rounds.ring:
            self._next = self._turn(self._rounds)
        return None if self._next is None else self._next[0]

    def add(self, request: Request) -> None:
        tenant, rounds = request.spec.tenant, self._rounds
        if tenant not in rounds.lines:
            rounds.lines[tenant], rounds.deficits[tenant] = [], 0
            rounds.ring.append(tenant)
        insort(rounds.lines[tenant], request, key=_age)
        self._next = None

    put_back = add

    def take(self, request: Request) -> None:
        if request is self.head and self._next is not None:
            self._rounds = self._next[1]
        self._spend(self._rounds, request)
        self._next = None

    def remove(self, request: Request) -> None:
        self._leave(self._rounds, request)
        self._next = None

    def settle(self, now_ns: int) -> None: ...

    def _size(self, request: Request) -> int:
        return request.prompt_tokens + request.samples * self._given.output(request)

    def _quantum(self, tenant: str) -> int:
        return self._given.axes.drr_quantum_tokens * self._given.weight(tenant)

    def _turn(self, rounds: Rounds) -> tuple[Request, Rounds]:
        """Who is served next, and the rounds up to then, however many visits that takes."""
        ring, tenants = rounds.ring, len(rounds.ring)
        places = [tenants if rounds.visited and not place else place for place in range(tenants)]
        due = []
        for tenant, place in zip(ring, places, strict=True):
            missing = self._size(rounds.lines[tenant][0]) - rounds.deficits[tenant]
            if missing <= 0 and place == tenants:
                return rounds.lines[tenant][0], rounds.copy()
            due.append((max(-(-missing // self._quantum(tenant)), 1), place))
        last = min(due)
        after = rounds.copy()
        for tenant, place in zip(ring, places, strict=True):
            visits = last[0] - (place > last[1])
            after.deficits[tenant] += visits * self._quantum(tenant)
        first = due.index(last)
        after.ring, after.visited = ring[first:] + ring[:first], True
        return after.lines[ring[first]][0], after

    def _spend(self, rounds: Rounds, request: Request) -> None:
        rounds.deficits[request.spec.tenant] -= self._size(request)
        self._leave(rounds, request)

    def _leave(self, rounds: Rounds, request: Request) -> None:
        """Out of its line; a tenant without anybody loses what it had left."""
        tenant = request.spec.tenant
        rounds.lines[tenant].remove(request)
        if not rounds.lines[tenant]:
            if rounds.ring[0] == tenant:
                rounds.visited = False
            rounds.ring.remove(tenant)
            del rounds.lines[tenant], rounds.deficits[tenant]


def _age(request: Request) -> tuple[int, int]:
    return request.arrival_ns, request.index
