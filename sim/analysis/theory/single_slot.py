"""The theories of a single slot: one request after another, as a queue with one server."""

from collections.abc import Callable, Iterator
from math import inf

import numpy as np

from sim.analysis.theory.claims import Claim, Comparison, Path, Quantile, Sample, Stationary
from sim.analysis.theory.facts import MS_PER_S, DoesNotApply, Facts, need, settling
from sim.analysis.theory.laws import Floats, Service, Table
from sim.analysis.theory.load import arrival_rate
from sim.analysis.theory.paths import by_key, lindley
from sim.analysis.theory.queues import (
    MD1,
    Stream,
    busy_period,
    closed_loop,
    conserved,
    gamma_gaps,
    kingman_bound,
    mean_wait,
    priority_waits,
    renewal_wait,
)
from sim.clock import NS_PER_MS
from sim.request import Ints, Status
from sim.workload.renewal import Deterministic, Gamma

FEW = 4
"""So many classes of lengths are shown one by one."""

LEAST_MEAN = 100
"""The shortest mean of geometric lengths that pass for exponential ones."""


def wait_ms(sample: Sample) -> float | None:
    return sample.mean_ms(sample.wait_ns)


def no_wait(sample: Sample) -> float | None:
    return float((sample.wait_ns[sample.kept] == 0).mean())


def one_by_one(facts: Facts) -> Iterator[Claim]:
    """Every run, whatever its arrivals: Lindley's recursion, or the same with a key."""
    facts.single_slot()
    facts.has_keys()

    def compare(sample: Sample) -> Comparison | None:
        served = sample.columns["status"] == Status.FINISHED
        if not served.any():
            return None
        prompt, output, arrival, finish = (
            sample.columns[name][served] for name in ("prompt_tokens", "output_tokens", "arrival_ns", "finish_ns")
        )
        service, wait = facts.alone.service_ns(prompt, output), sample.wait_ns[served]
        fcfs = facts.axes.order == "fcfs"
        expected = lindley(arrival, service) if fcfs else by_key(arrival, service, facts.key(sample)[served])
        different = int(((wait != expected) | (finish != arrival + expected + service)).sum())
        return Comparison(float(expected.mean() / NS_PER_MS), float(wait.mean() / NS_PER_MS), different)

    name = "Lindley" if facts.axes.order == "fcfs" else f"one by one, {facts.axes.order}"
    yield Path(f"{name}: mean wait", "ms", compare)


def _poisson(facts: Facts) -> Stream:
    facts.single_slot()
    facts.poisson()
    stream = facts.stream()
    facts.below_saturation(stream.load)
    return stream


def relaxation_ms(facts: Facts) -> float:
    """The relaxation time of the work that waits, as of a Brownian motion with the same drift and variance.

    2 σ² / drift², σ² = λ E[S]² (c_A² + c_S²). Source: Whitt (1989), "Planning queueing simulations".
    """
    rate, service = facts.stream()
    law = facts.sources[0].law
    gap_cv = (law.gap_cv or 0.0) if len(facts.sources) == 1 else 1.0
    return 2 * rate * (service.variance + (service.mean * gap_cv) ** 2) / (1 - rate * service.mean) ** 2


@settling(relaxation_ms)
def constant_service(facts: Facts) -> Iterator[Claim]:
    """M/D/1."""
    _poisson(facts)
    service = facts.constant_service()
    queue = MD1(facts.rate * service)
    yield Stationary("M/D/1: P(no wait)", "", 1 - queue.load, no_wait)
    yield Stationary("M/D/1: mean busy period", "ms", queue.busy_mean * service, _busy_mean)
    yield Stationary("M/D/1: variance of busy periods", "ms²", queue.busy_variance * service**2, _busy_variance)
    for count in (1, 2):
        theory = queue.served_in_busy_period(count)
        yield Stationary(f"M/D/1: P({count} served in a busy period)", "", theory, _served(count))
    facts.blind()
    yield Stationary("M/D/1: mean wait", "ms", queue.mean_wait * service, wait_ms)
    if facts.axes.order == "fcfs":
        for time in (1, 2, 5):
            theory = queue.wait_at_most(time)
            yield Stationary(f"M/D/1: P(wait <= {time} S)", "", theory, _at_most(time * service))
        for percent in (90, 95, 99):
            theory = queue.wait_quantile(percent / 100) * service
            yield Quantile(f"M/D/1: wait p{percent}", "ms", theory, percent / 100, _waits_ms)


