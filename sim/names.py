"""The names that a scenario may use and that its schema can't know: those of the tables, with what others added."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from sim.classes import LAWS
from sim.own_keys import OpenTable
from sim.policies.orders import ORDERS
from sim.policies.predictors import PREDICTORS
from sim.policies.presets import COMPOSITIONS, PRESETS, Choice
from sim.policies.victims import VICTIMS
from sim.registry import Registry, Source
from sim.scenario import Scenario
from sim.show import show
from sim.workload.trace_formats import AUTO, FORMATS

TABLES: Mapping[str, Registry[Any]] = MappingProxyType(
    {
        "policy": PRESETS,
        "composition": COMPOSITIONS,
        "order": ORDERS,
        "predictor": PREDICTORS,
        "victim": VICTIMS,
        "format": FORMATS,
    }
)
BEFORE: Mapping[str, tuple[str, ...]] = MappingProxyType({"victim": ("auto",)})
BEHIND: Mapping[str, tuple[str, ...]] = MappingProxyType({"format": (AUTO,)})


@dataclass(frozen=True)
class Names(Collection[str]):
    """Those of one kind, as they are whenever somebody looks."""

    kind: str

    def __iter__(self) -> Iterator[str]:
        yield from BEFORE.get(self.kind, ())
        yield from TABLES[self.kind]
        yield from BEHIND.get(self.kind, ())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in TABLES[self.kind] or name in (*BEFORE.get(self.kind, ()), *BEHIND.get(self.kind, ()))


def known() -> Mapping[str, Collection[str]]:
    """By kind, as :func:`sim.scenario.load` wants them."""
    return {kind: Names(kind) for kind in TABLES}


class Brought(NamedTuple):
    """Something of somebody's own that a run uses."""

    kind: str
    name: str
    source: Source

    def __str__(self) -> str:
        return f"{self.kind} {show(self.name)} of {self.source.at()}"


def brought(scenario: Scenario, choice: Choice) -> list[Brought]:
    """What a run uses that is not Headway's own."""
    axes, kv = choice
    trace = scenario.workload.trace
    named = {
        "policy": scenario.scheduler.policy,
        "composition": axes.composition,
        "order": axes.order,
        "predictor": axes.predictor,
        "victim": "auto" if kv is None else kv.victim,
        "format": AUTO if trace is None else trace.format,
    }
    used = [(TABLES[kind], name) for kind, name in named.items()]
    used += [(table.rows, getattr(table, table.names_by)) for table in _open_tables(scenario)]
    found = [Brought(table.kind, name, source) for table, name in used if (source := table.source(name)) is not None]
    return list(dict.fromkeys(found))


def _open_tables(scenario: Scenario) -> list[OpenTable]:
    workload = scenario.workload
    laws = [getattr(each, name) for each in (workload, *(workload.classes or ())) for name in LAWS]
    return [scenario.device, *(table for table in laws if isinstance(table, OpenTable))]


def files_of(several: Iterable[Brought]) -> list[dict[str, str | None]]:
    """The files that these came from, each once, as the provenance of a result has them."""
    files = {(each.source.name, each.source.sha256) for each in several}
    return [{"file": name, "sha256": digest} for name, digest in sorted(files, key=str)]
