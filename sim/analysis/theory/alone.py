"""What a request takes that has the server to itself, from the scenario's settings and costs, in exact ns."""

from dataclasses import dataclass

import numpy as np

from sim.analysis.cost import Work, growth_fs, job_fs, job_ns
from sim.costs.line import Line
from sim.policies.presets import BUDGETED, resolve
from sim.request import Ints
from sim.scenario import Scenario


def longest_chunk(composition: str, chunk_tokens: int, chunked_prefill: bool, token_budget: int | None) -> int | None:  # noqa: FBT001  # the settings, in their order
    """Most tokens of a prefill in one job, if its request is alone; None without a limit."""
    if composition == "alternate":
        return chunk_tokens
    return token_budget if composition in BUDGETED and chunked_prefill else None


@dataclass(frozen=True)
class Alone:
    """``chunk``: most tokens of a prefill in one job, None without a limit."""

    scenario: Scenario
    chunk: int | None

    @classmethod
    def of(cls, scenario: Scenario) -> "Alone":
        axes = resolve(scenario).axes
        return cls(
            scenario, longest_chunk(axes.composition, axes.chunk_tokens, axes.chunked_prefill, axes.token_budget)
        )

    def prefill_ns(self, prompt_tokens: Ints) -> Ints:
        """Until the first token: ceil(P / chunk) jobs, each rounded on its own."""
        if self.chunk is None:
            return self._job_ns(prompt_tokens, 0)
        chunks, rest = np.divmod(prompt_tokens, self.chunk)
        whole = int(self._job_ns(np.array([self.chunk]), 0)[0])
        return chunks * whole + np.where(rest > 0, self._job_ns(rest, 0), 0)

    def decode_ns(self, prompt_tokens: Ints, output_tokens: Ints) -> Ints:
        """From the first token to the last: O - 1 jobs of one sequence, whose context grows."""
        one, none = np.ones_like(prompt_tokens), np.zeros_like(prompt_tokens)
        growth = int(growth_fs(self.scenario, np.array([1]))[0])
        if not growth:
            return np.asarray((output_tokens - 1) * self._job_ns(none, 1))
        first = job_fs(self.scenario, Work(none, one, prompt_tokens + 1, none)).tolist()
        lines = (Line(fs, growth).ends_ns(o - 1) for fs, o in zip(first, output_tokens.tolist(), strict=True))
        return np.fromiter(lines, dtype=np.int64, count=len(prompt_tokens))

    def service_ns(self, prompt_tokens: Ints, output_tokens: Ints) -> Ints:
        """From its first job to its last token."""
        return self.prefill_ns(prompt_tokens) + self.decode_ns(prompt_tokens, output_tokens)

    def _job_ns(self, prefill_tokens: Ints, sequences: int) -> Ints:
        none = np.zeros_like(prefill_tokens)
        return job_ns(self.scenario, Work(prefill_tokens, none + sequences, none, none))


def static_batch_ns(scenario: Scenario, prompt_tokens: Ints, output_tokens: int, *, in_one_job: bool) -> int:
    """When all of a batch that begins at once have their last token: the prefills, and (O - 1) (c0 + n c_d).

    The prompts are computed one job each, or all in one.
    """
    prompts = prompt_tokens.sum(keepdims=True) if in_one_job else prompt_tokens
    prefill = int(Alone(scenario, None).prefill_ns(prompts).sum())
    n, none = np.array([len(prompt_tokens)]), np.array([0])
    context = prompt_tokens.sum(keepdims=True) + n
    growth = int(growth_fs(scenario, n)[0])
    first = int(job_fs(scenario, Work(none, n, context, none))[0])
    return prefill + Line(first, growth).ends_ns(output_tokens - 1)
