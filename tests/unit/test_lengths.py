"""Every law of lengths against its formula, and others that it may be mistaken for; correlated and paired lengths."""

from decimal import Decimal
from math import log, log1p, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from goodness import ERRORS, Values, fits, has_cv, has_mean, processor_seconds
from scipy import stats

import sim
from sim.document import plain
from sim.generated import Lengths
from sim.request import Workload
from sim.workload.build import build
from sim.workload.lengths import DISTRIBUTIONS
from sim.workload.streams import stream

Keys = dict[str, Any]
DRAWS = 200_000


def lengths(count: int = DRAWS, seed: int = 0, **keys: Any) -> Values:
    """Lengths of a law by its keys in a scenario."""
    return Lengths.model_validate(plain(keys)).law.tokens(count, stream(seed, "output_tokens"))


def is_of(drawn: Values, weights: dict[int, float]) -> bool:
    """Chi-square: whether whole numbers occur in proportion to these weights, and no others occur."""
    values, counts = np.unique(drawn, return_counts=True)
    if not set(values.tolist()) <= set(weights):
        return False
    found = dict(zip(values.tolist(), counts.tolist(), strict=True))
    whole = sum(weights.values())
    expected = np.array([len(drawn) * weight / whole for weight in weights.values()])
    observed = np.array([found.get(value, 0) for value in weights])
    rare = expected < 5
    parts = [np.append(column[~rare], column[rare].sum()) for column in (observed, expected)]
    keep = parts[1] > 0
    if keep.sum() == 1:
        return True  # one value, and no other was drawn
    return bool(stats.chisquare(parts[0][keep], parts[1][keep]).pvalue > 1e-3)


def inside(law: Any, least: float, most: float) -> Any:
    """The distribution function of a law restricted to what rounds to ``least`` .. ``most``."""
    low, high = law.cdf(least - 0.5), law.cdf(most + 0.5)
    return lambda x: np.clip((law.cdf(x) - low) / (high - low), 0, 1)


# --- laws of real numbers, rounded -----------------------------------------------------------------------------------


def lognormal(mean: float, cv: float) -> Any:
    """sigma^2 = ln(1 + cv^2) and mu = ln mean - sigma^2 / 2, so that the mean of exp(N(mu, sigma^2)) is the mean."""
    square = log1p(cv * cv)
    return stats.lognorm(sqrt(square), scale=np.exp(log(mean) - square / 2))


@pytest.mark.parametrize(("mean", "cv"), [(512, "1"), (2000, "0.2"), (300, "2.5"), (5, "0.7")])
def test_lognormal(mean: int, cv: str) -> None:
    assert fits(lengths(distribution="lognormal", mean=mean, cv=Decimal(cv)), lognormal(mean, float(cv)).cdf)


def test_a_lognormal_has_the_mean_and_cv_that_were_asked_for() -> None:
    """Of cv 0.5: skewness cv^3 + 3 cv = 1.625; w = 1 + cv^2 = 1.25, excess w^4 + 2 w^3 + 3 w^2 - 6 = 5.035."""
    drawn = lengths(distribution="lognormal", mean=512, cv=Decimal("0.5"))
    assert has_mean(drawn, 512, 256)
    assert has_cv(drawn, 0.5, 1.625, 5.035)
    assert not has_mean(drawn, 512 * 1.01, 256)
    assert not has_cv(drawn, 0.52, 1.625, 5.035)


@pytest.mark.parametrize(
    "wrong",
    [
        stats.lognorm(1, scale=512 / np.exp(0.5)),  # cv read as sigma
        stats.lognorm(sqrt(log(2)), scale=512),  # mean read as median
        stats.lognorm(log(2), scale=512 / np.exp(log(2) / 2)),  # sigma^2 read as sigma
        lognormal(512, 1.02),
        lognormal(520, 1),
    ],
)
def test_lognormals_of_another_reading_are_noticed(wrong: Any) -> None:
    drawn = lengths(distribution="lognormal", mean=512, cv=1)
    assert fits(drawn, lognormal(512, 1).cdf)
    assert not fits(drawn, wrong.cdf)


