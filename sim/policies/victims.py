"""Whom to preempt when a running request needs blocks: one small function each, one row in a table.

Each answers one of ``running``, which is in order of admission and includes the request in need.
"""

import random
from collections.abc import Callable

from sim.engine.memory import Memory
from sim.engine.state import Running, Victim
from sim.registry import Registry
from sim.request import Request


def last(running: Running, _memory: Memory) -> Request:
    """The last admitted (vLLM under fcfs)."""
    return next(reversed(running))


def lowest_priority(running: Running, _memory: Memory) -> Request:
    """The least urgent, of those the last to arrive (vLLM under priority)."""
    return max(running, key=lambda request: (request.priority, request.arrival_ns, request.index))


def fewest_tokens(running: Running, _memory: Memory) -> Request:
    """The one with the fewest computed tokens: the least work is lost."""
    return min(reversed(running), key=lambda request: request.computed)


def most_blocks(running: Running, memory: Memory) -> Request:
    """The one that holds the most blocks: the most room is made."""
    return max(reversed(running), key=memory.held)


def longest_remaining(running: Running, _memory: Memory) -> Request:
    """The one that may emit the most tokens yet, by what it declared."""
    return max(reversed(running), key=lambda request: request.max_tokens - request.emitted)


class Random:
    """Any, by a seeded stream of its own."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"victim {seed}")  # noqa: S311  # no secret: a rule to be repeated

    def __call__(self, running: Running, _memory: Memory) -> Request:
        return self._random.choice(list(running))


VICTIMS: Registry[Callable[[int], Victim]] = Registry(
    "victim",
    {
        "last": lambda _seed: last,
        "lowest-priority": lambda _seed: lowest_priority,
        "fewest-tokens": lambda _seed: fewest_tokens,
        "most-blocks": lambda _seed: most_blocks,
        "longest-remaining": lambda _seed: longest_remaining,
        "random": Random,
    },
)
"""From a seed to the rule."""
