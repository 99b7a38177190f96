"""The formulas of queueing theory against values that were worked out elsewhere, to all digits that are given."""

from itertools import pairwise
from math import exp, inf

import pytest

from sim.analysis.theory.batches import Sharing, bulk_service, constant_steps, mean_field_tpot
from sim.analysis.theory.queues import (
    MD1,
    Moments,
    Stream,
    busy_period,
    closed_loop,
    conserved,
    gamma_gaps,
    heavy_traffic_wait,
    kingman_bound,
    mean_wait,
    priority_waits,
    renewal_wait,
)

ONE = Moments(1, 1)
EXPONENTIAL = Moments(1, 2)
TWO_POINT = Moments(1.9, 10.9)
"""1 with probability 0.9, 10 with 0.1."""


def digits(value: float, places: int = 6) -> object:
    """Equal to so many decimals."""
    return pytest.approx(value, abs=0.51 * 10**-places, rel=0)


@pytest.mark.parametrize(
    ("load", "waits", "quantiles", "served"),
    [
        (0.5, (0.5, 0.824361, 0.946961, 0.998764), (1.5157, 2.0506, 3.3363), (0.606531, 0.183940)),
        (0.8, (0.2, 0.445108, 0.634520, 0.899503), (5.0115, 6.6203, 10.3559), (0.449329, 0.161517)),
        (0.9, (0.1, 0.245960, 0.383600, 0.668709), (10.7825, 14.1287, 21.8982), (0.406570, 0.148769)),
    ],
)
def test_the_laws_of_a_constant_service(
    load: float, waits: tuple[float, ...], quantiles: tuple[float, ...], served: tuple[float, float]
) -> None:
    queue = MD1(load)
    assert [queue.wait_at_most(time) for time in (0, 1, 2, 5)] == list(map(digits, waits))
    assert [queue.wait_quantile(p) for p in (0.9, 0.95, 0.99)] == [digits(value, 4) for value in quantiles]
    assert [queue.served_in_busy_period(count) for count in (1, 2)] == list(map(digits, served))


@pytest.mark.parametrize(
    ("load", "wait", "busy", "variance"), [(0.5, 0.5, 2, 4), (0.8, 2, 5, 100), (0.9, 4.5, 10, 900)]
)
def test_the_means_of_a_constant_service(load: float, wait: float, busy: float, variance: float) -> None:
    assert (MD1(load).mean_wait, MD1(load).busy_mean, MD1(load).busy_variance) == pytest.approx((wait, busy, variance))


def test_a_constant_service_close_to_saturation() -> None:
    assert MD1(0.95).mean_wait == pytest.approx(9.5)
    assert MD1(0.95).busy_mean == pytest.approx(20)


def test_the_law_of_the_wait_has_its_mean() -> None:
    """E[W] is the integral of P(W > t); here up to 60 services, beyond which e^-20 is left."""
    queue = MD1(0.8)
    above = [1 - queue.wait_at_most(step / 100) for step in range(6001)]
    assert sum(above) * 0.01 - (above[0] + above[-1]) * 0.005 == pytest.approx(2.0, rel=2e-3)
    assert all(before >= after for before, after in pairwise(above))


def test_the_law_of_the_wait_keeps_its_digits_where_the_alternating_sum_loses_them() -> None:
    """Far out P(W > t) falls by e^-η with each service, where η solves η = ρ (e^η - 1): 0.43084 at ρ = 0.8."""
    eta = 0.43084
    assert 0.8 * (exp(eta) - 1) == pytest.approx(eta, rel=1e-4)
    queue = MD1(0.8)
    for time in (10.25, 20.5, 40.75):
        ratio = (1 - queue.wait_at_most(time + 1)) / (1 - queue.wait_at_most(time))
        assert ratio == pytest.approx(exp(-eta), rel=1e-4)


def test_the_probability_of_no_wait_has_no_quantile_above_it() -> None:
    assert MD1(0.5).wait_quantile(0.5) == 0
    with pytest.raises(ValueError, match="probability 1"):
        MD1(0.5).wait_quantile(1)


