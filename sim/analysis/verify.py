"""Is a result what it claims to be? Everything is recomputed from its raw record, and every invariant checked."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sim.analysis import inject
from sim.analysis.checking import check_document
from sim.analysis.findings import Finding, Report
from sim.analysis.folders import check_folder
from sim.record.json_read import read_document

__all__ = ["Finding", "Report", "verify", "verify_document", "verify_injected"]


def verify(path: Path, *, decisions: bool = False) -> Report:
    """Check a JSON file, a folder of runs, or one run's folder. ``ResultError``: it can't be read as a result.

    ``decisions``: make every decision of a folder's runs again, however many there are.
    """
    if not path.is_dir():
        return verify_document(read_document(path))
    report = Report(every_decision=decisions)
    check_folder(path, report)
    return report


def verify_document(document: Mapping[str, Any]) -> Report:
    """Check a result JSON in memory. ``ResultError``: it does not have the shape of one."""
    report = Report()
    check_document(document, report)
    return report


def verify_injected(path: Path, fault: str) -> Report:
    """Damage a copy of a result in memory, and check that; with ``all``, try every fault and report which are caught.

    A result that is wrong before anything is injected is reported as it is. ``ScenarioError``: there is no such fault,
    or nothing in this result that could be damaged so.
    """
    document = read_document(path / "result.json" if path.is_dir() else path)
    report = verify_document(document)
    if not report.ok:
        return report
    return inject.report_all(document) if fault == "all" else verify_document(inject.inject(document, fault))
