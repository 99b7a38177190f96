"""The prefix cache: what blocks hold is found again, and is evicted in the order of the free list.

The rules are those of vLLM's v1 block pool: full blocks only, a chained hash over all tokens from the first; a block
can be found as soon as it is scheduled; no block is merged with another of the same content; freed blocks without a
hash go to the front of the free list, those with one to the back, the last of a request first.

A request that shares no token with another finds nothing but its own blocks, when it resumes: it is kept by counts, its
freed blocks as one run. The others have blocks with numbers. While they follow, all take their blocks together; what
those with numbers hold is put down when somebody may look for it.
"""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import count, islice, repeat, takewhile

from sim.engine.contents import Contents
from sim.engine.kv import GATES, Gate, Growing, Pool, request_blocks
from sim.errors import InvariantError
from sim.request import Request


@dataclass(slots=True)
class Hit:
    """What the cache holds of a request: its first ``count`` blocks, and how many of them nobody holds now.

    ``blocks``: their numbers, if they have any.
    """

    count: int
    revived: int
    blocks: list[int]


class Holding:
    """The blocks of a running request: how many, how many of them can be found; ``table``: their numbers, if any."""

    def __init__(self, table: list[int] | None) -> None:
        self.table = table
        self.blocks = 0
        self.found = 0
        self.since: tuple[int, int] | None = None
        """While it follows: how many jobs there had been, and how many of its tokens were scheduled, when it began."""
        self.grown = 0
        """Of the blocks that it took since, those that are in ``blocks``."""


