"""Every check of a run, by name, and what they are asked of."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sim.analysis import checks_jobs as jobs
from sim.analysis import checks_lists as lists
from sim.analysis import checks_order as order
from sim.analysis import checks_origin as origin
from sim.analysis import checks_requests as requests
from sim.analysis import checks_summary as summary
from sim.analysis import checks_system as system
from sim.analysis.checks_tables import SOUND
from sim.analysis.claims import Claims, columns_of
from sim.analysis.facts import Facts
from sim.analysis.findings import Difference, Report
from sim.analysis.timetable import Timetable
from sim.policies.presets import resolve
from sim.record.json_read import contradictions, scenario_of, scenarios_of_run, workload_of
from sim.record.json_shape import Heading, Provenance, Run, shaped
from sim.record.json_tables import record_of
from sim.scenario import Scenario
from sim.show import escape, show
from sim.simulate import settings

BELONGS = "the run is one of its scenario"
WORKLOAD = "requests are those of the scenario"

ORIGIN: Mapping[str, Callable[[Claims], Iterator[Difference]]] = {
    "settings are those of scenario and policy": origin.settings_differ,
    "provenance is that of the scenario": origin.provenance,
    WORKLOAD: origin.asked_for,
}

FROM_TABLES: Mapping[str, Callable[[Facts], Iterator[Difference]]] = {
    "every job has work": jobs.no_empty_job,
    "a job's work is what it schedules": jobs.work_adds_up,
    "a job's kind follows from its work": jobs.kinds,
    "no token before its prefill is complete": jobs.decodes_after_prefill,
    "prompts are cut as the policy says": jobs.chunk_sizes,
    "no more run than max_running": jobs.slots,
    "tables: chunks have places in their jobs": jobs.chunk_places,
    "jobs take what the device charges": jobs.durations,
    "emitted = output, scheduled = prompt + output - 1": requests.tokens_due,
    "tables: nothing is cached or lost without a KV pool": requests.without_pool,
    "inter-token gaps sum to last - first token": system.gaps_add_up,
    "busy time is at most the makespan": system.busy_time,
    "summary: counts": summary.counts,
    "summary: makespan and rates": summary.rates,
    "summary: distributions": summary.distributions,
}

FROM_TIMETABLE: Mapping[str, Callable[[Facts, Timetable], Iterator[Difference]]] = {
    "every request has exactly one status, the right one": requests.statuses,
    "reasons are given where due": requests.reasons,
    "nobody is served before arrival": order.after_arrival,
    "nobody is scheduled who does not run": order.in_place,
    "nobody is overtaken in admission": order.no_overtaking,
    "prompts are computed in order of admission": order.prefill_in_order,
    "jobs start at the earliest moment": jobs.earliest_starts,
    "every decision is that of the policy": jobs.decisions,
    "who waits and runs is counted": jobs.crowd,
    "Little's law": system.littles_law,
    "the record goes to the end": system.to_the_end,
}


def check_document(document: Mapping[str, Any], report: Report, where: str = "") -> None:
    """Enter all that is to say about a result JSON; ``where`` goes before each place."""
    read = shaped(document)
    base = scenario_of(read.scenario)
    report.run("runs have names of their own", _named_twice([run.name for run in read.runs]), where)
    for place, run in enumerate(read.runs):
        _check_run(run, base, read.provenance, f"{where}runs[{place}] {escape(run.name)}, ", report)


def _named_twice(names: list[str]) -> Iterator[Difference]:
    for place, name in enumerate(names):
        if name in names[:place]:
            yield Difference(f"runs[{place}], name", "another", show(name))


def _check_run(run: Run, base: Scenario, provenance: Provenance, where: str, report: Report) -> None:
    scenario = belonging(run, base, where, report)
    if scenario is None:
        return
    broken = [(c.rule, Difference(c.where, c.expected, c.found)) for c in contradictions(run)]
    for rule in dict.fromkeys(rule for rule, _ in broken):
        report.run(rule, (difference for broken_rule, difference in broken if broken_rule == rule), where)
    if not report.run(WORKLOAD, workload_differs(scenario, len(run.requests)), where) or broken:
        return
    claims = Claims(
        where=where,
        settings=run.settings,
        scenario=scenario,
        axes=resolve(scenario.scheduler.policy, scenario.scheduler),
        asked=origin.asked(scenario),
        provenance=provenance,
        record=record_of(run, workload_of(run, scenario)),
        columns=columns_of(run),
        finish_reasons=[row.finish_reason for row in run.requests],
        summary=run.summary,
        run=run,
    )
    check_claims(claims, report)


def belonging(run: Run | Heading, base: Scenario, where: str, report: Report) -> Scenario | None:
    """What the run must have run: of the scenarios that fit its name and policy that with its settings."""
    candidates = scenarios_of_run(base, run.name, run.policy)
    named = f"name {show(run.name)}, policy {show(run.policy)}"
    report.run(BELONGS, [] if candidates else [Difference(named, "a run of the scenario", "none")], where)

    def differences(scenario: Scenario) -> int:
        due = settings(scenario, resolve(scenario.scheduler.policy, scenario.scheduler))
        return sum(1 for _ in origin.compare_settings(due, run.settings))

    return min(candidates, key=differences, default=None)


def workload_differs(scenario: Scenario, requests_found: int) -> list[Difference]:
    """A record with more or fewer requests than its scenario states can't be compared with it one by one."""
    stated = scenario.workload.requests
    if stated is None or len(stated) == requests_found:
        return []
    return [Difference("requests", len(stated), requests_found)]


def check_claims(claims: Claims, report: Report) -> None:
    """Every check that the claims allow."""
    where = claims.where
    sound = all(report.run(name, check(claims), where) for name, check in SOUND.items())
    for name, check in ORIGIN.items():
        report.run(name, check(claims), where)
    if not sound:
        return
    facts = Facts(claims)
    timetable = Timetable(facts)
    checks: dict[str, Iterable[Difference]] = {
        **{name: check(facts) for name, check in FROM_TABLES.items()},
        **{name: check(facts, timetable) for name, check in FROM_TIMETABLE.items()},
        **{name: requests.columns(facts, timetable, columns) for name, columns in requests.METRICS.items()},
        "nobody is admitted twice": order.admitted_once(facts),
        "tables: emissions are marked": jobs.emission_marks(facts),
    }
    if claims.run is None:
        checks["tables: comings and goings"] = requests.comings_and_goings(facts, timetable)
    else:
        checks |= {
            "tokens leave at the ends of their jobs": lists.token_times(facts, claims.run),
            "who waits and runs is listed": lists.lists(facts, timetable, claims.run),
            "jobs schedule in the order of those who run": lists.scheduling_order(claims.run),
            "no KV pool, no blocks": lists.without_pool(claims.run),
        }
    for name, differences in checks.items():
        report.run(name, differences, where)
