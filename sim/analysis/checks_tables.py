"""Are the tables sound? Codes known, places within bounds, rows in order: without that nothing else can be asked."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from sim.analysis.claims import Claims
from sim.analysis.exact import LIMIT, Mask
from sim.analysis.findings import Difference, Value
from sim.clock import MAX_NS
from sim.costs.line import MOST_FS, MOST_GROWTH_FS
from sim.engine.plan import Blocked, Kind, Loss
from sim.engine.span import MOST_JOBS
from sim.fields import MAX_BLOCKS, MAX_TOKENS
from sim.record.tables import DECODE, PREFILL
from sim.request import NEVER, Ints, Status

MAX_SAMPLES = 10**6


def columns_of_one_length(claims: Claims) -> Iterator[Difference]:
    record = claims.record
    for name in ("requests", "rows", "schedule", "admissions", "preemptions", "copies"):
        lengths = {len(column) for column in getattr(record, name).values()}
        if name == "requests":
            lengths |= {len(column) for _, column in record.workload.columns()}
        if len(lengths) > 1:
            yield Difference(f"{name}", "columns of one length", f"{min(lengths)} to {max(lengths)} rows")


def rows_in_range(claims: Claims) -> Iterator[Difference]:
    record = claims.record
    jobs, requests = record.stretches.jobs, len(record.workload)
    decoding = record.stretches.decoding
    yield from _within("rows", record.rows, {
        "jobs": (1, MOST_JOBS + 1), "first_fs": (0, MOST_FS + 1), "growth_fs": (0, MOST_GROWTH_FS + 1),
        "start_ns": (0, MAX_NS), "end_ns": (0, MAX_NS), "kind": (0, len(Kind)), "prefill_tokens": (0, LIMIT),
        "decode_requests": (0, LIMIT), "waiting": (0, requests + 1), "running": (0, requests + 1),
        "swapped": (0, requests + 1), "free_blocks": (NEVER, MAX_BLOCKS + 1), "withheld_blocks": (0, MAX_BLOCKS + 1),
        "blocked": (0, len(Blocked)),
    })  # fmt: skip
    schedule = record.schedule
    yield from _within("schedule", schedule, {
        "request": (0, requests), "phase": (0, 2), "jobs": (1, jobs + 1), "tokens": (1, LIMIT),
        "place": (NEVER, requests), "emits": (0, 2), "grows": (NEVER, LIMIT),
    })  # fmt: skip
    bound = np.where(schedule["phase"] == DECODE, decoding, jobs)
    wrong = (schedule["job"] < 0) | (schedule["job"] >= bound) | (schedule["jobs"] > bound - schedule["job"])
    yield from _rows("schedule", "job", schedule["job"], wrong, "jobs of the record")
    samples = record.workload.samples[np.clip(schedule["request"], 0, requests - 1)]
    single = np.where(schedule["phase"] == DECODE, schedule["tokens"], samples)
    due = "one token a job and sample, one job a chunk"
    yield from _rows("schedule", "jobs", schedule["jobs"], single != schedule["jobs"] * samples, due)
    yield from _within("admissions", record.admissions, {
        "job": (0, jobs), "request": (0, requests), "cached_tokens": (0, LIMIT), "back": (0, 2)})  # fmt: skip
    yield from _within("preemptions", record.preemptions, {
        "job": (0, jobs), "request": (0, requests), "tokens": (0, LIMIT), "loss": (0, len(Loss))})  # fmt: skip
    yield from _within("copies", record.copies, {
        "job": (0, jobs), "request": (0, requests), "blocks": (1, MAX_BLOCKS + 1), "out": (0, 2)})  # fmt: skip
    yield from _within("requests", record.requests, {
        "status": (0, len(Status)), "ended_ns": (NEVER, MAX_NS), "arrived_job": (NEVER, jobs + 2),
        "ended_job": (NEVER, jobs + 2)})  # fmt: skip
    earliest_ns = 0 if record.workload.sending is None else NEVER  # not sent yet
    yield from _within("requests", dict(record.workload.columns()), {
        "arrival_ns": (earliest_ns, MAX_NS), "prompt_tokens": (1, MAX_TOKENS + 1), "output_tokens": (1, MAX_TOKENS + 1),
        "max_tokens": (1, MAX_TOKENS + 1), "deadline_ns": (NEVER, MAX_NS), "cancel_ns": (NEVER, MAX_NS),
        "samples": (1, MAX_SAMPLES + 1), "prefix_tokens": (0, MAX_TOKENS + 1), "parent": (NEVER, requests),
        "parent_tokens": (0, MAX_TOKENS + 1)})  # fmt: skip


def ids_are_unique(claims: Claims) -> Iterator[Difference]:
    workload = claims.record.workload
    if workload.ids is None:
        return
    first: dict[str, int] = {}
    for index, id_ in enumerate(workload.ids):
        if first.setdefault(id_, index) != index:
            yield Difference(claims.request(index), "an id of its own", f"that of request {first[id_]}, from 0")


def jobs_do_not_overlap(claims: Claims) -> Iterator[Difference]:
    starts_ns, ends_ns = claims.record.rows["start_ns"], claims.record.rows["end_ns"]
    first = claims.record.stretches.first
    for row in np.flatnonzero(ends_ns < starts_ns).tolist():
        yield Difference(f"job {first[row + 1] - 1}, end", f"at least {time(starts_ns[row])}", time(ends_ns[row]))
    for row in (np.flatnonzero(starts_ns[1:] < ends_ns[:-1]) + 1).tolist():
        yield Difference(f"job {first[row]}, start", f"at least {time(ends_ns[row - 1])}", time(starts_ns[row]))


def one_row_a_job(claims: Claims) -> Iterator[Difference]:
    """Rows by request, then in time, so that no request is twice in a job; and stretches are as long as they can be."""
    schedule, number = claims.record.schedule, claims.record.stretches.job_of_decoding
    jobs = claims.record.stretches.jobs
    is_stretch = schedule["phase"] == DECODE
    first, last = schedule["job"].copy(), schedule["job"] + schedule["jobs"] - 1
    first[is_stretch], last[is_stretch] = number(first[is_stretch]), number(last[is_stretch])
    owner = schedule["request"]
    for row in (np.flatnonzero(np.diff(owner) < 0) + 1).tolist():
        yield Difference(f"schedule, row {row}", "rows by request", claims.request(owner[row]))
    same = owner[1:] == owner[:-1]
    for row in (np.flatnonzero(same & (first[1:] <= last[:-1])) + 1).tolist():
        where = f"job {first[row]}, {claims.request(owner[row])}"
        yield Difference(where, f"after job {last[row - 1]}", int(first[row]))
    behind = schedule["job"] + schedule["jobs"]
    joined = same & is_stretch[1:] & is_stretch[:-1] & (schedule["job"][1:] == behind[:-1])
    lost = claims.record.preemptions  # a stretch ends with a stay
    since = np.sort(lost["request"] * (jobs + 1) + lost["job"])
    begun, ended = (np.searchsorted(since, owner * (jobs + 1) + job, side="right") for job in (first, last))
    joined &= begun[1:] == ended[:-1]
    for row in (np.flatnonzero(joined) + 1).tolist():
        yield Difference(f"schedule, row {row}, {claims.request(owner[row])}", "one stretch", "two that meet")
    for name in ("admissions", "preemptions", "copies"):
        job = getattr(claims.record, name)["job"]
        for row in (np.flatnonzero(np.diff(job) < 0) + 1).tolist():
            yield Difference(f"{name}, row {row}, job", f"at least {job[row - 1]}", int(job[row]))


def places(claims: Claims) -> Iterator[Difference]:
    """Chunks have a place in their job's scheduling order, each another; decodes take those that are left."""
    schedule = claims.record.schedule
    chunk = schedule["phase"] == PREFILL
    wrong = np.where(chunk, schedule["place"] < 0, schedule["place"] != NEVER)
    yield from _rows("schedule", "place", schedule["place"], wrong, "a place for a chunk, none for decodes")
    order = np.lexsort((schedule["place"][chunk], schedule["job"][chunk]))
    job, place = schedule["job"][chunk][order], schedule["place"][chunk][order]
    for row in np.flatnonzero((np.diff(job) == 0) & (np.diff(place) == 0)).tolist():
        yield Difference(f"job {job[row]}, place {place[row]}", 1, 2)


