"""Every arrival process against its law, and against a law that it is easily mistaken for."""

from collections.abc import Sequence
from decimal import Decimal
from math import gamma, sqrt
from typing import Any

import numpy as np
import pytest
from goodness import Numbers, Values, fits, has_cv, has_mean, is_unit_poisson, processor_seconds
from scipy import stats

import sim
from sim.document import plain
from sim.errors import ScenarioError
from sim.generated import Arrivals
from sim.workload.arrivals import PROCESSES
from sim.workload.build import build
from sim.workload.process import MAX_INSTANT_NS
from sim.workload.streams import stream

Keys = dict[str, Any]
DRAWS = 100_000
INF = Decimal("inf")


def arrivals(count: int = DRAWS, seed: int = 0, **keys: Any) -> Values:
    """Times in ns of a law by its keys in a scenario."""
    return Arrivals.model_validate(plain(keys)).law.arrival_ns(count, stream(seed, "arrivals"))


def gaps(count: int = DRAWS, seed: int = 0, **keys: Any) -> Values:
    """Gaps in ns, the one before the first request included."""
    return np.diff(arrivals(count, seed, **keys), prepend=0)


def gaps_fit(drawn: Values, law: Any) -> bool:
    """Whether gaps in ns are of a law of seconds, whole and one by one."""
    mean, variance, skewness, excess = (float(x) for x in law.stats(moments="mvsk"))
    std = sqrt(variance)
    seconds = drawn / 1e9
    return (
        fits(drawn, lambda ns: law.cdf(ns / 1e9))
        and has_mean(seconds, mean, std)
        and has_cv(seconds, std / mean, skewness, excess)
    )


# --- renewal processes -----------------------------------------------------------------------------------------------


def gamma_gaps(rate: float, shape: float) -> Any:
    return stats.gamma(shape, scale=1 / (rate * shape))


@pytest.mark.parametrize("burstiness", ["0.3", "0.5", "1", "2", "100"])
def test_gamma_gaps_have_the_shape_that_vllm_calls_burstiness(burstiness: str) -> None:
    drawn = gaps(process="gamma", rate_per_s=4, burstiness=Decimal(burstiness))
    assert gaps_fit(drawn, gamma_gaps(4, float(burstiness)))


@pytest.mark.parametrize(("cv", "shape"), [("2", 0.25), ("0.5", 4), ("0.1", 100), ("1", 1)])
def test_the_cv_of_gamma_gaps_is_the_shape_by_another_name(cv: str, shape: float) -> None:
    """CV = 1 / sqrt(k): 2 is a shape of 1/4."""
    drawn = gaps(process="gamma", rate_per_s=4, cv=Decimal(cv))
    assert gaps_fit(drawn, gamma_gaps(4, shape))
    assert drawn.tolist() == gaps(process="gamma", rate_per_s=4, burstiness=Decimal(str(shape))).tolist()


@pytest.mark.parametrize(
    "wrong",
    [
        stats.gamma(2, scale=1 / 4),  # the shape without its scale: the rate is halved
        stats.gamma(0.25, scale=1 / (4 * 0.25)),  # burstiness read as a CV
        stats.gamma(4, scale=1 / (4 * 4)),  # its square
        stats.gamma(0.5, scale=1 / (4 * 0.5)),  # its inverse
        stats.expon(scale=1 / 4),  # not read at all
    ],
)
def test_gamma_gaps_of_another_reading_are_noticed(wrong: Any) -> None:
    """A40 and A41 of the public reports: shape, scale and CV confounded."""
    assert gaps_fit(gaps(process="gamma", rate_per_s=4, burstiness=2), gamma_gaps(4, 2))
    assert not gaps_fit(gaps(process="gamma", rate_per_s=4, burstiness=2), wrong)


def test_infinite_burstiness_has_constant_gaps() -> None:
    """The first of them before the first request, each time k / rate rounded by itself."""
    assert arrivals(4, process="gamma", rate_per_s=3, burstiness=INF).tolist() == [
        333_333_333, 666_666_667, 1_000_000_000, 1_333_333_333,
    ]  # fmt: skip


