"""A record without the requests that were never to be sent: attempts that nobody needed."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sim.record.packed import Packed
from sim.record.tables import Record, Table
from sim.request import Ints
from sim.workload.sending import kept, new_rows


def of_requests(record: Record, rows: Ints) -> Record:
    """The same record with only these requests (ascending); nothing may be told of any other."""
    requests = len(record.workload)
    if len(rows) == requests:
        return record
    new = new_rows(rows, requests)

    def renamed(table: Table) -> Table:
        column = new[table["request"]]
        return table.replaced("request", column) if isinstance(table, Packed) else {**table, "request": column}

    return replace(
        record,
        workload=kept(record.workload, rows),
        requests={name: column[rows] for name, column in record.requests.items()},
        reasons=_reasons(record.reasons, new),
        schedule=renamed(record.schedule),
        admissions=renamed(record.admissions),
        preemptions=renamed(record.preemptions),
        copies=renamed(record.copies),
    )


def _reasons(reasons: Mapping[int, str], new: Ints) -> dict[int, str]:
    places = np.array(list(reasons), dtype=np.int64)
    return {row: reason for row, reason in zip(new[places].tolist(), reasons.values(), strict=True) if row >= 0}