@pytest.mark.parametrize(("mean", "cv"), [(512, "1"), (2000, "0.2"), (300, "2"), (50, "1.5")])
def test_gamma(mean: int, cv: str) -> None:
    shape = float(cv) ** -2
    drawn = lengths(distribution="gamma", mean=mean, cv=Decimal(cv))
    law = stats.gamma(shape, scale=mean / shape)
    assert fits(drawn, lambda x: np.where(x < 1, 0, law.cdf(x)))  # what rounds to 0 is 1
    assert has_mean(drawn, mean + (0.5 * float(law.cdf(0.5))), mean * float(cv))


def test_long_gamma_lengths_are_as_right_as_short_ones() -> None:
    """Of mean 10^7: more different lengths than anybody makes a table of."""
    drawn = lengths(distribution="gamma", mean=10**7, cv=Decimal("0.7"))
    assert fits(drawn, stats.gamma(0.7**-2, scale=10**7 * 0.49).cdf)


@pytest.mark.parametrize(
    "wrong",
    [
        stats.gamma(0.5, scale=512 / 0.5),  # cv read as the shape
        stats.gamma(2, scale=512 / 2),  # its inverse, not its square
        stats.gamma(4, scale=512),  # the scale taken for the mean
        stats.gamma(1 / 0.51**2, scale=512 * 0.51**2),
    ],
)
def test_gammas_of_another_reading_are_noticed(wrong: Any) -> None:
    drawn = lengths(distribution="gamma", mean=512, cv=Decimal("0.5"))
    assert fits(drawn, stats.gamma(4, scale=128).cdf)
    assert not fits(drawn, wrong.cdf)


@pytest.mark.parametrize(
    ("keys", "law"),
    [
        ({"distribution": "lognormal", "mean": 512, "cv": 1}, lognormal(512, 1)),
        ({"distribution": "gamma", "mean": 512, "cv": 1}, stats.gamma(1, scale=512)),
        ({"distribution": "gamma", "mean": 512, "cv": Decimal("0.5")}, stats.gamma(4, scale=128)),
    ],
)
@pytest.mark.parametrize(("least", "most"), [(1, 8192), (400, 600), (1, 100), (3000, 3100), (512, 512)])
def test_bounds_restrict_a_law_and_pile_nothing_up(keys: Keys, law: Any, least: int, most: int) -> None:
    drawn = lengths(**keys, min=least, max=most)
    assert least <= drawn.min() <= drawn.max() <= most
    assert fits(drawn, inside(law, least, most))
    if most - least == 200:  # clipped, a third of the law would stand at each bound
        assert ((drawn == least).mean() < 0.01) & ((drawn == most).mean() < 0.01)
        assert not fits(drawn, lambda x: np.where(x < least, 0, np.where(x > most, 1, law.cdf(x))))


def test_one_bound_alone() -> None:
    law = lognormal(512, 1)
    assert fits(lengths(distribution="lognormal", mean=512, cv=1, min=300), inside(law, 300, np.inf))
    assert fits(lengths(distribution="lognormal", mean=512, cv=1, max=300), inside(law, 0.5, 300))


def test_far_out_in_the_tail_a_law_keeps_its_form() -> None:
    """Above 10 000, of a law of mean 512 and CV 1, lies one in 10 000; exponential ones are a + Exp."""
    drawn = lengths(distribution="gamma", mean=512, cv=1, min=10_000)
    assert fits(drawn, stats.expon(9_999.5, 512).cdf)
    drawn = lengths(distribution="lognormal", mean=512, cv=1, min=10_000)
    law = lognormal(512, 1)
    assert fits(drawn, lambda x: 1 - np.minimum(law.sf(x) / law.sf(9_999.5), 1))


def test_without_a_minimum_what_rounds_to_0_is_1() -> None:
    """Of Exp of mean 2: 1 - exp(-1.5 / 2) lie below 1.5. With min = 1, those below 0.5 are left out."""
    exponential = stats.expon(scale=2)
    loose = lengths(distribution="gamma", mean=2, cv=1)
    tight = lengths(distribution="gamma", mean=2, cv=1, min=1)
    for drawn, due in ((loose, exponential.cdf(1.5)), (tight, 1 - exponential.sf(1.5) / exponential.sf(0.5))):
        assert abs((drawn == 1).mean() - due) < ERRORS * sqrt(due * (1 - due) / DRAWS)


