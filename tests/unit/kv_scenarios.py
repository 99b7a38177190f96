"""Small scenarios in which memory is short, in every way in which it can be; and any number of others, drawn."""

import random
from collections.abc import Mapping
from typing import Any

import sim
from sim.record import json_form
from sim.record.json_read import strict_json
from sim.record.result import Result

Document = dict[str, Any]
DEVICE = {"job_ms": 0.25, "prefill_ms_per_token": 1, "decode_ms_per_batch": 1}


def request(id_: str, arrival_ms: float, prompt: int, output: int, **more: Any) -> Document:
    return {"id": id_, "arrival_ms": arrival_ms, "prompt_tokens": prompt, "output_tokens": output, **more}


THREE = [request("A", 0, 4, 8), request("B", 0, 5, 6), request("C", 1, 6, 4)]
GROUP = {"prefix_group": "g", "prefix_tokens": 6}

SCENARIOS: Mapping[str, Document] = {
    "recompute": {  # A's fifth block is B's: B is preempted, and prefills what it had emitted as well
        "workload": {"requests": [*THREE, request("D", 3, 2, 3, cancel_ms=30), request("X", 3, 40, 1)]},
        "kv": {"blocks": 7, "block_tokens": 2, "watermark_blocks": 1},
        "scheduler": {"policy": "vllm", "token_budget": 8, "long_prefill_tokens": 5},
    },
    "swap": {
        "workload": {"requests": THREE},
        "kv": {"blocks": 7, "block_tokens": 2, "preemption": "swap", "swap_blocks": 6, "swap_ms_per_block": 0.5},
        "scheduler": {"policy": "vllm-v0"},
    },
    "prefix": {
        "workload": {
            "requests": [
                request("A", 0, 9, 4, **GROUP), request("B", 1, 8, 6, **GROUP), request("C", 2, 7, 4, **GROUP),
                request("N", 2, 3, 3, samples=2),
            ]
        },
        "kv": {"blocks": 13, "block_tokens": 2, "prefix_cache": True},
        "scheduler": {"policy": "vllm", "token_budget": 16},
    },
    "faults": {
        "workload": {"requests": THREE},
        "kv": {"blocks": 9, "block_tokens": 2},
        "scheduler": {"policy": "sarathi"},
        "faults": [
            {"kind": "pool", "at_ms": 4, "until_ms": 30, "blocks": 3},
            {"kind": "crash", "at_ms": 15},
            {"kind": "slow", "at_ms": 20, "until_ms": 26, "factor": 1.5},
            {"kind": "stall", "at_ms": 33, "until_ms": 36},
        ],
    },
}  # fmt: skip


def run(document: Document) -> Result:
    scenario = sim.load({"schema": 1, "name": "kv", "device": DEVICE, **document})
    return sim.simulate(scenario.with_overrides({"run.max_jobs": 4000}) if "run" not in document else scenario)


def as_json(result: Result) -> Document:
    read: Document = strict_json("".join(json_form.text(json_form.document([result]))).encode())
    return read


