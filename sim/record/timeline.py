"""When each request's tokens came, from the raw record: columns per request, and gaps weighted by how often they occur.

Nothing here is per token: a stretch of decodes is a range of the ends of decoding jobs.
"""

from functools import cached_property

import numpy as np

from sim.record.tables import DECODE, Record, Table, first_jobs
from sim.request import NEVER, Flags, Ints, Status


class Timeline:
    """Token times of one record. A *piece* is what emits: the end of a prefill (one token) or a stretch of decodes."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._ends_ns = record.jobs["end_ns"]
        self._decode_ends_ns = self._ends_ns[record.decode_jobs]
        emits = record.schedule["emits"] == 1
        self._pieces: Table = {name: column[emits] for name, column in record.schedule.items()}
        first = first_jobs(self._pieces, record.jobs)
        self._first_ns = self._ends_ns[first]
        self._last_ns = self._first_ns.copy()
        decodes = self._decodes = self._pieces["phase"] == DECODE
        last = self._pieces["job"][decodes] + self._pieces["jobs"][decodes] - 1
        self._last_ns[decodes] = self._decode_ends_ns[last]

    def token_times(self, index: int) -> Ints:
        """The times of one request's tokens, in ns."""
        low, high = np.searchsorted(self._pieces["request"], [index, index + 1])
        times = [self._piece_times(row) for row in range(low, high)]
        return np.concatenate(times) if times else np.empty(0, dtype=np.int64)

    @cached_property
    def columns(self) -> Table:
        """One row per request: ``emissions, first_scheduled_ns, first_token_ns, last_token_ns, max_itl_ns``.

        At each of its ``emissions`` a request emits one token for each of its samples.
        """
        requests = len(self._record.workload)
        owner = self._pieces["request"]
        emissions = np.bincount(owner, weights=self._pieces["jobs"], minlength=requests).astype(np.int64)
        max_itl_ns = np.full(requests, NEVER, dtype=np.int64)
        np.maximum.at(max_itl_ns, owner[1:][self._joined], self._entry_gaps_ns)
        long = self._long_stretches
        np.maximum.at(max_itl_ns, owner[long], self._longest_gap_ns(long))
        return {
            "emissions": emissions,
            "first_scheduled_ns": self._first_scheduled_ns(),
            "first_token_ns": _of_first(owner, self._first_ns, requests),
            "last_token_ns": _of_last(owner, self._last_ns, requests),
            "max_itl_ns": max_itl_ns,
        }

    def gaps(self, of_request: Ints) -> tuple[Ints, Ints]:
        """``(gap_ns, how often)``: every inter-token gap of the requests for which ``of_request`` is 1."""
        wanted = of_request[self._pieces["request"]] == 1
        entry_ns = self._entry_gaps_ns[wanted[1:][self._joined]]
        stretches = np.flatnonzero(wanted & self._decodes)
        first = self._pieces["job"][stretches]
        steps = np.zeros(len(self._decode_ends_ns) + 1, dtype=np.int64)
        np.add.at(steps, first + 1, 1)
        np.add.at(steps, np.minimum(first + self._pieces["jobs"][stretches], len(steps) - 1), -1)
        inside = np.cumsum(steps)[1:-1] if len(self._decode_ends_ns) else np.empty(0, dtype=np.int64)
        gap_ns = np.concatenate([entry_ns, np.diff(self._decode_ends_ns)])
        return gap_ns, np.concatenate([np.ones_like(entry_ns), inside])

    def _piece_times(self, row: int) -> Ints:
        job, jobs = int(self._pieces["job"][row]), int(self._pieces["jobs"][row])
        ends_ns = self._decode_ends_ns if self._decodes[row] else self._ends_ns
        return ends_ns[job : job + jobs]

    @cached_property
    def _joined(self) -> Flags:
        """Whether piece k + 1 belongs to the request of piece k."""
        owner = self._pieces["request"]
        return np.equal(owner[1:], owner[:-1])

    @cached_property
    def _entry_gaps_ns(self) -> Ints:
        """From the last token of a piece to the first of the same request's next piece."""
        return (self._first_ns[1:] - self._last_ns[:-1])[self._joined]

    @cached_property
    def _long_stretches(self) -> Ints:
        return np.flatnonzero(self._decodes & (self._pieces["jobs"] > 1))

    def _longest_gap_ns(self, stretches: Ints) -> Ints:
        """The longest gap inside each of these stretches, all of two jobs or more."""
        if not len(stretches):
            return np.empty(0, dtype=np.int64)
        first = self._pieces["job"][stretches]
        bounds = np.column_stack([first, first + self._pieces["jobs"][stretches] - 1]).ravel()
        gaps_ns = np.append(np.diff(self._decode_ends_ns), 0)
        return np.maximum.reduceat(gaps_ns, bounds)[::2]

    def _first_scheduled_ns(self) -> Ints:
        schedule = self._record.schedule
        starts_ns = self._record.jobs["start_ns"][first_jobs(schedule, self._record.jobs)]
        return _of_first(schedule["request"], starts_ns, len(self._record.workload))


