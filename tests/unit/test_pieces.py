"""What prompts are made of: equal tokens have equal keys, whatever the sizes of blocks in the trace and the pool."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from sim.analysis.verify import verify
from sim.engine.contents import Contents
from sim.engine.sources import sources_of
from sim.record import write
from sim.record.again import hashed
from sim.request import NEVER, Pieces, Workload

Token = tuple[object, int]


def made(requests: Sequence[dict[str, Any]]) -> Workload:
    """Requests with ``prompt``, and perhaps ``pieces``, ``group`` (name, tokens), ``parent`` (index, tokens)."""

    def column(values: Sequence[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array(values, dtype=np.int64)

    pieces = [request.get("pieces", []) for request in requests]
    flat = np.array([pair for several in pieces for pair in several], dtype=np.int64).reshape(-1, 2)
    base = Workload.of(
        column([0] * len(requests)), column([r["prompt"] for r in requests]), column([9] * len(requests))
    )
    return replace(
        base,
        prefix_groups=[request.get("group", ("", 0))[0] for request in requests],
        prefix_tokens=column([request.get("group", ("", 0))[1] for request in requests]),
        parent=column([request.get("parent", (NEVER, 0))[0] for request in requests]),
        parent_tokens=column([request.get("parent", (NEVER, 0))[1] for request in requests]),
        pieces=Pieces.of(column([len(several) for several in pieces]), flat[:, 0], flat[:, 1]),
    )


def tokens(requests: Sequence[dict[str, Any]], index: int, count: int) -> list[Token]:
    """The first tokens of a request, one by one: its parent's, then its group's, then of its pieces, then its own."""
    request = requests[index]
    parent, of_parent = request.get("parent", (NEVER, 0))
    found = [] if parent == NEVER else tokens(requests, parent, of_parent)
    group, of_group = request.get("group", ("", 0))
    found += [(group, place) for place in range(len(found), of_group)] if group else []
    made_of: list[Token] = [(id_, place) for id_, size in request.get("pieces", []) for place in range(size)]
    found += made_of[: request["prompt"]][len(found) :]
    found += [(("own", index), place) for place in range(len(found), count)]
    return found[:count]


def equal_as_their_tokens(requests: Sequence[dict[str, Any]], block: int, blocks: int) -> None:
    """Any two blocks have the same key if and only if all tokens up to their ends are the same, in both statements."""
    workload = made(requests)
    engine, again = Contents(block, sources_of(workload)), hashed.Contents(block, workload)
    ends: dict[tuple[Token, ...], tuple[int, int]] = {}
    keys: dict[str, dict[int, tuple[Token, ...]]] = {"engine": {}, "again": {}}
    for index in range(len(requests)):
        all_tokens = tokens(requests, index, block * blocks)
        of_engine = engine.keys(index, blocks)
        for number in range(blocks):
            content = tuple(all_tokens[: (number + 1) * block])
            pair = (of_engine[number], again.key(index, number))
            assert ends.setdefault(content, pair) == pair
            for name, key in zip(keys, pair, strict=True):
                assert keys[name].setdefault(key, content) == content


@pytest.mark.parametrize("block", [16, 7, 512])
@pytest.mark.parametrize("of_trace", [512, 16, 5])
def test_sizes_of_blocks(of_trace: int, block: int) -> None:
    """A chain that forks after two ids, one that ends early in the first, and a stranger."""

    def request(prompt: int, *ids: int) -> dict[str, Any]:
        sizes = [min(of_trace, prompt - of_trace * place) for place in range(len(ids))]
        return {"prompt": prompt, "pieces": list(zip(ids, sizes, strict=True))}

    size = of_trace
    requests = [request(3 * size, 1, 2, 3), request(3 * size - 1, 1, 2, 4), request(size // 2 + 1, 1), request(size, 5)]
    equal_as_their_tokens(requests, block, -(-3 * size // block) + 1)


SIZES = st.integers(1, 6)
PIECES = st.lists(st.tuples(st.integers(1, 3), SIZES), max_size=4)


@st.composite
def several(draw: st.DrawFn) -> list[dict[str, Any]]:
    requests: list[dict[str, Any]] = []
    for index in range(draw(st.integers(1, 6))):
        request: dict[str, Any] = {"prompt": draw(st.integers(1, 14)), "pieces": draw(PIECES)}
        if draw(st.integers(0, 3)) == 0:
            request["group"] = (draw(st.sampled_from("gh")), draw(st.integers(0, request["prompt"])))
        if index and draw(st.integers(0, 2)) == 0:
            parent = draw(st.integers(0, index - 1))
            most = min(request["prompt"], requests[parent]["prompt"] + 9)
            request["parent"] = (parent, draw(st.integers(0, most)))
        requests.append(request)
    return requests


@given(several(), st.integers(1, 5))
def test_equal_keys_mean_equal_tokens(requests: list[dict[str, Any]], block: int) -> None:
    equal_as_their_tokens(requests, block, -(-24 // block))


def test_who_shares_nothing_is_known() -> None:
    """Ids that only one request has make nothing to share; what several have does, up to the last of them."""
    workload = made(
        [
            {"prompt": 9, "pieces": [(1, 3), (2, 3)]},
            {"prompt": 9, "pieces": [(1, 3)]},
            {"prompt": 9, "pieces": [(4, 3)]},
        ]
    )
    sources = sources_of(workload)
    assert [sources.is_shared(index) for index in range(3)] == [True, True, False]
    assert [[upto for upto, _ in sources.stretches(index)] for index in range(3)] == [[3], [3], []]


@pytest.mark.parametrize(("block", "cached"), [(16, 512), (7, 511), (512, 512)])
def test_a_prompt_finds_what_an_earlier_one_left(tmp_path: Path, block: int, cached: int) -> None:
    """512 common tokens: 32 blocks of 16, 73 of 7, one of 512. The third is the first again, but for its last token."""
    rows = [(0, 600, "[7, 8]"), (10_000, 1030, "[7, 9, 10]"), (20_000, 600, "[7, 8]")]
    lines = (f'{{"timestamp": {t}, "input_length": {p}, "output_length": 2, "hash_ids": {ids}}}' for t, p, ids in rows)
    (tmp_path / "t").write_text("\n".join(lines))
    scenario = sim.load(
        {
            "schema": 1,
            "name": "t",
            "workload": {"trace": {"path": str(tmp_path / "t"), "format": "mooncake"}},
            "kv": {"blocks": 4096 // block + 400, "block_tokens": block, "prefix_cache": True},
        }
    )
    result = sim.simulate(scenario)
    assert result.requests["cached_tokens"].tolist() == [0, cached, 599 // block * block]
    for place in (tmp_path / "out", tmp_path / "out.json"):
        write.save_all([result], place)
        assert verify(place).findings == []
        again = sim.open_results(place)[0].record.workload
        assert again.sha256() == result.record.workload.sha256()
