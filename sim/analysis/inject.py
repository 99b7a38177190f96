"""Fault switches: each damages a copy of a result in a way that a bug of a simulator would. ``verify`` must see it."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any

from sim.analysis.checking import check_document
from sim.analysis.damage import Damaged, NothingToDamageError
from sim.analysis.faults_of_claims import CLAIMS
from sim.analysis.faults_of_history import HISTORY
from sim.analysis.faults_of_memory import MEMORY
from sim.analysis.findings import Finding, Report, Tried
from sim.errors import ResultError, ScenarioError
from sim.spelling import nearest

FAULTS: Mapping[str, Callable[[Damaged], None]] = MappingProxyType({**HISTORY, **CLAIMS, **MEMORY})
"""Every switch by name. The docstring of each tells what went wrong."""

SHAPE = "the result has its shape"
"""Not a check of the record: the damage was such that it could not be read as a result any more."""


def inject(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A damaged copy of ``document``: the fault ``name`` in the first run that has a place for it.

    ``ScenarioError``: there is no such fault, or no run has a place for it. ``document`` must be a consistent result.
    """
    if name not in FAULTS:
        raise ScenarioError(f"--inject {name}: no such fault; one of {', '.join(FAULTS)}, all{nearest(name, FAULTS)}")
    for place in range(len(document["runs"])):
        damaged = Damaged(deepcopy(dict(document)), place)
        try:
            FAULTS[name](damaged)
        except NothingToDamageError:
            continue
        return damaged.document
    raise ScenarioError(f"--inject {name}: nothing in this result can be damaged so")


def try_all(document: Mapping[str, Any]) -> list[Tried]:
    """Every fault that this result has a place for, whether it was caught, and by which check first."""
    tried = []
    for name in FAULTS:
        try:
            damaged = inject(document, name)
        except ScenarioError:
            continue
        tried.append(_try(name, damaged))
    return tried


def report_all(document: Mapping[str, Any]) -> Report:
    """All faults as a report: a fault that was not caught is a finding."""
    report = Report(tried=try_all(document))
    for fault in report.tried or ():
        report.checks.append(f"fault {fault.name} is caught")
        if not fault.caught:
            report.findings.append(Finding(report.checks[-1], "verify", "a finding", "none"))
    return report


def _try(name: str, damaged: Mapping[str, Any]) -> Tried:
    report = Report()
    try:
        check_document(damaged, report)
    except ResultError:
        return Tried(name, caught=True, by=SHAPE)
    return Tried(name, caught=not report.ok, by=None if report.ok else report.findings[0].check)
