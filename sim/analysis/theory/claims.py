"""What theory says of a scenario, and how a simulation is asked whether it is so."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from sim.analysis.theory.laws import Floats
from sim.analysis.theory.paths import BusyPeriods, busy_periods
from sim.clock import NS_PER_MS
from sim.record.result import Result
from sim.record.tables import Table
from sim.request import Ints, Status

HEAD, TAIL = 10, 5
"""Percent of the requests, by arrival, that no stationary mean counts: a run begins empty and ends empty."""

RELAXATIONS = 3
"""So many relaxation times have to pass before the first request that is counted."""

SIGMAS, STANDARD_RUNS = 4, 24
"""An exact result may be off by 4 standard errors of 24 replications; of fewer, by as many as are as improbable."""


class Sample:
    """One replication, seen from the arrivals: rows in the order of arrival."""

    def __init__(self, result: Result) -> None:
        self.result = result
        columns = result.requests
        self.order = np.argsort(columns["arrival_ns"], kind="stable")
        self.columns: Table = {name: column[self.order] for name, column in columns.items()}

    def __len__(self) -> int:
        return len(self.order)

    @property
    def all_finished(self) -> bool:
        return bool((self.columns["status"] == Status.FINISHED).all())

    @property
    def kept(self) -> slice:
        """The rows that stationary means are taken of."""
        return slice(-(-len(self) * HEAD // 100), len(self) - len(self) * TAIL // 100)

    @property
    def head_ms(self) -> float:
        """From the first arrival to the first that is counted."""
        arrival_ns = self.columns["arrival_ns"]
        if not len(self):
            return 0.0
        return float((arrival_ns[min(self.kept.start, len(self) - 1)] - arrival_ns[0]) / NS_PER_MS)

    @cached_property
    def wait_ns(self) -> Ints:
        return self.columns["first_scheduled_ns"] - self.columns["arrival_ns"]

    @cached_property
    def busy(self) -> BusyPeriods:
        """Those that begin with a row that is kept: so each is whole, and none is left out for being long."""
        periods = busy_periods(self.columns["arrival_ns"], self.columns["finish_ns"])
        first = np.cumsum(periods.served) - periods.served
        mine = (first >= self.kept.start) & (first < self.kept.stop)
        return BusyPeriods(*(column[mine] for column in periods))

    def mean_ms(self, values_ns: Ints, among: Ints | None = None) -> float | None:
        """Of a value per row, over those that are kept (``among``: of them, those where it is true)."""
        kept = values_ns[self.kept] if among is None else values_ns[self.kept][among[self.kept].astype(bool)]
        return float(kept.mean() / NS_PER_MS) if len(kept) else None


Measure = Callable[[Sample], float | None]
"""A figure of one replication; None when it has none."""


class Control(NamedTuple):
    """A figure of which the expectation is known: what it is off by tells what else is off by chance."""

    measure: Measure
    expected: float


@dataclass(frozen=True)
class Stationary:
    """A mean, a probability or a quantile in the stationary state.

    ``slack``: what the theory itself may be off by, relatively; 0 if it is exact. ``rough``: it is an approximation.
    ``bound``: the simulated value may be as much below as it likes. ``settles_ms``: the relaxation time, in which the
    server forgets how it began. ``otherwise``: why nothing can be said when a run has no such figure.
    """

    name: str
    unit: str
    theory: float
    measure: Measure
    slack: float = 0.0
    rough: bool = False
    bound: bool = False
    controls: Sequence[Control] = ()
    settles_ms: float = 0.0
    otherwise: str = "some requests did not finish"


class Comparison(NamedTuple):
    """Of one path: a figure that theory and simulation have in common, and how many of all instants are not equal."""

    theory: float
    simulated: float
    different: int


@dataclass(frozen=True)
class Path:
    """What holds of every run, to the last nanosecond. ``compare`` answers None when the run has no such thing."""

    name: str
    unit: str
    compare: Callable[[Sample], Comparison | None]
    otherwise: str = "no request finished"
    bound: bool = False


@dataclass(frozen=True)
class Quantile:
    """A quantile in the stationary state, of values of all replications together: of one alone it is biased."""

    name: str
    unit: str
    theory: float
    probability: float
    values_ms: Callable[[Sample], Floats]
    settles_ms: float = 0.0
    bound: bool = False
    otherwise: str = "some requests did not finish"


Claim = Stationary | Quantile | Path


@dataclass(frozen=True)
class Finding:
    """A claim and what became of it. ``standard_error`` None: of one replication there is none."""

    claim: Claim
    theory: float
    simulated: float
    standard_error: float | None
    verdict: str

    @property
    def name(self) -> str:
        return self.claim.name

    @property
    def unit(self) -> str:
        return self.claim.unit

    @property
    def error_percent(self) -> float | None:
        """Of the simulated value, relatively to the theory; None beside a bound."""
        return 100 * (self.simulated / self.theory - 1) if self.theory and not self.claim.bound else None


class Estimate(NamedTuple):
    """Over independent replications: the mean, its standard error (None for one of them), its degrees of freedom."""

    mean: float
    standard_error: float | None
    freedom: int


@dataclass
class Replications:
    """What the claims of a scenario measured, run after run: a number each, for a quantile a column."""

    claims: Sequence[Claim]
    measured: list[list[Any]] = field(default_factory=list)
    head_ms: list[float] = field(default_factory=list)
    requests: int = 0
    controlled: list[list[list[float | None]]] = field(default_factory=list)

    def add(self, sample: Sample) -> None:
        self.requests = len(sample)
        self.head_ms.append(sample.head_ms)
        self.measured.append([_asked(claim, sample) for claim in self.claims])
        self.controlled.append(
            [[k.measure(sample) for k in c.controls] if isinstance(c, Stationary) else [] for c in self.claims]
        )

    def finding(self, claim: Claim) -> Finding | None:
        """What became of the claim; None when a run has no such figure (of a path: when none has)."""
        place = self.claims.index(claim)
        column = [row[place] for row in self.measured]
        if isinstance(claim, Path):
            paths = [value for value in column if isinstance(value, Comparison)]
            return _of_paths(claim, paths) if paths else None
        if any(value is None for value in column):
            return None
        if isinstance(claim, Quantile):
            return self._judged(claim, pooled_quantile(column, claim.probability))
        controls = np.array([row[place] for row in self.controlled], dtype=np.float64).reshape(len(column), -1)
        expected = np.array([control.expected for control in claim.controls])
        return self._judged(claim, estimate(np.array(column, dtype=np.float64), controls - expected))

    def _judged(self, claim: Stationary | Quantile, found: Estimate) -> Finding:
        """What is off is held against the theory only if the run was long enough to forget its beginning."""
        finding = _judged(claim, found)
        head_ms = min(self.head_ms)
        if finding.verdict != "differs" or head_ms >= RELAXATIONS * claim.settles_ms:
            return finding
        needed = RELAXATIONS * claim.settles_ms / head_ms * self.requests if head_ms else float("inf")
        return replace(finding, verdict=f"not judged: too short; it takes {needed:,.0f} requests")


def _asked(claim: Claim, sample: Sample) -> Any:
    if isinstance(claim, Path):
        return claim.compare(sample)
    if not sample.all_finished:
        return None
    return claim.measure(sample) if isinstance(claim, Stationary) else claim.values_ms(sample)


def pooled_quantile(runs: Sequence[Floats], probability: float) -> Estimate:
    """A quantile of the values of all runs together; its standard error by leaving out one run after another.

    Source: Efron and Tibshirani (1993), "An Introduction to the Bootstrap", chapter 11 (the jackknife).
    """
    whole = float(np.quantile(np.concatenate(runs), probability))
    n = len(runs)
    if n == 1:
        return Estimate(whole, None, 0)
    without = np.array([np.quantile(np.concatenate([*runs[:k], *runs[k + 1 :]]), probability) for k in range(n)])
    return Estimate(whole, sqrt((n - 1) * float(without.var())), n - 1)


def estimate(values: Floats, errors: Floats | None = None) -> Estimate:
    """Of independent replications. ``errors``: a row each, what the controls are off by.

    With controls, the mean where these are as expected, by linear regression. Source: Lavenberg and Welch (1981), "A
    perspective on the use of control variables to increase the efficiency of Monte Carlo simulations".
    """
    n = len(values)
    if n == 1:
        return Estimate(float(values[0]), None, 0)
    varying = [] if errors is None else [column / np.ptp(column) for column in errors.T if np.ptp(column) > 0]
    design = np.column_stack([np.ones(n), *varying])
    freedom = n - design.shape[1]
    if freedom < 1:
        design, freedom = design[:, :1], n - 1
    coefficients, *_ = np.linalg.lstsq(design, values, rcond=None)
    residual = values - design @ coefficients
    of_mean = np.linalg.pinv(design.T @ design)[0, 0]
    return Estimate(float(coefficients[0]), sqrt(float(residual @ residual) / freedom * float(of_mean)), freedom)


def allowed_errors(freedom: int) -> float:
    """How many standard errors an exact result may be off by: as improbable as 4 of them with 24 replications."""
    from scipy.stats import t

    return float(t.isf(t.sf(SIGMAS, STANDARD_RUNS - 1), freedom))


def _judged(claim: Stationary | Quantile, found: Estimate) -> Finding:
    relative, rough = (claim.slack, claim.rough) if isinstance(claim, Stationary) else (0.0, False)
    slack = relative * abs(claim.theory)
    distance = found.mean - claim.theory if claim.bound else abs(found.mean - claim.theory)
    verdict = f"approximation within {100 * relative:.3g} %" if rough else "agrees"
    if found.standard_error is None:
        verdict = verdict if rough and distance <= slack else "not judged: one replication"
    elif distance > allowed_errors(found.freedom) * found.standard_error + slack:
        verdict = "differs"
    return Finding(claim, claim.theory, found.mean, found.standard_error, verdict)


def _of_paths(claim: Path, paths: Sequence[Comparison]) -> Finding:
    theory, simulated = (float(np.mean(values)) for values in list(zip(*paths, strict=True))[:2])
    verdict = "differs" if any(path.different for path in paths) else "agrees"
    return Finding(claim, theory, simulated, 0.0 if len(paths) > 1 else None, verdict)
