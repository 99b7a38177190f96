"""Bad scenarios: for each kind of mistake the row of the list of bad inputs, the input, and what is said about it.

Whatever is wrong, ``load`` raises ScenarioError, and each of its arguments is one line that can be printed.
"""

import datetime as dt
import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import ScenarioError
from sim.scenario import load

BASE = """\
schema = 1
name = "base"
[workload]
requests = [
  {id = "A", prompt_tokens = 2, output_tokens = 3},
  {id = "B", arrival_ms = 1, prompt_tokens = 4, output_tokens = 5},
]
[device]
job_ms = 0.25
[scheduler]
policy = "fcfs"
chunk_tokens = 2
[run]
seed = 0
"""
POLICIES = {"policy": ("fcfs", "chunked", "static")}


def complaints(source: Any, **options: Any) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        load(source, known=POLICIES, **options)
    lines = [str(argument) for argument in caught.value.args]
    assert all(line.isprintable() for line in lines)
    return lines


def by_row(cases: Sequence[tuple[int, Any, Any] | tuple[int, Any, Any, Any]]) -> list[str]:
    """Names of tests: the row of the list of bad inputs (0: none) and the place in ours."""
    return [f"row {case[0]}, case {place}" for place, case in enumerate(cases)]


def in_file(folder: Path, text: str | bytes) -> list[str]:
    """The complaints about a file, without its folder."""
    path = folder / "s.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return [line.replace(f"{folder}/", "") for line in complaints(path)]


