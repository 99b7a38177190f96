"""Is the summary that of the record? Every figure anew, exact; floats to their last digits."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction

import numpy as np

from sim.analysis.checks_tables import time
from sim.analysis.exact import dot, total
from sim.analysis.facts import Facts
from sim.analysis.findings import Difference, Value
from sim.analysis.levels import levels_of
from sim.engine.plan import Blocked, Loss
from sim.record.json_shape import Distribution
from sim.request import NEVER, Ints, Status

PRECISION = Fraction(1, 10**9)
"""How far a float may be off, relatively: what is a whole number of ns is exact."""


def counts(facts: Facts) -> Iterator[Difference]:
    """Requests by status, jobs, preemptions and tokens."""
    summary, status = facts.claims.summary, facts.record.requests["status"]
    scheduled = total(facts.prefill_tokens) + dot(facts.sequences, facts.pieces.jobs)
    due = {
        "requests": facts.requests,
        **{name.name.lower(): int(np.count_nonzero(status == name)) for name in Status},
        "jobs": facts.jobs,
        "preemptions": len(facts.record.preemptions["job"]),
        "recomputed_tokens": total(facts.lost),
        "scheduled_tokens": scheduled,
        "wasted_tokens": _wasted(facts, scheduled),
    }
    for name, value in due.items():
        if getattr(summary, name) != value:
            yield Difference(f"summary, {name}", value, getattr(summary, name))

    for share, part in (("recomputed_share", due["recomputed_tokens"]), ("wasted_share", due["wasted_tokens"])):
        ratio = Fraction(part, scheduled) if scheduled else None
        if not _near(ratio, getattr(summary, share)):
            yield Difference(f"summary, {share}", _float(ratio), _shown(getattr(summary, share)))


def _wasted(facts: Facts, scheduled: int) -> int:
    """What was scheduled beyond what finished requests had to compute once, the cache's help at admission counted."""
    workload = facts.workload
    finished = facts.record.requests["status"] == Status.FINISHED
    once = workload.prompt_tokens + workload.samples * (facts.emitted - 1) - facts.cached_first
    return max(scheduled - total(once[finished]), 0)


def pool(facts: Facts) -> Iterator[Difference]:
    """How the pool was used, over time; and what came of it."""
    kv, found, record = facts.claims.kv, facts.claims.summary.kv, facts.record
    if kv is None or found is None:
        if (kv is None) != (found is None):
            yield Difference("summary, kv", None if kv is None else "figures", "figures" if found else None)
        return
    kept, (used, used_ns) = found.kept_out, levels_of(record, kv.blocks)
    n, levels = _figures(used, used_ns)
    out = record.copies["out"] == 1
    jobs, told = facts.pieces.jobs, facts.pieces.table
    blocked, behind = told["blocked"], np.maximum(told["waiting"] - 1, 0)
    kept_out = blocked != Blocked.NOTHING
    of_jobs: dict[str, tuple[int, int]] = {
        "usedBlocks, min": (int(used.min()) if len(used) else 0, found.used_blocks.min),
        "usedBlocks, p99": (int(levels["p99"] or 0), found.used_blocks.p99),
        "usedBlocks, max": (int(used.max()) if len(used) else 0, found.used_blocks.max),
        **{f"keptOut, {name}": (total(jobs[blocked == Blocked[name.upper()]]), getattr(kept, name))
           for name in ("blocks", "slots", "budget", "swapped", "holes")},
        "keptOut, headOfLine": (dot(behind[kept_out], jobs[kept_out]), kept.head_of_line),
    }  # fmt: skip
    due: dict[str, tuple[int, int]] = {
        "blocks": (kv.blocks, found.blocks),
        **(of_jobs if facts.claims.pool_known else {}),
        "admissions": (len(record.admissions["job"]), found.admissions),
        "swappedOut": (int(np.count_nonzero(record.preemptions["loss"] == Loss.SWAP)), found.swapped_out),
        "swapBlocksOut": (total(record.copies["blocks"][out]), found.swap_blocks_out),
        "swapBlocksIn": (total(record.copies["blocks"][~out]), found.swap_blocks_in),
        "cachedTokens": (total(facts.cached_first), found.cached_tokens),
        "cachedOnResumeTokens": (total(facts.cached - facts.cached_first), found.cached_on_resume_tokens),
    }
    for name, (value, claimed) in due.items():
        if value != claimed:
            yield Difference(f"summary, kv, {name}", value, claimed)
    mean = levels["mean"] if n else Fraction(0)
    if facts.claims.pool_known and not _near(mean, found.used_blocks.mean):
        yield Difference("summary, kv, usedBlocks, mean", _float(mean), _shown(found.used_blocks.mean))


