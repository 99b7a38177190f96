"""What each tenant got: a line for each, where there are several."""
# ruff: noqa: RUF001  # the punctuation of Chinese

from typing import Any

import pytest
from rich.console import Console

import sim
from sim.report.table import render


def shown(requests: list[dict[str, Any]], lang: str = "en") -> str:
    """One slot, and every job takes 1 ms: a request takes as many ms as it emits tokens."""
    document = {
        "schema": 1, "name": "tenants", "workload": {"requests": requests}, "device": {"job_ms": 1},
        "scheduler": {"policy": "vllm", "max_running": 1}, "run": {"horizon_ms": 12},
    }  # fmt: skip
    console = Console(width=200)
    with console.capture() as captured:
        render([sim.simulate(sim.load(document))], lang=lang, console=console)
    return captured.get()


def of(tenant: str, *outputs: int) -> list[dict[str, Any]]:
    return [{"prompt_tokens": 1, "output_tokens": output, "tenant": tenant} for output in outputs]


def test_a_line_for_each_in_the_order_of_the_file() -> None:
    """a: first tokens at 1 and 4 ms, last at 3 and 8. b: 9 and 9, and one that the horizon cuts off.

    The median of two lies between them; of 1 and 4 it is 2.5, the 99th percentile 1 + 0.99 * 3.
    """
    lines = shown([*of("a", 3, 5), *of("b", 1, 9)]).splitlines()
    assert [line.strip() for line in lines if "finished; first token" in line] == [
        "tenants  a: 2 finished; first token p50 2.50, p99 3.97 ms; last token p50 5.50, p99 7.95 ms",
        "b: 1 of 2 finished; first token p50 9.00, p99 9.00 ms; last token p50 9.00, p99 9.00 ms",
    ]


def test_one_without_a_name_and_one_of_whom_nothing_finished() -> None:
    text = shown([*of("", 3), *of("b", 20)])
    assert "  -: 1 finished; first token p50 1.00" in text
    assert "b: 0 of 1 finished" in text


@pytest.mark.parametrize("requests", [of("a", 1, 2), [request for name in range(13) for request in of(str(name), 1)]])
def test_of_one_or_of_too_many_nothing_is_said(requests: list[dict[str, Any]]) -> None:
    assert "tenants  " not in shown(requests)


def test_in_chinese() -> None:
    text = shown([*of("a", 3), *of("b", 1, 9)], lang="zh")
    assert "租户  a：1 条完成；首 token p50 1.00、p99 1.00 ms" in text
    assert "b：2 条中 1 条完成" in text