@pytest.mark.parametrize("shape", ["0.5", "0.8", "1", "3"])
def test_weibull_gaps(shape: str) -> None:
    """Their mean is scale times Gamma(1 + 1 / shape), which is to be 1 / rate."""
    k = float(shape)
    law = stats.weibull_min(k, scale=1 / (4 * gamma(1 + 1 / k)))
    assert gaps_fit(gaps(process="weibull", rate_per_s=4, shape=Decimal(shape)), law)


@pytest.mark.parametrize(
    "wrong",
    [
        stats.weibull_min(0.5, scale=1 / 4),  # the scale taken for the mean
        stats.weibull_min(2, scale=1 / (4 * gamma(1.5))),  # the shape's inverse
        stats.weibull_min(0.525, scale=1 / (4 * gamma(1 + 1 / 0.525))),  # five percent off
    ],
)
def test_weibull_gaps_of_another_reading_are_noticed(wrong: Any) -> None:
    assert not gaps_fit(gaps(process="weibull", rate_per_s=4, shape=Decimal("0.5")), wrong)


def is_mixed_exponential(drawn: Values, chances: list[float], rates: list[float]) -> bool:
    """P(gap <= x) = 1 - sum p exp(-r x); mean sum p / r, second moment 2 sum p / r^2, and so on."""
    p, r = np.array(chances), np.array(rates)
    m1, m2, m3, m4 = (float(k * (p / r**n).sum()) for n, k in ((1, 1), (2, 2), (3, 6), (4, 24)))
    variance = m2 - m1**2
    third = m3 - 3 * m1 * m2 + 2 * m1**3
    fourth = m4 - 4 * m1 * m3 + 6 * m1**2 * m2 - 3 * m1**4
    seconds = drawn / 1e9

    def at_most(ns: Numbers) -> Numbers:
        return np.asarray(1 - np.exp(-np.outer(np.maximum(ns, 0) / 1e9, r)) @ p)

    return (
        fits(drawn, at_most)
        and has_mean(seconds, m1, sqrt(variance))
        and has_cv(seconds, sqrt(variance) / m1, third / variance**1.5, fourth / variance**2 - 3)
    )


def test_hyperexponential_gaps_of_balanced_means() -> None:
    """CV 3: p1 = (1 + sqrt(8 / 10)) / 2 = 0.947214, and rates 2 p1 4 and 2 p2 4, so that p1 / r1 = p2 / r2 = 1/8."""
    upper = (1 + sqrt(0.8)) / 2
    drawn = gaps(process="hyperexponential", rate_per_s=4, cv=3)
    assert is_mixed_exponential(drawn, [upper, 1 - upper], [8 * upper, 8 * (1 - upper)])
    assert abs(sqrt(2 * (1 / 64 / upper + 1 / 64 / (1 - upper)) * 16 - 1) - 3) < 1e-9


def test_hyperexponential_gaps_of_named_branches() -> None:
    keys: Keys = {"probabilities": [Decimal("0.9"), Decimal("0.1")], "rates_per_s": [10, Decimal("0.5")]}
    drawn = gaps(process="hyperexponential", **keys)
    assert is_mixed_exponential(drawn, [0.9, 0.1], [10, 0.5])
    assert not is_mixed_exponential(drawn, [0.1, 0.9], [10, 0.5])
    assert not is_mixed_exponential(drawn, [0.9, 0.1], [0.1, 2])  # rates taken for means
    assert not is_mixed_exponential(drawn, [0.88, 0.12], [10, 0.5])


@pytest.mark.parametrize(
    "keys",
    [
        {"process": "gamma", "rate_per_s": 4, "cv": 2},
        {"process": "weibull", "rate_per_s": 4, "shape": Decimal("0.6")},
        {"process": "hyperexponential", "rate_per_s": 4, "cv": 2},
    ],
)
def test_gaps_do_not_depend_on_one_another(keys: Keys) -> None:
    drawn = gaps(**keys)
    for lag in (1, 2, 10):
        assert abs(np.corrcoef(drawn[lag:], drawn[:-lag])[0, 1]) < 4 / sqrt(DRAWS)


