"""Laws of lengths as tables, and the moments of a service that follow from them."""

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import sim
from sim.analysis.theory.alone import Alone
from sim.analysis.theory.laws import MOST_LENGTHS, Service, Table, merged, table_of
from sim.workload.distribution import Choice, Fixed, Geometric, Uniform
from sim.workload.lengths import DISTRIBUTIONS

MS = 10**6


def table(tokens: list[int], shares: list[float]) -> Table:
    return Table(np.array(tokens), np.array(shares))


def alone(device: dict[str, Any], **scheduler: Any) -> Alone:
    requests = [{"prompt_tokens": 1, "output_tokens": 1}]
    document = {"schema": 1, "name": "law", "workload": {"requests": requests}}
    return Alone.of(sim.load(document | {"device": device, "scheduler": scheduler}))


def rows(found: Table | None) -> list[Any]:
    assert found is not None
    return [(tokens, pytest.approx(share)) for tokens, share in zip(found.tokens.tolist(), found.shares, strict=True)]


def test_tables_of_laws() -> None:
    assert rows(table_of(Fixed(7))) == [(7, 1)]
    assert rows(table_of(Uniform(3, 5))) == [(3, 1 / 3), (4, 1 / 3), (5, 1 / 3)]
    assert rows(table_of(Choice((10, 1), (Decimal("0.1"), Decimal("0.9"))))) == [(1, 0.9), (10, 0.1)]
    geometric = table_of(Geometric(Decimal(10)))
    assert geometric is not None
    assert rows(geometric)[:2] == [(1, 0.1), (2, 0.09)]
    assert geometric.mean() == pytest.approx(10)
    assert geometric.mean(geometric.tokens.astype(np.float64) ** 2) == pytest.approx(190)  # 2 m² - m


def test_a_law_of_too_many_lengths_has_no_table() -> None:
    assert table_of(Uniform(1, MOST_LENGTHS + 1)) is None
    assert table_of(Geometric(Decimal(10**6))) is None


@pytest.mark.parametrize("name", ["lognormal", "gamma"])
def test_a_table_has_the_mean_of_what_is_drawn(name: str) -> None:
    law: Any = DISTRIBUTIONS[name](mean=Decimal(100), cv=Decimal("0.5"))
    found = table_of(law)
    assert found is not None
    drawn = law.tokens(200_000, np.random.default_rng(1))
    assert found.mean() == pytest.approx(drawn.mean(), rel=4 * 0.5 / 200_000**0.5)


def test_classes_together_are_a_mixture() -> None:
    both = merged([(1.0, table([1, 3], [0.5, 0.5])), (3.0, table([3, 4], [0.2, 0.8]))])
    assert rows(both) == [(1, 0.125), (3, 0.125 + 0.15), (4, 0.6)]


@pytest.mark.parametrize(
    ("device", "scheduler"),
    [
        ({"prefill_ms_per_token": 1}, {"policy": "fcfs"}),
        ({"job_ms": 2, "prefill_ms_per_token": 0.5, "decode_ms_per_request": 0.25}, {"policy": "chunked"}),
        ({"job_ms": 2, "prefill_ms_per_token": 0.5, "decode_ms_per_batch": 0.1, "context_ms_per_token": 0.3},
         {"policy": "vllm", "token_budget": 4}),
    ],
)  # fmt: skip
def test_moments_are_those_of_all_pairs(device: dict[str, Any], scheduler: dict[str, Any]) -> None:
    prompts, outputs = table([1, 5, 9], [0.2, 0.5, 0.3]), table([1, 2, 8], [0.6, 0.3, 0.1])
    server = alone(device, **scheduler)
    pairs = [
        (p_share * o_share, float(server.service_ns(np.array([p]), np.array([o]))[0]) / MS)
        for p, p_share in zip(prompts.tokens.tolist(), prompts.shares, strict=True)
        for o, o_share in zip(outputs.tokens.tolist(), outputs.shares, strict=True)
    ]
    found = Service(server, prompts, outputs).moments
    assert found.mean == pytest.approx(sum(share * s for share, s in pairs))
    assert found.second == pytest.approx(sum(share * s * s for share, s in pairs))


def test_sizes_that_are_alike_are_one_class() -> None:
    """1 ms a prompt token, 2 ms a decode. 3 tokens are 1 + 2 (1 + 2 = 3 ms) or 2 + 1 (2 ms)."""
    server = alone({"prefill_ms_per_token": 1, "decode_ms_per_request": 2}, policy="fcfs")
    service = Service(server, table([1, 2], [0.5, 0.5]), table([1, 2], [0.75, 0.25]))
    found = service.by_size(None)
    assert found is not None
    assert [(size, round(share, 9)) for size, share, _ in found] == [(2, 0.375), (3, 0.5), (4, 0.125)]
    assert found[1][2] == pytest.approx(((0.125 * 3 + 0.375 * 2) / 0.5, (0.125 * 9 + 0.375 * 4) / 0.5))
    believed = service.by_size(10)  # only the prompts tell them apart
    assert believed is not None
    assert [(size, share) for size, share, _ in believed] == [(11, 0.5), (12, 0.5)]


def test_a_service_that_is_the_same_for_all() -> None:
    server = alone({"prefill_ms_per_token": 1}, policy="fcfs")
    one = table([5], [1.0])
    assert Service(server, one, table([1], [1.0])).constant_ms == 5
    assert Service(server, one, table([1, 2], [0.5, 0.5])).constant_ms is None