def test_normal_is_clipped() -> None:
    """N(100, 50^2): 2.28 % round to below 1 (z = -1.99) and are 1; above 150 (z = 1.01) 15.6 % are 150."""
    law = stats.norm(100, 50)
    drawn = lengths(distribution="normal", mean=100, std=50, max=150)
    assert fits(drawn, lambda x: np.where(x < 1, 0, np.where(x > 150, 1, law.cdf(x))))
    assert not fits(drawn, inside(law, 1, 150))
    assert not fits(drawn, lambda x: np.where(x < 1, 0, np.where(x > 150, 1, stats.norm(100, sqrt(50)).cdf(x))))
    for value, due in ((1, law.cdf(1.5)), (150, law.sf(149.5))):
        assert abs((drawn == value).mean() - due) < ERRORS * sqrt(due / DRAWS)


def test_normal_without_deviation_is_fixed() -> None:
    assert set(lengths(100, distribution="normal", mean=Decimal("127.5"), std=0).tolist()) == {128}


# --- laws of whole numbers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", ["1.25", "3", "40"])
def test_geometric(mean: str) -> None:
    p = 1 / float(mean)
    drawn = lengths(distribution="geometric", mean=Decimal(mean))
    assert is_of(drawn, {k: (1 - p) ** (k - 1) * p for k in range(1, 2000)})
    assert has_mean(drawn, float(mean), sqrt(1 - p) / p)


def test_geometric_of_another_reading_is_noticed() -> None:
    drawn = lengths(distribution="geometric", mean=3)
    assert not is_of(drawn, {k + 1: (3 / 4) ** k / 4 for k in range(200)})  # failures before a success, mean 3, + 1
    assert not is_of(drawn, {k: (2 / 3) ** k / 3 for k in range(200)})  # from 0 on
    assert not is_of(drawn, {k: (1 - 1 / 3.05) ** (k - 1) for k in range(1, 200)})


def test_geometric_between_bounds() -> None:
    drawn = lengths(distribution="geometric", mean=10, min=5, max=12)
    assert is_of(drawn, {k: 0.9**k for k in range(5, 13)})


def test_geometric_of_mean_1_is_1() -> None:
    assert set(lengths(1000, distribution="geometric", mean=1).tolist()) == {1}


def test_zipf() -> None:
    keys: Keys = {"distribution": "zipf", "theta": Decimal("0.6"), "min": 1024, "max": 1223}
    drawn = lengths(**keys)
    assert is_of(drawn, {1023 + rank: rank**-0.6 for rank in range(1, 201)})
    assert not is_of(drawn, {k: k**-0.6 for k in range(1024, 1224)})  # the length for its rank
    assert not is_of(drawn, {1023 + rank: rank**-0.65 for rank in range(1, 201)})
    assert is_of(lengths(**{**keys, "theta": 0}), dict.fromkeys(range(1024, 1224), 1))


def test_choice() -> None:
    drawn = lengths(distribution="choice", values=[4096, 128, 7], weights=[1, Decimal("2.5"), 0])
    assert is_of(drawn, {128: 2.5, 4096: 1})
    assert not is_of(drawn, {4096: 2.5, 128: 1})
    assert is_of(lengths(distribution="choice", values=[1, 5, 5]), {1: 1, 5: 2})


@pytest.mark.parametrize(
    ("distribution", "ratio", "least", "most"),
    [
        ("uniform-vllm", "0", 1000, 1000),  # vLLM's default is fixed
        ("uniform-vllm", "0.5", 500, 1500),
        ("uniform-vllm", "0.9995", 1, 2000),
        ("uniform-sglang", "0", 1, 1000),  # SGLang's is from 1 on
        ("uniform-sglang", "0.5", 500, 1000),
        ("uniform-sglang", "0.0015", 1, 1000),
        ("uniform-sglang", "1", 1000, 1000),
    ],
)
def test_what_a_range_ratio_means_to_both_tools(distribution: str, ratio: str, least: int, most: int) -> None:
    drawn = lengths(distribution=distribution, length=1000, range_ratio=Decimal(ratio))
    assert is_of(drawn, dict.fromkeys(range(least, most + 1), 1))