@pytest.mark.parametrize(
    ("service", "waits"),
    [
        (EXPONENTIAL, {0.5: 1, 0.8: 4, 0.9: 9, 0.95: 19}),
        (ONE, {0.5: 0.5, 0.8: 2, 0.9: 4.5, 0.95: 9.5}),
        (Moments(1, 1.25), {0.8: 2.5}),  # Erlang of 4 stages
        (TWO_POINT, {0.5: 2.868421, 0.8: 11.473684, 0.9: 25.815789}),
        # Geometric of mean m has E[S²] = 2 m² - m; in mean services.
        (Moments(1, 1.9), {0.5: 0.95, 0.8: 3.8, 0.9: 8.55}),
        (Moments(1, 1.99), {0.5: 0.995, 0.8: 3.98, 0.9: 8.955}),
        # A prompt of 0.5, and then 0 or 100 steps of 0.01 as likely as not.
        (Moments(1, (0.25 + 2.25) / 2), {0.8: 2.5}),
    ],
)
def test_poisson_arrivals_and_any_service(service: Moments, waits: dict[float, float]) -> None:
    assert {load: mean_wait(load / service.mean, service) for load in waits} == {
        load: digits(wait) for load, wait in waits.items()
    }


def test_busy_periods_of_any_service() -> None:
    """Exponential at 0.8: mean 5, E[B²] = 2 / 0.2³ = 250."""
    assert busy_period(0.8, EXPONENTIAL) == pytest.approx((5, 250))


@pytest.mark.parametrize(
    ("load", "waits"), [(0.5, (0.333333, 0.666667)), (0.8, (0.666667, 3.333333)), (0.9, (0.818182, 8.181818))]
)
def test_two_priorities(load: float, waits: tuple[float, float]) -> None:
    found = priority_waits([Stream(load / 2, ONE)] * 2)
    assert found == list(map(digits, waits))
    assert sum(found) / 2 == pytest.approx(mean_wait(load, ONE))  # both as many: the mean is that of fcfs


def test_short_and_long_in_three_orders() -> None:
    """Two-point services at load 0.8."""
    rate = 0.8 / 1.9
    short, long = Stream(rate * 0.9, ONE), Stream(rate * 0.1, Moments(10, 100))
    assert (rate, short.load, long.load) == (digits(0.421053), digits(0.378947), digits(0.421053))
    first_short = priority_waits([short, long])
    assert first_short == [digits(3.694915), digits(18.474576)]
    assert 0.9 * first_short[0] + 0.1 * first_short[1] == digits(5.172881)
    first_long = priority_waits([long, short])
    assert first_long == [digits(3.963636), digits(19.818182)]
    assert 0.1 * first_long[0] + 0.9 * first_long[1] == digits(18.232727)
    wait = mean_wait(rate, TWO_POINT)
    assert conserved(rate, TWO_POINT) == digits(9.178947)
    for waits in (first_short, first_long[::-1], [wait, wait]):
        assert short.load * waits[0] + long.load * waits[1] == digits(9.178947)


@pytest.mark.parametrize(
    ("load", "waits"),
    [
        (0.5, {0.25: 3.361051, 0.5: 1.780776, 1: 1, 2: 0.618034, 4: 0.432523, inf: 0.255001}),
        (0.8, {0.25: 10.955228, 0.5: 6.316625, 1: 4, 2: 2.843980, 4: 2.267384, inf: 1.692731}),
        (0.9, {0.25: 23.478889, 0.5: 13.825486, 1: 9, 2: 6.588284, 4: 5.383050, inf: 4.178659}),
    ],
)
def test_gamma_arrivals_and_an_exponential_service(load: float, waits: dict[float, float]) -> None:
    assert {k: renewal_wait(load, 1, gamma_gaps(load, k)) for k in waits} == {k: digits(w) for k, w in waits.items()}
    for shape, wait in waits.items():
        gap_variance = 1 / shape / load**2
        assert wait <= kingman_bound(load, gap_variance, EXPONENTIAL) + 1e-9


def test_in_heavy_traffic_two_coefficients_of_variation_suffice() -> None:
    """No bound: at shape 1/4 it is below the exact 10.955228."""
    found = [heavy_traffic_wait(0.8, 1 / shape, 1) for shape in (0.25, 0.5, 1, 2, 4, inf)]
    assert found == pytest.approx([10, 6, 4, 3, 2.5, 2])


@pytest.mark.parametrize(
    ("users", "response", "throughput"),
    [
        (1, 1, 0.090909),
        (2, 1.090909, 0.180328),
        (5, 1.466632, 0.436048),
        (10, 2.732079, 0.785418),
        (20, 10.037451, 0.998131),
        (50, 40, 1),
    ],
)
def test_users_who_think_10_and_are_served_1(users: int, response: float, throughput: float) -> None:
    loop = closed_loop(users, 10, 1)
    assert loop == (digits(response), digits(throughput))
    assert loop.response == pytest.approx(users / loop.throughput - 10)


