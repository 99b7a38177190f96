"""Contiguous allocation: one region per request for all that it declares, first fit in one address space (as Orca)."""

from collections.abc import Collection, Iterable, Sequence

from sim.engine.kv import Pool, Pooled, check_counts, declared_blocks
from sim.engine.memory import Standing
from sim.errors import InvariantError
from sim.request import Request


class Contiguous(Pooled, Standing):
    """Regions by their first block. Free space may be there and yet in no hole that is large enough."""

    def __init__(self, pool: Pool, block_tokens: int, watermark_blocks: int) -> None:
        super().__init__(pool)
        self._block_tokens = block_tokens
        self._watermark_blocks = watermark_blocks
        self._regions: dict[int, tuple[int, int]] = {}

    def after_step(self) -> tuple[int | None, int]:
        return self._pool.free, self._pool.withheld

    def lacks_hole(self, request: Request) -> bool:
        blocks = declared_blocks(request, self._block_tokens)
        return self._pool.can_take(blocks) and self._first_fit(blocks) is None

    def cached(self, request: Request) -> int:
        return 0

    def can_admit(self, request: Request, tokens: int, *, others_run: bool) -> bool:
        blocks = declared_blocks(request, self._block_tokens)
        has_room = self._pool.can_take(blocks + (self._watermark_blocks if others_run else 0))
        return has_room and self._first_fit(blocks) is not None

    def fits_without(self, request: Request, tokens: int, leaving: Sequence[Request], *, others_run: bool) -> bool:
        blocks, gone = declared_blocks(request, self._block_tokens), {other.index for other in leaving}
        given = sum(map(self.held, leaving))
        left = self._pool.left_of(given)
        if blocks + (self._watermark_blocks if others_run else 0) > self._pool.free + left:
            return False
        stay = [region for index, region in self._regions.items() if index not in gone]
        return any(size >= blocks for _, size in self._holes(stay, self._pool.withheld + given - left))

    def admit(self, request: Request, tokens: int, computed: int | None = None) -> None:
        blocks = declared_blocks(request, self._block_tokens)
        start = self._first_fit(blocks)
        if start is None or request.index in self._regions:
            raise InvariantError(f"{request!r} takes a region of {blocks} blocks that is not there")
        self._pool.take(blocks)
        self._regions[request.index] = (start, blocks)

    def can_grow(self, request: Request, tokens: int) -> bool:
        return True

    def grow(self, request: Request, tokens: int) -> None:
        """Within its region, always."""

    def held(self, request: Request) -> int:
        return self._regions.get(request.index, (0, 0))[1]

    def release(self, request: Request) -> None:
        if request.index not in self._regions:
            raise InvariantError(f"{request!r} gives back a region that it does not hold")
        self._pool.give(self._regions.pop(request.index)[1])

    def forget(self) -> None: ...

    def check(self, holders: Collection[Request]) -> None:
        check_counts(self._pool, {index: blocks for index, (_, blocks) in self._regions.items()}, holders)
        end = 0
        for start, blocks in sorted(self._regions.values()):
            if start < end or start + blocks > self._pool.blocks:
                raise InvariantError(f"the region at block {start} overlaps another or leaves the pool")
            end = start + blocks

    def holes(self) -> list[tuple[int, int]]:
        """``(start, blocks)`` of each free stretch of addresses, in order; what a fault withholds is off the end."""
        return self._holes(self._regions.values(), self._pool.withheld)

    def _holes(self, regions: Iterable[tuple[int, int]], withheld: int) -> list[tuple[int, int]]:
        holes, end = [], 0
        for start, blocks in sorted(regions):
            if start > end:
                holes.append((end, start - end))
            end = start + blocks
        if self._pool.blocks > end:
            holes.append((end, self._pool.blocks - end))
        return _without(withheld, holes)

    def _first_fit(self, blocks: int) -> int | None:
        return next((start for start, size in self.holes() if size >= blocks), None)


def _without(withheld: int, holes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Withheld blocks are the free ones with the highest addresses."""
    while withheld and holes:
        start, size = holes.pop()
        if size > withheld:
            holes.append((start, size - withheld))
        withheld -= min(size, withheld)
    return holes