def _of_first(owner: Ints, values: Ints, requests: int) -> Ints:
    """Per request, the value of its first row; rows are in order of requests."""
    column = np.full(requests, NEVER, dtype=np.int64)
    column[owner[::-1]] = values[::-1]
    return column


def _of_last(owner: Ints, values: Ints, requests: int) -> Ints:
    column = np.full(requests, NEVER, dtype=np.int64)
    column[owner] = values
    return column


def request_columns(record: Record, timeline: Timeline) -> dict[str, Ints]:
    """Every numeric column of a request: what was asked, what happened, and the metrics (design: times in ns)."""
    workload, times = record.workload, timeline.columns
    requests = len(workload)
    finished = record.requests["status"] == Status.FINISHED
    first_ns, last_ns = times["first_token_ns"], times["last_token_ns"]
    emissions, arrival_ns = times["emissions"], workload.arrival_ns
    several = emissions >= 2
    admissions = record.admissions
    _, first = np.unique(admissions["request"], return_index=True)
    again = np.ones(len(admissions["request"]), dtype=bool)
    again[first] = False

    def total(table: Table, name: str, rows: Flags | slice = slice(None)) -> Ints:
        sums = np.zeros(requests, dtype=np.int64)
        np.add.at(sums, table["request"][rows], table[name][rows])
        return sums

    return {
        **dict(workload.columns()),
        **record.requests,
        "emitted_tokens": emissions * workload.samples,
        "first_scheduled_ns": times["first_scheduled_ns"],
        "first_token_ns": first_ns,
        "finish_ns": np.where(finished, last_ns, NEVER),
        "queue_ns": _gap(arrival_ns, times["first_scheduled_ns"]),
        "ttft_ns": _gap(arrival_ns, first_ns),
        "max_itl_ns": np.where(several, times["max_itl_ns"], NEVER),
        "tpot_ns": np.where(several, _divide_half_up(last_ns - first_ns, np.maximum(emissions - 1, 1)), NEVER),
        "e2e_ns": np.where(finished, last_ns - arrival_ns, NEVER),
        "preemptions": np.bincount(record.preemptions["request"], minlength=requests),
        "recomputed_tokens": total(record.recomputed, "tokens"),
        "cached_tokens": total(admissions, "cached_tokens", ~again),
        "cached_on_resume_tokens": total(admissions, "cached_tokens", again),
    }


def _gap(from_ns: Ints, to_ns: Ints) -> Ints:
    return np.where(to_ns == NEVER, NEVER, to_ns - from_ns)


def _divide_half_up(numerator: Ints, denominator: Ints) -> Ints:
    return (2 * numerator + denominator) // (2 * denominator)
