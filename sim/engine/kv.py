"""The KV block pool: a SimPy container with synchronous verbs, and who holds how many of its blocks.

Blocks are counted here; identities exist only where something needs them (:mod:`sim.engine.prefix`). Every verb asks
first (``can_take``) and acts then (``take``); acting without room, or giving what one does not hold, is a bug and
raises at the call.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from simpy import Container, Environment

from sim.engine.growth import Growth
from sim.errors import InvariantError
from sim.request import Request


class Pool(Container):
    """Blocks. Whoever needs some asks at once and never queues: the order of admission belongs to the policy."""

    def __init__(self, env: Environment, blocks: int) -> None:
        super().__init__(env, capacity=blocks, init=blocks)
        self.blocks = self.free = blocks
        self.withheld = 0
        self._to_withhold = 0

    def can_take(self, blocks: int) -> bool:
        return blocks <= self.free

    def left_of(self, blocks: int) -> int:
        """Of so many blocks, were they given back: how many would be free, and not withheld."""
        return max(blocks - max(self._to_withhold - self.withheld, 0), 0)

    def take(self, blocks: int) -> None:
        if not 0 <= blocks <= self.free:
            raise InvariantError(f"{blocks} blocks taken from a pool with {self.free} free")
        self.free = self._level = self.free - blocks

    def give(self, blocks: int) -> None:
        if blocks < 0 or self.free + blocks + self.withheld > self.blocks:
            raise InvariantError(f"{blocks} blocks given to a pool of {self.blocks} with {self.free} free")
        self.free = self._level = self.free + blocks
        if self._to_withhold > self.withheld:
            self._absorb()

    def withhold(self, blocks: int) -> None:
        """From now on keep ``blocks`` out of use: what is free at once, the rest as it comes free."""
        self.free += self.withheld
        self.withheld, self._to_withhold = 0, blocks
        self._absorb()

    def _absorb(self) -> None:
        taken = min(self._to_withhold - self.withheld, self.free)
        self.free = self._level = self.free - taken
        self.withheld += taken


def blocks_for(block_tokens: int, prompt_tokens: int, samples: int, tokens: int) -> int:
    """Blocks that hold ``tokens`` computed tokens of a request with ``samples`` sequences over one prompt.

    The prompt's full blocks are shared; from its partial block on each sequence has its own as soon as it writes: all
    but the last writer copy it. Source: PagedAttention (SOSP '23), section 4.4.
    """
    if samples == 1 or tokens <= prompt_tokens:
        return -(-tokens // block_tokens)
    shared = prompt_tokens // block_tokens
    longest = prompt_tokens - (prompt_tokens - tokens) // samples
    return shared + samples * (-(-longest // block_tokens) - shared)


def request_blocks(request: Request, block_tokens: int, tokens: int) -> int:
    if request.samples == 1:  # by far the most frequent
        return -(-tokens // block_tokens)
    return blocks_for(block_tokens, request.prompt_tokens, request.samples, tokens)


def declared_blocks(request: Request, block_tokens: int) -> int:
    """Blocks for all that a request may come to hold: the last token's KV is never stored."""
    tokens = request.prompt_tokens + request.samples * (request.max_tokens - 1)
    return request_blocks(request, block_tokens, tokens)


Gate = Callable[[Request, int, int], tuple[int, int]]
"""(request, block_tokens, tokens) to (blocks that must be free, blocks that are taken)."""


def _full(request: Request, block_tokens: int, tokens: int) -> tuple[int, int]:
    known = request.known
    needed = request_blocks(request, block_tokens, known)
    return needed, needed if tokens == known else request_blocks(request, block_tokens, tokens)


def _chunk(request: Request, block_tokens: int, tokens: int) -> tuple[int, int]:
    blocks = request_blocks(request, block_tokens, tokens)
    return blocks, blocks


def _reserve(request: Request, block_tokens: int, _tokens: int) -> tuple[int, int]:
    blocks = declared_blocks(request, block_tokens)
    return blocks, blocks


GATES: Mapping[str, Gate] = MappingProxyType({"full": _full, "chunk": _chunk, "reserve": _reserve})
"""What must be free for a request to be admitted: its whole current sequence, its first chunk, or all it declared."""


class Pooled:
    """What every memory that has a pool says of it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @property
    def free(self) -> int:
        return self._pool.free

    @property
    def withheld(self) -> int:
        return self._pool.withheld

    def withhold(self, blocks: int) -> None:
        self._pool.withhold(blocks)


class Growing(Pooled):
    """Blocks are taken as tokens need them; those who follow take theirs together."""

    def __init__(self, pool: Pool, block_tokens: int, gate: Gate, watermark_blocks: int) -> None:
        super().__init__(pool)
        self._block_tokens = block_tokens
        self._gate = gate
        self._watermark_blocks = watermark_blocks
        self._growth = Growth(block_tokens)

    def lacks_hole(self, request: Request) -> bool:
        return False

    def covers(self, steps: int) -> int:
        return self._growth.covered(self._pool.free, steps)

    def covers_beside(self, blocks: int) -> bool:
        return self._growth.next + blocks <= self._pool.free

    def after_step(self) -> tuple[int | None, int]:
        pool = self._pool
        return pool.free - self._growth.next, pool.withheld


class Paged(Growing):
    """Any block for any request: counts say it all."""

    def __init__(self, pool: Pool, block_tokens: int, gate: Gate, watermark_blocks: int) -> None:
        super().__init__(pool, block_tokens, gate, watermark_blocks)
        self._held: dict[int, int] = {}
        self._asked: tuple[Request, int] | None = None
        self._to_take = 0

    def cached(self, request: Request) -> int:
        return 0

    def can_admit(self, request: Request, tokens: int, *, others_run: bool) -> bool:
        """The watermark is kept free only while others run: an idle server takes whatever fits."""
        needed, self._to_take = self._gate(request, self._block_tokens, tokens)
        self._asked = (request, tokens)
        return self._pool.can_take(needed + (self._watermark_blocks if others_run else 0))

    def fits_without(self, request: Request, tokens: int, leaving: Sequence[Request], *, others_run: bool) -> bool:
        needed, _ = self._gate(request, self._block_tokens, tokens)
        free = self._pool.free + self._pool.left_of(sum(map(self.held, leaving)))
        return needed + (self._watermark_blocks if others_run else 0) <= free

    def admit(self, request: Request, tokens: int, computed: int | None = None) -> None:
        if request.index in self._held:
            raise InvariantError(f"{request!r} is admitted twice")
        if self._asked == (request, tokens):  # mostly it has just been asked for
            taken = self._to_take
        else:
            _, taken = self._gate(request, self._block_tokens, tokens)
        self._asked = None
        self._pool.take(taken)
        self._held[request.index] = taken

    def can_grow(self, request: Request, tokens: int) -> bool:
        return self._pool.can_take(self.needs(request, tokens))

    def grow(self, request: Request, tokens: int) -> None:
        missing = self.needs(request, tokens)
        if missing > 0:
            self._pool.take(missing)
            self._held[request.index] += missing

    def held(self, request: Request) -> int:
        return self._held.get(request.index, 0) + self._growth.taken(request.index)

    def release(self, request: Request) -> None:
        if request.index not in self._held:
            raise InvariantError(f"{request!r} gives back blocks that it does not hold")
        self._pool.give(self._held.pop(request.index))

    def forget(self) -> None: ...

    def check(self, holders: Collection[Request]) -> None:
        held = {index: blocks + self._growth.taken(index) for index, blocks in self._held.items()}
        check_counts(self._pool, held, holders)

    def follow(self, request: Request, steps: int) -> int | None:
        spare = self._held[request.index] * self._block_tokens - request.computed
        return self._growth.add(request.index, spare, steps)

    def unfollow(self, request: Request) -> None:
        self._held[request.index] += self._growth.remove(request.index)

    @property
    def short(self) -> bool:
        return self._growth.next > self._pool.free

    def looks_at_followers(self, request: Request) -> bool:
        return False

    def exhaust(self) -> None:
        """Any block is like another: nothing to be done."""

    def step(self, steps: int) -> None:
        blocks = self._growth.step(steps)
        if blocks:
            self._pool.take(blocks)

    def stays_out(self, request: Request) -> bool:
        return True

    def needs(self, request: Request, tokens: int) -> int:
        return request_blocks(request, self._block_tokens, tokens) - self._held[request.index]


def check_counts(pool: Pool, held: Mapping[int, int], holders: Collection[Request]) -> None:
    """Free, withheld and held blocks make up the pool, and the holders are just these requests."""
    total = pool.free + pool.withheld + sum(held.values())
    if total != pool.blocks:
        raise InvariantError(
            f"{pool.free} free, {pool.withheld} withheld, {sum(held.values())} held: not {pool.blocks}"
        )
    if set(held) != {request.index for request in holders}:
        raise InvariantError(f"blocks are held by {sorted(held)}, not by those who run: {list(holders)}")