def test_ratios_that_fall_between_tokens() -> None:
    """Of length 5 and ratio 0.3: vLLM floor(3.5) .. ceil(6.5); SGLang floor(1.5) .. 5."""
    keys: Keys = {"length": 5, "range_ratio": Decimal("0.3")}
    assert set(lengths(1000, distribution="uniform-vllm", **keys).tolist()) == {3, 4, 5, 6, 7}
    assert set(lengths(1000, distribution="uniform-sglang", **keys).tolist()) == {1, 2, 3, 4, 5}


MIXED: Keys = {
    "distribution": "mixture",
    "components": [
        {"weight": 3, "distribution": "fixed", "value": 3},
        {"weight": 1, "distribution": "uniform", "min": 2, "max": 5},
        {"weight": 0, "distribution": "fixed", "value": 9},
        {"weight": 4, "distribution": "geometric", "mean": 2, "min": 4},
    ],
}


def test_mixture() -> None:
    """3/8 at 3, 1/32 each at 2 .. 5, and half of it 3 + geometric: 2^-1, 2^-2, ... from 4 on."""
    due = dict.fromkeys((2, 3, 4, 5), 1 / 32)
    due[3] += 3 / 8
    for k in range(4, 60):
        due[k] = due.get(k, 0) + 0.5 * 2.0 ** (3 - k)
    drawn = lengths(**MIXED)
    assert is_of(drawn, due)
    assert not is_of(drawn, {**due, 3: due[3] * 1.05})


@pytest.mark.parametrize("uniforms", [np.linspace(0, 1, 4097)[:-1]])
def test_the_quantiles_of_a_mixture_ascend_and_are_its_own(uniforms: Any) -> None:
    law = Lengths.model_validate(plain(MIXED)).law
    quantiles = law.quantile(uniforms)
    assert (np.diff(quantiles) >= 0).all()
    assert (law.cdf(quantiles) >= uniforms).all()
    assert (law.cdf(quantiles - 1) <= uniforms).all()


EVERY: list[Keys] = [
    {"distribution": "fixed", "value": 9},
    {"distribution": "uniform", "min": 3, "max": 9},
    {"distribution": "uniform-vllm", "length": 9, "range_ratio": Decimal("0.3")},
    {"distribution": "uniform-sglang", "length": 9, "range_ratio": Decimal("0.3")},
    {"distribution": "normal", "mean": 9, "std": 4},
    {"distribution": "lognormal", "mean": 9, "cv": 1, "max": 20},
    {"distribution": "lognormal", "mean": 9, "cv": 1, "min": 30},
    {"distribution": "gamma", "mean": 9, "cv": 1},
    {"distribution": "gamma", "mean": 9, "cv": 2, "min": 2},
    {"distribution": "geometric", "mean": 9},
    {"distribution": "geometric", "mean": 9, "min": 3, "max": 12},
    {"distribution": "zipf", "theta": 1, "min": 3, "max": 12},
    {"distribution": "choice", "values": [3, 5, 90]},
    MIXED,
]


def test_no_law_is_left_out() -> None:
    assert {keys["distribution"] for keys in EVERY} | {"empirical"} == set(DISTRIBUTIONS)


