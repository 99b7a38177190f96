"""What a scenario is once it is read: its values, defaults, overrides and variants."""

import json
import pickle
import subprocess
import sys
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.clock import instant_ns
from sim.errors import ScenarioError
from sim.fields import MAX_TOKENS
from sim.scenario import Device, Scenario, load, schema_json

MIXED = """\
schema = 1
name = "mixed"
claim = "Chunking shortens A's stall."

[workload]
requests = [
  {id = "A", arrival_ms = 0, prompt_tokens = 2, output_tokens = 12},
  {arrival_ms = 2.5, prompt_tokens = 12, output_tokens = 2, max_tokens = 4, priority = -1, tenant = "t"},
  {id = "S", arrival_ms = 4, prompt_tokens = 1, output_tokens = 4, deadline_ms = 9, cancel_ms = 20.1},
]

[scheduler]
policy = "chunked"
chunk_tokens = 2

[run]
seed = 7

[[run.variants]]
name = "c4"
set = {"scheduler.chunk_tokens" = 4}

[[run.variants]]
name = "free-jobs"
set.device.job_ms = 0
set.scheduler.policy = "fcfs"
"""


def small(**tables: Any) -> dict[str, Any]:
    """A mapping of the least that a scenario needs, with ``tables`` beside it."""
    request = {"prompt_tokens": 2, "output_tokens": 3}
    return {"schema": 1, "name": "small", "workload": {"requests": [request]}} | tables


def requests(*rows: dict[str, Any]) -> dict[str, Any]:
    return small(workload={"requests": [{"prompt_tokens": 1, "output_tokens": 1} | row for row in rows]})


def first_costs(device: Device) -> list[Decimal]:
    return [device.job_ms, device.prefill_ms_per_token, device.decode_ms_per_batch]


@pytest.fixture
def mixed(tmp_path: Path) -> Scenario:
    path = tmp_path / "mixed.toml"
    path.write_text(MIXED)
    return load(path)


def test_a_file_is_read_as_written(mixed: Scenario, tmp_path: Path) -> None:
    assert (mixed.schema_, mixed.name, mixed.claim) == (1, "mixed", "Chunking shortens A's stall.")
    assert mixed.source == tmp_path / "mixed.toml"
    assert mixed.run.seed == 7
    assert mixed.scheduler.model_fields_set == {"policy", "chunk_tokens"}
    assert mixed.workload.requests is not None
    alone = {"samples": 1, "prefix_group": "", "prefix_tokens": 0, "parent": None, "parent_tokens": 0}
    assert [r.model_dump() for r in mixed.workload.requests] == [
        {"id": "A", "arrival_ms": 0, "prompt_tokens": 2, "output_tokens": 12, "max_tokens": 12,
         "priority": 0, "tenant": "", "deadline_ms": None, "cancel_ms": None} | alone,
        {"id": "r000002", "arrival_ms": Decimal("2.5"), "prompt_tokens": 12, "output_tokens": 2, "max_tokens": 4,
         "priority": -1, "tenant": "t", "deadline_ms": None, "cancel_ms": None} | alone,
        {"id": "S", "arrival_ms": 4, "prompt_tokens": 1, "output_tokens": 4, "max_tokens": 4,
         "priority": 0, "tenant": "", "deadline_ms": 9, "cancel_ms": Decimal("20.1")} | alone,
    ]  # fmt: skip


def test_what_is_not_written_has_its_default() -> None:
    scenario = load(small())
    assert scenario.source is None
    assert scenario.claim == ""
    assert scenario.device.model_dump() == {
        "cost": "linear", "job_ms": Decimal("0.25"), "prefill_ms_per_token": 1, "decode_ms_per_batch": 1,
        "decode_ms_per_request": 0, "context_ms_per_token": 0,
    }  # fmt: skip
    assert scenario.scheduler.model_dump() == {
        "policy": "fcfs", "batching": None, "composition": None, "prefills_per_job": None, "chunk_tokens": None,
        "max_running": None, "token_budget": None, "order": None, "ageing": None, "preemptive": None,
        "predictor": None, "predictor_error": None, "mlfq_quantum_tokens": None, "mlfq_levels": None,
        "drr_quantum_tokens": None, "weights": None, "prompt_token_weight": None, "output_token_weight": None,
        "chunked_prefill": None, "long_prefill_tokens": None, "max_model_tokens": None,
    }  # fmt: skip
    assert scenario.scheduler.model_fields_set == set()
    assert scenario.run.model_dump() == {
        "seed": 0, "policies": None, "variants": None, "horizon_ms": None, "max_jobs": None, "max_seconds": None,
    }  # fmt: skip


