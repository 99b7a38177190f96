"""A trace as Parquet: some rows at a time; columns go by their names, timestamps have their own unit."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any

from sim.errors import ScenarioError
from sim.show import show
from sim.workload.trace_file import TraceFile
from sim.workload.trace_layout import Names
from sim.workload.trace_values import Instants, Read, reader_of

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = b"PAR1"
ROWS_AT_ONCE = 8192


class ParquetRows:
    """``columns`` of lists (``hash_ids``), whole numbers, floats (their ``repr``), decimals, texts, timestamps."""

    def __init__(self, file: TraceFile, names: Names, instants: Instants) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._file, self._error = file, (pa.ArrowException, OSError, ValueError)
        try:
            self._parquet = pq.ParquetFile(file.again())
        except self._error as error:
            raise self._damaged(error) from None
        self.header: Sequence[str] = self._parquet.schema_arrow.names
        twice = next((name for name in self.header if self.header.count(name) > 1), None)
        if twice is not None:
            raise file.error(f"column {show(twice)} {self.header.count(twice)} times; each once")
        missing = [column for key in names.needed if (column := names.columns[key]) not in self.header]
        if missing:
            found = ", ".join(self.header)
            raise file.error(f"{', '.join(missing)} missing; its columns are {found}")
        found_keys = {key: column for key, column in names.columns.items() if column in self.header}
        self.keys: Sequence[str] = tuple(found_keys)
        self.columns: Sequence[str] = tuple(found_keys.values())
        self.readers: Sequence[Read] = [
            reader_of(key, instants, of_text=False, optional=key not in names.needed) for key in self.keys
        ]

    def records(self) -> Iterator[tuple[int, Sequence[Any]]]:
        """Rows are numbered from 1."""
        number = 0
        try:
            for batch in self._parquet.iter_batches(ROWS_AT_ONCE, columns=list(self.columns)):
                columns = [_plain(batch.column(name)) for name in self.columns]
                for row in zip(*columns, strict=True):
                    number += 1
                    yield number, row
        except self._error as error:
            raise self._damaged(error) from None

    def values(self, record: Sequence[Any]) -> Sequence[Any]:
        return record

    def _damaged(self, error: Exception) -> ScenarioError:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        return self._file.error(f"damaged Parquet, or cut short ({first})")


def _plain(column: "pa.Array") -> list[Any]:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):  # its text is exact, and read as every other timestamp
        nine = column.cast(pa.timestamp("ns", tz=column.type.tz))
        texts: list[Any] = nine.cast(pa.string()).to_pylist()
        return texts
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(column.type):
        return [value if value is None else Decimal(repr(value)) if isfinite(value) else Decimal(str(value))
                for value in values]  # fmt: skip
    return values
