"""Every format of traces: rows of our own making in its form, and what they come to; options; damage."""

import gzip
import json
import math
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from trace_samples import AZURE, BAILIAN, BURST6, CSV, MOONCAKE, RAG, SAMPLES, SHARE, TIMED

import sim
from sim.analysis.checking import workload_differs
from sim.analysis.theory.examine import examine
from sim.analysis.verify import verify
from sim.errors import ScenarioError
from sim.experiment import remarks
from sim.record import write
from sim.request import NEVER, Workload
from sim.workload.build import build, plan_of
from sim.workload.trace_formats import FORMATS
from sim.workload.traces import Form, TraceRows, read_trace


def read(folder: Path, data: str | bytes, format_: str = "auto", **options: Any) -> TraceRows:
    path = folder / "t"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    take = {key: options.pop(key) for key in ("limit", "skip", "loop", "speedup", "allow_empty") if key in options}
    return read_trace(path, form=Form(format_, **options), **take)


def complaints(folder: Path, data: str | bytes, format_: str = "auto", **options: Any) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        read(folder, data, format_, **options)
    lines = [str(line).replace(f"{folder}/", "") for line in caught.value.args]
    assert all(line.isprintable() for line in lines)
    return lines


def workload(folder: Path, trace: Mapping[str, Any], **more: Any) -> Workload:
    """The workload of a scenario with this ``[workload.trace]``."""
    table = {"path": str(folder / "t"), **trace}
    return build(sim.load({"schema": 1, "name": "t", "workload": {"trace": table, **more}}))[0]


@pytest.mark.parametrize("named", [True, False], ids=["by name", "by content"])
@pytest.mark.parametrize("sample", SAMPLES)
def test_each_format_is_read(tmp_path: Path, sample: str, named: bool) -> None:
    format_, text = SAMPLES[sample]
    rows = read(tmp_path, text, format_ if named else "auto")
    assert rows.format == format_
    assert rows.arrival_ns.tolist() == ([0, 0] if format_ == "sharegpt" else [0, 10**9])
    assert rows.prompt_tokens.tolist() == ([600, 1030] if format_ == "mooncake" else [48, 31])
    assert rows.output_tokens.tolist() == [10, 8]


@pytest.mark.parametrize("sample", SAMPLES)
def test_each_format_may_be_packed(tmp_path: Path, sample: str) -> None:
    format_, text = SAMPLES[sample]
    plain = read(tmp_path, text)
    for packed in (gzip.compress(text.encode(), mtime=0), pa.compress(text.encode(), "zstd", asbytes=True)):
        rows = read(tmp_path, packed)
        assert (rows.format, rows.prompt_tokens.tolist()) == (format_, plain.prompt_tokens.tolist())


def test_parquet_and_its_types(tmp_path: Path) -> None:
    """Whole numbers, floats and timestamps as times: 0, 1.5 s, 2 s in each."""
    arrivals: dict[str, tuple[pa.Array, dict[str, Any]]] = {
        "int": (pa.array([5000, 6500, 7000]), {"unit": "ms"}),
        "float": (pa.array([5.0, 6.5, 7.0]), {"unit": "s"}),
        "timestamp": (pa.array([5 * 10**6, 6_500_000, 7 * 10**6], pa.timestamp("us")), {"unit": "iso"}),
        "zoned": (pa.array([5 * 10**9, 65 * 10**8, 7 * 10**9], pa.timestamp("ns", tz="UTC")), {"unit": "iso"}),
    }
    for name, (column, options) in arrivals.items():
        table = {
            "arrival": column,
            "prompt_tokens": [3, 4, 5],
            "output_tokens": [1, 1, 1],
            "hash_ids": [[1], [1, 2], []],
        }
        pq.write_table(pa.table(table), tmp_path / "t")
        rows = read_trace(tmp_path / "t", form=Form("auto", hash_block_tokens=2, **options))
        assert (name, rows.arrival_ns.tolist()) == (name, [0, 1_500_000_000, 2 * 10**9])
        assert rows.pieces is not None
        assert list(rows.pieces.of_each()) == [[(1, 2)], [(1, 2), (2, 2)], []]


def test_blocks_of_a_trace_end_with_the_prompt(tmp_path: Path) -> None:
    """600 = 512 + 88, 1030 = 2 * 512 + 6."""
    rows = read(tmp_path, MOONCAKE)
    assert rows.pieces is not None
    assert list(rows.pieces.of_each()) == [[(7, 512), (8, 88)], [(7, 512), (9, 512), (10, 6)]]


