"""Tables by name to which others may add rows of their own: the one thing in a process that changes.

What is there from the start stands in one literal beside the table; what is added says which file it came from.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from sim.show import show_path

Row = TypeVar("Row")


class Source(NamedTuple):
    """Where something of somebody's own was registered. ``sha256``: of its file, None if there is none to read."""

    file: str
    line: int
    sha256: str | None = None

    def at(self, line: int | None = None) -> str:
        """``plugin mine.py (line 12)``."""
        line = line or self.line
        return f"plugin {show_path(self.file)}" + (f" (line {line})" if line else "")

    @property
    def name(self) -> str:
        """The name of its file, without the folders that differ from one machine to the next."""
        return Path(self.file).name


class Registry(Mapping[str, Row], Generic[Row]):
    """A table by name. ``kind`` says in messages of what."""

    def __init__(self, kind: str, rows: Mapping[str, Row]) -> None:
        self.kind = kind
        self._rows = dict(rows)
        self._sources: dict[str, Source] = {}

    def __getitem__(self, name: str) -> Row:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, name: str, row: Row, source: Source) -> None:
        """A row that was not there from the start; ``KeyError`` if there is one of this name."""
        if name in self._rows:
            raise KeyError(name)
        self._rows[name], self._sources[name] = row, source

    def remove(self, name: str) -> None:
        """Take such a row away again; ``KeyError`` if it was there from the start, or is not there."""
        del self._sources[name]
        del self._rows[name]

    def source(self, name: str) -> Source | None:
        """Where a row came from; None if it was there from the start, or is not there."""
        return self._sources.get(name)

    @property
    def own(self) -> Mapping[str, Source]:
        """Where each row that was added came from."""
        return dict(self._sources)
