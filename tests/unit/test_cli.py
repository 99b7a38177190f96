"""The command line: what each command and option answers, on which stream, with which exit code.

Most of it runs in this process; only what is about a process (its streams, its folder) starts one.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import sim
from sim import cli
from sim.record import disk
from sim.request import Status

ROOT = Path(sim.__file__).parents[1]
NOTE = "note: scheduler.chunk_tokens is not used by fcfs\n"
RUNS = ("run", "mixed")


class Answer(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture
def headway(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Command]:
    """The command, in an empty folder, in English, without a terminal."""
    monkeypatch.chdir(tmp_path)
    for name in ("LC_ALL", "LC_MESSAGES", "LANG", "LANGUAGE", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    before = signal.getsignal(signal.SIGTERM)

    def call(*arguments: str) -> Answer:
        with pytest.raises(SystemExit) as ended:
            cli.main(list(arguments))
        printed = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Answer(ended.value.code, printed.out, printed.err)

    yield call
    signal.signal(signal.SIGTERM, before)


def complaint(answer: Answer, code: int = 2) -> str:
    """The one line on stderr with which a command refused; nothing on stdout."""
    assert (answer.code, answer.out) == (code, "")
    (line,) = answer.err.splitlines()
    assert line.isprintable()
    return line


def process(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    """The command in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", **options.pop("env", {})}
    command = [sys.executable, "-m", "sim", *arguments]
    return subprocess.run(
        command, env=environment, text=True, check=False, timeout=60, **({"capture_output": True} | options)
    )


# --- what is answered ------------------------------------------------------------------------------------------------


def test_without_a_command_it_says_how_to_use_it(headway: Command) -> None:
    answer = headway()
    assert answer.code == 2
    assert "Usage: headway" in answer.out + answer.err


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_lists_the_commands_and_the_exit_codes(headway: Command, flag: str) -> None:
    answer = headway(flag)
    assert (answer.code, answer.err) == (0, "")
    for command in ("run", "verify", "list", "new", "schema"):
        assert re.search(rf"^  {command} ", answer.out, re.MULTILINE)
    assert "Exit codes: 0 done, 1 a bug" in " ".join(answer.out.split())


@pytest.mark.parametrize("command", ["run", "verify", "list", "new", "schema"])
def test_every_command_has_help(headway: Command, command: str) -> None:
    answer = headway(command, "--help")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"Usage: headway {command} ")


def test_run_prints_each_policy_and_who_gained(headway: Command) -> None:
    answer = headway(*RUNS)
    assert (answer.code, answer.err) == (0, NOTE)
    assert "makespan 29.50 ms, 14 jobs" in answer.out
    assert "makespan 30.75 ms, 19 jobs" in answer.out
    assert "A's longest stall 14.75 → 3.50 ms" in answer.out


def test_run_writes_nothing_unless_asked(headway: Command, tmp_path: Path) -> None:
    headway(*RUNS)
    assert list(tmp_path.iterdir()) == []


def test_json_stands_alone_on_stdout(headway: Command) -> None:
    answer = headway(*RUNS, "--json")
    document = json.loads(answer.out)
    assert (answer.code, answer.err) == (0, NOTE)
    assert document["schema"] == "headway.result/1"
    assert [run["name"] for run in document["runs"]] == ["fcfs", "chunked"]


def test_the_json_is_that_of_python(headway: Command) -> None:
    document = json.loads(headway(*RUNS, "--policy", "fcfs", "--json").out)
    assert document["runs"] == sim.simulate(sim.load("mixed")).to_dict()["runs"]


def test_list_names_the_ready_scenarios_and_their_claims(headway: Command) -> None:
    answer = headway("list")
    assert (answer.code, answer.err) == (0, "")
    assert [line.split()[0] for line in answer.out.splitlines()] == sim_gallery()
    listed = json.loads(headway("list", "--json").out)["scenarios"]
    assert [entry["name"] for entry in listed] == sim_gallery()
    assert all(entry["claim"] in answer.out for entry in listed)


def sim_gallery() -> list[str]:
    return sorted(path.stem for path in (ROOT / "scenarios").glob("*.toml"))


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_language_asked_for(headway: Command, lang: str) -> None:
    answer = headway(*RUNS, "--lang", lang)
    assert ("条请求" in answer.out) == (lang == "zh")