# --- a rate that changes in time; by the integral of the rate, arrivals are a Poisson process of rate 1 ---------------


def sinusoid_mass(t: Numbers, mean: float, amplitude: float, period: float, phase: float) -> Numbers:
    """The integral of mean (1 + a sin(2 pi (t / P + phase))) from 0 to t."""
    swing = np.cos(2 * np.pi * (t / period + phase)) - np.cos(2 * np.pi * phase)
    return np.asarray(mean * t - mean * amplitude * period / (2 * np.pi) * swing)


@pytest.mark.parametrize(("amplitude", "phase"), [("0.5", "0"), ("1", "0.25"), ("0", "0.5"), ("0.9", "0.7")])
def test_a_sinusoid(amplitude: str, phase: str) -> None:
    keys: Keys = {"rate_per_s": 5, "amplitude": Decimal(amplitude), "period_ms": 60_000, "phase": Decimal(phase)}
    times = arrivals(process="sinusoid", **keys) / 1e9
    assert is_unit_poisson(sinusoid_mass(times, 5, float(amplitude), 60, float(phase)))


def test_a_sinusoid_of_another_reading_is_noticed() -> None:
    keys: Keys = {"rate_per_s": 5, "amplitude": Decimal("0.5"), "period_ms": 600_000, "phase": Decimal("0.25")}
    times = arrivals(process="sinusoid", **keys) / 1e9
    assert is_unit_poisson(sinusoid_mass(times, 5, 0.5, 600, 0.25))
    assert not is_unit_poisson(sinusoid_mass(times, 5, 0.5 / 5, 600, 0.25))  # amplitude in requests per second
    assert not is_unit_poisson(sinusoid_mass(times, 5, 0.5, 600, 0.25 / (2 * np.pi)))  # phase in radians
    assert not is_unit_poisson(sinusoid_mass(times, 5, 0.5, 600 * 2 * np.pi, 0.25))  # period for angular frequency
    assert not is_unit_poisson(sinusoid_mass(times, 5, 0, 600, 0))  # no swing
    assert not is_unit_poisson(sinusoid_mass(times, 5.1, 0.5, 600, 0.25))  # two percent more


def linear_mass(t: Numbers, points: Sequence[tuple[float, float]]) -> Numbers:
    """The area below straight lines between (s, rate), the last rate held for ever."""
    at, rate = (np.array(column) for column in zip(*points, strict=True))
    mass = np.concatenate([[0.0], ((rate[1:] + rate[:-1]) / 2 * np.diff(at)).cumsum()])
    place = np.searchsorted(at, t, side="right") - 1
    slope = np.append(np.diff(rate) / np.diff(at), 0.0)
    gone = t - at[place]
    return np.asarray(mass[place] + rate[place] * gone + slope[place] * gone**2 / 2)


POINTS = [[0, 2], [60_000, 20], [90_000, 0], [100_000, 3]]
IN_SECONDS = [(0, 2), (60, 20), (90, 0), (100, 3)]


def test_straight_lines_that_end_in_a_constant_rate() -> None:
    times = arrivals(5_000, process="piecewise-linear", points=POINTS) / 1e9
    assert is_unit_poisson(linear_mass(times, IN_SECONDS))
    assert not is_unit_poisson(linear_mass(times, [(0, 2), (60, 20), (90, 20), (100, 3)]))


def test_straight_lines_again_and_again() -> None:
    """A period of 120 s has 660 + 300 + 15 + 60 = 1035 arrivals on average."""
    times = arrivals(process="piecewise-linear", points=POINTS, period_ms=120_000) / 1e9
    mass = np.floor(times / 120) * 1035 + linear_mass(times % 120, IN_SECONDS)
    assert is_unit_poisson(mass)
    assert not is_unit_poisson(linear_mass(times, IN_SECONDS))


