"""A result as JSON: camelCase, times in ms whose text is the exact decimal of the nanoseconds."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.clock import ms_float, ms_text
from sim.engine.plan import Kind
from sim.record.queues import events_of
from sim.record.replay import Event
from sim.record.tables import DECODE
from sim.request import NEVER, Status, Workload

if TYPE_CHECKING:
    from sim.record.metrics import PoolFigures, Summary
    from sim.record.quantiles import Distribution
    from sim.record.result import Result

SCHEMA = "headway.result/1"


class Ms(int):
    """Whole nanoseconds that JSON shows in milliseconds."""


def document(results: Sequence[Result]) -> dict[str, Any]:
    """The whole JSON of some runs of one scenario; times are still :class:`Ms` and numbers of the scenario Decimals."""
    first = results[0]
    return {
        "schema": SCHEMA,
        "scenario": first.scenario,
        "provenance": _provenance(results),
        "runs": [run(result) for result in results],
    }


def _provenance(results: Sequence[Result]) -> dict[str, Any]:
    """That of the first run, with the plug-ins of all."""
    own: list[Any] = []
    for result in results:
        own += [file for file in result.provenance.get("plugins", ()) if file not in own]
    return {**results[0].provenance, **({"plugins": own} if own else {})}


def run(result: Result) -> dict[str, Any]:
    """One run, with every token."""
    ids = result.record.workload.all_ids()
    asked = _asked(result)
    return {
        **heading(result),
        "requests": [
            _request(result, index, id_) | ({"asked": more} if (more := asked.get(index)) else {})
            for index, id_ in enumerate(ids)
        ],
        "events": [_event(event, ids) for event in events_of(result)],
        "summary": summary(result.summary),
        "work": dict(result.work),
    }


def _asked(result: Result) -> Mapping[int, Mapping[str, Any]]:
    """By request, what only its trace says of it, where that is not the default; the scenario says all else."""
    if "trace" not in result.scenario.get("workload", {}):
        return {}
    workload, asked = result.record.workload, defaultdict[int, dict[str, Any]](dict)
    bounded = "max_tokens" in result.scenario["workload"]
    defaults = dict(Workload.of(workload.arrival_ns, workload.prompt_tokens, workload.output_tokens).columns())
    for name, column in workload.columns():
        if name not in ASKED or (bounded and name == "max_tokens"):
            continue
        for index in np.flatnonzero(column != defaults[name]).tolist():
            value = int(column[index])
            asked[index][ASKED[name]] = (
                workload.id(value) if name == "parent" else Ms(value) if name.endswith("_ns") else value
            )
    for key, texts in (("tenant", workload.tenants), ("prefixGroup", workload.prefix_groups)):
        for index, text in enumerate(texts or ()):
            if text:
                asked[index][key] = text
    for index, pieces in enumerate(workload.pieces.of_each() if workload.pieces is not None else ()):
        if pieces:
            asked[index]["pieces"] = [list(piece) for piece in pieces]
    return asked


ASKED: Mapping[str, str] = {
    "max_tokens": "maxTokens",
    "priority": "priority",
    "deadline_ns": "deadlineMs",
    "cancel_ns": "cancelMs",
    "samples": "samples",
    "prefix_tokens": "prefixTokens",
    "parent": "parent",
    "parent_tokens": "parentTokens",
}
"""Columns of a workload that a request of the JSON has only under ``asked``."""


def heading(result: Result) -> dict[str, Any]:
    marked = {} if result.incomplete is None else {"incomplete": result.incomplete}
    return {"name": result.name, "policy": result.policy, **marked, "settings": dict(result.settings)}


def summary(figures: Summary) -> dict[str, Any]:
    return {
        "requests": sum(figures.by_status.values()),
        **{status.name.lower(): count for status, count in figures.by_status.items()},
        "makespanMs": None if figures.makespan_ns is None else Ms(figures.makespan_ns),
        **{name: _distribution(values) for name, values in figures.distributions.items()},
        "outputTokensPerS": figures.output_tokens_per_s,
        "requestsPerS": figures.requests_per_s,
        "jobs": figures.jobs,
        "preemptions": figures.preemptions,
        "recomputedTokens": figures.recomputed_tokens,
        "scheduledTokens": figures.scheduled_tokens,
        "recomputedShare": _share(figures.recomputed_tokens, figures.scheduled_tokens),
        "wastedTokens": figures.wasted_tokens,
        "wastedShare": _share(figures.wasted_tokens, figures.scheduled_tokens),
        "kv": None if figures.pool is None else _pool(figures.pool),
    }


def _pool(figures: PoolFigures) -> dict[str, Any]:
    return {
        "blocks": figures.blocks,
        "usedBlocks": {
            "min": figures.used_min,
            "mean": float(figures.used_mean),
            "p99": figures.used_p99,
            "max": figures.used_max,
        },
        "admissions": figures.admissions,
        "keptOut": {reason.name.lower(): count for reason, count in figures.kept_out.items()}
        | {"headOfLine": figures.behind_head},
        "swappedOut": figures.swapped,
        "swapBlocksOut": figures.blocks_out,
        "swapBlocksIn": figures.blocks_in,
        "cachedTokens": figures.cached_tokens,
        "cachedOnResumeTokens": figures.cached_on_resume_tokens,
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def plain(value: Any) -> Any:
    """The same without our number types: every time a float in ms."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Ms):
        return ms_float(value)
    return float(value) if isinstance(value, Decimal) else value


