"""``verify``: silent about what the simulator writes, and exact about what is wrong with anything else."""

import io
import json
import random
import tomllib
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import kv_scenarios
import numpy as np
import pyarrow.parquet as pq
import pytest
import tomli_w
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from sim import gallery
from sim import scenario as scenarios
from sim.analysis import checks_tables, exact
from sim.analysis.claims import Claims
from sim.analysis.findings import Difference, Finding, Report
from sim.analysis.verify import verify, verify_document
from sim.errors import ResultError
from sim.experiment import plan
from sim.record import json_form, parquet_form, store, write
from sim.record.json_read import strict_json
from sim.record.result import Result

MIXED = [
    {"id": "A", "arrival_ms": 0, "prompt_tokens": 2, "output_tokens": 12},
    {"id": "L", "arrival_ms": 2, "prompt_tokens": 12, "output_tokens": 2},
    {"id": "S", "arrival_ms": 4, "prompt_tokens": 1, "output_tokens": 4},
]


def run_all(document: Mapping[str, Any]) -> list[Result]:
    scenario = scenarios.load({"schema": 1, "name": "s", **document})
    return [one.run() for one in plan(scenario)]


def as_json(results: list[Result]) -> dict[str, Any]:
    read: dict[str, Any] = strict_json("".join(json_form.text(json_form.document(results))).encode())
    return read


def mixed(policy: str = "fcfs", **tables: Any) -> dict[str, Any]:
    return as_json(run_all({"workload": {"requests": MIXED}, "scheduler": {"policy": policy}, **tables}))


def findings(document: Mapping[str, Any]) -> list[Finding]:
    return verify_document(document).findings


# --- what is right ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mixed", "prefill-only", "static-vs-continuous", "unseen"])
def test_ready_scenarios_are_consistent_in_every_form(name: str, tmp_path: Path) -> None:
    results = [one.run() for one in plan(scenarios.load(gallery.path(name)))]
    write.save_all(results, tmp_path / "all.json")
    write.save_all(results, tmp_path / "all")
    for place in ("all.json", "all", *(f"all/{result.name}" for result in results)):
        report = verify(tmp_path / place)
        assert report.ok, list(report.lines())
        assert len(report.checks) > 40


def generated(seed: int) -> dict[str, Any]:
    """A small scenario of any kind: ties, cancellations, horizons, slots, costs of nothing or of parts of a ns."""
    draw = random.Random(seed)

    def some(chance: float, key: str, *values: Any) -> dict[str, Any]:
        return {key: draw.choice(values)} if draw.random() < chance else {}

    requests = [
        {
            "id": f"q{index}",
            "arrival_ms": draw.choice([0, 1, 2, draw.randint(0, 20), round(draw.random() * 20, draw.randint(0, 7))]),
            "prompt_tokens": draw.choice([1, 2, draw.randint(1, 12)]),
            "output_tokens": draw.choice([1, 2, draw.randint(1, 8)]),
            **some(0.25, "cancel_ms", 0, 1, 2, draw.randint(0, 40), 2.25, 3.5),
        }
        for index in range(draw.randint(1, 8))
    ]
    fine = {"job_ms": 0.1, "prefill_ms_per_token": 0.000000333, "context_ms_per_token": 0.000123456789}
    scheduler = {
        **some(0.3, "batching", "static", "continuous"),
        **some(0.3, "composition", "alternate", "prefill-first"),
        **some(0.4, "max_running", 1, 2, 3),
        **some(0.3, "chunk_tokens", 1, 3, 5),
        **some(0.3, "prefills_per_job", 2, 3),
    }
    return {
        "workload": {"requests": requests},
        **some(0.6, "device", {"job_ms": 0.123457}, {"decode_ms_per_batch": 1}, {"prefill_ms_per_token": 1}, fine),
        "scheduler": scheduler,
        "run": {"policies": ["fcfs", "chunked", "static"], **some(0.4, "horizon_ms", 2.25, draw.randint(1, 40), 14.5)},
    }


@pytest.mark.parametrize("seed", range(0, 120, 20))
def test_whatever_the_simulator_writes_is_consistent(seed: int) -> None:
    for each in range(seed, seed + 20):
        report = verify_document(as_json(run_all(generated(each))))
        assert report.ok, (each, list(report.lines()))


