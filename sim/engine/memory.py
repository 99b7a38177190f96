"""What the scheduler asks of the memory of a replica, and the memory without limit."""

from collections.abc import Collection, Sequence
from typing import Protocol

from sim.request import NEVER, Request


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

    def fits_without(self, request: Request, tokens: int, leaving: Sequence[Request], *, others_run: bool) -> bool:
        """Whether a waiting request could be admitted once these have left, who run."""
        ...

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

    # Those who follow grow by a token with every step: together, at no cost for each

    def follow(self, request: Request, steps: int) -> int | None:
        """It takes part in the next ``steps`` steps: has room for so many, then needs a block, and so on.

        NEVER: it has room for all. None: what it needs can't be foreseen, and it does not take part.
        """
        ...

    def unfollow(self, request: Request) -> None:
        """It is asked one at a time again, and holds what it took in the meantime."""

    @property
    def short(self) -> bool:
        """Whether there are too few blocks for the next step."""
        ...

    def needs(self, request: Request, tokens: int) -> int:
        """Blocks that a running request lacks for so many tokens."""
        ...

    def looks_at_followers(self, request: Request) -> bool:
        """Whether what those who follow have done so far makes a difference to this request."""
        ...

    def covers_beside(self, blocks: int) -> bool:
        """Whether there are so many blocks beside those for the next step."""
        ...

    def exhaust(self) -> None:
        """Before somebody has to go for the next step: those before it have taken whatever was free."""

    def covers(self, steps: int) -> int:
        """How many of the next ``steps`` steps there are blocks for."""
        ...

    def step(self, steps: int) -> None:
        """All who follow take their blocks for so many steps."""

    def after_step(self) -> tuple[int | None, int]:
        """How many blocks will be free once the next step has taken its own, and how many are withheld."""
        ...

    def stays_out(self, request: Request) -> bool:
        """Whether one that has just been refused for want of memory is refused again after any number of steps."""
        ...


class Standing:
    """For a memory in which whoever runs needs nothing more."""

    short = False

    def needs(self, request: Request, tokens: int) -> int:
        return 0

    def looks_at_followers(self, request: Request) -> bool:
        return False

    def covers_beside(self, blocks: int) -> bool:
        return True

    def exhaust(self) -> None: ...

    def follow(self, request: Request, steps: int) -> int | None:
        return NEVER

    def unfollow(self, request: Request) -> None: ...

    def covers(self, steps: int) -> int:
        return steps

    def step(self, steps: int) -> None: ...

    def stays_out(self, request: Request) -> bool:
        return True


class Unlimited(Standing):
    """No ``[kv]``: there is always room."""

    free = None
    withheld = 0

    def after_step(self) -> tuple[int | None, int]:
        return None, 0

    def lacks_hole(self, request: Request) -> bool:
        return False

    def cached(self, request: Request) -> int:
        return 0

    def can_admit(self, request: Request, tokens: int, *, others_run: bool) -> bool:
        return True

    def fits_without(self, request: Request, tokens: int, leaving: Sequence[Request], *, others_run: bool) -> bool:
        return True

    def admit(self, request: Request, tokens: int, computed: int | None = None) -> None: ...

    def can_grow(self, request: Request, tokens: int) -> bool:
        return True

    def grow(self, request: Request, tokens: int) -> None: ...

    def held(self, request: Request) -> int:
        return 0

    def release(self, request: Request) -> None: ...

    def forget(self) -> None: ...

    def withhold(self, blocks: int) -> None: ...

    def check(self, holders: Collection[Request]) -> None: ...
