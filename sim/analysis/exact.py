"""Arithmetic on columns that is exact whatever the numbers: 64 bits where they suffice, Python's integers elsewhere."""

from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.request import Ints

Mask = npt.NDArray[np.bool_]

LIMIT = 2**62
FOREVER = 2**62
"""Later than any instant, behind any job."""


def total(values: Ints) -> int:
    """Their sum."""
    return dot(values, np.ones_like(values))


def dot(left: Ints, right: Ints) -> int:
    """The sum of their products."""
    if not len(left):
        return 0
    bound = int(np.abs(left).max()) * int(np.abs(right).max()) * len(left)
    if bound < LIMIT:
        return int(left @ right)
    return sum(a * b for a, b in zip(left.tolist(), right.tolist(), strict=True))


def combine(coefficients: tuple[int, ...], columns: tuple[Ints, ...]) -> npt.NDArray[Any]:
    """The sum of each column times its coefficient, all of them >= 0: int64, or objects when they do not fit."""
    rows = len(columns[0])
    bound = sum(c * int(column.max()) for c, column in zip(coefficients, columns, strict=True)) if rows else 0
    kind: Any = np.int64 if bound < LIMIT else object
    sums = np.zeros(rows, dtype=kind)
    for coefficient, column in zip(coefficients, columns, strict=True):
        if coefficient:
            sums = sums + column.astype(kind) * coefficient
    return sums


def sum_by(owner: Ints, values: Ints, rows: int) -> Ints:
    """For each ``k`` below ``rows``, the sum of the values whose owner is k."""
    sums = np.zeros(rows, dtype=np.int64)
    np.add.at(sums, owner, values)
    return sums


def range_max(values: Ints, first: Ints, length: Ints) -> Ints:
    """The largest of ``values[first : first + length]`` for each pair; every length is at least 1.

    By doubling: the largest of each 1, 2, 4, … in a row; two of these windows cover any range.
    """
    largest = np.empty(len(first), dtype=np.int64)
    width, windows = 1, values
    while len(first) and width <= int(length.max()):
        mine = np.flatnonzero((width <= length) & (length < 2 * width))
        left = first[mine]
        largest[mine] = np.maximum(windows[left], windows[left + length[mine] - width])
        windows = np.maximum(windows[:-width], windows[width:]) if len(windows) > width else windows
        width *= 2
    return largest


def whole_ns(ms: Decimal) -> int:
    """Half up."""
    return floor(Fraction(ms) * 10**6 + Fraction(1, 2))
