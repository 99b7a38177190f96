"""The contract of a cost model: a job's work to its duration, and nothing else (no clock, no randomness)."""

from dataclasses import dataclass
from typing import Protocol

from sim.costs.line import Line


@dataclass(slots=True)
class Work:
    """What one job does.

    ``decode_requests`` counts sequences: n for a request with n samples. ``context_tokens``: tokens of context that
    they read, each one's newest included. ``blocks`` are copied between device and host.
    """

    prefill_tokens: int
    decode_requests: int
    context_tokens: int
    blocks: int = 0


class CostModel(Protocol):
    """Any object with these. The duration is a whole number of ns, rounded once, half up."""

    @property
    def reads_context(self) -> bool:
        """Whether ``context_tokens`` matters; if not, nobody counts them and they are 0."""
        ...

    def job_ns(self, work: Work) -> int: ...


class Foreseen(CostModel, Protocol):
    """A cost model that says more, which saves time: without it, each job is asked for on its own."""

    def line(self, work: Work) -> Line | None:
        """The durations of this job and of those after it in which each sequence reads one token more.

        None: they don't stand on a line.
        """
        ...
