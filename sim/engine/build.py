"""From the pool's settings to the memory of a replica."""

from collections.abc import Iterator

from simpy import Environment

from sim.engine.contents import Contents, Sources
from sim.engine.contiguous import Contiguous
from sim.engine.kv import GATES, Memory, Paged, Pool, Unlimited
from sim.engine.prefix import Prefixed
from sim.policies.presets import KvAxes
from sim.request import NEVER, Workload


def memory_of(env: Environment, kv: KvAxes | None, workload: Workload) -> Memory:
    """No pool, one region a request, or blocks: with identities only for the prefix cache."""
    if kv is None:
        return Unlimited()
    pool = Pool(env, kv.blocks)
    if kv.allocation == "contiguous":
        return Contiguous(pool, kv.block_tokens, kv.watermark_blocks)
    gate = GATES[kv.gate]
    if not kv.prefix_cache:
        return Paged(pool, kv.block_tokens, gate, kv.watermark_blocks)
    contents = Contents(kv.block_tokens, sources_of(workload))
    return Prefixed(pool, kv.block_tokens, gate, kv.watermark_blocks, contents)


def sources_of(workload: Workload) -> Sources:
    """Where the tokens of each request come from: its parent's first, then its group's, then its own."""
    groups: dict[str, int] = {}
    stretches: dict[int, tuple[tuple[int, int], ...]] = {}
    parents: dict[int, tuple[int, int]] = {}
    for index in _parents_first(workload):
        parent, parent_tokens = int(workload.parent[index]), int(workload.parent_tokens[index])
        group = "" if workload.prefix_groups is None else workload.prefix_groups[index]
        own: list[tuple[int, int]] = []
        if parent != NEVER:
            parents[index] = parent, parent_tokens
            own += _first(parent_tokens, (*stretches.get(parent, ()), (parent_tokens, parent)))
        if group and int(workload.prefix_tokens[index]) > (own[-1][0] if own else 0):
            source = groups.setdefault(group, len(workload) + len(groups))
            own.append((int(workload.prefix_tokens[index]), source))
        if own:
            stretches[index] = tuple(own)
    return Sources(stretches, len(workload), parents)


def _parents_first(workload: Workload) -> Iterator[int]:
    """All requests, each after its parent."""
    parents, seen = workload.parent.tolist(), [False] * len(workload)
    for index in range(len(workload)):
        line = []
        while index != NEVER and not seen[index]:
            seen[index] = True
            line.append(index)
            index = parents[index]  # noqa: PLW2901  # up the line of its parents
        yield from reversed(line)


def _first(tokens: int, stretches: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    """The stretches of the first ``tokens`` positions."""
    cut: list[tuple[int, int]] = []
    for upto, source in stretches:
        cut.append((min(upto, tokens), source))
        if upto >= tokens:
            break
    return cut
