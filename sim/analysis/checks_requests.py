"""Does what is claimed of each request follow from the tables: how it ended, its tokens, its times?"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from sim.analysis.checks_tables import time
from sim.analysis.claims import Claims
from sim.analysis.ends import Ends
from sim.analysis.exact import FOREVER
from sim.analysis.facts import Facts
from sim.analysis.findings import Difference, Value
from sim.analysis.tail import cut_off
from sim.analysis.timetable import Timetable
from sim.engine.plan import Loss
from sim.record.again.fits import reason_against
from sim.record.again.orders import gives_way
from sim.record.again.walk import each_request
from sim.request import NEVER, Ints, Status

Column = Callable[[Facts, Ends], Ints]


def statuses(facts: Facts, ends: Ends) -> Iterator[Difference]:
    """Finished if all was emitted, cancelled if its client gave up first, unfinished only at a horizon."""
    due, found = ends.status, facts.record.requests["status"]
    for index in np.flatnonzero(due != found).tolist():
        yield Difference(f"{facts.claims.request(index)}, status", _word(due[index]), _word(found[index]))


def tokens_due(facts: Facts) -> Iterator[Difference]:
    """Finished: all output emitted, and prompt + output - 1 tokens computed once. Otherwise at most that.

    What is computed once is what was scheduled, and what was cached, without what was lost again.
    """
    output, status = facts.whole_output, facts.record.requests["status"]
    finished, rejected = status == Status.FINISHED, status == Status.REJECTED
    wrong = np.where(finished, facts.emitted != output, (facts.emitted >= np.maximum(output, 1)) & ~rejected)
    for index in np.flatnonzero(wrong).tolist():
        due = int(output[index]) if finished[index] else f"below {max(output[index], 1)}"
        yield Difference(f"{facts.claims.request(index)}, emitted tokens", due, int(facts.emitted[index]))
    whole = facts.workload.prompt_tokens + facts.workload.samples * (output - 1)
    owed = np.where(rejected, 0, whole + facts.lost - facts.cached)
    wrong = np.where(finished | rejected, facts.scheduled != owed, facts.scheduled > np.maximum(owed, 0))
    for index in np.flatnonzero(wrong).tolist():
        due = f"at most {owed[index]}" if not (finished[index] or rejected[index]) else int(owed[index])
        yield Difference(f"{facts.claims.request(index)}, scheduled tokens", due, int(facts.scheduled[index]))


def reasons(facts: Facts, timetable: Timetable) -> Iterator[Difference]:
    """Who did not finish says where it was: not arrived, waiting or running. Who finished has a finish reason."""
    running = (facts.admitted_job < timetable.goes) & (facts.admitted_job < FOREVER)
    running[cut_off(facts, timetable).joined] = True
    sent = timetable.sent
    words = ["running" if running[i] else "waiting" if sent[i] else "not arrived" for i in range(facts.requests)]
    finished = facts.record.requests["status"] == Status.FINISHED
    yield from reasons_differ(facts, [None if finished[index] else word for index, word in enumerate(words)])


def reasons_differ(facts: Facts, reasons_due: Sequence[str | None]) -> Iterator[Difference]:
    """The reasons given, and those of finishing: all was emitted, or the model's length cut it short."""
    finished = facts.record.requests["status"] == Status.FINISHED
    cut = facts.whole_output < facts.workload.output_tokens
    for index, due in enumerate(reasons_due):
        found = facts.record.reasons.get(index)
        if due != found:
            yield Difference(f"{facts.claims.request(index)}, reason", due, found)
        why, found = (
            ("length" if cut[index] else "stop") if finished[index] else None,
            facts.claims.finish_reasons[index],
        )
        if why != found:
            yield Difference(f"{facts.claims.request(index)}, finishReason", why, found)


def turned_away(facts: Facts) -> Iterator[Difference]:
    """Who can be served by no state of the system is rejected on arrival, with the arithmetic, and nobody else is."""
    choice, status = facts.claims.choice, facts.record.requests["status"]
    arrived = (facts.record.requests["arrived_job"] != NEVER).tolist()
    rejected, may_crash = (status == Status.REJECTED).tolist(), crashes(facts.claims)
    for req in each_request(facts.workload, facts.claims.axes.max_model_tokens):
        due = reason_against(req, choice, crashes=may_crash) if arrived[req.index] else None
        found = facts.record.reasons.get(req.index) if rejected[req.index] else None
        if due != found:
            yield Difference(f"{facts.claims.request(req.index)}, rejected", due or "no", found or "no")


def comings_and_goings(facts: Facts, timetable: Timetable) -> Iterator[Difference]:
    """Between which jobs each request came and went, as the table of requests has it."""
    gone = (timetable.gone_ns < FOREVER) & (timetable.status != Status.UNFINISHED)
    for name, there, due in (
        ("arrived_job", timetable.sent, timetable.arrives),
        ("ended_job", gone, timetable.goes),
    ):
        due_job = np.where(there, due, NEVER)
        yield from jobs_differ(facts, name, due_job)


def jobs_differ(facts: Facts, name: str, due_job: Ints) -> Iterator[Difference]:
    """A column of jobs in the table of requests."""
    found = facts.record.requests[name]
    for index in np.flatnonzero(due_job != found).tolist():
        yield Difference(f"{facts.claims.request(index)}, {name}", _place(due_job[index]), _place(found[index]))


