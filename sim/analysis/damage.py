"""Tools for damaging a result JSON in memory so that what is near the damage still agrees with it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sim.analysis.claims import COUNTS, TIMES
from sim.clock import NS_PER_MS
from sim.errors import ResultError
from sim.record import json_form
from sim.record.json_read import runs_of, scenario_of, scenarios_of_run, strict_json, workload_of
from sim.record.json_shape import shaped
from sim.record.result import Result
from sim.request import NEVER
from sim.workload.build import plan_of

Json = dict[str, Any]


class NothingToDamageError(Exception):
    """This run has no place for this fault."""


@dataclass(frozen=True)
class Damaged:
    """A copy of a document, and the run in it that a fault is put into."""

    document: Json
    place: int

    @property
    def run(self) -> Json:
        run: Json = self.document["runs"][self.place]
        return run

    @property
    def events(self) -> list[Json]:
        events: list[Json] = self.run["events"]
        return events

    @property
    def requests(self) -> list[Json]:
        requests: list[Json] = self.run["requests"]
        return requests

    def cost_ms(self, name: str) -> Decimal:
        """A cost of the linear device; there is nothing to damage where the device is another."""
        if self.run["settings"]["device.cost"] != "linear":
            raise NothingToDamageError
        return number(self.run["settings"][f"device.{name}"])

    def finished(self) -> Iterator[Json]:
        return (row for row in self.requests if row["status"] == "finished")

    def items(self, phase: str) -> Iterator[tuple[Json, Json]]:
        """``(event, item)`` for all that was scheduled in this phase."""
        return ((event, item) for event in self.events for item in event["scheduled"] if item["phase"] == phase)

    def rebuild(self) -> None:
        """Let every token, metric and figure follow from the events again, so that no naive check sees anything."""
        for number, event in enumerate(self.events):
            event["job"] = number
        try:
            result = runs_of(self.document)[self.place]
        except ResultError:
            return  # the damage is such that nothing follows from the events any more
        for index, row in enumerate(self.requests):
            _rewrite(row, result, index)
        self.run["summary"] = strict_json("".join(json_form.text(json_form.summary(result.summary))).encode())

    def sign(self) -> None:
        """Let the digest of the workload be that of the requests as they stand now."""
        read = shaped(self.document)
        run = read.runs[self.place]
        scenario = scenarios_of_run(scenario_of(read.scenario), run.name, run.policy)[0]
        workload = workload_of(run, scenario)
        plan = workload if workload.sending is None else plan_of(scenario, workload)
        self.document["provenance"]["workloadSha256"] = plan.sha256()

    def asked(self, index: int) -> Json:
        """The request in the scenario."""
        asked = self.document["scenario"]["workload"].get("requests")
        if asked is None:
            raise NothingToDamageError
        request: Json = asked[index]
        return request


def _rewrite(row: Json, result: Result, index: int) -> None:
    columns = result.requests
    for name in TIMES:
        value = int(columns[f"{name}_ns"][index])
        row[_camel(f"{name}_ms")] = None if value == NEVER else ms(max(value, 0))
    for name in COUNTS:
        row[_camel(name)] = int(columns[name][index])
    times = [ms(ns) for ns in result.timeline.token_times(index).tolist()]
    row["tokenTimesMs"] = times
    if row["status"] == "finished" and times:
        row["endedMs"] = times[-1]


def ms(ns: int) -> Decimal:
    """Whole ns as the decimal that stands in the file."""
    return Decimal(ns) / NS_PER_MS


def number(value: Any) -> Decimal:
    """A number of the file as a decimal."""
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


NS = ms(1)


def pick(found: Iterator[Any]) -> Any:
    """The first, if there is one."""
    for one in found:
        return one
    raise NothingToDamageError


def shift(events: list[Json], by: Decimal, keys: tuple[str, ...] = ("startMs", "endMs")) -> None:
    """These jobs, later by so much."""
    for event in events:
        for key in keys:
            event[key] = number(event[key]) + by


def duration(event: Mapping[str, Any]) -> Decimal:
    return number(event["endMs"]) - number(event["startMs"])


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
