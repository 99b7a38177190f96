"""What the search of ``test_axes`` found, each as the smallest scenario that shows it.

All are mended. One that is not yet is marked as expected to fail.
"""

from typing import Any

import axes
import invariants
import pytest
from axes import Document

from sim.errors import StalledError

CACHE = {"blocks": 20, "block_tokens": 1, "prefix_cache": True}
GROUP: Document = {"prefix_group": "g", "prefix_tokens": 4}


def request(name: str, prompt: int, output: int, arrival_ms: float = 0, **more: Any) -> Document:
    return {"id": name, "arrival_ms": arrival_ms, "prompt_tokens": prompt, "output_tokens": output, **more}


def scenario(*requests: Document, scheduler: Document, **tables: Any) -> Document:
    """Every job takes 1 ms."""
    given = {"device": {"job_ms": 1}, "scheduler": {"policy": "vllm", **scheduler}, **tables}
    return {"schema": 1, "name": "found", "workload": {"requests": list(requests)}, **given}


def half_prefilled_and_back() -> Document:
    """a is copied out with 8 of 12 tokens; once back, b finds 11 of a's, of which a has 10 at the end of that job."""
    same: Document = {"prefix_group": "g", "prefix_tokens": 12}
    return scenario(
        request("x", 2, 10),
        request("a", 12, 2, **same),
        request("b", 12, 2, 5, **same),
        request("c", 1, 1, 5),
        kv={**CACHE, "blocks": 14, "gate": "chunk", "preemption": "swap", "swap_blocks": 20},
        scheduler={"long_prefill_tokens": 2},
    )


FOUND = {
    # A prefill that is never cut and exceeds the budget: neither rejected nor served.
    "prefill-first never cuts, whatever chunked_prefill says": scenario(
        request("a", 6, 1), scheduler={"policy": "fcfs", "prefills_per_job": 0, "token_budget": 4}
    ),
    "prefill-first does not read long_prefill_tokens": scenario(
        request("a", 6, 1), scheduler={"policy": "vllm-v0", "token_budget": 4, "long_prefill_tokens": 2}
    ),
    "long_prefill_tokens does not clip who is alone": scenario(
        request("a", 6, 1), scheduler={"chunked_prefill": False, "token_budget": 4, "long_prefill_tokens": 2}
    ),
    "after a crash all is prefilled again, with or without a pool": scenario(
        request("a", 3, 3),
        scheduler={"policy": "orca", "token_budget": 4},
        faults=[{"kind": "crash", "at_ms": 2}],
    ),
    "a static batch that can't begin is formed for ever": scenario(
        request("a", 6, 1),
        kv={"blocks": 8, "block_tokens": 1},
        scheduler={"policy": "vllm-v0", "batching": "static", "token_budget": 4, "chunked_prefill": True},
    ),
    # Time stands still.
    "a prefill without cost comes and goes while a fault lasts": scenario(
        request("a", 3, 1, 1),
        device={"decode_ms_per_batch": 1},
        kv={"blocks": 3, "block_tokens": 1, "gate": "chunk"},
        scheduler={"token_budget": 1},
        faults=[{"kind": "pool", "at_ms": 0, "until_ms": 5, "blocks": 2}],
    ),
    "most-blocks lets two throw each other out for ever": scenario(
        request("a", 2, 3),
        request("b", 3, 3),
        kv={"blocks": 5, "block_tokens": 1, "gate": "chunk", "victim": "most-blocks"},
        scheduler={"token_budget": 2, "long_prefill_tokens": 1},
    ),
    # The budget.
    "samples take their tokens of the budget without a pool, too": scenario(
        request("a", 1, 2, samples=2), request("b", 1, 2, samples=2), scheduler={"token_budget": 2}
    ),
    # The cache.
    "a member of a static batch is found before it is scheduled": scenario(
        request("a", 4, 1, **GROUP),
        request("b", 4, 1, **GROUP),
        kv=CACHE,
        scheduler={"batching": "static", "long_prefill_tokens": 1},
    ),
    "who comes back from the host is found before it is scheduled": half_prefilled_and_back(),
    "a group of samples finds its child's outputs": scenario(
        request("p", 2, 6, samples=2),
        request("c", 6, 4, 2, parent="p", parent_tokens=4),
        kv=CACHE,
        scheduler={},
        faults=[{"kind": "pool", "at_ms": 3, "until_ms": 6, "blocks": 15}],
    ),
    "a group without tokens is no content": scenario(
        request("g", 6, 1, prefix_group="g", prefix_tokens=6),
        request("p", 2, 1, 1, prefix_group="g"),
        request("c", 6, 1, 2, parent="p", parent_tokens=2, prefix_group="g", prefix_tokens=6),
        kv=CACHE,
        scheduler={},
    ),
    # Room for a prefill, when nobody runs any more.
    "all are preempted for a fault that takes what they leave": scenario(
        request("a", 1, 5),
        request("b", 6, 1),
        kv={"blocks": 8, "block_tokens": 1, "gate": "chunk"},
        scheduler={"policy": "chunked"},
        faults=[{"kind": "pool", "at_ms": 3.5, "until_ms": 20, "blocks": 8}],
    ),
    # Static batches.
    "the only member of a static batch is clipped when it has to be": scenario(
        request("a", 6, 1),
        scheduler={"batching": "static", "token_budget": 4, "chunked_prefill": False, "long_prefill_tokens": 2},
    ),
    "who can't be admitted whole to a static batch waits": scenario(
        request("a", 4, 1),
        request("b", 1, 1),
        kv={"blocks": 6, "block_tokens": 1, "gate": "chunk"},
        scheduler={"batching": "static", "token_budget": 2},
        faults=[{"kind": "pool", "at_ms": 0, "until_ms": 50, "blocks": 3}],
    ),
    "a static batch cuts no prefill that may not be cut": scenario(
        request("a", 3, 1),
        request("b", 4, 1),
        scheduler={"batching": "static", "token_budget": 5, "chunked_prefill": False},
    ),
}