def test_texts_of_ragpulse_have_the_lengths_of_the_side_files(tmp_path: Path) -> None:
    sides = {"1_sys_prompt": {1: 20}, "2_passages": {2: 7}, "4_user_input": {3: 30, 4: 4}}
    keys = {"1_sys_prompt": "sys_prompt_id", "2_passages": "passage_id", "4_user_input": "user_input_id"}
    for name, lengths in sides.items():
        rows = "\n".join(f'{{"{keys[name]}": {id_}, "token_length": {n}}}' for id_, n in lengths.items())
        (tmp_path / f"{name}.jsonl").write_text(rows)
    found = read(tmp_path, RAG)
    assert found.pieces is not None
    assert list(found.pieces.of_each()) == [[(1, 20), (2, 7), (3, 30)], [(1, 20), (2, 7), (4, 4)]]
    assert found.notes == ()
    (tmp_path / "4_user_input.jsonl").write_text('{"passage_id": 3, "token_length": 30}')
    assert "no side file has the length of id 4" in complaints(tmp_path, RAG)[0]
    (tmp_path / "4_user_input.jsonl").write_text('{"passage_id": 1, "token_length": 30}')
    assert "id 1 has 30 tokens here and 20 elsewhere" in complaints(tmp_path, RAG)[0]


@pytest.mark.parametrize("keys", ['"length": 1', '"history_id": 1, "passage_id": 2', '"ident": 1'])
def test_a_row_of_a_side_file_has_one_id(tmp_path: Path, keys: str) -> None:
    (tmp_path / "3_history.jsonl").write_text(f'{{{keys}, "token_length": 5}}')
    (line,) = complaints(tmp_path, RAG)
    assert line.startswith("3_history.jsonl (line 1): no row of a side file")


def test_without_side_files_ragpulse_shares_nothing_and_says_so(tmp_path: Path) -> None:
    rows = read(tmp_path, RAG)
    assert rows.pieces is None
    assert rows.notes == ("no side files are there: lengths are read, nothing is shared",)


def test_chats_of_bailian_name_their_parents(tmp_path: Path) -> None:
    read(tmp_path, BAILIAN)
    found = workload(tmp_path, {})
    assert found.all_ids() == ["159", "160"]
    assert found.parent.tolist() == [NEVER, 0]
    later = workload(tmp_path, {"skip": 1})
    assert later.parent.tolist() == [NEVER]
    assert later.notes == ("1 rows name a parent that is not among the rows taken; they have none",)


def test_failures_of_burstgpt_are_left_out_and_counted(tmp_path: Path) -> None:
    text = BURST6 + "\n7,ChatGPT,9,0,9,x\n8,ChatGPT,0,9,9,x\n9,ChatGPT,5,5,10,x"
    rows = read(tmp_path, text)
    assert rows.prompt_tokens.tolist() == [48, 31, 5]
    assert rows.zero_rows == 2
    assert rows.notes[0].startswith("2 rows without prompt or output tokens are left out")
    assert rows.notes[0].endswith("lines 4, 5")
    with pytest.raises(ScenarioError) as caught:
        workload(tmp_path, {"zero_tokens": "error"})
    assert [line.split("/t ")[1] for line in caught.value.args] == [
        '(line 4): Response tokens = "0": too small; at least 1',
        '(line 5): Request tokens = "0": too small; at least 1',
    ]


def test_words_of_conversations_are_counted_and_said(tmp_path: Path) -> None:
    assert "lengths are words, not tokens" in " ".join(read(tmp_path, SHARE).notes)
    with pytest.raises(ScenarioError, match=r"sharegpt has no times; state workload\.arrivals"):
        workload(tmp_path, {})
    found = workload(tmp_path, {}, arrivals={"process": "deterministic", "rate_per_s": 4})
    assert found.arrival_ns.tolist() == [0, 250_000_000]


# --- what can be set -------------------------------------------------------------------------------------------------


