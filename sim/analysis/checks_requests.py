"""Does what is claimed of each request follow from the tables: how it ended, its tokens, its times?"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from sim.analysis.checks_tables import time
from sim.analysis.exact import FOREVER
from sim.analysis.facts import Facts
from sim.analysis.findings import Difference, Value
from sim.analysis.tail import cut_off
from sim.analysis.timetable import Timetable
from sim.request import NEVER, Ints, Status

Column = Callable[[Facts, Timetable], Ints]


def statuses(facts: Facts, timetable: Timetable) -> Iterator[Difference]:
    """Finished if all was emitted, cancelled if its client gave up first, unfinished only at a horizon."""
    due, found = timetable.status, facts.record.requests["status"]
    for index in np.flatnonzero(due != found).tolist():
        yield Difference(f"{facts.claims.request(index)}, status", _word(due[index]), _word(found[index]))


def tokens_due(facts: Facts) -> Iterator[Difference]:
    """Finished: all output emitted, and prompt + output - 1 tokens scheduled. Otherwise at most that."""
    workload = facts.workload
    finished = facts.record.requests["status"] == Status.FINISHED
    wrong = np.where(finished, facts.emitted != workload.output_tokens, facts.emitted >= workload.output_tokens)
    for index in np.flatnonzero(wrong).tolist():
        output = int(workload.output_tokens[index])
        due = output if finished[index] else f"below {output}"
        yield Difference(f"{facts.claims.request(index)}, emitted tokens", due, int(facts.emitted[index]))
    whole = workload.prompt_tokens + workload.output_tokens - 1
    for index in np.flatnonzero(np.where(finished, facts.scheduled != whole, facts.scheduled > whole)).tolist():
        due = int(whole[index]) if finished[index] else f"at most {whole[index]}"
        yield Difference(f"{facts.claims.request(index)}, scheduled tokens", due, int(facts.scheduled[index]))


def reasons(facts: Facts, timetable: Timetable) -> Iterator[Difference]:
    """Who did not finish says where it was: not arrived, waiting or running. Who finished has a finish reason."""
    status = facts.record.requests["status"]
    running = (facts.admitted_job < timetable.goes) & (facts.admitted_job < FOREVER)
    running[cut_off(facts, timetable).joined] = True
    finished = status == Status.FINISHED
    for index in range(facts.requests):
        found = facts.record.reasons.get(index)
        due = None
        if not finished[index]:
            due = "running" if running[index] else "waiting" if timetable.sent[index] else "not arrived"
        if due != found:
            yield Difference(f"{facts.claims.request(index)}, reason", due, found)
        due, found = ("stop" if finished[index] else None), facts.claims.finish_reasons[index]
        if due != found:
            yield Difference(f"{facts.claims.request(index)}, finishReason", due, found)


def comings_and_goings(facts: Facts, timetable: Timetable) -> Iterator[Difference]:
    """Between which jobs each request came and went, as the table of requests has it."""
    found = facts.record.requests
    gone = (timetable.gone_ns < FOREVER) & (timetable.status != Status.UNFINISHED)
    for name, there, due in (
        ("arrived_job", timetable.sent, timetable.arrives),
        ("ended_job", gone, timetable.goes),
    ):
        due_job = np.where(there, due, NEVER)
        for index in np.flatnonzero(due_job != found[name]).tolist():
            where = f"{facts.claims.request(index)}, {name}"
            yield Difference(where, _place(due_job[index]), _place(found[name][index]))


def without_pool(facts: Facts) -> Iterator[Difference]:
    """Without a KV pool there is nothing that could be cached or lost."""
    admissions, preemptions = facts.record.admissions, facts.record.preemptions
    for row in np.flatnonzero(admissions["cached_tokens"] != 0).tolist():
        where = f"job {admissions['job'][row]}, {facts.claims.request(admissions['request'][row])} admitted, cached"
        yield Difference(where, 0, int(admissions["cached_tokens"][row]))
    for job, index in zip(preemptions["job"].tolist(), preemptions["request"].tolist(), strict=True):
        yield Difference(f"job {job}, {facts.claims.request(index)}", "running on", "preempted")


def _first_scheduled(facts: Facts, _: Timetable) -> Ints:
    return facts.first_scheduled_ns


def _queue(facts: Facts, _: Timetable) -> Ints:
    return _since(facts.workload.arrival_ns, facts.first_scheduled_ns)


def _first_token(facts: Facts, _: Timetable) -> Ints:
    return facts.first_token_ns


def _ttft(facts: Facts, _: Timetable) -> Ints:
    return _since(facts.workload.arrival_ns, facts.first_token_ns)


def _max_itl(facts: Facts, _: Timetable) -> Ints:
    return facts.longest_gap_ns


def _tpot(facts: Facts, _: Timetable) -> Ints:
    gaps = np.maximum(facts.emitted - 1, 1)
    whole, rest = np.divmod(facts.last_token_ns - facts.first_token_ns, gaps)
    return np.where(facts.emitted >= 2, whole + (2 * rest >= gaps), NEVER)


def _finish(facts: Facts, timetable: Timetable) -> Ints:
    return np.where(timetable.finishes, facts.last_token_ns, NEVER)


def _e2e(facts: Facts, timetable: Timetable) -> Ints:
    return np.where(timetable.finishes, facts.last_token_ns - facts.workload.arrival_ns, NEVER)


def _ended(_: Facts, timetable: Timetable) -> Ints:
    return np.where(timetable.gone_ns == FOREVER, NEVER, timetable.gone_ns)


def _emitted(facts: Facts, _: Timetable) -> Ints:
    return facts.emitted


def _nothing(facts: Facts, _: Timetable) -> Ints:
    return np.zeros(facts.requests, dtype=np.int64)


METRICS: Mapping[str, Mapping[str, Column]] = {
    "queue time = first scheduled - arrival": {"first_scheduled_ns": _first_scheduled, "queue_ns": _queue},
    "TTFT = first token - arrival, set once": {"first_token_ns": _first_token, "ttft_ns": _ttft},
    "max ITL is the longest gap between tokens": {"max_itl_ns": _max_itl},
    "TPOT = (last - first token) / (tokens - 1)": {"tpot_ns": _tpot},
    "E2E = last token - arrival": {"finish_ns": _finish, "e2e_ns": _e2e},
    "every request ends once, with its last token or a decision": {"ended_ns": _ended},
    "emitted tokens are counted": {"emitted_tokens": _emitted},
    "nothing is preempted or cached without a KV pool": {
        "preemptions": _nothing, "recomputed_tokens": _nothing, "cached_tokens": _nothing,
        "cached_on_resume_tokens": _nothing,
    },
}  # fmt: skip
"""The columns that each check recomputes."""


def columns(facts: Facts, timetable: Timetable, recompute: Mapping[str, Column]) -> Iterator[Difference]:
    """The claimed columns against those worked out anew."""
    for name, column in recompute.items():
        due, found = column(facts, timetable), facts.claims.columns[name]
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