def step_mass(t: Numbers, points: Sequence[tuple[float, float]], period: float) -> Numbers:
    at, rate = (np.array(column) for column in zip(*points, strict=True))
    mass = np.concatenate([[0.0], (rate * np.diff(at, append=period)).cumsum()])
    within = t % period
    place = np.searchsorted(at, within, side="right") - 1
    return np.asarray(np.floor(t / period) * mass[-1] + mass[place] + rate[place] * (within - at[place]))


def test_steps() -> None:
    steps: Keys = {"process": "steps", "points": [[0, 1], [2_000, 0], [5_000, 30]], "period_ms": 6_000}
    times = arrivals(**steps) / 1e9
    assert is_unit_poisson(step_mass(times, [(0, 1), (2, 0), (5, 30)], 6))
    assert not is_unit_poisson(step_mass(times, [(0, 1), (2, 0), (5, 29)], 6))
    assert not ((times % 6 > 2 + 1e-9) & (times % 6 < 5)).any()


def test_the_last_step_holds() -> None:
    times = arrivals(process="steps", points=[[0, 100], [3_000, 7]]) / 1e9
    assert is_unit_poisson(np.where(times < 3, 100 * times, 300 + 7 * (times - 3)))


def test_a_linear_ramp_is_one_in_time() -> None:
    """From 1 to 9 within 1000 s: t + 8 t^2 / 2000 arrivals by t, and 9 a second from there on."""
    keys: Keys = {"process": "ramp", "from_per_s": 1, "to_per_s": 9, "over_ms": 1_000_000}
    times = arrivals(20_000, **keys) / 1e9
    assert is_unit_poisson(np.where(times < 1000, times + 0.004 * times**2, 5000 + 9 * (times - 1000)))
    by_request = np.interp(np.arange(20_000), [0, 5_000], [1, 9])  # as clients ramp that count requests
    assert not is_unit_poisson((np.diff(times, prepend=0) * by_request).cumsum())


def test_an_exponential_ramp() -> None:
    """From 1 to 10 within 1000 s: rate 10^(t / 1000), so 1000 / ln 10 (10^(t / 1000) - 1) arrivals by t."""
    keys: Keys = {"process": "ramp", "from_per_s": 1, "to_per_s": 10, "over_ms": 1_000_000, "growth": "exponential"}
    times = arrivals(20_000, **keys) / 1e9
    whole = 9 * 1000 / np.log(10)
    mass = np.where(times < 1000, 1000 / np.log(10) * (10 ** (times / 1000) - 1), whole + 10 * (times - 1000))
    assert is_unit_poisson(mass)
    assert not is_unit_poisson(np.where(times < 1000, times + 0.0045 * times**2, 5500 + 10 * (times - 1000)))


def test_a_ramp_from_nothing() -> None:
    """t^2 / 200 arrivals by t, to 100 s."""
    times = arrivals(5_000, process="ramp", from_per_s=0, to_per_s=1, over_ms=100_000) / 1e9
    assert is_unit_poisson(np.where(times < 100, times**2 / 200, 50 + times - 100))


def test_the_rate_of_a_trace(tmp_path: Any) -> None:
    """Rows at 0, 1, 2 and 3, 3.5, 25 s: windows of 10 s have 5, 0 and 1 of them, and 30 s later all begins again."""
    rows = "".join(f"2023-11-16 18:00:{at},5,5\n" for at in ("00.0", "01.0", "02.0", "03.0", "03.5", "25.0"))
    (tmp_path / "trace.csv").write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}")
    (tmp_path / "s.toml").write_text(
        'schema = 1\nname = "t"\n[workload]\ncount = 20000\nprompt_tokens = {distribution = "fixed", value = 1}\n'
        'output_tokens = {distribution = "fixed", value = 1}\n'
        'arrivals = {process = "trace-rate", path = "trace.csv", window_ms = 10000}\n'
    )
    times = build(sim.load(tmp_path / "s.toml"))[0].arrival_ns / 1e9
    assert is_unit_poisson(step_mass(times, [(0, 0.5), (10, 0), (20, 0.1)], 30))
    assert not is_unit_poisson(step_mass(times, [(0, 5), (10, 0), (20, 1)], 30))
    assert not is_unit_poisson(0.2 * times)


