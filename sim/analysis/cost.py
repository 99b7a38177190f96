"""What a device charges for jobs, whole columns of them at once: the linear model, straight from its definition."""

from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from sim.analysis.exact import combine
from sim.request import Ints
from sim.scenario import Scenario


class Work(NamedTuple):
    """Per job: prompt tokens, sequences that decode, tokens of context that they read, blocks copied."""

    prefill_tokens: Ints
    sequences: Ints
    context_tokens: Ints
    blocks: Ints


def job_ns(scenario: Scenario, work: Work) -> Ints:
    """The duration of each job: the sum of its costs in fs (10^-15 s), rounded half up to ns once."""
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
    fs = combine(tuple(map(_fs, coefficients)), columns)
    return np.asarray((fs + 500_000) // 1_000_000)


def _fs(ms: Decimal) -> int:
    return int(Fraction(ms) * 10**12)