def test_the_language_of_the_locale(headway: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert "条请求" in headway(*RUNS).out
    assert "条请求" not in headway(*RUNS, "--lang", "en").out


# --- which runs ------------------------------------------------------------------------------------------------------


def names(answer: Answer) -> list[str]:
    assert answer.code == 0, answer.err
    return [run["name"] for run in json.loads(answer.out)["runs"]]


@pytest.mark.parametrize(
    ("policy", "runs"),
    [
        ("static", ["static"]),
        ("chunked,fcfs", ["chunked", "fcfs"]),
        ("both", ["fcfs", "chunked"]),
    ],
)
def test_the_policies_asked_for_in_their_order(headway: Command, policy: str, runs: list[str]) -> None:
    assert names(headway(*RUNS, "--policy", policy, "--json")) == runs


def test_all_are_all_presets(headway: Command) -> None:
    from sim.policies.presets import PRESETS

    assert names(headway(*RUNS, "--policy", "all", "--json")) == list(PRESETS)


def test_without_policies_those_of_the_file(headway: Command) -> None:
    assert names(headway("run", "static-vs-continuous", "--json")) == ["fcfs", "static"]


def test_without_any_the_scheduler_s(headway: Command) -> None:
    headway("new", "mine")
    path = Path("mine.toml")
    path.write_text(path.read_text().replace('policies = ["fcfs", "chunked"]', ""))
    assert names(headway("run", "mine.toml", "--json")) == ["fcfs"]
    assert names(headway("run", "mine.toml", "--json", "--set", "scheduler.policy=static")) == ["static"]


def test_variants_side_by_side(headway: Command) -> None:
    answer = headway("run", "unseen", "--json")
    assert names(answer) == ["fcfs", "chunk-2", "chunk-4", "chunk-8"]
    chunks = {run["name"]: run["settings"]["scheduler.chunk_tokens"] for run in json.loads(answer.out)["runs"]}
    assert chunks == {"fcfs": 2, "chunk-2": 2, "chunk-4": 4, "chunk-8": 8}


def test_some_of_the_variants_in_the_order_asked_for(headway: Command) -> None:
    asked = ("--variant", "chunk-8", "--variant", "chunk-2")
    assert names(headway("run", "unseen", "--json", *asked)) == ["chunk-8", "chunk-2"]


def test_policies_instead_of_the_files_variants(headway: Command) -> None:
    assert names(headway("run", "unseen", "--json", "--policy", "both")) == ["fcfs", "chunked"]


# --- options that change the scenario --------------------------------------------------------------------------------


def settings(answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.out)["runs"][0]["settings"]
    return found


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        (["--chunk", "4"], "scheduler.chunk_tokens", 4),
        (["--overhead-ms", "0"], "device.job_ms", 0),
        (["--overhead-ms", "0.123457"], "device.job_ms", 0.123457),
        (["--seed", "7"], "run.seed", 7),
        (["--max-jobs", "1000"], "run.max_jobs", 1000),
        (["--max-seconds", "60.5"], "run.max_seconds", 60.5),
        (["--seed=18446744073709551615"], "run.seed", 2**64 - 1),
        (["--set", "scheduler.max_running=3"], "scheduler.max_running", 3),
        (["--set", "device.job_ms=1e-3"], "device.job_ms", 0.001),
        (["--set", "scheduler.policy=static", "--set", "run.seed=3"], "run.seed", 3),
        (["--set", 'scheduler.batching="static"'], "scheduler.batching", "static"),
        (["--set", "scheduler.batching=static"], "scheduler.batching", "static"),
    ],
)
def test_an_option_reaches_the_run(headway: Command, options: list[str], key: str, value: object) -> None:
    assert settings(headway(*RUNS, "--policy", "chunked", "--json", *options))[key] == value


def test_the_lessons_counterexample(headway: Command) -> None:
    """``prefill-only``: 12.25 against 13.50 ms, and both 12 without overhead."""

    def makespans(*options: str) -> list[float]:
        document = json.loads(
            headway("run", "prefill-only", "--json", "--policy", "both", "--chunk", "2", *options).out
        )
        return [run["summary"]["makespanMs"] for run in document["runs"]]

    assert makespans() == [12.25, 13.5]
    assert makespans("--overhead-ms", "0") == [12.0, 12.0]


def test_a_trace_given_by_a_path_relative_to_here(headway: Command) -> None:
    Path("t.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,3,2\n")
    answer = headway("run", "azure-conv", "--json", "--set", "workload.trace.path=t.csv")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["runs"][0]["requests"][0]["promptTokens"] == 3


def test_a_number_looking_name_of_a_trace_is_a_path(headway: Command) -> None:
    Path("2023").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,3,2\n")
    assert headway("run", "azure-conv", "--json", "--set", "workload.trace.path=2023").code == 0


def test_without_its_trace_it_says_what_is_missing_and_how_to_give_it(headway: Command) -> None:
    line = headway("run", "azure-conv").err.splitlines()[-1]
    assert "AzureLLMInferenceTrace_conv.csv" in line
    assert "--set workload.trace.path=" in line


# --- notes -----------------------------------------------------------------------------------------------------------


def test_a_setting_that_nobody_uses_is_noted_once(headway: Command) -> None:
    answer = headway(*RUNS, "--policy", "fcfs,static", "--chunk", "4")
    assert answer.err == "note: scheduler.chunk_tokens is not used by fcfs, static\n"