def test_a_dictionary_of_floats_is_consistent() -> None:
    (result,) = run_all({"workload": {"requests": MIXED}})
    assert verify_document(result.to_dict()).ok


def test_numbers_beyond_64_bits_are_exact() -> None:
    """2 * 10^9 tokens of a prompt at 10^9 ms each, on a clock of ns: the sums in fs need 100 bits."""
    request = {"id": "huge", "prompt_tokens": 2_000_000_000, "output_tokens": 3}
    device = {"prefill_ms_per_token": Decimal("0.000001000001"), "context_ms_per_token": Decimal("0.000700000001")}
    report = verify_document(as_json(run_all({"workload": {"requests": [request]}, "device": device})))
    assert report.ok, list(report.lines())


# --- what is wrong ---------------------------------------------------------------------------------------------------


def set_at(document: dict[str, Any], *path: Any) -> list[Finding]:
    *steps, last, value = path
    inner: Any = document
    for step in steps:
        inner = inner[step]
    inner[last] = value
    return findings(document)


def test_a_finding_names_check_run_request_and_both_values() -> None:
    assert set_at(mixed(), "runs", 0, "requests", 1, "ttftMs", Decimal("12.25")) == [
        Finding("TTFT = first token - arrival, set once", "runs[0] fcfs, request L, ttftMs", "12.5 ms", "12.25 ms")
    ]


def test_a_finding_about_a_job_names_it() -> None:
    assert set_at(mixed(), "runs", 0, "events", 3, "kind", "mixed") == [
        Finding("a job's kind follows from its work", "runs[0] fcfs, job 3, kind", "decode", "mixed")
    ]


def test_ids_are_escaped_where_they_are_shown() -> None:
    requests = [{**MIXED[0], "id": "A\u202e\u2028"}]
    document = as_json(run_all({"workload": {"requests": requests}}))
    (found,) = set_at(document, "runs", 0, "requests", 0, "queueMs", 1)
    assert found.where == "runs[0] fcfs, request A\\u202E\\u2028, queueMs"


def test_more_than_fifty_findings_of_a_check_are_counted() -> None:
    requests = [{"id": f"q{i}", "prompt_tokens": 1, "output_tokens": 1} for i in range(60)]
    document = as_json(run_all({"workload": {"requests": requests}}))
    for row in document["runs"][0]["requests"]:
        row["queueMs"] += 1
    assert findings(document)[50:] == [
        Finding("queue time = first scheduled - arrival", "runs[0] fcfs, and elsewhere", 0, "10 more")
    ]


def test_the_report_speaks_json_and_lines() -> None:
    document = mixed()
    report = verify_document(document)
    assert list(report.lines()) == [f"consistent: {len(report.checks)} checks passed"]
    document["runs"][0]["summary"]["jobs"] = 15
    document["runs"][0]["requests"][0]["maxItlMs"] = None
    report = verify_document(document)
    assert json.loads(json.dumps(report.to_dict())) == {
        "ok": False,
        "checks": report.checks,
        "findings": [
            {"check": "summary: counts", "where": "runs[0] fcfs, summary, jobs", "expected": 14, "found": 15},
            {"check": "max ITL is the longest gap between tokens", "where": "runs[0] fcfs, request A, maxItlMs",
             "expected": "14.75 ms", "found": None},
        ],
    }  # fmt: skip
    assert list(report.lines()) == [
        "runs[0] fcfs, summary, jobs: summary: counts: expected 14, found 15",
        "runs[0] fcfs, request A, maxItlMs: max ITL is the longest gap between tokens: expected 14.75 ms, found none",
        f"2 findings in {len(report.checks)} checks",
    ]


def test_each_check_is_named_once_however_many_runs() -> None:
    document = as_json(run_all({"workload": {"requests": MIXED}, "run": {"policies": ["fcfs", "chunked", "static"]}}))
    checks = verify_document(document).checks
    assert len(checks) == len(set(checks))


