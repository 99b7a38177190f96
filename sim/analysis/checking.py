"""Every check of a run, by name, and what they are asked of."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from sim.analysis import checks_blocks as blocks
from sim.analysis import checks_jobs as jobs
from sim.analysis import checks_lists as lists
from sim.analysis import checks_order as order
from sim.analysis import checks_origin as origin
from sim.analysis import checks_requests as requests
from sim.analysis import checks_rows as rows
from sim.analysis import checks_sending as sending
from sim.analysis import checks_summary as summary
from sim.analysis import checks_swaps as swaps
from sim.analysis import checks_system as system
from sim.analysis.checks_tables import SOUND as SOUND_TABLES
from sim.analysis.claims import Claims, columns_of
from sim.analysis.course import COUNTED, VICTIM, Course, beyond
from sim.analysis.ends import CourseEnds, Ends
from sim.analysis.facts import Facts
from sim.analysis.findings import Difference, Report
from sim.analysis.stays import Stays
from sim.analysis.timetable import Timetable
from sim.analysis.told_ends import ToldEnds
from sim.errors import ResultError
from sim.policies.presets import KvAxes, resolve
from sim.policies.victims import VICTIMS
from sim.record.again.rules import victim_rule
from sim.record.json_read import contradictions, scenario_of, scenarios_of_run, workload_of
from sim.record.json_shape import Heading, Provenance, Run, shaped
from sim.record.json_tables import read as tables_of
from sim.request import Workload
from sim.scenario import Scenario
from sim.show import escape, show
from sim.simulation import settings
from sim.workload.build import plan_of
from sim.workload.sending import is_sent_by_clients, rows_of

SOUND = {**SOUND_TABLES, **rows.SOUND}

BELONGS = "the run is one of its scenario"
WORKLOAD = "requests are those of the scenario"

MOST_JOBS_AGAIN = 200_000
"""Of a folder's run with more jobs, the decisions are not made again unless that is asked for: it takes too long."""

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
    "tables: chunks have places in their jobs": jobs.chunk_places,
    "jobs take what the device charges": jobs.durations,
    "emitted = output, scheduled = prompt + output - 1": requests.tokens_due,
    "who never fits is rejected, nobody else": requests.turned_away,
    "inter-token gaps sum to last - first token": system.gaps_add_up,
    "busy time is at most the makespan": system.busy_time,
    "like jobs in a row are one row": rows.one_row,
    "like jobs take what the device charges": rows.lines,
    "blocks of like jobs are taken when needed": rows.growths,
    "summary: counts": summary.counts,
    "summary: makespan and rates": summary.rates,
    "summary: distributions": summary.distributions,
    "summary: the pool": summary.pool,
}

FROM_STAYS: Mapping[str, Callable[[Facts, Stays], Iterator[Difference]]] = {
    "what is preempted is what was computed": blocks.losses,
    "what is copied is what was held": swaps.copies,
    "Little's law": system.littles_law,
}

OF_CLIENTS: Mapping[str, Callable[[Facts], Iterator[Difference]]] = {
    "requests are sent when their clients send them": sending.arrivals,
    "clients leave when their patience ends, not before": sending.leaving,
    "who left is sent again, nobody else": sending.attempts,
}
"""Of runs in which requests wait for others, or clients lose patience."""

OF_LIMITS: Mapping[str, Callable[[Facts, Stays, int], Iterator[Difference]]] = {
    "no more run than max_running": jobs.slots,
    "no job schedules more than its budget": jobs.budget,
}

OF_POOL: Mapping[str, Callable[[Facts, Stays, KvAxes], Iterator[Difference]]] = {
    "blocks are conserved": blocks.free_blocks,
    "only whole blocks are found in a cache": blocks.hits,
}

WITHOUT_POOL: Mapping[str, Callable[[Facts], Iterator[Difference]]] = {
    "no KV pool, no blocks": blocks.no_blocks,
    "nothing is cached or lost without a KV pool": requests.without_pool,
}

FROM_COUNTS: Mapping[str, Callable[[Facts, Timetable], Iterator[Difference]]] = {
    "reasons are given where due": requests.reasons,
    "nobody is scheduled who does not run": order.in_place,
    "nobody is overtaken in admission": order.no_overtaking,
    "prompts are computed in order of admission": order.prefill_in_order,
    "jobs start at the earliest moment": jobs.earliest_starts,
    "every decision is that of the policy": jobs.decisions,
    "what kept the head of the queue out is told": jobs.blocked,
    "who waits and runs is counted": jobs.crowd,
    "the record goes to the end": system.to_the_end,
}
"""Of runs in which counts of requests decide everything."""

