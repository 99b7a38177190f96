"""Bad inputs about requests that are generated: what is refused when a scenario is read, with the whole line."""

import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import sim
from sim.errors import ScenarioError

BASE = """\
schema = 1
name = "base"
[workload]
count = 3
arrivals = {process = "poisson", rate_per_s = 4.0}
prompt_tokens = {distribution = "fixed", value = 8}
output_tokens = {distribution = "uniform", min = 2, max = 6}
"""

# Mistakes in BASE: what stands there -> what is put in its place (⏎ is a newline), and below it the whole complaint,
# its further lines indented more.
REFUSED = r"""
count = 3 -> count = 0
    s.toml (line 4): workload.count = 0: too small; at least 1
count = 3 -> count = -1
    s.toml (line 4): workload.count = -1: too small; at least 1
count = 3 -> count = 10000001
    s.toml (line 4): workload.count = 10000001: too large; at most 10000000
count = 3 -> count = 3.0
    s.toml (line 4): workload.count = 3.0: expected an integer, got a number with a decimal point or an exponent;
        write 3
count = 3 -> count = "3"
    s.toml (line 4): workload.count = "3": expected an integer, got a string; write 3 without quotes
count = 3 -> count = true
    s.toml (line 4): workload.count = true: expected an integer, got a boolean
count = 3 -> count = nan
    s.toml (line 4): workload.count = nan: expected an integer, got a number; must be finite
count = 3⏎ ->
    s.toml (line 4): workload.arrivals: without count; only for generated requests, which have count, arrivals,
        prompt_tokens, output_tokens
count = 3 -> counts = 3
    s.toml (line 4): workload.counts = 3: unknown key in [workload]; did you mean 'count'?
count = 3 -> count = 3⏎count = 4
    s.toml (line 5, column 10): not valid TOML: cannot overwrite a value
count = 3 -> count = 3⏎requests = [{prompt_tokens = 1, output_tokens = 1}]
    s.toml (line 3): workload: requests and count together; exactly one of requests, trace, count,
        classes
count = 3 -> requests = [{prompt_tokens = 1, output_tokens = 1}]
    s.toml (line 5): workload.arrivals: with requests; only for generated requests, which have count, arrivals,
        prompt_tokens, output_tokens
count = 3 -> count = 3⏎trace = {path = "t.csv"}
    s.toml (line 3): workload: trace and count together; exactly one of requests, trace, count,
        classes
count = 3 -> trace = {path = "t.csv"}
    s.toml (line 6): workload.prompt_tokens: with trace; only for generated requests, which have count, arrivals,
        prompt_tokens, output_tokens
count = 3 -> count = 3⏎trace = {path = "t.csv"}⏎requests = [{prompt_tokens = 1, output_tokens = 1}]
    s.toml (line 3): workload: requests, trace and count together; exactly one of requests, trace, count,
        classes
arrivals = {process = "poisson", rate_per_s = 4.0}⏎ ->
    s.toml (line 3): workload.arrivals: missing; generated requests have count, arrivals, prompt_tokens,
        output_tokens
prompt_tokens = {distribution = "fixed", value = 8}⏎ ->
    s.toml (line 3): workload.prompt_tokens: missing; generated requests have count, arrivals, prompt_tokens,
        output_tokens
output_tokens = {distribution = "uniform", min = 2, max = 6}⏎ ->
    s.toml (line 3): workload.output_tokens: missing; generated requests have count, arrivals, prompt_tokens,
        output_tokens
arrivals = {process = "poisson", rate_per_s = 4.0} -> arrivals = "poisson"
    s.toml (line 5): workload.arrivals = "poisson": expected a table, got a string
arrivals = {process = "poisson", rate_per_s = 4.0} -> arrivals = {}
    s.toml (line 5): workload.arrivals.process: missing; for example process = "poisson"
arrivals = {process = "poisson", rate_per_s = 4.0} -> arrivals = [{process = "poisson", rate_per_s = 4.0}]
    s.toml (line 5): workload.arrivals: expected a table, got a list
"poisson" -> "poison"
    s.toml (line 5): workload.arrivals.process = "poison": unknown; one of poisson, deterministic, given, gamma, weibull,
        hyperexponential, mmpp, on-off, sinusoid, piecewise-linear, steps, ramp, trace-rate, hawkes, batch; did you
        mean 'poisson'?
"poisson" -> "gamma"
    s.toml (line 5): workload.arrivals.cv: missing, and burstiness too; exactly one of them
"poisson" -> ""
    s.toml (line 5): workload.arrivals.process = "": unknown; one of poisson, deterministic, given, gamma, weibull,
        hyperexponential, mmpp, on-off, sinusoid, piecewise-linear, steps, ramp, trace-rate, hawkes, batch
"poisson" -> "Poisson"
    s.toml (line 5): workload.arrivals.process = "Poisson": unknown; one of poisson, deterministic, given, gamma, weibull,
        hyperexponential, mmpp, on-off, sinusoid, piecewise-linear, steps, ramp, trace-rate, hawkes, batch; did you
        mean 'poisson'?
"poisson" -> 4
    s.toml (line 5): workload.arrivals.process = 4: expected a string, got an integer
"poisson" -> "given"
    s.toml (line 5): workload.arrivals.rate_per_s = 4.0: not a key of process given, which has times_ms
, rate_per_s = 4.0 ->
    s.toml (line 5): workload.arrivals.rate_per_s: missing in process poisson; for example rate_per_s = 4
, rate_per_s = 4.0 -> , rate = 4.0
    s.toml (line 5): workload.arrivals.rate = 4.0: unknown key in [workload.arrivals]; did you mean 'rate_per_s'?
, rate_per_s = 4.0 -> , rate_per_s = 4.0, cv = 2
    s.toml (line 5): workload.arrivals.cv = 2: not a key of process poisson, which has rate_per_s
, rate_per_s = 4.0 -> , rate_per_s = 4.0, times_ms = [0, 1, 2]
    s.toml (line 5): workload.arrivals.times_ms: not a key of process poisson, which has rate_per_s
rate_per_s = 4.0 -> rate_per_s = 0
    s.toml (line 5): workload.arrivals.rate_per_s = 0: too small; at least 0.000000001
rate_per_s = 4.0 -> rate_per_s = -4
    s.toml (line 5): workload.arrivals.rate_per_s = -4: too small; at least 0.000000001
rate_per_s = 4.0 -> rate_per_s = nan
    s.toml (line 5): workload.arrivals.rate_per_s = nan: not finite; must be a finite number
rate_per_s = 4.0 -> rate_per_s = inf
    s.toml (line 5): workload.arrivals.rate_per_s = inf: not finite; must be a finite number
rate_per_s = 4.0 -> rate_per_s = -inf
    s.toml (line 5): workload.arrivals.rate_per_s = -inf: not finite; must be a finite number
rate_per_s = 4.0 -> rate_per_s = "4"
    s.toml (line 5): workload.arrivals.rate_per_s = "4": expected a number, got a string; write 4 without quotes
rate_per_s = 4.0 -> rate_per_s = true
    s.toml (line 5): workload.arrivals.rate_per_s = true: expected a number, got a boolean
rate_per_s = 4.0 -> rate_per_s = 1000001
    s.toml (line 5): workload.arrivals.rate_per_s = 1000001: too large; at most 1000000
rate_per_s = 4.0 -> rate_per_s = 1e-10
    s.toml (line 5): workload.arrivals.rate_per_s = 1e-10: too small; at least 0.000000001
rate_per_s = 4.0 -> rate_per_s = 1.0000000000000000000000000000001
    s.toml (line 5): workload.arrivals.rate_per_s = 1.0000000000000000000000000000001: too many decimals; at most 30
"poisson", rate_per_s = 4.0 -> "given"
    s.toml (line 5): workload.arrivals.times_ms: missing in process given
"poisson", rate_per_s = 4.0 -> "given", times_ms = []
    s.toml (line 5): workload.arrivals.times_ms = []: empty; at least one
"poisson", rate_per_s = 4.0 -> "given", times_ms = 5
    s.toml (line 5): workload.arrivals.times_ms = 5: expected a list, got an integer
"poisson", rate_per_s = 4.0 -> "given", times_ms = [0, 1]
    s.toml (line 5): workload.arrivals.times_ms: 2 times for count = 3; as many as count
"poisson", rate_per_s = 4.0 -> "given", times_ms = [0, 1, 2, 3]
    s.toml (line 5): workload.arrivals.times_ms: 4 times for count = 3; as many as count
"poisson", rate_per_s = 4.0 -> "given", times_ms = [0, 5, 1.5]
    s.toml (line 5): workload.arrivals.times_ms[2] = 1.5: too small; times ascend, at least the one before, 5
"poisson", rate_per_s = 4.0 -> "given", times_ms = [-1, 0, 1]
    s.toml (line 5): workload.arrivals.times_ms[0] = -1: too small; at least 0
"poisson", rate_per_s = 4.0 -> "given", times_ms = [0, nan, 1]
    s.toml (line 5): workload.arrivals.times_ms[1] = nan: not finite; must be a finite number
"poisson", rate_per_s = 4.0 -> "given", times_ms = [0, 1, 1000000000001]
    s.toml (line 5): workload.arrivals.times_ms[2] = 1000000000001: too large; at most 1000000000000
"poisson", rate_per_s = 4.0 -> "given", times_ms = [0, "1", 2]
    s.toml (line 5): workload.arrivals.times_ms[1] = "1": expected a number, got a string; write 1 without quotes
"poisson" -> "given", times_ms = [0, 1, 2]
    s.toml (line 5): workload.arrivals.rate_per_s = 4.0: not a key of process given, which has times_ms
"poisson", rate_per_s = 4.0 -> "deterministic"
    s.toml (line 5): workload.arrivals.rate_per_s: missing in process deterministic; for example rate_per_s = 4
"poisson" -> "deterministic", times_ms = [0, 1, 2]
    s.toml (line 5): workload.arrivals.times_ms: not a key of process deterministic, which has rate_per_s
"fixed" -> "fixd"
    s.toml (line 6): workload.prompt_tokens.distribution = "fixd": unknown; one of fixed, uniform, uniform-vllm,
        uniform-sglang, normal, lognormal, gamma, geometric, zipf, choice, mixture, empirical; did you mean
        'fixed'?
"fixed" -> "lognormal"
    s.toml (line 6): workload.prompt_tokens.value = 8: not a key of distribution lognormal, which has mean, cv, min, max
"fixed" -> "uniform"
    s.toml (line 6): workload.prompt_tokens.value = 8: not a key of distribution uniform, which has min, max
{distribution = "fixed", value = 8} -> 8
    s.toml (line 6): workload.prompt_tokens = 8: expected a table, got an integer
distribution = "fixed",  ->
    s.toml (line 6): workload.prompt_tokens.distribution: missing; for example distribution = "fixed"
, value = 8 ->
    s.toml (line 6): workload.prompt_tokens.value: missing in distribution fixed; for example value = 512
value = 8 -> value = 0
    s.toml (line 6): workload.prompt_tokens.value = 0: too small; at least 1
value = 8 -> value = -1
    s.toml (line 6): workload.prompt_tokens.value = -1: too small; at least 1
value = 8 -> value = 8.5
    s.toml (line 6): workload.prompt_tokens.value = 8.5: expected an integer, got a number with a decimal point or
        an exponent
value = 8 -> value = 8.0
    s.toml (line 6): workload.prompt_tokens.value = 8.0: expected an integer, got a number with a decimal point or
        an exponent; write 8
value = 8 -> value = 2147483648
    s.toml (line 6): workload.prompt_tokens.value = 2147483648: too large; at most 2147483647
value = 8 -> value = nan
    s.toml (line 6): workload.prompt_tokens.value = nan: expected an integer, got a number; must be finite
value = 8 -> value = 8, min = 1
    s.toml (line 6): workload.prompt_tokens.min = 1: not a key of distribution fixed, which has value
value = 8 -> value = 8, mean = 8
    s.toml (line 6): workload.prompt_tokens.mean = 8: not a key of distribution fixed, which has value
value = 8 -> values = 8
    s.toml (line 6): workload.prompt_tokens.values = 8: expected a list, got an integer
min = 2 -> min = 7
    s.toml (line 7): workload.output_tokens.max = 6: too small; at least min, 7
min = 2 -> min = 0
    s.toml (line 7): workload.output_tokens.min = 0: too small; at least 1
min = 2 -> min = 2.5
    s.toml (line 7): workload.output_tokens.min = 2.5: expected an integer, got a number with a decimal point or an
        exponent
min = 2, ->
    s.toml (line 7): workload.output_tokens.min: missing in distribution uniform; for example min = 1
max = 6 -> max = 2147483648
    s.toml (line 7): workload.output_tokens.max = 2147483648: too large; at most 2147483647
max = 6 -> max = inf
    s.toml (line 7): workload.output_tokens.max = inf: expected an integer, got a number; must be finite
max = 6 -> max = 6, value = 4
    s.toml (line 7): workload.output_tokens.value = 4: not a key of distribution uniform, which has min, max
, max = 6 ->
    s.toml (line 7): workload.output_tokens.max: missing in distribution uniform; for example max = 1024
max = 6} -> max = 6}⏎max_tokens = 5
    s.toml (line 8): workload.max_tokens = 5: too small; at least the longest output that may be drawn, 6
max = 6} -> max = 6}⏎max_tokens = 0
    s.toml (line 8): workload.max_tokens = 0: too small; at least 1
max = 6} -> max = 6}⏎max_tokens = 2147483648
    s.toml (line 8): workload.max_tokens = 2147483648: too large; at most 2147483647
max = 6} -> max = 6}⏎max_tokens = 6.0
    s.toml (line 8): workload.max_tokens = 6.0: expected an integer, got a number with a decimal point or an
        exponent; write 6
max = 6} -> max = 6}⏎max_tokens = true
    s.toml (line 8): workload.max_tokens = true: expected an integer, got a boolean
max = 6} -> max = 6}⏎max_tokens = "outputs"
    s.toml (line 8): workload.max_tokens = "outputs": expected an integer or "output", got a string
max = 6} -> max = 6}⏎max_tokens = "8"
    s.toml (line 8): workload.max_tokens = "8": expected an integer or "output", got a string; write 8 without
        quotes
max = 6} -> max = 6}⏎max_tokens = [8]
    s.toml (line 8): workload.max_tokens: expected an integer, got a list
max = 6} -> max = 6}⏎max_tokens = {distribution = "fixed", value = 8}
    s.toml (line 8): workload.max_tokens: expected an integer, got a table
max = 6} -> max = 6}⏎seed = 1
    s.toml (line 8): workload.seed = 1: unknown key in [workload]; belongs to [run]
count = 3⏎arrivals = {process = "poisson", rate_per_s = 4.0}⏎prompt_tokens = {distribution = "fixed", value = 8}⏎output_tokens = {distribution = "uniform", min = 2, max = 6} -> requests = [{prompt_tokens = 1, output_tokens = 1}]⏎max_tokens = 5
    s.toml (line 5): workload.max_tokens = 5: with requests; only for generated requests, which have count,
        arrivals, prompt_tokens, output_tokens
"""  # noqa: E501  # a line of the table is one mistake