def without_pool(facts: Facts) -> Iterator[Difference]:
    """Without a KV pool there is nothing that could be cached, and lost only in a crash or to who is more urgent."""
    admissions, preemptions = facts.record.admissions, facts.record.preemptions
    may_crash, may_give_way = crashes(facts.claims), gives_way(facts.claims.axes)
    for row in np.flatnonzero(admissions["cached_tokens"] != 0).tolist():
        where = f"job {admissions['job'][row]}, {facts.claims.request(admissions['request'][row])} admitted, cached"
        yield Difference(where, 0, int(admissions["cached_tokens"][row]))
    due = np.isin(preemptions["loss"], [Loss.CRASH] * may_crash + [Loss.RECOMPUTE] * may_give_way)
    for row in np.flatnonzero(~due).tolist():
        where = f"job {preemptions['job'][row]}, {facts.claims.request(preemptions['request'][row])}"
        yield Difference(where, "running on", "preempted")


def crashes(claims: Claims) -> bool:
    """Whether the scenario has a crash."""
    return any(fault.kind == "crash" for fault in claims.scenario.faults)


def _first_scheduled(facts: Facts, _: Ends) -> Ints:
    return facts.first_scheduled_ns


def _queue(facts: Facts, _: Ends) -> Ints:
    return _since(facts.workload.arrival_ns, facts.first_scheduled_ns)


def _first_token(facts: Facts, _: Ends) -> Ints:
    return facts.first_token_ns


def _ttft(facts: Facts, _: Ends) -> Ints:
    return _since(facts.workload.arrival_ns, facts.first_token_ns)


def _max_itl(facts: Facts, _: Ends) -> Ints:
    return facts.longest_gap_ns


def _tpot(facts: Facts, _: Ends) -> Ints:
    gaps = np.maximum(facts.emitted - 1, 1)
    whole, rest = np.divmod(facts.last_token_ns - facts.first_token_ns, gaps)
    return np.where(facts.emitted >= 2, whole + (2 * rest >= gaps), NEVER)


def _finish(facts: Facts, ends: Ends) -> Ints:
    return np.where(ends.finishes, facts.last_token_ns, NEVER)


def _e2e(facts: Facts, ends: Ends) -> Ints:
    return np.where(ends.finishes, facts.last_token_ns - facts.workload.arrival_ns, NEVER)


def _ended(_: Facts, ends: Ends) -> Ints:
    return np.where(ends.gone_ns == FOREVER, NEVER, ends.gone_ns)


def _emitted(facts: Facts, _: Ends) -> Ints:
    return facts.emitted * facts.workload.samples


def _preemptions(facts: Facts, _: Ends) -> Ints:
    return np.bincount(facts.record.preemptions["request"], minlength=facts.requests)


def _recomputed(facts: Facts, _: Ends) -> Ints:
    return facts.lost


def _cached(facts: Facts, _: Ends) -> Ints:
    return facts.cached_first


def _cached_on_resume(facts: Facts, _: Ends) -> Ints:
    return facts.cached - facts.cached_first


METRICS: Mapping[str, Mapping[str, Column]] = {
    "queue time = first scheduled - arrival": {"first_scheduled_ns": _first_scheduled, "queue_ns": _queue},
    "TTFT = first token - arrival, set once": {"first_token_ns": _first_token, "ttft_ns": _ttft},
    "max ITL is the longest gap between tokens": {"max_itl_ns": _max_itl},
    "TPOT = (last - first token) / (tokens - 1)": {"tpot_ns": _tpot},
    "E2E = last token - arrival": {"finish_ns": _finish, "e2e_ns": _e2e},
    "every request ends once, with its last token or a decision": {"ended_ns": _ended},
    "emitted tokens are counted": {"emitted_tokens": _emitted},
    "preemptions, recomputed and cached tokens are counted": {
        "preemptions": _preemptions, "recomputed_tokens": _recomputed, "cached_tokens": _cached,
        "cached_on_resume_tokens": _cached_on_resume,
    },
}  # fmt: skip
"""The columns that each check recomputes."""


def columns(facts: Facts, ends: Ends, recompute: Mapping[str, Column]) -> Iterator[Difference]:
    """The claimed columns against those worked out anew."""
    for name, column in recompute.items():
        due, found = column(facts, ends), facts.claims.columns[name]
        for index in np.flatnonzero(due != found).tolist():
            values = [_value(name, int(v)) for v in (due[index], found[index])]
            yield Difference(f"{facts.claims.request(index)}, {_camel(name)}", *values)


def _since(from_ns: Ints, to_ns: Ints) -> Ints:
    return np.where(to_ns == NEVER, NEVER, to_ns - from_ns)


def _value(name: str, value: int) -> Value:
    if not name.endswith("_ns"):
        return value
    return None if value == NEVER else time(value)


def _camel(name: str) -> str:
    first, *others = name.replace("_ns", "_ms").split("_")
    return first + "".join(word.capitalize() for word in others)


def _word(status: int) -> str:
    return Status(int(status)).name.lower()


def _place(job: int) -> Value:
    return None if job == NEVER else int(job)
