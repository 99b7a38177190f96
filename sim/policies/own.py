"""Somebody's own policies, orders, victim rules and predictors: what may be registered, and what of it is checked.

Whatever these answer is looked at before the engine sees it; the built-in ones are called as they are.
"""

from collections.abc import Callable, Iterator
from decimal import Decimal
from numbers import Real
from operator import index
from typing import Any, NoReturn

from sim.engine.cycle import Cycle, View
from sim.engine.memory import Memory
from sim.engine.queue import Key, Queue
from sim.engine.state import Running, Victim
from sim.fields import MAX_TOKENS
from sim.guard import Guard
from sim.policies.base import Policy
from sim.policies.given import Given
from sim.policies.orders import ORDERS, SPECIAL, Order
from sim.policies.predictors import Ground, Predictor
from sim.policies.presets import COMPOSITIONS, Axes, Preset
from sim.request import Request
from sim.show import show
from sim.spelling import nearest


def preset(thing: Any, guard: Guard) -> Preset:
    """A row of values for the axes, as the built-in policies are."""
    if not isinstance(thing, Preset):
        guard.refuse(f"{_a(thing)}, not a Preset: Preset(Axes(batching, composition, …), …)", thing)
    for table, name in ((COMPOSITIONS, thing.axes.composition), (ORDERS, thing.axes.order)):
        if name not in table:
            guard.refuse(f"{table.kind} {show(name)}: unknown; one of {', '.join(table)}{nearest(name, table)}")
    return thing


# Compositions


def composition(thing: Any, guard: Guard) -> Callable[[Axes], Policy]:
    """From the settings to what decides: a function, or a class whose instances have ``plan``."""
    _expect_callable(thing, guard, "a function of the settings (Axes), or a class made of them")
    return lambda axes: GuardedPolicy(guard.call(thing, axes), guard)


class GuardedPolicy:
    """Somebody's policy. It promises ``stable_for`` if it has it; without it, every decision is asked for."""

    def __init__(self, policy: Any, guard: Guard) -> None:
        if not callable(getattr(policy, "plan", None)):
            guard.refuse(f"made {_a(policy)}, which has no plan(view, cycle)")
        promised = getattr(policy, "stable_for", 1)
        if type(promised) is not int or promised < 1:
            guard.refuse(f"stable_for = {show(promised)}: not a number of decisions; an integer from 1 on")
        self.stable_for = promised
        self._plan = policy.plan
        self._guard = guard

    def plan(self, view: View, cycle: Cycle) -> None:
        self._guard.call(self._plan, view, cycle)


# Orders


def order(thing: Any, guard: Guard, **flags: Any) -> Order:
    """A function of (request, given) that answers its key, or an :class:`Order`."""
    made = thing if isinstance(thing, Order) else Order(thing, uses=SPECIAL)
    rules = [rule for rule in (made.by, made.rule, made.queue) if rule is not None]
    if len(rules) != 1 or not callable(rules[0]):
        guard.refuse(f"{_a(thing)}; a function of (request, given), or an Order of by, rule or queue", thing)
    made = made._replace(**flags)
    by, rule, queue = made.by, made.rule, made.queue
    if by is not None:
        return made._replace(by=None, rule=lambda given: GuardedKey(by, guard, _given(given, made)))
    if rule is not None:
        return made._replace(rule=lambda given: GuardedKey(guard.call(rule, _given(given, made)), guard))
    if queue is None:
        raise TypeError("an order without a rule")
    return made._replace(queue=lambda given: GuardedQueue(guard.call(queue, _given(given, made)), guard))


class OwnGiven(Given):
    """What somebody's order may go by: nothing that its lists can't be made again from, once the run is over.

    The cache is no such thing; in an order that does not move, neither is the moment.
    """

    moves = True

    def __getattribute__(self, name: str) -> Any:
        if name == "cached":
            raise AttributeError("given.cached: only order lpm can go by the cache")
        if name == "moment" and not self.moves:
            raise AttributeError("given.moment changes while requests wait; register the order with moves=True")
        return super().__getattribute__(name)


class StillGiven(OwnGiven):
    """That of an order that does not move."""

    moves = False


def _given(given: Given, made: Order) -> Given:
    kind = OwnGiven if made.moves else StillGiven
    return kind(given.axes, given.seed, given.predict, given.cost, _nobody_knows, given.moment)


def _nobody_knows(_request: Request) -> int:
    return 0


class GuardedKey:
    """Somebody's key of a request, in one run: all have as many parts of the same kinds, and each can be compared."""

    def __init__(self, key: Callable[..., Any], guard: Guard, *given: Given) -> None:
        if not callable(key):
            guard.refuse(f"made {_a(key)}, not a function of (request)")
        self._key = key
        self._given = given
        self._guard = guard
        self._kinds: tuple[str, ...] | None = None

    def __call__(self, request: Request) -> Key:
        answer: Any = self._guard.call(self._key, request, *self._given)
        key = answer if isinstance(answer, tuple) else (answer,)
        kinds = tuple([_kind(part) for part in key])
        if "" in kinds:
            self._refuse(f"answers {_written(answer)} for {request!r}; numbers that are not NaN, or texts")
        if self._kinds is None:
            self._kinds = kinds
        elif kinds != self._kinds:
            kind = f"{len(self._kinds)} of {', '.join(self._kinds)}"
            self._refuse(f"answers {_written(answer)} for {request!r}; before, its keys were of another kind: {kind}")
        return key

    def _refuse(self, problem: str) -> NoReturn:
        self._guard.refuse(problem, self._key)