def test_columns_and_units(tmp_path: Path) -> None:
    text = "when,in,out,who,prio\n1.5,48,10,a,-2\n2.5,31,8,,0"
    (tmp_path / "t").write_text(text)
    columns = {"arrival": "when", "prompt_tokens": "in", "output_tokens": "out", "tenant": "who", "priority": "prio"}
    for unit, ns in {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}.items():
        found = workload(tmp_path, {"columns": columns, "unit": unit})
        assert found.arrival_ns.tolist() == [0, ns]
        assert found.tenants == ["a", ""]
        assert found.priority.tolist() == [-2, 0]
    with pytest.raises(ScenarioError, match=r'workload\.trace\.unit: missing; the unit of "when" is one of s, ms'):
        workload(tmp_path, {"columns": columns})
    with pytest.raises(ScenarioError, match=r"header = .*: late is missing"):
        workload(tmp_path, {"columns": {**columns, "deadline": "late"}, "unit": "s"})


def test_times_are_exact_to_the_nanosecond_at_an_epoch(tmp_path: Path) -> None:
    """A float at an epoch has steps of 0.24 us; half a ns is rounded up."""
    text = "arrival,prompt_tokens,output_tokens\n1700158623.000000001,1,1\n1700158623.0000000025,1,1\n1.700158624e9,1,1"
    assert read(tmp_path, text, unit="s").arrival_ns.tolist() == [0, 2, 999_999_999]


def seconds(rows: int) -> str:
    """A request a second; the prompt of the n-th, from 1 on, has n tokens."""
    return "arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{n},{n + 1},1\n" for n in range(rows))


def test_skip_window_thin_limit(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(
        "arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{n},{n + 1},1\n" for n in range(2000))
    )
    window = workload(tmp_path, {"skip": 10, "window": {"from_ms": 5000, "to_ms": 8000}})
    assert window.prompt_tokens.tolist() == [16, 17, 18]  # seconds 15, 16, 17 are 5, 6, 7 s after row 11
    half = workload(tmp_path, {"thin": 0.5}).prompt_tokens
    more = workload(tmp_path, {"thin": 0.75}).prompt_tokens
    assert set(half.tolist()) < set(more.tolist())  # a smaller share is part of a larger one
    assert abs(len(half) - 1000) < 4 * math.sqrt(2000 * 0.25)  # four standard deviations of a binomial
    assert workload(tmp_path, {"thin": 0.5, "limit": 7}).prompt_tokens.tolist() == half[:7].tolist()
    run = {
        "schema": 1,
        "name": "t",
        "workload": {"trace": {"path": str(tmp_path / "t"), "thin": 0.5}},
        "run": {"seed": 1},
    }
    assert build(sim.load(run))[0].prompt_tokens.tolist() != half.tolist()


def test_the_first_row_starts_the_clock_of_the_window_though_it_is_thinned_out(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(
        "arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{n},{n + 1},1\n" for n in range(50))
    )
    for seed in range(20):
        trace = {"path": str(tmp_path / "t"), "thin": 0.3, "window": {"from_ms": 10_000, "to_ms": 30_000}}
        found = build(sim.load({"schema": 1, "name": "t", "workload": {"trace": trace}, "run": {"seed": seed}}))[0]
        assert 11 <= found.prompt_tokens.min() <= found.prompt_tokens.max() <= 30


def test_passes_follow_after_the_mean_gap(tmp_path: Path) -> None:
    """Arrivals 0, 1, 4 s: span 4, mean gap 2, so a pass lasts 6 s."""
    text = "id,arrival_s,prompt_tokens,output_tokens,parent\na,0,1,1,\nb,1,2,1,a\nc,4,3,1,a"
    (tmp_path / "t").write_text(text)
    found = workload(tmp_path, {"loop": 3, "speedup": 2})
    assert (found.arrival_ns / 5e8).tolist() == [0, 1, 4, 6, 7, 10, 12, 13, 16]
    assert found.prompt_tokens.tolist() == [1, 2, 3] * 3
    assert found.all_ids() == ["a", "b", "c", "a+2", "b+2", "c+2", "a+3", "b+3", "c+3"]
    assert found.parent.tolist() == [NEVER, 0, 0, NEVER, 3, 3, NEVER, 6, 6]


