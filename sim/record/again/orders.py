"""Who waits before whom, once more: the queue sorted anew whenever somebody looks at it, by the sentences of the docs.

Only what nobody can work out twice is shared with the engine: what a predictor says, and how long a job takes.
"""

from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sim.clock import instant_ns
from sim.costs.base import CostModel, Work
from sim.policies.predictors import PREDICTORS, Ground
from sim.policies.presets import Axes
from sim.request import Request, Workload

if TYPE_CHECKING:
    from sim.record.again.server import Req

Key = tuple[Any, ...]
Cached = Callable[["Req"], int]


@dataclass
class Line:
    """The queue. ``now_ns``: when the decision under way began; ``drawn``: how many were admitted so far."""

    axes: Axes
    seed: int
    name: Callable[[int], str]
    tenants: Sequence[str] | None
    deadlines_ns: Sequence[int]
    expected: Sequence[int]
    """Output tokens that the predictor expects of each."""
    cost: CostModel
    cached: Cached
    waiting: list["Req"] = field(default_factory=list)
    now_ns: int = 0
    drawn: int = 0
    passed: dict[int, int] = field(default_factory=dict)
    """By those who waited when the decision began: how many who came later were admitted since they joined."""
    came: list["Req"] = field(default_factory=list)
    ranked: list["Req"] | None = None
    """Those who wait, in order, as long as nothing has changed."""
    shares: "Shares" = field(init=False)

    def __post_init__(self) -> None:
        self.shares = Shares(self)

    def add(self, req: "Req") -> None:
        """Behind all that wait, but for later ones of its own instant who have not been served yet."""
        place = len(self.waiting)
        while place and not self.waiting[place - 1].target and age(self.waiting[place - 1]) > age(req):
            place -= 1
        self.waiting.insert(place, req)
        self.came.append(req)
        self.shares.add(req)
        if self.ranked is not None and self.stands:
            insort(self.ranked, req, key=self._rank)
        else:
            self.ranked = None

    def put_back(self, req: "Req") -> None:
        if self.axes.order == "fcfs":
            self.waiting.insert(0, req)
            self.shares.add(req)
        else:
            self.add(req)

    def drop(self, req: "Req") -> None:
        self.waiting.remove(req)
        self.shares.drop(req)
        if self.ranked is not None and self.stands:
            self.ranked.remove(req)
        else:
            self.ranked = None

    def admit(self, req: "Req") -> None:
        """It is let in, and passes whoever came before it and has waited since the decision began."""
        self.shares.serve(req)
        self.drop(req)
        self.drawn += 1
        self.passed.pop(req.index, None)
        for other in self.waiting:
            if other.index in self.passed and age(other) < age(req):
                self.passed[other.index] += 1
        self.shares.gone(req)

    def begin(self, now_ns: int) -> None:
        """A decision begins."""
        self.now_ns = now_ns
        came = [req for req in self.came if req in self.waiting]
        self.came = []
        self.passed.update({req.index: 0 for req in came})
        self.shares.begin(came)
        if not self.stands:
            self.ranked = None

    def in_order(self) -> list["Req"]:
        if self.axes.order == "fcfs":
            return self.waiting
        if self.ranked is None:
            drr = self.axes.order == "drr"
            self.ranked = self.shares.rounds() if drr else sorted(self.waiting, key=self._rank)
        return self.ranked

    @property
    def stands(self) -> bool:
        """Whether who comes before whom is settled once and for all while both wait."""
        return self.axes.ageing is None and self.axes.order not in MOVING

    def _rank(self, req: "Req") -> Key:
        return (*self._aged(req), *age(req))

    def urgency(self, req: "Req") -> Key:
        """What a preemptive order compares."""
        return KEYS[self.axes.order](self, req)

    def size(self, req: "Req") -> int:
        return req.prompt + req.samples * self.output(req)

    def output(self, req: "Req") -> int:
        if self.axes.predictor == "oracle":
            return req.output
        if self.axes.predictor == "declared":
            return req.declared
        longest = self.axes.max_model_tokens
        expected = self.expected[req.index]
        return min(expected, longest - req.prompt) if longest else expected

    def tenant(self, req: "Req") -> str:
        return "" if self.tenants is None else self.tenants[req.index]

    def _aged(self, req: "Req") -> Key:
        ageing, key = self.axes.ageing, KEYS[self.axes.order](self, req)
        if ageing is None or self.axes.order in NEVER_STARVES:
            return key
        if ageing.by == "ms":
            overdue = self.now_ns >= req.arrival_ns + instant_ns(ageing.value)
        else:
            overdue = self.passed.get(req.index, 0) >= ageing.value
        return (0,) if overdue else (1, *key)


