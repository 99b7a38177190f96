"""The figures of a column of arrivals, each worked out by hand."""

import numpy as np
import pytest

from sim.workload.measured import Measured, measure

S = 10**9


def of(*seconds: float) -> Measured:
    return measure(np.array([round(s * S) for s in seconds], dtype=np.int64))


def test_rate_and_cv_are_of_the_gaps() -> None:
    """Gaps 1, 1, 4 s: mean 2, variance (1 + 1 + 4) / 3 = 2, CV sqrt(2) / 2; 3 gaps in 6 s."""
    found = of(10, 11, 12, 16)
    assert (found.n, found.span_ns, found.rate_per_s) == (4, 6 * S, 0.5)
    assert found.gap_cv == pytest.approx(2**0.5 / 2)


def test_one_gap_does_not_vary_and_is_no_measure_of_it() -> None:
    assert (of(3, 5).rate_per_s, of(3, 5).gap_cv) == (0.5, None)


def test_the_order_of_the_column_does_not_matter() -> None:
    assert of(16, 10, 12, 11) == of(10, 11, 12, 16)


def test_dispersion_is_of_whole_windows_from_the_first_arrival_on() -> None:
    """In 1 s from 10 on: 2, 1, 0, 0, 1 in five windows (the last arrival opens a sixth, which is not whole).

    Mean 4/5, mean of squares 6/5, variance 6/5 - 16/25 = 14/25, over the mean 0.7.
    """
    found = of(10, 10.5, 11, 14.25, 15)
    assert found.dispersion[1] == pytest.approx(0.7)
    assert found.dispersion[10] is None


def test_a_window_has_its_start_and_not_its_end() -> None:
    """0 | 1 1 | 2 | 3: windows of one second with 1, 2 and 1 arrivals: mean 4/3, variance 2/9, ratio 1/6."""
    assert of(0, 1, 1, 2, 3).dispersion[1] == pytest.approx(1 / 6)


def test_two_windows_are_the_least() -> None:
    assert of(0, 19.999).dispersion[10] is None
    assert of(0, 5, 20).dispersion[10] == pytest.approx(1)  # 2 and 0: mean 1, variance 1
    assert of(0, 119).dispersion[60] is None
    assert of(0, 60, 120).dispersion[60] == 0


@pytest.mark.parametrize("seconds", [(), (3,), (3, 3)])
def test_what_is_not_defined_is_none(seconds: tuple[float, ...]) -> None:
    assert of(*seconds) == Measured(len(seconds), 0, None, None, {1: None, 10: None, 60: None})


def test_windows_without_anybody_count_and_take_no_memory() -> None:
    """Two at 0, one 31 years later: of w = 10^9 windows one has 2, the rest none: mean 2/w, ratio 2 - 2/w."""
    assert of(0, 0, 10**9).dispersion[1] == pytest.approx(2)


def test_evenly_spaced_arrivals_do_not_vary() -> None:
    found = measure(np.arange(1001, dtype=np.int64) * (S // 4))
    assert (found.rate_per_s, found.gap_cv) == (4, 0)
    assert found.dispersion == {1: 0, 10: 0, 60: 0}
