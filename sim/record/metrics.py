"""What a run amounts to: distributions over finished requests, exact until the last division."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sim.engine.plan import Blocked, Loss
from sim.record.tables import Record
from sim.record.timeline import Timeline
from sim.request import NEVER, Ints, Status

PERCENTS = (50, 90, 95, 99)


@dataclass(frozen=True)
class Distribution:
    """Of ``n`` values in ns: mean and linear percentiles (NumPy's default) as exact fractions. All None when n = 0."""

    n: int
    mean: Fraction | None
    percentiles: Mapping[int, Fraction | None]
    max: int | None


def distribution(values: Ints, counts: Ints | None = None) -> Distribution:
    """Of ``values``, each occurring ``counts`` times (once if None)."""
    if counts is None:
        counts = np.ones_like(values)
    values, counts = values[counts > 0], counts[counts > 0]
    order = np.argsort(values, kind="stable")
    values, upto = values[order], np.cumsum(counts[order])
    n = int(upto[-1]) if len(upto) else 0
    if n == 0:
        return Distribution(0, None, dict.fromkeys(PERCENTS), None)

    def at(rank: int) -> int:
        return int(values[np.searchsorted(upto, rank, side="right")])

    def percentile(percent: int) -> Fraction:
        rank, hundredths = divmod((n - 1) * percent, 100)
        above = at(rank + 1) if hundredths else 0
        return Fraction(at(rank) * (100 - hundredths) + above * hundredths, 100)

    mean = Fraction(_exact_dot(values, counts[order]), n)
    return Distribution(n, mean, {percent: percentile(percent) for percent in PERCENTS}, int(values[-1]))


def _exact_dot(values: Ints, counts: Ints) -> int:
    if int(values[-1]) * int(counts.sum()) < 2**63:
        return int(values @ counts)
    return sum(value * count for value, count in zip(values.tolist(), counts.tolist(), strict=True))


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
    makespan_ns = int(last_ns[emitted_any].max() - columns["arrival_ns"].min()) if emitted_any.any() else None

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
            "itl": distribution(*timeline.gaps(finished.astype(np.int64))),
            "tpot": over_finished("tpot_ns"),
            "e2e": over_finished("e2e_ns"),
            "queue": over_finished("queue_ns"),
        },
        output_tokens_per_s=per_s(int(columns["emitted_tokens"][finished].sum())),
        requests_per_s=per_s(int(finished.sum())),
        jobs=len(record.jobs["start_ns"]),
        preemptions=len(record.preemptions["job"]),
        recomputed_tokens=int(record.recomputed["tokens"].sum()),
        scheduled_tokens=scheduled_tokens,
        wasted_tokens=max(scheduled_tokens - int(once[finished].sum()), 0),
        pool=None if blocks is None else pool_figures(record, columns, blocks),
    )


def pool_figures(record: Record, columns: Mapping[str, Ints], blocks: int) -> PoolFigures:
    jobs = record.jobs
    used = blocks - jobs["withheld_blocks"] - jobs["free_blocks"]
    levels = distribution(used, jobs["end_ns"] - jobs["start_ns"])
    waiting, blocked = jobs["waiting"], jobs["blocked"]
    kept_out = blocked != Blocked.NOTHING
    out = record.copies["out"] == 1
    return PoolFigures(
        blocks=blocks,
        used_mean=levels.mean or Fraction(0),
        used_min=int(used.min(initial=blocks)) if len(used) else 0,
        used_p99=int(levels.percentiles[99] or 0),
        used_max=int(used.max(initial=0)),
        admissions=len(record.admissions["job"]),
        kept_out={reason: int(np.count_nonzero(blocked == reason)) for reason in Blocked if reason},
        behind_head=int(np.maximum(waiting[kept_out] - 1, 0).sum()),
        swapped=int(np.count_nonzero(record.preemptions["loss"] == Loss.SWAP)),
        blocks_out=int(record.copies["blocks"][out].sum()),
        blocks_in=int(record.copies["blocks"][~out].sum()),
        cached_tokens=int(columns["cached_tokens"].sum()),
        cached_on_resume_tokens=int(columns["cached_on_resume_tokens"].sum()),
    )
