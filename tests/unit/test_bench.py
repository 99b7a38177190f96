"""The benchmarks' own arithmetic, and that they measure what they say. How long anything takes is asserted nowhere."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import tomli_w
from bench import calibration, goals, inside, measure, peers, profile, report, workloads
from bench.__main__ import chosen, main, parser
from bench.calibration import Calibration
from bench.measure import Row, Sample
from bench.workloads import Cycles, Goal, Recorded, Run
from rich.console import Console

import sim

ROWS = {workload.name: workload for workload in workloads.table()}
RUNS = [row for row in ROWS.values() if isinstance(row, Run)]
REFERENCE = Calibration(calibration.REFERENCE_US, 10)


# --- the table -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_each_document_is_a_scenario(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(tomli_w.dumps(run.document))
    loaded = sim.load(file).document
    assert float(loaded["device"]["job_ms"]) == pytest.approx(0.2)
    assert loaded["scheduler"] == {"policy": "vllm", "token_budget": 2048, "max_running": 256}
    assert loaded["kv"]["block_tokens"] == 16


def test_a_batch_decodes_together_and_fits() -> None:
    """The largest batch: every request gets in, nobody is preempted, one more output token is one more job."""
    loaded = sim.load(workloads.decoding(4, 8))
    few, many = (sim.simulate(sim.load(workloads.decoding(4, output))) for output in (8, 18))
    assert loaded.document["scheduler"]["max_running"] == 4
    assert many.jobs["end_ns"].size - few.jobs["end_ns"].size == 10
    assert 1024 * (workloads.BLOCK_TOKENS + max(inside.OUTPUTS)) <= workloads.BLOCKS * workloads.BLOCK_TOKENS


@pytest.mark.parametrize(
    ("name", "count", "rate", "lengths", "blocks"),
    [
        ("base-1k", 1_000, 8.0, (512, 512), 40_000),
        ("base-10k", 10_000, 8.0, (512, 512), 40_000),
        ("base-100k", 100_000, 8.0, (512, 512), 40_000),
        ("base-1m", 1_000_000, 8.0, (512, 512), 40_000),
        ("saturated", 100_000, 28.0, (512, 512), 40_000),
        ("odd-costs", 100_000, 8.0, (512, 512), 40_000),
        ("prefix-cache", 100_000, 8.0, (512, 512), 40_000),
        ("short-outputs", 100_000, 8.0, (512, 128), 40_000),
        ("light-load", 100_000, 0.0119, (512, 512), 40_000),
        ("long-prompts", 100_000, 4.0, (8192, 16), 40_000),
        ("preemption", 20_000, 28.0, (64, 512), 2_000),
    ],
)
def test_rows_are_what_was_asked(name: str, count: int, rate: float, lengths: tuple[int, int], blocks: int) -> None:
    run, (prompt, output) = ROWS[name], lengths
    assert isinstance(run, Run)
    assert run.requests == count
    assert run.document["workload"] == workloads.poisson(count, rate, prompt=prompt, output=output)
    assert run.document["kv"] == {"blocks": blocks, "block_tokens": 16, "prefix_cache": name == "prefix-cache"}
    assert (run.document["device"] == workloads.DEVICE) == (name != "odd-costs")


def test_no_odd_cost_is_a_whole_number_of_ns() -> None:
    assert all(1e6 * ms % 1 > 0.001 for ms in workloads.ODD_DEVICE.values())
    for key, ms in workloads.ODD_DEVICE.items():
        assert ms == pytest.approx(workloads.DEVICE[key], rel=1e-3)


def test_quick_is_the_small_base_runs() -> None:
    assert [row.name for row in chosen(None, quick=True)] == ["base-1k", "base-10k"]
    assert [row.name for row in chosen(["saturated"], quick=False)] == ["saturated"]


def test_what_is_not_there_is_left_out_with_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HEADWAY_DATA", raising=False)
    (trace,) = (row for row in workloads.table() if row.name == "azure-conv")
    assert measure.measured(trace, runs=1).left_out == "HEADWAY_DATA names no folder"
    assert workloads.missing(Recorded("big")) == "HEADWAY_DATA names no folder"
    assert workloads.missing(ROWS["base-1k"]) is None
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path))
    assert workloads.missing(Recorded("big")) == "HEADWAY_DATA has no big.json.gz"


# --- arithmetic ------------------------------------------------------------------------------------------------------


def test_times_are_scaled_and_sizes_are_not() -> None:
    """A timeout took 1.4 µs, twice the reference: a quiet machine needs half the time, and as much memory."""
    taken = Sample({"cpu_s": 8.0, "us_per_request": 80.0, "rss_mb": 200.0}, Calibration(1.4, 5))
    assert taken.scaled == pytest.approx({"cpu_s": 4.0, "us_per_request": 40.0, "rss_mb": 200.0})


def test_the_machine_is_what_it_was_before_and_after() -> None:
    assert calibration.between(Calibration(0.8, 10), Calibration(1.2, 6)) == pytest.approx((1.0, 8.0))


def test_a_run_stands_between_two_calibrations(monkeypatch: pytest.MonkeyPatch) -> None:
    speeds = iter([Calibration(1.0, 8), Calibration(2.0, 8), Calibration(1.0, 8)])
    monkeypatch.setattr(measure, "calibrated", lambda: next(speeds))
    found = measure.samples(iter([{"cpu_s": 5.0}, {"cpu_s": 3.0}]).__next__, runs=2)
    assert [each.machine.timeout_us for each in found] == [1.5, 1.5]
    assert measure.best(found).figures == {"cpu_s": 3.0}


def test_calibration_measures_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "TIMEOUTS", 1000)
    monkeypatch.setattr(calibration, "COPIED_BYTES", 8_000_000)
    assert min(calibration.measured()) > 0


# --- goals -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("goal", "found", "verdict"),
    [
        (Goal("cpu_s", 4, miss=5), 4.0, "met"),
        (Goal("cpu_s", 4, miss=5), 4.5, "near"),
        (Goal("cpu_s", 4, miss=5), 5.1, "missed"),
        (Goal("cpu_s", 3.2), 3.3, "missed"),
        (Goal("cpu_s", 1.4, times="base"), 2.8, "met"),
        (Goal("cpu_s", 1.4, times="base"), 2.9, "missed"),
        (Goal("cpu_s", 1.4, times="another"), 2.9, "not judged"),
        (Goal("rss_mb", 250), 1.0, "not judged"),
    ],
)
def test_goals(goal: Goal, found: float, verdict: str) -> None:
    assert goals.judge(goal, {"cpu_s": found}, {"base": {"cpu_s": 2.0}}).verdict == verdict


def test_tables_and_json_say_the_same(tmp_path: Path) -> None:
    base, odd = replace(RUNS[0], name="base-100k"), ROWS["odd-costs"]
    figures = {"cpu_s": 3.0, "us_per_request": 30.0, "rss_mb": 99.0}
    rows = [
        Row(
            base, [Sample(figures, REFERENCE)], dict.fromkeys(("load_s", "simulate_s", "metrics_s", "write_s"), 0.5), {}
        ),
        Row(odd, [Sample({**figures, "cpu_s": 6.0}, REFERENCE)]),
        Row(Cycles("batch-4", 4), [Sample({"us_per_cycle": 12.5}, REFERENCE)]),
        Row(ROWS["azure-code"], left_out="no trace"),
    ]
    screen = Console(width=200)
    with screen.capture() as shown:
        report.show(rows, screen)
    assert "1.4 times base-100k: 2 missed" in shown.get()
    assert "left out: no trace" in shown.get()
    report.write(report.document(rows, 1e6), tmp_path / "deep" / "bench.json")
    found = json.loads((tmp_path / "deep" / "bench.json").read_text())
    assert [row["leftOut"] for row in found["rows"]] == [None, None, None, "no trace"]
    assert [goal["verdict"] for goal in found["rows"][1]["goals"]] == ["missed"]
    assert found["rows"][1]["goals"][0]["found"] == pytest.approx(2.0)


# --- processes -------------------------------------------------------------------------------------------------------


def test_a_process_is_measured_whole() -> None:
    usage, printed = measure.process([sys.executable, "-c", "print(len(bytearray(60_000_000)))"])
    assert printed == "60000000\n"
    assert usage.rss_mb > 60
    assert usage.cpu_s > 0


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(measure.ProcessError, match="exit 3") as failure:
        measure.process([sys.executable, "-c", "import sys; print('broken', file=sys.stderr); sys.exit(3)"])
    assert failure.value.args[1:] == ("broken",)


def test_a_small_run_from_its_start_to_its_end(tiny: Run) -> None:
    row = measure.measured(tiny, runs=1)
    assert row.left_out is None
    assert set(row.samples[0].figures) == {"cpu_s", "us_per_request", "rss_mb"}
    assert set(row.phases) == {"load_s", "simulate_s", "metrics_s", "write_s"}
    assert row.work["heapEvents"] > 0


def test_a_profile_names_our_functions_and_no_place_of_this_machine(tiny: Run) -> None:
    text = profile.profile(tiny)
    assert "tottime" in profile.top(text)
    assert "scheduler.py" in text
    assert str(measure.ROOT) not in text


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(measure, "calibrated", lambda: REFERENCE)
    return Run("tiny", 2, workloads.document({"requests": [{"prompt_tokens": 4, "output_tokens": 3}] * 2}))


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--only", "base-1k", "base-9k"],
        ["profile", "--only", "batch-4"],
        ["run", "--runs", "0"],
        ["peers", "--requests", "many"],
        [],
    ],
)
def test_nonsense_is_refused_before_anything_runs(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "usage: bench" in capsys.readouterr().err


def test_only_takes_several_names() -> None:
    assert parser().parse_args(["run", "--only", "base-1k", "batch-4"]).only == ["base-1k", "batch-4"]


def test_vllm_s_own_times_are_read_from_beside_the_recordings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    notes = (
        "Text.\nvLLM's own scheduler's CPU time per step (best of 3): big_1_ample 950 µs, big_2_tight 270.\nbig_3 1\n"
    )
    (tmp_path / "vllm" / "README.md").write_text(notes)
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path))
    assert peers.scheduler_us() == {"big_1_ample": 950, "big_2_tight": 270}


def test_side_by_side_is_median_against_median() -> None:
    def contender(*tokens_per_cpu_s: float) -> peers.Contender:
        taken = [Sample({"tokens_per_cpu_s": each}, REFERENCE) for each in tokens_per_cpu_s]
        return peers.Contender("someone", dict, taken)

    found = peers.SideBySide(10, [contender(8, 1, 9), contender(3, 2, 100), contender(2, 2, 2)])
    assert [found.ratio(1), found.ratio(2)] == pytest.approx([8 / 3, 4])
    assert found.verdict() == "near"
