"""Recorded runs of vLLM's own scheduler, and what the simulator makes of the same input, in the recording's form.

A recording is one JSON file: ``config``, ``requests`` and what the scheduler did with them, ``expect``. Its clock
counts steps, or (``timing``) nanoseconds of a linear cost. In the simulator a step is a job of 1 ms, the n-th begins
at n ms; ``arrival_step`` is so many ms.
"""

import gzip
import json
import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zlib import crc32

import sim
from sim.engine.plan import Job
from sim.record.queues import events_of
from sim.record.replay import Event
from sim.record.result import Result
from sim.record.tables import PREFILL
from sim.request import Request, Status

NS_PER_STEP = 10**6

Recording = Mapping[str, Any]
Step = dict[str, Any]


def files() -> list[Path] | None:
    """The recordings that there are, None when nobody says where; a folder without any is an answer of its own."""
    data = os.environ.get("HEADWAY_DATA")
    if not data:
        return None
    folder = Path(data, "vllm", "cases")
    return sorted([*folder.glob("*.json"), *folder.glob("*.json.gz")]) or [folder]


def name(path: Path) -> str:
    return path.name.split(".")[0]


def read(path: Path) -> Recording:
    data = path.read_bytes()
    recording: Recording = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return recording


# --- from a recording to a scenario -----------------------------------------------------------------------------------


def scenario(recording: Recording) -> dict[str, Any]:
    """The recording's input as a scenario under the policy ``vllm``."""
    config = recording["config"]
    return {
        "schema": 1,
        "name": "recorded",
        "workload": {"requests": [_request(request) for request in recording["requests"]]},
        "device": _device(config["timing"]),
        "kv": {
            "blocks": config["num_kv_blocks"],
            "block_tokens": config["block_size"],
            "gate": "full" if config["scheduler_reserve_full_isl"] else "chunk",
            "watermark_blocks": watermark_blocks(config),
            "prefix_cache": config["enable_prefix_caching"],
        },
        "scheduler": {
            "policy": "vllm",
            "token_budget": config["max_num_batched_tokens"],
            "max_running": config["max_num_seqs"],
            "order": config["policy"],
            "chunked_prefill": config["enable_chunked_prefill"],
            "long_prefill_tokens": config["long_prefill_token_threshold"],
            "max_model_tokens": config["max_model_len"],
        },
    }


def watermark_blocks(config: Mapping[str, Any]) -> int:
    """vLLM counts its null block, which nobody ever gets, among the blocks of which the watermark is a share."""
    return int(config["watermark"] * (config["num_kv_blocks"] + 1))


def _request(request: Mapping[str, Any]) -> dict[str, Any]:
    row = {
        "id": str(request["id"]),
        "arrival_ms": _ms(request["arrival_ns"]) if "arrival_ns" in request else request["arrival_step"],
        "prompt_tokens": request["prompt_tokens"],
        "output_tokens": request["output_tokens"],
        "priority": request.get("priority", 0),
    }
    if "prefix_group" in request:
        row |= {"prefix_group": str(request["prefix_group"]), "prefix_tokens": request["prefix_len"]}
    if "parent" in request:
        row |= {"parent": str(request["parent"]), "parent_tokens": request["parent_tokens"]}
    return row


def _device(timing: Mapping[str, int] | None) -> dict[str, Any]:
    if timing is None:
        return {"job_ms": 1}
    return {
        "job_ms": _ms(timing["overhead_ns"]),
        "prefill_ms_per_token": _ms(timing["p_ns"]),
        "decode_ms_per_batch": _ms(timing["d_ns"]),
        "decode_ms_per_request": _ms(timing["dt_ns"]),
    }


def _ms(ns: int) -> Decimal:
    return Decimal(ns).scaleb(-6)


# --- what can't be served -------------------------------------------------------------------------------------------


