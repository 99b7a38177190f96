"""The KV block pool: a SimPy container with synchronous verbs, and who holds how many of its blocks.

Blocks are counted here; identities exist only where something needs them (:mod:`sim.engine.prefix`). Every verb asks
first (``can_take``) and acts then (``take``); acting without room, or giving what one does not hold, is a bug and
raises at the call.
"""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Protocol

from simpy import Container, Environment

from sim.errors import InvariantError
from sim.request import Request

UNBOUNDED = 2**62
"""More tokens than any request has."""


class Pool(Container):
    """Blocks. Whoever needs some asks at once and never queues: the order of admission belongs to the policy."""

    def __init__(self, env: Environment, blocks: int) -> None:
        super().__init__(env, capacity=blocks, init=blocks)
        self.blocks = blocks
        self.withheld = 0
        self._to_withhold = 0

    @property
    def free(self) -> int:
        return int(self._level)

    def can_take(self, blocks: int) -> bool:
        return blocks <= self._level

    def take(self, blocks: int) -> None:
        if not 0 <= blocks <= self._level:
            raise InvariantError(f"{blocks} blocks taken from a pool with {self._level} free")
        self._level -= blocks

    def give(self, blocks: int) -> None:
        if blocks < 0 or self._level + blocks + self.withheld > self.blocks:
            raise InvariantError(f"{blocks} blocks given to a pool of {self.blocks} with {self._level} free")
        self._level += blocks
        self._absorb()

    def withhold(self, blocks: int) -> None:
        """From now on keep ``blocks`` out of use: what is free at once, the rest as it comes free."""
        self._level = self.free + self.withheld
        self.withheld, self._to_withhold = 0, blocks
        self._absorb()

    def _absorb(self) -> None:
        taken = min(self._to_withhold - self.withheld, self.free)
        self._level -= taken
        self.withheld += taken


class Memory(Protocol):
    """Where requests keep their KV. ``tokens`` is always how many of its tokens a request will have computed."""

    @property
    def free(self) -> int | None: ...

    @property
    def withheld(self) -> int: ...

    def cached(self, request: Request) -> int:
        """Tokens of a waiting request that are there already; at least one stays to be computed."""
        ...

    def can_admit(self, request: Request, tokens: int, *, others_run: bool) -> bool: ...

    def admit(self, request: Request, tokens: int, computed: int | None = None) -> None:
        """Take memory for ``tokens``, of which ``computed`` are there (None: all of them are scheduled at once)."""

    def lacks_hole(self, request: Request) -> bool:
        """Whether a waiting request fits into what is free, but into no part of it."""
        ...

    def can_grow(self, request: Request, tokens: int) -> bool: ...

    def grow(self, request: Request, tokens: int) -> None: ...

    def held(self, request: Request) -> int: ...

    def release(self, request: Request) -> None: ...

    def forget(self) -> None:
        """The device lost its memory: nothing is cached any more. Blocks that are held stay so."""
        ...

    def withhold(self, blocks: int) -> None:
        """Keep so many blocks in all out of use from now on."""
        ...

    def check(self, holders: Collection[Request]) -> None:
        """Blocks are conserved and only ``holders`` hold any. ``InvariantError`` otherwise."""
        ...


class Unlimited:
    """No ``[kv]``: there is always room."""

    free = None
    withheld = 0

    def lacks_hole(self, request: Request) -> bool:
        return False

    def cached(self, request: Request) -> int:
        return 0

    def can_admit(self, request: Request, tokens: int, *, others_run: bool) -> bool:
        return True

    def admit(self, request: Request, tokens: int, computed: int | None = None) -> None:
        request.roomy_until = roomy_until(request, UNBOUNDED)

    def can_grow(self, request: Request, tokens: int) -> bool:
        return True

    def grow(self, request: Request, tokens: int) -> None: ...

    def held(self, request: Request) -> int:
        return 0

    def release(self, request: Request) -> None: ...

    def forget(self) -> None: ...

    def withhold(self, blocks: int) -> None: ...

    def check(self, holders: Collection[Request]) -> None: ...


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
    return blocks_for(block_tokens, request.prompt_tokens, request.samples, tokens)