def returns(claims: Claims) -> Iterator[Difference]:
    """The admission after a swap is the return from the host, and no other is."""
    admissions, preemptions = claims.record.admissions, claims.record.preemptions
    swapped = _ranked(preemptions["request"], preemptions["loss"] == Loss.SWAP)
    back = _ranked(admissions["request"], admissions["back"] == 1)
    for (request, rank), is_back in back.items():
        due = swapped.get((request, rank - 1), False)
        if is_back != due:
            where = f"{claims.request(request)}, admission {rank}"
            yield Difference(where, *("from the host" if way else "from the queue" for way in (due, is_back)))


def _ranked(requests: Ints, values: Mask) -> dict[tuple[int, int], bool]:
    """Each value by its request and its place among those of that request, from 0."""
    times: dict[int, int] = {}
    ranked = {}
    for request, value in zip(requests.tolist(), values.tolist(), strict=True):
        ranked[request, times.get(request, 0)] = value
        times[request] = times.get(request, 0) + 1
    return ranked


SOUND: Mapping[str, Callable[[Claims], Iterator[Difference]]] = {
    "columns of a table are of one length": columns_of_one_length,
    "rows are within bounds": rows_in_range,
    "ids are unique": ids_are_unique,
    "jobs do not overlap": jobs_do_not_overlap,
    "no request twice in a job": one_row_a_job,
    "every chunk has its place": places,
    "who was swapped out comes back from the host": returns,
}
"""In this order; when one finds something, what follows is not asked."""


def time(ns: int) -> str:
    """An instant or a duration for a finding: the exact decimal."""
    ns = int(ns)
    whole, rest = divmod(abs(ns), 10**6)
    decimals = f"{rest:06d}".rstrip("0")
    return f"{'-' if ns < 0 else ''}{whole}{'.' if decimals else ''}{decimals} ms"


def _within(table: str, columns: Mapping[str, Ints], bounds: Mapping[str, tuple[int, int]]) -> Iterator[Difference]:
    for name, (low, high) in bounds.items():
        column = columns[name]
        yield from _rows(table, name, column, (column < low) | (column >= high), f"{low} to {high - 1}")


def _rows(table: str, name: str, column: Ints, wrong: Mask, expected: Value) -> Iterator[Difference]:
    for row in np.flatnonzero(wrong).tolist():
        yield Difference(f"{table}, row {row}, {name}", expected, int(column[row]))
