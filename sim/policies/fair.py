"""Orders that are fair to tenants: each gets its share of the server, however much it asks for."""

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from sim.engine.queue import age
from sim.policies.given import Given
from sim.request import Request


class FairShares:
    """The virtual token counter (Sheng et al., OSDI '24): next comes the tenant that was served least, by its weight.

    A tenant's service is ``prompt_token_weight`` for each prompt token, when a request is first admitted, and
    ``output_token_weight`` for each token that it emits. What is computed again is no service. A tenant that comes back
    to the queue is lifted to the least of those who wait there, or, if nobody does, to the one who left it last. Each
    tenant's requests are served as they came.
    """

    moves = True

    def __init__(self, given: Given) -> None:
        self._given = given
        self._lines: dict[str, list[Request]] = {}
        """Those who wait, by tenant, oldest first."""
        self._newcomers: dict[str, None] = {}
        """Tenants that nobody waited of when the last decision began, in the order in which they came."""
        self._lifts: dict[str, Fraction] = {}
        self._ended: dict[str, int] = {}
        """Service of requests that have ended, by tenant."""
        self._served: dict[int, Request] = {}
        """Those who were admitted once and have not ended."""
        self._counters: dict[str, Fraction] = {}
        self._left_last: str | None = None

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __iter__(self) -> Iterator[Request]:
        counter = self._counter
        waiting = (request for line in self._lines.values() for request in line)
        return iter(sorted(waiting, key=lambda request: (counter(request.spec.tenant), *age(request))))

    @property
    def head(self) -> Request | None:
        first = (line[0] for line in self._lines.values())
        return min(first, key=lambda request: (self._counter(request.spec.tenant), *age(request)), default=None)

    def add(self, request: Request) -> None:
        tenant = request.spec.tenant
        if tenant not in self._lines:
            self._lines[tenant] = []
            self._newcomers[tenant] = None
        insort(self._lines[tenant], request, key=age)

    put_back = add

    def take(self, request: Request) -> None:
        tenant = request.spec.tenant
        if request.index not in self._served:
            self._served[request.index] = request
            self._count(tenant, self._given.axes.prompt_token_weight * request.prompt_tokens)
        self.remove(request)
        if tenant not in self._lines:
            self._left_last = tenant

    def remove(self, request: Request) -> None:
        tenant = request.spec.tenant
        self._lines[tenant].remove(request)
        if not self._lines[tenant]:
            del self._lines[tenant]
            self._newcomers.pop(tenant, None)

    def settle(self, now_ns: int) -> None:
        self._count_all()
        here = [tenant for tenant in self._lines if tenant not in self._newcomers]
        for tenant in sorted(self._newcomers, key=lambda tenant: age(self._lines[tenant][0])):
            self._lift(tenant, here)
            here.append(tenant)
        self._newcomers.clear()

    def _counter(self, tenant: str) -> Fraction:
        return self._counters.get(tenant, Fraction(0))

    def _count(self, tenant: str, service: int) -> None:
        self._counters[tenant] = self._counter(tenant) + Fraction(service, self._given.weight(tenant))

    def _count_all(self) -> None:
        """The counters as they stand now."""
        for request in [request for request in self._served.values() if request.ended]:
            tenant = request.spec.tenant
            self._ended[tenant] = self._ended.get(tenant, 0) + self._service(request)
            del self._served[request.index]
        service = dict(self._ended)
        for request in self._served.values():
            tenant = request.spec.tenant
            service[tenant] = service.get(tenant, 0) + self._service(request)
        self._counters = dict(self._lifts)
        for tenant, served in service.items():
            self._count(tenant, served)

    def _service(self, request: Request) -> int:
        axes = self._given.axes
        emitted = request.samples * request.emitted
        return axes.prompt_token_weight * request.prompt_tokens + axes.output_token_weight * emitted

    def _lift(self, tenant: str, here: Sequence[str]) -> None:
        others = here or ([] if self._left_last is None else [self._left_last])
        missing = min(map(self._counter, others), default=Fraction(0)) - self._counter(tenant)
        if missing > 0:
            self._lifts[tenant] = self._lifts.get(tenant, Fraction(0)) + missing
            self._counters[tenant] = self._counter(tenant) + missing


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
        insort(rounds.lines[tenant], request, key=age)
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