# Mistakes in BASE: the row of the list (0: none), what stands there -> what is put in its place (⏎ is a newline), and
# below it the whole complaint, its further lines indented more.
CHANGED = r"""
4: chunk_tokens -> chunk_token
    s.toml (line 12): scheduler.chunk_token = 2: unknown key in [scheduler]; did you mean 'chunk_tokens'?
4: chunk_tokens -> max_num_seqs
    s.toml (line 12): scheduler.max_num_seqs = 2: unknown key in [scheduler]; did you mean 'max_running'?
4: job_ms -> chunk_tokens
    s.toml (line 9): device.chunk_tokens = 0.25: unknown key in [device]; belongs to [scheduler]
4: seed = 0 -> overhead_ms = 1
    s.toml (line 14): run.overhead_ms = 1: unknown key in [run]; 'job_ms' belongs to [device]
4: seed = 0 -> zzz = 1
    s.toml (line 14): run.zzz = 1: unknown key in [run]; one of seed, policies, variants, horizon_ms, max_jobs,
        max_seconds
4: [device] -> [devise]
    s.toml (line 8): devise: unknown key in the file; did you mean 'device'?
4: id = "B" -> idd = "B"
    s.toml (line 6): workload.requests[1].idd = "B": unknown key in workload.requests[1]; did you mean 'id'?
4: id = "B" -> "i\n" = "B"
    s.toml (line 6): workload.requests[1]."i\n" = "B": unknown key in workload.requests[1]; did you mean 'id'?
5: [device]⏎job_ms = 0.25 -> [xx]
    s.toml (line 8): xx = {}: unknown key in the file; one of schema, name, claim, workload, device, kv,
        model, faults, scheduler, run
5: policy = "fcfs" -> policy = ["fcfs"]
    s.toml (line 11): scheduler.policy: expected a string, got a list
5: arrival_ms = 1 -> arrival_ms = {}
    s.toml (line 6): workload.requests[1].arrival_ms = {}: expected a number, got a table
5: seed = 0 -> policies = "fcfs"
    s.toml (line 14): run.policies = "fcfs": expected a list, got a string
7: name = "base"⏎ ->
    s.toml: name: missing; for example name = "mixed"
7: schema = 1⏎ ->
    s.toml: schema: missing; for example schema = 1
7: prompt_tokens = 4,  ->
    s.toml (line 6): workload.requests[1].prompt_tokens: missing; for example prompt_tokens = 512
8: schema = 1 -> schema = 2
    s.toml (line 1): schema = 2: newer than this version of Headway; understood: 1
8: schema = 1 -> schema = 0
    s.toml (line 1): schema = 0: too small; at least 1
9: chunk_tokens = 2 -> chunk_tokens = true
    s.toml (line 12): scheduler.chunk_tokens = true: expected an integer, got a boolean
9: chunk_tokens = 2 -> chunk_tokens = "16"
    s.toml (line 12): scheduler.chunk_tokens = "16": expected an integer, got a string; write 16 without quotes
9: chunk_tokens = 2 -> chunk_tokens = "16 "
    s.toml (line 12): scheduler.chunk_tokens = "16 ": expected an integer, got a string; write 16 without quotes
9: job_ms = 0.25 -> job_ms = true
    s.toml (line 9): device.job_ms = true: expected a number, got a boolean
9: job_ms = 0.25 -> job_ms = "0.25"
    s.toml (line 9): device.job_ms = "0.25": expected a number, got a string; write 0.25 without quotes
9: name = "base" -> name = 5
    s.toml (line 2): name = 5: expected a string, got an integer
9: schema = 1 -> schema = true
    s.toml (line 1): schema = true: expected an integer, got a boolean
10: chunk_tokens = 2 -> chunk_tokens = 16.0
    s.toml (line 12): scheduler.chunk_tokens = 16.0: expected an integer, got a number with a decimal point or
        an exponent; write 16
10: chunk_tokens = 2 -> chunk_tokens = 1e3
    s.toml (line 12): scheduler.chunk_tokens = 1e+3: expected an integer, got a number with a decimal point or
        an exponent; write 1000
10: chunk_tokens = 2 -> chunk_tokens = 12.7
    s.toml (line 12): scheduler.chunk_tokens = 12.7: expected an integer, got a number with a decimal point or
        an exponent
11: job_ms = 0.25 -> job_ms = nan
    s.toml (line 9): device.job_ms = nan: not finite; must be a finite number
11: arrival_ms = 1 -> arrival_ms = -inf
    s.toml (line 6): workload.requests[1].arrival_ms = -inf: not finite; must be a finite number
11: arrival_ms = 1 -> arrival_ms = 1e400
    s.toml (line 6): workload.requests[1].arrival_ms = 1e+400: too large; at most 1000000000000
11: arrival_ms = 1 -> arrival_ms = 1e99999999999999999999
    s.toml (line 6): workload.requests[1].arrival_ms = inf: not finite; must be a finite number
11: chunk_tokens = 2 -> chunk_tokens = nan
    s.toml (line 12): scheduler.chunk_tokens = nan: expected an integer, got a number; must be finite
12: arrival_ms = 1 -> arrival_ms = -1
    s.toml (line 6): workload.requests[1].arrival_ms = -1: too small; at least 0
12: arrival_ms = 1 -> cancel_ms = -0.5
    s.toml (line 6): workload.requests[1].cancel_ms = -0.5: too small; at least 0
13: chunk_tokens = 2 -> chunk_tokens = 0
    s.toml (line 12): scheduler.chunk_tokens = 0: too small; at least 1
13: chunk_tokens = 2 -> max_running = 0
    s.toml (line 12): scheduler.max_running = 0: too small; at least 1
13: chunk_tokens = 2 -> prefills_per_job = -1
    s.toml (line 12): scheduler.prefills_per_job = -1: too small; at least 0
22: seed = 0 -> max_seconds = 1e300
    s.toml (line 14): run.max_seconds = 1e+300: too large; at most 1000000000
22: seed = 0 -> max_jobs = 9223372036854775808
    s.toml (line 14): run.max_jobs = 9223372036854775808: too large; at most 9223372036854775807
24: job_ms = 0.25 -> job_ms = -0.0
    s.toml (line 8): device: every cost is 0, so that no job takes any time; at least one above 0
24: job_ms = 0.25 ->
    s.toml (line 8): device = {}: every cost is 0, so that no job takes any time; at least one above 0
25: job_ms = 0.25 -> job_ms = -0.25
    s.toml (line 9): device.job_ms = -0.25: too small; at least 0
25: job_ms = 0.25 -> job_ms = 1000000000.1
    s.toml (line 9): device.job_ms = 1000000000.1: too large; at most 1000000000
25: job_ms = 0.25 -> job_ms = 0.0000000000001
    s.toml (line 9): device.job_ms = 1e-13: too many decimals; at most 12 of a millisecond
26: "fcfs" -> "fifo"
    s.toml (line 11): scheduler.policy = "fifo": unknown; one of fcfs, chunked, static; did you mean 'fcfs'?
26: job_ms = 0.25 -> cost = "liner"
    s.toml (line 9): device.cost = "liner": unknown; one of linear; did you mean 'linear'?
26: chunk_tokens = 2 -> batching = "dynamic"
    s.toml (line 12): scheduler.batching = "dynamic": unknown; one of continuous, static
26: chunk_tokens = 2 -> batching = 2
    s.toml (line 12): scheduler.batching = 2: expected a string, got an integer
28: seed = 0 -> seed = -1
    s.toml (line 14): run.seed = -1: too small; at least 0
28: seed = 0 -> seed = 1.5
    s.toml (line 14): run.seed = 1.5: expected an integer, got a number with a decimal point or an exponent
28: seed = 0 -> seed = "abc"
    s.toml (line 14): run.seed = "abc": expected an integer, got a string
28: seed = 0 -> seed = 18446744073709551616
    s.toml (line 14): run.seed = 18446744073709551616: too large; at most 18446744073709551615
30: seed = 0 -> horizon_ms = 0
    s.toml (line 14): run.horizon_ms = 0: too small; at least 0.000001
30: seed = 0 -> horizon_ms = 0.0000001
    s.toml (line 14): run.horizon_ms = 1e-7: too small; at least 0.000001
30: seed = 0 -> horizon_ms = nan
    s.toml (line 14): run.horizon_ms = nan: not finite; must be a finite number
33: prompt_tokens = 4 -> prompt_tokens = 0
    s.toml (line 6): workload.requests[1].prompt_tokens = 0: too small; at least 1
33: output_tokens = 5 -> output_tokens = -5
    s.toml (line 6): workload.requests[1].output_tokens = -5: too small; at least 1
34: id = "B" -> id = "A"
    s.toml (line 6): workload.requests[1].id = "A": not unique; each at most once; also workload.requests[0]
        (line 5)
36: id = "B" -> id = ""
    s.toml (line 6): workload.requests[1].id = "": empty; at least 1 character
36: id = "B" -> id = "a\u0000b"
    s.toml (line 6): workload.requests[1].id = "a\u0000b": control character U+0000; none is allowed
36: id = "B" -> id = "\u001b[31m"
    s.toml (line 6): workload.requests[1].id = "\u001B[31m": control character U+001B; none is allowed
36: id = "B" -> tenant = "a\nb"
    s.toml (line 6): workload.requests[1].tenant = "a\nb": control character U+000A; none is allowed
39: arrival_ms = 1 -> arrival_ms = ""
    s.toml (line 6): workload.requests[1].arrival_ms = "": expected a number, got a string
39: arrival_ms = 1 -> arrival_ms = 2023-11-16
    s.toml (line 6): workload.requests[1].arrival_ms = 2023-11-16: expected a number, got a value of type date
52: prompt_tokens = 4 -> prompt_tokens = 2147483648
    s.toml (line 6): workload.requests[1].prompt_tokens = 2147483648: too large; at most 2147483647
57: name = "base" -> name = "../../etc/x"
    s.toml (line 2): name = "../../etc/x": not a name; 1 to 64 of letters, digits, '.', '_', '-'
57: name = "base" -> name = ".."
    s.toml (line 2): name = "..": a name of a folder that exists everywhere; any other name
57: name = "base" -> name = "a\n"
    s.toml (line 2): name = "a\n": not a name; 1 to 64 of letters, digits, '.', '_', '-'
57: "fcfs" -> "/etc"
    s.toml (line 11): scheduler.policy = "/etc": not a name; 1 to 64 of letters, digits, '.', '_', '-'
0: output_tokens = 5 -> output_tokens = 5, max_tokens = 4
    s.toml (line 6): workload.requests[1].max_tokens = 4: too small; at least output_tokens, 5
0: seed = 0 -> policies = ["fcfs", "fcfs"]
    s.toml (line 14): run.policies[1] = "fcfs": not unique; each at most once; also run.policies[0] (line 14)
0: seed = 0 -> policies = []
    s.toml (line 14): run.policies = []: empty; at least one
0: seed = 0 -> policies = ["chunkd"]
    s.toml (line 14): run.policies[0] = "chunkd": unknown; one of fcfs, chunked, static; did you mean 'chunked'?
0: [device] -> [workload.trace]⏎path = "x.csv"⏎[device]
    s.toml (line 3): workload: requests and trace together; exactly one of requests, trace, count, classes
0: seed = 0 -> policies = ["fcfs"]⏎variants = [{name = "a"}]
    s.toml (line 15): run.variants: together with run.policies; only one of them
0: seed = 0 -> variants = [{}]
    s.toml (line 14): run.variants[0].name: missing; for example name = "chunk-4"
0: seed = 0 -> variants = [{name = "a"},⏎{name = "A"}]
    s.toml (line 15): run.variants[1].name = "A": not unique; each at most once; also run.variants[0] (line 14)
0: seed = 0 -> variants = [{name = "a", set = {"scheduler.chunk_tokens" = 0}}]
    s.toml (line 14): variant "a": scheduler.chunk_tokens = 0: too small; at least 1
0: seed = 0 -> [[run.variants]]⏎name = "a"⏎set.scheduler.chunk_token = 4
    s.toml (line 16): variant "a": scheduler.chunk_token = 4: unknown key; did you mean
        'scheduler.chunk_tokens'?
0: seed = 0 -> [[run.variants]]⏎name = "a"⏎set = {"run.policies" = ["fcfs"]}
    s.toml (line 16): variant "a": run.policies: can't be set by a variant
0: seed = 0 -> [[run.variants]]⏎name = "a"⏎[run.variants.set]⏎"device.job_ms" = 0
    s.toml (line 14): variant "a": device: every cost is 0, so that no job takes any time; at least one above 0
"""