# --- batches, ticks, exact rates -------------------------------------------------------------------------------------


def test_batches_with_a_period() -> None:
    assert arrivals(7, process="batch", size=3, period_ms=Decimal("0.5")).tolist() == [0] * 3 + [500_000] * 3 + [10**6]


def test_batches_at_poisson_epochs_keep_the_rate_of_requests() -> None:
    times = arrivals(process="batch", size=5, rate_per_s=20)
    assert (times.reshape(-1, 5) == times[::5, None]).all()
    assert is_unit_poisson(times[::5] / 1e9 * 4)
    assert not is_unit_poisson(times[::5] / 1e9 * 20)


def test_ticks_gather_what_lies_between_them() -> None:
    keys: Keys = {"process": "poisson", "rate_per_s": 4}
    exact, ticked = arrivals(**keys), arrivals(**keys, tick_ms=Decimal("1000.5"))
    assert (ticked % 1_000_500_000 == 0).all()
    assert ((exact - ticked >= 0) & (exact - ticked < 1_000_500_000)).all()


@pytest.mark.parametrize("process", [{"process": "poisson"}, {"process": "gamma", "cv": 3}])
def test_an_exact_rate_puts_the_last_of_n_at_n_over_the_rate(process: Keys) -> None:
    """A40: without it, the realised rate is off by some CV / sqrt(n)."""
    keys: Keys = {**process, "rate_per_s": 8}
    plainly, exact = arrivals(1_000, **keys), arrivals(1_000, **keys, exact_rate=True)
    assert exact[-1] == 125_000_000_000
    assert plainly[-1] != exact[-1]
    assert np.abs(exact / exact[-1] - plainly / plainly[-1]).max() < 1e-10
    assert (np.diff(exact) >= 0).all()


def test_an_exact_rate_of_poisson_arrivals_leaves_uniform_order_statistics() -> None:
    """So the gaps are no longer independent: their sum is fixed, and counts vary less than their mean."""
    ends = [arrivals(50, seed, process="poisson", rate_per_s=1, exact_rate=True)[24] for seed in range(1500)]
    law = stats.beta(25, 25)  # of the 25th of 49 uniform numbers
    assert fits(np.array(ends), lambda ns: law.cdf(ns / 50e9))
    without = [arrivals(50, seed, process="poisson", rate_per_s=1)[24] for seed in range(1500)]
    assert not fits(np.array(without), lambda ns: law.cdf(ns / 50e9))


# --- what holds for all of them --------------------------------------------------------------------------------------

EVERY: list[Keys] = [
    {"process": "poisson", "rate_per_s": 4},
    {"process": "deterministic", "rate_per_s": 4},
    {"process": "gamma", "rate_per_s": 4, "cv": 2},
    {"process": "gamma", "rate_per_s": 4, "burstiness": INF},
    {"process": "weibull", "rate_per_s": 4, "shape": Decimal("0.5")},
    {"process": "hyperexponential", "rate_per_s": 4, "cv": 3},
    {"process": "mmpp", "rates_per_s": [1, 20], "mean_sojourn_ms": [6000, 500]},
    {"process": "on-off", "rate_per_s": 16, "on_ms": 500, "off_ms": 1500},
    {"process": "sinusoid", "rate_per_s": 4, "amplitude": 1, "period_ms": 60_000},
    {"process": "piecewise-linear", "points": POINTS},
    {"process": "steps", "points": POINTS, "period_ms": 120_000},
    {"process": "ramp", "from_per_s": 1, "to_per_s": 8, "over_ms": 60_000},
    {"process": "hawkes", "base_per_s": 2, "branching": Decimal("0.6"), "decay_ms": 500},
    {"process": "batch", "size": 8, "rate_per_s": 4},
    {"process": "poisson", "rate_per_s": 4, "tick_ms": 100},
]