def test_nothing_is_noted_when_all_is_used(headway: Command) -> None:
    assert headway(*RUNS, "--policy", "chunked").err == ""


# --- what is refused -------------------------------------------------------------------------------------------------

ALLOWED = (
    "one of fcfs, chunked, static, orca, sarathi, vllm, vllm-v0, trtllm-no-evict, trtllm-max-utilization, both, all"
)
REFUSED = [
    (["--seed=-1"], "--seed -1: too small; at least 0"),
    (["--seed", "-1"], "--seed -1: too small; at least 0"),
    (["--seed", "18446744073709551616"], "--seed 18446744073709551616: too large; at most 18446744073709551615"),
    (["--set", "run.seed=-1"], "--set run.seed = -1: too small; at least 0"),  # as it was given
    (["--seed", "1_000"], '--seed "1_000": not an integer; decimal digits'),
    (["--seed", "\uff11\uff12"], '--seed "\uff11\uff12": not an integer; decimal digits'),
    (["--seed", " 1"], '--seed " 1": not an integer; decimal digits'),
    (["--seed", "+1"], '--seed "+1": not an integer; decimal digits'),
    (["--seed", "1.5"], '--seed "1.5": not an integer; decimal digits'),
    (["--seed", "abc"], '--seed "abc": not an integer; decimal digits'),
    (["--seed="], "--seed: empty; a value"),
    (["--seed", " "], "--seed: empty; a value"),
    (["--seed", "3", "--seed", "3"], '--seed: given 2 times ("3", "3"); only once'),
    (["--chunk", "0"], "--chunk 0: too small; at least 1"),
    (["--chunk", "4.0"], '--chunk "4.0": not an integer; decimal digits'),
    (["--chunk", "4", "--chunk", "8"], '--chunk: given 2 times ("4", "8"); only once'),
    (["--max-jobs", "0"], "--max-jobs 0: too small; at least 1"),
    (["--max-seconds", "x"], '--max-seconds "x": not a number; decimal digits, with a point if needed'),
    (["--overhead-ms", "-0.25"], "--overhead-ms -0.25: too small; at least 0"),
    (["--overhead-ms", "nan"], '--overhead-ms "nan": not a number; decimal digits, with a point if needed'),
    (["--overhead-ms", "inf"], '--overhead-ms "inf": not a number; decimal digits, with a point if needed'),
    (["--overhead-ms", "1e400"], '--overhead-ms "1e400": not a number; decimal digits, with a point if needed'),
    (["--overhead-ms", "0,25"], '--overhead-ms "0,25": not a number; decimal digits, with a point if needed'),
    (["--overhead-ms", "0.1234567890123"],
     "--overhead-ms 0.1234567890123: too many decimals; at most 12 of a millisecond"),
    (["--chunk", "4", "--set", "scheduler.chunk_tokens=4"],
     "--set scheduler.chunk_tokens: also given by an option of its own; only one of them"),
    (["--set", "scheduler.chunk_tokens=4", "--set", "scheduler.chunk_tokens=8"],
     "--set scheduler.chunk_tokens: given twice; only once"),
    (["--set", "scheduler.chunk_tokens=1_6_"],
     '--set scheduler.chunk_tokens = "1_6_": expected an integer, got a string'),
    (["--set", "scheduler.chunk_tokens="], '--set scheduler.chunk_tokens = "": expected an integer, got a string'),
    (["--set", "scheduler.chunk_token=4"],
     "--set scheduler.chunk_token = 4: unknown key; did you mean 'scheduler.chunk_tokens'?"),
    (["--set", "chunk_tokens=4"],
     '--set "chunk_tokens=4": not of the form TABLE.KEY=VALUE; e.g. scheduler.chunk_tokens=4'),
    (["--set", "scheduler.chunk_tokens"],
     '--set "scheduler.chunk_tokens": not of the form TABLE.KEY=VALUE; e.g. scheduler.chunk_tokens=4'),
    (["--set", ""], '--set "": not of the form TABLE.KEY=VALUE; e.g. scheduler.chunk_tokens=4'),
    (["--policy", "fifo"], f"--policy fifo: no policy 'fifo'; {ALLOWED}; did you mean 'fcfs'?"),
    (["--policy", "fcfs,"], f"--policy fcfs,: no policy ''; {ALLOWED}"),
    (["--policy", "fcfs, chunked"],
     f"--policy fcfs, chunked: no policy ' chunked'; {ALLOWED}; did you mean 'chunked'?"),
    (["--policy", "both,static"], "--policy both,static: both stands alone, not in a list"),
    (["--policy", "fcfs,all"], "--policy fcfs,all: all stands alone, not in a list"),
    (["--policy", "fcfs,fcfs"], "--policy fcfs,fcfs: a policy is named twice; each at most once"),
    (["--policy", "fcfs", "--policy", "static"], '--policy: given 2 times ("fcfs", "static"); only once'),
    (["--policy", ""], "--policy: empty; a value"),
    (["--policy", "fcfs", "--variant", "x"],
     "--policy and --variant: only one of them; a variant sets its own policy"),
    (["--variant", "x"], '--variant "x": mixed has no variants'),
    (["--variant", "x", "--variant", "x"], '--variant "x": given twice; each at most once'),
    (["--variant", ""], "--variant: empty; a value"),
    (["--lang", "fr"], '--lang "fr": unknown; one of en, zh'),
    (["--lang", "zhh"], "--lang \"zhh\": unknown; one of en, zh; did you mean 'zh'?"),
    (["--lang", "en", "--lang", "en"], '--lang: given 2 times ("en", "en"); only once'),
    (["--output", ""], "--output: empty; a value"),
    (["--output", "a", "--output", "b"], '--output: given 2 times ("a", "b"); only once'),
]  # fmt: skip