def test_the_bound_of_outputs(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(CSV)
    assert workload(tmp_path, {}, max_tokens=12).max_tokens.tolist() == [12, 12]
    assert workload(tmp_path, {}, max_tokens="output").max_tokens.tolist() == [10, 8]
    with pytest.raises(ScenarioError, match=r"workload\.max_tokens = 9: too small; at least the longest output"):
        workload(tmp_path, {}, max_tokens=9)


def test_all_that_a_row_can_say(tmp_path: Path) -> None:
    text = (
        "id,arrival_ms,prompt_tokens,output_tokens,max_tokens,deadline,cancel,samples,prefix_group,prefix_tokens\n"
        "a,1000,48,10,20,3000.5,,2,g,40\n"
        "b,500,31,8,,,700,,,"
    )
    (tmp_path / "t").write_text(text)
    found = workload(tmp_path, {})
    assert found.all_ids() == ["b", "a"]
    assert found.arrival_ns.tolist() == [0, 500_000_000]
    assert found.max_tokens.tolist() == [8, 20]
    assert found.deadline_ns.tolist() == [NEVER, 2_500_500_000]
    assert found.cancel_ns.tolist() == [200_000_000, NEVER]
    assert found.samples.tolist() == [1, 2]
    assert (found.prefix_groups, found.prefix_tokens.tolist()) == (["", "g"], [0, 40])
    assert found.notes == ("1 rows stand behind a later one; put in order of arrival",)


def test_an_empty_trace_where_that_is_allowed(tmp_path: Path) -> None:
    header = AZURE.split("\n", maxsplit=1)[0]
    assert complaints(tmp_path, header) == ["t: no requests in it; at least one row must follow the header"]
    assert len(read(tmp_path, header, allow_empty=True).arrival_ns) == 0
    scenario = {"schema": 1, "name": "t", "workload": {"trace": {"path": str(tmp_path / "t"), "allow_empty": True}}}
    result = sim.simulate(sim.load(scenario))
    assert len(result.requests["status"]) == 0
    assert result.summary.makespan_ns is None


EMPTY: dict[str, dict[str, Any]] = {
    "alone": {},
    "a law": {"arrivals": {"process": "poisson", "rate_per_s": 3}},
    "clients": {"patience_ms": 3, "retry": {"attempts": 2}},
}


@pytest.mark.parametrize("more", EMPTY.values(), ids=EMPTY)
def test_a_run_of_no_requests_is_as_good_as_any(tmp_path: Path, more: dict[str, Any]) -> None:
    """It is saved and verified, theory has nothing to say, and a note says that nothing ran, and why."""
    (tmp_path / "t").write_text(AZURE.split("\n", maxsplit=1)[0])
    table = {"path": str(tmp_path / "t"), "allow_empty": True}
    scenario = sim.load({"schema": 1, "name": "t", "workload": {"trace": table, **more}})
    result = sim.simulate(scenario)
    assert list(remarks([result])) == ["fcfs: there are no requests, nothing ran"]
    assert examine(scenario).findings == []
    write.save_run(result, tmp_path / "run")
    write.save_all([result], tmp_path / "run.json")
    assert verify(tmp_path / "run").ok
    assert verify(tmp_path / "run.json").ok


def test_a_record_without_requests_is_refused_where_the_trace_may_not_be_empty(tmp_path: Path) -> None:
    table = {"path": str(tmp_path / "t"), "allow_empty": False}
    scenario = sim.load({"schema": 1, "name": "t", "workload": {"trace": table}})
    (difference,) = workload_differs(scenario, [])
    assert (difference.expected, difference.found) == ("at least 1", 0)


# --- which format? ---------------------------------------------------------------------------------------------------


def test_what_fits_two_formats_is_not_guessed(tmp_path: Path) -> None:
    """16 tokens are one block of either size."""
    row = '{"timestamp": 5, "input_length": 16, "output_length": 1, "hash_ids": [1]}'
    (line,) = complaints(tmp_path, row)
    assert line.startswith("t (line 1): keys = ")
    assert "may be mooncake or timed_trace; say which with workload.trace.format (or --format)" in line
    assert read(tmp_path, row, "mooncake").format == "mooncake"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (AZURE.replace("Context", "Prompt"), "no format has these; nearest azure, where ContextTokens is missing"),
        (AZURE.replace(",", ";"), "no format has these; 1 column, separated by semicolons"),
        ('{"a": 1}', "no format has these"),
        ("[1, 2]", "a JSON list; must be JSON lines, one object a line"),
        ("\n \n", "no header; empty, or blank lines only"),
        ("", "no header; empty, or blank lines only"),
        (AZURE.replace("\n", "\r"), "lines end with CR only; must be LF or CRLF"),
        (AZURE.encode("utf-16"), "not UTF-8 (looks like UTF-16 LE); must be UTF-8"),
        (gzip.compress(AZURE.encode(), mtime=0)[:-4], "gzip data that ends too early: the file is cut short"),
    ],
)  # fmt: skip
def test_what_fits_no_format(tmp_path: Path, text: str | bytes, said: str) -> None:
    assert said in complaints(tmp_path, text)[0]