@pytest.mark.parametrize("keys", EVERY, ids=" ".join)
class TestEvery:
    def test_lengths_are_whole_and_within_bounds(self, keys: Keys) -> None:
        law = Lengths.model_validate(plain(keys)).law
        drawn = law.tokens(10_000, stream(3, "x"))
        assert drawn.dtype == np.int64
        assert 1 <= drawn.min() <= drawn.max() <= law.largest <= 2**31 - 1

    def test_the_extreme_numbers_are_within_bounds_too(self, keys: Keys) -> None:
        law = Lengths.model_validate(plain(keys)).law
        ends = law.quantile(np.array([0.0, 2.0**-53, 0.5, 1 - 2.0**-53]))
        assert ends.dtype == np.int64
        assert 1 <= ends[0] <= ends[1] <= ends[2] <= ends[3] <= law.largest

    def test_quantiles_and_draws_are_of_one_law(self, keys: Keys) -> None:
        """The share of draws at or below each value is what the distribution function says."""
        law = Lengths.model_validate(plain(keys)).law
        assert fits(law.tokens(50_000, stream(4, "x")), lambda x: law.cdf(np.floor(x).astype(np.int64)))
        assert fits(law.quantile(stream(5, "x").random(50_000)), lambda x: law.cdf(np.floor(x).astype(np.int64)))

    def test_more_requests_leave_the_first_ones_as_they_are(self, keys: Keys) -> None:
        assert np.array_equal(lengths(300, **keys), lengths(150_000, **keys)[:300])

    @pytest.mark.slow
    def test_a_million_cost_at_most_one_and_a_half_microseconds_each(self, keys: Keys) -> None:
        """The least of three, of processor time."""
        assert min(processor_seconds(lambda: lengths(10**6, **keys)) for _ in range(3)) < 1.5

    def test_the_same_seed_gives_the_same(self, keys: Keys) -> None:
        assert np.array_equal(lengths(300, 6, **keys), lengths(300, 6, **keys))


@pytest.mark.parametrize(
    "keys",
    [
        {"distribution": "lognormal", "mean": 2**31 - 1, "cv": 1000},
        {"distribution": "lognormal", "mean": 1, "cv": Decimal("0.001")},
        {"distribution": "gamma", "mean": 2**31 - 1, "cv": 1000},
        {"distribution": "gamma", "mean": 1, "cv": Decimal("0.001")},
        {"distribution": "normal", "mean": 2**31 - 1, "std": 2**31 - 1},
        {"distribution": "geometric", "mean": 2**31 - 1},
        {"distribution": "geometric", "mean": Decimal("1.000000000000000000000000000001")},
        {"distribution": "zipf", "theta": 100, "min": 1, "max": 2**22},
        {"distribution": "uniform-vllm", "length": 2**30, "range_ratio": Decimal("0.9")},
        {"distribution": "choice", "values": [2**31 - 1, 1], "weights": [Decimal("1e-30"), 10**9]},
    ],
    ids=lambda keys: " ".join(map(str, keys.values())),
)
def test_extreme_parameters_still_give_lengths(keys: Keys) -> None:
    drawn = lengths(5_000, **keys)
    assert 1 <= drawn.min() <= drawn.max() <= 2**31 - 1


# --- prompts and outputs together ------------------------------------------------------------------------------------

LOGNORMAL = {"distribution": "lognormal", "mean": 100_000, "cv": 1}


def drawn(count: int = DRAWS, folder: Path | None = None, **workload: Any) -> Workload:
    keys: Keys = {"count": count, "arrivals": {"process": "deterministic", "rate_per_s": 1000}}
    keys |= {"prompt_tokens": LOGNORMAL, "output_tokens": LOGNORMAL, **workload}
    scenario = sim.load({"schema": 1, "name": "drawn", "workload": keys})
    return build(scenario)[0]


def scores(tokens: Values) -> Any:
    """Of log-normal lengths the logarithm is normal: their normal scores, up to place and scale."""
    return np.log(tokens)


@pytest.mark.parametrize("rho", ["-0.9", "-0.3", "0", "0.5", "0.95"])
def test_normal_scores_have_the_correlation_asked_for(rho: str) -> None:
    """A sample's correlation is off by (1 - rho^2) / sqrt(n)."""
    workload = drawn(correlation=Decimal(rho))
    found = np.corrcoef(scores(workload.prompt_tokens), scores(workload.output_tokens))[0, 1]
    assert abs(found - float(rho)) < ERRORS * (1 - float(rho) ** 2) / sqrt(DRAWS)


