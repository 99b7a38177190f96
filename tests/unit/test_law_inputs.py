"""Bad inputs about laws and classes: what is refused when a scenario is read, with the whole line."""

from pathlib import Path

import pytest

import sim
from sim.errors import ScenarioError

HEAD = 'schema = 1\nname = "base"\n[workload]\n'
PLAIN = """\
count = 3
arrivals = {ARRIVALS}
prompt_tokens = {PROMPT}
output_tokens = {OUTPUT}
"""
POISSON = 'process = "poisson", rate_per_s = 4'
FIXED = 'distribution = "fixed", value = 8'

ARRIVALS = {
    'process = "gamma", rate_per_s = 4': "cv: missing, and burstiness too; exactly one of them",
    'process = "gamma", rate_per_s = 4, cv = 2, burstiness = 2': (
        "burstiness = 2: together with cv; exactly one of them, burstiness = 1 / cv^2"
    ),
    'process = "gamma", cv = 2': "rate_per_s: missing in process gamma; for example rate_per_s = 4",
    'process = "gamma", rate_per_s = 4, burstiness = 0': "burstiness = 0: too small; at least 0.000001",
    'process = "gamma", rate_per_s = 4, burstiness = -1': "burstiness = -1: too small; at least 0.000001",
    'process = "gamma", rate_per_s = 4, burstiness = nan': "burstiness = nan: not finite; must be a finite number",
    'process = "gamma", rate_per_s = 4, burstiness = -inf': "burstiness = -inf: not finite; must be a finite number",
    'process = "gamma", rate_per_s = 4, burstiness = "2"': (
        'burstiness = "2": expected a number, got a string; write 2 without quotes'
    ),
    'process = "gamma", rate_per_s = inf, burstiness = 1': "rate_per_s = inf: not finite; must be a finite number",
    'process = "gamma", rate_per_s = 0, cv = 1': "rate_per_s = 0: too small; at least 0.000000001",
    'process = "gamma", rate_per_s = 1e-300, cv = 1': "rate_per_s = 1e-300: too small; at least 0.000000001",
    'process = "gamma", rate_per_s = 1e300, cv = 1': "rate_per_s = 1e+300: too large; at most 1000000",
    'process = "gamma", rate_per_s = 4, cv = 0': "cv = 0: too small; at least 0.001",
    'process = "gamma", rate_per_s = 4, cv = inf': "cv = inf: not finite; must be a finite number",
    'process = "gamma", rate_per_s = 4, cv = 1, shape = 2': (
        "shape = 2: not a key of process gamma, which has rate_per_s, cv, burstiness"
    ),
    'process = "gama", rate_per_s = 4': (
        'process = "gama": unknown; one of poisson, deterministic, given, gamma, weibull, hyperexponential, mmpp, '
        "on-off, sinusoid, piecewise-linear, steps, ramp, trace-rate, hawkes, batch; did you mean 'gamma'?"
    ),
    'process = "poisson", qps = 4': "qps = 4: unknown key in [workload.arrivals]; did you mean 'rate_per_s'?",
    'process = "weibull", rate_per_s = 4': "shape: missing in process weibull; for example shape = 0.5",
    'process = "weibull", rate_per_s = 4, shape = 0': "shape = 0: too small; at least 0.1",
    'process = "hyperexponential", rate_per_s = 4, cv = 1': "cv = 1: too small; above 1 (process gamma takes less)",
    'process = "steps", points = [[0, 1], [5]]': "points[1][1]: missing; the list is too short",
    'process = "steps", points = [[0, 1, 2]]': "points[0]: 3 items; at most 2",
    'process = "hyperexponential", rate_per_s = 4': (
        "does not say which gaps; either rate_per_s and cv, or probabilities and rates_per_s"
    ),
    'process = "hyperexponential", probabilities = [0.5, 0.4], rates_per_s = [1, 2]': (
        "probabilities: their sum is 0.9; must be 1"
    ),
    'process = "hyperexponential", probabilities = [0.5, 0.5], rates_per_s = [1]': (
        "rates_per_s: 1 rates for 2 probabilities; as many"
    ),
    'process = "hyperexponential", probabilities = [0.5, 0.5], rates_per_s = [1, 0]': (
        "rates_per_s[1] = 0: too small; above 0"
    ),
    'process = "hyperexponential", probabilities = [1.5, -0.5], rates_per_s = [1, 1]': (
        "probabilities[0] = 1.5: too large; at most 1",
        "probabilities[1] = -0.5: too small; at least 0",
    ),
    'process = "mmpp", rates_per_s = [1, 2]': (
        "mean_sojourn_ms: missing in process mmpp; for example mean_sojourn_ms = […]"
    ),
    'process = "mmpp", rates_per_s = [1], mean_sojourn_ms = [1]': (
        "rates_per_s: one state; at least two (one alone is a Poisson process)"
    ),
    'process = "mmpp", rates_per_s = [1, 2], mean_sojourn_ms = [1]': "mean_sojourn_ms: 1 times for 2 rates; as many",
    'process = "mmpp", rates_per_s = [0, 0], mean_sojourn_ms = [1, 1]': (
        "rates_per_s: every rate is 0; at least one above 0"
    ),
    'process = "mmpp", rates_per_s = [1, 2], mean_sojourn_ms = [1, 0]': (
        "mean_sojourn_ms[1] = 0: too small; at least 0.000001"
    ),
    'process = "mmpp", rates_per_s = [1, 2], mean_sojourn_ms = [1, 1], transitions = [[0, 1]]': (
        "transitions: 1 rows for 2 states; as many"
    ),
    'process = "mmpp", rates_per_s = [1, 2], mean_sojourn_ms = [1, 1], transitions = [[0, 1], [1]]': (
        "transitions[1]: 1 probabilities for 2 states; as many"
    ),
    'process = "mmpp", rates_per_s = [1, 2], mean_sojourn_ms = [1, 1], transitions = [[0, 1], [0.5, 0.5]]': (
        "transitions[1][1] = 0.5: must be 0: a state is left for another one"
    ),
    'process = "mmpp", rates_per_s = [1, 2, 3], mean_sojourn_ms = [1, 1, 1], '
    "transitions = [[0, 1, 0], [1, 0, 0], [1, 0, 0]]": "transitions: every state must lead to every other in the end",
    'process = "mmpp", rates_per_s = [1, 2], mean_sojourn_ms = [1, 1], transitions = [[0, 0.9], [1, 0]]': (
        "transitions[0]: the sum is 0.9; must be 1"
    ),
    'process = "on-off", rate_per_s = 4, on_ms = 1': "off_ms: missing in process on-off; for example off_ms = 15000",
    'process = "sinusoid", rate_per_s = 4, amplitude = 1.5, period_ms = 1': "amplitude = 1.5: too large; at most 1",
    'process = "sinusoid", rate_per_s = 4, amplitude = 1, period_ms = 0': (
        "period_ms = 0: too small; at least 0.000001"
    ),
    'process = "steps", points = [[1, 4]]': "points[0]: the first point is at 0 ms",
    'process = "steps", points = [[0, 4], [0, 5]]': "points[1]: too early; after the point before, 0 ms",
    'process = "steps", points = [[0, 4], [9, 0]]': (
        "points[1]: the last rate holds for ever; above 0, or give period_ms"
    ),
    'process = "steps", points = [[0, 0], [9, 0]], period_ms = 10': "points: every rate is 0; at least one above 0",
    'process = "piecewise-linear", points = [[0, 4], [9, 1]], period_ms = 9': (
        "period_ms = 9: too small; after the last point, 9 ms"
    ),
    'process = "piecewise-linear", points = [[0, -4]]': "points[0][1] = -4: too small; at least 0",
    'process = "piecewise-linear", points = [[0, nan]]': "points[0][1] = nan: not finite; must be a finite number",
    'process = "ramp", from_per_s = 0, to_per_s = 1, over_ms = 5, growth = "exponential"': (
        "from_per_s = 0: too small; above 0 where growth is exponential"
    ),
    'process = "ramp", from_per_s = 0, to_per_s = 1, over_ms = 5, growth = "expo"': (
        "growth = \"expo\": unknown; one of linear, exponential; did you mean 'exponential'?"
    ),
    'process = "ramp", from_per_s = 1, to_per_s = 0, over_ms = 5': "to_per_s = 0: too small; at least 0.000000001",
    'process = "hawkes", base_per_s = 1, branching = 1, decay_ms = 1': "branching = 1: too large; at most 0.999",
    'process = "hawkes", base_per_s = 1, branching = -0.1, decay_ms = 1': "branching = -0.1: too small; at least 0",
    'process = "batch", size = 2': "period_ms: missing, and rate_per_s too; exactly one of them",
    'process = "batch", size = 2, period_ms = 1, rate_per_s = 1': (
        "period_ms = 1: together with rate_per_s; exactly one of them"
    ),
    'process = "batch", size = 0, period_ms = 1': "size = 0: too small; at least 1",
    'process = "poisson", rate_per_s = 4, tick_ms = 0': "tick_ms = 0: too small; at least 0.000001",
    'process = "poisson", rate_per_s = 4, exact_rate = 1': "exact_rate = 1: expected true or false, got an integer",
    'process = "ramp", from_per_s = 1, to_per_s = 2, over_ms = 5, exact_rate = true': (
        "exact_rate = true: process ramp states no mean rate here"
    ),
}