# --- damage ----------------------------------------------------------------------------------------------------------

GOOD = '{"arrival_ms": 0, "prompt_tokens": 1, "output_tokens": 1}'


def row_of(**values: str) -> str:
    fields = {"arrival_ms": "1", "prompt_tokens": "1", "output_tokens": "1", **values}
    return "{" + ", ".join(f'"{key}": {value}' for key, value in fields.items()) + "}"


# The row of the list of bad inputs, a line of JSON, and what is said of it.
BAD_OBJECTS: list[tuple[int, str, str]] = [
    (3, row_of()[:-9], "column 39: not JSON: unterminated string starting at"),
    (6, row_of(prompt_tokens='1, "prompt_tokens": 2'), 'the key "prompt_tokens" stands twice; each once'),
    (9, row_of(prompt_tokens="true"), "prompt_tokens = true: expected an integer, got a boolean"),
    (9, row_of(prompt_tokens='"16"'), 'prompt_tokens = "16": expected an integer, got a string; write 16'),
    (9, row_of(arrival_ms='"16"'), 'arrival_ms = "16": expected a number, got a string'),
    (10, row_of(prompt_tokens="16.0"), "prompt_tokens = 16.0: expected an integer, got a number with a decimal point"),
    (11, row_of(arrival_ms="NaN"), "NaN: not a number that JSON has; must be finite"),
    (11, row_of(arrival_ms="1e400"), "arrival_ms = 1e+400: out of all bounds"),
    (11, row_of(arrival_ms="1e99999999999999999999"), "arrival_ms = inf: not finite; must be a finite number"),
    (33, row_of(prompt_tokens="0"), "prompt_tokens = 0: too small; at least 1"),
    (33, row_of(output_tokens="-3"), "output_tokens = -3: too small; at least 1"),
    (36, row_of(id='"' + "x" * 257 + '"'), "257 characters; at most 256"),
    (36, row_of(id='"a\\nb"'), "control character U+000A; none is allowed"),
    (36, row_of(id='"a\\u0000b"'), "control character U+0000; none is allowed"),
    (36, row_of(id='"\\ud800"'), "not valid Unicode; no lone surrogates"),
    (36, row_of(id='""'), 'id = "": empty; 1 to 256 characters'),
    (39, row_of(arrival_ms="-1"), "arrival_ms = -1: too small; at least 0"),
    (39, row_of(arrival_ms="null"), "arrival_ms = None: expected a number, got nothing"),
    (40, row_of(arrival_ms="1700158623000000"), "too far from the first row; at most 1000000000000 ms"),
    (47, '{"arrival_ms": 1, "prompt_tokens": 1}', "output_tokens missing; must have arrival_ms, prompt_tokens"),
    (49, "[1, 2]", "expected an object, got a list; one a line"),
    (50, row_of(id="[" * 10**5), "nested too deeply"),
    (50, row_of(prompt_tokens="9" * 5000), "an integer of thousands of digits"),
    (52, row_of(prompt_tokens="2147483648"), "prompt_tokens = 2147483648: too large; at most 2147483647"),
    (9, row_of(hash_ids="[1, -1]"), "holds what is no id; whole numbers from 0"),
    (9, row_of(hash_ids="[true]"), "holds what is no id; whole numbers from 0"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "line", "said"), BAD_OBJECTS, ids=[f"row {r}, {n}" for n, (r, *_) in enumerate(BAD_OBJECTS)]
)
def test_a_bad_object(tmp_path: Path, row: int, line: str, said: str) -> None:
    (complaint,) = complaints(tmp_path, f"{GOOD}\n{line}\n{GOOD}", "jsonl", hash_block_tokens=1)
    assert complaint.startswith("t (line 2): ")
    assert said in complaint


LONG = row_of(x='"' + "y" * 2**21 + '"')


def test_a_line_of_more_than_a_mebibyte(tmp_path: Path) -> None:
    (line,) = complaints(tmp_path, f"{GOOD}\n{LONG}", "jsonl")
    assert line == "t: a line of more than 1048576 bytes; is it a trace?"


