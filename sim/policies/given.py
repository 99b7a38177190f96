"""What an order may go by beside the requests: the settings, a prediction, the cache, and the instant."""

from collections.abc import Callable
from dataclasses import dataclass, field

from sim.costs.base import CostModel, Work
from sim.engine.queue import Moment
from sim.policies.predictors import PREDICTORS, Ground, Predictor
from sim.policies.presets import Axes
from sim.request import Request, Workload


@dataclass
class Given:
    """``cached``: how many tokens of a waiting request the cache holds. ``moment``: kept for an order that moves."""

    axes: Axes
    seed: int
    predict: Predictor
    cost: CostModel
    cached: Callable[[Request], int]
    moment: Moment = field(default_factory=Moment)

    def output(self, request: Request) -> int:
        """Tokens that each sample is expected to emit in all."""
        tokens = self.predict(request)
        longest = self.axes.max_model_tokens
        return min(tokens, longest - request.prompt_tokens) if longest else tokens

    def output_left(self, request: Request) -> int:
        """Tokens that each sample is expected to emit yet: at least one, for it has not ended."""
        return max(self.output(request) - request.emitted, 1)

    def alone_ns(self, request: Request) -> int:
        """How long a waiting request would take alone: its prefill as one job, then a job for each token."""
        samples, known = request.samples, request.known
        decodes = self.output_left(request) - 1
        prefill_ns = self.cost.job_ns(Work(known, 0, 0))
        first = Work(0, samples, samples * (known + 1) if self.cost.reads_context else 0)
        return prefill_ns + (_decodes_ns(self.cost, first, decodes) if decodes else 0)

    def weight(self, tenant: str) -> int:
        """How much of the server a tenant is to have, beside others."""
        return self.axes.weights.get(tenant, 1)


def given_of(axes: Axes, seed: int, workload: Workload, cost: CostModel, cached: Callable[[Request], int]) -> Given:
    """What the order of these settings may go by in a run of this workload."""
    ground = Ground(workload, axes.predictor_error, seed)
    return Given(axes, seed, PREDICTORS[axes.predictor](ground), cost, cached)


def _decodes_ns(cost: CostModel, first: Work, jobs: int) -> int:
    """So many decodes in a row, of which ``first`` is the first."""
    line = getattr(cost, "line", lambda _work: None)(first)
    if line is not None:
        ends_ns: int = line.ends_ns(jobs)
        return ends_ns
    if not cost.reads_context:
        return jobs * cost.job_ns(first)
    sequences, context = first.decode_requests, first.context_tokens
    return sum(cost.job_ns(Work(0, sequences, context + sequences * job)) for job in range(jobs))
