"""What theory says of a scenario beside what it does, over independent replications."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sim.analysis.theory.applicable import Refusal, applicable, unknown_server
from sim.analysis.theory.claims import Finding, Replications, Sample
from sim.analysis.theory.facts import MS_PER_S, DoesNotApply, Facts
from sim.analysis.theory.load import Load, of_laws, of_result
from sim.errors import ScenarioError
from sim.policies.presets import resolve
from sim.record.result import Result
from sim.scenario import Scenario
from sim.simulation import settings, simulate

DEFAULT_REPLICATIONS = 8
MOST_REPLICATIONS = 10_000
SECONDS_PER_REQUEST = 100e-6
"""About what a request takes to be simulated."""


@dataclass(frozen=True)
class Report:
    """``replications`` were run, with as many seeds from ``run.seed`` on; ``requests`` in each, where that is known."""

    scenario: Scenario
    replications: int
    requests: int | None
    findings: Sequence[Finding]
    refusals: Sequence[Refusal]
    load: Load

    @property
    def differs(self) -> bool:
        return any(finding.verdict == "differs" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The JSON of ``theory``."""
        return {
            "scenario": self.scenario.name,
            "policy": self.scenario.scheduler.policy,
            "replications": self.replications,
            "requests": self.requests,
            "seed": self.scenario.run.seed,
            "arrivalRatePerS": self.load.arrival_rate,
            "saturationRatePerS": self.load.saturation_rate,
            "load": self.load.load,
            "results": [
                {
                    "name": finding.name,
                    "unit": finding.unit,
                    "theory": finding.theory,
                    "simulated": finding.simulated,
                    "standardError": finding.standard_error,
                    "errorPercent": finding.error_percent,
                    "verdict": finding.verdict,
                }
                for finding in self.findings
            ],
            "notApplicable": [{"name": refusal.name, "why": refusal.why} for refusal in self.refusals],
        }


def checked(replications: int, requests: int | None) -> int:
    """The number of replications. ``ScenarioError``: none at all, or more than anybody can wait for."""
    if replications < 1:
        raise ScenarioError(f"--replications {replications}: too small; at least 1")
    if replications > MOST_REPLICATIONS:
        hours = replications * (requests or 0) * SECONDS_PER_REQUEST / 3600
        time = f" ({hours:,.1f} hours for {requests:,} requests each)" if requests else ""
        raise ScenarioError(f"--replications {replications}: too large{time}; at most {MOST_REPLICATIONS}")
    return replications


def estimate(scenario: Scenario, runs: int) -> str:
    """A warning, if all runs will take more than a minute."""
    seconds = runs * (scenario.workload.stated or 0) * SECONDS_PER_REQUEST
    return f"note: {runs} replications will take about {seconds / 60:,.0f} minutes" if seconds > 60 else ""


def examine(scenario: Scenario, replications: int = DEFAULT_REPLICATIONS) -> Report:
    """Run the scenario with seeds from its own on, and compare. Requests that no law makes are run once."""
    checked(replications, scenario.workload.stated)
    given = scenario.workload.requests is not None or scenario.workload.trace is not None
    runs = 1 if given else replications
    found = applicable(scenario)
    measured = Replications([claim for claims in found.claims.values() for claim in claims])
    load: Load | None = None
    for each in _seeded(scenario, runs):
        result = simulate(each)
        load = load or _load(scenario, result)
        measured.add(Sample(result))
    findings, refusals = [], list(found.refusals)
    for name, claims in found.claims.items():
        of_theory = [finding for claim in claims if (finding := measured.finding(claim)) is not None]
        findings += of_theory
        if not of_theory:
            refusals.append(Refusal(name, claims[0].otherwise))
    return Report(scenario, runs, scenario.workload.stated, findings, refusals, load or Load(None, None))


def _seeded(scenario: Scenario, runs: int) -> Iterator[Scenario]:
    for k in range(runs):
        yield scenario if k == 0 else scenario.with_overrides({"run.seed": scenario.run.seed + k})


def _load(scenario: Scenario, result: Result) -> Load:
    """From the laws, if there are any that are known; else from the requests of the first run."""
    values = settings(scenario, resolve(scenario))
    if unknown_server(scenario) is not None:
        return of_result(result)
    try:
        sources = Facts(scenario).sources
    except DoesNotApply:
        return of_result(result)
    return of_laws(values, [(source.rate * MS_PER_S, source.prompts, source.outputs) for source in sources])
