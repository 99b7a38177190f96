"""One scenario, several runs side by side: which policies or variants, under which names, in which order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sim.engine.monitor import Monitor
from sim.errors import LimitError, ScenarioError
from sim.policies.admission import NeverFits
from sim.policies.oddities import oddities
from sim.policies.presets import PRESETS, resolve
from sim.record.result import Result
from sim.request import NEVER, Ints, Request, Status, Workload
from sim.scenario import Scenario
from sim.show import escape, shorten, show
from sim.simulation import simulate
from sim.spelling import nearest
from sim.workload.build import build
from sim.workload.measured import measure
from sim.workload.told import rates_asked, text_of_asked, text_of_measured, what_arrives

BOTH = ("fcfs", "chunked")
"""What ``--policy both`` means: the lesson's pair."""


@dataclass(frozen=True)
class Plan:
    """One run to come. ``base`` is the scenario as it was read; ``scenario`` is what runs."""

    name: str
    base: Scenario
    scenario: Scenario

    def run(self, monitors: Sequence[Monitor] = (), *, check: bool = False) -> Result:
        """``LimitError`` has the incomplete result, if there is one."""
        try:
            return self._named(simulate(self.scenario, check=check, monitors=monitors))
        except LimitError as error:
            error.result = None if error.result is None else self._named(error.result)
            raise

    def _named(self, result: Result) -> Result:
        resolved = dict(result.resolved)
        if self.name != result.policy:
            resolved["run"] = {**resolved["run"], "variants": [{"name": self.name, "set": {}}]}
        return replace(result, name=self.name, scenario=self.base.document, resolved=resolved)

    @property
    def hindrance(self) -> str | None:
        """Why this policy can't run this scenario, or None."""
        try:
            resolve(self.scenario)
        except ScenarioError as error:
            return str(error)
        return None

    def rejections(self) -> list[str]:
        """Why requests of this run can never be served, a line each, before anything runs."""
        workload, _ = build(self.scenario)
        choice = resolve(self.scenario)
        why = NeverFits(*choice, crashes=any(fault.kind == "crash" for fault in self.scenario.faults))
        once = None if workload.sending is None else np.flatnonzero(workload.sending.attempt == 0)
        reasons = ((spec.id, why(Request(spec, choice.axes.max_model_tokens))) for spec in workload.specs(once))
        return [f"{self.name}: request {show(id_)}: {reason}" for id_, reason in reasons if reason is not None]


def notes(plans: Sequence[Plan]) -> Iterator[str]:
    """What is legal and yet odd, a line each: settings that a run does not use, or that get in each other's way."""
    runs_with: dict[str, list[str]] = {}
    for each in plans:
        for oddity in oddities(each.scenario):
            runs_with.setdefault(oddity, []).append(each.name)
    for oddity, runs in runs_with.items():
        yield f"{oddity} {', '.join(runs)}"


def plan(scenario: Scenario, policies: str | None = None, variants: Sequence[str] = ()) -> list[Plan]:
    """The runs of ``scenario``: of the policies asked for, else of the variants named, else of what the file lists.

    ``policies`` is a comma-separated list of names, ``both`` or ``all``.
    """
    if policies is not None and variants:
        raise ScenarioError("--policy and --variant: only one of them; a variant sets its own policy")
    if policies == "all":
        return [plan for plan in (_of_policy(scenario, name) for name in PRESETS) if plan.hindrance is None]
    if policies is not None:
        return [_of_policy(scenario, name) for name in _names(policies)]
    if variants or scenario.run.variants:
        names = variants or [variant.name for variant in scenario.run.variants or ()]
        return [Plan(name, scenario, scenario.variant(name)) for name in names]
    return [_of_policy(scenario, name) for name in scenario.policies]


def remarks(results: Sequence[Result]) -> Iterator[str]:
    """What whoever reads these results should not overlook, a line each."""
    yield from dict.fromkeys(f"the trace: {note}" for result in results for note in result.record.workload.notes)
    for result in results:
        requests = result.requests
        if not len(requests["status"]):
            yield f"{result.name}: there are no requests, nothing ran"
        elif (requests["status"] == Status.REJECTED).all():
            yield f"{result.name}: every request was rejected, nothing ran"
        elif (requests["status"] == Status.CANCELLED).all() and (requests["arrived_job"] == NEVER).all():
            yield f"{result.name}: every request was cancelled before it arrived, nothing ran"
        elif (requests["arrived_job"] == NEVER).all():
            yield f"{result.name}: no request had arrived by the horizon, nothing ran"


def loads(plans: Sequence[Plan], results: Sequence[Result]) -> Iterator[str]:
    """What each generated load was asked to be and what came, a line for each. Of sessions, it is about first turns."""
    runs_of: dict[str, list[tuple[Plan, Result]]] = {}
    for plan_, result in zip(plans, results, strict=False):
        if rates_asked(plan_.scenario.workload):
            runs_of.setdefault(result.provenance["workloadSha256"], []).append((plan_, result))
    for runs in runs_of.values():
        plan_, result = runs[0]
        whose = f" of {', '.join(plan_.name for plan_, _ in runs)}" if len(runs_of) > 1 else ""
        workload = plan_.scenario.workload
        asked = text_of_asked(workload)
        came = text_of_measured(measure(_by_themselves_ns(result.record.workload)), what_arrives(workload))
        yield f"load{whose}: asked {asked}; came {came}"


def _by_themselves_ns(workload: Workload) -> Ints:
    """When those arrived that no other request brought: no later turn, no second attempt."""
    sending = workload.sending
    arrival_ns: Ints = workload.arrival_ns if sending is None else workload.arrival_ns[sending.after == NEVER]
    sent: Ints = arrival_ns[arrival_ns != NEVER]
    return sent


def skipped(scenario: Scenario) -> Iterator[str]:
    """The policies that ``all`` leaves out, a line each."""
    for name in PRESETS:
        hindrance = _of_policy(scenario, name).hindrance
        if hindrance is not None:
            yield f"{name} is skipped: {hindrance}"


def _of_policy(scenario: Scenario, name: str) -> Plan:
    changes: dict[str, object] = {"scheduler.policy": name}
    return Plan(name, scenario, scenario.with_overrides(changes))


def _names(policies: str) -> Sequence[str]:
    given = f"--policy {escape(shorten(policies))}"
    if policies == "both":
        return BOTH
    names = policies.split(",")
    for name in names:
        if name in {"both", "all"}:
            raise ScenarioError(f"{given}: {name} stands alone, not in a list")
        if name not in PRESETS:
            known = (*PRESETS, "both", "all")
            allowed = f"one of {', '.join(known)}{nearest(name, known)}"
            raise ScenarioError(f"{given}: no policy '{escape(shorten(name))}'; {allowed}")
    if len(set(names)) < len(names):
        raise ScenarioError(f"{given}: a policy is named twice; each at most once")
    return names