LENGTHS = {
    'distribution = "lognormal", mean = 0, cv = 1': "mean = 0: too small; at least 1",
    'distribution = "lognormal", mean = nan, cv = 1': "mean = nan: not finite; must be a finite number",
    'distribution = "lognormal", mean = inf, cv = 1': "mean = inf: not finite; must be a finite number",
    'distribution = "lognormal", mean = 512, cv = 0': "cv = 0: too small; at least 0.001",
    'distribution = "lognormal", mean = 512': "cv: missing in distribution lognormal; for example cv = 1",
    'distribution = "lognormal", mean = 512, cv = 1, min = 9, max = 8': "max = 8: too small; at least min, 9",
    'distribution = "lognormal", mean = 512, cv = 0.001, max = 8': (
        "max = 8: only 0 of the law lies between min and max; at least 1e-09"
    ),
    'distribution = "lognormal", mean = 8, cv = 0.001, min = 80': (
        "min = 80: only 0 of the law lies between min and max; at least 1e-09"
    ),
    'distribution = "gamma", mean = 8, cv = 1, std = 3': (
        "std = 3: not a key of distribution gamma, which has mean, cv, min, max"
    ),
    'distribution = "normal", mean = 8, std = -1': "std = -1: too small; at least 0",
    'distribution = "geometric", mean = 0.5': "mean = 0.5: too small; at least 1",
    'distribution = "geometric", mean = 1, min = 2': "min = 2: too large; every length of mean 1 is 1",
    'distribution = "zipf", theta = 1, min = 1, max = 4194305': (
        "max = 4194305: too large; at most 4194304 lengths from min on, 4194304"
    ),
    'distribution = "zipf", theta = -1, min = 1, max = 4': "theta = -1: too small; at least 0",
    'distribution = "choice", values = [1, 2], weights = [1]': "weights: 1 weights for 2 values; as many",
    'distribution = "choice", values = [1, 2], weights = [0, 0]': "weights: all are 0; at least one above 0",
    'distribution = "choice", values = [1, 0]': "values[1] = 0: too small; at least 1",
    'distribution = "choice", values = []': "values = []: empty; at least one",
    'distribution = "choice", values = [1, 2], weights = [1, nan]': (
        "weights[1] = nan: not finite; must be a finite number"
    ),
    'distribution = "uniform-vllm", length = 8, range_ratio = 1': "range_ratio = 1: too large; below 1 for vLLM",
    'distribution = "uniform-sglang", length = 8, range_ratio = 1.1': "range_ratio = 1.1: too large; at most 1",
    'distribution = "uniform-vllm", length = 2147483647, range_ratio = 0.5': (
        "length = 2147483647: too large; length (1 + range_ratio) is at most 2147483647"
    ),
    'distribution = "mixture", components = []': "components = []: empty; at least one",
    'distribution = "mixture", components = [{distribution = "fixed", value = 1}]': (
        "components[0].weight: missing; for example weight = 0.5"
    ),
    'distribution = "mixture", components = [{weight = 0, distribution = "fixed", value = 1}]': (
        "components: all weights are 0; at least one above 0"
    ),
    'distribution = "mixture", components = [{weight = 1, distribution = "mixture"}]': (
        'components[0].distribution = "mixture": unknown; one of fixed, uniform, uniform-vllm, uniform-sglang, normal, '
        "lognormal, gamma, geometric, zipf, choice; did you mean 'fixed'?"
    ),
    'distribution = "mixture", components = [{weight = 1, distribution = "fixed", value = 0}]': (
        "components[0].value = 0: too small; at least 1"
    ),
    'distribution = "empirical", path = "t.csv"': (
        'column: missing in distribution empirical; for example column = "prompt"'
    ),
    'distribution = "empirical", path = "t.csv", column = "prompts"': (
        "column = \"prompts\": unknown; one of prompt, output; did you mean 'prompt'?"
    ),
    'distribution = "empirical", path = "t.csv", column = "prompt", format = "azur"': (
        "format = \"azur\": unknown; one of azure; did you mean 'azure'?"
    ),
}


