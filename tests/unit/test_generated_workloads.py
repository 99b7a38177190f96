"""Generated requests: exact where a law leaves nothing to chance, distributed as it says where it does, repeatable."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest
from scipy import stats

import sim
from sim.analysis.verify import verify, verify_document
from sim.record import json_form
from sim.request import Ints, Workload
from sim.template import TEMPLATE
from sim.workload.build import build
from sim.workload.distribution import Fixed, Uniform
from sim.workload.process import MAX_INSTANT_NS
from sim.workload.renewal import Deterministic, Given, Poisson
from sim.workload.streams import stream

DRAWS = 100_000
FALSE_ALARM = 1e-3
"""How probable it is that a sound law fails one of the tests below; the seeds are fixed, so none does."""

BASE: Mapping[str, Any] = {
    "count": 50,
    "arrivals": {"process": "poisson", "rate_per_s": 20},
    "prompt_tokens": {"distribution": "uniform", "min": 1, "max": 30},
    "output_tokens": {"distribution": "uniform", "min": 1, "max": 20},
}


def scenario(seed: int = 0, **workload: Any) -> sim.Scenario:
    """A scenario of generated requests, with changes to the keys of BASE."""
    return sim.load({"schema": 1, "name": "drawn", "workload": {**BASE, **workload}, "run": {"seed": seed}})


def drawn(seed: int = 0, **workload: Any) -> Workload:
    return build(scenario(seed, **workload))[0]


# --- exact cases -----------------------------------------------------------------------------------------------------


def test_deterministic_arrivals_begin_at_0_and_are_1_over_the_rate_apart() -> None:
    arrivals = {"process": "deterministic", "rate_per_s": 4}
    assert drawn(count=4, arrivals=arrivals).arrival_ns.tolist() == [0, 250_000_000, 500_000_000, 750_000_000]


@pytest.mark.parametrize(
    ("rate", "due"),
    [
        ("3", [0, 333_333_333, 666_666_667, 1_000_000_000]),  # thirds of a second do not add up their roundings
        ("0.0119", [0, 84_033_613_445, 168_067_226_891, 252_100_840_336]),  # 84.03361344537... s apart
        ("1000000", [0, 1000, 2000, 3000]),
        ("800000", [0, 1250, 2500, 3750]),
        ("0.3333333333333333333333", [0, 3_000_000_000, 6_000_000_000, 9_000_000_000]),
        ("400000000e-3", [0, 2500, 5000, 7500]),
        ("64000", [0, 15625, 31250, 46875]),
        ("128000", [0, 7813, 15625, 23438]),  # 7812.5: half up
    ],
)
def test_deterministic_times_are_rounded_once_each(rate: str, due: list[int]) -> None:
    assert Deterministic(Decimal(rate)).arrival_ns(4, stream(0, "arrivals")).tolist() == due


@pytest.mark.parametrize("rate", ["0.0119", "7", "0.3333333333333333333333", "0.02", "999999.999"])
def test_the_last_of_a_million_deterministic_arrivals_is_exact(rate: str) -> None:
    count = 10**6
    times = Deterministic(Decimal(rate)).arrival_ns(count, stream(0, "arrivals"))
    up, down = Decimal(rate).as_integer_ratio()
    for place in (1, 2, 3, 314_159, count - 2, count - 1):
        assert times[place] == (2 * place * 10**9 * down + up) // (2 * up)
    assert times.dtype == np.int64


def test_given_arrivals_are_as_given() -> None:
    arrivals = {"process": "given", "times_ms": [0, Decimal("0.0000005"), Decimal("0.5"), Decimal("0.5"), 3]}
    workload = drawn(count=5, arrivals=arrivals)
    assert workload.arrival_ns.tolist() == [0, 1, 500_000, 500_000, 3_000_000]
    assert Given((Decimal(1), Decimal(2))).arrival_ns(2, stream(0, "arrivals")).tolist() == [1_000_000, 2_000_000]


def test_fixed_lengths_are_fixed() -> None:
    workload = drawn(prompt_tokens={"distribution": "fixed", "value": 512})
    assert workload.prompt_tokens.tolist() == [512] * 50
    assert workload.prompt_tokens.dtype == workload.output_tokens.dtype == workload.arrival_ns.dtype == np.int64


def test_a_uniform_length_between_equals_is_fixed() -> None:
    assert drawn(output_tokens={"distribution": "uniform", "min": 7, "max": 7}).output_tokens.tolist() == [7] * 50


def test_one_request() -> None:
    for arrivals in (BASE["arrivals"], {"process": "deterministic", "rate_per_s": Decimal("1e-9")}):
        assert len(drawn(count=1, arrivals=arrivals)) == 1


def test_what_is_not_said_of_generated_requests_is_as_for_others() -> None:
    workload = drawn()
    plain = Workload.of(workload.arrival_ns, workload.prompt_tokens, workload.output_tokens)
    assert workload.sha256() == plain.sha256()
    assert workload.id(0) == "r000001"


@pytest.mark.parametrize(("max_tokens", "due"), [(20, {20}), (4096, {4096}), ("output", None)])
def test_the_declared_bound(max_tokens: object, due: set[int] | None) -> None:
    workload = drawn(max_tokens=max_tokens)
    assert due is None or set(workload.max_tokens.tolist()) == due
    assert due is not None or workload.max_tokens.tolist() == workload.output_tokens.tolist()


@pytest.mark.parametrize("length", [1, 2**31 - 1])
def test_lengths_at_their_bounds(length: int) -> None:
    workload = drawn(count=2, output_tokens={"distribution": "uniform", "min": length, "max": length})
    assert workload.output_tokens.tolist() == [length, length]


# --- the laws --------------------------------------------------------------------------------------------------------


def poisson_gaps(rate: str, seed: int = 0) -> Ints:
    """The gaps of Poisson arrivals in ns, the one before the first included."""
    times = Poisson(Decimal(rate)).arrival_ns(DRAWS, stream(seed, "arrivals"))
    return np.diff(times, prepend=0)


def is_exponential(gaps_ns: Ints, rate_per_s: float) -> bool:
    """Kolmogorov-Smirnov: whether the gaps may be of this law."""
    test = stats.kstest(gaps_ns / 1e9, stats.expon(scale=1 / rate_per_s).cdf)
    return bool(test.pvalue > FALSE_ALARM)


def is_uniform(tokens: Ints, least: int, most: int) -> bool:
    """Chi-square over every value from ``least`` to ``most``: whether the lengths may be of this law."""
    if tokens.min() < least or tokens.max() > most:
        return False
    counts = np.bincount(tokens - least, minlength=most - least + 1)
    return bool(stats.chisquare(counts).pvalue > FALSE_ALARM)


@pytest.mark.parametrize("rate", ["4", "0.0119", "28", "100000", "0.0002"])
def test_poisson_gaps_are_exponential(rate: str) -> None:
    assert is_exponential(poisson_gaps(rate), float(rate))


@pytest.mark.parametrize("error", [0.95, 1.05])
def test_five_percent_of_the_rate_are_noticed(error: float) -> None:
    assert not is_exponential(poisson_gaps("4"), 4 * error)
    assert not is_exponential(poisson_gaps(str(4 * error)), 4)


def test_poisson_gaps_have_their_mean_and_variation() -> None:
    """Mean 1/rate and standard deviation 1/rate, to four standard errors: 4 / sqrt(n) and, of Exp, 4 sqrt(2 / n)."""
    gaps = poisson_gaps("4") / 250e6
    assert abs(gaps.mean() - 1) < 4 / DRAWS**0.5
    assert abs(gaps.std() - 1) < 4 * (2 / DRAWS) ** 0.5


def test_poisson_gaps_do_not_depend_on_one_another() -> None:
    gaps = poisson_gaps("4")
    for lag in (1, 2, 10):
        assert abs(np.corrcoef(gaps[lag:], gaps[:-lag])[0, 1]) < 4 / DRAWS**0.5


def test_counts_of_poisson_arrivals_vary_as_much_as_their_mean() -> None:
    """In windows of 2.5 s; the ratio's standard error is sqrt(2 / windows)."""
    times = poisson_gaps("4").cumsum()
    counts = np.bincount(times // 2_500_000_000)[:-1]
    assert abs(counts.var() / counts.mean() - 1) < 4 * (2 / len(counts)) ** 0.5


@pytest.mark.parametrize(("least", "most"), [(1, 2), (1, 100), (500, 523), (2**31 - 64, 2**31 - 1)])
def test_uniform_lengths_are_uniform_over_both_bounds(least: int, most: int) -> None:
    tokens = Uniform(least, most).tokens(DRAWS, stream(1, "prompt_tokens"))
    assert (tokens.min(), tokens.max()) == (least, most)
    assert is_uniform(tokens, least, most)


@pytest.mark.parametrize(("least", "most"), [(1, 99), (1, 101), (2, 100), (0, 100), (1, 105)])
def test_other_bounds_are_noticed(least: int, most: int) -> None:
    assert not is_uniform(Uniform(1, 100).tokens(DRAWS, stream(1, "prompt_tokens")), least, most)


def test_a_slope_of_five_percent_is_noticed() -> None:
    tokens = Uniform(1, 100).tokens(DRAWS, stream(1, "prompt_tokens"))
    kept = stream(1, "slope").random(DRAWS) > tokens / 100 * 0.1
    assert not is_uniform(tokens[kept], 1, 100)


def test_every_law_keeps_to_its_largest_length_and_its_order() -> None:
    for distribution in (Fixed(9), Uniform(3, 9)):
        assert distribution.tokens(1000, stream(0, "x")).max() == distribution.largest == 9
    for process in (Poisson(Decimal(1000000)), Deterministic(Decimal(1000000))):
        assert (np.diff(process.arrival_ns(10_000, stream(0, "x"))) >= 0).all()


def test_ten_million_arrivals_are_as_exact_as_ten() -> None:
    """Each is the sum of the gaps before it, in whole ns; at 84 s a gap, a float has steps of 128 ns at the end."""
    times = Poisson(Decimal("0.0119")).arrival_ns(10**7, stream(0, "arrivals"))
    gaps = np.floor(stream(0, "arrivals").standard_exponential(10**7) * (1e13 / 119) + 0.5)
    assert int(times[-1]) == sum(map(int, gaps))
    assert 2**59 < times[-1] <= MAX_INSTANT_NS


# --- streams ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "moved"),
    [
        ({"prompt_tokens": {"distribution": "uniform", "min": 5, "max": 999}}, {"prompt_tokens"}),
        ({"prompt_tokens": {"distribution": "fixed", "value": 9}}, {"prompt_tokens"}),
        (
            {"output_tokens": {"distribution": "uniform", "min": 5, "max": 999}, "max_tokens": 20_000},
            {"output_tokens", "max_tokens"},
        ),
        ({"arrivals": {"process": "deterministic", "rate_per_s": 2}}, {"arrival_ns"}),
        ({"max_tokens": 64}, {"max_tokens"}),
    ],
)
def test_a_change_of_one_law_moves_nothing_else(changes: Mapping[str, Any], moved: set[str]) -> None:
    before, after = dict(drawn().columns()), dict(drawn(**changes).columns())
    assert {name for name in before if not np.array_equal(before[name], after[name])} == moved