def drawn(seed: int) -> Document:
    """A small scenario over the product of all axes: always the same for one seed."""
    draw = random.Random(seed)

    def some(chance: float, key: str, *values: Any) -> Document:
        return {key: draw.choice(values)} if draw.random() < chance else {}

    def requests() -> list[Document]:
        rows: list[Document] = []
        several, shares = draw.random() < 0.3, draw.random() < 0.5
        for index in range(draw.randint(1, 7)):
            prompt, output = draw.randint(1, draw.choice([4, 12])), draw.randint(1, draw.choice([2, 8, 8]))
            arrival = draw.choice([0, 1, draw.randint(0, 8), draw.randint(0, 80) / 4])
            rows.append(
                request(f"q{index}", arrival, prompt, output, **some(0.3, "max_tokens", output, output + 1, output + 9),
                        **some(0.4, "priority", -1, 0, 1), **some(0.2, "cancel_ms", arrival, draw.randint(0, 40)),
                        **(some(0.5, "samples", 1, 2, 3) if several else {}))
            )  # fmt: skip
            if shares and index and draw.random() < 0.3:
                parent = draw.choice(rows[:-1])
                whole = parent["prompt_tokens"] + parent["output_tokens"]
                rows[-1] |= {"parent": parent["id"], "parent_tokens": draw.randint(0, min(prompt, whole))}
            if shares and draw.random() < 0.6:
                rows[-1] |= {"prefix_group": draw.choice("gh"), "prefix_tokens": draw.randint(0, prompt)}
        return rows

    rows, has_pool = requests(), draw.random() < 0.85
    longest = max(row["prompt_tokens"] + row.get("samples", 1) * row["output_tokens"] for row in rows)
    size = draw.choice([1, 1, 2, 3, 16])
    blocks = -(-longest // size) + draw.choice([-1, 0, 0, 0, 1, 2, 6]) or 1
    allocation = draw.choice([*["paged"] * 6, "contiguous"])
    pool = {
        "blocks": max(blocks, 1), "block_tokens": size,
        **some(0.7, "gate", "full", "chunk", "chunk", "chunk", "reserve"),
        **some(0.3, "watermark_blocks", 0, max(min(2, blocks - 1), 0)), "allocation": allocation,
        **({"prefix_cache": draw.random() < 0.5} if allocation == "paged" else {}),
        **some(0.7, "victim", "auto", "last", "lowest-priority", "fewest-tokens", "most-blocks", "longest-remaining",
               "random"),
        **({"preemption": "swap", "swap_blocks": draw.choice([0, 2, 5, 40]), "swap_ms_per_block": draw.choice([0, 0.1])}
           if draw.random() < 0.5 else {}),
    }  # fmt: skip
    scheduler = {
        "policy": draw.choice(["vllm", "fcfs", "chunked", "static", "orca", "sarathi", "vllm-v0", "trtllm-no-evict",
                               "trtllm-max-utilization"]),
        **some(0.2, "batching", "static", "continuous"),
        **some(0.3, "composition", "mixed", "prefill-first", "alternate", "mixed-decode-first"),
        **some(0.3, "prefills_per_job", 0, 1, 2), **some(0.3, "chunk_tokens", 1, 3, 9),
        **some(0.3, "token_budget", longest, 2 * longest), **some(0.3, "max_running", 1, 2, 4),
        **some(0.3, "order", "fcfs", "priority"), **some(0.3, "long_prefill_tokens", 1, 3, 7),
        **some(0.2, "max_model_tokens", 9, 14, 24),
    }  # fmt: skip
    if draw.random() < 0.4 and scheduler.get("composition", "mixed").startswith("mixed"):
        scheduler |= {"token_budget": draw.randint(3, 9), "chunked_prefill": True, "composition": "mixed"}
    device = draw.choice([DEVICE, {"job_ms": 1}, {"job_ms": 0.1, "prefill_ms_per_token": 0.000000333,
                          "decode_ms_per_request": 0.07, "context_ms_per_token": 0.000123456789}])  # fmt: skip
    return {
        "workload": {"requests": rows}, "device": device, **({"kv": pool} if has_pool else {}), "scheduler": scheduler,
        "faults": [_fault(draw, blocks if has_pool else 0) for _ in range(draw.choice([0, 0, 0, 1, 2, 3]))],
        "run": {"seed": draw.randint(0, 3), "max_jobs": 500, **some(0.2, "horizon_ms", 7, 14.5, 30.25)},
    }  # fmt: skip


def _fault(draw: random.Random, blocks: int) -> Document:
    kind = draw.choice(["crash", "stall", "slow", *(["pool"] * 3 if blocks else [])])
    at = draw.randint(0, 120) / 4
    fault: Document = {"kind": kind, "at_ms": at}
    if kind != "crash":
        fault["until_ms"] = at + draw.choice([0.25, 1, 5, 40])
    if kind == "slow":
        fault["factor"] = draw.choice([0.5, 1, 3.7])
    if kind == "pool":
        fault["blocks"] = draw.randint(1, blocks + 1)
    return fault
