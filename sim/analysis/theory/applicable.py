"""Which theories apply to a scenario, and why the others do not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from sim.analysis.theory import shared, single_slot
from sim.analysis.theory.claims import Claim
from sim.analysis.theory.facts import DoesNotApply, Facts, Theory
from sim.names import brought
from sim.policies.presets import resolve
from sim.scenario import Scenario

THEORIES: Mapping[str, Theory] = MappingProxyType(
    {
        "Lindley": single_slot.one_by_one,
        "M/D/1": single_slot.constant_service,
        "M/G/1": single_slot.any_service,
        "priorities": single_slot.priorities,
        "shortest job first": single_slot.shortest_first,
        "conservation law": single_slot.conservation,
        "G/M/1": single_slot.exponential_service,
        "Kingman": single_slot.bound_by_variances,
        "closed loop": single_slot.users_in_a_loop,
        "constant steps": shared.steps_of_one_length,
        "bulk service": shared.slots_for_a_few,
        "processor sharing": shared.shared_steps,
        "mean field": shared.mean_field,
        "a batch at once": shared.batch_at_once,
        "lone requests": shared.lone_requests,
        "response-time law": shared.response_time_law,
        "saturation": shared.least_work,
    }
)


class Refusal(NamedTuple):
    """A theory that does not apply, and why not."""

    name: str
    why: str


@dataclass(frozen=True)
class Applicability:
    """``claims`` of the theories that apply, by theory; ``refusals`` of the others."""

    claims: Mapping[str, Sequence[Claim]]
    refusals: Sequence[Refusal]


def applicable(scenario: Scenario) -> Applicability:
    """Every theory stands in exactly one of the two lists, but for what only the runs can tell."""
    if (own := unknown_server(scenario)) is not None:
        return Applicability({}, [Refusal(name, own) for name in THEORIES])
    facts = Facts(scenario)
    claims: dict[str, Sequence[Claim]] = {}
    refusals = []
    for name, theory in THEORIES.items():
        made: list[Claim] = []
        try:
            for claim in theory(facts):
                made.append(claim)  # noqa: PERF402  # what holds whatever comes after it stays
        except DoesNotApply as why:
            if not made:
                refusals.append(Refusal(name, str(why)))
        claims |= {name: made} if made else {}
    return Applicability(claims, refusals)


def unknown_server(scenario: Scenario) -> str | None:
    """Why nothing is known of a server: somebody else wrote what a job costs, or what goes into one. None: we did."""
    for each in brought(scenario, resolve(scenario)):
        if each.kind in {"cost", "composition"}:
            return f"{each.kind} {each.name} is a plug-in's: what it does is not known here"
    return None