def test_more_requests_leave_the_first_ones_as_they_are() -> None:
    few, many = dict(drawn(count=10).columns()), dict(drawn(count=1000).columns())
    assert all(np.array_equal(few[name], many[name][:10]) for name in few)


def test_twice_the_rate_halves_the_gaps() -> None:
    slow, fast = (drawn(arrivals={"process": "poisson", "rate_per_s": rate}).arrival_ns for rate in (20, 40))
    assert np.abs(slow - 2 * fast).max() <= 2 * 50


def test_prompts_and_outputs_of_one_law_are_not_the_same_numbers() -> None:
    law = {"distribution": "uniform", "min": 1, "max": 1000}
    workload = drawn(count=DRAWS, prompt_tokens=law, output_tokens=law)
    assert abs(np.corrcoef(workload.prompt_tokens, workload.output_tokens)[0, 1]) < 4 / DRAWS**0.5
    assert abs(np.corrcoef(np.diff(workload.arrival_ns), workload.prompt_tokens[1:])[0, 1]) < 4 / DRAWS**0.5


def test_streams_of_other_names_and_seeds_differ() -> None:
    pairs = [(seed, name) for seed in (0, 1, 2**64 - 1) for name in ("arrivals", "prompt_tokens", "output_tokens", "")]
    assert len({int(stream(*pair).integers(2**62)) for pair in pairs}) == len(pairs)


