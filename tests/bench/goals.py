"""Whether what was measured is what was wanted."""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.measure import Figures, Row
from bench.workloads import Goal


@dataclass(frozen=True)
class Judgement:
    """A goal, what was found (None: nothing to compare), and ``met``, ``near`` (short of it, no miss) or ``missed``."""

    goal: Goal
    found: float | None
    verdict: str


def judge(goal: Goal, figures: Figures, others: Mapping[str, Figures]) -> Judgement:
    """``figures``: of the row, scaled; ``others``: those of all rows, by name."""
    found = figures.get(goal.figure)
    if found is not None and goal.times is not None:
        unit = others.get(goal.times, {}).get(goal.figure)
        found = None if unit is None else found / unit
    if found is None:
        return Judgement(goal, None, "not judged")
    if found <= goal.wanted:
        return Judgement(goal, found, "met")
    return Judgement(goal, found, "near" if goal.miss is not None and found <= goal.miss else "missed")


def judgements(row: Row, rows: Mapping[str, Row]) -> list[Judgement]:
    others = {name: other.scaled for name, other in rows.items()}
    return [judge(goal, row.scaled, others) for goal in row.workload.goals]


def unit(figure: str) -> str:
    return {"rss_mb": "MB", "cpu_s": "s"}.get(figure, "µs a " + figure.removeprefix("us_per_"))