def test_a_run_that_the_scenario_does_not_have_is_named() -> None:
    (found,) = set_at(mixed(), "runs", 0, "name", "turbo")
    assert found == Finding("the run is one of its scenario", 'runs[0] turbo, name "turbo", policy "fcfs"',
                            "a run of the scenario", "none")  # fmt: skip


def test_two_runs_of_one_name_are_one_too_many() -> None:
    document = mixed()
    document["runs"] *= 2
    assert findings(document) == [Finding("runs have names of their own", "runs[1], name", "another", '"fcfs"')]


def test_a_variant_is_held_to_its_own_settings() -> None:
    variants = [{"name": "fcfs", "set": {"scheduler.policy": "chunked", "scheduler.chunk_tokens": 4}}]
    document = as_json(run_all({"workload": {"requests": MIXED}, "run": {"variants": variants}}))
    assert verify_document(document).ok
    (found,) = set_at(document, "scenario", "run", "variants", 0, "set", "scheduler.chunk_tokens", 5)[:1]
    assert found == Finding(
        "settings are those of scenario and policy", "runs[0] fcfs, settings, scheduler.chunk_tokens", 5, 4
    )


@pytest.mark.parametrize(
    ("key", "value", "finding"),
    [
        ("scheduler.chunk_tokens", None, ("settings, scheduler.chunk_tokens", 2, None)),
        ("scheduler.batching", "static", ("settings, scheduler.batching", '"continuous"', '"static"')),
        ("device.job_ms", Decimal("0.2500001"), ("settings, device.job_ms", "0.25", "0.2500001")),
        ("run.seed", False, ("settings, run.seed", 0, "false")),
        ("kv.colour", 3, ('settings, "kv.colour"', "no such setting", 3)),
        ("kv.blocks", 3, ("settings, kv.blocks", None, 3)),
    ],
)
def test_settings_are_compared_with_their_types(key: str, value: object, finding: tuple[object, ...]) -> None:
    (found,) = set_at(mixed(), "runs", 0, "settings", key, value)
    assert found == Finding("settings are those of scenario and policy", f"runs[0] fcfs, {finding[0]}", *finding[1:])  # type: ignore[arg-type]


def test_a_setting_that_is_missing_is_found() -> None:
    document = mixed()
    del document["runs"][0]["settings"]["run.seed"]
    assert [found.found for found in findings(document)] == ["missing"]


def test_a_record_that_stops_too_early_is_found() -> None:
    """At a horizon of 15 ms, fcfs has run A and L by 14.5; a record that leaves out L's job (2.25 to 14.5) hides it."""
    document = mixed(run={"horizon_ms": 15})
    longer, shorter = document["runs"][0], mixed(run={"horizon_ms": 14})["runs"][0]
    document["runs"][0] = {**shorter, "settings": longer["settings"]}
    assert findings(document)[:1] == [
        Finding("the record goes to the end", "runs[0] fcfs, job 1", "in the record: it ends at 14.5 ms", "missing")
    ]


def test_a_record_that_goes_beyond_the_horizon_is_found() -> None:
    document = mixed(run={"horizon_ms": 14})
    document["runs"][0] = {**mixed(run={"horizon_ms": 15})["runs"][0], "settings": document["runs"][0]["settings"]}
    assert Finding("the record goes to the end", "runs[0] fcfs, job 1, end", "at most 14 ms, the horizon",
                   "14.5 ms") in findings(document)  # fmt: skip


def test_a_record_whose_requests_are_not_served_is_found() -> None:
    document = mixed()
    document["runs"][0]["events"] = []
    assert [found.where for found in findings(document) if found.check == "the record goes to the end"] == [
        "runs[0] fcfs, request A", "runs[0] fcfs, request L", "runs[0] fcfs, request S",
    ]  # fmt: skip


def test_requests_that_were_never_sent_can_not_be_served() -> None:
    requests = [{**MIXED[0]}, {**MIXED[2]}]
    document = as_json(run_all({"workload": {"requests": requests}}))
    document["scenario"]["workload"]["requests"][1]["cancel_ms"] = 1
    assert Finding("nobody is served before arrival", "runs[0] fcfs, request S, scheduled tokens", 0, 4) in findings(
        document
    )


