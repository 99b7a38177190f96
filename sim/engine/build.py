"""From the pool's settings to the memory of a replica."""

from simpy import Environment

from sim.engine.contents import Contents
from sim.engine.contiguous import Contiguous
from sim.engine.kv import GATES, Paged, Pool
from sim.engine.memory import Memory, Unlimited
from sim.engine.prefix import Prefixed
from sim.engine.sources import sources_of
from sim.policies.presets import KvAxes
from sim.request import Workload


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
