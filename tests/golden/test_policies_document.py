"""The tables of docs/policies.md are those of the program."""

from pathlib import Path

import pytest
from documents import read, tables

from sim.policies.presets import COMPOSITIONS, PRESETS, USES, Axes, KvAxes, Preset
from sim.policies.victims import VICTIMS
from sim.tables import Fault

DOCUMENT = Path(__file__).parents[2] / "docs" / "policies.md"


def table(first: str) -> list[list[str]]:
    """The rows of the table whose heading begins with ``first``."""
    (found,) = (rows[1:] for rows in tables(read(DOCUMENT)) if rows[0][0] == first)
    return found


def row(name: str, preset: Preset) -> list[str]:
    axes = preset.axes
    budget = axes.token_budget if axes.has_budget else None
    chunked = str(axes.chunked_prefill).lower()
    return [
        f"`{name}`",
        axes.batching,
        axes.composition,
        only_if_read(axes, "prefills_per_job", str(axes.prefills_per_job)),
        only_if_read(axes, "chunk_tokens", str(axes.chunk_tokens)),
        "-" if budget is None else str(budget),
        "-" if axes.max_running is None else str(axes.max_running),
        only_if_read(axes, "chunked_prefill", chunked),
        preset.allocation,
        preset.gate,
        f"{preset.watermark_percent} %",
    ]


def only_if_read(axes: Axes, key: str, value: str) -> str:
    return value if key in USES[axes.composition] else "-"


def test_presets() -> None:
    assert table("preset") == [row(name, preset) for name, preset in PRESETS.items()]


def test_what_all_presets_have_in_common() -> None:
    assert {(p.axes.order, p.axes.long_prefill_tokens, p.axes.max_model_tokens) for p in PRESETS.values()} == {
        ("fcfs", 0, 0)
    }
    kv = KvAxes(blocks=1, block_tokens=1)
    assert (kv.preemption, kv.victim, kv.prefix_cache, kv.swap_blocks) == ("recompute", "auto", False, 0)


def test_victims() -> None:
    assert [cells[0].strip("`") for cells in table("`kv.victim`")] == ["auto", *VICTIMS]


def test_faults() -> None:
    kinds = Fault.model_fields["kind"].annotation
    assert [cells[0].strip("`") for cells in table("`kind`")] == list(getattr(kinds, "__args__", ()))


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_every_composition_is_explained(composition: str) -> None:
    (cell,) = (cells[2] for cells in table("axis") if cells[0] == "composition")
    assert f"`{composition}`: " in cell


def test_every_preset_is_set_beside_what_it_is_named_after() -> None:
    text = read(DOCUMENT).split("## Presets and the systems")[1].split("## Gates")[0]
    assert [name for name in PRESETS if f"`{name}`" not in text] == []