STALLED = {
    "a prefill without cost comes and goes while a fault lasts",
    "most-blocks lets two throw each other out for ever",
}
"""What no rule serves: the run ends and says so, instead of going on for ever."""


@pytest.mark.parametrize("name", [name for name in FOUND if name not in STALLED])
def test_every_invariant_holds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(axes, "MAX_SECONDS", 2)
    invariants.check(axes.run(FOUND[name]))


@pytest.mark.parametrize("name", sorted(STALLED))
def test_a_circle_is_named(name: str) -> None:
    with pytest.raises(StalledError, match="no progress"):
        axes.run(FOUND[name])


def cached(document: Document) -> list[int]:
    (run,) = axes.run(document).to_dict()["runs"]
    return [row["cachedTokens"] for row in run["requests"]]


@pytest.mark.parametrize(
    ("parent", "child", "hit"),
    [
        # the child's first 8 tokens are the parent's, its group ends before
        ({}, {"parent": "p", "parent_tokens": 8, "prefix_group": "g", "prefix_tokens": 1}, 6),
        # of both, all tokens are the group's, of which some come by way of the parent
        ({"prefix_group": "g", "prefix_tokens": 8},
         {"parent": "p", "parent_tokens": 3, "prefix_group": "g", "prefix_tokens": 8},
         6),
        # none of its tokens are the parent's
        ({"prefix_group": "g", "prefix_tokens": 8},
         {"parent": "p", "parent_tokens": 0, "prefix_group": "g", "prefix_tokens": 8}, 6),
    ],
    ids=["a group shorter than the parent", "a group by way of the parent", "a parent without tokens"],
)  # fmt: skip
def test_what_is_equal_is_found(parent: Document, child: Document, hit: int) -> None:
    """Blocks of two; the last of four is always computed."""
    requests = request("p", 8, 4, **parent), request("c", 8, 2, 1, **child)
    assert cached(scenario(*requests, kv={**CACHE, "block_tokens": 2}, scheduler={})) == [0, hit]
