"""Whole scenarios over the product of the axes, and a run of one that can't hang.

Everything is small: what breaks a scheduler is a tie, a last block, a lone slot, and those are found among few requests
with few tokens. Instants are whole or quarter milliseconds, so that ties are common; costs are odd on purpose; most
pools hold the largest request and little more. A scenario is built from nothing but whole numbers between bounds, the
smallest meaning the simplest: Hypothesis draws them for the tests (and shrinks them), a plain seeded generator, which
is much faster, for the large runs.
"""

import random
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple, TypeVar

from hypothesis import strategies as st

import sim
from sim.policies.presets import resolve
from sim.record.result import Result

T = TypeVar("T")
Document = dict[str, Any]
Requests = Sequence[Document]
Number = Callable[[int, int], int]
"""Any whole number from the first to the second."""

MAX_JOBS = 4000
"""More than any scenario drawn here needs (the longest that ended took some hundreds): beyond it, a livelock."""

MAX_SECONDS = 20
"""A run that takes so long without a job turns round inside one decision."""

POLICIES = ("vllm", "fcfs", "chunked", "static", "orca", "sarathi", "vllm-v0", "trtllm-no-evict",
            "trtllm-max-utilization")  # fmt: skip
VICTIMS = ("auto", "last", "lowest-priority", "fewest-tokens", "most-blocks", "longest-remaining", "random")
COMPOSITIONS = ("mixed", "prefill-first", "alternate", "mixed-decode-first")
COSTS = (1, 0, 0, 0.25, 2, 0.000001, 0.0000004, 0.333333333333)


ORDERS = ("fcfs", "lifo", "priority", "sjf", "srpt", "hrrn", "edf", "least-slack", "mlfq", "vtc", "drr", "lpm",
          "random")  # fmt: skip


class HangError(AssertionError):
    """A decision that never ends."""


def run(document: Document) -> Result:
    """Simulate with every check of the engine on. ``LimitError``: too many jobs. :class:`HangError`: too long."""
    bounded = {**document, "run": {**document.get("run", {}), "max_jobs": MAX_JOBS}}
    with _alarm():
        return sim.simulate(sim.load(bounded), check=True)