def line_of(axes: Axes, seed: int, workload: Workload, cost: CostModel, cached: Cached) -> Line:
    """The empty queue of a run."""
    expected: list[int] = []
    if axes.predictor not in ("oracle", "declared"):
        predict = PREDICTORS[axes.predictor](Ground(workload, axes.predictor_error, seed))
        expected = [predict(Request(spec)) for spec in workload.specs()]
    return Line(axes, seed, workload.id, workload.tenants, workload.deadline_ns.tolist(), expected, cost, cached)


def age(req: "Req") -> tuple[int, int]:
    return req.arrival_ns, req.index


class Shares:
    """What each tenant has had, for ``vtc`` and ``drr``."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.level: dict[str, Fraction] = {}
        """vtc: service by weight, lifts included, as it stood when the decision began, and admissions since."""
        self.lifted: dict[str, Fraction] = {}
        self.seen: dict[int, Req] = {}
        self.last: str | None = None
        self.ring: list[str] = []
        self.purse: dict[str, int] = {}
        self.paid = False
        """drr: whether the first of the ring has had its quantum of this round."""

    def add(self, req: "Req") -> None:
        tenant = self.line.tenant(req)
        if tenant not in self.ring:
            self.ring.append(tenant)
            self.purse[tenant] = 0

    def drop(self, req: "Req") -> None:
        tenant = self.line.tenant(req)
        if not any(self.line.tenant(other) == tenant for other in self.line.waiting):
            if self.ring[0] == tenant:
                self.paid = False
            self.ring.remove(tenant)

    def serve(self, req: "Req") -> None:
        """Before it leaves the queue: the rounds up to its turn, and what it costs."""
        tenant, axes = self.line.tenant(req), self.line.axes
        if axes.order == "drr":
            self.ring, self.purse, self.paid, _ = self._turn(self.ring, self.purse, self.paid, self.line.waiting)
            self.purse[tenant] -= self.line.size(req)
        if axes.order == "vtc" and req.index not in self.seen:
            self.seen[req.index] = req
            self._count(tenant, axes.prompt_token_weight * req.prompt)

    def gone(self, req: "Req") -> None:
        tenant = self.line.tenant(req)
        if tenant not in self.ring:
            self.last = tenant

    def begin(self, came: Sequence["Req"]) -> None:
        if self.line.axes.order != "vtc":
            return
        axes, tenant_of = self.line.axes, self.line.tenant
        self.level = dict(self.lifted)
        for req in self.seen.values():
            tokens = axes.prompt_token_weight * req.prompt + axes.output_token_weight * req.samples * req.emitted
            self._count(tenant_of(req), tokens)
        here = {tenant_of(req) for req in self.line.waiting if req not in came}
        for req in sorted(came, key=age):
            tenant = tenant_of(req)
            if tenant in here:
                continue
            others = [self.level.get(other, Fraction(0)) for other in here]
            if not here:
                others = [Fraction(0) if self.last is None else self.level.get(self.last, Fraction(0))]
            before = self.level.get(tenant, Fraction(0))
            self.level[tenant] = max(before, min(others))
            self.lifted[tenant] = self.lifted.get(tenant, Fraction(0)) + self.level[tenant] - before
            here.add(tenant)

    def rounds(self) -> list["Req"]:
        """Who waits, in the order in which the tenants' turns would come."""
        ring, purse, paid, left, served = self.ring[:], dict(self.purse), self.paid, self.line.waiting[:], []
        while left:
            ring, purse, paid, req = self._turn(ring, purse, paid, left)
            tenant = self.line.tenant(req)
            purse[tenant] -= self.line.size(req)
            left.remove(req)
            served.append(req)
            if not any(self.line.tenant(other) == tenant for other in left):
                ring.remove(tenant)
                paid = False
        return served

    def _turn(self, ring: list[str], purse: Mapping[str, int], paid: bool, left: Sequence["Req"]  # noqa: FBT001
              ) -> tuple[list[str], dict[str, int], bool, "Req"]:  # fmt: skip
        """Round after round, one visit after the other, up to who can be served."""
        ring, purse = ring[:], dict(purse)
        first = {tenant: min((r for r in left if self.line.tenant(r) == tenant), key=age) for tenant in ring}
        while True:
            tenant = ring[0]
            if not paid:
                purse[tenant] += self.line.axes.drr_quantum_tokens * self.line.axes.weights.get(tenant, 1)
                paid = True
            if self.line.size(first[tenant]) <= purse[tenant]:
                return ring, purse, paid, first[tenant]
            ring.append(ring.pop(0))
            paid = False

    def _count(self, tenant: str, tokens: int) -> None:
        share = Fraction(tokens, self.line.axes.weights.get(tenant, 1))
        self.level[tenant] = self.level.get(tenant, Fraction(0)) + share


