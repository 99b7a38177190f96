"""The block pool, once more: how many blocks each request holds, by counts or in one region each."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from sim.policies.presets import KvAxes


class Holder(Protocol):
    """What the pool sees of a request."""

    index: int
    prompt: int
    samples: int
    declared: int
    held: int

    @property
    def known(self) -> int: ...


def blocks_of(size: int, prompt: int, samples: int, tokens: int) -> int:
    """Blocks of ``size`` slots for ``tokens`` computed tokens: the prompt's full blocks once, the rest per sample."""
    if samples == 1 or tokens <= prompt:
        return -(-tokens // size)
    sequence = prompt + -(-(tokens - prompt) // samples)
    full = prompt // size
    return full + samples * (-(-sequence // size) - full)


def declared_blocks(size: int, holder: Holder) -> int:
    """For all that a request may come to compute."""
    most = holder.prompt + holder.samples * (holder.declared - 1)
    return blocks_of(size, holder.prompt, holder.samples, most)


class Boundless:
    """No pool."""

    free: int | None = None
    withheld = 0

    def lacks_hole(self, holder: Holder) -> bool:
        return False

    def cached(self, holder: Holder) -> int:
        return 0

    def admits(self, holder: Holder, tokens: int, *, others: bool) -> bool:
        return True

    def admit(self, holder: Holder, tokens: int, computed: int) -> None:
        """Memory for its first ``tokens`` tokens, of which ``computed`` are there."""

    def room_until(self, holder: Holder) -> int:
        """Up to how many computed tokens of it nothing has to be taken."""
        return 2**62 if holder.samples == 1 else 0

    def grows(self, holder: Holder, tokens: int) -> bool:
        return True

    def grow(self, holder: Holder, tokens: int) -> None: ...

    def release(self, holder: Holder) -> None: ...

    def forget(self) -> None:
        """The device lost its memory."""

    def withhold(self, blocks: int) -> None: ...


class Counted(Boundless):
    """Any block for anybody. What is withheld is taken from the free ones, as far as there are any."""

    def __init__(self, kv: KvAxes) -> None:
        self.kv = kv
        self.size = kv.block_tokens
        self.used = 0
        self._asked = 0

    @property
    def free(self) -> int:  # type: ignore[override]
        return max(self.kv.blocks - self.used - self._asked, 0)

    @property
    def withheld(self) -> int:  # type: ignore[override]
        return min(self._asked, self.kv.blocks - self.used)

    def withhold(self, blocks: int) -> None:
        self._asked = blocks

    def whole(self, holder: Holder, tokens: int) -> int:
        return blocks_of(self.size, holder.prompt, holder.samples, tokens)

    def gate(self, holder: Holder, tokens: int) -> int:
        """Blocks that must be free, cached ones among them, for the first ``tokens`` tokens to get in."""
        return GATES[self.kv.gate](self.size, holder, tokens)

    def first(self, holder: Holder, tokens: int) -> int:
        """Blocks that are taken then."""
        return self.gate(holder, tokens) if self.kv.gate == "reserve" else self.whole(holder, tokens)

    def margin(self, *, others: bool) -> int:
        return self.kv.watermark_blocks if others else 0

    def admits(self, holder: Holder, tokens: int, *, others: bool) -> bool:
        return self.gate(holder, tokens) + self.margin(others=others) <= self.free

    def admit(self, holder: Holder, tokens: int, computed: int) -> None:
        holder.held = self.first(holder, tokens)
        self.used += holder.held

    def room_until(self, holder: Holder) -> int:
        return holder.held * self.size if holder.samples == 1 else 0

    def grows(self, holder: Holder, tokens: int) -> bool:
        return self.whole(holder, tokens) - holder.held <= self.free

    def grow(self, holder: Holder, tokens: int) -> None:
        more = max(self.whole(holder, tokens) - holder.held, 0)
        holder.held += more
        self.used += more

    def release(self, holder: Holder) -> None:
        self.used -= holder.held
        holder.held = 0


class Regions(Counted):
    """One region of neighbouring blocks for all that a request declares, at the lowest address where it fits."""

    def __init__(self, kv: KvAxes) -> None:
        super().__init__(kv)
        self._regions: dict[int, tuple[int, int]] = {}

    def _address(self, blocks: int) -> int | None:
        """The lowest free one of so many in a row; what is withheld are the free ones at the highest addresses."""
        end, fits, left = self.kv.blocks, None, self.withheld
        for start, taken in [*sorted(self._regions.values(), reverse=True), (0, 0)]:
            size = end - start - taken
            kept = min(size, left)
            left -= kept
            if size - kept >= blocks:
                fits = start + taken
            end = start
        return fits

    def lacks_hole(self, holder: Holder) -> bool:
        blocks = declared_blocks(self.size, holder)
        return blocks <= self.free and self._address(blocks) is None

    def admits(self, holder: Holder, tokens: int, *, others: bool) -> bool:
        blocks = declared_blocks(self.size, holder)
        return blocks + self.margin(others=others) <= self.free and self._address(blocks) is not None

    def admit(self, holder: Holder, tokens: int, computed: int) -> None:
        blocks = declared_blocks(self.size, holder)
        self._regions[holder.index] = (self._address(blocks) or 0, blocks)
        holder.held = blocks
        self.used += blocks

    def grows(self, holder: Holder, tokens: int) -> bool:
        return True

    def grow(self, holder: Holder, tokens: int) -> None:
        """Never beyond its region."""

    def release(self, holder: Holder) -> None:
        super().release(holder)
        del self._regions[holder.index]


GATES: Mapping[str, Callable[[int, Holder, int], int]] = MappingProxyType(
    {
        "full": lambda size, holder, _: blocks_of(size, holder.prompt, holder.samples, holder.known),
        "chunk": lambda size, holder, tokens: blocks_of(size, holder.prompt, holder.samples, tokens),
        "reserve": lambda size, holder, _: declared_blocks(size, holder),
    }
)
