"""One decision under way, once more: who goes into the job, who joins for it, and who has to go."""

from collections.abc import Iterable
from copy import deepcopy

from sim.engine.plan import Blocked, Kind, Loss
from sim.record.again.orders import gives_way
from sim.record.again.server import NO_BOUND, Planned, Req, Server, age
from sim.record.tables import DECODE, PREFILL


class Turn:
    """One decision under way."""

    def __init__(self, server: Server) -> None:
        axes = server.axes
        self.server = server
        self.left = axes.token_budget if axes.has_budget and axes.token_budget is not None else NO_BOUND
        """Tokens that the job still takes."""
        self.taken: dict[int, tuple[int, int]] = {}
        """What was scheduled: ``(tokens, phase)`` by request, in order."""
        self.admitted: list[tuple[int, int, int]] = []
        self.preempted: list[tuple[int, int, int]] = []
        self.copies: list[tuple[int, int, int]] = []
        self.closed = False
        self.gone: list[Req] = []
        """Who made way for somebody more urgent."""
        self.short = False
        """Whether somebody had to go for want of blocks."""
        self.lacks_blocks = False
        """Whether somebody who runs had no blocks for the next of its prompt."""
        self.blocked = Blocked.NOTHING

    def head(self) -> Req | None:
        """Who is next in the queue, if anybody may join: first all come back who were swapped out."""
        server = self.server
        if self.closed or not server.waiting:
            return None
        first = server.waiting[0]
        if first in self.gone:
            return None
        if server.swapped and not self.before(first, self.next_back()):
            self.blocked = Blocked.SWAPPED
            return None
        return first

    def next_prompt(self) -> Req | None:
        """Who prefills next: of those who run the first that can, else the head of the queue."""
        for req in self.server.running.values():
            if req.prefills and req.index not in self.taken:
                return req
        return self.head()

    def rest(self, req: Req) -> int:
        """What is left to compute of it, were it scheduled now."""
        return req.known - (req.computed if req.index in self.server.running else self.server.memory.cached(req))

    def has_slots(self, req: Req) -> bool:
        most = self.server.axes.max_running
        if most is None or self.server.slots + req.samples <= most:
            return True
        self.blocked = Blocked.SLOTS
        return False

    def admit(self, req: Req, tokens: int) -> bool:
        server = self.server
        if self.closed:
            return False
        cached = server.memory.cached(req)
        if not self.has_room(req, cached + tokens):
            if not self.make_way(req, cached + tokens):
                return False
            self.blocked = Blocked.NOTHING
        server.memory.admit(req, cached + tokens, cached)
        server.line.admit(req)
        req.computed, req.cached, req.target = cached, cached, req.known
        server.join(req)
        self.admitted.append((req.index, cached, 0))
        return True

    def has_room(self, req: Req, upto: int) -> bool:
        memory = self.server.memory
        if not self.has_slots(req):
            return False
        if memory.admits(req, upto, others=bool(self.server.running)):
            return True
        self.blocked = Blocked.HOLES if memory.lacks_hole(req) else Blocked.BLOCKS
        return False

    def prefill(self, req: Req, tokens: int) -> bool:
        """So much of a prompt, if budget and blocks are there; nobody has to go for it."""
        memory = self.server.memory
        if tokens > self.left:
            self.blocked = Blocked.BUDGET
            return False
        if req.index in self.server.running:
            if not memory.grows(req, req.computed + tokens):
                self.lacks_blocks = True
                return False
        elif not self.admit(req, tokens):
            return False
        memory.grow(req, req.computed + tokens)
        self.take(req, tokens)
        return True

    def take(self, req: Req, tokens: int) -> None:
        self.taken[req.index] = (tokens, PREFILL if req.prefills else DECODE)
        self.left -= tokens

    def extend(self, reqs: Iterable[Req], most: int = NO_BOUND, *, cut: bool = True) -> None:
        """The next tokens of each that still runs when its turn comes; others have to go when blocks are short.

        Unless it may be ``cut``, a prefill that has not begun goes whole, or up to ``most``, or not at all.
        """
        memory, running = self.server.memory, self.server.running
        for req in reqs:
            if self.left <= 0 or req.index not in running:
                continue
            if req.target <= req.computed < memory.room_until(req):  # one more token, and room for it
                self.taken[req.index] = (1, DECODE)
                self.left -= 1
                continue
            tokens = min(req.known - req.computed, most) if req.prefills else req.samples
            if req.prefills and (cut or req.computed > req.cached):
                tokens = min(tokens, self.left)
            if not 0 < tokens <= self.left:
                continue
            while not memory.grows(req, req.computed + tokens):
                if self.preempt() is req:
                    break
            else:
                memory.grow(req, req.computed + tokens)
                self.take(req, tokens)

    def decode(self) -> bool:
        """All who have their prompt, and of those who come back the same; whether there is work now."""
        self.extend([req for req in self.server.running.values() if not req.prefills])
        if not self.short:
            self.extend([req for req in self.bring_back() if not req.prefills])
        return bool(self.taken)

    def bring_back(self) -> list[Req]:
        """Who was swapped out, the oldest first, while slots and blocks last."""
        server, back = self.server, []
        while server.swapped and not self.closed:
            req = self.next_back()
            if server.waiting and self.before(server.waiting[0], req):
                break
            if not self.has_slots(req):
                break
            if not server.memory.admits(req, req.known, others=bool(server.running)):
                break
            server.memory.admit(req, req.known, req.computed)
            del server.swapped[req.index]
            server.host_blocks += req.host
            self.copies.append((req.index, req.host, 0))
            self.admitted.append((req.index, 0, 1))
            server.join(req)
            back.append(req)
        return back

    def preempt(self) -> Req:
        """The victim of the rule has to go for want of blocks."""
        self.short = True
        victim = self.server.victim(list(self.server.running.values()))
        self.evict(victim)
        return victim

    def make_way(self, head: Req, tokens: int) -> bool:
        """Somebody who runs and is less urgent goes, as many of them as it takes; whether the head has room then.

        Nobody goes without whom it would have room all the same: of two of them the less urgent goes.
        """
        server = self.server
        joined = {index for index, *_ in self.admitted}
        behind = [req for req in server.running.values()
                  if self.before(head, req) and req.index not in joined and not req.overdue]  # fmt: skip
        behind.sort(key=lambda req: (*server.line.urgency(req), *age(req)))
        go: list[Req] = []
        while behind:
            go.append(behind.pop())
            if self.would_fit(head, tokens, go):
                break
        else:
            return False
        for req in go[-2::-1]:
            spared = [other for other in go if other is not req]
            if self.would_fit(head, tokens, spared):
                go = spared
        for req in go:
            self.evict(req)
        self.gone += go
        return True

    def before(self, req: Req, other: Req) -> bool:
        line = self.server.line
        return gives_way(line.axes) and line.urgency(req) < line.urgency(other)

    def next_back(self) -> Req:
        """Of those on the host, the oldest; where the less urgent make way, the most urgent, of equals the oldest."""
        line = self.server.line
        return min(
            self.server.swapped.values(),
            key=lambda req: (*(line.urgency(req) if gives_way(line.axes) else ()), *age(req)),
        )

    def would_fit(self, head: Req, upto: int, go: list[Req]) -> bool:
        """Whether it would get in without these: tried on a copy."""
        server, most = self.server, self.server.axes.max_running
        if most is not None and server.slots - sum(req.samples for req in go) + head.samples > most:
            return False
        shared = getattr(server.memory, "contents", None)
        memory, gone = deepcopy((server.memory, go), {id(shared): shared})
        for req in gone:
            memory.release(req)
        return memory.admits(head, upto, others=len(go) < len(server.running))

    def evict(self, victim: Req) -> None:
        """It loses its blocks, to the host if they fit there, and its place in this job."""
        server = self.server
        tokens, _ = self.taken.pop(victim.index, (0, 0))
        self.left += tokens
        blocks = victim.held
        server.leave(victim)
        if 0 < blocks <= server.host_blocks:
            victim.host = blocks
            server.host_blocks -= blocks
            server.swapped[victim.index] = victim
            self.copies.append((victim.index, blocks, 1))
            self.preempted.append((victim.index, victim.computed, int(Loss.SWAP)))
        else:
            self.preempted.append((victim.index, victim.computed, int(Loss.RECOMPUTE)))
            victim.computed = 0
            server.line.put_back(victim)

    def jobs(self) -> list[Planned]:
        """Copies out, copies in, then the work; none when there is nothing to do."""
        jobs = []
        for out in (1, 0):
            copies = [copy for copy in self.copies if copy[2] == out]
            if copies:
                jobs.append(Planned(Kind.SWAP, copies=copies))
        if self.taken:
            chunks = sum(phase == PREFILL for _, phase in self.taken.values())
            kind = Kind.DECODE if not chunks else Kind.PREFILL if chunks == len(self.taken) else Kind.MIXED
            jobs.append(Planned(kind, [(index, tokens, int(phase)) for index, (tokens, phase) in self.taken.items()]))
        if self.blocked is Blocked.NOTHING and self.left <= 0 and self.server.waiting:
            self.blocked = Blocked.BUDGET
        return jobs
