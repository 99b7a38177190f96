"""The tests of the memory fail when the engine is broken: each mutation of its source, and the test that catches it.

Each is made in a copy of the package and run against one test, which must fail; unbroken, all of these tests pass.

========================================================  ==========================================================
mutation                                                  caught by
========================================================  ==========================================================
a release keeps the books: the next one frees again       pool machine: free blocks
a hit counts one holder, however many there are           pool machine: holders
a block is hashed before it is full                       pool machine: cached tokens
the newest free block is evicted, not the oldest          pool machine: the free list
freed blocks are not withheld while a fault wants them    pool machine: withheld blocks
who comes back from the host leaves its blocks there      pool machine: blocks on the host
the last block is never taken (``<`` for ``<=``)          pool machine: room
the watermark is one short                                pool machine: room
a region may overlap the next (first fit, one short)      pool machine: a region that is not there
the last hole that fits, not the first                    by hand: holes
a sample takes a copy of a full block                     by hand: the peak of a group
a lone decode slips in over the budget                    by hand: all or nothing
a victim in the job gives its tokens back to nobody       by hand: the refund
a resumed request forgets what it emitted                 drawn runs: the phase, and what is scheduled
``last`` preempts the first                               drawn runs: the victim
the preempted go to the tail                              drawn runs: the queue
newcomers pass those who are swapped out                  drawn runs: who comes back
a step that preempts admits                               drawn runs: no admission
copies cost nothing                                       drawn runs: how long a job takes
the cancelled keep their slots                            drawn runs: the head kept waiting for nothing
a crash leaves the cache                                  drawn runs: what is cached was computed
what just fits is rejected                                drawn runs: never fits
a chunk takes all but one of the budget                   drawn runs: a chunk takes all of the budget
running requests in another order                         drawn runs: running in order
one who stops following is still counted                  growth: what the crowd needs
so many blocks are enough for one job more                growth: how many jobs are covered
what a follower took is put down late                     spans leave no trace: blocks are counted
no arrival ends a span                                    spans leave no trace: events
a head with hits stays out for ever                       spans leave no trace: the child that waits
a span ends one job after the arrival                     spans leave no trace: events
a span goes on after somebody's last token                spans leave no trace: tokens
a row goes on although somebody who prefilled has left    spans leave no trace: free blocks
what ran within a span is lost at the horizon             spans leave no trace: tokens
a moving order is taken to stand still                    spans leave no trace: who is served
two equals take each other's places                       orders by hand: never
more make way than need be                                orders by hand: as few as will do
ageing is one pass late, or one instant                   orders by hand: exactly K passes
a tenant that comes back is not lifted                    orders by hand: vtc
a tenant keeps its turn though nobody of it is left       orders by hand: drr
what has to be computed again counts for srpt             orders by hand: srpt
a level of mlfq holds one token more                      orders by hand: mlfq
the slack is the deadline                                 orders by hand: least-slack
========================================================  ==========================================================
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PROPERTY = ROOT / "tests" / "property"
MODEL = ROOT / "tests" / "model"

PAGED, PREFIXED, CONTIGUOUS = "Machine", "PrefixedMachine", "ContiguousMachine"
DRAWN = f"{PROPERTY / 'test_axes.py'}::test_every_invariant_holds_of_seeded_runs"
GROWTH = str(ROOT / "tests" / "unit" / "test_growth.py")
SPANS = f"{PROPERTY / 'test_spans.py'}"
BY_HAND = str(MODEL / "test_copy_on_write.py")
ORDERS = str(MODEL / "test_orders_by_hand.py")

pytestmark = pytest.mark.slow


class Mutation(NamedTuple):
    """The one place of the package that reads ``old`` becomes ``new``; ``caught`` is the test that must fail."""

    old: str
    new: str
    caught: str


MUTATIONS = {
    "double free": Mutation("give(self._held.pop(request.index))", "give(self._held[request.index])", PAGED),
    "lost refcount": Mutation("self._holders[block] += 1", "self._holders[block] = 1", PREFIXED),
    "hash before full": Mutation(
        "holding, full // self._block_tokens)", "holding, -(-full // self._block_tokens))", PREFIXED
    ),
    "evict the wrong end": Mutation(
        "entry, size = next(iter(self.found.items()))", "entry, size = next(reversed(self.found.items()))", PREFIXED
    ),
    "withhold nothing more": Mutation("if self._to_withhold > self.withheld:", "if False:", PAGED),
    "host blocks leak": Mutation("        self.free += blocks\n", "", PAGED),
    "< for <=": Mutation("return blocks <= self.free\n", "return blocks < self.free\n", PAGED),
    "watermark off by one": Mutation(
        "can_take(needed + (self._watermark_blocks if others_run else 0))",
        "can_take(needed + (max(self._watermark_blocks - 1, 0) if others_run else 0))",
        PAGED,
    ),
    "regions overlap": Mutation("if size >= blocks)", "if size >= blocks - 1)", CONTIGUOUS),
    "last fit": Mutation("in self.holes() if", "in reversed(self.holes()) if", BY_HAND),
    "copies of full blocks": Mutation("shared = prompt_tokens // block_tokens", "shared = 0", BY_HAND),
    "over the budget": Mutation("if 0 < tokens <= self.budget:", "if 0 < tokens:", BY_HAND),
    "no refund": Mutation("            self.budget += victim.chunk or victim.samples\n", "", BY_HAND),
    "resume forgets": Mutation(
        "self.prompt_tokens + self.samples * self._emitted\n        self.admitted",
        "self.prompt_tokens\n        self.admitted",
        DRAWN,
    ),
    "the first for the last": Mutation("next(reversed(running))", "next(iter(running))", DRAWN),
    "preempted to the tail": Mutation("self.appendleft(request)", "self.append(request)", DRAWN),
    "newcomers first": Mutation(
        "if self._swap.out and not self._rules.is_before(", "if False and not self._rules.is_before(", DRAWN
    ),
    "admit after preemption": Mutation("if not cycle.preempted:", "if True:", DRAWN),
    "swap not charged": Mutation("fs += self.swap_fs_per_block * work.blocks", "pass", DRAWN),
    "slots of the cancelled": Mutation(
        "self.slots_taken -= request.samples",
        "self.slots_taken -= 0 if request.cancelled else request.samples",
        DRAWN,
    ),
    "crash leaves the cache": Mutation("        self._memory.forget()\n", "", DRAWN),
    "what fits is rejected": Mutation("if blocks <= self._kv.blocks:", "if blocks < self._kv.blocks:", DRAWN),
    "a token short": Mutation("min(tokens, cycle.budget)", "min(tokens, max(cycle.budget - 1, 1))", DRAWN),
    "another order": Mutation(
        "return list(state.running.values())", "return list(state.running.values())[::-1]", DRAWN
    ),
    "a block of a follower is forgotten": Mutation("due[first % period] -= 1", "pass", GROWTH),
    "one block too few covers": Mutation("if count > left:", "if count > left + 1:", GROWTH),
    "followers are never put down": Mutation("if taken > holding.grown:", "if taken > holding.grown + 1:", SPANS),
    "no arrival cuts a span": Mutation("return not (decision.waits and (", "return bool(decision.waits and (", SPANS),
    "every refusal lasts": Mutation("return decision.refusal_lasts and", "return True or", SPANS),
    "a span is cut a job late": Mutation(
        "guess = min(guess, jobs)\n", "guess = min(guess + 1, jobs)\n        return guess, self.ends_ns(guess)\n", SPANS
    ),
    "a span runs past a finish": Mutation(
        "cohort.next_finish - ended, MOST", "cohort.next_finish - ended + 1, MOST", SPANS
    ),
    "a row goes on when somebody leaves": Mutation("            and job.running == row.running\n", "", SPANS),
    "the horizon cuts off a whole span": Mutation("            if ended:\n", "            if False:\n", SPANS),
    "a moving order is taken to stand still": Mutation(
        "may_shift = self._rules.shifting and", "may_shift = False and", SPANS
    ),
    "equals take each other's places": Mutation(
        "self.urgency(request) < self.urgency(other)", "self.urgency(request) <= self.urgency(other)", ORDERS
    ),
    "more make way than need be": Mutation("            leaving = others\n", "            pass\n", ORDERS),
    "one pass too many": Mutation("== self._most:", "== self._most + 1:", ORDERS),
    "one instant too late": Mutation("arrival_ns >= self._value_ns", "arrival_ns > self._value_ns", ORDERS),
    "who was lifted is not": Mutation(
        "if missing > 0:\n            self._lifts", "if False:\n            self._lifts", ORDERS
    ),
    "a tenant keeps its turn": Mutation("rounds.visited = False\n", "rounds.visited = True\n", ORDERS),
    "what is to be computed again counts": Mutation(
        "left = max(request.prompt_tokens - request.computed, 0)", "left = request.known - request.computed", ORDERS
    ),
    "a level holds its quantum and one more": Mutation("while used >= quantum and", "while used > quantum and", ORDERS),
    "slack without the work": Mutation("deadline_ns - given.alone_ns(request)", "deadline_ns", ORDERS),
}


RUN_MACHINE = """
import sys
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
import test_pool_machine
no_shrinking = settings(
    test_pool_machine.usual, max_examples=300, phases=[Phase.generate], derandomize=True, database=None
)
run_state_machine_as_test(getattr(test_pool_machine, sys.argv[1]), settings=no_shrinking)
"""


def passes(package: Path, test: str) -> bool:
    """Whether ``test`` (a machine, or what pytest is to run) passes with the package that lies in this folder."""
    if test in {PAGED, PREFIXED, CONTIGUOUS}:
        command = [sys.executable, "-c", RUN_MACHINE, test]
    else:
        quick = ("-m", "not slow and not stress")
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *quick, test]
    path = os.pathsep.join([str(package), str(PROPERTY)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=package, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    assert "ModuleNotFoundError" not in done.stderr, done.stderr
    return done.returncode == 0


def copied(folder: Path) -> Path:
    shutil.copytree(ROOT / "sim", folder / "sim", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.mark.parametrize(
    "tests",
    [PAGED, PREFIXED, CONTIGUOUS, DRAWN, BY_HAND, GROWTH, SPANS, ORDERS],
    ids=["paged", "prefixed", "contiguous", "drawn", "by hand", "growth", "spans", "orders"],
)
def test_unbroken_all_of_them_pass(tests: str, tmp_path: Path) -> None:
    assert passes(copied(tmp_path), tests)


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)
def test_a_broken_engine_is_caught(mutation: Mutation, tmp_path: Path) -> None:
    texts = {file: file.read_text() for file in copied(tmp_path).glob("sim/**/*.py")}
    places = [file for file, text in texts.items() for _ in range(text.count(mutation.old))]
    assert len(places) == 1, f"{mutation.old!r} is not in one place: {places}"
    places[0].write_text(texts[places[0]].replace(mutation.old, mutation.new))
    assert not passes(tmp_path, mutation.caught)
