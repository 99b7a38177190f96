"""A generated load in words: what was asked for, and what came."""

from collections.abc import Sequence

from sim.generated import Arrivals
from sim.tables import Workload
from sim.workload.measured import Measured

LEAST_CV = 1e-4
"""Below it gaps count as alike."""


def rates_asked(asked: Workload) -> Sequence[Arrivals]:
    """The laws of arrivals: one, or one for each class; none where nothing is generated."""
    if asked.classes is not None:
        return [each.arrivals for each in asked.classes]
    return [] if asked.arrivals is None else [asked.arrivals]


def what_arrives(asked: Workload) -> str:
    """What the law of arrivals is about: a session comes with its first turn."""
    return "request" if asked.sessions is None else "session"


def text_of_asked(asked: Workload) -> str:
    """``4 requests/s, CV of gaps 2 (gamma)``; what a law does not state is left out."""
    tables = rates_asked(asked)
    rates = [table.law.mean_rate_per_s for table in tables]
    known = [float(rate) for rate in rates if rate is not None]
    said = [f"{sum(known):.4g} {what_arrives(asked)}s/s"] if len(known) == len(rates) else []
    cv = tables[0].law.gap_cv if len(tables) == 1 else None
    said += [f"CV of gaps {cv:.3g}"] if cv is not None else []
    names = " + ".join(table.process for table in tables)
    return f"{', '.join(said)} ({names})" if said else names


def text_of_measured(measured: Measured, what: str = "request") -> str:
    """``3.9 requests/s, CV of gaps 2.1, variance to mean 3.2 in 1 s, 4.1 in 10 s (200 requests in 51.2 s)``."""
    said = [] if measured.rate_per_s is None else [f"{measured.rate_per_s:.4g} {what}s/s"]
    said += [] if measured.gap_cv is None else [f"CV of gaps {_visible(measured.gap_cv):.3g}"]
    known = [f"{ratio:.3g} in {seconds} s" for seconds, ratio in measured.dispersion.items() if ratio is not None]
    said += [f"variance to mean {', '.join(known)}"] if known else []
    much = f"{measured.n} {what}{'s' * (measured.n != 1)} in {measured.span_ns / 1e9:.4g} s"
    return f"{', '.join(said)} ({much})" if said else much


def _visible(cv: float) -> float:
    """0 for what the rounding of times to whole ns leaves of gaps that are all alike."""
    return cv if cv >= LEAST_CV else 0.0