def unservable(recording: Recording) -> dict[int, str]:
    """Ids of the requests that no state of the server can serve, with how the reason begins (README, section 6).

    vLLM's front end refuses them; its scheduler alone, driven past that, stalls or goes round in circles.
    """
    config = recording["config"]
    longest, blocks, block = config["max_model_len"], config["num_kv_blocks"], config["block_size"]
    reasons = {}
    for request in recording["requests"]:
        prompt = request["prompt_tokens"]
        peak = -(-(prompt + min(request["output_tokens"], longest - prompt) - 1) // block)
        if prompt >= longest:
            reasons[request["id"]] = f"prompt of {prompt} tokens, max_model_tokens is {longest}"
        elif peak > blocks:
            reasons[request["id"]] = f"needs {peak} of {blocks} blocks"
    return reasons


def steps_before(steps: Iterable[Step], ids: Iterable[int]) -> Iterator[Step]:
    """The steps up to the one in which one of these requests first matters, without those requests.

    It matters in the first step that schedules it, or that leaves it at the head of ``waiting``: there it may be what
    stopped admission. Behind somebody who did not get in, nobody looked at it.
    """
    absent = set(ids)
    for step in steps:
        if absent.intersection([*step["w"][:1], *(id_ for id_, _, _ in step["s"])]):
            return
        yield step | {"w": [id_ for id_ in step["w"] if id_ not in absent]}


# --- the simulator's run --------------------------------------------------------------------------------------------


@dataclass
class Watch:
    """A monitor that looks at the memory: what the public record does not hold."""

    memory: Any = None
    hashes: list[int | None] = field(default_factory=list)
    free_at_end: list[int] = field(default_factory=list)
    finished: list[list[str]] = field(default_factory=list)

    def on_arrival(self, request: Request, jobs_begun: int) -> None: ...

    def on_job(self, job: Job) -> None:
        """The job has ended, nothing is booked: the memory is still as scheduling left it."""
        self.hashes.append(getattr(self.memory, "distinct", None))
        self.free_at_end.append(self.memory.free)
        self.finished.append([])

    def on_end(self, request: Request, status: Status, reason: str | None, now_ns: int, jobs_begun: int) -> None:
        if status is Status.FINISHED:
            self.finished[-1].append(request.id)
            self.free_at_end[-1] = self.memory.free


def watched(document: Mapping[str, Any], watch: Watch, *, check: bool = True) -> Result:
    """Run a scenario job by job, ``watch`` looking at the memory that the composition root builds for it."""
    composition = import_module("sim.simulation")
    build = composition.memory_of

    def memory_of(*arguments: Any) -> Any:
        watch.memory = build(*arguments)
        return watch.memory

    with patch.object(composition, "memory_of", memory_of):
        result: Result = composition.simulate(sim.load(document), check=check, spans=False, monitors=[watch])
    return result


def simulate(recording: Recording) -> tuple[Result, Watch]:
    """Run the recording's input. Every decision is checked, but in recordings so large that only digests are kept."""
    watch = Watch()
    check = recording["expect"]["detail"] != "digest"
    return watched(scenario(recording), watch, check=check), watch


def expectation(recording: Recording, result: Result, watch: Watch) -> dict[str, Any]:
    """The run in the form of the recording's ``expect``, so that the two are equal or not."""
    timed, detail = recording["config"]["timing"] is not None, recording["expect"]["detail"]
    starts_ns, ends_ns = result.jobs["start_ns"].tolist(), result.jobs["end_ns"].tolist()
    numbers = list(range(len(starts_ns))) if timed else [start // NS_PER_STEP for start in starts_ns]
    served = _requests(result, starts_ns, ends_ns, numbers)
    for request in served.values():
        times_ns = request.pop("times_ns")
        if timed and detail == "full":
            request["token_ns"] = times_ns
        elif timed:
            request |= {"first_token_ns": times_ns[0], "finish_ns": times_ns[-1]}
    found = {
        "outcome": "finished",
        "num_steps": len(numbers),
        "end_step": numbers[-1] + 1 if numbers else 0,
        "detail": detail,
        "watermark_blocks": result.settings["kv.watermark_blocks"],
        "steps": list(_steps(recording, result, watch, numbers)),
        "requests": served,
    }
    return found | ({"end_ns": ends_ns[-1]} if timed else {})


def _requests(
    result: Result, starts_ns: Sequence[int], ends_ns: Sequence[int], numbers: Sequence[int]
) -> dict[str, dict[str, Any]]:
    """What became of each request that finished; a step is known by when its job starts or ends."""
    columns = {name: column.tolist() for name, column in result.requests.items()}
    began, ended = dict(zip(starts_ns, numbers, strict=True)), dict(zip(ends_ns, numbers, strict=True))
    return {
        id_: {
            "arrive_step": numbers[bisect_left(starts_ns, columns["arrival_ns"][place])],
            "tokens": columns["emitted_tokens"][place],
            "preemptions": columns["preemptions"][place],
            "first_sched_step": began[columns["first_scheduled_ns"][place]],
            "first_hit_tokens": columns["cached_tokens"][place],
            "first_token_step": ended[columns["first_token_ns"][place]],
            "finish_step": ended[columns["finish_ns"][place]],
            "times_ns": result.token_times(id_).tolist(),
        }
        for place, id_ in enumerate(result.record.workload.all_ids())
        if columns["status"][place] == Status.FINISHED
    }


def _steps(recording: Recording, result: Result, watch: Watch, numbers: Sequence[int]) -> Iterator[Step]:
    config, digests = recording["config"], recording["expect"]["detail"] == "digest"
    hits = _hits(result)
    emitted = _emissions(result)
    rows = _rows_of_record(result) if digests else _rows_of_json(result)
    for job, row in enumerate(rows):
        ids = [id_ for id_, _, _ in row["s"]]
        step = {
            "i": numbers[job],
            **row,
            "hit": hits.get(job, []),
            "e": [id_ for id_ in ids if id_ in emitted[row["t1"]]],
            "x": [int(id_) for id_ in watch.finished[job]],
            "fe": watch.free_at_end[job],
        }
        if config["enable_prefix_caching"]:
            step["ch"] = watch.hashes[job]
        if config["timing"] is None:
            del step["t0"], step["t1"]
        yield _digest(step) if digests else step


def _rows_of_json(result: Result) -> Iterator[Step]:
    """Small runs: as the result's JSON shows them."""
    starts_ns, ends_ns = result.jobs["start_ns"].tolist(), result.jobs["end_ns"].tolist()
    for job, event in enumerate(result.to_dict()["runs"][0]["events"]):
        yield {
            "t0": starts_ns[job],
            "t1": ends_ns[job],
            "s": [[int(item["id"]), item["tokens"], item["phase"][0]] for item in event["scheduled"]],
            "pre": [int(id_) for id_ in event["preempted"]],
            "w": [int(id_) for id_ in event["waiting"]],
            "r": [int(id_) for id_ in event["running"]],
            "f": event["freeBlocks"],
        }


def _rows_of_record(result: Result) -> Iterator[Step]:
    """Large runs: what the JSON is made of, one job at a time."""
    ids = [int(id_) for id_ in result.record.workload.all_ids()]

    def row(event: Event) -> Step:
        return {
            "t0": event.start_ns,
            "t1": event.end_ns,
            "s": [[ids[i.request], i.tokens, "p" if i.phase == PREFILL else "d"] for i in event.scheduled],
            "pre": [ids[request] for request in event.preempted],
            "w": [ids[request] for request in event.waiting],
            "r": [ids[request] for request in event.running],
            "f": event.free_blocks,
        }

    return map(row, events_of(result))


def _digest(step: Step) -> Step:
    """Lists of ids by length and checksum, as the large recordings keep them."""
    scheduled = [f"{id_}:{tokens}:{phase}" for id_, tokens, phase in step["s"]]
    sums = [sum(tokens for _, tokens, phase in step["s"] if phase == wanted) for wanted in "pd"]
    lists = {key: [len(step[key]), _crc(step[key])] for key in ("w", "r", "e")}
    return step | lists | {"s": [len(scheduled), *sums, _crc(scheduled)]}


def _crc(items: Iterable[object]) -> int:
    return crc32(",".join(map(str, items)).encode())


def _hits(result: Result) -> dict[int, list[list[int]]]:
    """Who was admitted for each job, with the tokens that the cache held."""
    ids, hits = result.record.workload.all_ids(), defaultdict[int, list[list[int]]](list)
    columns = (result.record.admissions[name].tolist() for name in ("job", "request", "cached_tokens"))
    for job, request, tokens in zip(*columns, strict=True):
        hits[job].append([int(ids[request]), tokens])
    return hits


def _emissions(result: Result) -> dict[int, set[int]]:
    """Who emitted a token at each time."""
    emitted = defaultdict[int, set[int]](set)
    for id_ in result.record.workload.all_ids():
        for at_ns in result.token_times(id_).tolist():
            emitted[at_ns].add(int(id_))
    return emitted