def test_a_device_table_says_all_of_its_costs() -> None:
    device = load(small(device={"prefill_ms_per_token": 2})).device
    assert first_costs(device) == [0, 2, 0]


def test_an_override_of_the_device_starts_from_the_one_that_it_has() -> None:
    lesson = load(small(), overrides={"device.job_ms": 0}).device
    assert first_costs(lesson) == [0, 1, 1]
    own = load(small(device={"prefill_ms_per_token": 2}), overrides={"device.job_ms": 3}).device
    assert first_costs(own) == [3, 2, 0]


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (Decimal("0.123457"), "0.123457"),
        (0.1, "0.1"),  # a float means its repr, not its 55 binary digits
        (0.1 + 0.2, "0.300000000000"),  # 0.30000000000000004: what lies below 10^-12 ms can't change the rounding
        (3, "3"),
        (10**12, "1000000000000"),
        (-0.0, "0"),
        (np.float64(0.1), "0.1"),
        (np.int64(3), "3"),
        (np.float32(0.5), "0.5"),
        (1e-300, "0E-12"),
        (Decimal("1e-999999999"), "0E-12"),
    ],
)
def test_times_are_exact_decimals(value: object, read: str) -> None:
    scenario = load(requests({"arrival_ms": value}))
    assert scenario.workload.requests is not None
    assert str(scenario.workload.requests[0].arrival_ms) == read