@pytest.mark.parametrize(("options", "said"), REFUSED, ids=[" ".join(options) for options, _ in REFUSED])
def test_what_is_refused_in_one_line(headway: Command, tmp_path: Path, options: list[str], said: str) -> None:
    assert complaint(headway(*RUNS, *options)) == said
    assert list(tmp_path.iterdir()) == []


PARSED = [
    (["simualte", "mixed"], "No such command 'simualte'"),
    (["runn", "mixed"], "Did you mean 'run'?"),
    (["verfiy", "x"], "Did you mean 'verify'?"),
    (["run"], "Missing argument 'SCENARIO'"),
    (["verify"], "Missing argument 'PATH'"),
    (["new"], "Missing argument 'NAME'"),
    (["run", "mixed", "extra"], "unexpected extra argument"),
    (["list", "extra"], "unexpected extra argument"),
    (["schema", "extra"], "unexpected extra argument"),
    (["run", "mixed", "--se", "3"], "No such option: --se"),  # an abbreviation is none
    (["run", "mixed", "--polciy", "fcfs"], "--policy"),
    (["run", "mixed", "--seed"], "requires an argument"),
    (["run", "mixed", "--json=yes"], "does not take a value"),
    (["list", "--chunk", "3"], "No such option: --chunk"),
    (["--json", "run", "mixed"], "No such option: --json"),
]


@pytest.mark.parametrize(("arguments", "said"), PARSED, ids=[" ".join(arguments) for arguments, _ in PARSED])
def test_a_line_that_can_not_be_parsed(headway: Command, arguments: list[str], said: str) -> None:
    line = complaint(headway(*arguments))
    assert said in line
    assert line.endswith("see headway --help")


@pytest.mark.parametrize("name", ["mxied", "./mixed", "nosuch.toml", "/", "-", "", "a\x1b[31m\n"])
def test_a_scenario_that_there_is_not(headway: Command, name: str) -> None:
    assert complaint(headway("run", "--", name))


def test_a_scenario_whose_name_is_too_long_for_a_file(headway: Command) -> None:
    complaint(headway("run", "x" * 5000))


def test_the_nearest_ready_scenario_is_offered(headway: Command) -> None:
    assert complaint(headway("run", "mxied")).endswith("did you mean 'mixed'?")


def test_the_nearest_variant_is_offered(headway: Command) -> None:
    line = complaint(headway("run", "unseen", "--variant", "chunk-3"))
    assert line.startswith('--variant "chunk-3": unknown; one of fcfs, chunk-2, chunk-4, chunk-8; did you mean')


def test_all_problems_of_a_file_in_one_go_with_their_lines(headway: Command) -> None:
    workload = "[workload]\nrequests = [{prompt_tokens = 0, output_tokens = 1}]"
    Path("bad.toml").write_text(f'schema = 1\nname = "bad"\n{workload}\n[scheduler]\nchunk = 2\n')
    answer = headway("run", "bad.toml", "--output", "out")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.splitlines() == [
        "bad.toml (line 4): workload.requests[0].prompt_tokens = 0: too small; at least 1",
        "bad.toml (line 6): scheduler.chunk = 2: unknown key in [scheduler]; did you mean 'chunk_tokens'?",
    ]
    assert not Path("out").exists()


def test_a_hostile_policy_is_shown_and_not_obeyed(headway: Command) -> None:
    complaint(headway(*RUNS, "--variant", "a\x1b[31m\n"))
    complaint(headway(*RUNS, "--lang", "a\x1b[31m\n"))
    complaint(headway(*RUNS, "--set", "a\x1b[31m\n"))
    complaint(headway(*RUNS, "--policy", "a\x1b[31m\n"))
    complaint(headway(*RUNS, "--policy", "fcfs,a\x1b[31m\n"))


