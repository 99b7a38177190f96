"""Which theory applies to a scenario, what is made of replications, and the command that shows both."""

import copy
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import sim
from sim.analysis.theory import examine
from sim.analysis.theory.applicable import THEORIES, applicable
from sim.analysis.theory.claims import Replications, Sample, allowed_errors, estimate, pooled_quantile
from sim.cli import main

FIXED_1 = {"distribution": "fixed", "value": 1}
POISSON = {"process": "poisson", "rate_per_s": 500}
GEOMETRIC = {"distribution": "geometric", "mean": 1000}
BIG = 10**6
UNLIMITED = {"policy": "vllm", "max_running": BIG, "token_budget": BIG}


def scenario(changes: Mapping[str, Any] | None = None, **tables: Any) -> sim.Scenario:
    """Poisson arrivals at a single slot of 1 ms a prompt token, unless something else is said."""
    document: dict[str, Any] = {
        "schema": 1,
        "name": "queue",
        "workload": {"count": 200, "arrivals": dict(POISSON), "prompt_tokens": FIXED_1, "output_tokens": FIXED_1},
        "device": {"prefill_ms_per_token": 1},
        "scheduler": {"max_running": 1},
    } | copy.deepcopy(tables)
    for key, value in (changes or {}).items():
        *path, name = key.split(".")
        table = document
        for step in path:
            table = table.setdefault(step, {})
        table[name] = value
    return sim.load(document)


def given(*requests: tuple[float, int, int], **tables: Any) -> sim.Scenario:
    """(arrival in ms, prompt, output) of each."""
    rows = [{"arrival_ms": a, "prompt_tokens": p, "output_tokens": o} for a, p, o in requests]
    return scenario(workload={"requests": rows}, **tables)


def applies(made: sim.Scenario) -> set[str]:
    return set(applicable(made).claims)


def why_not(made: sim.Scenario) -> dict[str, str]:
    return {refusal.name: refusal.why for refusal in applicable(made).refusals}


# --- what applies ----------------------------------------------------------------------------------------------------

ALWAYS = {"lone requests", "saturation"}


def test_every_theory_applies_or_is_refused_with_a_reason() -> None:
    for made in (scenario(), sim.load("mixed"), sim.load("poisson"), sim.load("kv-exhaustion")):
        found = applicable(made)
        refused = [refusal.name for refusal in found.refusals]
        assert sorted([*found.claims, *refused]) == sorted(THEORIES)
        assert all(refusal.why for refusal in found.refusals)


def test_one_slot_with_constant_services() -> None:
    assert applies(scenario()) == {"Lindley", "M/D/1", "conservation law"} | ALWAYS
    assert why_not(scenario())["M/G/1"] == "all services are the same: M/D/1 says more"


def test_prompts_one_after_another_are_one_slot_too() -> None:
    """With one output token nobody decodes: fcfs and chunked serve one prompt at a time, whatever the slots."""
    for policy in ("fcfs", "chunked", "static"):
        assert "M/D/1" in applies(scenario(scheduler={"policy": policy}))
    assert "M/D/1" not in applies(scenario(scheduler={"policy": "vllm"}))
    decodes = scenario({"workload.output_tokens": {"distribution": "fixed", "value": 2}}, scheduler={})
    assert (
        why_not(decodes)["M/D/1"] == "not a single slot: max_running has no limit, and a job may hold several requests"
    )


