"""What a result claims about one run: its raw tables, and everything that is said to follow from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.policies.presets import Axes, Choice, KvAxes
from sim.record.json_shape import Provenance, Run, Summary
from sim.record.tables import Record
from sim.request import NEVER, Ints, Workload
from sim.scenario import Scenario
from sim.show import escape

TIMES = ("first_scheduled", "first_token", "finish", "ended", "queue", "ttft", "max_itl", "tpot", "e2e")
COUNTS = ("emitted_tokens", "preemptions", "recomputed_tokens", "cached_tokens", "cached_on_resume_tokens")
COLUMNS = (*(f"{name}_ns" for name in TIMES), *COUNTS)
"""What is claimed of each request and follows from the tables: times in ns (:data:`NEVER`: none), and counts."""


@dataclass(frozen=True)
class Claims:
    """One run. ``scenario`` and ``choice`` are what it should have run; ``settings`` what it says it did.

    ``run`` holds the lists that only the JSON has: every token, and who waited and ran at each job.
    """

    where: str
    settings: Mapping[str, Any]
    scenario: Scenario
    choice: Choice
    asked: Workload | None
    provenance: Provenance | None  # None where a JSON has only that of another run
    record: Record
    columns: Mapping[str, Ints]
    finish_reasons: Sequence[str | None]
    summary: Summary
    run: Run | None = None
    pool_known: bool = True
    """Whether the record says what was withheld and blocked: a JSON says it only as far as it can be decided again."""

    @property
    def axes(self) -> Axes:
        return self.choice.axes

    @property
    def kv(self) -> KvAxes | None:
        return self.choice.kv

    @property
    def plain(self) -> bool:
        """Whether counts of requests decide everything.

        First come, first served; whole prompts, or chunks in turn with decodes; nothing runs short but slots; all come
        at times that nobody decides.
        """
        axes, budget = self.axes, self.axes.has_budget and self.axes.token_budget is not None
        return (
            self.kv is None
            and axes.composition in ("prefill-first", "alternate")
            and axes.order == "fcfs"
            and not (budget or axes.max_model_tokens)
            and not any(fault.kind == "crash" for fault in self.scenario.faults)
            and bool((self.record.workload.samples == 1).all())
            and self.record.workload.sending is None
        )

    def request(self, index: int) -> str:
        """How a finding names a request."""
        return f"request {escape(self.record.workload.id(int(index)))}"


def columns_of(run: Run) -> dict[str, Ints]:
    """The claimed columns of the requests of a run of the JSON."""

    def ns(name: str) -> Ints:
        values = [getattr(row, f"{name}_ms") for row in run.requests]
        return np.array([NEVER if value is None else value for value in values], dtype=np.int64)

    counts = {name: np.array([getattr(row, name) for row in run.requests], dtype=np.int64) for name in COUNTS}
    return {f"{name}_ns": ns(name) for name in TIMES} | counts