def test_a_variant_asked_for_twice_is_refused(headway: Command) -> None:
    line = complaint(headway("run", "unseen", "--variant", "chunk-2", "--variant", "chunk-2"))
    assert line == '--variant "chunk-2": given twice; each at most once'


# --- --debug ---------------------------------------------------------------------------------------------------------


def test_debug_shows_the_traceback_before_the_line(headway: Command) -> None:
    answer = headway(*RUNS, "--policy", "fifo", "--debug")
    assert answer.code == 2
    assert answer.err.startswith("Traceback (most recent call last):")
    assert answer.err.splitlines()[-1].startswith("--policy fifo: no policy 'fifo'")


def test_a_bug_is_one_line_too(headway: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("sim.experiment.plan", broken)
    line = complaint(headway(*RUNS), code=1)
    assert line == "a bug in Headway: ZeroDivisionError: division by zero; --debug shows where"
    assert headway(*RUNS, "--debug").err.startswith("Traceback")


# --- exit codes ------------------------------------------------------------------------------------------------------


def test_exit_1_when_an_invariant_breaks(headway: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from sim.errors import InvariantError

    def broken(*_: object) -> None:
        raise InvariantError("request A: 3 tokens were scheduled, 4 were due")

    monkeypatch.setattr(import_module(sim.simulate.__module__), "check_tokens", broken)
    answer = headway(*RUNS, "--output", "out")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == f"{NOTE}request A: 3 tokens were scheduled, 4 were due\n"
    assert not Path("out").exists()


STOPPED = "stopped after 3 jobs (run.max_jobs): 3 jobs, 15.75 ms of simulated time"


def test_exit_3_when_a_limit_ends_it_and_without_output_nothing_is_written(headway: Command, tmp_path: Path) -> None:
    answer = headway(*RUNS, "--set", "run.max_jobs=3")
    assert (answer.code, answer.out) == (3, "")
    assert answer.err.splitlines()[1:] == [STOPPED]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("output", ["out", "out.json"])
def test_what_there_is_when_a_limit_ends_it_is_written_and_marked(headway: Command, output: str) -> None:
    """fcfs is stopped, so chunked never ran."""
    answer = headway(*RUNS, "--set", "run.max_jobs=3", "--output", output)
    assert (answer.code, answer.out) == (3, "")
    written = f"written: {output}, up to where it was stopped and marked as incomplete"
    assert answer.err.splitlines()[1:] == [written, STOPPED]
    (result,) = sim.open_results(output)
    assert (result.name, result.incomplete) == ("fcfs", STOPPED)
    assert [len(result.jobs["start_ns"]), result.requests["status"].tolist()] == [3, [Status.UNFINISHED] * 3]


@pytest.mark.parametrize("output", ["out", "out/fcfs", "out.json"])
def test_an_incomplete_result_is_not_verified(headway: Command, output: str) -> None:
    headway(*RUNS, "--set", "run.max_jobs=3", "--output", output.partition("/")[0])
    answer = headway("verify", output)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.endswith(f'the run "fcfs" is incomplete ({STOPPED}): only a whole one can be verified\n')


def test_exit_3_when_it_is_stuck(headway: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    class Idle:
        def plan(self, view: object, cycle: object) -> None: ...

    monkeypatch.setattr(import_module(sim.simulate.__module__), "compose", lambda _: Idle())
    answer = headway(*RUNS)
    assert (answer.code, answer.out) == (3, "")
    assert answer.err.splitlines()[1:3] == [
        "stuck at 4000000 ns: 3 requests have not ended",
        "<A: 0 of 2 tokens computed, 0 emitted> is waiting",
    ]


def test_exit_130_when_it_is_interrupted(headway: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sim.experiment.plan", interrupted)
    assert complaint(headway(*RUNS), code=130) == "interrupted; no result was left half-written"


# --- --output --------------------------------------------------------------------------------------------------------

TABLES = ("admissions", "copies", "jobs", "preemptions", "requests", "schedule")
OF_A_RUN = sorted([*(f"{name}.parquet" for name in TABLES), "as-read.toml", "manifest.json", "scenario.toml",
                   "summary.json"])  # fmt: skip


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", ["out.json", "deep/er/out.json"])
def test_one_json_file_with_all_runs(headway: Command, tmp_path: Path, name: str) -> None:
    answer = headway(*RUNS, "--output", name)
    assert (answer.code, answer.err) == (0, f"{NOTE}written: {name}\n")
    assert json.loads(Path(name).read_text()) == json.loads(headway(*RUNS, "--json").out)
    assert listing(Path(name).parent) == ["out.json"]


def test_a_folder_with_one_for_each_policy(headway: Command) -> None:
    assert headway(*RUNS, "--output", "out").code == 0
    assert listing(Path("out")) == ["chunked", "fcfs", "manifest.json", "result.json", "runs.json"]
    assert listing(Path("out/fcfs")) == OF_A_RUN
    assert json.loads(Path("out/result.json").read_text()) == json.loads(headway(*RUNS, "--json").out)


def test_a_folder_with_one_for_each_variant(headway: Command) -> None:
    assert headway("run", "unseen", "--output", "out").code == 0
    assert [path.name for path in sorted(Path("out").iterdir()) if path.is_dir()] == [
        "chunk-2",
        "chunk-4",
        "chunk-8",
        "fcfs",
    ]
    assert listing(Path("out/chunk-4")) == OF_A_RUN


@pytest.mark.parametrize("name", ["out", "out.json"])
def test_json_goes_to_stdout_beside_it(headway: Command, name: str) -> None:
    answer = headway(*RUNS, "--output", name, "--json")
    assert json.loads(answer.out)["schema"] == "headway.result/1"
    assert answer.err == f"{NOTE}written: {name}\n"


def test_ours_is_replaced_whole(headway: Command) -> None:
    headway(*RUNS, "--output", "out")
    assert headway("run", "unseen", "--output", "out", "--policy", "static").code == 0
    assert listing(Path("out")) == ["manifest.json", "result.json", "runs.json", "static"]


def test_our_file_is_replaced_whole(headway: Command) -> None:
    headway("run", "unseen", "--output", "out.json")
    assert headway("run", "prefill-only", "--output", "out.json").code == 0
    assert json.loads(Path("out.json").read_text())["scenario"]["name"] == "prefill-only"


def not_ours(name: str) -> None:
    """What stands in the way: a folder with notes in it, or a file."""
    if name.endswith(".json"):
        Path(name).write_text('{"mine": true}')
    else:
        Path(name).mkdir()
        Path(name, "notes.txt").write_text("mine")


@pytest.fixture
def never_simulates(monkeypatch: pytest.MonkeyPatch) -> None:
    def simulated(*_: object) -> None:
        raise AssertionError("it was simulated")

    monkeypatch.setattr("sim.experiment.Plan.run", simulated)


@pytest.mark.usefixtures("never_simulates")
@pytest.mark.parametrize("name", ["out", "out.json"])
def test_what_is_not_ours_is_refused_before_anything_is_simulated(headway: Command, tmp_path: Path, name: str) -> None:
    not_ours(name)
    answer = headway(*RUNS, "--output", name)
    assert (answer.code, answer.out) == (4, "")
    assert answer.err.startswith(f"{NOTE}{name}: ")
    assert answer.err.count("\n") == 2
    assert listing(tmp_path) == [name]
    assert "mine" in (Path(name) if name.endswith(".json") else Path(name, "notes.txt")).read_text()


@pytest.mark.usefixtures("never_simulates")
@pytest.mark.parametrize("name", ["scenario.toml", "scenario.toml/out", "/proc/headway/out", ".", "..", "/", "n" * 300])
def test_where_nothing_can_be_written(headway: Command, name: str, tmp_path: Path) -> None:
    Path("scenario.toml").write_text("mine")
    answer = headway(*RUNS, "--output", name)
    assert (answer.code, answer.out) == (4, "")
    assert answer.err.count("\n") == 2
    assert listing(tmp_path) == ["scenario.toml"]


@pytest.mark.usefixtures("never_simulates")
def test_a_folder_with_a_manifest_that_is_not_ours_is_refused(headway: Command) -> None:
    Path("out").mkdir()
    Path("out/manifest.json").write_text("{}")
    assert headway(*RUNS, "--output", "out").code == 4


def test_notes_among_our_files_are_kept_and_refused(headway: Command) -> None:
    headway(*RUNS, "--output", "out")
    Path("out/notes.txt").write_text("mine")
    answer = headway(*RUNS, "--output", "out")
    assert (answer.code, answer.err) == (
        4,
        f"{NOTE}out: holds 'notes.txt', not part of the result; move it elsewhere first\n",
    )
    assert Path("out/notes.txt").read_text() == "mine"


def test_a_disk_that_is_full_is_exit_4_and_the_old_result_stays(
    headway: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    headway(*RUNS, "--output", "out")
    before = Path("out/result.json").read_bytes()

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk, "fsync", full)
    answer = headway(*RUNS, "--policy", "static", "--output", "out")
    assert (answer.code, answer.out) == (4, "")
    assert "No space left on device" in answer.err
    assert (listing(Path()), Path("out/result.json").read_bytes()) == (["out"], before)


# --- verify ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["out.json", "out", "out/fcfs"])
def test_verify_finds_a_result_consistent(headway: Command, name: str) -> None:
    headway(*RUNS, "--output", name.partition("/")[0])
    answer = headway("verify", name)
    assert (answer.code, answer.err) == (0, "")
    assert re.fullmatch(r"consistent: \d+ checks passed\n", answer.out)
    document = json.loads(headway("verify", name, "--json").out)
    assert (document["ok"], document["findings"]) == (True, [])
    assert document["checks"]


def test_verify_finds_what_is_wrong(headway: Command) -> None:
    headway(*RUNS, "--output", "out.json")
    path = Path("out.json")
    path.write_text(path.read_text().replace('"ttftMs": 12.5', '"ttftMs": 12.25', 1))
    answer = headway("verify", "out.json")
    assert (answer.code, answer.err) == (1, "")
    assert "L" in answer.out
    document = json.loads(headway("verify", "out.json", "--json").out)
    assert document["ok"] is False
    assert {"check", "where", "expected", "found"} <= document["findings"][0].keys()


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"schema": "headway.result/9"}', "\x00", "nonsense"])
def test_what_is_no_result_can_not_be_verified(headway: Command, text: str) -> None:
    Path("x.json").write_text(text)
    assert headway("verify", "x.json").code == 2
    assert headway("verify", "x.json").out == ""


@pytest.mark.parametrize("name", ["nosuch", "nosuch.json", ".", "/dev/null"])
def test_nor_what_is_not_there(headway: Command, name: str) -> None:
    assert complaint(headway("verify", name))


# --- new and schema --------------------------------------------------------------------------------------------------


def test_a_new_scenario_loads_runs_and_is_verified(headway: Command) -> None:
    answer = headway("new", "mine")
    assert (answer.code, answer.out, answer.err) == (0, "mine.toml: run it with `headway run mine.toml`\n", "")
    assert sim.load("mine.toml").name == "mine"
    assert headway("run", "mine.toml", "--output", "out").code == 0
    assert headway("verify", "out").code == 0
    assert headway("run", "mine.toml", "--set", "run.policies=['static']").code == 0


def test_every_line_that_the_template_comments_out_is_right_too(headway: Command) -> None:
    headway("new", "mine")
    text = Path("mine.toml").read_text()
    text = re.sub(r"^# (decode_ms_per_request|context_ms_per_token|max_running) =", r"\1 =", text, flags=re.MULTILINE)
    text = re.sub(r"^policies = .*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^# (\[\[run\.variants\]\]|name = |set = )", r"\1", text, flags=re.MULTILINE)
    Path("mine.toml").write_text(text)
    scenario = sim.load("mine.toml")
    assert scenario.variant("chunk-4").scheduler.chunk_tokens == 4
    assert scenario.scheduler.max_running == 8


def test_new_says_where_in_json(headway: Command) -> None:
    assert json.loads(headway("new", "mine", "--json").out) == {"path": "mine.toml"}


@pytest.mark.parametrize("again", ["mine", "mine.toml"])
def test_what_is_there_is_not_overwritten(headway: Command, again: str) -> None:
    Path("mine.toml").write_text("mine")
    assert complaint(headway("new", again), code=4).startswith("mine.toml: ")
    assert Path("mine.toml").read_text() == "mine"


@pytest.mark.parametrize("name", ["../x", "/x", "", ".", "..", "-x", "a b", "a\n", "é", "x" * 65, "a/b", "a\x1b"])
def test_a_name_that_is_none(headway: Command, tmp_path: Path, name: str) -> None:
    assert "not a name" in complaint(headway("new", "--", name))
    assert list(tmp_path.iterdir()) == []


def test_the_schema_is_one_and_knows_every_key_of_every_ready_scenario(headway: Command) -> None:
    """No validator is at hand: that it says what the files contain is looked up key by key."""
    schema = json.loads(headway("schema").out)
    assert schema["type"] == "object"
    for name in sim_gallery():
        unknown = list(unknown_keys(schema, schema, sim.load(name).document))
        assert unknown == []


def unknown_keys(root: dict[str, Any], schema: dict[str, Any], value: object, at: str = "") -> Iterator[str]:
    """The keys of a document that a JSON Schema does not list, and the ones that it requires and are not there."""
    schema = next((one for one in schema.get("anyOf", ()) if isinstance(value, dict) == ("$ref" in one)), schema)
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if isinstance(value, dict) and "properties" in schema:
        assert schema["additionalProperties"] is False
        yield from (f"{at}.{key} is missing" for key in schema.get("required", ()) if key not in value)
        for key, inner in value.items():
            if key not in schema["properties"]:
                yield f"{at}.{key} is unknown"
            else:
                yield from unknown_keys(root, schema["properties"][key], inner, f"{at}.{key}")
    elif isinstance(value, list):
        assert schema["type"] == "array"
        for inner in value:
            yield from unknown_keys(root, schema["items"], inner, f"{at}[]")
    elif isinstance(value, dict):
        assert schema["type"] == "object"
    else:
        yield from wrong_kind(schema, value, at)


def wrong_kind(schema: dict[str, Any], value: object, at: str) -> Iterator[str]:
    kinds = {"string": str, "integer": int, "number": (int, float, Decimal), "boolean": bool}
    if "const" in schema or "enum" in schema:
        if value not in schema.get("enum", [schema.get("const")]):
            yield f"{at} = {value!r} is not allowed"
    elif not isinstance(value, kinds[schema["type"]]):  # type: ignore[arg-type]
        yield f"{at} = {value!r} is no {schema['type']}"


def test_the_schema_describes_every_key(headway: Command) -> None:
    schema = json.loads(headway("schema").out)
    for table in (schema, *schema["$defs"].values()):
        for key, entry in table["properties"].items():
            assert entry.get("description"), key


# --- processes: streams, terminals, folders --------------------------------------------------------------------------


def test_the_installed_command_is_the_same(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("headway")
    if not command.exists():
        pytest.skip("headway is not installed beside this Python")
    installed = subprocess.run(
        [command, *RUNS, "--json"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    module = process(*RUNS, "--json", cwd=tmp_path)
    assert (installed.returncode, installed.stdout, installed.stderr) == (0, module.stdout, module.stderr)


PLAIN: Sequence[dict[str, str]] = ({"NO_COLOR": "1", "FORCE_COLOR": ""}, {"TERM": "dumb"}, {"COLUMNS": "1"})


@pytest.mark.parametrize("environment", PLAIN, ids=["no colour", "a dumb terminal", "one column"])
def test_no_escape_reaches_a_pipe(
    headway: Command, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    answer = headway(*RUNS)
    assert answer.code == 0
    assert "\x1b" not in answer.out + answer.err
    assert "14.75" in answer.out


def test_the_json_does_not_depend_on_the_terminal(headway: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = headway(*RUNS, "--json").out
    for environment in (*PLAIN, {"FORCE_COLOR": "1"}, {"LC_ALL": "zh_CN.UTF-8"}):
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            assert headway(*RUNS, "--json").out == plain


def piped_to_nobody(*arguments: str) -> "subprocess.Popen[bytes]":
    """The command, whose reader goes away before it has printed anything."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
    read, write = os.pipe()
    os.close(read)
    try:
        command = [sys.executable, "-m", "sim", *arguments]
        return subprocess.Popen(command, env=environment, stdout=write, stderr=subprocess.PIPE)
    finally:
        os.close(write)


NO_READER = [("run", "mixed", "--policy", "chunked", "--json"), ("run", "mixed", "--policy", "chunked"), ("schema",)]


@pytest.mark.parametrize("arguments", NO_READER, ids=[" ".join(arguments) for arguments in NO_READER])
def test_a_reader_that_goes_away_is_no_complaint(arguments: tuple[str, ...]) -> None:
    with piped_to_nobody(*arguments) as writer:
        assert writer.communicate(timeout=60)[1] == b""
    assert writer.returncode == 141


def shell(script: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """A line of shell in which ``$H`` is the command."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
    line = script.replace("$H", f"{shlex.quote(sys.executable)} -m sim")
    return subprocess.run(  # noqa: S602 (a shell is what can close streams)
        line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def test_without_stdin(tmp_path: Path) -> None:
    done = shell("$H run mixed --policy chunked --json <&-", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["runs"]


def test_without_stdout(tmp_path: Path) -> None:
    done = shell("$H run mixed --policy chunked --output out.json >&-", tmp_path)
    assert (done.returncode, done.stderr) == (0, "written: out.json\n")


def test_without_stderr(tmp_path: Path) -> None:
    done = shell("$H run mixed --policy fcfs --json 2>&-", tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["runs"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_stdout_that_is_full_is_output_that_could_not_be_written(tmp_path: Path) -> None:
    done = shell("$H run mixed --policy chunked --json >/dev/full", tmp_path)
    assert done.returncode == 4
    assert "No space left on device" in done.stderr
    assert "bug" not in done.stderr


def test_in_a_folder_that_is_gone(tmp_path: Path) -> None:
    gone = "mkdir gone && cd gone && rmdir ../gone && "
    done = shell(gone + "$H run mixed --policy chunked --json", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    elsewhere = shell(gone + f"$H run mixed --policy chunked --output '{tmp_path}/out.json'", tmp_path)
    assert (elsewhere.returncode, elsewhere.stderr) == (0, f"written: {tmp_path}/out.json\n")
    here = shell(gone + "$H run mixed --policy chunked --output out.json", tmp_path)
    assert (here.returncode, here.stdout, here.stderr.count("\n")) == (4, "", 1)


def test_without_a_home() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "HOME"}
    command = [sys.executable, "-m", "sim", "list"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_path_that_is_not_unicode(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xff\xfe")
    folder.mkdir()
    done = shell(
        "cd ./*; $H new mine && $H run mine.toml --policy chunked --output out.json && $H verify out.json", tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "written: out.json\n")
    there = process("run", str(folder / "mine.toml"), "--policy", "chunked", "--json")
    assert there.returncode == 0, there.stderr
    missing = process("run", str(folder / "none.toml"))
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)