def test_what_a_seed_draws_stays() -> None:
    """A change of these numbers changes every scenario that draws."""
    workload = drawn(count=3)
    assert workload.arrival_ns.tolist() == ARRIVALS
    assert workload.prompt_tokens.tolist() == PROMPTS
    assert workload.output_tokens.tolist() == OUTPUTS


ARRIVALS = [46808300, 83195803, 84930490]
PROMPTS = [30, 7, 12]
OUTPUTS = [7, 16, 11]


def test_the_same_seed_gives_the_same_workload_and_another_another() -> None:
    digests = [drawn(seed).sha256() for seed in (0, 0, 1, 2, 2**64 - 1)]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 4


def test_neither_policy_nor_hash_seed_changes_what_is_drawn(tmp_path: Path) -> None:
    file = written(tmp_path / "drawn.toml")
    outputs = set()
    for hash_seed in ("0", "1", "4242"):
        out = tmp_path / f"{hash_seed}.json"
        headway("run", file, "--policy", "both", "--output", out, hash_seed=hash_seed)
        outputs.add(out.read_bytes())
    assert len(outputs) == 1
    fcfs, chunked = json.loads(outputs.pop())["runs"]
    asked = ("id", "arrivalMs", "promptTokens", "outputTokens")
    assert [[row[key] for key in asked] for row in fcfs["requests"]] == [
        [row[key] for key in asked] for row in chunked["requests"]
    ]