def _kind(part: object) -> str:
    """What a part of a key is compared as; empty when it can't be."""
    if isinstance(part, Decimal):
        return "" if part.is_nan() else "number"
    if isinstance(part, Real):
        return "number" if part == part else ""  # noqa: PLR0124  # NaN is not
    return "text" if isinstance(part, str) else ""


class GuardedQueue:
    """Somebody's queue: it holds whom it was given, no others, and nobody twice."""

    def __init__(self, queue: Queue, guard: Guard) -> None:
        names = ("add", "put_back", "take", "remove", "settle", "__len__", "__iter__")
        missing = [name for name in names if not callable(getattr(queue, name, None))]
        if missing or not isinstance(getattr(queue, "moves", None), bool) or not hasattr(type(queue), "head"):
            guard.refuse(f"made {_a(queue)}, which is no queue; it has moves, head, {', '.join(names)}")
        self.moves = queue.moves
        self._queue = queue
        self._guard = guard
        self._waiting: dict[int, Request] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Request]:
        listed: list[Request] = self._guard.call(list, self._queue)
        if sorted(id(request) for request in listed) != sorted(id(request) for request in self._waiting.values()):
            self._guard.refuse(f"lists {len(listed)} requests, which are not the {len(self)} that wait")
        return iter(listed)

    @property
    def head(self) -> Request | None:
        head = self._guard.call(lambda: self._queue.head)
        if (head is None and self._waiting) or (head is not None and self._waiting.get(head.index) is not head):
            self._guard.refuse(f"its head is {head!r}, which does not wait")
        return head

    def add(self, request: Request) -> None:
        self._waiting[request.index] = request
        self._guard.call(self._queue.add, request)

    def put_back(self, request: Request) -> None:
        self._waiting[request.index] = request
        self._guard.call(self._queue.put_back, request)

    def take(self, request: Request) -> None:
        del self._waiting[request.index]
        self._guard.call(self._queue.take, request)

    def remove(self, request: Request) -> None:
        del self._waiting[request.index]
        self._guard.call(self._queue.remove, request)

    def settle(self, now_ns: int) -> None:
        self._guard.call(self._queue.settle, now_ns)


# Victims and predictors


def victim(thing: Any, guard: Guard) -> Callable[[int], Victim]:
    """A function of (running, memory) that answers one of ``running``; or a class of such, made with a seed."""
    _expect_callable(thing, guard, "a function of (running, memory)")

    def of_seed(seed: int) -> Victim:
        rule = guard.call(thing, seed) if isinstance(thing, type) else thing

        def checked(running: Running, memory: Memory) -> Request:
            answer: Any = guard.call(rule, running, memory)
            if not any(request is answer for request in running):
                guard.refuse(f"answers {_written(answer)}, which does not run", thing)
            return answer  # type: ignore[no-any-return]  # it is one of them

        return checked

    return of_seed


def predictor(thing: Any, guard: Guard) -> Callable[[Ground], Predictor]:
    """A function of a :class:`Ground` that answers a function of a request, which is asked once for each."""
    _expect_callable(thing, guard, "a function of (ground) that answers a function of (request)")

    def of_ground(ground: Ground) -> Predictor:
        predict: Any = guard.call(thing, ground)
        if not callable(predict):
            guard.refuse(f"made {_a(predict)}, not a function of (request)", thing)
        known: dict[int, int] = {}

        def checked(request: Request) -> int:
            tokens = known.get(request.index)
            if tokens is None:
                tokens = known[request.index] = _tokens(guard.call(predict, request), request, guard, predict)
            return tokens

        return checked

    return of_ground


def _tokens(answer: Any, request: Request, guard: Guard, function: object) -> int:
    try:
        tokens = index(answer)
    except TypeError:
        tokens = 0
    if isinstance(answer, bool) or not 1 <= tokens <= MAX_TOKENS:
        guard.refuse(f"expects {_written(answer)} tokens of {request!r}; an integer from 1 to {MAX_TOKENS}", function)
    return tokens


# In words


def _expect_callable(thing: Any, guard: Guard, wanted: str) -> None:
    if not callable(thing):
        guard.refuse(f"{_a(thing)}; {wanted}", thing)


def _a(thing: object) -> str:
    return f"the class {thing.__name__}" if isinstance(thing, type) else f"something of type {type(thing).__name__}"


def _written(answer: object) -> str:
    try:
        return repr(answer)[:100]
    except Exception:  # noqa: BLE001  # what it says of itself is not ours either
        return _a(answer)