def complaints(folder: Path, workload: str) -> list[str]:
    """What is said about a workload, without the file and the line."""
    path = folder / "s.toml"
    path.write_text(HEAD + workload)
    with pytest.raises(ScenarioError) as caught:
        sim.load(path)
    return [str(line).partition("): ")[2] for line in caught.value.args]


def plain(arrivals: str = POISSON, prompt: str = FIXED, output: str = FIXED) -> str:
    return PLAIN.replace("ARRIVALS", arrivals).replace("PROMPT", prompt).replace("OUTPUT", output)


@pytest.mark.parametrize(("keys", "due"), ARRIVALS.items(), ids=ARRIVALS)
def test_arrivals_that_are_refused(tmp_path: Path, keys: str, due: str | tuple[str, ...]) -> None:
    lines = (due,) if isinstance(due, str) else due
    found = complaints(tmp_path, plain(arrivals=keys))
    of_whole = lines[0].startswith("does not")
    assert found == [f"workload.arrivals{': ' if of_whole else '.'}{line}" for line in lines]


@pytest.mark.parametrize(("keys", "due"), LENGTHS.items(), ids=LENGTHS)
def test_lengths_that_are_refused(tmp_path: Path, keys: str, due: str) -> None:
    (line,) = complaints(tmp_path, plain(output=keys))
    if '"azur"' in keys:  # other formats may be known
        assert line.startswith('workload.output_tokens.format = "azur": unknown; one of azure')
        return
    assert line == f"workload.output_tokens.{due}"