# --- in a scenario ---------------------------------------------------------------------------------------------------

TEXT = """\
schema = 1
name = "drawn"
[workload]
count = 50
arrivals = {process = "poisson", rate_per_s = 20}
prompt_tokens = {distribution = "uniform", min = 1, max = 30}
output_tokens = {distribution = "uniform", min = 1, max = 20}
[run]
policies = ["fcfs", "chunked"]
"""


def written(path: Path, text: str = TEXT) -> Path:
    path.write_text(text)
    return path


def headway(*arguments: object, hash_seed: str = "0") -> str:
    """The command, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "sim", *map(str, arguments)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize("target", ["out", "out.json"])
@pytest.mark.parametrize("more", ["", "max_tokens = 4096\n"])
def test_a_run_of_it_is_verified(tmp_path: Path, target: str, more: str) -> None:
    file = written(tmp_path / "drawn.toml", TEXT.replace("[run]", f"{more}[run]"))
    headway("run", file, "--output", tmp_path / target)
    assert headway("verify", tmp_path / target).startswith("consistent: ")


def test_every_fault_is_noticed_in_it(tmp_path: Path) -> None:
    file = written(tmp_path / "drawn.toml", TEXT.replace("[run]", "max_tokens = 4096\n[run]").replace("50", "12"))
    headway("run", file, "--output", tmp_path / "out.json")
    last = headway("verify", tmp_path / "out.json", "--inject", "all").splitlines()[-1]
    assert re.fullmatch(r"(\d+) of \1 faults caught", last)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"arrivals": {"process": "poisson", "rate_per_s": 21}}, "request r000001, arrival"),
        ({"prompt_tokens": {"distribution": "uniform", "min": 1, "max": 31}}, "prompt_tokens"),
        ({"count": 51}, "requests"),
        ({"max_tokens": 64}, "workloadSha256"),  # all that a JSON says of it
    ],
)
def test_a_result_whose_scenario_generates_other_requests_is_found_out(change: Mapping[str, Any], place: str) -> None:
    document = json.loads("".join(json_form.text(json_form.document([sim.simulate(scenario())]))), parse_float=Decimal)
    assert verify_document(document).ok
    document["scenario"]["workload"] |= change
    findings = verify_document(document).findings
    assert any(place in finding.where for finding in findings)


def test_the_resolved_scenario_runs_again_to_the_same_bytes(tmp_path: Path) -> None:
    file = written(tmp_path / "drawn.toml")
    headway("run", file, "--policy", "chunked", "--seed", 7, "--set", "workload.count=20", "--output", tmp_path / "a")
    resolved = tmp_path / "a" / "chunked" / "scenario.toml"
    headway("run", resolved, "--output", tmp_path / "b")
    first, again = ({path.name: path.read_bytes() for path in (tmp_path / name / "chunked").iterdir()} for name in "ab")
    assert {name for name in first if first[name] != again[name]} == {"as-read.toml", "manifest.json"}
    assert sim.load(resolved).run.seed == 7


def test_keys_can_be_set_from_outside(tmp_path: Path) -> None:
    file = written(tmp_path / "drawn.toml")
    out = tmp_path / "out.json"
    changes = ("workload.arrivals.rate_per_s=8", "workload.count=10", "workload.prompt_tokens.max=3")
    headway("run", file, "--seed", 3, *(word for change in changes for word in ("--set", change)), "--output", out)
    asked = drawn(
        3, count=10, arrivals={"process": "poisson", "rate_per_s": 8},
        prompt_tokens={"distribution": "uniform", "min": 1, "max": 3},
    )  # fmt: skip
    document = json.loads(out.read_text())
    assert document["provenance"]["workloadSha256"] == asked.sha256()
    assert document["provenance"]["seed"] == 3
    assert document["provenance"]["traceSha256"] is None


def test_variants_may_change_the_load(tmp_path: Path) -> None:
    text = TEXT.replace('policies = ["fcfs", "chunked"]', "")
    text += '[[run.variants]]\nname = "twice"\nset = {"workload.arrivals.rate_per_s" = 40}\n'
    text += '[[run.variants]]\nname = "even"\nset = {"workload.arrivals.process" = "deterministic"}\n'
    text += '[[run.variants]]\nname = "more"\nset = {"workload.count" = 60, "run.seed" = 5}\n'
    headway("run", written(tmp_path / "drawn.toml", text), "--output", tmp_path / "out")
    assert verify(tmp_path / "out").findings == []
    document = json.loads((tmp_path / "out" / "result.json").read_text(), parse_float=Decimal)
    assert document["provenance"]["workloadSha256"] == drawn(arrivals={"process": "poisson", "rate_per_s": 40}).sha256()
    document["runs"][1]["requests"][3]["promptTokens"] += 1
    assert "requests are those of the scenario" in {finding.check for finding in verify_document(document).findings}


def test_the_load_that_the_template_comments_out_is_right() -> None:
    text = TEMPLATE.format(name="mine")
    text = re.sub(r"(?ms)^requests = .*?^\]\n", "", text)
    text = re.sub(r"(?m)^# (count|arrivals|prompt_tokens|output_tokens) =", r"\1 =", text)
    assert len(build(sim.load(tomllib.loads(text)))[0]) == 1000


def test_another_policy_meets_the_same_requests() -> None:
    base = scenario()
    digests = {
        sim.simulate(base.with_overrides({"scheduler.policy": policy})).provenance["workloadSha256"]
        for policy in ("fcfs", "chunked", "static", "vllm")
    }
    assert digests == {drawn().sha256()}


@pytest.mark.slow
def test_a_million_requests_take_little_time() -> None:
    """Of processor time, well under 1.5 µs each."""
    asked = scenario(count=10**6)
    began = process_time()
    build(asked)
    assert process_time() - began < 1.0