class Change(NamedTuple):
    """One entry of CHANGED."""

    row: int
    old: str
    new: str
    complaint: str


def changes() -> list[Change]:
    entries = re.findall(r"^(\d+): (.*) ->(?: (.*))?((?:\n +.*)+)", CHANGED, re.MULTILINE)
    return [
        Change(int(row), old.replace("⏎", "\n"), new.replace("⏎", "\n"), " ".join(complaint.split()))
        for row, old, new, complaint in entries
    ]


@pytest.mark.parametrize(("row", "old", "new", "complaint"), changes(), ids=by_row(changes()))
def test_one_mistake_in_a_file(tmp_path: Path, row: int, old: str, new: str, complaint: str) -> None:
    assert old in BASE
    assert in_file(tmp_path, BASE.replace(old, new)) == [complaint]


def test_what_the_mistakes_are_made_in_is_sound(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(BASE)
    assert load(path, known=POLICIES).name == "base"


TOP = 'schema = 1\nname = "x"\n'
# A whole file, and how the complaint about it begins.
WHOLE: list[tuple[int, str | bytes, str]] = [
    (2, "", "s.toml: empty; a scenario has at least schema = 1"),
    (2, "# nothing\n\n  \n", "s.toml: empty; a scenario has at least schema = 1"),
    (3, "schema = \n", "s.toml (line 1, column 10): not valid TOML: "),
    (3, TOP + "[workload\n", "s.toml (line 3, column 10): not valid TOML: "),
    (3, TOP + "[workload]\nrequests = [{", "s.toml (line 4, at the end): not valid TOML: "),
    (5, TOP + "workload = 3", "s.toml (line 3): workload = 3: expected a table, got an integer"),
    (5, TOP + "workload.requests = 3", "s.toml (line 3): workload.requests = 3: expected a list, got an integer"),
    (5, TOP + "workload.requests = [3]", "s.toml (line 3): workload.requests[0] = 3: expected a table, got an integer"),
    (6, TOP + 'name = "y"\n', "s.toml (line 3, column 11): not valid TOML: cannot overwrite a value"),
    (6, TOP + "[run]\nseed = 1\n[run]\n", "s.toml (line 5, column 5): not valid TOML: "),
    (7, TOP, "s.toml: workload: missing; a table [workload] with requests, trace"),
    (
        7,
        TOP + "[workload]\n",
        "s.toml (line 3): workload = {}: no requests; exactly one of requests, trace, count, classes",
    ),
    (7, TOP + "[workload.trace]\n", 's.toml (line 3): workload.trace.path: missing; for example path = "trace.csv"'),
    (22, TOP + 'workload.trace = {path = "x", speedup = 0}', "s.toml (line 3): workload.trace.speedup = 0: too small"),
    (
        22,
        TOP + 'workload.trace = {path = "x", speedup = 1e-300}',
        "s.toml (line 3): workload.trace.speedup = 1e-300: too",
    ),
    (
        22,
        TOP + 'workload.trace = {path = "x", speedup = 1e300}',
        "s.toml (line 3): workload.trace.speedup = 1e+300: too",
    ),
    (
        25,
        TOP + f'workload.trace = {{path = "x", speedup = 0.1{"0" * 40}1}}',
        "s.toml (line 3): workload.trace.speedup = ",
    ),
    (29, TOP + 'workload.trace = {path = "x", limit = 0}', "s.toml (line 3): workload.trace.limit = 0: too small; at"),
    (31, TOP + "workload.requests = []", "s.toml (line 3): workload.requests = []: empty; at least one"),
    (42, TOP.replace("\n", "\r"), "s.toml (line 1, column 11): not valid TOML: "),
    (43, TOP.encode("utf-16"), "s.toml: not UTF-8 (looks like UTF-16 LE); must be UTF-8"),
    (43, TOP.encode("utf-16-be"), "s.toml: not UTF-8 (looks like UTF-16 BE); must be UTF-8"),
    (43, TOP.encode() + b'claim = "caf\xe9"', "s.toml: byte 34 is not UTF-8; must be UTF-8"),
    (48, b"schema = 1\0", "s.toml (line 1, column 11): not valid TOML: "),
    (50, TOP + f"workload = {'[' * 10**5}{']' * 10**5}", "s.toml: nested too deeply"),
    (50, TOP + f"run.seed = {'9' * 5000}", "s.toml (line 3): an integer of thousands of digits"),
    (50, TOP + f"workload.requests = []\nrun.seed = 0x{'f' * 5000}", "s.toml (line 3): workload.requests = []: empty"),
    (
        57,
        TOP + 'workload.trace = {path = ""}',
        's.toml (line 3): workload.trace.path = "": empty; at least 1 character',
    ),
    (57, TOP + 'workload.trace = {path = "a\\u0000"}', 's.toml (line 3): workload.trace.path = "a\\u0000": control'),
]


@pytest.mark.parametrize(("row", "text", "complaint"), WHOLE, ids=by_row(WHOLE))
def test_a_whole_file_that_is_bad(tmp_path: Path, row: int, text: str | bytes, complaint: str) -> None:
    assert in_file(tmp_path, text)[0].startswith(complaint)


# What only Python can say: a value of the first request, and the complaint about it.
VALUES: list[tuple[int, str, object, str]] = [
    (9, "prompt_tokens", np.bool_(True), "= true: expected an integer, got a boolean"),
    (9, "prompt_tokens", b"1", "expected an integer, got a value of type bytes"),
    (9, "arrival_ms", Fraction(1, 3), "= 1/3: expected a number, got a value of type Fraction"),
    (9, "arrival_ms", dt.date(2023, 11, 16), "= 2023-11-16: expected a number, got a value of type date"),
    (9, "prompt_tokens", "\uff11\uff16", ": expected an integer, got a string"),
    (9, "id", 5, "= 5: expected a string, got an integer"),
    (
        10,
        "prompt_tokens",
        16.0,
        "= 16.0: expected an integer, got a number with a decimal point or an exponent; write 16",
    ),
    (10, "prompt_tokens", np.float64(1.5), "= 1.5: expected an integer, got a number with a decimal point"),
    (11, "arrival_ms", float("nan"), "= nan: not finite; must be a finite number"),
    (11, "arrival_ms", float("-inf"), "= -inf: not finite; must be a finite number"),
    (11, "arrival_ms", Decimal("sNaN"), "= nan: not finite; must be a finite number"),
    (36, "id", "x" * 10_000, '…": 10000 characters; at most 256'),
    (36, "id", "x\ud800", "not valid Unicode; no lone surrogates"),
    (36, "id", "\u202e\n", '= "\\u202E\\n": control character U+000A; none is allowed'),
    (50, "prompt_tokens", 10**5000, "= an integer of 16610 bits: too large; at most 2147483647"),
    (50, "arrival_ms", 10**5000, "= an integer of 16610 bits: too large; at most 1000000000000"),
    (50, "arrival_ms", Decimal(10) ** 5000, "too large; at most 1000000000000"),
]


@pytest.mark.parametrize(("row", "key", "value", "complaint"), VALUES, ids=by_row(VALUES))
def test_a_bad_value_in_a_mapping(row: int, key: str, value: object, complaint: str) -> None:
    request = {"prompt_tokens": 1, "output_tokens": 1, key: value}
    (line,) = complaints({"schema": 1, "name": "x", "workload": {"requests": [request]}})
    assert line.startswith(f"scenario: workload.requests[0].{key}")
    assert complaint in line


def test_all_problems_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = BASE.replace("prompt_tokens = 2", "prompt_tokens = 0").replace('id = "B"', 'id = "A"')
    text = text.replace("seed = 0", "seed = -1").replace("0.25", "nan")
    assert [re.sub(r":.*", "", line) for line in in_file(tmp_path, text)] == [
        "s.toml (line 5)", "s.toml (line 6)", "s.toml (line 9)", "s.toml (line 14)",
    ]  # fmt: skip


def test_twenty_problems_are_listed_and_the_others_counted(tmp_path: Path) -> None:
    rows = "".join(f"  {{prompt_tokens = -{n}, output_tokens = 1}},\n" for n in range(50))
    lines = in_file(tmp_path, f"{TOP}[workload]\nrequests = [\n{rows}]\n")
    assert lines[0] == "s.toml (line 5): workload.requests[0].prompt_tokens = 0: too small; at least 1"
    assert (len(lines), lines[-1]) == (21, "and 30 more")


def test_an_id_that_is_there_many_times_tells_five_places() -> None:
    rows = [{"id": "x", "prompt_tokens": 1, "output_tokens": 1}] * 7
    (line,) = complaints({"schema": 1, "name": "x", "workload": {"requests": rows}})
    assert line == (
        'scenario: workload.requests[1].id = "x": not unique (7 in all); each at most once; also '
        "workload.requests[0], workload.requests[2], workload.requests[3], workload.requests[4]"
    )


def test_an_id_may_not_be_the_default_of_another() -> None:
    rows = [{"id": "r000002", "prompt_tokens": 1, "output_tokens": 1}, {"prompt_tokens": 1, "output_tokens": 1}]
    (line,) = complaints({"schema": 1, "name": "x", "workload": {"requests": rows}})
    assert line == (
        "scenario: workload.requests[1].id: r000002 by its place, not unique; each at most once; "
        "also workload.requests[0]"
    )


OVERRIDES: list[tuple[str, object, str]] = [
    ("scheduler.chunk_tokens", 0, "--set scheduler.chunk_tokens = 0: too small; at least 1"),
    ("scheduler.chunk", 4, "--set scheduler.chunk = 4: unknown key; did you mean 'scheduler.chunk_tokens'?"),
    ("chunk_tokens", 4, "--set chunk_tokens = 4: unknown key; did you mean 'scheduler.chunk_tokens'?"),
    ("device.max_num_seqs", 4, "--set device.max_num_seqs = 4: unknown key; did you mean 'scheduler.max_running'?"),
    ("workload.requests.0", 1, "--set workload.requests.0 = 1: workload.requests is a list; set it as a whole"),
    ("workload.requests", [], "--set workload.requests = []: empty; at least one"),
    ("scheduler", 3, "--set scheduler = 3: expected a table, got an integer"),
    ("", 3, '--set "" = 3: unknown key'),
    ("a\x1bb..c", 3, '--set "a\\u001Bb"."".c = 3: unknown key'),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "complaint"), OVERRIDES)
