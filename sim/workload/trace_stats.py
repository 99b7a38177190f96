"""What is in a workload: its rate and how uneven it is, its lengths, what its prompts share."""

from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

import numpy as np

from sim.clock import NS_PER_S
from sim.request import Ints, Pieces, Workload

WINDOWS_S = (1, 10, 60)
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

    ``rate_per_s`` is gaps over span; ``cv`` the coefficient of variation of the gaps (population); ``dispersion`` by
    window in seconds the variance-to-mean ratio of the counts in whole windows from the first arrival on. None where
    there is too little to tell. ``tick_ns``: all times are multiples of it. ``tied``: requests that share their time
    with another one, ``most_at_once`` of them at one instant.
    """

    rows: int
    span_ns: int
    rate_per_s: float | None
    cv: float | None
    dispersion: dict[int, float | None]
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
    span = int(times[-1] - times[0]) if len(times) else 0
    gaps = np.diff(times)
    return Stats(
        rows=len(times),
        span_ns=span,
        rate_per_s=len(gaps) * NS_PER_S / span if span else None,
        cv=float(gaps.std() / gaps.mean()) if span and len(gaps) > 1 else None,
        dispersion={seconds: variance_to_mean(times, seconds * NS_PER_S) for seconds in WINDOWS_S},
        distinct_times=len(counts),
        tied=int(counts[counts > 1].sum()),
        most_at_once=int(counts.max(initial=0)),
        tick_ns=gcd(*np.unique(gaps).tolist()),
        prompt=_lengths(workload.prompt_tokens),
        output=_lengths(workload.output_tokens),
        rank_correlation=correlation(ranks(workload.prompt_tokens), ranks(workload.output_tokens)),
        correlation=correlation(workload.prompt_tokens, workload.output_tokens),
        sharing=None if workload.pieces is None else sharing(workload, workload.pieces),
    )


def variance_to_mean(times_ns: Ints, window_ns: int) -> float | None:
    """Of the counts of arrivals (ascending) in whole windows from the first on; None below two windows."""
    windows = int(times_ns[-1] - times_ns[0]) // window_ns if len(times_ns) else 0
    if windows < 2:
        return None
    numbers = (times_ns - times_ns[0]) // window_ns
    edges = np.searchsorted(numbers, np.unique(numbers[numbers < windows]), side="left")
    counts = np.diff(np.append(edges, np.searchsorted(numbers, windows))).astype(float)
    mean = counts.sum() / windows
    return float((counts**2).sum() / windows / mean - mean)  # windows without arrivals count as zeros


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
