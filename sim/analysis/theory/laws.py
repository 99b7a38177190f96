"""The laws of lengths as tables of probabilities, and what follows from them for the service of a request."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.analysis.theory.alone import Alone
from sim.analysis.theory.queues import Moments
from sim.clock import NS_PER_MS
from sim.request import Ints
from sim.workload.distribution import Distribution, Fixed

Floats = npt.NDArray[np.float64]

MOST_LENGTHS = 2**22
"""Most different lengths of one law: their table takes 64 MiB."""

MOST_PAIRS = 2**22
"""Most pairs of a prompt and an output of which each gets a service time of its own."""

NEGLIGIBLE = 1e-13
"""The probability of all lengths that are left out of a law without a bound."""


@dataclass(frozen=True)
class Table:
    """Lengths in tokens (ascending) and how probable each is."""

    tokens: Ints
    shares: Floats

    def mean(self, of: Ints | Floats | None = None) -> float:
        """Of the lengths, or of a value for each of them."""
        return float(self.shares @ np.asarray(self.tokens if of is None else of, dtype=np.float64))

    @property
    def only(self) -> int | None:
        """The length, if there is but one."""
        return int(self.tokens[0]) if len(self.tokens) == 1 else None


def table_of(law: Distribution) -> Table | None:
    """The table of a law of lengths; None when it has too many lengths."""
    if isinstance(law, Fixed):
        return Table(np.array([law.value]), np.ones(1))
    most = 1
    while most < law.largest and most <= MOST_LENGTHS and 1 - law.cdf(np.array([most]))[0] > NEGLIGIBLE:
        most *= 2
    most = min(most, law.largest)
    if most > MOST_LENGTHS:
        return None
    tokens = np.arange(most + 1, dtype=np.int64)
    shares = np.diff(law.cdf(tokens))
    there = np.flatnonzero(shares > 0)
    return Table(tokens[1:][there], shares[there] / shares[there].sum())


def merged(tables: list[tuple[float, Table]]) -> Table:
    """The mixture of laws with these weights."""
    tokens = np.unique(np.concatenate([table.tokens for _, table in tables]))
    shares = np.zeros(len(tokens))
    total = sum(weight for weight, _ in tables)
    for weight, table in tables:
        shares[np.searchsorted(tokens, table.tokens)] += weight / total * table.shares
    return Table(tokens, shares)


@dataclass(frozen=True)
class Service:
    """What a request takes that has the server to itself; prompts and outputs are independent. Times in ms."""

    alone: Alone
    prompts: Table
    outputs: Table

    @property
    def moments(self) -> Moments:
        """E[S] and E[S²], without going through all pairs of lengths.

        S = u(P) + g(O) + c (O - 1) P: the prompt's jobs, the decodes, and what these read of the prompt. (With a cost
        of context, the rounding of each decode is left out.)
        """
        each, c = self._decode_ms
        u = self.alone.prefill_ns(self.prompts.tokens) / NS_PER_MS
        decodes = (self.outputs.tokens - 1).astype(np.float64)
        g = decodes * each + c * decodes * (decodes + 1) / 2
        prompts, outputs = self.prompts, self.outputs
        read = c * prompts.mean() * outputs.mean(decodes)
        mean = prompts.mean(u) + outputs.mean(g) + read
        second = prompts.mean(u * u) + outputs.mean(g * g) + 2 * prompts.mean(u) * outputs.mean(g)
        if c:
            squares = prompts.mean(prompts.tokens.astype(np.float64) ** 2) * outputs.mean(decodes**2)
            second += c * c * squares + 2 * c * prompts.mean(u * prompts.tokens) * outputs.mean(decodes)
            second += 2 * c * prompts.mean() * outputs.mean(g * decodes)
        return Moments(mean, second)

    @property
    def constant_ms(self) -> float | None:
        """The service, if it is the same for all."""
        if self.prompts.only is None or self.outputs.only is None:
            return None
        return float(self.alone.service_ns(self.prompts.tokens, self.outputs.tokens)[0] / NS_PER_MS)

    def by_size(self, believed: int | None) -> list[tuple[int, float, Moments]] | None:
        """(tokens, probability, moments) of those with so many tokens of prompt and output in all, the fewest first.

        ``believed``: what everybody's output is taken for (None: what it is). None: too many pairs of lengths.
        """
        rows, columns = len(self.prompts.tokens), len(self.outputs.tokens)
        if rows * columns > MOST_PAIRS:
            return None
        prompt, output = np.repeat(self.prompts.tokens, columns), np.tile(self.outputs.tokens, rows)
        shares = np.outer(self.prompts.shares, self.outputs.shares).ravel()
        service = self.alone.service_ns(prompt, output) / NS_PER_MS
        sizes, place = np.unique(prompt + (output if believed is None else believed), return_inverse=True)
        share, first, second = (np.bincount(place, shares * service**power) for power in (0, 1, 2))
        rows_of = zip(sizes.tolist(), share.tolist(), first.tolist(), second.tolist(), strict=True)
        return [(size, p, Moments(s / p, q / p)) for size, p, s, q in rows_of if p > 0]

    @property
    def _decode_ms(self) -> tuple[float, float]:
        """Of the first decode after no prompt, less its context; and of each token of context."""
        one = np.array([1])
        device = self.alone.scenario.device
        context = float(device.context_ms_per_token)
        if context:
            return float(device.job_ms + device.decode_ms_per_batch + device.decode_ms_per_request), context
        return float(self.alone.decode_ns(one, one + 1)[0] / NS_PER_MS), 0.0
