"""What the scheduler believes about outputs before they are there: a predictor is a small function and a row.

Whoever orders by length needs one. It answers the output tokens that it expects of a request, at least 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from sim.registry import Registry
from sim.request import Flags, Request, Workload
from sim.workload.streams import stream

Predictor = Callable[[Request], int]
Floats = npt.NDArray[np.float64]

MOST = 2.0**40
"""Nobody is believed to emit more tokens."""


@dataclass(frozen=True)
class Ground:
    """What a predictor may go by beside the request: the workload, how far it errs, and the seed of its errors."""

    workload: Workload
    error: Decimal
    seed: int

    @property
    def first(self) -> Flags:
        """Which requests are sent for the first time; of the same one, sent again, the same is believed."""
        sending = self.workload.sending
        return np.full(len(self.workload), fill_value=True) if sending is None else sending.attempt == 0

    def errors(self) -> Floats:
        """A standard normal number for each request that is sent for the first time."""
        return stream(self.seed, "predictor").standard_normal(int(np.count_nonzero(self.first)))


def oracle(_ground: Ground) -> Predictor:
    """It knows the output."""
    return lambda request: request.output_tokens


def declared(_ground: Ground) -> Predictor:
    """It goes by ``max_tokens``."""
    return lambda request: request.max_tokens


def noisy(ground: Ground) -> Predictor:
    """The output times exp(error * Z), Z standard normal and one for each request: right in the median."""
    outputs = ground.workload.output_tokens[ground.first]
    return _listed(ground, np.maximum(np.rint(outputs * np.exp(float(ground.error) * ground.errors())), 1.0))


def rank_noisy(ground: Ground) -> Predictor:
    """The outputs of the workload, dealt out by ranks that err: by ``error`` times a normal share of all places.

    As a ranking predictor does (Fu et al., NeurIPS '24): it knows who is longer, more or less, not how long anybody is.
    """
    outputs = ground.workload.output_tokens[ground.first]
    count = len(outputs)
    places = np.empty(count)
    places[np.argsort(outputs, kind="stable")] = np.arange(count)
    believed = np.empty(count)
    ranked = np.argsort(places + float(ground.error) * count * ground.errors(), kind="stable")
    believed[ranked] = np.sort(outputs)
    return _listed(ground, believed)


def _listed(ground: Ground, tokens: Floats) -> Predictor:
    expected = np.minimum(tokens, MOST).astype(np.int64)[np.cumsum(ground.first) - 1]
    return lambda request: int(expected[request.index])


PREDICTORS: Registry[Callable[[Ground], Predictor]] = Registry(
    "predictor", {"oracle": oracle, "declared": declared, "noisy": noisy, "rank-noisy": rank_noisy}
)
