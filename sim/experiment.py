"""One scenario, several runs side by side: which policies or variants, under which names, in which order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sim.engine.scheduler import Monitor
from sim.errors import ScenarioError
from sim.policies.presets import PRESETS, unused
from sim.record.result import Result
from sim.scenario import Scenario
from sim.simulate import simulate
from sim.spelling import nearest

BOTH = ("fcfs", "chunked")
"""What ``--policy both`` means: the lesson's pair."""


@dataclass(frozen=True)
class Plan:
    """One run to come. ``base`` is the scenario as it was read; ``scenario`` is what runs."""

    name: str
    base: Scenario
    scenario: Scenario

    def run(self, monitors: Sequence[Monitor] = ()) -> Result:
        result = simulate(self.scenario, monitors=monitors)
        resolved = dict(result.resolved)
        if self.name != result.policy:
            resolved["run"] = {**resolved["run"], "variants": [{"name": self.name, "set": {}}]}
        return replace(result, name=self.name, scenario=self.base.document, resolved=resolved)

    def notes(self) -> Iterator[str]:
        """What the scenario writes and this run does not use."""
        scheduler = self.scenario.scheduler
        for name in unused(scheduler.policy, scheduler):
            yield f"scheduler.{name} is not used by {self.name}"


def plan(scenario: Scenario, policies: str | None = None, variants: Sequence[str] = ()) -> list[Plan]:
    """The runs of ``scenario``: of the policies asked for, else of the variants named, else of what the file lists.

    ``policies`` is a comma-separated list of names, ``both`` or ``all``.
    """
    if policies is not None and variants:
        raise ScenarioError("--policy and --variant: only one of them; a variant sets its own policy")
    if policies is not None:
        return [_of_policy(scenario, name) for name in _names(policies)]
    if variants or scenario.run.variants:
        names = variants or [variant.name for variant in scenario.run.variants or ()]
        return [Plan(name, scenario, scenario.variant(name)) for name in names]
    return [_of_policy(scenario, name) for name in scenario.policies]


def _of_policy(scenario: Scenario, name: str) -> Plan:
    changes: dict[str, object] = {"scheduler.policy": name}
    return Plan(name, scenario, scenario.with_overrides(changes))


def _names(policies: str) -> Sequence[str]:
    special = {"both": BOTH, "all": tuple(PRESETS)}
    if policies in special:
        return special[policies]
    names = policies.split(",")
    for name in names:
        if name not in PRESETS:
            known = (*PRESETS, *special)
            allowed = f"one of {', '.join(known)}{nearest(name, known)}"
            raise ScenarioError(f"--policy {policies}: no policy {name!r}; {allowed}")
    if len(set(names)) < len(names):
        raise ScenarioError(f"--policy {policies}: a policy is named twice; each at most once")
    return names
