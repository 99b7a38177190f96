"""A table in as few bytes as its numbers need, which reads like any other: every column that is asked for is int64."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from sim.request import Ints

ROWS_AT_ONCE = 4096


class Packed(Mapping[str, Ints]):
    """Columns of narrow integers by name. What is handed out is a copy."""

    def __init__(self, columns: Mapping[str, np.ndarray]) -> None:
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

    def in_order(self, order: Ints) -> "Packed":
        """The same rows in another order."""
        return Packed({name: column[order] for name, column in self._columns.items()})


class Rows:
    """Rows of whole numbers as they come: the newest in a list, all before them packed."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._packed: list[list[np.ndarray]] = [[] for _ in columns]
        self._most = ROWS_AT_ONCE * len(columns)
        self.newest: list[int] = []
        self.append = self.newest.extend
        """Write one row."""

    def __len__(self) -> int:
        return sum(map(len, self._packed[0])) + len(self.newest) // len(self._columns)

    def tidy(self) -> None:
        """Pack the newest if they are many: to be called now and then."""
        if len(self.newest) >= self._most:
            self._pack()

    def table(self) -> Packed:
        """All rows. Call it once: they are gone afterwards."""
        self._pack()
        columns = {}
        for place, name in enumerate(self._columns):
            columns[name] = np.concatenate(self._packed[place])
            self._packed[place] = []
        return Packed(columns)

    def _pack(self) -> None:
        cells = np.array(self.newest, dtype=np.int64).reshape(-1, len(self._columns))
        for place, packed in enumerate(self._packed):
            packed.append(narrow(cells[:, place]))
        self.newest.clear()


def narrow(column: Ints) -> np.ndarray:
    """The same numbers in the smallest signed type that holds them."""
    if not len(column):
        return column.astype(np.int8)
    kind = np.promote_types(np.min_scalar_type(-abs(int(column.min())) - 1), np.min_scalar_type(-int(column.max()) - 1))
    return column.astype(kind)
