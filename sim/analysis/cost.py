"""What a device charges for jobs, whole columns of them at once: the linear model, straight from its definition."""

from decimal import Decimal
from fractions import Fraction

import numpy as np

from sim.analysis.exact import combine
from sim.request import Ints
from sim.scenario import Device


def job_ns(device: Device, prefill_tokens: Ints, decodes: Ints, context_tokens: Ints) -> Ints:
    """The duration of each job: the sum of its costs in fs (10^-15 s), rounded half up to ns once."""
    coefficients = (
        device.job_ms,
        device.prefill_ms_per_token,
        device.decode_ms_per_batch,
        device.decode_ms_per_request,
        device.context_ms_per_token,
    )
    columns = (np.ones_like(decodes), prefill_tokens, (decodes > 0).astype(np.int64), decodes, context_tokens)
    fs = combine(tuple(map(_fs, coefficients)), columns)
    return np.asarray((fs + 500_000) // 1_000_000)


def _fs(ms: Decimal) -> int:
    return int(Fraction(ms) * 10**12)
