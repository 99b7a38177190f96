"""What the scheduler believes about outputs before they are there: a predictor is a small function and a row.

Whoever orders by length needs one. It answers the output tokens that it expects of a request, at least 1.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType

import numpy as np

from sim.request import Ints, Request, Workload
from sim.workload.streams import stream

Predictor = Callable[[Request], int]


@dataclass(frozen=True)
class Ground:
    """What a predictor may go by beside the request: the workload, how far it errs, and the seed of its errors."""

    workload: Workload
    error: Decimal
    seed: int


def oracle(_ground: Ground) -> Predictor:
    """It knows the output."""
    return lambda request: request.output_tokens


def declared(_ground: Ground) -> Predictor:
    """It goes by ``max_tokens``."""
    return lambda request: request.max_tokens


def noisy(ground: Ground) -> Predictor:
    """The output times exp(error * Z), Z standard normal and one for each request: right in the median."""
    z = stream(ground.seed, "predictor").standard_normal(len(ground.workload))
    return _listed(np.maximum(np.rint(ground.workload.output_tokens * np.exp(float(ground.error) * z)), 1.0))


def rank_noisy(ground: Ground) -> Predictor:
    """The outputs of the workload, dealt out by ranks that err: by ``error`` times a normal share of all places.

    As a ranking predictor does (Fu et al., NeurIPS '24): it knows who is longer, more or less, not how long anybody is.
    """
    outputs = ground.workload.output_tokens
    count = len(outputs)
    places = np.empty(count)
    places[np.argsort(outputs, kind="stable")] = np.arange(count)
    z = stream(ground.seed, "predictor").standard_normal(count)
    believed = np.empty(count)
    believed[np.argsort(places + float(ground.error) * count * z, kind="stable")] = np.sort(outputs)
    return _listed(believed)


def _listed(tokens: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> Predictor:
    most = 2.0**40
    expected: Ints = np.minimum(tokens, most).astype(np.int64)
    return lambda request: int(expected[request.index])


PREDICTORS: Mapping[str, Callable[[Ground], Predictor]] = MappingProxyType(
    {"oracle": oracle, "declared": declared, "noisy": noisy, "rank-noisy": rank_noisy}
)
