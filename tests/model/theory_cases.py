"""The cases in which theory and simulation are compared: scenarios, and the values that theory is known to give.

Units: one prompt token takes 1 ms in a single slot, a step of constant length 1 ms, so that ms are mean services or
steps wherever nothing else is said. Every value is from the literature or worked out apart from this program.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sim

Document = dict[str, Any]
UNLIMITED = 10**6
ONE = {"distribution": "fixed", "value": 1}
GEOMETRIC = {"distribution": "geometric", "mean": 1000}
"""Stands for an exponential service: of 1,000 tokens of 1 µs each."""


@dataclass(frozen=True)
class Case:
    """``values``: results by name, in the units of the scenario. ``tail``: how many digits they have.

    ``requests`` in each replication; ``load`` sets the bound on the standard error. ``short``: whether it belongs to
    the short form.
    """

    name: str
    load: float
    requests: int
    workload: Document
    device: Document
    scheduler: Document
    values: Mapping[str, float] = field(default_factory=dict)
    accuracy: float = 2e-6
    short: bool = True

    def scenario(self, requests: int | None = None) -> sim.Scenario:
        workload: Document = {"count": requests or self.requests, **self.workload}
        document = {"schema": 1, "name": "theory", "workload": workload}
        return sim.load({**document, "device": self.device, "scheduler": self.scheduler})

    @property
    def most_error(self) -> float:
        """Largest relative standard error."""
        return 0.025 if self.load <= 0.8 else 0.07 if self.load <= 0.9 else 0.10


def poisson(per_ms: float, prompt: Document, output: Document = ONE) -> Document:
    arrivals = {"process": "poisson", "rate_per_s": round(1000 * per_ms, 9)}
    return {"arrivals": arrivals, "prompt_tokens": prompt, "output_tokens": output}


def fixed(tokens: int) -> Document:
    return {"distribution": "fixed", "value": tokens}


def choice(values: Sequence[int], weights: Sequence[float]) -> Document:
    return {"distribution": "choice", "values": list(values), "weights": list(weights)}


PER_TOKEN, PER_1000 = {"prefill_ms_per_token": 1}, {"prefill_ms_per_token": 0.001}
SLOT: Document = {"policy": "fcfs", "max_running": 1}
WAIT = "mean wait"


# --- one slot --------------------------------------------------------------------------------------------------------

MD1_LAWS: Mapping[float, tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]] = {
    0.5: ((0.824361, 0.946961, 0.998764), (1.5157, 2.0506, 3.3363), (0.606531, 0.183940)),
    0.8: ((0.445108, 0.634520, 0.899503), (5.0115, 6.6203, 10.3559), (0.449329, 0.161517)),
    0.9: ((0.245960, 0.383600, 0.668709), (10.7825, 14.1287, 21.8982), (0.406570, 0.148769)),
    0.95: ((), (), ()),
}
MD1_MEANS = {0.5: (0.5, 2, 4), 0.8: (2, 5, 100), 0.9: (4.5, 10, 900), 0.95: (9.5, 20, None)}
MD1_REQUESTS = {0.5: 6_000, 0.8: 60_000, 0.9: 22_000, 0.95: 25_000}


def constant_services() -> Iterator[Case]:
    for load, (below, quantiles, served) in MD1_LAWS.items():
        wait, busy, variance = MD1_MEANS[load]
        values = {WAIT: wait, "P(no wait)": 1 - load, "mean busy period": busy}
        values |= {} if variance is None else {"variance of busy periods": variance}
        values |= {f"P(wait <= {t} S)": p for t, p in zip((1, 2, 5), below, strict=False)}
        values |= {f"P({n} served in a busy period)": p for n, p in zip((1, 2), served, strict=False)}
        values |= {f"wait p{q}": v for q, v in zip((90, 95, 99), quantiles, strict=False)}
        yield Case(
            f"M/D/1 {load}", load, MD1_REQUESTS[load], poisson(load, fixed(1)), PER_TOKEN, SLOT,
            {f"M/D/1: {name}": value for name, value in values.items()}, accuracy=5e-5,
        )  # fmt: skip


TWO_POINT = choice((1, 10), (0.9, 0.1))
PK = "M/G/1: mean wait (Pollaczek-Khinchine)"
ERLANG_4 = {"distribution": "gamma", "mean": 1000, "cv": 0.5}


def any_services() -> Iterator[Case]:
    for load, wait, n in ((0.5, 1.0, 7_000), (0.8, 4.0, 22_000), (0.9, 9.0, 12_000), (0.95, 19.0, 45_000)):
        # The geometric law has E[S²] = 2 - 1/1000 instead of 2.
        yield Case(f"M/M/1 {load}", load, n, poisson(load, GEOMETRIC), PER_1000, SLOT, {PK: wait}, accuracy=6e-4)
    yield Case("M/E4/1 0.8", 0.8, 11_000, poisson(0.8, ERLANG_4), PER_1000, SLOT, {PK: 2.5}, accuracy=1e-5)
    for load, wait, n in ((0.5, 2.868421, 6_000), (0.8, 11.473684, 40_000), (0.9, 25.815789, 16_000)):
        yield Case(f"two-point {load}", load, n, poisson(load / 1.9, TWO_POINT), PER_TOKEN, SLOT, {PK: wait})
    for mean, waits in ((10, (0.95, 3.8, 8.55)), (100, (0.995, 3.98, 8.955))):
        law = {"distribution": "geometric", "mean": mean}
        for load, wait, n in zip((0.5, 0.8, 0.9), waits, (7_000, 22_000, 12_000), strict=True):
            values = {PK: wait * mean}
            yield Case(f"geometric {mean} {load}", load, n, poisson(load / mean, law), PER_TOKEN, SLOT, values)
    device = {"prefill_ms_per_token": 0.005, "decode_ms_per_request": 0.01}
    outputs = choice((1, 101), (1, 1))
    yield Case("prompt and decodes 0.8", 0.8, 10_000, poisson(0.8, fixed(100), outputs), device, SLOT, {PK: 2.5})


COBHAM = "priorities (Cobham): mean wait"
SJF = "shortest job first: mean wait"
KLEINROCK = "conservation law: load x wait"


def classes(*rows: tuple[int, float, int]) -> Document:
    """(priority, rate per ms, prompt tokens) of each class, which has requests in proportion to its rate."""
    total = sum(rate for _, rate, _ in rows)
    shares = [round(rate / total, 12) for _, rate, _ in rows]
    return {
        "classes": [
            {"name": f"p{priority}", "priority": priority, "share": share, **poisson(rate, fixed(tokens))}
            for (priority, rate, tokens), share in zip(rows, shares, strict=True)
        ]
    }


def orders() -> Iterator[Case]:
    by_priority = {**SLOT, "order": "priority"}
    for load, first, second, n in (
        (0.5, 0.333333, 0.666667, 3_000),
        (0.8, 0.666667, 3.333333, 10_000),
        (0.9, 0.818182, 8.181818, 10_000),
    ):
        values = {f"{COBHAM} at 0": first, f"{COBHAM} at 1": second, f"{COBHAM} of all": (first + second) / 2}
        work = classes((0, load / 2, 1), (1, load / 2, 1))
        yield Case(f"two priorities {load}", load, n, work, PER_TOKEN, by_priority, values)
    rate = 0.8 / 1.9
    values = {SJF: 5.172881, f"{SJF} at 2 tokens": 3.694915, f"{SJF} at 11 tokens": 18.474576, KLEINROCK: 9.178947}
    yield Case("shortest first 0.8", 0.8, 45_000, poisson(rate, TWO_POINT), PER_TOKEN, {**SLOT, "order": "sjf"}, values)
    longest_first = classes((0, rate * 0.1, 10), (1, rate * 0.9, 1))
    values = {f"{COBHAM} at 1": 19.818182, f"{COBHAM} at 0": 3.963636, f"{COBHAM} of all": 18.232727}
    values |= {KLEINROCK: 9.178947}
    yield Case("longest first 0.8", 0.8, 20_000, longest_first, PER_TOKEN, by_priority, values)
    values = {PK: 11.473684, KLEINROCK: 9.178947}
    work = poisson(rate, TWO_POINT)
    yield Case("lifo 0.8", 0.8, 40_000, work, PER_TOKEN, {**SLOT, "order": "lifo"}, values, short=False)


GAMMA_WAITS: Mapping[float | str, tuple[float, float, float]] = {
    0.25: (3.361051, 10.955228, 23.478889),
    0.5: (1.780776, 6.316625, 13.825486),
    2: (0.618034, 2.843980, 6.588284),
    4: (0.432523, 2.267384, 5.383050),
    "inf": (0.255001, 1.692731, 4.178659),
}


def gamma_arrivals() -> Iterator[Case]:
    for shape, waits in GAMMA_WAITS.items():
        bursts = max(1.0, 1 / float(shape))
        sizes = (7_000, round(18_000 * bursts**0.4), 25_000)
        for load, wait, n in zip((0.5, 0.8, 0.9), waits, sizes, strict=True):
            work = poisson(load, GEOMETRIC)
            work["arrivals"] = {"process": "gamma", "burstiness": shape, "rate_per_s": round(1000 * load, 9)}
            yield Case(f"G/M/1 {shape} {load}", load, n, work, PER_1000, SLOT, {"G/M/1: mean wait": wait})


MVA = {
    1: (1, 0.090909), 2: (1.090909, 0.180328), 5: (1.466632, 0.436048),
    10: (2.732079, 0.785418), 20: (10.037451, 0.998131), 50: (40, 1),
}  # fmt: skip


def users() -> Iterator[Case]:
    """They think 10 ms on average, and are served 1 ms."""
    think = {"distribution": "exponential", "mean": 10}
    for count, (response, throughput) in MVA.items():
        work: Document = {
            "clients": {"users": count, "think_ms": think},
            "prompt_tokens": GEOMETRIC,
            "output_tokens": ONE,
        }
        values = {"closed loop: mean response": response, "closed loop: throughput": 1000 * throughput}
        yield Case(f"{count} users", 0.8, 4_000 if count < 10 else 8_000, work, PER_1000, SLOT, values)


# --- shared steps ----------------------------------------------------------------------------------------------------

BATCH: Document = {"policy": "vllm", "max_running": UNLIMITED, "token_budget": UNLIMITED}
STEP = {"job_ms": 1}
STEPS_LATENCY = {
    (0.1, 1): 1.049759, (0.1, 2): 2.094372, (0.1, 5): 5.202681, (0.1, 10): 10.321787,
    (0.5, 1): 1.225931, (0.5, 2): 2.342940, (0.5, 5): 5.467127,
    (1, 1): 1.365529, (1, 2): 2.454985, (2, 1): 1.468311, (2, 2): 2.495999,
}  # fmt: skip


def constant_steps() -> Iterator[Case]:
    for (rate, steps), latency in STEPS_LATENCY.items():
        values = {"mean latency": latency, "mean TTFT": latency - steps + 1}
        values |= {"share of time in a step": 2 * (latency - steps)}
        named = {f"constant steps: {name}": value for name, value in values.items()}
        work = poisson(rate, ONE, fixed(steps))
        yield Case(f"constant steps {rate} x {steps}", 0.5, 2_500, work, STEP, BATCH, named, accuracy=2e-5)


BULK = {
    (1, 0.8): (2.0, 0.8), (2, 1.6): (1.31926460, 0.940127), (4, 2.0): (0.51696038, 0.940524),
    (4, 3.2): (0.87953621, 0.992598), (4, 3.6): (1.49609086, 0.997417), (8, 6.4): (0.65183800, 0.999822),
}  # fmt: skip


def bulk_services() -> Iterator[Case]:
    for (slots, rate), (wait, busy) in BULK.items():
        load = rate / slots
        name = f"bulk service by {slots}"
        values = {f"{name}: mean wait": wait, f"{name}: share of time in a step": busy}
        scheduler = {**BATCH, "max_running": slots}
        yield Case(
            f"{name} {load:.1f}", load, 12_000 if slots == 1 else 6_000, poisson(rate, ONE), STEP, scheduler, values
        )


FIFTY = {
    "fixed": fixed(50),
    "geometric": {"distribution": "geometric", "mean": 50},
    "bimodal": choice((10, 210), (0.8, 0.2)),
}
SHARED = "processor sharing: mean latency"


def shared_steps() -> Iterator[Case]:
    """a = 10 ms, b = 0.4 ms, also for the one prompt token; and a = 0. Exact for a geometric number of steps."""
    device = {"job_ms": 10, "prefill_ms_per_token": 0.4, "decode_ms_per_request": 0.4}
    for rate, latency, n in ((5, 582.98, 3_000), (20, 875.00, 8_000), (40, 2625.0, 30_000)):
        for name, law in FIFTY.items():
            load = rate * 0.02
            work = poisson(rate / 1000, ONE, law)
            case = f"shared steps, {name} {load:.1f}"
            requests = n if name == "fixed" or rate == 40 else 3 * n  # lengths that vary add to what varies
            yield Case(case, load, requests, work, device, BATCH, {SHARED: latency}, accuracy=1e-4, short=rate < 40)
    device = {"prefill_ms_per_token": 1, "decode_ms_per_request": 1}
    for load, n in ((0.5, 30_000), (0.8, 16_000), (0.9, 12_000)):
        latency = 50 / (1 - load)
        work = poisson(load / 50, ONE, FIFTY["fixed"])
        case = f"shared steps, a = 0 {load}"
        yield Case(case, load, n, work, device, BATCH, {SHARED: latency}, short=load == 0.5)


MEAN_FIELD = "mean field: mean TPOT"


def prompts_and_decodes() -> Iterator[Case]:
    device = {"job_ms": 10, "prefill_ms_per_token": 0.1, "decode_ms_per_request": 0.2}
    for rate, tpot, n in ((5, 12.73, 2_000), (10, 16.94, 2_000), (15, 25.31, 4_000), (20, 50.00, 12_000)):
        work, load = poisson(rate / 1000, fixed(200), fixed(100)), rate * 0.0398
        case = f"mean field {rate}/s"
        yield Case(case, load, n, work, device, BATCH, {MEAN_FIELD: tpot}, accuracy=5e-4, short=rate < 20)
    device = {"job_ms": 10, "prefill_ms_per_token": 0.01, "decode_ms_per_request": 0.3}
    work = poisson(0.02, fixed(100), fixed(100))
    yield Case("mean field, short prompts 20/s", 0.614, 4_000, work, device, BATCH, {MEAN_FIELD: 26.68}, accuracy=5e-4)


CASES = [
    *constant_services(),
    *any_services(),
    *orders(),
    *gamma_arrivals(),
    *users(),
    *constant_steps(),
    *bulk_services(),
    *shared_steps(),
    *prompts_and_decodes(),
]
