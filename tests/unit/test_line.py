"""Durations on a line: ends in one step are those of going job by job, to the last ns."""

import random
from dataclasses import fields

import numpy as np
import pytest

from sim.clock import FS_PER_NS, round_fs
from sim.costs.base import Work
from sim.costs.line import MOST_GROWTH_FS, Line, floor_sum
from sim.costs.linear import LinearCost
from sim.record.stretches import floor_sums

CASES = 3000


def draw(rng: random.Random) -> tuple[int, int, int, int]:
    """(jobs, first, growth, divisor), small and large, with and without remainders."""
    divisor = rng.choice([1, 2, 7, 1000, FS_PER_NS])

    def coefficient() -> int:
        return rng.choice([0, divisor * rng.randint(0, 9), rng.randint(0, 10 ** rng.randint(0, 13))])

    return rng.randint(0, 40), coefficient(), coefficient(), divisor


def test_a_sum_of_quotients_is_that_of_adding_them_up() -> None:
    """3 jobs of 5, 8, 11 halves: 2 + 4 + 5."""
    assert floor_sum(3, 5, 3, 2) == 2 + 4 + 5
    rng = random.Random(0)
    for _ in range(CASES):
        jobs, first, growth, divisor = draw(rng)
        assert floor_sum(jobs, first, growth, divisor) == sum((first + growth * j) // divisor for j in range(jobs))


def test_columns_of_sums_are_the_same_sums() -> None:
    rng = random.Random(1)
    cases = [draw(rng) for _ in range(CASES)]
    for divisor in (1, 2, 7, 1000, FS_PER_NS):
        rows = [case[:3] for case in cases if case[3] == divisor]
        jobs, first, growth = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
        assert floor_sums(jobs, first, growth, divisor).tolist() == [floor_sum(*row, divisor) for row in rows]


def test_the_longest_line_stays_within_64_bits() -> None:
    jobs, first, growth = 2**20, 2**59, MOST_GROWTH_FS
    column = floor_sums(np.array([jobs]), np.array([first]), np.array([growth]), FS_PER_NS)
    assert column.tolist() == [floor_sum(jobs, first, growth, FS_PER_NS)]


def test_each_job_is_rounded_once_half_up() -> None:
    """0.4 ns, 1.1 ns, 1.8 ns, 2.5 ns: 0 + 1 + 2 + 3."""
    line = Line(400_000, 700_000)
    assert [line.job_ns(place) for place in range(4)] == [0, 1, 2, 3]
    assert [line.ends_ns(jobs) for jobs in range(5)] == [0, 0, 1, 3, 6]


def test_how_many_jobs_are_over_after_some_time() -> None:
    """Ends at 0, 1, 3, 6: a job that ends just then is over."""
    line = Line(400_000, 700_000)
    assert [line.within(ns, 4) for ns in range(8)] == [(1, 0), (2, 1), (2, 1), (3, 3), (3, 3), (3, 3), (4, 6), (4, 6)]
    assert line.within(100, 2) == (2, 1), "no more than were asked for"
    assert Line(0, 0).within(0, 5) == (5, 0), "jobs that take no time are over at once"


def test_how_many_jobs_are_over_is_found_wherever_the_guess_falls() -> None:
    rng = random.Random(2)
    for _ in range(CASES):
        jobs, first, growth, _ = draw(rng)
        line = Line(first, growth)
        ns = max(line.ends_ns(rng.randint(0, jobs)) + rng.choice([-1, 0, 1, 9]), 0)
        over = max(count for count in range(jobs + 1) if line.ends_ns(count) <= ns)
        assert line.within(ns, jobs) == (over, line.ends_ns(over))


def test_the_rest_of_a_line_is_a_line() -> None:
    line = Line(400_000, 700_000)
    assert [line.moved(1).job_ns(place) for place in range(3)] == [line.job_ns(place) for place in (1, 2, 3)]


def test_a_linear_device_says_the_durations_of_the_jobs_to_come() -> None:
    """Three sequences read 10, 13, 16 tokens: 1 + 2 + 3 * 0.5 fs and 7 fs a token of context."""
    cost = LinearCost(job_fs=1, prefill_fs_per_token=0, decode_fs_per_batch=2, decode_fs_per_request=3,
                      context_fs_per_token=7)  # fmt: skip
    line = cost.line(Work(0, 3, 10))
    assert line == Line(1 + 2 + 9 + 70, 21)
    for later in range(3):
        work = Work(0, 3, 10 + 3 * later)
        assert line.job_ns(later) == cost.job_ns(work) == round_fs(82 + 21 * later)


@pytest.mark.parametrize("cost", [{"job_fs": 2**60}, {"context_fs_per_token": MOST_GROWTH_FS}])
def test_very_long_jobs_stand_on_no_line(cost: dict[str, int]) -> None:
    none = dict.fromkeys((field.name for field in fields(LinearCost)), 0)
    assert LinearCost(**none | cost).line(Work(0, 2, 1)) is None
