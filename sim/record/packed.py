"""A table in as few bytes as its numbers need, which reads like any other: every column that is asked for is int64."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.request import Ints

ROWS_AT_ONCE = 4096

Narrow = npt.NDArray[np.signedinteger[Any]]
"""Whole numbers in 8, 16, 32 or 64 bits."""


class Packed(Mapping[str, Ints]):
    """Columns of narrow integers by name. What is handed out is a copy."""

    def __init__(self, columns: Mapping[str, Narrow]) -> None:
        self._columns = columns

    def __getitem__(self, name: str) -> Ints:
        return self._columns[name].astype(np.int64)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def part(self, rows: slice) -> dict[str, Ints]:
        """Some of the rows."""
        return {name: column[rows].astype(np.int64) for name, column in self._columns.items()}

    def replaced(self, name: str, column: Ints) -> "Packed":
        """The same with another column of this name."""
        return Packed({**self._columns, name: narrow(column)})

    def in_order(self, order: Ints) -> "Packed":
        """The same rows in another order."""
        return Packed({name: column[order] for name, column in self._columns.items()})


class Column:
    """Numbers one behind the other in one growing piece of memory, as narrow as the widest of them allows."""

    def __init__(self) -> None:
        self._kind: np.dtype[np.signedinteger[Any]] = np.dtype(np.int8)
        self._bytes = bytearray()

    def __len__(self) -> int:
        return len(self._bytes) // self._kind.itemsize

    def extend(self, numbers: Ints) -> None:
        kind = np.promote_types(self._kind, narrow(numbers).dtype)
        if kind != self._kind:
            self._bytes = bytearray(self.array().astype(kind).tobytes())
            self._kind = kind
        self._bytes += numbers.astype(kind).tobytes()

    def array(self) -> Narrow:
        """All of them, without a copy: nothing can be added while it is in use."""
        return np.frombuffer(self._bytes, dtype=self._kind)


class Rows:
    """Rows of whole numbers as they come: the newest in a list, all before them packed."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = {name: Column() for name in columns}
        self._most = ROWS_AT_ONCE * len(columns)
        self.newest: list[int] = []
        self.append = self.newest.extend
        """Write one row."""

    def __len__(self) -> int:
        packed = len(next(iter(self._columns.values())))
        return packed + len(self.newest) // len(self._columns)

    def tidy(self) -> None:
        """Pack the newest if they are many: to be called now and then."""
        if len(self.newest) >= self._most:
            self._pack()

    def table(self) -> Packed:
        """All rows. Call it once: they are gone afterwards."""
        self._pack()
        columns, self._columns = self._columns, {name: Column() for name in self._columns}
        return Packed({name: column.array() for name, column in columns.items()})

    def _pack(self) -> None:
        cells = np.array(self.newest, dtype=np.int64).reshape(-1, len(self._columns))
        for place, column in enumerate(self._columns.values()):
            column.extend(cells[:, place])
        self.newest.clear()


def narrow(column: Ints) -> Narrow:
    """The same numbers in the smallest signed type that holds them."""
    if not len(column):
        return column.astype(np.int8)
    kind = np.promote_types(np.min_scalar_type(-abs(int(column.min())) - 1), np.min_scalar_type(-int(column.max()) - 1))
    return column.astype(kind)
