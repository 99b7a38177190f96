"""Every number and every name of a result is changed in turn, and ``verify`` sees it.

The fault switches damage a record in ways that we thought of; this does it everywhere. What may change unseen is listed
below, each with the reason why it can't matter.
"""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from sim import scenario as scenarios
from sim.analysis import checks_origin as origin
from sim.analysis.checking import check_claims
from sim.analysis.claims import COLUMNS, Claims
from sim.analysis.findings import Report
from sim.analysis.verify import verify_document
from sim.errors import ResultError
from sim.policies.presets import resolve
from sim.record import json_form
from sim.record.json_read import strict_json
from sim.record.json_shape import shaped
from sim.record.result import Result
from sim.request import Ints
from sim.simulation import simulate

Path = tuple[str | int, ...]

CANT_MATTER = {
    r"runs\[0\]\.work\..*": "counts what the run cost the simulator, says nothing of the server, and may differ",
    r"provenance\.(version|python|simpy|numpy)": "names the programs that were used; the numbers are recomputed",
    r"scenario\.(name|claim)": "free text: a title, and what somebody expects",
    r"scenario\.scheduler\.policy": "every run names its own, for the command may run other policies than the file's",
}

MAY_BE_MISSING = {
    r"runs\[0\]\.work\.\w+": "as above",
    r"scenario\.claim": "as above",
    r"scenario\.scheduler(\.policy)?": "as above; without it, chunk_tokens is the preset's, the same",
    r"scenario\.scheduler\.chunk_tokens": "the same as the preset's",
    r"scenario\.workload\.requests\[0\]\.arrival_ms": "0, the default",
}

MIXED = [
    {"id": "A", "arrival_ms": 0, "prompt_tokens": 2, "output_tokens": 12},
    {"id": "L", "arrival_ms": 2, "prompt_tokens": 12, "output_tokens": 2},
    {"id": "S", "arrival_ms": 4, "prompt_tokens": 1, "output_tokens": 4},
]
DETAILS = {"max_tokens": 20, "priority": 3, "tenant": "t", "deadline_ms": Decimal("99.5")}
CANCELLED = [
    {**MIXED[0], "cancel_ms": Decimal("9.3")},  # while it runs, within a job
    {**MIXED[1], "cancel_ms": 3},  # while it waits (chunked: it is admitted at 3.5)
    {**MIXED[2], "cancel_ms": 1},  # before it would arrive
    {"id": "F", "arrival_ms": 30, "prompt_tokens": 1, "output_tokens": 2, **DETAILS},  # after a gap with nothing to do
]
PAIR = [
    {"id": "A", "arrival_ms": 0, "prompt_tokens": 3, "output_tokens": 4},
    {"id": "L", "arrival_ms": 1, "prompt_tokens": 3, "output_tokens": 3},
]
DEVICE = {
    "job_ms": Decimal("0.25"), "prefill_ms_per_token": 1, "decode_ms_per_batch": Decimal("0.9"),
    "decode_ms_per_request": Decimal("0.05"), "context_ms_per_token": Decimal("0.0012345"),
}  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "fcfs": {"workload": {"requests": MIXED}},
    "chunked": {"workload": {"requests": MIXED}, "scheduler": {"policy": "chunked", "chunk_tokens": 2}},
    "static": {"workload": {"requests": MIXED}, "scheduler": {"policy": "static", "max_running": 2}},
    "cancelled": {"workload": {"requests": CANCELLED}, "scheduler": {"policy": "chunked"}},
    "horizon": {"workload": {"requests": MIXED}, "device": DEVICE, "run": {"seed": 1, "horizon_ms": 15}},
    "recompute": {
        "workload": {"requests": PAIR}, "kv": {"blocks": 4, "block_tokens": 2}, "scheduler": {"policy": "vllm"},
    },
    "swap": {
        "workload": {"requests": PAIR},
        "kv": {"blocks": 4, "block_tokens": 2, "preemption": "swap", "swap_blocks": 2, "swap_ms_per_block": 1},
        "scheduler": {"policy": "vllm-v0"},
    },
    "prefix": {
        "workload": {"requests": [{**request, "prefix_group": "g", "prefix_tokens": 2} for request in PAIR]},
        "kv": {"blocks": 3, "block_tokens": 2, "prefix_cache": True}, "scheduler": {"policy": "vllm"},
    },
    "faults": {
        "workload": {"requests": [*PAIR, {"id": "S", "prompt_tokens": 9, "output_tokens": 2, "samples": 2}]},
        "kv": {"blocks": 6, "block_tokens": 2}, "scheduler": {"policy": "sarathi"},
        "faults": [{"kind": "pool", "at_ms": 3, "until_ms": 20, "blocks": 3}, {"kind": "crash", "at_ms": 5}],
    },
}  # fmt: skip