FROM_ENDS: Mapping[str, Callable[[Facts, Ends], Iterator[Difference]]] = {
    "every request has exactly one status, the right one": requests.statuses,
    "nobody is served before arrival": order.after_arrival,
}


def check_document(document: Mapping[str, Any], report: Report, where: str = "") -> None:
    """Enter all that is to say about a result JSON; ``where`` goes before each place."""
    read = shaped(document)
    base = scenario_of(read.scenario)
    report.run("runs have names of their own", _named_twice([run.name for run in read.runs]), where)
    first: Scenario | None = None
    for place, run in enumerate(read.runs):
        at = f"{where}runs[{place}] {escape(run.name)}, "
        scenario = belonging(run, base, at, report)
        if scenario is None:
            continue
        first = first or scenario
        _check_run(run, scenario, read.provenance if origin.same_load(first, scenario) else None, at, report)


def _named_twice(names: list[str]) -> Iterator[Difference]:
    for place, name in enumerate(names):
        if name in names[:place]:
            yield Difference(f"runs[{place}], name", "another", show(name))


def _check_run(run: Run, scenario: Scenario, provenance: Provenance | None, where: str, report: Report) -> None:
    broken = [(c.rule, Difference(c.where, c.expected, c.found)) for c in contradictions(run, scenario)]
    for rule in dict.fromkeys(rule for rule, _ in broken):
        report.run(rule, (difference for broken_rule, difference in broken if broken_rule == rule), where)
    if not report.run(WORKLOAD, workload_differs(scenario, [row.id for row in run.requests]), where) or broken:
        return
    choice = resolve(scenario)
    workload = workload_of(run, scenario)
    tables = tables_of(run, workload, scenario, choice)
    claims = Claims(
        where=where,
        settings=run.settings,
        scenario=scenario,
        choice=choice,
        asked=origin.plan(scenario, workload),
        provenance=provenance,
        record=tables.record,
        columns=columns_of(run),
        finish_reasons=[row.finish_reason for row in run.requests],
        summary=run.summary,
        run=run,
        pool_known=tables.pool_known,
    )
    check_claims(claims, report)


def belonging(run: Run | Heading, base: Scenario, where: str, report: Report) -> Scenario | None:
    """What the run must have run: of the scenarios that fit its name and policy that with its settings.

    ``ResultError``: it was stopped before its end, so that it is no run of any scenario.
    """
    if run.incomplete is not None:
        raise ResultError(
            f"the run {show(run.name)} is incomplete ({run.incomplete}): only a whole one can be verified"
        )
    candidates = scenarios_of_run(base, run.name, run.policy)
    named = f"name {show(run.name)}, policy {show(run.policy)}"
    report.run(BELONGS, [] if candidates else [Difference(named, "a run of the scenario", "none")], where)

    def differences(scenario: Scenario) -> int:
        due = settings(scenario, resolve(scenario))
        return sum(1 for _ in origin.compare_settings(due, run.settings))

    return min(candidates, key=differences, default=None)


def workload_differs(scenario: Scenario, ids: Sequence[str]) -> list[Difference]:
    """A record with more or fewer requests than its scenario states can't be compared with it one by one."""
    stated, trace = scenario.workload.stated, scenario.workload.trace
    if trace is not None and not ids and not trace.allow_empty:
        return [Difference("requests", "at least 1", 0)]
    if stated is None and is_sent_by_clients(scenario.workload):
        none = np.zeros(len(ids), dtype=np.int64)
        shown = replace(Workload.of(none, none, none), ids=list(ids))
        stated = len(rows_of(plan_of(scenario, shown), ids))
    if stated is None or stated == len(ids):
        return []
    return [Difference("requests", stated, len(ids))]


def check_claims(claims: Claims, report: Report) -> None:
    """Every check that the claims allow. ``ResultError``: a plug-in is another than the one that it was made with."""
    where = claims.where
    others = list(origin.other_plugins(claims))
    if others:
        raise ResultError(*others)
    sound = all(report.run(name, check(claims), where) for name, check in SOUND.items())
    for name, check in ORIGIN.items():
        report.run(name, check(claims), where)
    if not sound:
        return
    facts = Facts(claims)
    stays = Stays(facts)
    checks: dict[str, Iterable[Difference]] = {
        **{name: check(facts) for name, check in FROM_TABLES.items()},
        **{name: check(facts, stays) for name, check in FROM_STAYS.items()},
        **_where_it_applies(facts, stays),
        "tables: emissions are marked": jobs.emission_marks(facts),
        "nobody is admitted twice": order.admitted_once(facts),
    }
    if facts.workload.sending is not None:
        checks |= {name: check(facts) for name, check in OF_CLIENTS.items()}
    if claims.run is not None:
        checks["tokens leave at the ends of their jobs"] = lists.token_times(facts, claims.run)
    checks |= _of_decisions(facts, stays, report)
    for name, differences in checks.items():
        report.run(name, differences, where)


