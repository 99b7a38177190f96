"""What is in a workload: its rate and how uneven it is, its lengths, what its prompts share."""

from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

import numpy as np

from sim.request import Ints, Pieces, Workload
from sim.workload.measured import Measured, measure

QUANTILES = (50, 90, 99)


class Lengths(NamedTuple):
    """Tokens of prompts or of outputs; quantiles are linear, as NumPy's."""

    mean: float
    p50: float
    p90: float
    p99: float
    min: int
    max: int
    zero: int


class Sharing(NamedTuple):
    """What an infinite prefix cache, filled by every prompt at its arrival, would serve. ``ids``: different texts."""

    ids: int
    pieces: int
    covered_tokens: int
    """Of all prompt tokens, those that belong to a piece."""
    served_tokens: int
    """Of all prompt tokens, those with which an earlier prompt began in the same way."""


@dataclass(frozen=True)
class Stats:
    """Figures of the requests of one workload.

    ``arrivals``: how they come. ``tick_ns``: all times are multiples of it. ``tied``: requests that share their time
    with another one, ``most_at_once`` of them at one instant.
    """

    arrivals: Measured
    distinct_times: int
    tied: int
    most_at_once: int
    tick_ns: int
    prompt: Lengths | None
    output: Lengths | None
    rank_correlation: float | None
    correlation: float | None
    sharing: Sharing | None


def stats(workload: Workload) -> Stats:
    """The figures, whatever the order of the requests."""
    times = np.sort(workload.arrival_ns)
    _, counts = np.unique(times, return_counts=True)
    return Stats(
        arrivals=measure(times),
        distinct_times=len(counts),
        tied=int(counts[counts > 1].sum()),
        most_at_once=int(counts.max(initial=0)),
        tick_ns=gcd(*np.unique(np.diff(times)).tolist()),
        prompt=_lengths(workload.prompt_tokens),
        output=_lengths(workload.output_tokens),
        rank_correlation=correlation(ranks(workload.prompt_tokens), ranks(workload.output_tokens)),
        correlation=correlation(workload.prompt_tokens, workload.output_tokens),
        sharing=None if workload.pieces is None else sharing(workload, workload.pieces),
    )


def _lengths(tokens: Ints) -> Lengths | None:
    if not len(tokens):
        return None
    p50, p90, p99 = np.percentile(tokens, QUANTILES).tolist()
    return Lengths(float(tokens.mean()), p50, p90, p99, int(tokens.min()), int(tokens.max()), int((tokens == 0).sum()))


def ranks(values: Ints) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """From 1 on; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    after = np.cumsum(counts)
    mean: np.ndarray[tuple[int], np.dtype[np.float64]] = (after - (counts - 1) / 2)[inverse]
    return mean


def correlation(first: "np.ndarray[tuple[int], np.dtype[np.float64]] | Ints", other: "Ints | object") -> float | None:
    """Pearson's; None where one of them does not vary."""
    a, b = np.asarray(first, dtype=float), np.asarray(other, dtype=float)
    if len(a) < 2 or not a.std() or not b.std():
        return None
    return float(np.corrcoef(a, b)[0, 1])


def sharing(workload: Workload, pieces: Pieces) -> Sharing:
    """Walks the prompts in order of arrival through a tree of the pieces seen so far."""
    seen: dict[tuple[int, int, int], tuple[int, int]] = {}
    served = 0
    for index in workload.in_order_of_arrival().tolist():
        node, start, following = 0, 0, True
        for id_, of_piece in pieces.of_request(index):
            tokens = min(of_piece, int(workload.prompt_tokens[index]) - start)
            key = (node, start, id_)
            start += tokens
            number, longest = seen.get(key, (len(seen) + 1, 0))
            if following:
                served += min(tokens, longest)
                following = tokens <= longest
            seen[key] = number, max(tokens, longest)
            node = number
    covered = int(np.minimum(np.add.reduceat(np.append(pieces.tokens, 0), pieces.offsets[:-1]) * (pieces.counts > 0),
                             workload.prompt_tokens).sum())  # fmt: skip
    return Sharing(len(np.unique(pieces.ids)), len(pieces.ids), covered, served)
