"""What a format of traces is: what a file calls the keys of a request, the unit of its times, its blocks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sim.errors import ScenarioError
from sim.show import show
from sim.workload.trace_values import ISO, UNITS

KEYS = (
    "arrival", "prompt_tokens", "output_tokens", "id", "max_tokens", "priority", "tenant", "deadline", "cancel",
    "samples", "prefix_group", "prefix_tokens", "parent", "parent_tokens", "hash_ids",
)  # fmt: skip
"""What a row can say of a request. ``arrival``, the first, starts the clock of its file."""

NEEDED = ("arrival", "prompt_tokens", "output_tokens")
CSV, JSONL, PARQUET, CONVERSATIONS = "csv", "jsonl", "parquet", "conversations"


@dataclass(frozen=True)
class Layout:
    """One format. ``what`` says to somebody who does not have the file what it must be."""

    container: str
    what: str
    columns: Mapping[str, str]
    """By key, what the file calls it."""
    unit: str | None = None
    """Of its times; None: the scenario says it, or the name of the column (``arrival_ms``)."""
    block_tokens: int | None = None
    """Tokens of one of its ``hash_ids``."""
    headers: tuple[tuple[str, ...], ...] = ()
    """The only headers that it can have; none: columns go by their names."""
    others: tuple[str, ...] | None = None
    """Columns that it may have besides; None: any."""
    zero_tokens: str = "error"
    generic: bool = False
    """Whether the scenario says what the columns are."""
    marks: tuple[str, ...] = field(default=())
    """Columns or keys by which it is known when nobody says the format."""
    timed: bool = True
    """Whether it has times of arrival."""

    @property
    def wanted(self) -> str:
        """What its header, or its keys, must be."""
        if self.headers:
            return ",".join(self.headers[0])
        return ",".join(self.columns[key] for key in NEEDED if key in self.columns)


class Names(NamedTuple):
    """What one file calls the keys of a request, which of them it must have, and the unit of its times."""

    columns: Mapping[str, str]
    needed: tuple[str, ...]
    unit: str


def names_of(layout: Layout, columns: Mapping[str, str], unit: str | None, found: tuple[str, ...] | None) -> Names:
    """``columns`` and ``unit`` are what the scenario says; ``found`` the names in the file, where they are known."""
    named = {key: columns.get(key, layout.columns.get(key, key)) for key in KEYS
             if key in columns or key in layout.columns or layout.generic}  # fmt: skip
    if layout.generic and "arrival" not in columns and found is not None and named["arrival"] not in found:
        named["arrival"] = next((f"arrival_{u}" for u in UNITS if f"arrival_{u}" in found), named["arrival"])
    needed = tuple(key for key in KEYS if key in columns or (key in NEEDED and (layout.timed or key != "arrival")))
    arrival = named.get("arrival", "")
    there = found is None or arrival in found
    return Names(named, needed, _unit(layout, arrival, unit, there=there))


def _unit(layout: Layout, arrival: str, unit: str | None, *, there: bool) -> str:
    """``there``: whether the file has such a column; that it lacks it is said elsewhere."""
    if unit is not None and (layout.unit == ISO) != (unit == ISO) and not layout.generic:
        raise ScenarioError(f"workload.trace.unit = {show(unit)}: its times are {_kind(layout.unit)}; leave it out")
    suffix = next((u for u in UNITS if arrival.endswith(f"_{u}")), None)
    known = unit or layout.unit or suffix or (None if there else "s")
    if known is None:
        raise ScenarioError(
            f"workload.trace.unit: missing; the unit of {show(arrival)} is one of {', '.join((*UNITS, ISO))}"
        )
    return known


def _kind(unit: str | None) -> str:
    return "timestamps" if unit == ISO else "numbers"