def test_toml_floats_are_never_binary(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(MIXED.replace("2.5", "0.123456500000000000001"))
    scenario = load(path)
    assert scenario.workload.requests is not None
    assert instant_ns(scenario.workload.requests[1].arrival_ms) == 123_457  # 123 456.5 and a trifle: up


def test_the_callers_decimal_context_does_not_matter() -> None:
    with localcontext() as context:
        context.prec = 2
        scenario = load(small(device={"job_ms": 123456.123457, "prefill_ms_per_token": 1}))
    assert scenario.device.job_ms == Decimal("123456.123457")


def test_a_request_of_two_thousand_million_tokens_is_one_row() -> None:
    scenario = load(requests({"prompt_tokens": MAX_TOKENS, "output_tokens": 10**9}))
    assert scenario.workload.requests is not None
    assert scenario.workload.requests[0].max_tokens == 10**9


def test_ids_are_data() -> None:
    hostile = ["=HYPERLINK(1)", "../../x", "nan", "\u202eevil", "é", "e\u0301", 'quo"te', "-", " "]
    scenario = load(requests(*({"id": each} for each in hostile)))
    assert scenario.workload.requests is not None
    assert [r.id for r in scenario.workload.requests] == hostile


@pytest.mark.parametrize(
    "tables", [{"decode_ms_per_batch": 1}, {"prefill_ms_per_token": 1}, {"context_ms_per_token": 1}]
)
def test_some_costs_may_be_zero(tables: dict[str, object]) -> None:
    assert load(small(device=tables)).device.job_ms == 0


def test_the_document_is_the_one_that_was_read(mixed: Scenario) -> None:
    document = mixed.document
    assert document["scheduler"] == {"policy": "chunked", "chunk_tokens": 2}
    assert document["workload"]["requests"][1]["arrival_ms"] == Decimal("2.5")
    assert "device" not in document
    document["name"] = "changed"
    assert mixed.document["name"] == "mixed"


def test_a_mapping_becomes_plain() -> None:
    row = {"prompt_tokens": np.int32(2), "output_tokens": 3, "arrival_ms": 0.5, "tenant": np.str_("t"), "id": None}
    document = load(small(workload={"requests": (row,)})).document
    assert document["workload"] == {
        "requests": [{"prompt_tokens": 2, "output_tokens": 3, "arrival_ms": Decimal("0.5"), "tenant": "t"}]
    }
    assert type(document["workload"]["requests"][0]["prompt_tokens"]) is int
    assert type(document["workload"]["requests"][0]["tenant"]) is str


def test_overrides_change_the_document_before_it_is_checked(mixed: Scenario) -> None:
    changed = mixed.with_overrides({"scheduler.chunk_tokens": 8, "run.seed": 2**64 - 1, "device.job_ms": 0.5})
    assert changed.scheduler.chunk_tokens == 8
    assert changed.document["device"]["job_ms"] == Decimal("0.5")
    assert changed.document["run"]["seed"] == 2**64 - 1
    assert changed.source == mixed.source
    assert mixed.scheduler.chunk_tokens == 2


def test_an_override_of_none_takes_a_key_away(mixed: Scenario) -> None:
    plain = mixed.with_overrides({"run.variants": None, "scheduler.chunk_tokens": None})
    assert plain.run.variants is None
    assert plain.scheduler.model_fields_set == {"policy"}


def test_a_table_is_merged_a_list_replaced(mixed: Scenario) -> None:
    one = [{"prompt_tokens": 5, "output_tokens": 6}]
    changed = mixed.with_overrides({"scheduler": {"max_running": 3}, "workload": {"requests": one}})
    assert changed.document["scheduler"] == {"policy": "chunked", "chunk_tokens": 2, "max_running": 3}
    assert changed.document["workload"] == {"requests": one}


def test_an_empty_table_adds_nothing(mixed: Scenario) -> None:
    assert mixed.with_overrides({"scheduler": {}}).document == mixed.document
    assert mixed.with_overrides({}) == mixed


def test_a_scenario_put_together_in_python_has_a_document_too() -> None:
    own = requests({"id": "A"})
    scenario = Scenario.model_validate(own)
    assert scenario.document == own
    assert scenario.with_overrides({"scheduler.policy": "static"}).scheduler.policy == "static"


def test_a_variant_is_a_scenario_without_variants(mixed: Scenario) -> None:
    four, free = mixed.variant("c4"), mixed.variant("free-jobs")
    assert (four.scheduler.chunk_tokens, four.name, four.run.variants) == (4, "mixed", None)
    assert "variants" not in four.document["run"]
    assert (free.scheduler.policy, free.scheduler.chunk_tokens) == ("fcfs", 2)
    assert first_costs(free.device) == [0, 1, 1]
    assert four.source == mixed.source


def test_policies_are_those_listed_or_the_one(mixed: Scenario) -> None:
    assert mixed.policies == ("chunked",)
    assert load(small(run={"policies": ["fcfs", "chunked"]})).policies == ("fcfs", "chunked")


def test_a_trace_lies_beside_its_scenario(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('schema = 1\nname = "t"\n[workload.trace]\npath = "data/a.csv"\nspeedup = 1.5\n')
    scenario = load(path)
    assert scenario.trace_path() == tmp_path / "data" / "a.csv"
    assert scenario.with_overrides({"workload.trace.path": "/else/b.csv"}).trace_path() == Path("/else/b.csv")
    trace = scenario.workload.trace
    assert trace is not None
    assert (trace.format, trace.limit, trace.skip, trace.speedup) == ("auto", None, 0, Decimal("1.5"))


def test_the_trace_of_a_mapping_lies_in_the_working_directory() -> None:
    assert load(small(workload={"trace": {"path": "a.csv"}})).trace_path() == Path("a.csv")


def test_a_scenario_without_a_trace_has_no_path_of_one() -> None:
    with pytest.raises(ValueError, match="no trace"):
        load(small()).trace_path()


def test_scenarios_do_not_change(mixed: Scenario) -> None:
    with pytest.raises(ValueError, match="frozen"):
        mixed.name = "other"


def test_scenarios_travel_between_processes(mixed: Scenario) -> None:
    there = pickle.loads(pickle.dumps(mixed))  # noqa: S301 (ours)
    assert there == mixed
    assert there.variant("c4").scheduler.chunk_tokens == 4


def test_names_that_only_the_caller_knows() -> None:
    known = {"policy": ("fcfs", "chunked"), "format": ("azure",), "composition": ("alternate",)}
    load(small(scheduler={"policy": "anything"}))
    for key, value in (("scheduler.policy", "x"), ("scheduler.composition", "x"), ("run.policies", ["fcfs", "x"])):
        with pytest.raises(ScenarioError, match='= "x": unknown; one of '):
            load(small(), overrides={key: value}, known=known)
    with pytest.raises(ScenarioError, match=r'"chunks": unknown; one of fcfs, chunked; did you mean .chunked.\?'):
        load(small(), known=known).with_overrides({"scheduler.policy": "chunks"})


def test_the_json_schema_describes_every_key_of_the_toml() -> None:
    schema = schema_json()
    tables = [schema, *schema["$defs"].values()]
    assert "schema" in schema["properties"]
    assert schema["required"] == ["schema", "name", "workload"]
    assert all(table["additionalProperties"] is False for table in tables)
    assert [key for table in tables for key, value in table["properties"].items() if "description" not in value] == []
    job_ms = schema["$defs"]["Device"]["properties"]["job_ms"]
    assert {key: job_ms[key] for key in ("type", "minimum", "maximum", "default")} == {
        "type": "number", "minimum": 0, "maximum": 10**9, "default": 0,
    }  # fmt: skip
    assert "null" not in json.dumps(schema)


def test_importing_it_pulls_in_nothing_heavy() -> None:
    code = "import sim.scenario, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in ("pyarrow", "scipy", "typer", "rich", "simpy") if name in loaded] == []
