"""``run --save-workload``: the workload that a run met, which replays to the same bytes of the record."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sim
from sim import cli
from sim.analysis.traced import save_workload
from sim.errors import OutputError, ScenarioError
from sim.record import parquet_form, write
from sim.request import NEVER
from sim.workload.traces import Form, read_trace

EVERYTHING: list[dict[str, Any]] = [
    {
        "id": "=A\u202e,\"'",
        "arrival_ms": 3.000001,
        "prompt_tokens": 40,
        "output_tokens": 12,
        "max_tokens": 30,
        "priority": -3,
        "tenant": 't,"x',
        "deadline_ms": 5000.5,
        "prefix_group": "g",
        "prefix_tokens": 33,
    },
    {"id": "nan", "arrival_ms": 1, "prompt_tokens": 50, "output_tokens": 3, "samples": 2, "prefix_group": "g",
     "prefix_tokens": 20},
    {"prompt_tokens": 60, "output_tokens": 30, "arrival_ms": 7.5, "parent": "nan", "parent_tokens": 45,
     "cancel_ms": 120.25},
    {"prompt_tokens": 9, "output_tokens": 1, "arrival_ms": 7.5},
]  # fmt: skip
MOONCAKE = "\n".join(
    f'{{"timestamp": {n * 10}, "input_length": {900 + n}, "output_length": {3 + n}, "hash_ids": [1, {2 + n % 2}]}}'
    for n in range(12)
)
GENERATED = {
    "count": 50,
    "arrivals": {"process": "poisson", "rate_per_s": 20},
    "prompt_tokens": {"distribution": "uniform", "min": 1, "max": 200},
    "output_tokens": {"distribution": "uniform", "min": 1, "max": 40},
    "max_tokens": 64,
}
WORKLOADS: dict[str, dict[str, Any]] = {
    "requests with everything": {"requests": EVERYTHING},
    "generated": GENERATED,
    "a trace with hash ids": {"trace": {"path": "mooncake.jsonl", "loop": 2, "speedup": 3}, "max_tokens": 100},
}


HEAD = '{"headway": "workload/1"}'


def scenario(workload: dict[str, Any]) -> sim.Scenario:
    kv = {"blocks": 400, "block_tokens": 16, "prefix_cache": True}
    return sim.load({"schema": 1, "name": "s", "workload": workload, "kv": kv, "scheduler": {"policy": "vllm"}})


def tables(result: sim.Result, folder: Path) -> dict[str, bytes]:
    write.save_run(result, folder)
    return {name: (folder / f"{name}.parquet").read_bytes() for name in parquet_form.TABLES}


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_replay_has_the_same_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mooncake.jsonl").write_text(MOONCAKE)
    first = sim.simulate(scenario(WORKLOADS[name]))
    assert save_workload([first.record.workload], Path("w.jsonl")) == []
    for format_ in ("headway", "auto"):
        again = sim.simulate(scenario({"trace": {"path": "w.jsonl", "format": format_}}))
        assert again.record.workload.sha256() == first.record.workload.sha256()
        assert tables(again, tmp_path / f"again-{format_}") == tables(first, tmp_path / f"first-{format_}")


UNTIL_THE_HORIZON: dict[str, dict[str, Any]] = {
    "sessions": {
        "count": 4,
        "arrivals": {"process": "given", "times_ms": [0, 5, 300, 301]},
        "sessions": {"turns": {"distribution": "fixed", "value": 3}, "think_ms": 100},
    },
    "clients": {"count": 9, "clients": {"users": 2, "think_ms": 150}},
    "second attempts": {
        "count": 5,
        "arrivals": {"process": "deterministic", "rate_per_s": 20},
        "patience_ms": 1,
        "retry": {"attempts": 3, "backoff_ms": 100},
    },
}


@pytest.mark.parametrize("name", UNTIL_THE_HORIZON)
def test_what_was_never_sent_is_left_out(tmp_path: Path, name: str) -> None:
    """A replay with the same horizon tells the same of all that were sent."""
    lengths = {f"{of}_tokens": {"distribution": "fixed", "value": 8} for of in ("prompt", "output")}
    base = {"schema": 1, "name": "s", "run": {"horizon_ms": 350}}
    first = sim.simulate(sim.load({**base, "workload": {**UNTIL_THE_HORIZON[name], **lengths}}))
    sent = np.flatnonzero(first.requests["arrival_ns"] != NEVER)
    total = len(first.record.workload)
    (note,) = save_workload([first.record.workload], tmp_path / "w")
    assert 0 < len(sent) < total
    assert note.endswith(f"leaves out {total - len(sent)} of {total} requests, which were never sent")
    trace = {"path": str(tmp_path / "w"), "format": "headway"}
    again = sim.simulate(sim.load({**base, "workload": {"trace": trace}}))
    assert again.record.workload.all_ids() == [first.record.workload.id(row) for row in sent.tolist()]
    for column in ("arrival_ns", "first_token_ns", "finish_ns", "status"):
        assert again.requests[column].tolist() == first.requests[column][sent].tolist(), column


def test_what_stands_in_the_file(tmp_path: Path) -> None:
    """Times are exact decimals of ms; what is the default is left out."""
    save_workload([sim.simulate(scenario({"requests": EVERYTHING})).record.workload], tmp_path / "w")
    head, first, *_, last = (tmp_path / "w").read_text().splitlines()
    assert json.loads(head) == {"headway": "workload/1"}
    assert json.loads(first)["arrival_ms"] == 3.000001
    assert json.loads(first)["id"] == EVERYTHING[0]["id"]
    assert last == '{"arrival_ms": 7.5, "id": "r000004", "prompt_tokens": 9, "output_tokens": 1}'


def test_only_a_workload_of_ours_is_replaced(tmp_path: Path) -> None:
    workload = sim.simulate(scenario(GENERATED)).record.workload
    save_workload([workload], tmp_path / "w")
    save_workload([workload], tmp_path / "w")
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(OutputError):
        save_workload([workload], tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['{"headway": "workload/2"}'], 'line 1 must be {"headway": "workload/1"}'),
        (['{"arrival_ms": 1}'], 'line 1 must be {"headway": "workload/1"}'),
        ([HEAD, '{"arrival_ms": 1, "prompt_tokens": 1, "output_tokens": 1, "x": 1}'], "unknown key"),
        ([HEAD, '{"arrival_ms": 1, "prompt_tokens": 1, "output_tokens": 1, "pieces": [1]}'], "what is no [id, tokens]"),
        ([HEAD], "no requests in it"),
    ],
)  # fmt: skip
def test_a_damaged_file(tmp_path: Path, lines: list[str], said: str) -> None:
    (tmp_path / "w").write_text("\n".join(lines))
    with pytest.raises(ScenarioError) as caught:
        read_trace(tmp_path / "w", form=Form("headway"))
    assert said in str(caught.value)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "mixed", "--save-workload", "w.jsonl"])
    assert ended.value.code == 0
    assert "written: w.jsonl\n" in capsys.readouterr().err
    assert read_trace(Path("w.jsonl"), form=Form("auto")).texts["id"] == ["A", "L", "S"]
    Path("other").write_text("other")
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "mixed", "--save-workload", "other"])
    assert ended.value.code == 4