class Mistake(NamedTuple):
    """One entry of REFUSED."""

    old: str
    new: str
    complaint: str


def mistakes() -> list[Mistake]:
    entries = re.findall(r"^(\S.*) ->(?: (.*))?((?:\n +.*)+)", REFUSED, re.MULTILINE)
    return [
        Mistake(old.replace("⏎", "\n"), new.replace("⏎", "\n"), " ".join(complaint.split()))
        for old, new, complaint in entries
    ]


def complaints(path: Path, text: str, **overrides: Any) -> list[str]:
    """What is said about a file, without its folder."""
    path.write_text(text)
    changes = {key.replace("__", "."): value for key, value in overrides.items()}
    with pytest.raises(ScenarioError) as caught:
        sim.load(path, overrides=changes)
    return [str(line).replace(f"{path.parent}/", "") for line in caught.value.args]


def test_every_entry_of_the_table_is_read() -> None:
    assert len(mistakes()) == sum(" ->" in line for line in REFUSED.splitlines())


def test_the_base_has_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(BASE)
    assert sim.load(path).workload.count == 3


@pytest.mark.parametrize("mistake", mistakes(), ids=lambda mistake: mistake.new or f"no {mistake.old}")
def test_what_is_refused(tmp_path: Path, mistake: Mistake) -> None:
    assert BASE.count(mistake.old) == 1
    assert complaints(tmp_path / "s.toml", BASE.replace(mistake.old, mistake.new)) == [mistake.complaint]