@pytest.mark.parametrize(
    ("output", "more", "due"),
    [
        (
            'distribution = "lognormal", mean = 9, cv = 1', "max_tokens = 64",
            "workload.max_tokens = 64: output_tokens has no bound; give it max = 64 or less",
        ),
        (
            'distribution = "geometric", mean = 9, max = 65', "max_tokens = 64",
            "workload.max_tokens = 64: too small; at least the longest output that may be drawn, 65",
        ),
        (
            'distribution = "choice", values = [3, 65]', "max_tokens = 64",
            "workload.max_tokens = 64: too small; at least the longest output that may be drawn, 65",
        ),
        (FIXED, "correlation = 1.5", "workload.correlation = 1.5: too large; at most 1"),
        (FIXED, "correlation = nan", "workload.correlation = nan: not finite; must be a finite number"),
        (FIXED, "deadline_after_ms = -1", "workload.deadline_after_ms = -1: too small; at least 0"),
        (FIXED, 'priority = "0"', 'workload.priority = "0": expected an integer, got a string; write 0 without quotes'),
        (FIXED, "[[workload.classes]]\nname = 1", "workload.classes[0].name = 1: expected a string, got an integer"),
    ],
)  # fmt: skip
def test_what_is_said_of_all_requests_is_checked(tmp_path: Path, output: str, more: str, due: str) -> None:
    assert due in complaints(tmp_path, f"{plain(output=output)}{more}\n")


def test_a_bound_that_holds_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    bounded = plain(output='distribution = "lognormal", mean = 9, cv = 1, max = 64')
    path.write_text(f"{HEAD}{bounded}max_tokens = 64\n")
    assert sim.load(path).workload.max_tokens == 64


def test_pairs_of_a_trace_have_no_correlation_besides(tmp_path: Path) -> None:
    row = 'distribution = "empirical", path = "t.csv", column = '
    laws = plain(prompt=f'{row}"prompt"', output=f'{row}"output"')
    found = complaints(tmp_path, f"{laws}correlation = 0.5\n")
    assert found == [
        "workload.correlation = 0.5: prompts and outputs of the same trace are drawn as pairs; leave it out"
    ]