def test_a_policy_that_nobody_knows_is_no_run_of_the_scenario() -> None:
    document = mixed()
    document["runs"][0]["policy"] = "nobody"
    (found,) = set_at(document, "runs", 0, "name", "nobody")
    assert found.check == "the run is one of its scenario"


def test_blocks_without_a_pool_are_found() -> None:
    assert set_at(mixed(), "runs", 0, "events", 0, "freeBlocks", 7) == [
        Finding("no KV pool, no blocks", "runs[0] fcfs, job 0, freeBlocks", None, 7)
    ]
    found = {(each.check, each.where) for each in set_at(mixed(), "runs", 0, "events", 1, "preempted", ["A"])}
    assert ("nothing is cached or lost without a KV pool", "runs[0] fcfs, job 1, request A") in found


def test_who_is_passed_over_for_ever_is_found() -> None:
    """S came before Z, which was served; S never was, and the horizon does not excuse it."""
    requests = [MIXED[0], {**MIXED[2], "cancel_ms": 4}, {**MIXED[2], "id": "Z", "arrival_ms": 5}]
    document = as_json(run_all({"workload": {"requests": requests}}))
    del document["scenario"]["workload"]["requests"][1]["cancel_ms"]
    assert Finding("nobody is overtaken in admission", "runs[0] fcfs, job 4, request Z admitted",
                   "request S before it", "it is still waiting") in findings(document)  # fmt: skip


# --- traces ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def traced(tmp_path: Path) -> dict[str, Any]:
    rows = ["2023-11-16 18:15:46.6805900,3,4", "2023-11-16 18:15:46.6815900,2,1", "2023-11-16 18:15:46.6815900,5,2"]
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]))
    return as_json(run_all({"workload": {"trace": {"path": str(trace), "format": "azure", "limit": 3}}}))


def test_a_run_of_a_trace_is_verified_without_the_trace(traced: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "trace.csv").unlink()
    assert verify_document(traced).ok


def test_a_folder_of_a_trace_is_consistent(traced: dict[str, Any], tmp_path: Path) -> None:
    (result,) = run_all(traced["scenario"])
    result.save(tmp_path / "r")
    assert verify(tmp_path / "r").ok


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        (("runs", 0, "requests", 1, "promptTokens"), 3, "provenance, workloadSha256"),
        (("runs", 0, "requests", 1, "id"), "r000009", "provenance, workloadSha256"),
        (("provenance", "traceSha256"), None, "provenance, traceSha256"),
        (("scenario", "workload", "trace", "limit"), 2, "requests"),
        (("runs", 0, "requests", 0, "arrivalMs"), Decimal("0.5"), "request r000001, arrival"),
        (("runs", 0, "requests", 2, "arrivalMs"), Decimal("0.5"), "request r000003, arrival"),
    ],
)
def test_what_a_trace_can_not_have_given_is_found(
    traced: dict[str, Any], path: tuple[Any, ...], value: object, where: str
) -> None:
    for event in traced["runs"][0]["events"] if path[-1] == "id" else ():
        for item in event["scheduled"]:
            item["id"] = {"r000002": "r000009"}.get(item["id"], item["id"])
        for key in ("waiting", "running"):
            event[key] = [{"r000002": "r000009"}.get(id_, id_) for id_ in event[key]]
    assert f"runs[0] fcfs, {where}" in [found.where for found in set_at(traced, *path, value)]


# --- folders ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def result() -> Result:
    return run_all({"workload": {"requests": MIXED}, "scheduler": {"policy": "chunked"}})[0]