def test_a_bad_override_is_named_as_one(tmp_path: Path, key: str, value: object, complaint: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(BASE)
    assert complaints(path, overrides={key: value}) == [complaint]
    with pytest.raises(ScenarioError) as caught:
        load(path).with_overrides({key: value})
    assert caught.value.args == (complaint,)


def test_an_override_inside_of_what_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(BASE.replace("[device]\njob_ms = 0.25", "").replace("[workload]", "device = 3\n[workload]"))
    assert complaints(path, overrides={"device.job_ms": 1}) == [
        f"{path} (line 3): device = 3: expected a table, got an integer"
    ]


def test_an_unknown_variant() -> None:
    request = {"prompt_tokens": 1, "output_tokens": 1}
    plain = {"schema": 1, "name": "x", "workload": {"requests": [request]}}
    with pytest.raises(ScenarioError, match=r'^--variant "c5": x has no variants$'):
        load(plain).variant("c5")
    with pytest.raises(ScenarioError, match=r"^--variant \"c5\": unknown; one of c2, c4; did you mean 'c4'\?$"):
        load(plain | {"run": {"variants": [{"name": "c2"}, {"name": "c4"}]}}).variant("c5")


def test_a_mapping_with_nothing_in_it_or_with_itself_in_it() -> None:
    assert complaints({})[0].startswith("scenario: empty; ")
    endless: dict[str, Any] = {"schema": 1}
    endless["workload"] = endless
    assert complaints(endless) == ["scenario: nested too deeply"]


def test_keys_that_are_no_strings() -> None:
    assert complaints({"schema": 1, "workload": {5: 1}}) == ["scenario: a key is 5; all keys must be strings"]


def whatever_it_says(source: Any) -> list[str]:
    """The complaints, if any. An error of another kind comes through."""
    try:
        load(source)
    except ScenarioError as error:
        return [str(line) for line in error.args]
    return []


REAL = BASE.replace("seed = 0", 'seed = 0 # é\n[[run.variants]]\nname = "v"\nset = {"scheduler.chunk_tokens" = 4}')


@pytest.mark.parametrize("cut", range(len(REAL.encode())))
def test_a_file_cut_anywhere_loads_or_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(REAL.encode()[:cut])
    assert all(line.startswith(str(path)) for line in whatever_it_says(path))


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.decimals()
JUNK = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
KEYS = st.sampled_from(
    [
        "schema",
        "name",
        "workload",
        "requests",
        "trace",
        "device",
        "scheduler",
        "run",
        "variants",
        "set",
        "policies",
        "id",
    ]
)


@given(st.dictionaries(KEYS, JUNK | st.dictionaries(KEYS, JUNK, max_size=4), max_size=6))
def test_no_document_makes_it_fail_otherwise(document: dict[str, Any]) -> None:
    assert all(line.isprintable() for line in whatever_it_says({"schema": 1, "name": "x"} | document))