def declared_blocks(request: Request, block_tokens: int) -> int:
    """Blocks for all that a request may come to hold: the last token's KV is never stored."""
    tokens = request.prompt_tokens + request.samples * (request.max_tokens - 1)
    return request_blocks(request, block_tokens, tokens)


def roomy_until(request: Request, slots: int) -> int:
    """Up to how many computed tokens a decode fits into ``slots``; asked each time for several samples."""
    return slots if request.samples == 1 else 0


Gate = Callable[[Request, int, int], tuple[int, int]]
"""(request, block_tokens, tokens) to (blocks that must be free, blocks that are taken)."""


def _full(request: Request, block_tokens: int, tokens: int) -> tuple[int, int]:
    return request_blocks(request, block_tokens, request.known), request_blocks(request, block_tokens, tokens)


def _chunk(request: Request, block_tokens: int, tokens: int) -> tuple[int, int]:
    blocks = request_blocks(request, block_tokens, tokens)
    return blocks, blocks


def _reserve(request: Request, block_tokens: int, _tokens: int) -> tuple[int, int]:
    blocks = declared_blocks(request, block_tokens)
    return blocks, blocks


GATES: Mapping[str, Gate] = MappingProxyType({"full": _full, "chunk": _chunk, "reserve": _reserve})
"""What must be free for a request to be admitted: its whole current sequence, its first chunk, or all it declared."""


class Paged:
    """Blocks are taken as tokens need them, any block for any request: counts say it all."""

    def __init__(self, pool: Pool, block_tokens: int, gate: Gate, watermark_blocks: int) -> None:
        self._pool = pool
        self._block_tokens = block_tokens
        self._gate = gate
        self._watermark_blocks = watermark_blocks
        self._held: dict[int, int] = {}

    @property
    def free(self) -> int:
        return self._pool.free

    @property
    def withheld(self) -> int:
        return self._pool.withheld

    def lacks_hole(self, request: Request) -> bool:
        return False

    def cached(self, request: Request) -> int:
        return 0

    def can_admit(self, request: Request, tokens: int, *, others_run: bool) -> bool:
        """The watermark is kept free only while others run: an idle server takes whatever fits."""
        needed, _ = self._gate(request, self._block_tokens, tokens)
        return self._pool.can_take(needed + (self._watermark_blocks if others_run else 0))

    def admit(self, request: Request, tokens: int, computed: int | None = None) -> None:
        if request.index in self._held:
            raise InvariantError(f"{request!r} is admitted twice")
        _, taken = self._gate(request, self._block_tokens, tokens)
        self._pool.take(taken)
        self._held[request.index] = taken
        request.roomy_until = roomy_until(request, taken * self._block_tokens)

    def can_grow(self, request: Request, tokens: int) -> bool:
        return self._pool.can_take(self._missing(request, tokens))

    def grow(self, request: Request, tokens: int) -> None:
        missing = self._missing(request, tokens)
        if missing > 0:
            self._pool.take(missing)
            held = self._held[request.index] = self._held[request.index] + missing
            request.roomy_until = roomy_until(request, held * self._block_tokens)

    def held(self, request: Request) -> int:
        return self._held.get(request.index, 0)

    def release(self, request: Request) -> None:
        if request.index not in self._held:
            raise InvariantError(f"{request!r} gives back blocks that it does not hold")
        self._pool.give(self._held.pop(request.index))

    def forget(self) -> None: ...

    def withhold(self, blocks: int) -> None:
        self._pool.withhold(blocks)

    def check(self, holders: Collection[Request]) -> None:
        check_counts(self._pool, self._held, holders)

    def _missing(self, request: Request, tokens: int) -> int:
        if request.samples == 1:  # by far the most frequent, and so without a call
            return -(-tokens // self._block_tokens) - self._held[request.index]
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
