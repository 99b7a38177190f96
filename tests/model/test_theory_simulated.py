"""Simulation against queueing theory: 24 replications with the seeds 0 to 23 and no others.

An exact result agrees within 4 standard errors. Processor sharing is the limit of short steps: 0.5 % more. The mean
field is an approximation: within 5 %. Standard errors are at most 2.5 % up to a load of 0.8, 7 % at 0.9, 10 % at 0.95;
in the short form, with a sixth of the requests, 2.5 times as much.
"""

import pytest
from theory_cases import CASES, MEAN_FIELD, SHARED, Case

from sim.analysis.theory.claims import Finding, Path
from sim.analysis.theory.examine import Report, examine

RUNS = 24
SHORT_PART, SHORT_ERROR = 6, 2.5
LEAST_SHORT = 1_000
EXACT_STEPS = 0.005
APPROXIMATION = 0.05


def named(cases: list[Case]) -> "pytest.MarkDecorator":
    return pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases])


@pytest.mark.theory
@pytest.mark.stress
@named(CASES)
def test_theory(case: Case) -> None:
    check(case, examine(case.scenario(), RUNS), case.most_error)


@pytest.mark.slow
@named([case for case in CASES if case.short and case.load <= 0.8])
def test_theory_in_short(case: Case) -> None:
    requests = min(max(case.requests // SHORT_PART, LEAST_SHORT), case.requests)
    check(case, examine(case.scenario(requests), RUNS), case.most_error * SHORT_ERROR)


def check(case: Case, report: Report, most_error: float) -> None:
    found = {finding.name: finding for finding in report.findings}
    assert report.replications == RUNS
    if "arrivals" in case.workload and case.device.keys() != {"job_ms"}:
        assert report.load.load == pytest.approx(case.load, rel=0.02)
    assert case.values
    for name, value in case.values.items():
        finding = found[name]
        assert finding.theory == pytest.approx(value, rel=case.accuracy), name
        assert finding.standard_error is not None
        assert finding.standard_error <= most_error * abs(finding.theory), name
        assert abs(finding.simulated - finding.theory) <= allowed(finding), name
        assert finding.verdict.startswith(("agrees", "approximation")), name
    wrong = [finding for finding in report.findings if finding.verdict == "differs"]
    assert wrong == []
    for finding in report.findings:
        if isinstance(finding.claim, Path) and not finding.claim.bound:
            assert finding.simulated == finding.theory


def allowed(finding: Finding) -> float:
    """By how much simulation may be off."""
    if finding.name == MEAN_FIELD:
        return APPROXIMATION * finding.theory
    errors = 4 * (finding.standard_error or 0)
    return errors + EXACT_STEPS * finding.theory if finding.name == SHARED else errors