def rates(facts: Facts) -> Iterator[Difference]:
    """The makespan, from the first arrival to the last token of all, and what the finished are per second of it."""
    summary = facts.claims.summary
    finished = facts.record.requests["status"] == Status.FINISHED
    last_ns = facts.last_token_ns
    makespan_ns = int(last_ns.max() - facts.first_arrival_ns) if (last_ns != NEVER).any() else None
    yield from _instant("makespanMs", makespan_ns, summary.makespan_ms)
    amounts = {
        "outputTokensPerS": (total((facts.emitted * facts.workload.samples)[finished]), summary.output_tokens_per_s),
        "requestsPerS": (int(finished.sum()), summary.requests_per_s),
    }
    for name, (amount, found) in amounts.items():
        due = Fraction(amount * 10**9, makespan_ns) if makespan_ns else None
        if not _near(due, found):
            yield Difference(f"summary, {name}", None if due is None else float(due), _shown(found))


def distributions(facts: Facts) -> Iterator[Difference]:
    """Mean, linear percentiles and maximum over the finished; of ITL over all their gaps."""
    summary = facts.claims.summary
    finished = facts.record.requests["status"] == Status.FINISHED
    arrival_ns, several = facts.workload.arrival_ns, facts.emitted >= 2
    spans = {
        "ttft": (facts.first_token_ns - arrival_ns)[finished],
        "tpot": _rounded_mean(facts.last_token_ns - facts.first_token_ns, facts.emitted - 1, finished & several),
        "e2e": (facts.last_token_ns - arrival_ns)[finished],
        "queue": (facts.first_scheduled_ns - arrival_ns)[finished],
    }
    for name, values in spans.items():
        longest_ns = int(values.max()) if len(values) else None
        yield from _distribution(name, *_figures(values, np.ones_like(values)), longest_ns, getattr(summary, name))
    gaps = facts.gaps(finished)
    yield from _distribution("itl", *gaps.figures(), gaps.bounds_ns()[1] if gaps.count else None, summary.itl)


def _rounded_mean(sums: Ints, counts_: Ints, of: np.typing.NDArray[np.bool_]) -> Ints:
    whole, rest = np.divmod(sums[of], counts_[of])
    return np.asarray(whole + (2 * rest >= counts_[of]))


def _distribution(
    name: str, n: int, due: Mapping[str, Fraction | None], longest_ns: int | None, found: Distribution
) -> Iterator[Difference]:
    if found.n != n:
        yield Difference(f"summary, {name}, n", n, found.n)
    for figure, ns in due.items():
        ms = None if ns is None else ns / 10**6
        claimed = getattr(found, figure)
        exact = ns is not None and ns.denominator == 1
        if not _near(ms, claimed, exact=exact):
            yield Difference(f"summary, {name}, {figure}", None if ms is None else float(ms), _shown(claimed))
    yield from _instant(f"{name}, max", longest_ns, found.max)


def _figures(values: Ints, times: Ints) -> tuple[int, dict[str, Fraction | None]]:
    """How many they are, each counted so many times; mean and linear percentiles, None when there are none."""
    values, times = values[times > 0], times[times > 0]
    order = np.argsort(values, kind="stable")
    values, times = values[order], times[order]
    n = total(times)
    figures: dict[str, Fraction | None] = dict.fromkeys(("mean", "p50", "p90", "p95", "p99"))
    if n:
        behind = np.cumsum(times)
        figures["mean"] = Fraction(dot(values, times), n)
        for percent in (50, 90, 95, 99):
            at = Fraction((n - 1) * percent, 100)
            ranks = np.array([int(at), min(int(at) + 1, n - 1)])
            low, high = values[np.searchsorted(behind, ranks, side="right")].tolist()
            figures[f"p{percent}"] = low + (at - int(at)) * (high - low)
    return n, figures


def _instant(name: str, due_ns: int | None, found_ns: int | None) -> Iterator[Difference]:
    if due_ns != found_ns:
        yield Difference(f"summary, {name}", *(None if ns is None else time(ns) for ns in (due_ns, found_ns)))


def _near(due: Fraction | None, found: Decimal | None, *, exact: bool = False) -> bool:
    if due is None or found is None:
        return due is None and found is None
    off = abs(Fraction(found) - due)
    return not off if exact else off <= PRECISION * abs(due)


def _float(value: Fraction | None) -> Value:
    return None if value is None else float(value)


def _shown(value: Decimal | None) -> Value:
    return None if value is None else float(value)