def text(value: Any, levels: int = 4, indent: str = "\n") -> Iterator[str]:
    """JSON text in pieces: the outer ``levels`` of nesting one entry to a line, what is inside them on that line."""
    if levels == 0 or not _has_containers(value):
        yield _line(value)
        return
    deeper = indent + " "
    opening, closing = ("{", "}") if isinstance(value, Mapping) else ("[", "]")
    keys = [f"{json.dumps(key, ensure_ascii=False)}: " for key in value] if isinstance(value, Mapping) else repeat("")
    items = value.values() if isinstance(value, Mapping) else value
    separator = opening
    for key, item in zip(keys, items, strict=False):
        yield separator + deeper + key
        yield from text(item, levels - 1, deeper)
        separator = ","
    yield indent + closing


def _has_containers(value: Any) -> bool:
    items = value.values() if isinstance(value, Mapping) else value
    return isinstance(value, (Mapping, list, tuple)) and any(isinstance(item, (Mapping, list, tuple)) for item in items)


def _line(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {_line(v)}" for key, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_line, value)) + "]"
    if isinstance(value, Ms):
        return ms_text(value)
    if isinstance(value, Decimal):
        if value.is_infinite():
            return '"inf"'  # JSON has no such number
        return f"{value.normalize():f}" if value % 1 else f"{int(value)}.0"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _request(result: Result, index: int, id_: str) -> dict[str, Any]:
    columns = result.requests
    status = Status(int(columns["status"][index]))

    def count(name: str) -> int:
        return int(columns[name][index])

    def ms(name: str) -> Ms | None:
        ns = count(name)
        return None if ns == NEVER else Ms(ns)

    return {
        "id": id_,
        "status": status.name.lower(),
        "reason": result.record.reasons.get(index),
        "finishReason": result.finish_reason(index),
        "arrivalMs": ms("arrival_ns"),
        "promptTokens": count("prompt_tokens"),
        "outputTokens": count("output_tokens"),
        "emittedTokens": count("emitted_tokens"),
        "firstScheduledMs": ms("first_scheduled_ns"),
        "firstTokenMs": ms("first_token_ns"),
        "finishMs": ms("finish_ns"),
        "endedMs": ms("ended_ns"),
        "queueMs": ms("queue_ns"),
        "ttftMs": ms("ttft_ns"),
        "maxItlMs": ms("max_itl_ns"),
        "tpotMs": ms("tpot_ns"),
        "e2eMs": ms("e2e_ns"),
        "preemptions": count("preemptions"),
        "recomputedTokens": count("recomputed_tokens"),
        "cachedTokens": count("cached_tokens"),
        "cachedOnResumeTokens": count("cached_on_resume_tokens"),
        "tokenTimesMs": [Ms(ns) for ns in result.timeline.token_times(index).tolist()],
    }


def _event(event: Event, ids: Sequence[str]) -> dict[str, Any]:
    shown = {
        "job": event.job,
        "kind": Kind(event.kind).name.lower(),
        "startMs": Ms(event.start_ns),
        "endMs": Ms(event.end_ns),
        "scheduled": [
            {"id": ids[item.request], "tokens": item.tokens, "phase": "decode" if item.phase == DECODE else "prefill"}
            for item in event.scheduled
        ],
        "preempted": [ids[request] for request in event.preempted],
        "waiting": [ids[request] for request in event.waiting],
        "running": [ids[request] for request in event.running],
        "freeBlocks": None if event.free_blocks == NEVER else event.free_blocks,
    }
    if event.kind == Kind.SWAP:
        shown["swapped"] = [
            {"id": ids[copy.request], "blocks": copy.blocks, "direction": "out" if copy.out else "in"}
            for copy in event.copied
        ]
    return shown


def _distribution(values: Distribution) -> dict[str, Any]:
    return {
        "n": values.n,
        "mean": _ms(values.mean),
        **{f"p{percent}": _ms(value) for percent, value in values.percentiles.items()},
        "max": None if values.max is None else Ms(values.max),
    }


def _ms(ns: Fraction | None) -> Ms | float | None:
    if ns is None:
        return None
    return Ms(ns) if ns.denominator == 1 else ms_float(ns)