def test_no_process_is_left_out() -> None:
    assert {keys["process"] for keys in EVERY} | {"given", "trace-rate"} == set(PROCESSES)


def name(keys: Keys) -> str:
    return f"{keys['process']} {' '.join(key for key in keys if key not in {'process', 'rate_per_s'})}"


@pytest.mark.parametrize("keys", EVERY, ids=name)
class TestEvery:
    def test_times_ascend_from_0_on_as_int64(self, keys: Keys) -> None:
        times = arrivals(20_000, **keys)
        assert times.dtype == np.int64
        assert times[0] >= 0
        assert (np.diff(times) >= 0).all()

    def test_the_same_seed_gives_the_same_and_another_other_times(self, keys: Keys) -> None:
        times = arrivals(500, 7, **keys)
        assert np.array_equal(times, arrivals(500, 7, **keys))
        by_chance = keys["process"] != "deterministic" and keys.get("burstiness") != INF
        assert np.array_equal(times, arrivals(500, 8, **keys)) != by_chance

    def test_more_requests_leave_the_first_ones_as_they_are(self, keys: Keys) -> None:
        assert np.array_equal(arrivals(300, **keys), arrivals(150_000, **keys)[:300])

    def test_one_request(self, keys: Keys) -> None:
        assert len(arrivals(1, **keys)) == 1

    @pytest.mark.slow
    def test_a_million_cost_at_most_one_and_a_half_microseconds_each(self, keys: Keys) -> None:
        """The least of three, of processor time."""
        assert min(processor_seconds(lambda: arrivals(10**6, **keys)) for _ in range(3)) < 1.5


@pytest.mark.parametrize(
    "keys",
    [
        {"process": "gamma", "rate_per_s": Decimal("1e-9"), "cv": 2},
        {"process": "gamma", "rate_per_s": Decimal("1e-9"), "burstiness": INF},
        {"process": "weibull", "rate_per_s": Decimal("1e-9"), "shape": Decimal("0.1")},
        {"process": "hyperexponential", "rate_per_s": Decimal("1e-9"), "cv": 2},
        {"process": "mmpp", "rates_per_s": [Decimal("1e-9"), 0], "mean_sojourn_ms": [10**9, 10**9]},
        {"process": "on-off", "rate_per_s": Decimal("1e-9"), "on_ms": 10**9, "off_ms": 10**9},
        {"process": "sinusoid", "rate_per_s": Decimal("1e-9"), "amplitude": 1, "period_ms": 10**12},
        {"process": "sinusoid", "rate_per_s": Decimal("1e-9"), "amplitude": 1, "period_ms": Decimal("0.000001")},
        {"process": "steps", "points": [[0, Decimal("1e-9")]]},
        {"process": "steps", "points": [[0, 0], [10**12, Decimal("1e-9")]]},
        {"process": "ramp", "from_per_s": 0, "to_per_s": Decimal("1e-9"), "over_ms": 10**12},
        {"process": "hawkes", "base_per_s": Decimal("1e-9"), "branching": Decimal("0.9"), "decay_ms": 10**9},
        {"process": "batch", "size": 1, "period_ms": 10**12},
        {"process": "batch", "size": 1, "rate_per_s": Decimal("1e-9")},
        {"process": "poisson", "rate_per_s": Decimal("1e-9"), "tick_ms": 10**12},
        {"process": "poisson", "rate_per_s": Decimal("1e-9"), "exact_rate": True},
    ],
    ids=name,
)
def test_a_load_that_outlasts_the_clock_is_refused(keys: Keys) -> None:
    with pytest.raises(ScenarioError, match=r"workload\.arrivals.*: too (slow|small) for 10000 requests; the last may"):
        arrivals(10_000, **keys)


