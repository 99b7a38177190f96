"""The memories against a plain model of them, written from the rules: who holds which block, in lists and multisets.

Hypothesis admits, grows, preempts, swaps, finishes and cancels requests, withholds blocks and crashes the device in any
order; after each step the memory says of every block what the model says. Misuse raises at the call and changes
nothing.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
import simpy
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sim.engine.build import memory_of
from sim.engine.contiguous import Contiguous
from sim.engine.kv import Paged, Pool
from sim.engine.memory import Memory
from sim.engine.prefix import Prefixed
from sim.engine.swap import Swap
from sim.errors import InvariantError
from sim.policies.presets import KvAxes
from sim.request import NEVER, Clock, Request, RequestSpec, Workload

REQUESTS = 8
PICKS = st.integers(0, 59)
"""Picks one of a list, of up to five, fairly."""

Token = tuple[str, int]
Content = tuple[Token, ...]


class Model:
    """Blocks as a list of who holds each. What is withheld is how many are out of use, of those that are free."""

    def __init__(self, axes: KvAxes, contents: list[list[Token]]) -> None:
        self.axes = axes
        self.to_withhold = 0
        self.owners: list[Counter[int]] = [Counter() for _ in range(axes.blocks)]
        self.tables: dict[int, list[int]] = {}
        self.free_list = list(range(axes.blocks))
        self.hashed: dict[int, Content] = {}
        self.in_order_of_hashing: list[int] = []
        self.contents = contents

    @property
    def size(self) -> int:
        return self.axes.block_tokens

    @property
    def unowned(self) -> int:
        return sum(not owners for owners in self.owners)

    @property
    def withheld(self) -> int:
        return min(self.to_withhold, self.unowned)

    @property
    def free(self) -> int:
        return self.unowned - self.withheld

    # How many blocks

    def blocks(self, request: Request, tokens: int) -> int:
        """Lay the tokens out sequence by sequence and count the blocks that they touch."""
        shared = min(tokens, request.prompt_tokens)
        if tokens <= request.prompt_tokens:
            return len({position // self.size for position in range(shared)})
        touched: set[tuple[int, int]] = set()
        own = -(-(tokens - request.prompt_tokens) // request.samples)
        for sequence in range(request.samples):
            for position in range(request.prompt_tokens + own):
                block = position // self.size
                full_of_prompt = (block + 1) * self.size <= request.prompt_tokens
                touched.add((0 if full_of_prompt else sequence, block))
        return len(touched)

    def declared(self, request: Request) -> int:
        return self.blocks(request, request.prompt_tokens + request.samples * (request.max_tokens - 1))

    def taken(self, request: Request, tokens: int) -> int:
        """What admission takes, the cached blocks included."""
        declares = self.axes.gate == "reserve" or self.axes.allocation == "contiguous"
        return self.declared(request) if declares else self.blocks(request, tokens)

    def asked(self, request: Request, tokens: int) -> int:
        """What the gate wants to be free, the cached blocks included."""
        if self.axes.gate == "full" and self.axes.allocation == "paged":
            return self.blocks(request, request.known)
        return self.taken(request, tokens)

    # The cache

    def content(self, request: Request, block: int) -> Content:
        own = self.contents[request.index]
        more = [(f"request {request.index}", p) for p in range(len(own), (block + 1) * self.size)]
        return tuple((own + more)[: (block + 1) * self.size])

    def hits(self, request: Request) -> list[int]:
        hits: list[int] = []
        if not self.axes.prefix_cache:
            return hits
        last = request.known - 1 if request.samples == 1 else min(request.known - 1, request.prompt_tokens)
        for number in range(last // self.size):
            content = self.content(request, number)
            found = [block for block in self.in_order_of_hashing if self.hashed[block] == content]
            if not found:
                break
            hits.append(found[0])
        return hits

    def forget(self) -> None:
        self.hashed.clear()
        self.in_order_of_hashing.clear()

    def _hash(self, request: Request, tokens: int) -> None:
        known = request.known if request.samples == 1 else request.prompt_tokens
        table = self.tables[request.index]
        for number in range(min(tokens, known) // self.size if self.axes.prefix_cache else 0):
            if table[number] not in self.hashed:
                self.hashed[table[number]] = self.content(request, number)
                self.in_order_of_hashing.append(table[number])

    # Verbs

    def can_admit(self, request: Request, tokens: int, *, others_run: bool) -> bool:
        hits = self.hits(request)
        revived = sum(not self.owners[block] for block in hits)
        watermark = self.axes.watermark_blocks if others_run else 0
        if max(self.asked(request, tokens) - len(hits), 0) + revived + watermark > self.free:
            return False
        return self.axes.allocation != "contiguous" or self.region(self.declared(request)) is not None

    def region(self, blocks: int) -> list[int] | None:
        """The first free addresses side by side; the highest free ones are the withheld ones."""
        usable = [block for block, owners in enumerate(self.owners) if not owners]
        usable = usable[: len(usable) - self.withheld]
        for start in usable:
            wanted = list(range(start, start + blocks))
            if set(wanted) <= set(usable):
                return wanted
        return None

    def admit(self, request: Request, tokens: int) -> None:
        hits = self.hits(request)
        table = self.tables[request.index] = []
        for block in hits:
            if not self.owners[block]:
                self.free_list.remove(block)
            self._own(request, block)
        if self.axes.allocation == "contiguous":
            for block in self.region(self.declared(request)) or ():
                self.free_list.remove(block)
                self._own(request, block)
        self._fill(request, self.taken(request, tokens))
        assert len(table) == max(self.taken(request, tokens), len(hits))
        self._hash(request, tokens)

    def grow(self, request: Request, tokens: int) -> None:
        self._fill(request, self.blocks(request, tokens))
        self._hash(request, tokens)

    def missing(self, request: Request, tokens: int) -> int:
        return max(self.blocks(request, tokens) - len(self.tables[request.index]), 0)

    def release(self, request: Request) -> None:
        for block in reversed(self.tables.pop(request.index)):
            self.owners[block] -= Counter({request.index: 1})
            if self.owners[block]:
                continue
            if block in self.hashed:
                self.free_list.append(block)
            else:
                self.free_list.insert(0, block)

    def _fill(self, request: Request, blocks: int) -> None:
        while len(self.tables[request.index]) < blocks:
            block = self.free_list.pop(0)
            if block in self.hashed:
                del self.hashed[block]
                self.in_order_of_hashing.remove(block)
            self._own(request, block)

    def _own(self, request: Request, block: int) -> None:
        self.tables[request.index].append(block)
        self.owners[block][request.index] += 1


@st.composite
def pools(draw: st.DrawFn, kind: str) -> KvAxes:
    blocks = draw(st.sampled_from([1, 2, *range(4, 16)]))
    return KvAxes(
        blocks=blocks,
        block_tokens=draw(st.sampled_from([2, 3, 4] if kind == "contiguous" else [1, 2, 3, 4])),  # short: many regions
        allocation="contiguous" if kind == "contiguous" else "paged",
        gate=draw(st.sampled_from(["full", "chunk", "reserve"])),
        watermark_blocks=min(draw(st.sampled_from([0, 1, 2])), blocks - 1),
        prefix_cache=kind == "prefixed",
        preemption="swap",
        swap_blocks=draw(st.sampled_from([0, 3, 6, 12])),
    )


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """A few requests; some begin with a group's tokens, some with another's prompt and output (of one sample)."""

    def column(values: Iterable[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array(list(values), dtype=np.int64)

    places = range(REQUESTS)
    prompt = [draw(st.sampled_from(range(1, 9))) for _ in places]
    output = [draw(st.sampled_from(range(1, 6))) for _ in places]
    samples = [draw(st.sampled_from([1, 1, 1, 2, 3])) for _ in places]
    parent, parent_tokens, groups, prefix_tokens = [], [], [], []
    for place in places:
        elders = [other for other in range(place) if samples[other] == 1]
        parent.append(draw(st.sampled_from([NEVER, NEVER, *elders])))
        longest = min(prompt[place], prompt[parent[-1]] + output[parent[-1]])
        parent_tokens.append(draw(st.sampled_from([longest, longest // 2])) if parent[-1] != NEVER else 0)
        # left out: a request with a parent and a group, whose stretches of equal tokens are not always seen as equal
        groups.append(draw(st.sampled_from(["", "g", "g"])) if parent[-1] == NEVER else "")
        prefix_tokens.append(draw(st.sampled_from([prompt[place], 1 + prompt[place] // 2])) if groups[-1] else 0)
    workload = Workload.of(column([draw(st.integers(0, 2)) for _ in places]), column(prompt), column(output))
    return replace(
        workload,
        max_tokens=column(o + draw(st.sampled_from([0, 0, 3])) for o in output),
        samples=column(samples),
        parent=column(parent),
        parent_tokens=column(parent_tokens),
        prefix_groups=groups,
        prefix_tokens=column(prefix_tokens),
    )


def first_tokens(workload: Workload) -> list[list[Token]]:
    """Of each request: the tokens of its prompt and output, each by where it comes from."""
    contents: list[list[Token]] = []
    for index, spec in enumerate(workload.specs()):
        own: list[Token] = [(f"request {index}", p) for p in range(spec.prompt_tokens + spec.output_tokens)]
        for position in range(int(workload.prefix_tokens[index])):
            own[position] = ("group", position)
        for position in range(int(workload.parent_tokens[index])):
            own[position] = contents[int(workload.parent[index])][position]
        contents.append(own)
    return contents


class Machine(RuleBasedStateMachine):
    """Requests on one memory and one host."""

    kind = "paged"

    @initialize(data=st.data(), workload=workloads())
    def begin(self, data: st.DataObject, workload: Workload) -> None:
        axes = self.axes = data.draw(pools(self.kind))
        self.memory: Memory = memory_of(simpy.Environment(), axes, workload)
        self.model = Model(axes, first_tokens(workload))
        self.swap = Swap(axes.swap_blocks)
        self.host: dict[int, int] = {}
        self.requests = [Request(spec) for spec in workload.specs()]
        self.running: list[Request] = []
        self.clock = Clock()
        self.following: dict[int, Request] = {}
        self.gone: dict[int, bool] = {}

    @property
    def waiting(self) -> list[Request]:
        out = [r for r in self.requests if r not in self.running and r.index not in self.host]
        return [request for request in out if not self.gone.get(request.index)]

    # What happens

    @precondition(lambda self: self.waiting)
    @rule(pick=PICKS, part=PICKS)
    def admit(self, pick: int, part: int) -> None:
        request = self.waiting[pick % len(self.waiting)]
        cached = len(self.model.hits(request)) * self.axes.block_tokens
        tokens = cached + 1 + part % (request.known - cached)
        fits = self.model.can_admit(request, tokens, others_run=bool(self.running))
        assert self.memory.can_admit(request, tokens, others_run=bool(self.running)) == fits
        if fits:
            self.memory.admit(request, tokens)
            self.model.admit(request, tokens)
            request.admitted(cached)
            self.running.append(request)
            self._computed(request, tokens)

    @precondition(lambda self: self.running)
    @rule(pick=PICKS, part=PICKS)
    def grow(self, pick: int, part: int) -> None:
        request = self._alone(pick)
        tokens = request.computed + (1 + part % request.rest if request.prefilling else request.samples)
        fits = self.model.missing(request, tokens) <= self.model.free
        assert self.memory.can_grow(request, tokens) == fits
        if fits:
            self.memory.grow(request, tokens)
            self.model.grow(request, tokens)
            self._computed(request, tokens)
        else:
            with pytest.raises(InvariantError):
                self.memory.grow(request, tokens)

    def _computed(self, request: Request, tokens: int) -> None:
        """The job ends; who is complete emits, and leaves after its last token."""
        request.computed = tokens
        if request.computed >= request.prefill_end:
            assert request.computed == request.known
            request.emitted += 1
            if request.emitted == request.output_tokens:
                self._release(request)
                self._come_again(request)

    @precondition(lambda self: self.running)
    @rule(pick=PICKS)
    def preempt(self, pick: int) -> None:
        request = self._alone(pick)
        self._release(request)
        request.forget()

    @precondition(lambda self: self.running)
    @rule(pick=PICKS)
    def swap_out(self, pick: int) -> None:
        request = self._alone(pick)
        blocks = len(self.model.tables[request.index])
        fits = blocks <= self.axes.swap_blocks - sum(self.host.values())
        assert self.memory.held(request) == blocks
        assert self.swap.can_take(blocks) == fits
        if fits:
            self.swap.take_out(request, blocks)
            self._release(request)
            self.host[request.index] = blocks
        else:
            with pytest.raises(InvariantError):
                self.swap.take_out(request, blocks)

    @precondition(lambda self: self.host)
    @rule()
    def swap_in(self) -> None:
        """The one that arrived first; the rest of what is known of it is computed in the same job."""
        request = min((self.requests[i] for i in self.host), key=lambda r: (r.arrival_ns, r.index))
        assert self.swap.first(lambda other: (other.arrival_ns, other.index)) is request
        fits = self.model.can_admit(request, request.known, others_run=bool(self.running))
        assert self.memory.can_admit(request, request.known, others_run=bool(self.running)) == fits
        if fits:
            self.memory.admit(request, request.known)
            self.model.admit(request, request.known)
            assert self.swap.bring_in(request) == self.host.pop(request.index)
            self.running.append(request)
            self._computed(request, request.known)

    @precondition(lambda self: self.running or self.host)
    @rule(pick=PICKS)
    def cancel(self, pick: int) -> None:
        request = self.requests[pick % REQUESTS]
        if request in self.running:
            self._stand(request)
            self._release(request)
        elif request.index in self.host:
            assert self.swap.bring_in(request) == self.host.pop(request.index)
        request.forget()

    @rule(blocks=st.sampled_from([0, 0, 0, 0, 0, 1, 3, 6, 16]))
    def withhold(self, blocks: int) -> None:
        self.memory.withhold(blocks)
        self.model.to_withhold = blocks

    @precondition(lambda self: self.running)
    @rule(luck=st.integers(0, 9))
    def crash(self, luck: int) -> None:
        """Once in ten times: whoever runs is to come far."""
        if luck:
            return
        for request in reversed(list(self.running)):
            self._stand(request)
            self._release(request)
            request.forget()
        self.memory.forget()
        self.model.forget()

    def _come_again(self, request: Request) -> None:
        """With one token more, as if it had been preempted, where that fits; its blocks may still be cached."""
        request.forget()
        request.output_tokens += 1
        request.max_tokens = max(request.max_tokens, request.output_tokens)
        self.gone[request.index] = self.model.declared(request) > self.axes.blocks

    # Those who follow

    @property
    def decoding(self) -> list[Request]:
        """Those who could follow, and don't yet."""
        return [r for r in self.running if not r.prefilling and r.samples == 1 and r.index not in self.following]

    @precondition(lambda self: self.decoding)
    @rule(pick=PICKS)
    def follow(self, pick: int) -> None:
        """It grows with the others from now on, by a block where the model says that one is missing."""
        request = self.decoding[pick % len(self.decoding)]
        left = request.output_tokens - request.emitted
        missing = [self.model.missing(request, request.computed + 1 + job) > 0 for job in range(left)]
        spare = self.memory.follow(request, left)
        if spare is None:
            assert any(missing)
            assert not any(missing[: self.axes.block_tokens]), "what it needs soon can be foreseen"
            return
        assert spare == (missing.index(True) if any(missing) else NEVER)
        request.follow(self.clock)
        self.following[request.index] = request

    @precondition(lambda self: self.following)
    @rule(jobs=st.integers(1, 5))
    def step(self, jobs: int) -> None:
        """All of them decode so many times, or as often as there are blocks for, until the first has its last token."""
        followers = [request for request in self.running if request.index in self.following]
        left = min(jobs, *(request.output_tokens - request.emitted for request in followers))
        grown = [sum(self.model.missing(r, r.computed + job) for r in followers) for job in range(1, left + 1)]
        covered = sum(total <= self.model.free for total in grown)
        assert self.memory.covers(left) == covered
        assert self.memory.short == (grown[0] > self.model.free)
        if not covered:
            return
        self.memory.step(1)
        if covered > 1:
            self.memory.step(covered - 1)
        for _ in range(covered):
            for request in followers:
                self.model.grow(request, request.computed + 1)
            self.clock.jobs += 1
        for request in followers:
            if request.emitted == request.output_tokens:
                self._stand(request)
                self._release(request)
                self._come_again(request)

    def _alone(self, pick: int) -> Request:
        """One of those who run, which follows no longer."""
        request = self.running[pick % len(self.running)]
        self._stand(request)
        return request

    def _stand(self, request: Request) -> None:
        if self.following.pop(request.index, None) is not None:
            self.memory.unfollow(request)
            request.stand()

    def _release(self, request: Request) -> None:
        self.memory.release(request)
        self.model.release(request)
        self.running.remove(request)

    # Misuse

    @precondition(lambda self: self.running)
    @rule()
    def misuse(self) -> None:
        """All that can be done wrong now; each raises at the call, and the books stay as they were."""
        for request in self.requests:
            if request not in self.running:
                with pytest.raises(InvariantError, match=f"{request.id}.*does not hold"):
                    self.memory.release(request)
                self._admit_without_room(request)
            else:
                with pytest.raises(InvariantError):
                    self.memory.admit(request, request.known)
            misuse = self._copy_out if request.index in self.host else self.swap.bring_in
            with pytest.raises(InvariantError):
                misuse(request)
        self._count_wrongly()
        if self.running:
            with pytest.raises(InvariantError):
                self.memory.check(self.running[1:])

    def _admit_without_room(self, request: Request) -> None:
        if self.model.hits(request):
            return
        hole = self.axes.allocation == "paged" or self.model.region(self.model.declared(request)) is not None
        if self.model.taken(request, request.known) > self.model.free or not hole:
            assert not self.memory.can_admit(request, request.known, others_run=False)
            if not isinstance(self.memory, Prefixed):  # what it had begun when it raised stays: the run is over anyway
                with pytest.raises(InvariantError):
                    self.memory.admit(request, request.known)

    def _copy_out(self, request: Request) -> None:
        self.swap.take_out(request, 1)

    # The order of eviction: whose block, where it is kept by counts; of the others just that it is one of theirs

    def _lost(self) -> list[tuple[int, int] | None]:
        assert isinstance(self.memory, Prefixed)
        labels: list[tuple[int, int] | None] = []
        for entry, size in self.memory._free.found.items():
            labels += [(~entry, number) for number in reversed(range(size))] if entry < 0 else [None]
        return labels

    def _label(self, block: int) -> tuple[int, int] | None:
        assert isinstance(self.memory, Prefixed)
        source, position = self.model.hashed[block][-1]
        owner = [r for r in self.requests if source == f"request {r.index}" and self.memory._is_alone(r)]
        return (owner[0].index, position // self.axes.block_tokens) if owner else None

    def _count_wrongly(self) -> None:
        pool = self._pool()
        out = pool.blocks - pool.free - pool.withheld
        for verb, blocks in ((pool.give, out + 1), (pool.give, -1), (pool.take, pool.free + 1), (pool.take, -1)):
            with pytest.raises(InvariantError, match=f"{blocks} blocks"):
                verb(blocks)

    def _pool(self) -> Pool:
        assert isinstance(self.memory, (Paged, Contiguous, Prefixed))
        return self.memory._pool

    # What always holds

    @invariant()
    def memory_and_model_agree(self) -> None:
        if not hasattr(self, "memory"):
            return
        self.memory.check(self.running)
        assert self.memory.free == self.model.free
        assert self.memory.withheld == self.model.withheld
        assert self.swap.free == self.axes.swap_blocks - sum(self.host.values())
        assert sorted(self.swap.indices) == sorted(self.host)
        for request in self.requests:
            held = self.model.tables.get(request.index, [])
            assert self.memory.held(request) == len(held)
            if request not in self.running and request.index not in self.host:
                assert self.memory.cached(request) == len(self.model.hits(request)) * self.axes.block_tokens
        if isinstance(self.memory, Prefixed):
            assert len(self.memory._free) == len(self.model.free_list)
            assert self._lost() == [self._label(block) for block in self.model.free_list if block in self.model.hashed]
            assert self.memory.distinct == len(set(self.model.hashed.values()))
        if isinstance(self.memory, Contiguous):
            regions = {i: (table[0], len(table)) for i, table in self.model.tables.items()}
            assert self.memory._regions == regions


class PrefixedMachine(Machine):
    kind = "prefixed"


class ContiguousMachine(Machine):
    kind = "contiguous"


TestPaged, TestPrefixed, TestContiguous = Machine.TestCase, PrefixedMachine.TestCase, ContiguousMachine.TestCase
usual = settings(
    max_examples=80,
    stateful_step_count=60,
    phases=set(Phase) - {Phase.explain},
    suppress_health_check=list(HealthCheck),
)
TestPaged.settings = TestPrefixed.settings = TestContiguous.settings = usual


@pytest.mark.stress
@pytest.mark.parametrize("machine", [Machine, PrefixedMachine, ContiguousMachine], ids=lambda machine: machine.kind)
def test_memories_at_length(machine: type[Machine]) -> None:
    """Some four minutes in all."""
    run_state_machine_as_test(machine, settings=settings(usual, max_examples=3_000))


def test_a_spec_can_be_held_by_hand() -> None:
    """The smallest case of each memory, beside the machine: two of three blocks taken, one given back twice."""
    env = simpy.Environment()
    spec = RequestSpec(0, "a", 0, prompt_tokens=3, output_tokens=1, max_tokens=1)
    for axes in (
        KvAxes(3, 2),
        KvAxes(3, 2, prefix_cache=True),
        KvAxes(3, 2, allocation="contiguous"),
    ):
        memory = memory_of(env, axes, Workload.of(*(np.array([n], dtype=np.int64) for n in (0, 3, 1))))
        request = Request(spec)
        memory.admit(request, 3)
        assert (memory.free, memory.held(request)) == (1, 2)
        memory.release(request)
        with pytest.raises(InvariantError, match="<a: 0 of 3 tokens computed, 0 emitted> gives back"):
            memory.release(request)
        assert memory.free == 3