def test_one_bad_line_among_a_hundred_thousand(tmp_path: Path) -> None:
    lines = [GOOD] * 10**5
    lines[76_543] = GOOD[:-1]
    (complaint,) = complaints(tmp_path, "\n".join(lines), "jsonl")
    assert complaint.startswith("t (line 76544): column 57: not JSON")


HEADER = "id,arrival_ms,prompt_tokens,output_tokens"
BAD_TABLES: list[tuple[int, str, str]] = [
    (34, "x,0,1,1\ny,0,1,1\nx,0,1,1", 't (line 4): id = "x": not unique: lines 2, 4; each at most once'),
    (46, "x;0;1;1", f"t (line 2): 1 value; must be 4: {HEADER}; nothing for arrival_ms"),
    (46, 'x,0,1,1\n"y,0,1,1', "t (line 3): not CSV: unexpected end of data; quotes must be closed in their line"),
    (47, "x,0,1", f"t (line 2): 3 values; must be 4: {HEADER}; nothing for output_tokens"),
    (47, "x,0,1,1,1", "t (line 2): 5 values; must be 4"),
    (39, "x,,1,1", 't (line 2): arrival_ms = "": empty; digits, with a decimal point if needed'),
    (39, "x,nan,1,1", 't (line 2): arrival_ms = "nan": no number; digits'),
    (9, "x,1_0,1,1", 't (line 2): arrival_ms = "1_0": no number; digits'),
    (9, "x,\uff11,1,1", 't (line 2): arrival_ms = "\uff11": no number; digits'),
    (36, f"{'x' * 257},0,1,1", "257 characters; at most 256"),
    (36, "a\0b,0,1,1", "control character U+0000; none is allowed"),
    (36, ",0,1,1", 't (line 2): id = "": empty; 1 to 256 characters'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "lines", "said"), BAD_TABLES, ids=[f"row {r}, {n}" for n, (r, *_) in enumerate(BAD_TABLES)]
)
def test_a_bad_table(tmp_path: Path, row: int, lines: str, said: str) -> None:
    assert said in complaints(tmp_path, f"{HEADER}\n{lines}", "csv")[0]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (f"{HEADER},id", '"id" 2 times'),
        (HEADER.replace("prompt_tokens", "p"), "prompt_tokens is missing"),
        (HEADER.replace("output_tokens", "prompt_tokens"), "prompt_tokens 2 times; output_tokens is missing"),
    ],
)
def test_a_bad_header_of_a_generic_table(tmp_path: Path, header: str, said: str) -> None:
    (line,) = complaints(tmp_path, f"{header}\nx,0,1,1", "csv")
    assert line.startswith("t (line 1): header = ")
    assert said in line


IDS = ["=HYPERLINK(1)", "+1", "-1", "@x", "nan", "../../x", "\u202eabc", "a\u0301\u0302", "caf\u00e9", "cafe\u0301",
       'q"uote', "a,b", "\\n"]  # fmt: skip


def test_ids_are_data_only(tmp_path: Path) -> None:
    """Each as it stands: no formula, no path, no normal form of Unicode."""
    quoted = (f'"{id_.replace(chr(34), chr(34) * 2)}",{n},1,1' for n, id_ in enumerate(IDS))
    assert read(tmp_path, "\n".join([HEADER, *quoted]), "csv").texts["id"] == IDS
    rows = (row_of(id=json.dumps(id_), arrival_ms=str(n)) for n, id_ in enumerate(IDS))
    assert read(tmp_path, "\n".join(rows), "jsonl").texts["id"] == IDS


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('{"id": "a", "max_tokens": 3, "output_tokens": 4}', "max_tokens = 3: too small; at least the row's"),
        ('{"prefix_group": "g", "prefix_tokens": 9}', "prefix_tokens = 9: too large; at most the prompt_tokens"),
        ('{"prefix_tokens": 3}', "prefix_tokens = 3: without prefix_group; name it, or leave it out"),
        ('{"id": "a", "parent": "a"}', 'parent = "a": in the end its own parent; none may go round'),
        ('{"id": "a"}\n{"parent": "a", "parent_tokens": 7, "prompt_tokens": 9}',
         "parent_tokens = 7: too large; at most 6, the"),
    ],
)  # fmt: skip
def test_what_rows_say_of_one_another(tmp_path: Path, lines: str, said: str) -> None:
    base = {"arrival_ms": 0, "prompt_tokens": 5, "output_tokens": 1}
    text = "\n".join(json.dumps(base | json.loads(line)) for line in lines.split("\n"))
    assert said in complaints(tmp_path, text, "jsonl")[0]


