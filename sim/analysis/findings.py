"""What a check finds, and the report of all checks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

Value = str | int | float | None

MOST = 50
"""Most findings of one check that are listed; the others are counted."""


class Difference(NamedTuple):
    """Something that is not as it should be: where in the run, and the value expected and found."""

    where: str
    expected: Value
    found: Value


class Finding(NamedTuple):
    """A difference, and the check that saw it."""

    check: str
    where: str
    expected: Value
    found: Value


class Tried(NamedTuple):
    """A fault that was put into a copy of the record: whether it was found, and by which check first."""

    name: str
    caught: bool
    by: str | None


@dataclass
class Report:
    """What ``verify`` says. ``checks`` names every check that ran, once; ``tried`` is there after ``--inject all``.

    ``left_out``: what was not checked, and why. ``every_decision``: nothing is left out for being long.
    """

    checks: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    tried: list[Tried] | None = None
    left_out: list[str] = field(default_factory=list)
    every_decision: bool = False

    @property
    def ok(self) -> bool:
        return not self.findings

    def run(self, check: str, differences: Iterable[Difference], where: str = "") -> bool:
        """Enter a check with what it yields; whether it found nothing. ``where`` goes before each place."""
        if check not in self.checks:
            self.checks.append(check)
        found = iter(differences)
        listed = [Finding(check, f"{where}{d.where}", d.expected, d.found) for d in islice(found, MOST)]
        more = sum(1 for _ in found)
        self.findings += listed
        if more:
            self.findings.append(Finding(check, f"{where}and elsewhere", 0, f"{more} more"))
        return not listed

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON wants it."""
        tried = {} if self.tried is None else {"tried": [fault._asdict() for fault in self.tried]}
        left_out = {"leftOut": list(self.left_out)} if self.left_out else {}
        findings = [finding._asdict() for finding in self.findings]
        return {"ok": self.ok, "checks": list(self.checks), "findings": findings, **left_out, **tried}

    def lines(self) -> Iterator[str]:
        """The report as text, one finding a line."""
        for fault in self.tried or ():
            yield f"{fault.name}: {f'caught: {fault.by}' if fault.caught else 'NOT CAUGHT'}"
        for finding in self.findings:
            yield f"{finding.where}: {finding.check}: expected {_text(finding.expected)}, found {_text(finding.found)}"
        for what in self.left_out:
            yield f"left out: {what}"
        if self.tried is not None:
            caught = sum(fault.caught for fault in self.tried)
            yield f"{caught} of {len(self.tried)} faults caught"
        elif self.ok:
            yield f"consistent: {len(self.checks)} checks passed"
        else:
            yield f"{len(self.findings)} findings in {len(self.checks)} checks"


def _text(value: Value) -> str:
    return "none" if value is None else str(value)