@settling(relaxation_ms)
def any_service(facts: Facts) -> Iterator[Claim]:
    """M/G/1."""
    stream = _poisson(facts)
    try:
        facts.constant_service()
    except DoesNotApply:
        pass
    else:
        raise DoesNotApply("all services are the same: M/D/1 says more")
    yield Stationary("M/G/1: P(no wait)", "", 1 - stream.load, no_wait)
    yield Stationary("M/G/1: mean busy period", "ms", busy_period(*stream).mean, _busy_mean)
    facts.blind()
    if facts.axes.order == "priority" and len(facts.priorities) > 1:
        return  # with services of their own, the mean depends on the order
    yield Stationary("M/G/1: mean wait (Pollaczek-Khinchine)", "ms", mean_wait(*stream), wait_ms)


@settling(relaxation_ms)
def conservation(facts: Facts) -> Iterator[Claim]:
    """Kleinrock's law."""
    stream = _poisson(facts)

    def measure(sample: Sample) -> float | None:
        columns, kept = sample.columns, sample.kept
        service = facts.alone.service_ns(columns["prompt_tokens"][kept], columns["output_tokens"][kept])
        product = service.astype(np.float64) * sample.wait_ns[kept]
        return stream.rate * float(product.mean()) / NS_PER_MS**2

    yield Stationary("conservation law: load x wait", "ms", conserved(*stream), measure)


@settling(relaxation_ms)
def priorities(facts: Facts) -> Iterator[Claim]:
    """Cobham's formula."""
    need(facts.axes.order == "priority", f"order {facts.axes.order}, not priority")
    _poisson(facts)
    need(len(facts.priorities) > 1, "all have the same priority")
    need(facts.axes.ageing is None, "ageing changes the order of those who wait")
    groups = [[s for s in facts.sources if s.priority == priority] for priority in facts.priorities]
    waits = priority_waits([facts.stream(group) for group in groups])
    for priority, wait in zip(facts.priorities, waits, strict=True):
        yield Stationary(f"priorities (Cobham): mean wait at {priority}", "ms", wait, _of_priority(priority))
    shares = [sum(s.rate for s in group) / facts.rate for group in groups]
    overall = sum(share * wait for share, wait in zip(shares, waits, strict=True))
    yield Stationary("priorities (Cobham): mean wait of all", "ms", overall, wait_ms)


@settling(relaxation_ms)
def shortest_first(facts: Facts) -> Iterator[Claim]:
    """Cobham's formula, each length a class."""
    need(facts.axes.order in {"sjf", "srpt"}, f"order {facts.axes.order}, not sjf")
    _poisson(facts)
    facts.has_keys()
    facts.same_lengths()
    (source,) = facts.sources
    sizes = Service(facts.alone, source.prompts, source.outputs).by_size(facts.believed_output())
    if sizes is None:
        raise DoesNotApply("too many pairs of lengths")
    waits = priority_waits([Stream(source.rate * p, moments) for _, p, moments in sizes])
    overall = sum(p * wait for (_, p, _), wait in zip(sizes, waits, strict=True))
    yield Stationary("shortest job first: mean wait", "ms", overall, wait_ms)
    if 1 < len(sizes) <= FEW:
        for (size, *_), wait in zip(sizes, waits, strict=True):
            yield Stationary(f"shortest job first: mean wait at {size} tokens", "ms", wait, _of_size(facts, size))


@settling(relaxation_ms)
def exponential_service(facts: Facts) -> Iterator[Claim]:
    """G/M/1, geometric lengths standing for exponential ones."""
    facts.single_slot()
    facts.in_order_of_arrival()
    source = facts.renewal()
    mean, slack = exponential(facts, source.prompts, source.outputs)
    if not isinstance(source.law, (Gamma, Deterministic)):
        raise DoesNotApply(f"the transform of {source.process} gaps is not known here")
    shape = source.law.shape if isinstance(source.law, Gamma) else inf
    facts.below_saturation(source.rate * mean)
    theory = renewal_wait(source.rate, mean, gamma_gaps(source.rate, shape))
    yield Stationary("G/M/1: mean wait", "ms", theory, wait_ms, slack=slack)


