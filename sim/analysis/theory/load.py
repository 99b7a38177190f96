"""How many requests a second come (λ), how many can be served at most (λ*), and the load, λ / λ*."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.analysis.theory.alone import longest_chunk
from sim.analysis.theory.laws import Floats, Table, merged
from sim.clock import NS_PER_S
from sim.policies.presets import USES
from sim.record.result import Result
from sim.request import NEVER, Ints, Status

MS_PER_S = 1000


@dataclass(frozen=True)
class Demand:
    """Means over the requests: tokens of the prompt, chunks of it, decodes, tokens of context that these read.

    ``longest``: decodes of the longest of a static batch. ``samples``: sequences of each.
    """

    prompt: float
    chunks: float
    decodes: float
    context: float
    longest: float
    samples: float = 1.0


@dataclass(frozen=True)
class Load:
    """Rates are per second; None where there is no such rate: a single instant of arrivals, a server without cost."""

    arrival_rate: float | None
    saturation_rate: float | None

    @property
    def load(self) -> float | None:
        if self.arrival_rate is None or self.saturation_rate is None:
            return None
        return self.arrival_rate / self.saturation_rate

    @property
    def saturated(self) -> bool:
        """Whether more comes than can be served: the queue grows as long as this goes on."""
        return self.load is not None and self.load >= 1


def arrival_rate(arrival_ns: Ints) -> float | None:
    """(n - 1) / span, per second; None for a single instant."""
    span = int(arrival_ns.max() - arrival_ns.min()) if len(arrival_ns) else 0
    return (len(arrival_ns) - 1) * NS_PER_S / span if span else None


def saturation_rate(settings: Mapping[str, Any], demand: Demand) -> float | None:
    """Requests per second that the device can serve at most, by its linear costs and the limits of the scheduler.

    What a request costs at saturation: c_p P + c_d (O - 1) (+ context), which no batch makes less, and its share of
    the jobs: none where the batch has no limit (λ* = 1 / (c_p P + c_d (O - 1)), whatever a job costs), and with one
    slot all of its jobs. The pool is left out, and so are prefix cache, preemption and faults: with a pool that is too
    small for a full batch, fewer can be served.
    """
    cost = {name: float(settings[f"device.{name}"]) for name in _COSTS}
    ms = cost["prefill_ms_per_token"] * demand.prompt + cost["context_ms_per_token"] * demand.context
    ms += cost["decode_ms_per_request"] * demand.decodes
    prefills, decodes, shared = _jobs(settings, demand)
    ms += cost["job_ms"] * (prefills + decodes - shared) + cost["decode_ms_per_batch"] * decodes
    return MS_PER_S / ms if ms else None


_COSTS = ("job_ms", "prefill_ms_per_token", "decode_ms_per_batch", "decode_ms_per_request", "context_ms_per_token")


def _jobs(settings: Mapping[str, Any], demand: Demand) -> tuple[float, float, float]:
    """Jobs per request at saturation: those that prefill, those that decode, and those that do both."""
    slots, budget = settings["scheduler.max_running"], settings["scheduler.token_budget"]
    together = 0.0 if slots is None else demand.samples / slots  # a request's share of a full batch
    alone = demand.decodes / demand.samples  # its decodes, were they not shared
    composition, at_once = settings["scheduler.composition"], settings["scheduler.prefills_per_job"]
    if settings["scheduler.batching"] == "static":
        return _prefills(composition, at_once, budget, demand, together), demand.longest * together, 0.0
    if composition == "prefill-first":
        return _prefills(composition, at_once, budget, demand, together), alone * together, 0.0
    if composition == "alternate":  # a decode batch after each chunk, while there is anybody to decode
        return demand.chunks, max(min(demand.chunks, alone), alone * together), 0.0
    jobs = max((demand.chunks + alone) * together, (demand.prompt + demand.decodes) / budget if budget else 0.0)
    return jobs, alone * together, alone * together


def _prefills(composition: str, at_once: int, budget: int | None, demand: Demand, together: float) -> float:
    if composition != "prefill-first":
        return demand.chunks if composition == "alternate" else together
    most = 1 / at_once if at_once else demand.prompt / budget if budget else 0.0
    return max(most, together)


def _chunk(settings: Mapping[str, Any]) -> int | None:
    names = ("composition", "chunk_tokens", "chunked_prefill", "token_budget")
    return longest_chunk(*(settings[f"scheduler.{name}"] for name in names))


def of_result(result: Result) -> Load:
    """Of the requests of a run that were not turned away; of a cost model or composition not ours no λ* is known."""
    there = (result.requests["status"] != Status.REJECTED) & (result.requests["arrival_ns"] != NEVER)
    columns = {name: result.requests[name][there] for name in _REQUEST_COLUMNS}
    if result.settings["device.cost"] != "linear" or result.settings["scheduler.composition"] not in USES:
        return Load(arrival_rate(columns["arrival_ns"]), None)
    return of_requests(result.settings, columns)


_REQUEST_COLUMNS = ("arrival_ns", "prompt_tokens", "output_tokens", "samples")


def of_requests(settings: Mapping[str, Any], columns: Mapping[str, Ints]) -> Load:
    """Of requests as they came: columns ``arrival_ns, prompt_tokens, output_tokens, samples``, a row each."""
    order = np.argsort(columns["arrival_ns"], kind="stable")
    prompt, output, samples = (columns[name][order] for name in ("prompt_tokens", "output_tokens", "samples"))
    if not len(order):
        return Load(None, None)
    prompts, outputs = prompt.astype(np.float64), output.astype(np.float64)
    decodes = samples * (outputs - 1)
    slots = settings["scheduler.max_running"] or len(order)
    batches = np.maximum.reduceat(output - 1, np.arange(0, len(order), slots))
    chunk = _chunk(settings)
    demand = Demand(
        prompt=float(prompts.mean()),
        chunks=float(np.ceil(prompts / chunk).mean()) if chunk else 1.0,
        decodes=float(decodes.mean()),
        context=float((samples * ((outputs - 1) * prompts + (outputs - 1) * outputs / 2)).mean()),
        longest=float(batches.mean()),
        samples=float(samples.mean()),
    )
    return Load(arrival_rate(columns["arrival_ns"]), saturation_rate(settings, demand))


def of_laws(settings: Mapping[str, Any], classes: Sequence[tuple[float, Table, Table]]) -> Load:
    """Of requests that are drawn from laws: (rate per second, prompts, outputs) of each class, both independent."""
    rate = sum(each for each, _, _ in classes)
    chunk = _chunk(settings)

    def mean(of: Callable[[Table, Table], float]) -> float:
        return sum(each * of(prompts, outputs) for each, prompts, outputs in classes) / rate

    demand = Demand(
        prompt=mean(lambda prompts, _: prompts.mean()),
        chunks=mean(lambda prompts, _: prompts.mean(np.ceil(prompts.tokens / chunk))) if chunk else 1.0,
        decodes=mean(lambda _, outputs: outputs.mean() - 1),
        context=mean(_context),
        longest=_longest(merged([(each, outputs) for each, _, outputs in classes]), settings["scheduler.max_running"]),
    )
    return Load(rate, saturation_rate(settings, demand))


def _context(prompts: Table, outputs: Table) -> float:
    """Tokens that the decodes of a request read: P + 1, …, P + O - 1."""
    decodes = (outputs.tokens - 1).astype(np.float64)
    return outputs.mean(decodes) * prompts.mean() + outputs.mean(decodes * (decodes + 1) / 2)


def _longest(outputs: Table, slots: int | None) -> float:
    """The mean of the decodes of the longest of so many."""
    if slots is None:
        return float(outputs.tokens[-1] - 1)
    below: Floats = np.concatenate([[0.0], np.minimum(outputs.shares.cumsum(), 1)])
    return float(np.diff(below**slots) @ (outputs.tokens - 1))
