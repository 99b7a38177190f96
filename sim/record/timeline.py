"""When each request's tokens came, from the raw record: columns per request, and gaps weighted by how often they occur.

Nothing here is per token: a stretch of decodes is a range of the ends of decoding jobs.
"""

from functools import cached_property

import numpy as np

from sim.record.quantiles import Gaps, Lines
from sim.record.tables import DECODE, Record, Table
from sim.request import NEVER, Flags, Ints, Status


class Timeline:
    """Token times of one record. A *piece* is what emits: the end of a prefill (one token) or a stretch of decodes."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._stretches = record.stretches
        emits = record.schedule["emits"] == 1
        self._pieces: Table = {name: record.schedule[name][emits] for name in ("request", "job", "jobs")}
        decodes = self._decodes = record.schedule["phase"][emits] == DECODE
        job = self._pieces["job"]
        self._first_ns = np.empty_like(job)
        row = self._stretches.row_of(job[~decodes])
        self._first_ns[~decodes] = self._stretches.ends_ns(row, job[~decodes] - self._stretches.first[row] + 1)
        self._first_ns[decodes] = self._stretches.decoding_ends_ns(job[decodes])
        self._last_ns = self._first_ns.copy()
        self._last_ns[decodes] = self._stretches.decoding_ends_ns((job + self._pieces["jobs"])[decodes] - 1)

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
        long = np.flatnonzero(self._decodes & (self._pieces["jobs"] > 1))
        np.maximum.at(max_itl_ns, owner[long], self._longest_gap_ns(long))
        return {
            "emissions": emissions,
            "first_scheduled_ns": self._first_scheduled_ns(),
            "first_token_ns": _of_first(owner, self._first_ns, requests),
            "last_token_ns": _of_last(owner, self._last_ns, requests),
            "max_itl_ns": max_itl_ns,
        }

    def gaps(self, of_request: Ints) -> Gaps:
        """Every inter-token gap of the requests for which ``of_request`` is 1."""
        wanted = of_request[self._pieces["request"]] == 1
        entry_ns = self._entry_gaps_ns[wanted[1:][self._joined]]
        rows, first, after = self._decoding_rows, self._first_row, self._after_row
        pieces = np.flatnonzero(wanted & self._decodes)
        begun = np.bincount(first[pieces], minlength=len(rows) + 1)
        decoding = np.cumsum(begun - np.bincount(after[pieces], minlength=len(rows) + 1))[:-1]
        ahead = decoding - begun[:-1]  # who decoded in the row before as well
        table = self._record.rows
        more = np.flatnonzero((table["jobs"][rows] > 1) & (decoding > 0))
        line = rows[more]
        later_fs = table["first_fs"][line] + table["growth_fs"][line]
        return Gaps(
            ns=np.concatenate([entry_ns, self._gaps_before_ns]),
            count=np.concatenate([np.ones_like(entry_ns), ahead]),
            lines=Lines(later_fs, table["growth_fs"][line], table["jobs"][line] - 1, decoding[more]),
            total_ns=int((self._last_ns - self._first_ns)[wanted].sum()) + int(entry_ns.sum()),
        )

    def _piece_times(self, piece: int) -> Ints:
        if not self._decodes[piece]:
            return self._first_ns[piece : piece + 1]
        return self._stretches.decoding_ends_ns(np.arange(self._pieces["jobs"][piece]) + self._pieces["job"][piece])

    # A stretch of decodes begins with a row of the jobs that decode, and ends with one: who joins or leaves begins one

    @cached_property
    def _decoding_rows(self) -> Ints:
        """The rows that decode."""
        return np.flatnonzero(self._record.rows["decode_requests"] > 0)

    @cached_property
    def _gaps_before_ns(self) -> Ints:
        """From the last job before each decoding row that decodes to the first of its own; 0 at first."""
        rows = self._decoding_rows
        gaps_ns = self._stretches.first_ends_ns[rows]
        gaps_ns[1:] -= self._record.rows["end_ns"][rows[:-1]]
        gaps_ns[:1] = 0
        return gaps_ns

    @property
    def _first_row(self) -> Ints:
        """Which of the decoding rows each piece begins with; 0 for those that are no decodes."""
        return self._decoding_row(self._pieces["job"])

    @property
    def _after_row(self) -> Ints:
        """Which of the decoding rows comes behind each piece."""
        return self._decoding_row(self._pieces["job"] + self._pieces["jobs"])

    def _decoding_row(self, number: Ints) -> Ints:
        begins = np.append(self._stretches.first_decoding[self._decoding_rows], self._stretches.decoding)
        return np.where(self._decodes, np.searchsorted(begins, number), 0)

    @cached_property
    def _joined(self) -> Flags:
        """Whether piece k + 1 belongs to the request of piece k."""
        owner = self._pieces["request"]
        return np.equal(owner[1:], owner[:-1])

    @cached_property
    def _entry_gaps_ns(self) -> Ints:
        """From the last token of a piece to the first of the same request's next piece."""
        return (self._first_ns[1:] - self._last_ns[:-1])[self._joined]

    def _longest_gap_ns(self, pieces: Ints) -> Ints:
        """The longest gap inside each of these stretches, all of two jobs or more."""
        if not len(pieces):
            return np.empty(0, dtype=np.int64)
        rows, first, after = self._decoding_rows, self._first_row[pieces], self._after_row[pieces]
        several = self._record.rows["jobs"][rows] > 1
        last_ns = self._record.rows["end_ns"][rows] - self._stretches.last_starts_ns[rows]
        inside_ns = np.where(several, last_ns, 0)  # in a row, no job is shorter than the one before
        longest_ns = np.append(np.maximum(self._gaps_before_ns, inside_ns), 0)
        return np.maximum(inside_ns[first], _max_between(longest_ns, first + 1, after))

    def _first_scheduled_ns(self) -> Ints:
        schedule = self._record.schedule
        owner, rows = schedule["request"], self._stretches
        first = np.flatnonzero(np.diff(owner, prepend=-1))  # of each request that was scheduled; mostly a chunk
        job = schedule["job"][first]
        decodes = schedule["phase"][first] == DECODE
        job[decodes] = rows.job_of_decoding(job[decodes])
        row = rows.row_of(job)
        starts_ns = np.full(len(self._record.workload), NEVER, dtype=np.int64)
        place = job - rows.first[row]
        starts_ns[owner[first]] = np.where(place > 0, rows.ends_ns(row, place), self._record.rows["start_ns"][row])
        return starts_ns


def _max_between(values: Ints, first: Ints, after: Ints) -> Ints:
    """The largest of ``values`` from each ``first`` to before each ``after``; 0 where there is none."""
    largest = np.zeros(len(first), dtype=np.int64)
    some = np.flatnonzero(first < after)
    if len(some):
        bounds = np.column_stack([first[some], after[some]]).ravel()
        largest[some] = np.maximum.reduceat(values, bounds)[::2]
    return largest


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
