"""The prefix cache: blocks with identities, found again by what they hold, evicted in the order of the free list.

The rules are those of vLLM's v1 block pool: full blocks only, a chained hash over all tokens from the first; a block
can be found as soon as it is scheduled; no block is merged with another of the same content; freed blocks without a
hash go to the front of the free list, those with one to the back, the last of a request first.
"""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Collection, Mapping
from itertools import islice, repeat, takewhile
from typing import NamedTuple

from sim.engine.kv import Gate, Pool, request_blocks
from sim.errors import InvariantError
from sim.request import NEVER, Request


class Hit(NamedTuple):
    """What the cache holds of a request: its first blocks, and how many of them nobody holds now."""

    blocks: list[int]
    revived: int


class Prefixed:
    """Paged memory with a prefix cache."""

    def __init__(self, pool: Pool, block_tokens: int, gate: Gate, watermark_blocks: int, contents: "Contents") -> None:
        self._pool = pool
        self._block_tokens = block_tokens
        self._gate = gate
        self._watermark_blocks = watermark_blocks
        self._contents = contents
        self._free = FreeList()
        self._holders: defaultdict[int, int] = defaultdict(int)
        self._key_of: dict[int, int] = {}
        self._blocks_with: dict[int, dict[int, None]] = {}
        self._table: dict[int, list[int]] = {}
        self._hashed: dict[int, int] = {}
        self._version = 0
        self._last_asked: tuple[int, int, int] | None = None
        self._last_hit = Hit([], 0)

    @property
    def free(self) -> int:
        return self._pool.free

    @property
    def withheld(self) -> int:
        return self._pool.withheld

    def lacks_hole(self, request: Request) -> bool:
        return False

    @property
    def distinct(self) -> int:
        """How many different contents can be found."""
        return len(self._blocks_with)

    def cached(self, request: Request) -> int:
        return len(self._hit(request).blocks) * self._block_tokens

    def can_admit(self, request: Request, tokens: int, *, others_run: bool) -> bool:
        hit = self._hit(request)
        needed, _ = self._gate(request, self._block_tokens, tokens)
        watermark = self._watermark_blocks if others_run else 0
        return self._pool.can_take(max(needed - len(hit.blocks), 0) + hit.revived + watermark)

    def admit(self, request: Request, tokens: int, computed: int | None = None) -> None:
        if request.index in self._table:
            raise InvariantError(f"{request!r} is admitted twice")
        hit = self._hit(request)
        self._version += 1
        self._pool.take(hit.revived)
        for block in hit.blocks:
            if not self._holders[block]:
                self._free.revive(block)
            self._holders[block] += 1
        self._table[request.index] = list(hit.blocks)
        self._hashed[request.index] = len(hit.blocks)
        _, blocks = self._gate(request, self._block_tokens, tokens)
        self._take(request, blocks - len(hit.blocks), tokens if computed is None else computed)

    def can_grow(self, request: Request, tokens: int) -> bool:
        return self._pool.can_take(self._missing(request, tokens))

    def grow(self, request: Request, tokens: int) -> None:
        self._take(request, self._missing(request, tokens), tokens)

    def held(self, request: Request) -> int:
        return len(self._table.get(request.index, ()))

    def release(self, request: Request) -> None:
        if request.index not in self._table:
            raise InvariantError(f"{request!r} gives back blocks that it does not hold")
        self._version += 1
        del self._hashed[request.index]
        holders, freed = self._holders, 0
        for block in reversed(self._table.pop(request.index)):
            holders[block] -= 1
            if holders[block]:
                if holders[block] < 0:
                    raise InvariantError(f"block {block} is given back more often than it was taken")
                continue
            freed += 1
            self._free.add(block, hashed=block in self._key_of)
        self._pool.give(freed)

    def forget(self) -> None:
        self._version += 1
        self._key_of.clear()
        self._blocks_with.clear()

    def withhold(self, blocks: int) -> None:
        self._pool.withhold(blocks)

    def follow(self, request: Request, steps: int) -> int | None:
        return None

    def unfollow(self, request: Request) -> None: ...

    short = False

    def covers(self, steps: int) -> int:
        return steps

    def step(self, steps: int) -> None: ...

    def stays_out(self, request: Request) -> bool:
        return False

    def check(self, holders: Collection[Request]) -> None:
        counted = Counter(block for table in self._table.values() for block in table)
        held = {block: count for block, count in self._holders.items() if count}
        if counted != held or self._free.touched != set(range(self._free.fresh)) - counted.keys():
            raise InvariantError("reference counts, tables and the free list of the prefix cache do not agree")
        free = self._pool.blocks - len(counted)
        if free != self._pool.free + self._pool.withheld or set(self._table) != {r.index for r in holders}:
            raise InvariantError(f"{free} blocks are without holder, the pool says {self._pool.free}")
        found = {block for blocks in self._blocks_with.values() for block in blocks}
        if found != set(self._key_of):
            raise InvariantError("a block of the prefix cache can be found by another content than its own")

    def _hit(self, request: Request) -> Hit:
        """The longest run of cached blocks from the start that leaves at least one token to compute."""
        asked = (request.index, request.known, self._version)
        if self._last_asked != asked:
            self._last_asked, self._last_hit = asked, self._look_up(request)
        return self._last_hit

    def _look_up(self, request: Request) -> Hit:
        to_be_known = request.known - 1 if request.samples == 1 else min(request.known - 1, request.prompt_tokens)
        most = to_be_known // self._block_tokens
        keys = islice(self._contents.keys(request, most), most)
        nothing: dict[int, None] = {}
        found = takewhile(bool, map(self._blocks_with.get, keys, repeat(nothing)))
        blocks = [next(iter(same)) for same in found]
        return Hit(blocks, sum(map(self._free.hashed.__contains__, blocks)))

    def _missing(self, request: Request, tokens: int) -> int:
        held = len(self._table[request.index])
        if request.samples == 1:  # by far the most frequent, and so without a call
            return -(-tokens // self._block_tokens) - held
        return request_blocks(request, self._block_tokens, tokens) - held

    def _take(self, request: Request, blocks: int, tokens: int) -> None:
        """New blocks from the front of the free list; then what is full of the ``tokens`` there can be found."""
        self._version += 1
        table = self._table[request.index]
        if blocks > 0:
            self._pool.take(blocks)
        for _ in range(blocks):
            block = self._free.pop(self._pool.blocks)
            if block in self._key_of:
                self._evict(block)
            self._holders[block] = 1
            table.append(block)
        full = min(tokens, request.known) if request.samples == 1 else min(tokens, request.prompt_tokens)
        self._hash(request, table, full // self._block_tokens)

    def _hash(self, request: Request, table: list[int], upto: int) -> None:
        """The first ``upto`` blocks of the request can be found from now on."""
        first = self._hashed[request.index]
        if first < upto:
            keys = self._contents.keys(request, upto)
            for number in range(first, upto):
                block, key = table[number], keys[number]
                self._key_of[block] = key
                same = self._blocks_with.get(key)
                if same is None:
                    self._blocks_with[key] = {block: None}
                else:
                    same[block] = None
            self._hashed[request.index] = upto

    def _evict(self, block: int) -> None:
        """What the block holds can't be found in it any more."""
        key = self._key_of.pop(block)
        same = self._blocks_with[key]
        del same[block]
        if not same:
            del self._blocks_with[key]


class FreeList:
    """The blocks that nobody holds, in the order in which they are taken: by number at first.

    One that is freed without a hash goes to the front, one with a hash to the back; only the latter can be found again
    and taken out of the middle. Blocks from ``fresh`` on were never taken, and need no entry.
    """

    def __init__(self) -> None:
        self.fresh = 0
        self.hashed: OrderedDict[int, None] = OrderedDict()
        self._front: list[int] = []

    @property
    def touched(self) -> set[int]:
        """Those that were taken before."""
        return {*self._front, *self.hashed}

    def order(self, blocks: int) -> list[int]:
        """All of them, the next one first, of a pool of so many ``blocks``."""
        return [*reversed(self._front), *range(self.fresh, blocks), *self.hashed]

    def add(self, block: int, *, hashed: bool) -> None:
        if hashed:
            self.hashed[block] = None
        else:
            self._front.append(block)

    def revive(self, block: int) -> None:
        del self.hashed[block]

    def pop(self, blocks: int) -> int:
        """The next one, of a pool of so many ``blocks``."""
        if self._front:
            return self._front.pop()
        if self.fresh < blocks:
            self.fresh += 1
            return self.fresh - 1
        return self.hashed.popitem(last=False)[0]


class Contents:
    """What a request's blocks hold: equal keys, equal tokens from the first one on.

    A token is known by where it comes from: ``(source, position)``, the source being a parent request, a prefix group
    or the request itself. A block of one source goes by its number in that source, since what comes before it there is
    always the same; a block of several stands for the key before it and its sources.
    """

    def __init__(self, block_tokens: int, sources: "Sources") -> None:
        self._block_tokens = block_tokens
        self._sources = sources
        self._mixed: dict[tuple[int, Stretches], int] = {}
        self._of_request: dict[int, list[int]] = {}

    def keys(self, request: Request, blocks: int) -> list[int]:
        """The keys of the request's first ``blocks`` blocks, perhaps more; each is worked out once."""
        return self._keys(request.index, blocks)

    def _keys(self, index: int, blocks: int) -> list[int]:
        keys = self._of_request.setdefault(index, [])
        if len(keys) >= blocks:
            return keys
        parent, tokens = self._sources.parent(index)
        of_parent = min(tokens // self._block_tokens, blocks)
        if len(keys) < of_parent:
            keys.extend(self._keys(parent, of_parent)[len(keys) : of_parent])
        shared = min(-(-self._sources.shared_tokens(index) // self._block_tokens), blocks)
        while len(keys) < shared:
            keys.append(self._shared_key(index, keys))
        own = index << BLOCK_BITS
        keys.extend(range(own + len(keys), own + blocks))
        return keys

    def _shared_key(self, index: int, before: list[int]) -> int:
        number = len(before)
        first = number * self._block_tokens
        content = self._sources.within(index, first, first + self._block_tokens)
        sources = {source for _, source in content}
        if len(sources) == 1 and self._sources.goes_by_number(index, content[0][1], first + self._block_tokens):
            return content[0][1] << BLOCK_BITS | number
        return self._mixed.setdefault((before[-1] if before else -1, content), -2 - len(self._mixed))


BLOCK_BITS = 32
"""A key of one source: its number, and that of the block in the lower bits."""

Stretches = tuple[tuple[int, int], ...]
"""``(upto position, source)``, from position 0 on."""


class Sources:
    """Where the first tokens of requests come from, if not from themselves. Numbers below ``requests`` are requests.

    ``parents``: by child, its parent and how many of its first tokens are the parent's.
    """

    def __init__(
        self, stretches: Mapping[int, Stretches], requests: int, parents: Mapping[int, tuple[int, int]]
    ) -> None:
        self._stretches = stretches
        self._requests = requests
        self._parents = parents

    def parent(self, index: int) -> tuple[int, int]:
        """The parent of the request, and how many first tokens are the parent's; 0 without one."""
        return self._parents.get(index, (NEVER, 0))

    def shared_tokens(self, index: int) -> int:
        """How many first tokens of the request come from elsewhere."""
        stretches = self._stretches.get(index)
        return stretches[-1][0] if stretches else 0

    def within(self, index: int, first: int, after: int) -> Stretches:
        """The stretches of positions ``first`` to ``after``, cut to them."""
        cut = []
        for upto, source in (*self._stretches.get(index, ()), (after, index)):
            if upto > first:
                cut.append((min(upto, after), source))
            if upto >= after:
                break
        return tuple(cut)

    def goes_by_number(self, index: int, source: int, after: int) -> bool:
        """Whether all up to ``after`` is what always comes before it in ``source``; a group may follow any parent."""
        return source < self._requests or all(before == source for _, before in self.within(index, 0, after))