def rewrite(path: Path, change: Callable[[str, bytes], bytes | None]) -> None:
    """The folder again, each file changed, under a manifest that fits."""
    files = {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    with store.folder(path) as folder:
        for name, data in files.items():
            changed = None if name.endswith("manifest.json") else change(name, data)
            if changed is not None:
                folder.write(name, [changed])


def test_a_folder_whose_files_are_not_those_of_its_manifest_is_found(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "r")
    data = (tmp_path / "r" / "summary.json").read_bytes()
    (tmp_path / "r" / "summary.json").write_bytes(data.replace(b"  ", b" "))
    (found,) = verify(tmp_path / "r").findings
    assert found.check == "files are those of the manifest"
    assert found.where.startswith("summary.json: ")


SETTING = "scenario.toml, settings, scheduler.chunk_tokens"


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (("summary.json", b'"jobs": 19', b'"jobs": 20'), "summary, jobs"),
        (("summary.json", b'"policy": "chunked"', b'"policy": "static"'), 'name "chunked", policy "static"'),
        (("scenario.toml", b"chunk_tokens = 2", b"chunk_tokens = 3"), SETTING),
        (("scenario.toml", b"prompt_tokens = 12", b"prompt_tokens = 11"), "scenario.toml, workload"),
        (("scenario.toml", b'policy = "chunked"', b'policy = "static"'), "scenario.toml, scheduler.policy"),
        (("as-read.toml", b"prompt_tokens = 12", b"prompt_tokens = 11"), "request L, prompt_tokens"),
    ],
)  # fmt: skip
def test_each_file_of_a_folder_is_held_to_the_others(
    result: Result, tmp_path: Path, change: tuple[str, bytes, bytes], where: str
) -> None:
    name, old, new = change
    result.save(tmp_path / "r")
    rewrite(tmp_path / "r", lambda file, data: data.replace(old, new) if file == name else data)
    assert where in [found.where for found in verify(tmp_path / "r").findings]


@pytest.mark.parametrize(
    ("name", "data", "complaint"),
    [
        ("summary.json", None, "runs.json"),
        ("summary.json", b"{}", "summary.json: no schema"),
        ("summary.json", b"{", "summary.json: not JSON"),
        ("summary.json", b'{"schema": "headway.run/1"}', "summary.json.name: missing"),
        ("jobs.parquet", None, "jobs.parquet"),
        ("jobs.parquet", b"PAR1", "jobs.parquet"),
        ("scenario.toml", b"= 1", "scenario.toml: not TOML"),
        ("scenario.toml", b"schema = 1", "scenario.toml: "),
        ("as-read.toml", b"\xff", "as-read.toml: not TOML"),
    ],
)
def test_a_folder_that_can_not_be_read_is_refused(
    result: Result, tmp_path: Path, name: str, data: bytes | None, complaint: str
) -> None:
    result.save(tmp_path / "r")
    rewrite(tmp_path / "r", lambda file, kept: data if file == name else kept)
    with pytest.raises(ResultError) as refused:
        verify(tmp_path / "r")
    assert complaint in str(refused.value)


def test_a_folder_that_is_none_of_ours_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(ResultError):
            verify(path)


def test_a_list_of_runs_that_is_none_is_refused(result: Result, tmp_path: Path) -> None:
    write.save_all([result], tmp_path / "r")
    for runs in (b"[]", b"{}", b'["chunked", 1]', b'"chunked"', b'["nobody"]'):
        text = b'{"schema": "headway.runs/1", "runs": ' + runs + b"}"
        rewrite(tmp_path / "r", lambda file, data, text=text: text if file == "runs.json" else data)  # type: ignore[misc]
        with pytest.raises(ResultError):
            verify(tmp_path / "r")


def test_the_json_in_a_folder_is_checked_too_and_may_be_missing(result: Result, tmp_path: Path) -> None:
    write.save_all([result], tmp_path / "r")
    rewrite(
        tmp_path / "r", lambda file, data: data.replace(b'"jobs": 19', b'"jobs": 20') if file == "result.json" else data
    )
    assert [found.where for found in verify(tmp_path / "r").findings] == ["result.json: runs[0] chunked, summary, jobs"]
    rewrite(tmp_path / "r", lambda file, data: None if file == "result.json" else data)
    assert verify(tmp_path / "r").ok


def test_a_folder_with_other_requests_than_its_scenario_is_found(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "r")

    def with_another(file: str, data: bytes) -> bytes:
        if file != "as-read.toml":
            return data
        scenario = tomllib.loads(data.decode())
        scenario["workload"]["requests"].append({"id": "Z", "prompt_tokens": 1, "output_tokens": 1})
        return tomli_w.dumps(scenario).encode()

    rewrite(tmp_path / "r", with_another)
    assert verify(tmp_path / "r").findings == [Finding("requests are those of the scenario", "requests", 4, 3)]