def test_both_lengths_are_complained_about_at_once(tmp_path: Path) -> None:
    assert complaints(tmp_path / "s.toml", BASE.replace("8}", "0}").replace("min = 2", "min = 9")) == [
        "s.toml (line 6): workload.prompt_tokens.value = 0: too small; at least 1",
        "s.toml (line 7): workload.output_tokens.max = 6: too small; at least min, 9",
    ]


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("workload.count", 0, "--set workload.count = 0: too small; at least 1"),
        ("workload.arrivals.rate_per_s", 0, "--set workload.arrivals.rate_per_s = 0: too small; at least 0.000000001"),
        (
            "workload.arrivals.process",
            "given",
            "s.toml (line 5): workload.arrivals.rate_per_s = 4.0: not a key of process given, which has times_ms",
        ),
        (
            "workload.arrivals.rate",
            8,
            "--set workload.arrivals.rate = 8: unknown key; did you mean 'workload.arrivals.rate_per_s'?",
        ),
        (
            "workload.arrivals.times_ms.0",
            8,
            "--set workload.arrivals.times_ms.0 = 8: workload.arrivals.times_ms is a list; set it as a whole",
        ),
    ],
)
def test_what_is_set_from_outside_is_checked_too(tmp_path: Path, key: str, value: object, complaint: str) -> None:
    assert complaints(tmp_path / "s.toml", BASE, **{key: value}) == [complaint]


@pytest.mark.parametrize(
    ("process", "rate", "count"), [("poisson", "0.000000001", 3), ("poisson", "0.000000001", 10**7),
                                   ("deterministic", "0.000000001", 3), ("deterministic", "0.001", 10**7)]
)  # fmt: skip
def test_a_load_that_outlasts_the_clock_is_refused_before_anything_runs(process: str, rate: str, count: int) -> None:
    text = BASE.replace("poisson", process).replace("4.0", rate).replace("count = 3", f"count = {count}")
    scenario = sim.load(tomllib.loads(text))
    with pytest.raises(ScenarioError) as caught:
        sim.simulate(scenario)
    shown = {"0.000000001": "1e-9"}.get(rate, rate)
    assert str(caught.value) == (
        f"workload.arrivals.rate_per_s = {shown}: too small for {count} requests; "
        "the last may arrive at 1000000000000 ms at most"
    )
