"""What a run amounts to: distributions over finished requests, exact until the last division."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sim.engine.plan import Blocked, Loss
from sim.record.levels import pool_levels
from sim.record.quantiles import Distribution, distribution, of_gaps
from sim.record.tables import Record
from sim.record.timeline import Timeline
from sim.request import NEVER, Ints, Status


@dataclass(frozen=True)
class PoolFigures:
    """How the block pool was used. Levels are of blocks in use, weighted by the durations of jobs."""

    blocks: int
    used_mean: Fraction
    used_min: int
    used_p99: int
    used_max: int
    admissions: int
    kept_out: Mapping[Blocked, int]
    behind_head: int
    swapped: int
    blocks_out: int
    blocks_in: int
    cached_tokens: int
    cached_on_resume_tokens: int


@dataclass(frozen=True)
class Summary:
    """The figures of one run. Times in ns; rates per second; None where a figure does not exist.

    ``wasted_tokens``: scheduled ones that no finished request needed once (computed again, or for nothing).
    """

    by_status: Mapping[Status, int]
    makespan_ns: int | None
    distributions: Mapping[str, Distribution]
    output_tokens_per_s: float | None
    requests_per_s: float | None
    jobs: int
    preemptions: int
    recomputed_tokens: int
    scheduled_tokens: int
    wasted_tokens: int
    pool: PoolFigures | None


def summarise(record: Record, columns: Mapping[str, Ints], timeline: Timeline, blocks: int | None) -> Summary:
    """The summary of ``record``, whose request columns are ``columns``; ``blocks`` of the pool, None without one."""
    finished = columns["status"] == Status.FINISHED
    last_ns = timeline.columns["last_token_ns"]
    emitted_any = last_ns != NEVER
    arrival_ns = columns["arrival_ns"]
    began_ns = arrival_ns[arrival_ns != NEVER]
    makespan_ns = int(last_ns[emitted_any].max() - began_ns.min()) if emitted_any.any() else None

    def over_finished(name: str) -> Distribution:
        values = columns[name][finished]
        return distribution(values[values != NEVER])

    def per_s(amount: int) -> float | None:
        return float(Fraction(amount * 10**9, makespan_ns)) if makespan_ns else None

    once = columns["prompt_tokens"] + columns["emitted_tokens"] - columns["samples"] - columns["cached_tokens"]
    scheduled_tokens = int(record.schedule["tokens"].sum())
    return Summary(
        by_status={status: int(np.count_nonzero(columns["status"] == status)) for status in Status},
        makespan_ns=makespan_ns,
        distributions={
            "ttft": over_finished("ttft_ns"),
            "itl": of_gaps(timeline.gaps(finished.astype(np.int64))),
            "tpot": over_finished("tpot_ns"),
            "e2e": over_finished("e2e_ns"),
            "queue": over_finished("queue_ns"),
        },
        output_tokens_per_s=per_s(int(columns["emitted_tokens"][finished].sum())),
        requests_per_s=per_s(int(finished.sum())),
        jobs=record.stretches.jobs,
        preemptions=len(record.preemptions["job"]),
        recomputed_tokens=int(record.recomputed["tokens"].sum()),
        scheduled_tokens=scheduled_tokens,
        wasted_tokens=max(scheduled_tokens - int(once[finished].sum()), 0),
        pool=None if blocks is None else pool_figures(record, columns, blocks),
    )


def pool_figures(record: Record, columns: Mapping[str, Ints], blocks: int) -> PoolFigures:
    levels = pool_levels(record, blocks)
    over_time = distribution(levels.used_blocks, levels.duration_ns)
    kept_out = {reason: record.rows["blocked"] == reason for reason in Blocked if reason}
    out = record.copies["out"] == 1
    return PoolFigures(
        blocks=blocks,
        used_mean=over_time.mean or Fraction(0),
        used_min=int(levels.used_blocks.min(initial=blocks)) if len(levels.used_blocks) else 0,
        used_p99=int(over_time.percentiles[99] or 0),
        used_max=int(levels.used_blocks.max(initial=0)),
        admissions=len(record.admissions["job"]),
        kept_out={reason: int(record.rows["jobs"][rows].sum()) for reason, rows in kept_out.items()},
        behind_head=_behind_head(record),
        swapped=int(np.count_nonzero(record.preemptions["loss"] == Loss.SWAP)),
        blocks_out=int(record.copies["blocks"][out].sum()),
        blocks_in=int(record.copies["blocks"][~out].sum()),
        cached_tokens=int(columns["cached_tokens"].sum()),
        cached_on_resume_tokens=int(columns["cached_on_resume_tokens"].sum()),
    )


def _behind_head(record: Record) -> int:
    """How many waited behind a head that was kept out, summed over jobs."""
    stretches, table = record.stretches, record.rows
    kept_out = table["blocked"] != Blocked.NOTHING
    behind = int((np.maximum(table["waiting"] - 1, 0) * table["jobs"])[kept_out].sum())
    arrivals = record.arrivals()
    arrivals = arrivals[arrivals < stretches.jobs]
    row = stretches.row_of(arrivals)
    inside = kept_out[row] & (arrivals > stretches.first[row])
    return behind + int((stretches.first[row + 1] - arrivals)[inside].sum())