@pytest.mark.parametrize(
    ("changes", "theory", "why"),
    [
        ({"scheduler.max_running": 2, "scheduler.policy": "vllm"}, "M/D/1",
         "not a single slot: max_running = 2, and a job may hold several requests"),
        ({"workload.arrivals.process": "deterministic"}, "M/D/1", "arrivals are not Poisson: deterministic"),
        ({"workload.arrivals.exact_rate": True}, "M/D/1", "arrivals are not Poisson: poisson, changed"),
        ({"workload.arrivals.rate_per_s": 1000}, "M/D/1", "load 1: at 1 and above nothing is stationary"),
        ({"workload.prompt_tokens": {"distribution": "uniform", "min": 1, "max": 2}}, "M/D/1",
         "services differ: lengths are not all the same"),
        ({"scheduler.order": "sjf"}, "priorities", "order sjf, not priority"),
        ({"scheduler.order": "priority"}, "priorities", "all have the same priority"),
        ({"scheduler.order": "hrrn"}, "Lindley", "order hrrn has no key that is known beforehand"),
        ({"scheduler.order": "sjf", "scheduler.predictor": "noisy"}, "shortest job first", "predictor noisy errs"),
        ({"run.horizon_ms": 1000}, "Lindley", "the run is cut before its end"),
        ({"faults": [{"kind": "stall", "at_ms": 1, "until_ms": 2}]}, "Lindley", "the server has faults"),
        ({"scheduler.max_model_tokens": 100}, "Lindley", "max_model_tokens cuts outputs"),
        ({}, "constant steps", "composition prefill-first: prompts and decodes in separate jobs"),
        ({}, "a batch at once", "the requests are not given one by one"),
        ({}, "Kingman", "arrivals are Poisson: M/G/1 is exact"),
    ],
)  # fmt: skip
def test_why_a_theory_does_not_apply(changes: Mapping[str, Any], theory: str, why: str) -> None:
    assert why_not(scenario(changes))[theory] == why


def test_a_cache_or_a_cancellation_makes_services_something_else() -> None:
    cached = scenario(kv={"blocks": 100, "prefix_cache": True})
    assert why_not(cached)["Lindley"] == "the prefix cache shortens services"
    assert "Lindley" in applies(scenario(kv={"blocks": 100}))
    rows = [{"prompt_tokens": 1, "output_tokens": 1, "cancel_ms": 5}]
    assert why_not(scenario(workload={"requests": rows}))["Lindley"] == "some requests are cancelled"


def test_renewal_arrivals() -> None:
    gamma = {"workload.arrivals": {"process": "gamma", "burstiness": 0.5, "rate_per_s": 0.5}}
    assert applies(scenario(gamma)) == {"Lindley", "Kingman"} | ALWAYS
    assert "exponential" in why_not(scenario(gamma))["G/M/1"]
    assert "G/M/1" in applies(scenario(gamma | {"workload.prompt_tokens": GEOMETRIC}))
    short = scenario(gamma | {"workload.prompt_tokens": {"distribution": "geometric", "mean": 10}})
    assert "G/M/1" not in applies(short)
    weibull = {"workload.arrivals": {"process": "weibull", "shape": 0.5, "rate_per_s": 0.5}}
    unknown = scenario(weibull | {"workload.prompt_tokens": GEOMETRIC})
    assert why_not(unknown)["G/M/1"] == "the transform of weibull gaps is not known here"
    assert "Kingman" in applies(unknown)


def test_orders() -> None:
    two = {"distribution": "choice", "values": [1, 10]}
    sjf = scenario({"scheduler.order": "sjf", "workload.prompt_tokens": two, "workload.arrivals.rate_per_s": 100})
    assert applies(sjf) == {"Lindley", "M/G/1", "shortest job first", "conservation law"} | ALWAYS
    classes = [
        {"name": name, "count": 100, "priority": priority, "arrivals": POISSON | {"rate_per_s": 300},
         "prompt_tokens": FIXED_1, "output_tokens": FIXED_1}
        for name, priority in (("a", 0), ("b", 1))
    ]  # fmt: skip
    urgent = scenario(workload={"classes": classes}, scheduler={"max_running": 1, "order": "priority"})
    assert applies(urgent) == {"Lindley", "M/D/1", "priorities", "conservation law"} | ALWAYS
    classes[1]["count"] = 150
    uneven = scenario(workload={"classes": classes}, scheduler={"max_running": 1, "order": "priority"})
    assert why_not(uneven)["priorities"] == "the classes end at different times: counts are not as the rates"


def test_batches() -> None:
    steps = scenario(device={"job_ms": 1}, scheduler=UNLIMITED)
    assert applies(steps) == {"constant steps", "lone requests"}
    assert "bulk service" in applies(steps.with_overrides({"scheduler.max_running": 4}))
    ten = {"workload.output_tokens": {"distribution": "fixed", "value": 10}}
    device = {"job_ms": 1, "prefill_ms_per_token": 0.01, "decode_ms_per_request": 0.01}
    shared = scenario(ten, device=device, scheduler=UNLIMITED)
    assert applies(shared) == {"processor sharing", "mean field"} | ALWAYS
    other = shared.with_overrides({"device.prefill_ms_per_token": 0.02})
    assert applies(other) == {"mean field"} | ALWAYS
    dense = shared.with_overrides({"workload.arrivals.rate_per_s": 9000})
    assert why_not(dense)["mean field"] == "load 0.9: above 0.8, the approximation is too coarse"


