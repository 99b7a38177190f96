"""The cohort: those who decode together, one token each in every decoding job. A job costs the same for any number.

Nobody in it is touched by a job: a clock moves on, and how far each has come follows from where it stood when it
joined. Somebody else's bookkeeping (one request at a time) never meets it: whoever is booked so has left.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from sim.engine.memory import Memory
from sim.request import NEVER, Clock, Request

Tell = Callable[[Request, int, int, int], None]
"""(request, first, jobs, grows): a stretch is over. It decoded in the ``jobs`` decoding jobs from number ``first`` on,
and took its first new block in decoding job ``grows``, one more every block of tokens (NEVER: not so)."""


FOREVER = 2**62
"""More jobs than there will be."""


class Cohort:
    """Its members are in every job that decodes anything, until they leave."""

    def __init__(self, memory: Memory, tellers: Sequence[Tell], *, open_to_all: bool = True) -> None:
        self.clock = Clock()
        self.members: dict[int, Request] = {}
        self.context_tokens = 0
        """What the members read in the next job: all tokens that are known of them."""
        self.changes = 0
        """How often somebody joined or left."""
        self.latest = NEVER
        """Nobody in it was admitted later (:attr:`Request.place`)."""
        self.next_finish = FOREVER
        """Nobody in it emits its last token before so many decoding jobs have ended."""
        self._memory = memory
        self._tellers = tellers
        self._open = open_to_all
        self._finishes: list[tuple[int, int, Request]] = []

    def __len__(self) -> int:
        return len(self.members)

    def __contains__(self, request: Request) -> bool:
        return request.index in self.members

    def join(self, request: Request) -> None:
        """It decodes in the next decoding job, and in all that follow. Who can't be counted along stays outside."""
        left = request.output_tokens - request.emitted
        if not self._open or request.samples > 1 or (spare := self._memory.follow(request, left)) is None:
            return
        jobs, place = self.clock.jobs, request.place
        self._begin_stretch(request, jobs, NEVER if spare == NEVER else jobs + spare)
        self.context_tokens += request.known
        request.follow(self.clock)
        finish = request.finish = jobs + left
        self.members[request.index] = request
        self.changes += 1
        if place > self.latest:  # noqa: PLR1730  # max() takes ten times as long
            self.latest = place
        if finish < self.next_finish:  # noqa: PLR1730
            self.next_finish = finish
        heappush(self._finishes, (finish, place, request))

    def leave(self, request: Request) -> None:
        """It is booked one job at a time again."""
        del self.members[request.index]
        self._memory.unfollow(request)
        request.stand()
        self.context_tokens -= request.known
        request.stretch_after = self.clock.jobs
        self.changes += 1
        if not self.members:
            self.latest, self.next_finish = NEVER, FOREVER
            self._finishes.clear()

    def dissolve(self) -> None:
        """All leave."""
        for request in list(self.members.values()):
            self.leave(request)

    def advance(self, jobs: int) -> list[Request]:
        """So many jobs have ended. Those whose last token this was, in order of admission."""
        self.context_tokens += jobs * len(self.members)
        now = self.clock.jobs = self.clock.jobs + jobs
        return self._finish(now) if self.next_finish <= now else []

    def _finish(self, now: int) -> list[Request]:
        finished: list[Request] = []
        while self.next_finish <= now:
            finish, place, request = heappop(self._finishes)
            self.next_finish = self._finishes[0][0] if self._finishes else FOREVER
            if request.index in self.members and request.finish == finish and request.place == place:
                finished.append(request)
                self.leave(request)
        return finished

    # Whoever is outside

    def decoded(self, request: Request) -> None:
        """A request outside was in the decoding job that has just ended."""
        job = self.clock.jobs - 1
        self._begin_stretch(request, job, NEVER)
        request.stretch_after = job + 1

    def close_stretch(self, request: Request) -> None:
        """It decodes no longer."""
        first = request.stretch_first
        if first != NEVER:
            if request.stretch_after > first:
                for tell in self._tellers:
                    tell(request, first, request.stretch_after - first, request.grows)
            request.stretch_first = NEVER

    def _begin_stretch(self, request: Request, first: int, grows: int) -> None:
        """It decodes in the decoding job of this number, perhaps after having done so in the one before."""
        if request.stretch_first == NEVER:
            request.stretch_first, request.grows = first, grows
        elif request.stretch_after != first:
            self.close_stretch(request)
            request.stretch_first, request.grows = first, grows
        elif request.grows == NEVER:
            request.grows = grows
