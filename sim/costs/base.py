"""The contract of a cost model: a job's work to its duration, and nothing else (no clock, no randomness)."""

from typing import NamedTuple, Protocol


class Work(NamedTuple):
    """What one job does. ``context_tokens``: tokens of context that its decodes read, each one's newest included."""

    prefill_tokens: int
    decode_requests: int
    context_tokens: int


class CostModel(Protocol):
    """Any object with this method. The duration is a whole number of ns, rounded once, half up."""

    def job_ns(self, work: Work) -> int: ...