def test_given_requests() -> None:
    scattered = given((0, 3, 2), (50, 4, 2))
    assert applies(scattered) == {"Lindley"} | ALWAYS
    assert why_not(scattered)["M/G/1"] == "the requests are given one by one, not by a law"
    assert "a batch at once" in applies(given((0, 3, 2), (0, 4, 2), scheduler={"policy": "fcfs"}))
    assert why_not(given((0, 3, 2), (0, 4, 3)))["a batch at once"] == "not all outputs have the same length"


# --- what becomes of the claims --------------------------------------------------------------------------------------


def test_exact_paths_are_compared_to_the_last_nanosecond() -> None:
    report = examine.examine(given((0, 5, 1), (1, 3, 1), (2, 1, 1), (20, 4, 1)))
    found = {finding.name: finding for finding in report.findings}
    assert report.replications == 1
    lindley = found["Lindley: mean wait"]
    assert (lindley.theory, lindley.simulated, lindley.standard_error, lindley.verdict) == (2.5, 2.5, None, "agrees")
    assert found["lone requests: mean E2E"].simulated == 4  # only the last one is alone


def test_a_server_that_is_not_what_theory_takes_it_for_is_found_out() -> None:
    """Claims about services of 1 ms, measured on services of 1.2 ms."""
    claims = [claim for some in applicable(scenario()).claims.values() for claim in some]
    slower = scenario({"device.prefill_ms_per_token": 1.2, "workload.count": 4000})
    runs = Replications(claims)
    for seed in range(8):
        runs.add(Sample(sim.simulate(slower.with_overrides({"run.seed": seed}))))
    verdicts = {found.name: found.verdict for claim in claims if (found := runs.finding(claim))}
    for name in ("Lindley: mean wait", "lone requests: mean E2E", "M/D/1: mean wait", "M/D/1: mean busy period",
                 "M/D/1: P(no wait)", "M/D/1: wait p95", "saturation: rate while busy (bound)"):  # fmt: skip
        expected = "agrees" if name.startswith("saturation") else "differs"  # it is a bound from above
        assert verdicts[name] == expected


def test_a_run_that_is_too_short_is_not_held_against_theory() -> None:
    """At a load of 0.9, 3 relaxation times before the first tenth is over take about 4,860 requests."""
    rate = {"workload.arrivals.rate_per_s": 900}
    claims = [claim for some in applicable(scenario(rate)).claims.values() for claim in some]
    runs = Replications(claims)
    for seed in range(24):
        runs.add(Sample(sim.simulate(scenario({"workload.arrivals.rate_per_s": 300, "run.seed": seed}))))
    verdicts = {found.name: found.verdict for claim in claims if (found := runs.finding(claim))}
    assert verdicts["M/D/1: mean wait"].startswith("not judged: too short; it takes ")


def test_a_limit_that_was_met_is_told() -> None:
    """1,500 arrivals a second, steps of 1 ms for at most 2: a queue of its own kind, and no unlimited batch."""
    two = {"policy": "vllm", "max_running": 2, "token_budget": BIG}
    report = examine.examine(scenario({"workload.arrivals.rate_per_s": 1500}, device={"job_ms": 1}, scheduler=two), 2)
    refused = {refusal.name: refusal.why for refusal in report.refusals}
    assert refused["constant steps"] == "max_running, token_budget or the pool was met in some runs"
    assert "bulk service by 2: mean wait" in {finding.name for finding in report.findings}


def test_requests_that_are_turned_away_leave_no_stationary_queue() -> None:
    """Prompts of 2 never fit into a pool of one block of one token; Lindley's queue is that of the others."""
    lengths = {"distribution": "choice", "values": [1, 2]}
    pool = {"blocks": 1, "block_tokens": 1}
    report = examine.examine(scenario({"workload.prompt_tokens": lengths, "workload.count": 50}, kv=pool), 2)
    assert [finding.verdict for finding in report.findings if finding.name == "Lindley: mean wait"] == ["agrees"]
    assert {r.name: r.why for r in report.refusals}["M/G/1"] == "some requests did not finish"