def test_a_correlation_of_the_lengths_themselves_is_another() -> None:
    """Of log-normal lengths with cv 1 and rho 0.5 it is exp(0.5 ln 2) - 1 = 0.414."""
    workload = drawn(correlation=Decimal("0.5"))
    found = np.corrcoef(workload.prompt_tokens, workload.output_tokens)[0, 1]
    assert abs(found - 0.414) < 0.03
    assert abs(found - 0.5) > 0.03


def test_correlation_leaves_each_law_as_it_is() -> None:
    law = {"distribution": "gamma", "mean": 500, "cv": Decimal("0.5")}
    workload = drawn(output_tokens=law, correlation=Decimal("0.8"))
    assert fits(workload.prompt_tokens, lognormal(100_000, 1).cdf)
    assert fits(workload.output_tokens, stats.gamma(4, scale=125).cdf)
    assert np.array_equal(workload.prompt_tokens, drawn().prompt_tokens)


@pytest.mark.parametrize("law", [keys for keys in EVERY if keys["distribution"] != "fixed"], ids=" ".join)
def test_perfectly_correlated_lengths_are_in_one_order(law: dict[str, Any]) -> None:
    for rho in (1, -1):
        workload = drawn(2_000, output_tokens=law, correlation=rho)
        prompts, outputs = workload.prompt_tokens, rho * workload.output_tokens
        order = np.lexsort((outputs, prompts))  # equal prompts may have any outputs
        assert (np.diff(outputs[order]) >= 0).all()


def test_without_a_key_they_are_independent() -> None:
    workload = drawn()
    found = np.corrcoef(scores(workload.prompt_tokens), scores(workload.output_tokens))[0, 1]
    assert abs(found) < ERRORS / sqrt(DRAWS)


ROWS = {(10, 1): 3, (20, 5): 1, (30, 1): 2, (30, 7): 4}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Ten rows: pairs of tokens, so often."""
    pairs = [pair for pair, times in ROWS.items() for _ in range(times)]
    rows = [f"2023-11-16 18:00:{second:02d}.0,{p},{o}" for second, (p, o) in enumerate(pairs)]
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows, ""]))
    return path


def empirical(path: Path, column: str) -> dict[str, Any]:
    return {"distribution": "empirical", "path": str(path), "column": column}


def test_lengths_of_a_trace_are_as_frequent_as_in_it(trace: Path) -> None:
    workload = drawn(output_tokens=empirical(trace, "output"))
    assert is_of(workload.output_tokens, {1: 5, 5: 1, 7: 4})
    assert not is_of(workload.output_tokens, {1: 1, 5: 1, 7: 1})


def test_prompts_and_outputs_of_one_trace_are_drawn_as_its_pairs(trace: Path) -> None:
    workload = drawn(prompt_tokens=empirical(trace, "prompt"), output_tokens=empirical(trace, "output"))
    coded = workload.prompt_tokens * 100 + workload.output_tokens
    assert is_of(coded, {p * 100 + o: times for (p, o), times in ROWS.items()})


def test_of_two_traces_they_are_drawn_apart(trace: Path) -> None:
    other = trace.with_name("other.csv")
    other.write_bytes(trace.read_bytes())
    workload = drawn(prompt_tokens=empirical(trace, "prompt"), output_tokens=empirical(other, "output"))
    coded = workload.prompt_tokens * 100 + workload.output_tokens
    assert is_of(
        coded, {p * 100 + o: pn * on for p, pn in ((10, 3), (20, 1), (30, 6)) for o, on in ((1, 5), (5, 1), (7, 4))}
    )


def test_a_path_is_relative_to_the_scenario(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        'schema = 1\nname = "t"\n[workload]\ncount = 50\narrivals = {process = "poisson", rate_per_s = 4}\n'
        'prompt_tokens = {distribution = "empirical", path = "trace.csv", column = "prompt"}\n'
        'output_tokens = {distribution = "empirical", path = "trace.csv", column = "output"}\n'
    )
    trace.with_name("s.toml").write_text(text)
    monkeypatch.chdir("/")
    result = sim.simulate(sim.load(trace.with_name("s.toml")))
    again = sim.simulate(sim.load(dict(result.resolved)))  # the complete scenario runs from anywhere
    assert again.provenance["workloadSha256"] == result.provenance["workloadSha256"]