def exponential(facts: Facts, prompts: Table, outputs: Table) -> tuple[float, float]:
    """The mean service in ms, and what it costs that geometric lengths of mean m are not exponential: about 1 / m."""
    moments = Service(facts.alone, prompts, outputs).moments
    geometric = outputs.only == 1 and _is_geometric(facts, prompts)
    need(geometric, "services are not exponential (prompts of a geometric law, one output token, no cost of a job)")
    mean_tokens = prompts.mean()
    need(mean_tokens >= LEAST_MEAN, f"mean prompt {mean_tokens:.4g}: below {LEAST_MEAN}, geometric is not exponential")
    return moments.mean, 1 / mean_tokens


def _is_geometric(facts: Facts, prompts: Table) -> bool:
    """Whether the service is a geometric number of like pieces: each further token is as probable as the one before."""
    device, shares = facts.scenario.device, prompts.shares
    whole = facts.alone.chunk is None or facts.alone.chunk >= prompts.tokens[-1]
    if device.job_ms or not whole or len(shares) < LEAST_MEAN:
        return False
    main = shares[: int(np.searchsorted(shares.cumsum(), 0.999))]
    ratios = main[1:] / main[:-1]
    return int(prompts.tokens[0]) == 1 and bool(np.ptp(ratios) < 1e-6)


def users_in_a_loop(facts: Facts) -> Iterator[Claim]:
    """Mean value analysis."""
    facts.single_slot()
    facts.in_order_of_arrival()
    loop = facts.loop
    mean, slack = exponential(facts, loop.prompts, loop.outputs)
    found = closed_loop(loop.users, loop.think_ms, mean)
    settles = loop.think_ms + found.response
    for name, unit, theory, measure in (
        ("mean response", "ms", found.response, _response_ms),
        ("throughput", "/s", found.throughput * MS_PER_S, _throughput_per_s),
    ):
        yield Stationary(f"closed loop: {name}", unit, theory, measure, slack=slack, settles_ms=settles)


def _response_ms(sample: Sample) -> float | None:
    return sample.mean_ms(sample.columns["e2e_ns"])


def _throughput_per_s(sample: Sample) -> float | None:
    return arrival_rate(sample.columns["arrival_ns"][sample.kept])


@settling(relaxation_ms)
def bound_by_variances(facts: Facts) -> Iterator[Claim]:
    """Kingman's bound."""
    facts.single_slot()
    facts.in_order_of_arrival()
    source = facts.renewal()
    stream = facts.stream()
    facts.below_saturation(stream.load)
    cv = source.law.gap_cv or 0.0
    theory = kingman_bound(stream.rate, (cv / stream.rate) ** 2, stream.service)
    yield Stationary("Kingman: mean wait (bound)", "ms", theory, wait_ms, bound=True)


def _busy_ms(sample: Sample) -> Floats:
    return np.asarray((sample.busy.end_ns - sample.busy.start_ns) / NS_PER_MS)


def _busy_mean(sample: Sample) -> float | None:
    return float(_busy_ms(sample).mean()) if len(sample.busy.served) else None


def _busy_variance(sample: Sample) -> float | None:
    return float(_busy_ms(sample).var(ddof=1)) if len(sample.busy.served) > 1 else None


def _served(count: int) -> Callable[[Sample], float | None]:
    return lambda sample: float((sample.busy.served == count).mean()) if len(sample.busy.served) else None


def _at_most(ms: float) -> Callable[[Sample], float | None]:
    return lambda sample: float((sample.wait_ns[sample.kept] <= ms * NS_PER_MS).mean())


def _waits_ms(sample: Sample) -> Floats:
    return np.asarray(sample.wait_ns[sample.kept] / NS_PER_MS)


def _of_priority(priority: int) -> Callable[[Sample], float | None]:
    def measure(sample: Sample) -> float | None:
        mine = sample.result.record.workload.priority[sample.order] == priority
        return sample.mean_ms(sample.wait_ns, mine.astype(np.int64))

    return measure


def _of_size(facts: Facts, size: int) -> Callable[[Sample], float | None]:
    def measure(sample: Sample) -> float | None:
        mine: Ints = (facts.key(sample) == size).astype(np.int64)
        return sample.mean_ms(sample.wait_ns, mine)

    return measure