def test_the_standard_error_of_replications() -> None:
    """1 and 3: the mean 2, the standard deviation sqrt 2, over sqrt 2."""
    found = estimate(np.array([1.0, 3.0]))
    assert found == pytest.approx((2, 1, 1))
    assert estimate(np.array([5.0])) == (5, None, 0)


def test_a_control_takes_away_what_it_explains() -> None:
    """The values are 10 + 2 e, whatever e came out: at e = 0 they are 10, without error."""
    errors = np.array([[1.0], [2.0], [4.0], [9.0]])
    found = estimate(10 + 2 * errors[:, 0], errors)
    assert found == pytest.approx((10, 0, 2), abs=1e-9)
    same = np.ones((3, 1))  # it explains nothing
    assert estimate(np.array([1.0, 2.0, 3.0]), same) == estimate(np.array([1.0, 2.0, 3.0]))


def test_a_quantile_is_of_all_runs_together() -> None:
    """The median of 1 … 6 is 3.5. Without a third of them: of 3 … 6 4.5, of 1, 2, 5, 6 3.5, of 1 … 4 2.5.

    Their variance (by 3) is 2/3, times n - 1: 4/3.
    """
    found = pooled_quantile([np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([5.0, 6.0])], 0.5)
    assert found == pytest.approx((3.5, (4 / 3) ** 0.5, 2))
    assert pooled_quantile([np.array([1.0, 2.0])], 0.5) == (1.5, None, 0)


def test_fewer_replications_are_allowed_more_errors() -> None:
    assert allowed_errors(23) == pytest.approx(4)
    assert allowed_errors(7) > 5
    assert allowed_errors(1000) < 4


# --- the command -----------------------------------------------------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["theory", *arguments])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


SLOT = ("poisson", "--set", "scheduler.max_running=1", "--set", "workload.arrivals.rate_per_s=0.4", "--lang", "en")


def test_theory_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, *SLOT, "--replications", "3", "--requests", "150", "--json")
    document = json.loads(out)
    assert code == 0
    assert (document["replications"], document["requests"], document["seed"]) == (3, 150, 0)
    assert document["load"] == pytest.approx(document["arrivalRatePerS"] / document["saturationRatePerS"])
    assert {"name", "theory", "simulated", "standardError", "verdict"} <= document["results"][0].keys()
    names = [row["name"] for row in document["results"]]
    assert "M/G/1: mean wait (Pollaczek-Khinchine)" in names
    assert {row["name"] for row in document["notApplicable"]} >= {"M/D/1", "priorities"}


def test_of_one_replication_there_is_no_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, *SLOT, "--replications", "1", "--json")
    rows = {row["name"]: row for row in json.loads(out)["results"]}
    assert {row["standardError"] for row in rows.values()} == {None}
    assert rows["Lindley: mean wait"]["verdict"] == "agrees"
    assert rows["M/G/1: P(no wait)"]["verdict"] == "not judged: one replication"


def test_theory_as_a_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    code, out, _ = run(capsys, *SLOT, "--replications", "2")
    assert code == 0
    assert "poisson (fcfs): 2 replications of 200 requests, seeds 0 to 1\n" in out
    assert "λ 0.4000/s arrive, λ* " in out
    assert "below saturation\n" in out
    assert "| result " in out
    assert "What does not apply, and why\n" in out
    _, out, _ = run(capsys, *SLOT[:-1], "zh", "--replications", "2")
    assert "poisson（fcfs）：独立运行 2 次，每次 200 条请求，种子 0–1\n" in out  # noqa: RUF001
    assert "不适用的及原因\n" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("poisson", "--replications", "0"), "--replications 0: too small; at least 1\n"),
        (("poisson", "--replications", "-1"), "--replications -1: too small; at least 1\n"),
        (("poisson", "--replications", "1000000"),
         "--replications 1000000: too large (5.6 hours for 200 requests each); at most 10000\n"),
        (("poisson", "--replications", "x"), '--replications "x": not an integer; decimal digits\n'),
        (("poisson", "--requests", "0"), "--requests 0: too small"),
    ],
)  # fmt: skip
def test_bad_numbers(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err
