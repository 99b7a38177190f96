"""Arrivals that depend on one another: how counts vary in windows, against the theory of each process.

Of a stationary process of rate m whose intensity has covariance c(u) at lag u (Hawkes: the density of pairs beyond the
Poisson part), Var N(t) = m t + 2 integral from 0 to t of (t - u) c(u) du. With c(u) = C exp(-k u) the ratio is

    Var N(t) / E N(t) = 1 + 2 C / (m k) (1 - (1 - exp(-k t)) / (k t)).
"""

from decimal import Decimal
from math import exp
from typing import Any

import numpy as np
import pytest
from goodness import ERRORS, Numbers, dispersion, has_dispersion
from scipy.integrate import quad
from scipy.linalg import expm

from sim.document import plain
from sim.generated import Arrivals
from sim.workload.streams import stream

DRAWS = 1_000_000


def arrivals_s(count: int = DRAWS, seed: int = 0, **keys: Any) -> Numbers:
    return Arrivals.model_validate(plain(keys)).law.arrival_ns(count, stream(seed, "arrivals")) / 1e9


def ratio(rate: float, covariance: float, decay: float, window: float) -> float:
    """The formula above."""
    return 1 + 2 * covariance / (rate * decay) * (1 - (1 - exp(-decay * window)) / (decay * window))


def has_rate(times_s: Numbers, rate: float, limit: float) -> bool:
    """Whether n arrivals took as long as they should: Var N(T) is about limit m T, so the rate's error is its root."""
    whole = times_s[-1]
    return bool(abs(len(times_s) / whole - rate) < ERRORS * (limit * rate / whole) ** 0.5)


# --- states that come and go -----------------------------------------------------------------------------------------


def two_states(rates: tuple[float, float], lasts: tuple[float, float]) -> tuple[float, float, float]:
    """Mean rate, covariance at lag 0 and decay: the states are left at 1 / lasts, and forgotten at the sum of both."""
    share = lasts[0] / sum(lasts)
    mean = share * rates[0] + (1 - share) * rates[1]
    return mean, share * (1 - share) * (rates[0] - rates[1]) ** 2, 1 / lasts[0] + 1 / lasts[1]


@pytest.mark.parametrize("window", [1, 60])
def test_two_states(window: float) -> None:
    """2 a second for 10 s, 20 for 5 s: m = 8, C = 2/9 18^2 = 72, k = 0.3; in long windows 1 + 2 72 / (8 0.3) = 61."""
    times = arrivals_s(process="mmpp", rates_per_s=[2, 20], mean_sojourn_ms=[10_000, 5_000])
    mean, covariance, decay = two_states((2, 20), (10, 5))
    assert (mean, covariance, decay) == pytest.approx((8, 72, 0.3))
    assert has_rate(times, mean, 61)
    if window == 60:
        assert has_dispersion(times, window, ratio(mean, covariance, decay, window))
    else:  # neighbours are alike here: a bound from the number of times that the states came round, 1 in 15 s
        found, windows = dispersion(times, window)
        assert abs(found - ratio(mean, covariance, decay, window)) < ERRORS * found * (2 * 15 / windows) ** 0.5


@pytest.mark.parametrize(
    ("rates", "lasts"),
    [
        ((2, 20), (5, 10)),  # sojourns swapped
        ((2, 20), (5, 2.5)),  # half as long
        ((2, 20), (0.1, 0.2)),  # rates of leaving for sojourns
        ((20, 2), (10, 5)),
        ((3, 18), (10, 5)),  # the same mean rate, less contrast
    ],
)
def test_two_states_of_another_reading_are_noticed(rates: tuple[float, float], lasts: tuple[float, float]) -> None:
    times = arrivals_s(process="mmpp", rates_per_s=[2, 20], mean_sojourn_ms=[10_000, 5_000])
    mean, covariance, decay = two_states(rates, lasts)
    limit = 1 + 2 * covariance / (mean * decay)
    assert not (has_rate(times, mean, limit) and has_dispersion(times, 60, ratio(mean, covariance, decay, 60)))


def test_on_and_off_are_two_states() -> None:
    """16 a second for 1 s, none for 3 s: m = 4, C = 3/16 16^2 = 48, k = 4/3; 1 + 2 48 / (4 4/3) = 19."""
    times = arrivals_s(process="on-off", rate_per_s=16, on_ms=1_000, off_ms=3_000)
    assert has_rate(times, 4, 19)
    assert has_dispersion(times, 20, ratio(4, 48, 4 / 3, 20))
    assert not has_dispersion(times, 20, ratio(12, 48, 4 / 3, 20))  # on for three quarters of the time
    keys: dict[str, Any] = {"rates_per_s": [16, 0], "mean_sojourn_ms": [1_000, 3_000]}
    assert np.array_equal(times[:1000], arrivals_s(1000, process="mmpp", **keys))


CHAIN = [[Decimal(0), Decimal("0.5"), Decimal("0.5")], [Decimal(1), 0, 0], [Decimal("0.2"), Decimal("0.8"), Decimal(0)]]


def general(rates: list[float], lasts: list[float], chain: Any, window: float) -> tuple[float, float]:
    """Mean rate and ratio by the generator Q: c(u) = sum pi_i r_i (exp(Q u))_ij r_j - m^2, integrated numerically."""
    r, q = np.array(rates), (np.array(chain, dtype=float) - np.eye(len(rates))) / np.array(lasts)[:, None]
    pi = np.linalg.svd(q.T)[2][-1]
    pi = pi / pi.sum()
    mean = float(pi @ r)
    area, _ = quad(lambda u: (window - u) * (float((pi * r) @ expm(q * u) @ r) - mean**2), 0, window, limit=200)
    return mean, 1 + 2 * area / (mean * window)