@contextmanager
def _alarm() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise HangError(f"no end in {MAX_SECONDS} s")

    if not hasattr(signal, "SIGALRM"):  # not on Windows
        yield
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(MAX_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@st.composite
def scenarios(draw: st.DrawFn) -> Document:
    """A scenario's document, drawn by Hypothesis."""
    return Builder(lambda low, high: draw(_between(low, high))).scenario()


@cache
def _between(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


def seeded(seed: int) -> Document:
    """The scenario of this seed: always the same."""
    return Builder(random.Random(seed).randint).scenario()


class Crowd(NamedTuple):
    """What the requests of one scenario have in common, so that many of them want the same memory at one time."""

    span_ms: int
    longest_prompt: int
    longest_output: int
    most_samples: int


class Builder:
    """Builds one scenario out of numbers."""

    def __init__(self, number: Number) -> None:
        self._number = number

    def scenario(self) -> Document:
        requests = self._requests()
        kv = self._pool(requests) if self._chance(6, 7) else None
        faults = self._faults(None if kv is None else kv["blocks"]) if self._chance(1, 3) else None
        return _written(
            schema=1,
            name="drawn",
            workload={"requests": requests},
            device=self._device() if self._chance(1, 2) else None,
            kv=kv,
            scheduler=self._scheduler(),
            faults=faults or None,
            run=_written(seed=self._number(0, 3), horizon_ms=self._of(None, None, None, None, 7.0, 30.25)),
        )

    def _requests(self) -> list[Document]:
        count = self._number(self._of(2, 1), self._of(8, 8, 3))
        crowd = Crowd(
            span_ms=self._of(6, 0, 20),
            longest_prompt=self._of(6, 3, 20),
            longest_output=self._of(8, 14, 2),
            most_samples=self._of(1, 1, 1, 4),
        )
        shares = self._chance(1, 2)
        drawn = [self._request(f"q{place}", crowd) for place in range(count)]
        if shares:
            for place, request in enumerate(drawn):
                self._share(drawn[:place], request)
        if self._chance(1, 2):
            drawn.reverse()  # children before their parents, late ones first
        return drawn

    def _request(self, name: str, crowd: "Crowd") -> Document:
        output = self._number(1, crowd.longest_output)
        arrival = self._instant(crowd.span_ms) if self._number(0, 19) else 400.0
        at = self._number(0, 15)
        before_arrival = max(arrival - 1, 0.0)
        cancel = [arrival, before_arrival, self._instant(40), self._instant(40), 5000.0][at - 11] if at > 10 else None
        return _written(
            id=name,
            arrival_ms=arrival,
            prompt_tokens=self._number(1, crowd.longest_prompt),
            output_tokens=output,
            max_tokens=self._of(None, None, None, output + 1, output + 9),
            priority=self._of(None, -1, 0, 1, 2),
            samples=self._number(1, crowd.most_samples) if crowd.most_samples > 1 else None,
            cancel_ms=cancel,
        )

    def _share(self, before: Sequence[Document], request: Document) -> None:
        """Some begin with a group's tokens, some with those of another request, some with both."""
        prompt = request["prompt_tokens"]
        if self._chance(1, 2):
            request["prefix_group"] = self._of("g", "g", "h")
            request["prefix_tokens"] = self._of(prompt, self._number(0, prompt))
        if before and self._chance(1, 2):
            parent = self._of(*before)
            request["parent"] = parent["id"]
            longest = min(prompt, parent["prompt_tokens"] + parent["output_tokens"])
            request["parent_tokens"] = self._of(longest, self._number(0, longest))

    def _pool(self, requests: Requests) -> Document:
        block_tokens = self._number(1, self._of(3, 3, 16))
        largest = max(_slots(request) for request in requests)
        needed = -(-largest // block_tokens)
        blocks = max(1, needed + (self._number(0, self._of(needed, needed, 1, 10)) if self._number(0, 9) else -1))
        allocation = self._of(None, *["paged"] * 7, "contiguous")
        swap = self._chance(2, 5)
        return _written(
            blocks=blocks,
            block_tokens=block_tokens,
            allocation=allocation,
            gate=self._of(None, *["full"] * 4, *["chunk"] * 4, "reserve"),
            watermark_blocks=self._of(None, None, None, self._number(0, min(3, blocks - 1))),
            prefix_cache=allocation == "paged" and self._chance(2, 3),
            preemption="swap" if swap else self._of(None, "recompute"),
            victim=self._of(None, *VICTIMS),
            swap_blocks=self._number(0, self._of(40, 4)) if swap else None,
            swap_ms_per_block=self._of(None, 0.0, 0.1, 1.0) if swap else None,
        )

    def _scheduler(self) -> Document:
        return _written(
            policy=self._of(*POLICIES),
            batching=self._of(None, None, None, None, "continuous", "static"),
            composition=self._of(None, None, None, *COMPOSITIONS),
            prefills_per_job=self._of(None, None, self._number(0, 3)),
            chunk_tokens=self._of(None, self._number(1, 9)),
            token_budget=self._of(None, None, self._number(1, 12), self._number(1, 64)),
            max_running=self._of(None, None, None, self._number(1, 6)),
            order=self._of(None, None, "fcfs", "priority"),
            chunked_prefill=self._of(None, None, True, False),
            long_prefill_tokens=self._of(None, None, 0, 1, 3, 7),
            max_model_tokens=self._of(None, None, None, None, 0, 2, 9, 24),
        )

    def _device(self) -> Document:
        names = ("job_ms", "prefill_ms_per_token", "decode_ms_per_batch", "decode_ms_per_request",
                 "context_ms_per_token")  # fmt: skip
        costs = {name: self._of(*COSTS) for name in names}
        return costs if any(costs.values()) else {**costs, "job_ms": 1}

    def _faults(self, blocks: int | None) -> list[Document]:
        return [self._fault(blocks) for _ in range(self._number(1, 3))]

    def _fault(self, blocks: int | None) -> Document:
        kind = self._of("crash", "stall", "slow", *(["pool"] * 3 if blocks else []))
        at = self._instant(30)
        until = at + self._of(0.25, 1, 5, 40)
        if kind == "crash":
            return {"kind": kind, "at_ms": at}
        if kind == "slow":
            return {"kind": kind, "at_ms": at, "until_ms": until, "factor": self._of(1, 0.5, 2, 3.7, 0.333)}
        withheld = {"blocks": self._number(1, (blocks or 0) + 1)} if kind == "pool" else {}
        return {"kind": kind, "at_ms": at, "until_ms": until, **withheld}

    def _of(self, *values: T) -> T:
        return values[self._number(0, len(values) - 1)]

    def _chance(self, times: int, of: int) -> bool:
        """True ``times`` out of ``of``."""
        return self._number(1, of) > of - times

    def _instant(self, most: int) -> float:
        """Milliseconds: whole ones more often than quarters."""
        return self._of(float(self._number(0, most)), float(self._number(0, most)), self._number(0, 4 * most) / 4)


def with_order(document: Document, seed: int) -> Document:
    """The same scenario under another order of the queue: any of them, with what it can be combined with."""
    rng = random.Random(f"order {seed}")
    workload = document["workload"]
    if "requests" in workload:
        workload = {"requests": [request | _of_order(rng) for request in workload["requests"]]}
    scheduler = _written(
        order=rng.choice(ORDERS),
        preemptive=rng.choice([None, True, True]),
        ageing=rng.choice([None, None, {"by": "ms", "value": rng.choice([0, 3, 12.5])},
                           {"by": "passes", "value": rng.choice([0, 1, 3])}]),
        predictor=rng.choice([None, "oracle", "declared", "noisy", "rank-noisy"]),
        predictor_error=rng.choice([None, 0, 2.5]),
        mlfq_quantum_tokens=rng.choice([None, 1, 2, 5]),
        mlfq_levels=rng.choice([None, 1, 2, 3]),
        drr_quantum_tokens=rng.choice([None, 1, 3, 8]),
        weights=rng.choice([None, {"a": 2}, {"a": 1, "b": 3}]),
        prompt_token_weight=rng.choice([None, 0, 3]),
        output_token_weight=rng.choice([None, 0, 5]),
    )  # fmt: skip
    return {**document, "workload": workload, "scheduler": {**document.get("scheduler", {}), **scheduler}}


def _of_order(rng: random.Random) -> Document:
    """What only some orders look at in a request."""
    deadline = {"deadline_ms": rng.choice([0, 5, 9.5, 20, 300])} if rng.random() < 0.7 else {}
    return {"tenant": rng.choice("abc"), **deadline}


PROCESSES: tuple[Document, ...] = (
    {"process": "poisson", "rate_per_s": 300},
    {"process": "deterministic", "rate_per_s": 250},
    {"process": "gamma", "rate_per_s": 300, "cv": 3},
    {"process": "gamma", "rate_per_s": 300, "burstiness": float("inf")},
    {"process": "weibull", "rate_per_s": 300, "shape": 0.5},
    {"process": "hyperexponential", "rate_per_s": 300, "cv": 2},
    {"process": "mmpp", "rates_per_s": [30, 900], "mean_sojourn_ms": [20, 10]},
    {"process": "on-off", "rate_per_s": 900, "on_ms": 5, "off_ms": 10},
    {"process": "sinusoid", "rate_per_s": 300, "amplitude": 0.9, "period_ms": 30},
    {"process": "piecewise-linear", "points": [[0, 50], [20, 900]], "period_ms": 40},
    {"process": "steps", "points": [[0, 50], [20, 900]], "period_ms": 40},
    {"process": "ramp", "from_per_s": 50, "to_per_s": 900, "over_ms": 40},
    {"process": "hawkes", "base_per_s": 150, "branching": 0.6, "decay_ms": 4},
    {"process": "batch", "size": 3, "period_ms": 8},
    {"process": "poisson", "rate_per_s": 300, "tick_ms": 5},
    {"process": "poisson", "rate_per_s": 300, "exact_rate": True},
)
LENGTHS: tuple[Document, ...] = (
    {"distribution": "geometric", "mean": 4},
    {"distribution": "lognormal", "mean": 5, "cv": 1, "max": 20},
    {"distribution": "gamma", "mean": 5, "cv": 2, "max": 20},
    {"distribution": "normal", "mean": 6, "std": 4, "max": 15},
    {"distribution": "zipf", "theta": 1.1, "min": 1, "max": 30},
    {"distribution": "choice", "values": [1, 2, 19]},
    {"distribution": "mixture", "components": [{"weight": 1, "distribution": "fixed", "value": 2},
                                               {"weight": 1, "distribution": "uniform", "min": 5, "max": 9}]},
    {"distribution": "uniform-vllm", "length": 8, "range_ratio": 0.5},
)  # fmt: skip


def generated(document: Document, seed: int) -> Document:
    """The same server under requests that are drawn: any process, any lengths, one class of them or two."""
    rng = random.Random(f"generated {seed}")

    def traffic(**more: object) -> Document:
        return {"count": rng.randint(2, 9), "arrivals": rng.choice(PROCESSES), "prompt_tokens": rng.choice(LENGTHS),
                "output_tokens": rng.choice(LENGTHS), **more}  # fmt: skip

    several = {"classes": [traffic(name=name, tenant=name, priority=place, deadline_after_ms=rng.choice([5, 50]))
                           for place, name in enumerate("ab")]}  # fmt: skip
    kv = document.get("kv")
    if kv is not None:
        kv = {**kv, "blocks": max(kv["blocks"], rng.choice([20, 60, 90]) // kv["block_tokens"] + 1)}
    workload = several if rng.random() < 0.5 else traffic(correlation=rng.choice([-0.8, 0.5, 1]))
    return _written(**{**document, "workload": workload, "kv": kv})


def left_out(document: Document) -> bool:
    """No fault, and no test: under gate ``chunk`` and a fault of the pool, the first chunk fits and the next does not.

    The lone request preempts itself and is admitted again at once, job after job until the fault is over: millions of
    jobs when each takes next to no time.
    """
    kv = resolve(sim.load(document)).kv
    device = document.get("device", {"job_ms": 0.25})
    instant = device["job_ms"] + device.get("prefill_ms_per_token", 0) < 0.001
    withheld = any(fault["kind"] == "pool" for fault in document.get("faults", ()))
    return instant and withheld and kv is not None and kv.gate == "chunk"


def _slots(request: Document) -> int:
    """Token slots of the request at its largest, roughly."""
    return int(request["prompt_tokens"] + request.get("samples", 1) * (request["output_tokens"] - 1))


def _written(**values: object) -> Document:
    return {key: value for key, value in values.items() if value is not None}
