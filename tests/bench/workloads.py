"""What is measured, one row each, and what each is to reach: figures of time on the reference machine."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Document = dict[str, Any]

DEVICE = {
    "job_ms": 0.2,
    "prefill_ms_per_token": 0.02,
    "decode_ms_per_batch": 8.0,
    "decode_ms_per_request": 0.02,
    "context_ms_per_token": 0.000005,
}
ODD_DEVICE = {
    "job_ms": 0.2000001,
    "prefill_ms_per_token": 0.0200003,
    "decode_ms_per_batch": 8.0000007,
    "decode_ms_per_request": 0.0200009,
    "context_ms_per_token": 0.000005003,
}
"""The same to a thousandth; no cost is a whole number of nanoseconds."""

BLOCKS = 40_000
BLOCK_TOKENS = 16
TOKEN_BUDGET = 2048
MAX_RUNNING = 256
QUICK_REQUESTS = 10_000
"""``--quick`` is the base workload up to so many requests."""


@dataclass(frozen=True)
class Goal:
    """``figure`` at most ``wanted``; above ``miss``, if it is given, missed. ``times``: as multiples of that row's."""

    figure: str
    wanted: float
    miss: float | None = None
    times: str | None = None


@dataclass(frozen=True)
class Run:
    """The command, from its start to its end, with a complete record in a folder."""

    name: str
    requests: int
    document: Document
    goals: tuple[Goal, ...] = ()
    quick: bool = False


@dataclass(frozen=True)
class Cycles:
    """One decode cycle of a batch of this size, without spans: the difference between two output lengths."""

    name: str
    batch: int
    goals: tuple[Goal, ...] = ()
    quick: bool = False


@dataclass(frozen=True)
class Recorded:
    """A recorded run of vLLM's scheduler, by the name of its file."""

    name: str
    goals: tuple[Goal, ...] = ()
    quick: bool = False


Workload = Run | Cycles | Recorded


# --- documents -------------------------------------------------------------------------------------------------------


def document(
    workload: Mapping[str, Any],
    *,
    device: Mapping[str, float] = DEVICE,
    blocks: int = BLOCKS,
    max_running: int = MAX_RUNNING,
    prefix_cache: bool = False,
) -> Document:
    return {
        "schema": 1,
        "name": "bench",
        "workload": dict(workload),
        "device": dict(device),
        "kv": {"blocks": blocks, "block_tokens": BLOCK_TOKENS, "prefix_cache": prefix_cache},
        "scheduler": {"policy": "vllm", "token_budget": TOKEN_BUDGET, "max_running": max_running},
        "run": {"seed": 0},
    }


def poisson(requests: int, rate_per_s: float = 8.0, *, prompt: int = 512, output: int = 512) -> Document:
    return {
        "count": requests,
        "arrivals": {"process": "poisson", "rate_per_s": rate_per_s},
        "prompt_tokens": {"distribution": "fixed", "value": prompt},
        "output_tokens": {"distribution": "fixed", "value": output},
    }


def all_at_once(requests: int, *, prompt: int, output: int) -> Document:
    """Nearly: a microsecond apart, where a job takes milliseconds. Generated, so that no list has to be read."""
    return poisson(requests, 1e6, prompt=prompt, output=output)


def decoding(batch: int, output: int) -> Document:
    """``batch`` requests that decode together from the start to the end."""
    request = {"arrival_ms": 0, "prompt_tokens": BLOCK_TOKENS, "output_tokens": output}
    return document({"requests": [request] * batch}, max_running=batch)


def azure(file: str) -> Document:
    return document({"trace": {"path": str(data("traces") / file), "format": "azure"}})


def data(*parts: str) -> Path:
    """Inside the folder of traces and recordings that HEADWAY_DATA names."""
    return Path(os.environ.get("HEADWAY_DATA", ""), *parts).absolute()


def recording(name: str) -> Path:
    return data("vllm", "cases", f"{name}.json.gz")


def missing(workload: Workload) -> str | None:
    """Why a workload can't be measured here; None when it can."""
    match workload:
        case Run(document={"workload": {"trace": {"path": path}}}):
            needed = Path(path)
        case Recorded(name=name):
            needed = recording(name)
        case _:
            return None
    if not os.environ.get("HEADWAY_DATA"):
        return "HEADWAY_DATA names no folder"
    return None if needed.is_file() else f"HEADWAY_DATA has no {needed.name}"


# --- the table -------------------------------------------------------------------------------------------------------


def base(name: str, requests: int, *goals: Goal) -> Run:
    return Run(name, requests, document(poisson(requests)), goals, quick=requests <= QUICK_REQUESTS)


def large(name: str, workload: Document, *goals: Goal, **settings: Any) -> Run:
    """A run over a generated workload of 100,000 requests or so."""
    return Run(name, workload["count"], document(workload, **settings), goals)


def table() -> tuple[Workload, ...]:
    """Made when it is asked for: where the traces lie is read from the environment."""
    k100 = 100_000
    return (
        base("base-1k", 1_000),
        base("base-10k", 10_000),
        base("base-100k", k100, Goal("cpu_s", 4, miss=5), Goal("rss_mb", 250)),
        base(
            "base-1m",
            1_000_000,
            Goal("cpu_s", 40, miss=48),
            Goal("rss_mb", 1000),
            Goal("us_per_request", 1.15, times="base-100k"),
        ),
        large("saturated", poisson(k100, 28.0), Goal("cpu_s", 3.2)),
        large("odd-costs", poisson(k100), Goal("cpu_s", 1.4, times="base-100k"), device=ODD_DEVICE),
        large("prefix-cache", poisson(k100), Goal("cpu_s", 1.5, times="base-100k"), prefix_cache=True),
        large("short-outputs", poisson(k100, output=128), Goal("us_per_request", 42)),
        large("light-load", poisson(k100, 0.0119), Goal("us_per_request", 42), Goal("rss_mb", 250)),
        large("long-prompts", poisson(k100, 4.0, prompt=8192, output=16), Goal("us_per_request", 55)),
        large("preemption", poisson(20_000, 28.0, prompt=64), Goal("us_per_request", 90), blocks=2_000),
        Run("azure-conv", 19_366, azure("AzureLLMInferenceTrace_conv.csv"), (Goal("cpu_s", 2),)),
        Run("azure-code", 8_819, azure("AzureLLMInferenceTrace_code.csv"), (Goal("cpu_s", 1),)),
        *(
            large(f"queue-{requests // 1000}k", all_at_once(requests, prompt=512, output=128))
            for requests in (1_000, 10_000, k100)
        ),
        *(Cycles(f"batch-{batch}", batch) for batch in (4, 16, 64, 256)),
        Cycles("batch-1024", 1024, (Goal("us_per_cycle", 1.5, times="batch-4"),)),
        *recorded(),
    )


def recorded() -> tuple[Recorded, ...]:
    wanted = {"big_1_ample": 25, "big_2_tight": 10, "big_4_priority": 45, "big_5_chat_thr": 60}
    return tuple(Recorded(name, (Goal("us_per_step", us),)) for name, us in wanted.items())