def test_three_states_with_a_matrix_of_transitions() -> None:
    rates, lasts = [1.0, 40.0, 5.0], [2.0, 0.5, 0.7]
    keys: dict[str, Any] = {"rates_per_s": [1, 40, 5], "mean_sojourn_ms": [2000, 500, 700]}
    times = arrivals_s(process="mmpp", **keys, transitions=CHAIN)
    mean, due = general(rates, lasts, CHAIN, 30)
    assert has_rate(times, mean, due)
    assert has_dispersion(times, 30, due)
    transposed, other = general(rates, lasts, np.array(CHAIN, dtype=float).T, 30)
    assert not (has_rate(times, transposed, other) and has_dispersion(times, 30, other))


def test_without_a_matrix_the_states_take_turns() -> None:
    in_turn = [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    keys: dict[str, Any] = {"rates_per_s": [1, 40, 5], "mean_sojourn_ms": [2000, 500, 700]}
    times = arrivals_s(process="mmpp", **keys)
    mean, due = general([1, 40, 5], [2, 0.5, 0.7], in_turn, 30)
    assert has_rate(times, mean, due)
    assert has_dispersion(times, 30, due)


def test_states_begin_in_the_long_run() -> None:
    """On for a quarter of the time: then the first of 10 000 a second comes at once, well within 0.1 s.

    Of the other runs, in which off lasts 3 s more on average, 1 - exp(-0.1 / 3) have one within 0.1 s too.
    """
    keys: dict[str, Any] = {"process": "on-off", "rate_per_s": 10_000, "on_ms": 1_000, "off_ms": 3_000}
    first = np.array([arrivals_s(1, seed, **keys)[0] for seed in range(600)])
    due = 0.25 + 0.75 * (1 - exp(-0.1 / 3))
    assert abs((first < 0.1).mean() - due) < ERRORS * (due * (1 - due) / 600) ** 0.5


# --- arrivals that bring others --------------------------------------------------------------------------------------


def hawkes(base: float, branching: float, decay_s: float) -> tuple[float, float, float]:
    """Rate m = base / (1 - n); c(u) = m n (2 - n) / (2 (1 - n)) / d exp(-(1 - n) u / d) (Hawkes 1971).

    So in long windows the ratio is 1 + n (2 - n) / (1 - n)^2 = 1 / (1 - n)^2.
    """
    mean = base / (1 - branching)
    return mean, mean * branching * (2 - branching) / (2 * (1 - branching)) / decay_s, (1 - branching) / decay_s


@pytest.mark.parametrize(("branching", "decay_s"), [("0.6", 2), ("0.3", 0.5), ("0.8", 0.1), ("0", 1)])
def test_hawkes(branching: str, decay_s: float) -> None:
    n = float(branching)
    keys: dict[str, Any] = {"base_per_s": 2, "branching": Decimal(branching), "decay_ms": Decimal(str(decay_s * 1000))}
    times = arrivals_s(process="hawkes", **keys)
    mean, covariance, decay = hawkes(2, n, decay_s)
    limit = 1 / (1 - n) ** 2
    assert 1 + 2 * covariance / (mean * decay) == pytest.approx(limit)
    window = 40 / decay
    assert has_rate(times, mean, limit)
    assert has_dispersion(times, window, ratio(mean, covariance, decay, window))


@pytest.mark.parametrize(
    ("base", "branching", "decay_s"),
    [
        (5, 0.6, 2),  # base taken for the mean rate
        (2, 0.6, 0.5),  # decay taken for a rate
        (2, 0.6 / 2, 2),  # branching divided by the decay
        (2 * 0.4 / 0.45, 0.55, 2),  # the same mean rate
    ],
)
def test_hawkes_of_another_reading_is_noticed(base: float, branching: float, decay_s: float) -> None:
    """In windows of 10 s, where the decay shows too; they are some 2 times the decay of what neighbours share."""
    times = arrivals_s(process="hawkes", base_per_s=2, branching=Decimal("0.6"), decay_ms=2_000)

    def agrees(*law: float) -> bool:
        mean, covariance, decay = hawkes(*law)
        found = [has_dispersion(times, window, ratio(mean, covariance, decay, window)) for window in (10, 100)]
        return has_rate(times, mean, 1 + 2 * covariance / (mean * decay)) and all(found)

    assert agrees(2, 0.6, 2)
    assert not agrees(base, branching, decay_s)


def test_hawkes_starts_with_nobody_before() -> None:
    """The mean rate y obeys y(0) = base and y' = (base - (1 - n) y) / d: it is m - (m - base) exp(-(1 - n) t / d).

    With base 10, n 0.5, d 1, so m 20: in the first second 20 - 20 (1 - exp(-1/2)) = 12.13; stationary, it were 20.
    """
    counts = [
        int(np.searchsorted(arrivals_s(200, seed, process="hawkes", base_per_s=10, branching=Decimal("0.5"),
                                       decay_ms=1_000), 1.0)) for seed in range(1000)
    ]  # fmt: skip
    due = 20 - 20 * (1 - exp(-0.5))
    assert abs(np.mean(counts) - due) < ERRORS * np.std(counts) / 1000**0.5
    assert abs(np.mean(counts) - 20) > ERRORS * np.std(counts) / 1000**0.5
