"""What a device charges for jobs, whole columns of them at once: the linear model, straight from its definition.

A cost model of somebody's own is asked job by job, as in the run: what it should charge, only it knows.
"""

from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sim.analysis.exact import combine
from sim.costs.base import Work as JobWork
from sim.costs.own import cost_of
from sim.request import Ints
from sim.scenario import Scenario


class Work(NamedTuple):
    """Per job: prompt tokens, sequences that decode, tokens of context that they read, blocks copied."""

    prefill_tokens: Ints
    sequences: Ints
    context_tokens: Ints
    blocks: Ints


def job_ns(scenario: Scenario, work: Work) -> Ints:
    """The duration of each job: the sum of its costs, rounded half up to ns once."""
    if scenario.device.own is not None:
        return _asked(scenario, work)
    return np.asarray((job_fs(scenario, work) + 500_000) // 1_000_000)


def _asked(scenario: Scenario, work: Work) -> Ints:
    cost = cost_of(scenario.device, Decimal(0) if scenario.kv is None else scenario.kv.swap_ms_per_block)
    context = work.context_tokens if cost.reads_context else np.zeros_like(work.context_tokens)
    columns = (work.prefill_tokens, work.sequences, np.where(work.sequences > 0, context, 0), work.blocks)
    jobs = zip(*(column.tolist() for column in columns), strict=True)
    return np.fromiter((cost.job_ns(JobWork(*job)) for job in jobs), dtype=np.int64, count=len(work.sequences))


def job_fs(scenario: Scenario, work: Work) -> npt.NDArray[Any]:
    """The sum of the costs of each job in fs (10^-15 s): int64, or objects when they do not fit.

    0 for a cost model that is not ours: no row of several jobs goes by it.
    """
    if scenario.device.own is not None:
        return np.zeros(len(work.sequences), dtype=np.int64)
    device, kv = scenario.device, scenario.kv
    coefficients = (
        device.job_ms,
        device.prefill_ms_per_token,
        device.decode_ms_per_batch,
        device.decode_ms_per_request,
        device.context_ms_per_token,
        Decimal(0) if kv is None else kv.swap_ms_per_block,
    )
    decode = (work.sequences > 0).astype(np.int64)
    columns = (np.ones_like(decode), work.prefill_tokens, decode, work.sequences, work.context_tokens, work.blocks)
    return combine(tuple(map(_fs, coefficients)), columns)


def growth_fs(scenario: Scenario, sequences: Ints) -> npt.NDArray[Any]:
    """How much longer a job takes when each of these sequences has one token more before it."""
    if scenario.device.own is not None:
        return np.zeros(len(sequences), dtype=np.int64)
    return combine((_fs(scenario.device.context_ms_per_token),), (sequences,))


def _fs(ms: Decimal) -> int:
    return int(Fraction(ms) * 10**12)
