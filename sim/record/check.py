"""Conservation, checked on every run: what was scheduled is what had to be computed."""

import numpy as np

from sim.errors import InvariantError
from sim.record.tables import Record
from sim.record.timeline import Timeline, request_columns
from sim.request import Status


def check_tokens(record: Record) -> None:
    """Per finished request: scheduled = prompt + output - 1 + recomputed - cached tokens, and all its output left."""
    columns = request_columns(record, Timeline(record))
    scheduled = np.zeros(len(record.workload), dtype=np.int64)
    np.add.at(scheduled, record.schedule["request"], record.schedule["tokens"])
    cached = columns["cached_tokens"] + columns["cached_on_resume_tokens"]
    due = columns["prompt_tokens"] + columns["output_tokens"] - 1 + columns["recomputed_tokens"] - cached
    finished = columns["status"] == Status.FINISHED
    wrong = finished & ((scheduled != due) | (columns["emitted_tokens"] != columns["output_tokens"]))
    for index in np.flatnonzero(wrong)[:1].tolist():
        raise InvariantError(
            f"request {record.workload.id(index)}: {scheduled[index]} tokens were scheduled, {due[index]} were due; "
            f"{columns['emitted_tokens'][index]} of {columns['output_tokens'][index]} emitted"
        )