def test_a_column_that_is_missing_is_told(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "r")

    def without_column(name: str) -> Callable[[str, bytes], bytes]:
        def change(file: str, data: bytes) -> bytes:
            if file != "requests.parquet":
                return data
            out: Any = io.BytesIO()
            parquet_form.write([pq.ParquetFile(io.BytesIO(data)).read().drop_columns([name])], out)
            return bytes(out.getvalue())

        return change

    original = {file: file.read_bytes() for file in (tmp_path / "r").iterdir()}
    for name in ("ttft_ns", "finish_reason", "id", "status"):
        rewrite(tmp_path / "r", without_column(name))
        with pytest.raises(ResultError, match=f"requests.parquet: .*{name}"):
            verify(tmp_path / "r")
        for file, data in original.items():
            file.write_bytes(data)


# --- the tables themselves -------------------------------------------------------------------------------------------


def claims_with(result: Result, table: str, **columns: list[int]) -> Claims:
    """Only what the checks of tables read."""
    changed = {
        name: np.array(columns.get(name, column), dtype=np.int64)
        for name, column in getattr(result.record, table).items()
    }
    record = replace(result.record, **{table: changed})  # type: ignore[arg-type]
    return Claims(where="", record=record, **dict.fromkeys(NOT_READ))  # type: ignore[arg-type]


NOT_READ = ("settings", "scenario", "choice", "asked", "provenance", "columns", "finish_reasons", "summary")


def test_columns_of_a_table_are_of_one_length(result: Result) -> None:
    claims = claims_with(result, "admissions", job=[0])
    assert list(checks_tables.columns_of_one_length(claims)) == [
        Difference("admissions", "columns of one length", "1 to 3 rows")
    ]


@pytest.mark.parametrize(
    ("table", "columns", "where"),
    [
        ("admissions", {"job": [0, 2, 19]}, "admissions, row 2, job"),
        ("admissions", {"request": [-1, 1, 2]}, "admissions, row 0, request"),
        ("requests", {"status": [0, 4, 0]}, "requests, row 1, status"),
    ],
)
def test_rows_that_point_nowhere_are_found(
    result: Result, table: str, columns: dict[str, list[int]], where: str
) -> None:
    assert [found.where for found in checks_tables.rows_in_range(claims_with(result, table, **columns))] == [where]


def test_rows_out_of_order_are_found(result: Result) -> None:
    claims = claims_with(result, "admissions", job=[2, 0, 15])
    assert list(checks_tables.one_row_a_job(claims)) == [Difference("admissions, row 1, job", "at least 2", 0)]
    flipped = {name: column[::-1].tolist() for name, column in result.record.schedule.items()}
    assert len(list(checks_tables.one_row_a_job(claims_with(result, "schedule", **flipped)))) > 5


def test_a_stretch_in_two_rows_is_found(result: Result) -> None:
    schedule = {name: column.tolist() for name, column in result.record.schedule.items()}
    row = next(i for i, jobs in enumerate(schedule["jobs"]) if jobs > 2)
    for column in schedule.values():
        column.insert(row + 1, column[row])
    schedule["jobs"][row], schedule["tokens"][row] = 1, 1
    schedule["job"][row + 1] += 1
    schedule["jobs"][row + 1] -= 1
    schedule["tokens"][row + 1] -= 1
    (found,) = checks_tables.one_row_a_job(claims_with(result, "schedule", **schedule))
    assert (found.expected, found.found) == ("one stretch", "two that meet")


def test_two_chunks_in_one_place_are_found() -> None:
    pair = [{"id": id_, "prompt_tokens": 2, "output_tokens": 1} for id_ in "AB"]
    (result,) = run_all({"workload": {"requests": pair}, "scheduler": {"prefills_per_job": 2}})
    (found,) = checks_tables.places(claims_with(result, "schedule", place=[0, 0]))
    assert found == Difference("job 0, place 0", 1, 2)


# --- arithmetic ------------------------------------------------------------------------------------------------------


