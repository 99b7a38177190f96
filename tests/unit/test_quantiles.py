"""Quantiles of values that are given by few numbers are those of all the values written out."""

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sim.record.quantiles import PERCENTS, Distribution, Gaps, Lines, distribution, of_gaps
from sim.request import Ints


def ints(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


def written_out(gaps: Gaps) -> list[int]:
    values: list[int] = np.repeat(gaps.ns, gaps.count).tolist()
    columns = (gaps.lines.first_fs, gaps.lines.growth_fs, gaps.lines.jobs, gaps.lines.count)
    for first, growth, jobs, count in zip(*(column.tolist() for column in columns), strict=True):
        for place in range(jobs):
            values += [(first + growth * place + 500_000) // 1_000_000] * count
    return sorted(values)


def linear(values: list[int], percent: int) -> Fraction:
    """NumPy's default, exactly: between the two values around (n - 1) * percent / 100."""
    rank = Fraction((len(values) - 1) * percent, 100)
    low = int(rank)
    high = min(low + 1, len(values) - 1)
    return values[low] + (rank - low) * (values[high] - values[low])


def test_a_line_of_three_and_one_value() -> None:
    """1, 3, 5 ns twice each, and a 2: 1 1 2 3 3 5 5, of which the middle is 3."""
    gaps = Gaps(ints(2), ints(1), Lines(ints(1_000_000), ints(2_000_000), ints(3), ints(2)), total_ns=20)
    assert written_out(gaps) == [1, 1, 2, 3, 3, 5, 5]
    found = of_gaps(gaps)
    assert (found.n, found.mean) == (7, Fraction(20, 7))
    assert (found.percentiles[50], found.max) == (Fraction(3), 5)


@pytest.mark.parametrize("seed", range(60))
def test_any_lines_and_values(seed: int) -> None:
    rng = random.Random(seed)
    lines = rng.randint(0, 6)
    singles = rng.randint(0, 6)

    def column(rows: int, most: int) -> Ints:
        return ints(*(rng.randint(0, most) for _ in range(rows)))

    steep = rng.choice([0, 300_000, 10**8])
    gaps = Gaps(
        column(singles, 200),
        column(singles, 4),
        Lines(column(lines, 10**8), column(lines, steep), column(lines, 12) + 1, column(lines, 3) + 1),
        total_ns=0,
    )
    values = written_out(gaps)
    found = of_gaps(replace(gaps, total_ns=sum(values)))
    if not values:
        assert found == Distribution(0, None, dict.fromkeys(PERCENTS), None)
        return
    assert (found.n, found.max) == (len(values), values[-1])
    assert found.mean == Fraction(sum(values), len(values))
    assert found.percentiles == {percent: linear(values, percent) for percent in PERCENTS}
    assert distribution(ints(*values)) == found
