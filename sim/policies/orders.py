"""In which order requests wait: for each order what it goes by, the smallest first, and a row in a table.

Ties everywhere: arrival, then place in the file. Who is preempted comes back to the place of its key; under ``fcfs`` to
the head of the queue.
"""

from collections.abc import Callable
from fractions import Fraction
from hashlib import blake2b
from typing import NamedTuple

from sim.clock import instant_ns
from sim.engine.queue import FcfsQueue, Key, KeyedQueue, MovingQueue, Queue
from sim.policies.ageing import AgedByPasses, AgedByTime
from sim.policies.fair import FairShares, RoundRobin
from sim.policies.given import Given
from sim.policies.presets import Axes
from sim.registry import Registry
from sim.request import Request


def lifo(request: Request, _given: Given) -> Key:
    """Last come, first served."""
    return (-request.arrival_ns,)


def priority(request: Request, _given: Given) -> Key:
    """The most urgent first (vLLM's ``priority``)."""
    return (request.priority,)


def sjf(request: Request, given: Given) -> Key:
    """Shortest job first: tokens of the prompt and of the output as predicted."""
    return (request.prompt_tokens + request.samples * given.output(request),)


def srpt(request: Request, given: Given) -> Key:
    """Shortest remaining processing time (Schrage '68), in tokens of prompt and output that are still to come.

    Emitted tokens that have to be computed again count for nothing.
    """
    left = max(request.prompt_tokens - request.computed, 0)
    return (left + request.samples * given.output_left(request),)


def edf(request: Request, _given: Given) -> Key:
    """Earliest deadline first; who has none comes last."""
    deadline_ns = request.spec.deadline_ns
    return (0, deadline_ns) if deadline_ns is not None else (1, 0)


def least_slack(request: Request, given: Given) -> Key:
    """The least time to spare: the deadline less what is left to do, were it alone. Who has no deadline comes last."""
    deadline_ns = request.spec.deadline_ns
    return (0, deadline_ns - given.alone_ns(request)) if deadline_ns is not None else (1, 0)


def mlfq(request: Request, given: Given) -> Key:
    """Multi-level feedback with skip-join (FastServe '23): no length is known but that of the prompt.

    Level k has a quantum of ``mlfq_quantum_tokens`` * 2**k tokens. A request joins the first level whose quantum holds
    its prompt, and moves down whenever it has had the quantum of its level.
    """
    level, quantum = 0, given.axes.mlfq_quantum_tokens
    while quantum < request.prompt_tokens and level < given.axes.mlfq_levels - 1:
        level, quantum = level + 1, 2 * quantum
    used = request.prompt_tokens + request.samples * request.emitted if request.emitted else 0
    while used >= quantum and level < given.axes.mlfq_levels - 1:
        used -= quantum
        level, quantum = level + 1, 2 * quantum
    return (level,)


def hrrn(request: Request, given: Given) -> Key:
    """Highest response ratio next (Brinch Hansen '71): how long it has been here, for its length."""
    size = request.prompt_tokens + request.samples * given.output(request)
    return (Fraction(request.arrival_ns - given.moment.now_ns, size),)


def lpm(request: Request, given: Given) -> Key:
    """The longest prefix in the cache first (SGLang '24)."""
    return (-given.cached(request),)


def at_random(request: Request, given: Given) -> Key:
    """Any of those who wait, drawn anew after each admission."""
    drawn = f"{given.seed} {given.moment.admissions} {request.id}".encode()
    return (int.from_bytes(blake2b(drawn, digest_size=8).digest()),)


class Order(NamedTuple):
    """What an order is: ``by``, a key for each request; a ``rule``, from which each run makes one; or a ``queue``.

    ``moves``: whether a key may change while its request waits. ``preempts``: whether it has a preemptive form.
    ``sinks``: whether who runs becomes less urgent on the way. ``uses``: the settings that only some orders read, and
    this one does.
    """

    by: Callable[[Request, Given], Key] | None = None
    rule: Callable[[Given], Callable[[Request], Key]] | None = None
    queue: Callable[[Given], Queue] | None = None
    moves: bool = False
    preempts: bool = False
    sinks: bool = False
    uses: tuple[str, ...] = ("ageing",)


_LENGTHS = ("ageing", "predictor", "predictor_error")

ORDERS: Registry[Order] = Registry(
    "order",
    {
        "fcfs": Order(queue=lambda _given: FcfsQueue(), uses=()),
        "lifo": Order(lifo),
        "priority": Order(priority, preempts=True),
        "sjf": Order(sjf, uses=_LENGTHS),
        "srpt": Order(srpt, preempts=True, uses=_LENGTHS),
        "hrrn": Order(hrrn, moves=True, uses=_LENGTHS),
        "edf": Order(edf, preempts=True),
        "least-slack": Order(least_slack, uses=_LENGTHS),
        "mlfq": Order(mlfq, preempts=True, sinks=True, uses=("ageing", "mlfq_quantum_tokens", "mlfq_levels")),
        "vtc": Order(queue=FairShares, moves=True, uses=("weights", "prompt_token_weight", "output_token_weight")),
        "drr": Order(queue=RoundRobin, uses=("predictor", "predictor_error", "weights", "drr_quantum_tokens")),
        "lpm": Order(lpm, moves=True),
        "random": Order(at_random, moves=True),
    },
)

SPECIAL = tuple(dict.fromkeys(name for order in ORDERS.values() for name in order.uses))
"""The settings that only some orders read."""


def queue_of(given: Given) -> Queue:
    """The empty queue of the order that the settings name, with ageing if they ask for it."""
    order, ageing = ORDERS[given.axes.order], given.axes.ageing
    queue = order.queue(given) if order.queue is not None else _keyed(order, given)
    if ageing is None or "ageing" not in order.uses:
        return queue
    if ageing.by == "ms":
        return AgedByTime(queue, instant_ns(ageing.value))
    return AgedByPasses(queue, int(ageing.value))


def urgency_of(given: Given) -> Callable[[Request], Key] | None:
    """What a waiting request has to be smaller in than one that runs to take its place; None: nothing will do.

    It knows nothing of ageing, and of two that are equal neither gives way: so nobody's place changes for ever.
    """
    return _key(ORDERS[given.axes.order], given) if makes_way(given.axes) else None


def makes_way(axes: Axes) -> bool:
    """Whether who runs may lose its place to who waits. A static batch lets nobody in."""
    return axes.preemptive and ORDERS[axes.order].preempts and axes.batching != "static"


def shifts(axes: Axes) -> bool:
    """Whether who comes before whom may change although nobody comes or goes."""
    order = ORDERS[axes.order]
    aged = axes.ageing is not None and "ageing" in order.uses
    return order.moves or aged or (makes_way(axes) and order.sinks)


def _keyed(order: Order, given: Given) -> Queue:
    key = _key(order, given)
    return MovingQueue(key, given.moment) if order.moves else KeyedQueue(key)


def _key(order: Order, given: Given) -> Callable[[Request], Key]:
    if order.rule is not None:
        return order.rule(given)
    if order.by is None:
        raise TypeError("an order that is no key")
    by = order.by
    return lambda request: by(request, given)
