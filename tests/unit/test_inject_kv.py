"""Fault switches of the block pool: each is caught by the check that is about it, on a scenario that has a place."""

from copy import deepcopy
from functools import cache
from typing import Any

import pytest
from kv_scenarios import SCENARIOS, as_json, run

from sim.analysis import inject
from sim.analysis.faults_of_memory import MEMORY
from sim.analysis.verify import verify_document

CAUGHT_BY = {
    "leaked-block": ("recompute", "blocks are conserved"),
    "double-freed-block": ("recompute", "blocks are conserved"),
    "lost-reference": ("prefix", "free blocks are those that nobody holds"),
    "over-hit": ("prefix", "cached tokens are those that the cache held"),
    "victim-out-of-order": ("recompute", "victims are those of the rule"),
    "admitted-over-the-gate": ("recompute", "nobody is admitted without room"),
    "kept-out": ("recompute", "nobody who has room is kept out"),
    "forgotten-preemption": ("recompute", "victims are those of the rule"),
    "resume-forgets-output": ("recompute", "emitted = output, scheduled = prompt + output - 1"),
    "swap-not-charged": ("swap", "jobs take what the device charges"),
    "lost-copy": ("swap", "what is copied is what was held"),
    "watermark-off-by-one": ("swap", "nobody is admitted without room"),
    "rejected-though-it-fits": ("recompute", "who never fits is rejected, nobody else"),
    "withheld-in-use": ("faults", "blocks are conserved"),
    "lost-sample": ("prefix", "every scheduled item has tokens, a decode one a sample"),
}


@cache
def document(name: str) -> dict[str, Any]:
    return as_json(run(SCENARIOS[name]))


def test_every_switch_is_in_the_list_and_says_what_it_is() -> None:
    assert list(MEMORY) == list(CAUGHT_BY)
    assert all(fault.__doc__ for fault in MEMORY.values())


@pytest.mark.parametrize("name", CAUGHT_BY)
def test_each_switch_is_caught_by_the_check_that_is_about_it(name: str) -> None:
    scenario, check = CAUGHT_BY[name]
    before = deepcopy(document(scenario))
    damaged = inject.inject(document(scenario), name)
    assert document(scenario) == before, "the original is not touched"
    assert check in [finding.check for finding in verify_document(damaged).findings]


@pytest.mark.parametrize(
    ("name", "checks"),
    [
        ("leaked-block", {"blocks are conserved", "free blocks are those that nobody holds"}),
        ("swap-not-charged", {"jobs take what the device charges"}),
        ("watermark-off-by-one", {"nobody is admitted without room"}),
        ("lost-reference", {"free blocks are those that nobody holds"}),
    ],
)
def test_what_follows_from_the_damage_agrees_with_it(name: str, checks: set[str]) -> None:
    """No metric, no token and no figure gives the fault away: only the rule that it breaks."""
    damaged = inject.inject(document(CAUGHT_BY[name][0]), name)
    assert {finding.check for finding in verify_document(damaged).findings} == checks


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_none_is_missed_whatever_is_short(scenario: str) -> None:
    tried = inject.try_all(document(scenario))
    assert [fault.name for fault in tried if not fault.caught] == []
    assert len({fault.name for fault in tried} & set(MEMORY)) > 6