def test_sums_are_exact_beyond_64_bits() -> None:
    large = np.array([2**61, 2**61, 2**61, 7], dtype=np.int64)
    assert exact.total(large) == 3 * 2**61 + 7
    assert exact.dot(large, large) == 3 * 2**122 + 49
    assert exact.dot(large[:0], large[:0]) == 0
    assert exact.combine((10**20, 0, 3), (large, large, large)).tolist() == [(10**20 + 3) * int(v) for v in large]


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=40), st.data())
def test_range_max_is_the_maximum_of_each_range(values: list[int], data: st.DataObject) -> None:
    places = st.integers(0, len(values) - 1)
    firsts = data.draw(st.lists(places, max_size=10))
    lengths = [data.draw(st.integers(1, len(values) - first)) for first in firsts]
    got = exact.range_max(np.array(values), np.array(firsts, dtype=np.int64), np.array(lengths, dtype=np.int64))
    assert got.tolist() == [max(values[f : f + n]) for f, n in zip(firsts, lengths, strict=True)]


# --- anything at all -------------------------------------------------------------------------------------------------

PATIENCE = [{**MIXED[0], "cancel_ms": Decimal("9.3")}, MIXED[1], {**MIXED[2], "cancel_ms": 1}]
SUBJECTS = [
    mixed(), mixed("chunked"), mixed("static", run={"horizon_ms": 15}),
    as_json(run_all({"workload": {"requests": PATIENCE}, "scheduler": {"policy": "chunked"}})),
    *(as_json([kv_scenarios.run(scenario)]) for scenario in kv_scenarios.SCENARIOS.values()),
]  # fmt: skip
WORDS = ["", "A", "L", "x", "\ud800", "finished", "rejected", "cancelled", "unfinished", "prefill", "decode", "swap",
         "fcfs", "static", "running", "stop", "swapped", "in", "out", "vllm", "full", "chunk", "paged", "contiguous",
         "priority", "random"]  # fmt: skip
NUMBERS = [0, 1, -1, 2, 14, 10**6, 2**31 - 1, 2**62 - 1, 2**63, 10**30]
DECIMALS = [Decimal(text) for text in ("0.5", "2.25", "14.5", "-0", "NaN", "Infinity", "1E+999999999", "1E-999999999")]
OTHERS: list[Any] = [None, True, False, 1.5, float("nan"), [], {}, [1], ["A"], ["A", "A"], {"a": 1}]


def places_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in entries for place in ((*path, key), *places_of(item, (*path, key)))]


PLACES = [places_of(subject) for subject in SUBJECTS]


def look(document: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


@effort(max_examples=400)
@given(st.integers(0, len(SUBJECTS) - 1), st.randoms(use_true_random=False), st.integers(1, 6))
def test_no_edit_of_a_result_raises_anything_but_a_result_error(which: int, draw: random.Random, edits: int) -> None:
    document = deepcopy(SUBJECTS[which])
    for _ in range(edits):
        path = draw.choice(PLACES[which])
        try:
            edit(look(document, path[:-1]), path[-1], which, draw)
        except (KeyError, IndexError, TypeError):  # an earlier edit took the place away
            continue
    try:
        report = verify_document(document)
    except ResultError:
        return
    json.dumps(report.to_dict())


def edit(inner: Any, key: Any, which: int, draw: random.Random) -> None:
    same_kind = {int: NUMBERS, Decimal: DECIMALS, str: WORDS}.get(type(inner[key]), OTHERS)
    match draw.randrange(5):
        case 0:
            del inner[key]
        case 1:
            inner[key] = deepcopy(draw.choice([*NUMBERS, *DECIMALS, *WORDS, *OTHERS]))
        case 2:
            inner[key] = deepcopy(draw.choice(same_kind))  # type: ignore[arg-type]
        case 3:
            inner[key] = deepcopy(look(SUBJECTS[which], draw.choice(PLACES[which])))
        case _ if isinstance(inner, list):
            inner.insert(draw.randint(0, len(inner)), deepcopy(inner[key]))
        case _:
            inner[f"{key}x"] = 1


def test_a_report_of_nothing_is_fine() -> None:
    assert Report().ok
