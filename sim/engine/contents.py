"""What the blocks of requests hold: which tokens of theirs are equal, and the keys by which equal blocks are found."""

from array import array
from collections.abc import Iterator, Mapping

from sim.request import NEVER


class Contents:
    """What a request's blocks hold: equal keys, equal tokens from the first one on.

    The key of a block is the node (see :class:`Sources`) in which its last token lies, and the number of the block:
    what comes before that token is the same for all that reach the node.
    """

    def __init__(self, block_tokens: int, sources: "Sources") -> None:
        self._block_tokens = block_tokens
        self._sources = sources
        self._of_request: dict[int, array[int]] = {}

    def is_shared(self, index: int) -> bool:
        """Whether any token of this request may also be another's."""
        return self._sources.is_shared(index)

    def ancestors(self, index: int) -> Iterator[int]:
        """The parent of the request, the parent's parent, and so on."""
        parent = self._sources.parent(index)
        while parent != NEVER:
            yield parent
            parent = self._sources.parent(parent)

    def keys(self, index: int, blocks: int) -> "array[int]":
        """The keys of the first ``blocks`` blocks of a request, perhaps more; each is worked out once."""
        keys = self._of_request.get(index)
        if keys is None:
            keys = self._of_request[index] = self._shared_keys(index)
        if len(keys) < blocks:
            own = index << BLOCK_BITS
            keys.extend(range(own + len(keys), own + blocks))
        return keys

    def _shared_keys(self, index: int) -> "array[int]":
        """Of the blocks whose last token comes from elsewhere: the work is by stretch, not by block."""
        keys = array("q")
        for upto, node in self._sources.stretches(index):
            first = node << BLOCK_BITS
            keys.extend(range(first + len(keys), first + upto // self._block_tokens))
        return keys


BLOCK_BITS = 32
"""A key: the number of a node, and that of the block in the lower bits."""

Stretches = tuple[tuple[int, int], ...]
"""``(upto position, node or source)``, from position 0 on."""


class Sources:
    """Where the first tokens of requests come from, if not from themselves.

    A *node* is a source together with all that comes before it: the same node at the same position, the same tokens up
    to there. Below the number of requests, it is what a request has of its own.

    ``stretches``: by request, the nodes of its first tokens; ``parents``: by child, its parent, and how many of its
    first tokens are the parent's.
    """

    def __init__(self, stretches: Mapping[int, Stretches], parents: Mapping[int, tuple[int, int]]) -> None:
        self._stretches = stretches
        self._parents = parents
        self._shared = frozenset((*stretches, *(parent for parent, tokens in parents.values() if tokens)))

    def is_shared(self, index: int) -> bool:
        """Whether tokens of this request are also another's."""
        return index in self._shared

    def parent(self, index: int) -> int:
        """The parent of the request; NEVER without one."""
        return self._parents[index][0] if index in self._parents else NEVER

    def stretches(self, index: int) -> Stretches:
        """The nodes of the request's first tokens; what follows is its own."""
        return self._stretches.get(index, ())
