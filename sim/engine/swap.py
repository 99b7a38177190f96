"""Host memory for preempted requests: who is out there, and how many blocks each left."""

from collections.abc import Callable, Collection

from sim.engine.queue import Key
from sim.errors import InvariantError
from sim.request import Request


class Swap:
    """``blocks`` on the host. With none, nobody is ever swapped out. True while anybody is out."""

    def __init__(self, blocks: int) -> None:
        self.free = blocks
        self.out: dict[int, tuple[Request, int]] = {}

    def __len__(self) -> int:
        return len(self.out)

    def __contains__(self, request: Request) -> bool:
        return request.index in self.out

    @property
    def indices(self) -> Collection[int]:
        return self.out.keys()

    def first(self, rank: Callable[[Request], Key]) -> Request:
        """Of those who are out, the one with the smallest rank."""
        return min((request for request, _ in self.out.values()), key=rank)

    def can_take(self, blocks: int) -> bool:
        return 0 < blocks <= self.free

    def take_out(self, request: Request, blocks: int) -> None:
        if not self.can_take(blocks) or request in self:
            raise InvariantError(f"{request!r} is swapped out with {blocks} blocks, {self.free} free on the host")
        self.free -= blocks
        self.out[request.index] = (request, blocks)

    def bring_in(self, request: Request) -> int:
        """The blocks that it had left here, and that are free again."""
        if request not in self:
            raise InvariantError(f"{request!r} is not on the host")
        blocks = self.out.pop(request.index)[1]
        self.free += blocks
        return blocks