class Prefixed(Growing):
    """Paged memory with a prefix cache."""

    def __init__(
        self,
        pool: Pool,
        block_tokens: int,
        gate: Gate,
        watermark_blocks: int,
        contents: Contents,
    ) -> None:
        super().__init__(pool, block_tokens, gate, watermark_blocks)
        self._contents = contents
        self._admits_chunks = gate is GATES["chunk"]
        self._free = FreeList(pool.blocks)
        self._numbers = count()
        self._holdings: dict[int, Holding] = {}
        self._apart: dict[int, None] = {}
        """Requests that share with nobody, and have blocks with numbers all the same."""
        self._holders: defaultdict[int, int] = defaultdict(int)
        self._key_of: dict[int, int] = {}
        self._blocks_with: dict[int, dict[int, None]] = {}
        self._version = 0
        self._last_asked: tuple[int, int, int] | None = None
        self._last_hit = Hit(0, 0, [])
        self._paid = 0

    @property
    def distinct(self) -> int:
        """How many different contents can be found."""
        for index, holding in self._holdings.items():
            self._catch_up(index, holding)
        counted = sum(holding.found for holding in self._holdings.values() if holding.table is None)
        return len(self._blocks_with) + counted + self._free.counted

    def cached(self, request: Request) -> int:
        if self._is_alone(request):
            return self._free.run_of(request.index) * self._block_tokens
        return self._hit(request).count * self._block_tokens

    def can_admit(self, request: Request, tokens: int, *, others_run: bool) -> bool:
        hit = self._hit(request)
        needed, _ = self._gate(request, self._block_tokens, tokens)
        watermark = self._watermark_blocks if others_run else 0
        return self._pool.can_take(max(needed - hit.count, 0) + hit.revived + watermark)

    def fits_without(self, request: Request, tokens: int, leaving: Sequence[Request], *, others_run: bool) -> bool:
        """Blocks that only they hold come free; those of them that are hits are taken again at once."""
        hit = self._hit(request)
        needed, _ = self._gate(request, self._block_tokens, tokens)
        holdings = [self._holdings[other.index] for other in leaving]
        for other in leaving:
            self._catch_up(other.index, self._holdings[other.index])
        tables = Counter(block for holding in holdings for block in holding.table or ())
        freed = {block for block, times in tables.items() if times == self._holders[block]}
        given = len(freed) + sum(self.held(other) for other in leaving if self._holdings[other.index].table is None)
        hits = hit.revived + len(freed.intersection(hit.blocks))
        watermark = self._watermark_blocks if others_run else 0
        return max(needed - hit.count, 0) + hits + watermark <= self._pool.free + self._pool.left_of(given)

    def admit(self, request: Request, tokens: int, computed: int | None = None) -> None:
        if request.index in self._holdings:
            raise InvariantError(f"{request!r} is admitted twice")
        hit = self._hit(request)
        self._version += 1
        self._pool.take(hit.revived)
        holding = self._holdings[request.index] = Holding(None if self._is_alone(request) else hit.blocks[:])
        holding.blocks = holding.found = hit.count
        if holding.table is None:
            self._free.revive_run(request.index)
        for block in holding.table or ():
            if not self._holders[block]:
                self._free.revive(block)
            self._holders[block] += 1
        _, blocks = self._gate(request, self._block_tokens, tokens)
        self._take(request, holding, blocks - hit.count, tokens if computed is None else computed)

    def can_grow(self, request: Request, tokens: int) -> bool:
        return self._pool.can_take(self.needs(request, tokens))

    def grow(self, request: Request, tokens: int) -> None:
        self._take(request, self._holdings[request.index], self.needs(request, tokens), tokens)

    def held(self, request: Request) -> int:
        holding = self._holdings.get(request.index)
        return 0 if holding is None else holding.blocks + self._growth.taken(request.index) - holding.grown

    def release(self, request: Request) -> None:
        holding = self._holdings.get(request.index)
        if holding is None:
            raise InvariantError(f"{request!r} gives back blocks that it does not hold")
        if holding.table is None and holding.found > (request.known - 1) // self._block_tokens:
            self._number(request, holding)
        del self._holdings[request.index]
        self._version += 1
        if holding.table is None:
            self._free.add_run(request.index, holding.found, holding.blocks - holding.found)
            self._pool.give(holding.blocks)
            return
        holders, freed = self._holders, 0
        for block in reversed(holding.table):
            holders[block] -= 1
            if holders[block]:
                if holders[block] < 0:
                    raise InvariantError(f"block {block} is given back more often than it was taken")
                continue
            freed += 1
            self._free.add(block, found=block in self._key_of)
        self._pool.give(freed)

    def forget(self) -> None:
        self._version += 1
        self._key_of.clear()
        self._blocks_with.clear()
        self._free.forget()

    # Those who follow

    def follow(self, request: Request, steps: int) -> int | None:
        holding = self._holdings[request.index]
        spare = self._growth.add(request.index, holding.blocks * self._block_tokens - request.computed, steps)
        if spare is not None:
            holding.since, holding.grown = (self._growth.jobs, request.computed), 0
        return spare

    def unfollow(self, request: Request) -> None:
        holding = self._holdings[request.index]
        self._catch_up(request.index, holding)
        self._growth.remove(request.index)
        holding.since, holding.grown = None, 0

    @property
    def short(self) -> bool:
        return self._growth.next > self._pool.free + self._paid

    def needs(self, request: Request, tokens: int) -> int:
        return request_blocks(request, self._block_tokens, tokens) - self._holdings[request.index].blocks

    def looks_at_followers(self, request: Request) -> bool:
        return any(ancestor in self._holdings for ancestor in self._contents.ancestors(request.index))

    def exhaust(self) -> None:
        paid = self._pool.free
        self._pop(paid)
        self._paid += paid

    def step(self, steps: int) -> None:
        blocks = self._growth.step(steps) - self._paid
        if blocks:
            self._pop(blocks)
        self._paid = 0

    def stays_out(self, request: Request) -> bool:
        """Its own blocks can only be evicted; that matters if it need not come in whole."""
        return self._is_alone(request) and not (self._admits_chunks and self._hit(request).count)

    def check(self, holders: Collection[Request]) -> None:
        for index, holding in self._holdings.items():
            self._catch_up(index, holding)
        counted = Counter(block for holding in self._holdings.values() for block in holding.table or ())
        held = {block: times for block, times in self._holders.items() if times}
        counts = sum(holding.blocks for holding in self._holdings.values() if holding.table is None)
        if counted != held or len(self._free) != self._pool.blocks - len(counted) - counts:
            raise InvariantError("reference counts, tables and the free list of the prefix cache do not agree")
        free = self._pool.blocks - len(counted) - counts
        if free != self._pool.free + self._pool.withheld or set(self._holdings) != {r.index for r in holders}:
            raise InvariantError(f"{free} blocks are without holder, the pool says {self._pool.free}")
        found = {block for blocks in self._blocks_with.values() for block in blocks}
        if found != set(self._key_of) or not found <= counted.keys() | self._free.numbers:
            raise InvariantError("a block of the prefix cache can be found by another content than its own")

    def _is_alone(self, request: Request) -> bool:
        """Whether nobody else can find its blocks, nor it those of others."""
        index = request.index
        return request.samples == 1 and not self._contents.is_shared(index) and index not in self._apart

    def _number(self, request: Request, holding: Holding) -> None:
        """From now on its blocks have numbers: one can be found that it may have to compute again beside it."""
        self._apart[request.index] = None
        found, holding.found = holding.found, 0
        holding.table = list(islice(self._numbers, holding.blocks))
        self._holders.update(dict.fromkeys(holding.table, 1))
        self._find(request.index, holding, found)

    # Looking up

    def _hit(self, request: Request) -> Hit:
        """The longest run of cached blocks from the start that leaves at least one token to compute."""
        if self._is_alone(request):
            run = self._free.run_of(request.index)
            return Hit(run, run, [])
        self._catch_up_ancestors(request)
        asked = (request.index, request.known, self._version)
        if self._last_asked != asked:
            self._last_asked, self._last_hit = asked, self._look_up(request)
        return self._last_hit

    def _look_up(self, request: Request) -> Hit:
        to_be_known = request.known - 1 if request.samples == 1 else min(request.known - 1, request.prompt_tokens)
        most = to_be_known // self._block_tokens
        keys = islice(self._contents.keys(request.index, most), most)
        nothing: dict[int, None] = {}
        found = takewhile(bool, map(self._blocks_with.get, keys, repeat(nothing)))
        blocks = [next(iter(same)) for same in found]
        return Hit(len(blocks), sum(map(self._free.found.__contains__, blocks)), blocks)

    # Taking

    def _take(self, request: Request, holding: Holding, blocks: int, tokens: int) -> None:
        """New blocks from the front of the free list; then what is full of the ``tokens`` there can be found."""
        if blocks > 0:
            self._pop(blocks)
            self._give(holding, blocks)
        full = min(tokens, request.known) if request.samples == 1 else min(tokens, request.prompt_tokens)
        if full // self._block_tokens > holding.found:
            if holding.table is not None:
                self._catch_up_ancestors(request)
            self._find(request.index, holding, full // self._block_tokens)

    def _pop(self, blocks: int) -> None:
        self._pool.take(blocks)
        for block in self._free.take(blocks):
            self._evict(block)

    def _give(self, holding: Holding, blocks: int) -> None:
        holding.blocks += blocks
        if holding.table is not None:
            numbers = list(islice(self._numbers, blocks))
            holding.table += numbers
            self._holders.update(dict.fromkeys(numbers, 1))

    def _find(self, index: int, holding: Holding, upto: int) -> None:
        """The first ``upto`` blocks of the request can be found from now on."""
        first = holding.found
        if first >= upto:
            return
        holding.found = upto
        if holding.table is None:
            return
        self._version += 1
        keys = self._contents.keys(index, upto)
        for block, key in zip(holding.table[first:upto], keys[first:upto], strict=True):
            self._key_of[block] = key
            self._blocks_with.setdefault(key, {})[block] = None

    def _catch_up_ancestors(self, request: Request) -> None:
        for ancestor in self._contents.ancestors(request.index):
            if ancestor in self._holdings:
                self._catch_up(ancestor, self._holdings[ancestor])

    def _catch_up(self, index: int, holding: Holding) -> None:
        """Put down what a request that follows has taken and filled so far."""
        if holding.since is None:
            return
        taken = self._growth.taken(index)
        if taken > holding.grown:
            self._give(holding, taken - holding.grown)
            holding.grown = taken
        jobs, tokens = holding.since
        self._find(index, holding, (tokens + self._growth.jobs - jobs) // self._block_tokens)

    def _evict(self, block: int) -> None:
        """What the block holds can't be found in it any more."""
        key = self._key_of.pop(block)
        self._version += 1
        same = self._blocks_with[key]
        del same[block]
        if not same:
            del self._blocks_with[key]


class FreeList:
    """The blocks that nobody holds, in the order in which they are taken.

    First come those in which nothing can be found: one is like another, and a count does. Behind them are those with
    something to be found, the longest freed first: single blocks by their numbers, and (``~index``) the first blocks of
    a request that is kept by counts, of which the last is taken first.
    """

    def __init__(self, blocks: int) -> None:
        self._blank = blocks
        self.found: OrderedDict[int, int] = OrderedDict()

    def __len__(self) -> int:
        return self._blank + sum(self.found.values())

    @property
    def numbers(self) -> Collection[int]:
        """The numbers of the single blocks."""
        return {entry for entry in self.found if entry >= 0}

    @property
    def counted(self) -> int:
        """Blocks of requests that are kept by counts, with something to be found."""
        return sum(size for entry, size in self.found.items() if entry < 0)

    def add(self, block: int, *, found: bool) -> None:
        if found:
            self.found[block] = 1
        else:
            self._blank += 1

    def add_run(self, index: int, blocks: int, blank: int) -> None:
        """The first ``blocks`` blocks of a request, and others in which nothing can be found."""
        self._blank += blank
        if blocks:
            self.found[~index] = blocks

    def run_of(self, index: int) -> int:
        """How many of the first blocks of this request are here."""
        return self.found.get(~index, 0)

    def revive(self, block: int) -> None:
        del self.found[block]

    def revive_run(self, index: int) -> None:
        self.found.pop(~index, None)

    def forget(self) -> None:
        """Nothing can be found any more."""
        self._blank += sum(self.found.values())
        self.found.clear()

    def take(self, blocks: int) -> list[int]:
        """Take the next ones; the numbers of those in which something was to be found."""
        blank = min(self._blank, blocks)
        self._blank -= blank
        left, evicted = blocks - blank, []
        while left:
            entry, size = next(iter(self.found.items()))
            if size > left:
                self.found[entry] = size - left
                break
            del self.found[entry]
            left -= size
            if entry >= 0:
                evicted.append(entry)
        return evicted