@pytest.mark.parametrize(
    ("header", "rows", "said"),
    [
        ("max_tokens", "0,5,3,4\n0,5,3,2", "max_tokens = 2: too small; at least the row's output_tokens"),
        ("prefix_group,prefix_tokens", "0,5,3,g,5\n0,5,3,g,9", "prefix_tokens = 9: too large; at most the"),
        ("prefix_tokens", "0,5,3,0\n0,5,3,2", "prefix_tokens = 2: without prefix_group"),
        ("parent_tokens", "0,5,3,0\n0,5,3,2", "parent_tokens = 2: without parent"),
    ],
)
def test_what_rows_say_is_checked_where_none_has_an_id(tmp_path: Path, header: str, rows: str, said: str) -> None:
    (line,) = complaints(tmp_path, f"arrival_ms,prompt_tokens,output_tokens,{header}\n{rows}", "csv")
    assert line.startswith(f"t (line 3): {said}")


def ids_at(*rows: tuple[float, str]) -> str:
    """JSON lines, each a time in ms and an id ("": none)."""
    return "\n".join(row_of(arrival_ms=str(ms), **({"id": json.dumps(id_)} if id_ else {})) for ms, id_ in rows)


PATIENT = {"patience_ms": 5, "retry": {"attempts": 99}}


@pytest.mark.parametrize(
    ("rows", "trace", "more", "said"),
    [
        ([(2, ""), (1, "r000002")], {}, {}, "two requests have the id 'r000002', one of them by its place"),
        ([(0, "r000004"), (1, "")], {"loop": 2}, {}, "two requests have the id 'r000004', one of them by its place"),
        ([(0, "a~2"), (1, "a")], {}, PATIENT, "id 'a~2' ends like that of a second attempt; not with retry"),
        ([(0, "a"), (1, "a~200")], {}, PATIENT, "id 'a~200' ends like that of a second attempt; not with retry"),
        ([(0, "x" * 253)], {}, PATIENT, "has 253 characters; at most 252, with ~100 behind"),
    ],
)
def test_no_two_requests_of_a_run_have_the_same_id(
    tmp_path: Path, rows: list[tuple[float, str]], trace: dict[str, Any], more: dict[str, Any], said: str
) -> None:
    """Those included that go by their place, in order of arrival and of all passes, and further attempts."""
    (tmp_path / "t").write_text(ids_at(*rows))
    with pytest.raises(ScenarioError) as caught:
        workload(tmp_path, {**trace, "format": "jsonl"}, **more)
    assert said.replace("'", '"') in str(caught.value).replace("'", '"')


