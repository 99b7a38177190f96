"""What laws of arrivals and of lengths have in common: they are frozen classes whose fields are their keys."""

from abc import ABC
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Within: TypeAlias = str | tuple[str | int, ...]
"""A key of a law's table, or a path below it."""

AT_ONCE = 2**16
"""So many numbers are drawn and worked on together: they stay in the processor's cache, and ten million fit."""


class Law(ABC):  # noqa: B024  # what is abstract is what a kind of law asks for
    """A field without a default is a key that must be given; one with a default (None: what the docs say) may be."""

    def problem(self) -> tuple[Within, str] | None:
        """What is wrong with the values taken together, and where; each by itself has been checked before."""
        return None


def parts(count: int) -> Iterator[slice]:
    """``range(count)`` in slices of at most :data:`AT_ONCE`."""
    for start in range(0, count, AT_ONCE):
        yield slice(start, min(start + AT_ONCE, count))
