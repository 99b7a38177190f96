"""What the blocks of requests hold: which tokens of theirs are equal, and the keys by which equal blocks are found."""

from collections.abc import Iterator, Mapping

from sim.request import NEVER


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

    def is_shared(self, index: int) -> bool:
        """Whether any token of this request may also be another's."""
        return self._sources.is_shared(index)

    def ancestors(self, index: int) -> Iterator[int]:
        """The parent of the request, the parent's parent, and so on."""
        parent, _ = self._sources.parent(index)
        while parent != NEVER:
            yield parent
            parent, _ = self._sources.parent(parent)

    def keys(self, index: int, blocks: int) -> list[int]:
        """The keys of the first ``blocks`` blocks of a request, perhaps more; each is worked out once."""
        keys = self._of_request.setdefault(index, [])
        if len(keys) >= blocks:
            return keys
        parent, tokens = self._sources.parent(index)
        of_parent = min(tokens // self._block_tokens, blocks)
        if len(keys) < of_parent:
            keys.extend(self.keys(parent, of_parent)[len(keys) : of_parent])
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
        self._shared = frozenset((*stretches, *(parent for parent, tokens in parents.values() if tokens)))

    def is_shared(self, index: int) -> bool:
        """Whether tokens of this request are also another's."""
        return index in self._shared

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