def _of_decisions(facts: Facts, stays: Stays, report: Report) -> dict[str, Iterable[Difference]]:
    """What can be said of who goes first: all of it, but where only a plug-in knows its rule, or it takes too long."""
    claims = facts.claims
    if claims.plain:
        return _plain(facts)
    again, own = f"{claims.where}every decision is made again", beyond(claims)
    if own is not None:
        report.left_out.append(f"{again}: {own} is a plug-in's, whose rule only it knows")
        return _not_decided_again(facts, stays)
    if claims.run is None and facts.jobs > MOST_JOBS_AGAIN and not report.every_decision:
        report.left_out.append(f"{again}: {facts.jobs:,} jobs; {_limit()}")
        return _not_decided_again(facts, stays)
    rule = victim_rule(claims.axes, claims.kv)
    if VICTIMS.source(rule) is not None:
        report.left_out.append(f"{claims.where}{VICTIM}: victim {show(rule)} is a plug-in's, whose rule only it knows")
    return _decided_again(facts, stays)


def _where_it_applies(facts: Facts, stays: Stays) -> dict[str, Iterable[Difference]]:
    """What is asked of limits that there are, of a pool, or of a run without one."""
    axes, kv = facts.claims.choice
    limits = (axes.max_running, axes.limits.token_budget)
    checks: dict[str, Iterable[Difference]] = {
        name: check(facts, stays, most)
        for most, (name, check) in zip(limits, OF_LIMITS.items(), strict=True)
        if most is not None
    }
    if kv is None:
        return checks | {name: check(facts) for name, check in WITHOUT_POOL.items()}
    return checks | {name: check(facts, stays, kv) for name, check in OF_POOL.items()}


def _plain(facts: Facts) -> dict[str, Iterable[Difference]]:
    """What only counts of requests decide."""
    timetable, run = Timetable(facts), facts.claims.run
    checks: dict[str, Iterable[Difference]] = {
        **{name: check(facts, timetable) for name, check in FROM_COUNTS.items()},
        **_of_ends(facts, timetable),
    }
    if run is None:
        checks["tables: comings and goings"] = requests.comings_and_goings(facts, timetable)
    else:
        checks["who waits and runs is listed"] = lists.lists(facts, timetable, run)
        checks["jobs schedule in the order of those who run"] = lists.scheduling_order(run)
    return checks


def _decided_again(facts: Facts, stays: Stays) -> dict[str, Iterable[Difference]]:
    """Every other run is decided again. What each request came to is known when that goes to the end."""
    course = Course(facts, facts.claims.run)
    checks: dict[str, Iterable[Difference]] = {**course.found}
    checks["nobody is scheduled who does not run"] = order.in_stay(facts, stays)
    if course.ends is None:
        return checks
    ends = CourseEnds(course.ends)
    checks |= _of_ends(facts, ends)
    checks["reasons are given where due"] = requests.reasons_differ(facts, ends.reasons)
    if facts.claims.run is None:
        checks["tables: comings and goings"] = chain(
            requests.jobs_differ(facts, "arrived_job", ends.arrived_job),
            requests.jobs_differ(facts, "ended_job", ends.ended_job),
        )
    return checks


def _limit() -> str:
    return f"at most {MOST_JOBS_AGAIN:,}, or --decisions"


def _not_decided_again(facts: Facts, stays: Stays) -> dict[str, Iterable[Difference]]:
    """What each request came to is what the record says, as far as that can be."""
    ends = ToldEnds(facts)
    return {
        "nobody is scheduled who does not run": order.in_stay(facts, stays),
        "how each request ended can be": ends.differences(),
        COUNTED: jobs.crowd_in_stays(facts, stays),
        "nobody is served before arrival": order.after_arrival(facts, ends),
        **_metrics(facts, ends),
    }


def _of_ends(facts: Facts, ends: Ends) -> dict[str, Iterable[Difference]]:
    return {
        **{name: check(facts, ends) for name, check in FROM_ENDS.items()},
        **_metrics(facts, ends),
    }


def _metrics(facts: Facts, ends: Ends) -> dict[str, Iterable[Difference]]:
    return {name: requests.columns(facts, ends, columns) for name, columns in requests.METRICS.items()}
