"""Conservation, checked on every run: what was scheduled is what had to be computed."""

import numpy as np

from sim.errors import InvariantError
from sim.record.tables import Record, Table
from sim.request import Ints, Status, Workload


def check_tokens(record: Record, columns: Table, max_model_tokens: int) -> None:
    """Per finished request: scheduled = prompt + output - 1 + recomputed - cached tokens, and all its output left.

    ``columns`` are those of the requests.
    """
    scheduled = np.zeros(len(record.workload), dtype=np.int64)
    np.add.at(scheduled, record.schedule["request"], record.schedule["tokens"])
    cached = columns["cached_tokens"] + columns["cached_on_resume_tokens"]
    emitted, samples = columns["emitted_tokens"], columns["samples"]
    due = columns["prompt_tokens"] + emitted - samples + columns["recomputed_tokens"] - cached
    finished = columns["status"] == Status.FINISHED
    longest = longest_output(record.workload, max_model_tokens) * samples
    wrong = finished & ((scheduled != due) | (emitted != longest))
    for index in np.flatnonzero(wrong)[:1].tolist():
        raise InvariantError(
            f"request {record.workload.id(index)}: {scheduled[index]} tokens were scheduled, {due[index]} were due; "
            f"{emitted[index]} of {longest[index]} emitted"
        )


def longest_output(workload: Workload, max_model_tokens: int) -> Ints:
    """What each request emits per sample when it finishes: its output, cut where the model's length ends."""
    if not max_model_tokens:
        return workload.output_tokens
    return np.minimum(workload.output_tokens, max_model_tokens - workload.prompt_tokens)