def result_json(case: str) -> dict[str, Any]:
    document = {"schema": 1, "name": case, "claim": "It holds together.", **CASES[case]}
    result = simulate(scenarios.load(document))
    text = "".join(json_form.text(json_form.document([result])))
    read: dict[str, Any] = strict_json(text.encode())
    return read


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from leaves(item, (*path, place))
    else:
        yield path, value


def changes(value: Any) -> Iterator[Any]:
    """A number becomes another, nothing becomes 0, a word another word."""
    if value is None:
        yield 0
    elif isinstance(value, Decimal):
        yield value + 1
        yield value + Decimal("0.5")
    elif isinstance(value, int):
        yield value + 1
    else:
        yield OTHER_WORDS.get(value, f"{value}x")


OTHER_WORDS = {
    "A": "L", "L": "S", "S": "A", "F": "A", "prefill": "decode", "decode": "prefill", "finished": "unfinished",
    "cancelled": "finished", "unfinished": "cancelled", "stop": "length", "running": "waiting", "waiting": "running",
    "not arrived": "waiting", "fcfs": "static", "chunked": "fcfs", "static": "chunked",
}  # fmt: skip
"""Words that may stand in the same place, so that no wrong spelling gives them away."""


def changed(document: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    copy = deepcopy(document)
    inner: Any = copy
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return copy


def dotted(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def seen(document: dict[str, Any]) -> bool:
    try:
        return not verify_document(document).ok
    except ResultError:
        return True


@pytest.mark.parametrize("case", CASES)
def test_every_change_is_seen(case: str) -> None:
    document = result_json(case)
    assert not seen(document)
    unseen = {
        f"{dotted(path)}: {value} -> {other}"
        for path, value in leaves(document)
        for other in changes(value)
        if not seen(changed(document, path, other))
    }
    assert {line for line in unseen if not any(re.match(f"{pattern}: ", line) for pattern in CANT_MATTER)} == set()


def test_every_exemption_is_needed() -> None:
    document = result_json("chunked")
    unseen = [dotted(path) for path, value in leaves(document) for other in changes(value)
              if any(re.fullmatch(pattern, dotted(path)) for pattern in CANT_MATTER)
              and not seen(changed(document, path, other))]  # fmt: skip
    assert all(any(re.fullmatch(pattern, path) for path in unseen) for pattern in CANT_MATTER)


@pytest.mark.parametrize("case", CASES)
def test_every_missing_entry_is_seen(case: str) -> None:
    """Not only other values: a key or an entry of a list that is taken away."""
    document = result_json(case)
    unseen = [dotted(path) for path, _ in containers(document) if not seen(without(document, path))]
    assert [path for path in unseen if not any(re.fullmatch(pattern, path) for pattern in MAY_BE_MISSING)] == []


def containers(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in entries:
        yield (*path, key), item
        yield from containers(item, (*path, key))


def without(document: dict[str, Any], path: Path) -> dict[str, Any]:
    copy = deepcopy(document)
    inner: Any = copy
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    return copy


# --- the same for the tables of a folder, whose columns say more than the JSON ----------------------------------------


def claims_of(result: Result) -> Claims:
    document = shaped(strict_json("".join(json_form.text(json_form.document([result]))).encode()))
    scenario = scenarios.load(result.scenario)
    return Claims(
        where="",
        settings=result.settings,
        scenario=scenario,
        choice=resolve(scenario),
        asked=origin.asked(scenario),
        provenance=document.provenance,
        record=result.record,
        columns={name: result.requests[name] for name in COLUMNS},
        finish_reasons=[result.finish_reason(index) for index in range(len(result.record.workload))],
        summary=document.runs[0].summary,
    )


def is_seen(claims: Claims) -> bool:
    report = Report()
    check_claims(claims, report)
    return not report.ok


LIKE = [{"id": id_, "arrival_ms": at, "prompt_tokens": 3, "output_tokens": tokens}
        for id_, at, tokens in (("A", 0, 14), ("B", 1, 9), ("C", 8, 3), ("D", 9, 2))]  # fmt: skip
IN_ROWS = {
    **CASES,
    "rows": {
        "workload": {"requests": LIKE}, "device": DEVICE, "kv": {"blocks": 40, "block_tokens": 4},
        "scheduler": {"policy": "vllm", "max_running": 2},  # C and D come within a row, and wait
    },
    "rows, no pool": {"workload": {"requests": LIKE}, "device": DEVICE, "scheduler": {"max_running": 2}},
    "rows, shared": {
        "workload": {"requests": [{**request, "prefix_group": "g", "prefix_tokens": 3} for request in LIKE]},
        "kv": {"blocks": 40, "block_tokens": 2, "prefix_cache": True}, "scheduler": {"policy": "vllm"},
    },
}  # fmt: skip


@pytest.mark.parametrize("case", ["fcfs", "chunked", "rows", "rows, no pool"])
def test_there_are_rows_of_several_jobs(case: str) -> None:
    record = simulate(scenarios.load({"schema": 1, "name": "s", **IN_ROWS[case]})).record
    assert (record.rows["jobs"] > 1).any()
    assert (record.schedule["grows"] >= 0).any() == (case == "rows")


@pytest.mark.parametrize("case", IN_ROWS)
def test_every_change_of_a_table_is_seen(case: str) -> None:
    claims = claims_of(simulate(scenarios.load({"schema": 1, "name": "s", **IN_ROWS[case]})))
    assert not is_seen(claims)
    unseen = []
    for table in ("requests", "rows", "schedule", "admissions", "preemptions", "copies"):
        for (name, row), other in changed_cells(getattr(claims.record, table)):
            record = replace(claims.record, **{table: other})  # type: ignore[arg-type]  # all six are tables
            columns = {**claims.columns, "ended_ns": record.requests["ended_ns"]}  # in the file it is one column
            if not is_seen(replace(claims, record=record, columns=columns)):
                unseen.append(f"{table}.{name}[{row}] -> {other[name][row]}")
    assert unseen == []


def changed_cells(table: Mapping[str, Ints]) -> Iterator[tuple[tuple[str, int], dict[str, Ints]]]:
    """Every cell of a table, and the table with one more or one less in it."""
    for name, column in table.items():
        for row in range(len(column)):
            for change in (1, -1):
                other = column.copy()
                other[row] += change
                yield (name, row), {**table, name: other}


@pytest.mark.parametrize("case", CASES)
def test_every_change_of_a_claimed_column_is_seen(case: str) -> None:
    claims = claims_of(simulate(scenarios.load({"schema": 1, "name": case, **CASES[case]})))
    unseen = [
        f"{name}[{row}] -> {other[name][row]}"
        for (name, row), other in changed_cells(claims.columns)
        if not is_seen(replace(claims, columns=other))
    ]
    assert unseen == []