def _rest(line: Line, req: "Req") -> Key:
    left = line.output(req) - req.emitted
    return (max(0, req.prompt - req.computed) + req.samples * (max(1, left)),)


def _deadline(line: Line, req: "Req") -> Key:
    due = line.deadlines_ns[req.index]
    return (1,) if due < 0 else (0, due)


def _slack(line: Line, req: "Req") -> Key:
    due = line.deadlines_ns[req.index]
    if due < 0:
        return (1,)
    need = line.cost.job_ns(Work(req.known, 0, 0))
    for token in range(1, max(line.output(req) - req.emitted, 1)):
        context = req.samples * (req.known + token) if line.cost.reads_context else 0
        need += line.cost.job_ns(Work(0, req.samples, context))
    return (0, due - need)


def _level(line: Line, req: "Req") -> Key:
    quanta = [line.axes.mlfq_quantum_tokens * 2**level for level in range(line.axes.mlfq_levels)]
    last = len(quanta) - 1
    level = next((place for place, quantum in enumerate(quanta) if req.prompt <= quantum), last)
    had = req.prompt + req.samples * req.emitted if req.emitted else 0
    while level < last and had >= quanta[level]:
        had -= quanta[level]
        level += 1
    return (level,)


def _lot(line: Line, req: "Req") -> Key:
    return (blake2b(f"{line.seed} {line.drawn} {line.name(req.index)}".encode(), digest_size=8).digest(),)


KEYS: Mapping[str, Callable[[Line, "Req"], Key]] = MappingProxyType(
    {
        "fcfs": lambda _line, _req: (),
        "lifo": lambda _line, req: (-req.arrival_ns,),
        "priority": lambda _line, req: (req.priority,),
        "sjf": lambda line, req: (line.size(req),),
        "srpt": _rest,
        "hrrn": lambda line, req: (-Fraction(line.now_ns - req.arrival_ns, line.size(req)),),
        "edf": _deadline,
        "least-slack": _slack,
        "mlfq": _level,
        "vtc": lambda line, req: (line.shares.level.get(line.tenant(req), Fraction(0)),),
        "drr": lambda _line, _req: (),
        "lpm": lambda line, req: (-line.cached(req),),
        "random": _lot,
    }
)

NEVER_STARVES = ("fcfs", "vtc", "drr")
MOVING = ("hrrn", "vtc", "drr", "lpm", "random")
PREEMPTIVE = ("priority", "srpt", "edf", "mlfq")


def gives_way(axes: Axes) -> bool:
    """Whether who runs may have to go for who waits."""
    return axes.preemptive and axes.order in PREEMPTIVE and axes.batching != "static"