CLASS = f"""\
[[workload.classes]]
name = "NAME"
SIZE
arrivals = {{{POISSON}}}
prompt_tokens = {{{FIXED}}}
output_tokens = {{{FIXED}}}
"""


def classes(*sizes: str, names: str = "abcdef") -> str:
    return "".join(CLASS.replace("NAME", name).replace("SIZE", size) for name, size in zip(names, sizes, strict=False))


@pytest.mark.parametrize(
    ("workload", "due"),
    [
        (classes(""), "workload.classes[0]: neither count nor share; exactly one of them"),
        (classes("count = 1\nshare = 1"), "workload.classes[0]: both count and share; exactly one of them"),
        (classes("count = 1", "share = 0.5"), "workload.classes[1].share = 0.5: the first class has count; all alike"),
        (classes("share = 0.5", "share = 0.5"), "workload.count: missing; the total that the classes have shares of"),
        (
            "count = 4\n" + classes("share = 0.5", "share = 0.4"),
            "workload.classes: the shares sum to 0.9; must be 1",
        ),
        (
            "count = 4\n" + classes("share = 0.99", "share = 0.01"),
            "workload.classes[1].share = 0.01: too small; no request of 4 is left for it",
        ),
        (
            "count = 4\n" + classes("count = 4"),
            "workload: count and classes together; exactly one of requests, trace, count, classes",
        ),
        (
            classes("count = 1", "count = 1", names="aa"),
            'workload.classes[1].name = "a": the name of class 0 too; each its own',
        ),
        (classes("count = 0"), "workload.classes[0].count = 0: too small; at least 1"),
        (
            classes("count = 10000000", "count = 1"),
            "workload.classes: 10000001 requests together; at most 10000000",
        ),
        ("max_tokens = 9\n" + classes("count = 1"), "workload.max_tokens = 9: with classes; each of them has its own"),
        ("tenant = 'a'\n" + classes("count = 1"), 'workload.tenant = "a": with classes; each of them has its own'),
        (
            f"arrivals = {{{POISSON}}}\n" + classes("count = 1"),
            "workload.arrivals: with classes; each of them has its own",
        ),
        (
            classes("count = 3").replace(POISSON, 'process = "given", times_ms = [0, 1]'),
            "workload.classes[0].arrivals.times_ms: 2 times for count = 3; as many as count",
        ),
        (
            "count = 3\n" + classes("share = 1").replace(POISSON, 'process = "given", times_ms = [0, 1]'),
            "workload.classes[0].arrivals.times_ms: 2 times for 3 requests; as many",
        ),
        (
            classes("count = 1\nmax_tokens = 7"),
            "workload.classes[0].max_tokens = 7: too small; at least the longest output that may be drawn, 8",
        ),
        (
            classes("count = 1").replace("prompt_tokens", "prompt_token"),
            "workload.classes[0].prompt_token: unknown key in workload.classes[0]; did you mean 'prompt_tokens'?",
        ),
        (
            classes("count = 1", names="/"),
            "workload.classes[0].name = \"/\": not a name; 1 to 64 of letters, digits, '.', '_', '-'",
        ),
    ],
)  # fmt: skip
def test_classes_that_are_refused(tmp_path: Path, workload: str, due: str) -> None:
    assert due in complaints(tmp_path, workload)


@pytest.mark.parametrize("seed", ["-1", "1.5", '"abc"', str(2**64), "nan"])
def test_seeds_that_are_refused(tmp_path: Path, seed: str) -> None:
    (line,) = complaints(tmp_path, f"{plain()}[run]\nseed = {seed}\n")
    assert line.startswith(f"run.seed = {seed}: ")


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ([[0, 1], [5]], "workload.arrivals.points[1][1]: missing; the list is too short"),
        ([[0, 1, 2]], "workload.arrivals.points[0]: 3 items; at most 2"),
    ],
)
def test_a_point_is_a_time_and_a_rate(points: list[list[int]], said: str) -> None:
    one = {"distribution": "fixed", "value": 1}
    workload = {
        "count": 3,
        "arrivals": {"process": "steps", "points": points},
        "prompt_tokens": one,
        "output_tokens": one,
    }
    with pytest.raises(ScenarioError) as refused:
        sim.load({"schema": 1, "name": "s", "workload": workload})
    assert [line.removeprefix("scenario: ") for line in refused.value.args] == [said]