@pytest.mark.parametrize(
    "keys",
    [
        {"process": "gamma", "rate_per_s": 10**6, "cv": 1000},
        {"process": "gamma", "rate_per_s": 10**6, "burstiness": Decimal("0.000001")},
        {"process": "gamma", "rate_per_s": 10**6, "burstiness": 10**6},
        {"process": "weibull", "rate_per_s": 10**6, "shape": Decimal("0.1")},
        {"process": "weibull", "rate_per_s": 10**6, "shape": 1000},
        {"process": "hyperexponential", "rate_per_s": 10**6, "cv": 1000},
        {"process": "mmpp", "rates_per_s": [10**6, 0], "mean_sojourn_ms": [Decimal("0.001"), 10**4]},
        {"process": "sinusoid", "rate_per_s": 10**6, "amplitude": 1, "period_ms": Decimal("0.000001")},
        {"process": "sinusoid", "rate_per_s": 10**6, "amplitude": 1, "period_ms": 10**12},
        {"process": "steps", "points": [[0, 0], [10**11, 10**6]]},
        {"process": "ramp", "from_per_s": 10**6, "to_per_s": Decimal("1e-9"), "over_ms": 1, "growth": "exponential"},
        {"process": "hawkes", "base_per_s": 10**6, "branching": Decimal("0.999"), "decay_ms": Decimal("0.000001")},
    ],
    ids=name,
)
def test_extreme_parameters_still_give_times(keys: Keys) -> None:
    try:
        times = arrivals(2_000, **keys)
    except ScenarioError as error:
        assert "too slow" in str(error)  # noqa: PT017  # the ramp: 1000 arrivals, and then hardly any
        return
    assert times.dtype == np.int64
    assert (np.diff(times) >= 0).all()
    assert 0 <= times[0] <= times[-1] <= MAX_INSTANT_NS


def test_states_that_change_all_the_time_are_refused() -> None:
    with pytest.raises(ScenarioError, match="changes of state are expected for 1000 requests"):
        arrivals(1_000, process="mmpp", rates_per_s=[1, 2], mean_sojourn_ms=[Decimal("0.000001")] * 2)


@pytest.mark.parametrize(
    ("keys", "rate", "cv"),
    [
        ({"process": "gamma", "rate_per_s": 4, "burstiness": 4}, 4, 0.5),
        ({"process": "gamma", "rate_per_s": 4, "burstiness": INF}, 4, 0),
        ({"process": "weibull", "rate_per_s": 4, "shape": Decimal("0.5")}, 4, sqrt(5)),  # Gamma(5) / Gamma(3)^2 = 6
        ({"process": "hyperexponential", "rate_per_s": 4, "cv": 3}, 4, 3),
        (
            {"process": "hyperexponential", "probabilities": [Decimal("0.5")] * 2, "rates_per_s": [1, 2]},
            4 / 3,  # the mean gap is (1 + 1/2) / 2
            sqrt(11) / 3,  # E X^2 = 1 + 1/4, over (3/4)^2, less 1: 11/9
        ),
        ({"process": "mmpp", "rates_per_s": [1, 21], "mean_sojourn_ms": [3000, 1000]}, 6, None),
        ({"process": "on-off", "rate_per_s": 16, "on_ms": 500, "off_ms": 1500}, 4, None),
        ({"process": "hawkes", "base_per_s": 2, "branching": Decimal("0.6"), "decay_ms": 1}, 5, None),
        ({"process": "batch", "size": 8, "period_ms": 500}, 16, None),
        ({"process": "steps", "points": [[0, 1], [1000, 4]], "period_ms": 3000}, 3, None),
        ({"process": "piecewise-linear", "points": [[0, 1], [1000, 4]], "period_ms": 2000}, 3.25, None),
        ({"process": "steps", "points": [[0, 1]]}, None, None),
        ({"process": "poisson", "rate_per_s": 4, "tick_ms": 5}, 4, None),
    ],
)
def test_what_a_law_states(keys: Keys, rate: float | None, cv: float | None) -> None:
    law = Arrivals.model_validate(plain(keys)).law
    stated = law.mean_rate_per_s
    assert (None if stated is None else float(stated)) == (None if rate is None else pytest.approx(rate))
    assert law.gap_cv == (None if cv is None else pytest.approx(cv))