@pytest.mark.parametrize(
    ("arrivals", "steps", "latency"),
    [
        (0.1, 1, 1.049759),
        (0.1, 2, 2.094372),
        (0.1, 5, 5.202681),
        (0.1, 10, 10.321787),
        (0.5, 1, 1.225931),
        (0.5, 2, 2.342940),
        (0.5, 5, 5.467127),
        (1, 1, 1.365529),
        (1, 2, 2.454985),
        (2, 1, 1.468311),
        (2, 2, 2.495999),
    ],
)
def test_constant_steps_for_all_who_are_present(arrivals: float, steps: int, latency: float) -> None:
    found = constant_steps(arrivals, steps)
    assert found.latency == digits(latency)
    assert found.first_token == pytest.approx(found.latency - steps + 1)


@pytest.mark.parametrize(
    ("slots", "arrivals", "wait", "busy"),
    [
        (1, 0.8, 2, 0.8),
        (2, 1.6, 1.31926460, 0.940127),
        (4, 2.0, 0.51696038, 0.940524),
        (4, 3.2, 0.87953621, 0.992598),
        (4, 3.6, 1.49609086, 0.997417),
        (8, 6.4, 0.65183800, 0.999822),
    ],
)
def test_constant_steps_for_a_few_at_a_time(slots: int, arrivals: float, wait: float, busy: float) -> None:
    found = bulk_service(arrivals, slots)
    assert (found.wait, found.busy) == (digits(wait, 8), digits(busy))


def test_many_slots_are_no_limit() -> None:
    """With 64 slots and one arrival a step, nobody is ever left behind."""
    assert bulk_service(1, 64).wait == pytest.approx(constant_steps(1, 1).first_token - 1, rel=1e-9)


@pytest.mark.parametrize(
    ("rate", "short_steps", "half_a_step", "by_chain"),
    [(5, 0.577778, 0.5835, 0.582980), (20, 0.866667, 0.8752, 0.874999), (40, 2.6, 2.6258, None)],
)
def test_steps_that_grow_with_those_who_share_them(
    rate: float, short_steps: float, half_a_step: float, by_chain: float | None
) -> None:
    """a = 10 ms, b = 0.4 ms, 50 steps on average.

    With half a mean step it is a little too much. The third value is exact for a geometric number of steps: of the
    Markov chain at their ends, n to Binomial(n, 0.98) + Poisson(λ (a + b n)).
    """
    sharing = Sharing(fixed=0.010, each=0.0004, rate=rate, mean_steps=50)
    assert sharing.mean_stay(50) == digits(short_steps)
    assert sharing.mean_latency == pytest.approx(half_a_step, rel=1e-3)
    assert by_chain is None or sharing.mean_latency == pytest.approx(by_chain, rel=2e-5)
    assert sharing.mean_stay(150) == pytest.approx(3 * sharing.mean_stay(50))


@pytest.mark.parametrize(("load", "slowdown"), [(0.5, 2), (0.8, 5), (0.9, 10)])
def test_without_a_fixed_cost_steps_are_processor_sharing(load: float, slowdown: float) -> None:
    sharing = Sharing(fixed=0, each=0.001, rate=load * 20, mean_steps=50)
    assert sharing.mean_stay(50) == pytest.approx(slowdown * 0.05)
    assert sharing.mean_latency == sharing.mean_stay(50)


@pytest.mark.parametrize(
    ("fixed", "each", "prompt", "rate", "tpot"),
    [
        (10, 0.2, 20.0, 5, 12.73),
        (10, 0.2, 20.0, 10, 16.94),
        (10, 0.2, 20.0, 15, 25.31),
        (10, 0.2, 20.0, 20, 50.00),
        (10, 0.3, 1.0, 20, 26.68),
    ],
)
def test_the_mean_field_of_prompts_and_decodes(
    fixed: float, each: float, prompt: float, rate: float, tpot: float
) -> None:
    """ms; 100 tokens each, and all prompt tokens of a request cost ``prompt``."""
    assert mean_field_tpot(fixed, each, rate / 1000 * (prompt + 99 * each)) == digits(tpot, 2)


def test_nothing_is_stationary_at_a_load_of_1() -> None:
    for load in (1.0, 1.5, 0.0, float("nan")):
        with pytest.raises(ValueError, match="no stationary state"):
            MD1(load)
    with pytest.raises(ValueError, match="no stationary state"):
        priority_waits([Stream(0.6, ONE), Stream(0.5, ONE)])
    with pytest.raises(ValueError, match="no stationary state"):
        bulk_service(4, 4)
    with pytest.raises(ValueError, match="no stationary state"):
        Sharing(0.01, 0.001, 20, 50)