def test_the_longest_id_that_may_be_sent_again(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(ids_at((0, "x" * 252)))
    found = workload(tmp_path, {"format": "jsonl"}, **PATIENT).all_ids()
    assert len(found) == 100
    assert max(map(len, found)) == 256


def test_without_retry_an_id_may_look_like_that_of_a_second_attempt(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(ids_at((0, "a"), (1, "a~2")))
    trace = {"path": str(tmp_path / "t"), "format": "jsonl"}
    scenario = sim.load({"schema": 1, "name": "t", "workload": {"trace": trace, "patience_ms": 5}})
    first = sim.simulate(scenario)
    assert plan_of(scenario, first.record.workload).all_ids() == ["a", "a~2"]


def test_too_many_ids_for_a_prompt_tell_of_the_size_of_blocks(tmp_path: Path) -> None:
    (line, _) = complaints(tmp_path, TIMED, "mooncake")
    assert line.startswith("t (line 1): ")
    assert line.endswith("3 ids for a prompt of 48 tokens; at most 1 blocks of 512 tokens (hash_block_tokens)")


def test_damaged_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({"arrival_ms": [1, 2], "prompt_tokens": [1, 2], "output_tokens": [1, 2]}), tmp_path / "x")
    whole = (tmp_path / "x").read_bytes()
    assert read(tmp_path, whole).format == "parquet"
    for cut in range(4, len(whole)):
        assert "damaged Parquet, or cut short" in complaints(tmp_path, whole[:cut])[0]


def test_every_format_is_tried_here() -> None:
    assert {format_ for format_, _ in SAMPLES.values()} | {"parquet", "headway"} == set(FORMATS)


def test_a_request_of_two_thousand_million_tokens_is_rejected_at_once(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("arrival_ms,prompt_tokens,output_tokens\n0,2147483647,2147483647")
    trace = {"path": str(tmp_path / "t")}
    result = sim.simulate(sim.load({"schema": 1, "name": "t", "workload": {"trace": trace}, "kv": {"blocks": 10**6}}))
    assert result.record.reasons[0].startswith("needs")


def test_speedup_moves_every_time(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("arrival_ms,prompt_tokens,output_tokens,cancel\n0,1,1,3\n2,1,1,\n5,1,1,7")
    found = workload(tmp_path, {"speedup": Decimal(2)})
    assert found.arrival_ns.tolist() == [0, 10**6, 2_500_000]
    assert found.cancel_ns.tolist() == [1_500_000, NEVER, 3_500_000]
    assert np.all(found.deadline_ns == NEVER)


# --- a law of arrivals beside a trace --------------------------------------------------------------------------------

DATED = "arrival_ms,prompt_tokens,output_tokens,deadline,cancel\n0,5,2,40,\n1000,6,3,,1007\n"
"""The first should be done 40 ms after it came, the client of the second gives up after 7 ms."""


def test_beside_a_law_of_arrivals_deadlines_and_patience_keep_their_distance(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(DATED)
    found = workload(tmp_path, {}, arrivals={"process": "given", "times_ms": [10, 30]})
    assert found.arrival_ns.tolist() == [10 * 10**6, 30 * 10**6]
    assert found.deadline_ns.tolist() == [50 * 10**6, NEVER]
    assert found.cancel_ns.tolist() == [NEVER, 37 * 10**6]


@pytest.mark.parametrize("times_ms", [[1], [1, 2, 3]])
def test_times_beside_a_trace_are_as_many_as_its_requests(tmp_path: Path, times_ms: list[int]) -> None:
    (tmp_path / "t").write_text(DATED)
    with pytest.raises(ScenarioError, match=rf"times_ms: {len(times_ms)} times for 2 requests of the trace; as many"):
        workload(tmp_path, {}, arrivals={"process": "given", "times_ms": times_ms})


def test_the_rate_of_one_trace_may_stand_beside_another(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(DATED)
    (tmp_path / "rate").write_text("arrival_ms,prompt_tokens,output_tokens\n0,1,1\n999,1,1\n")
    law = {"process": "trace-rate", "path": str(tmp_path / "rate"), "window_ms": 1000}
    assert (np.diff(workload(tmp_path, {}, arrivals=law).arrival_ns) > 0).all()


def test_a_trace_without_times_has_no_rate(tmp_path: Path) -> None:
    (tmp_path / "rate").write_text(SAMPLES["sharegpt"][1])
    law = {"process": "trace-rate", "path": str(tmp_path / "rate"), "window_ms": 1000}
    laws = {f"{of}_tokens": {"distribution": "fixed", "value": 8} for of in ("prompt", "output")}
    with pytest.raises(ScenarioError, match="sharegpt has no times; must be a trace that has them"):
        build(sim.load({"schema": 1, "name": "t", "workload": {"count": 3, "arrivals": law, **laws}}))


def test_a_column_of_parquet_stands_once(tmp_path: Path) -> None:
    names = ["arrival_ms", "prompt_tokens", "output_tokens", "prompt_tokens"]
    pq.write_table(pa.Table.from_arrays([pa.array([1])] * 4, names=names), tmp_path / "t")
    (line,) = complaints(tmp_path, (tmp_path / "t").read_bytes(), "parquet")
    assert line == 't: column "prompt_tokens" 2 times; each once'


def test_of_a_law_that_lacks_its_trace_no_other_key_is_named(tmp_path: Path) -> None:
    law = {"process": "trace-rate", "path": str(tmp_path / "none"), "window_ms": 1000}
    laws = {f"{of}_tokens": {"distribution": "fixed", "value": 8} for of in ("prompt", "output")}
    with pytest.raises(ScenarioError, match=r"none.*must be a trace$"):
        build(sim.load({"schema": 1, "name": "t", "workload": {"count": 3, "arrivals": law, **laws}}))
