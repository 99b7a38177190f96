"""Every order of the queue under every other axis: the result is what a second statement of the rules makes of it.

``verify`` decides each run anew from its record (:mod:`sim.record.again`): it sorts the queue by the sentences of the
docs whenever somebody looks at it, and tries on a copy of the memory who has to make way. So an engine that keeps its
queue in heaps and counts blocks instead is held to the plain meaning of the rules.
"""

from pathlib import Path

import axes
import pytest

from sim.analysis.verify import verify
from sim.errors import HeadwayError
from sim.policies.orders import ORDERS
from sim.record.result import Result

AT_ONCE = 50


def result_of(seed: int) -> Result | None:
    """None: it did not come to an end (two throw each other out of a pool for ever), which is no result to check."""
    document = axes.seeded(seed)
    document = axes.with_order(axes.generated(document, seed) if seed % 4 == 1 else document, seed)
    if axes.left_out(document):
        return None
    try:
        return axes.run(document)
    except HeadwayError:
        return None


def compare(first: int, folder: Path) -> None:
    checked, preempted = 0, 0
    for seed in range(first, first + AT_ONCE):
        result = result_of(seed)
        if result is None:
            continue
        for place in (folder / f"{seed}.json", folder / f"{seed}"):
            result.save(place)
            report = verify(place, decisions=True)
            assert report.ok, f"seed {seed}: {list(report.lines())}"
        checked += 1
        preempted += int((result.requests["preemptions"] > 0).sum())
    assert checked > AT_ONCE * 3 // 4
    assert preempted, "nobody ever lost a place: the comparison says little"


@pytest.mark.parametrize("first", range(0, 150, AT_ONCE))
def test_decided_again(first: int, tmp_path: Path) -> None:
    compare(first, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 12_000, AT_ONCE))
def test_decided_again_in_two_thousand(first: int, tmp_path: Path) -> None:
    compare(first, tmp_path)


def test_every_order_is_drawn() -> None:
    drawn = {axes.with_order(axes.seeded(seed), seed)["scheduler"]["order"] for seed in range(200)}
    assert drawn == set(axes.ORDERS) == set(ORDERS)
