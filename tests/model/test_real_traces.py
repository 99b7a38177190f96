"""The three real traces whole, against the figures that their description gives; read, cut, and written in other forms.

They are not in the repository: HEADWAY_DATA names the folder that holds traces/.
"""

import gzip
import random
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from sim.errors import ScenarioError
from sim.workload.trace_stats import stats
from sim.workload.trace_write import write
from sim.workload.traced import workload_of
from sim.workload.traces import Form, TraceRows, read_trace


class Known(NamedTuple):
    """Rows, span in whole seconds, rate, CV of the gaps; mean, p50 and p99 of prompts and of outputs."""

    file: str
    format: str
    rows: int
    span_s: int
    rate: float
    cv: float
    prompt: tuple[int, int, int]
    output: tuple[float, int, int]


KNOWN = [
    Known("AzureLLMInferenceTrace_code.csv", "azure", 8819, 3436, 2.57, 13.2, (2048, 1469, 7436), (27.9, 13, 251)),
    Known("AzureLLMInferenceTrace_conv.csv", "azure", 19366, 3502, 5.53, 1.09, (1155, 1020, 4142), (211, 129, 601)),
    Known("mooncake_conversation.jsonl", "mooncake", 12031, 3537, 3.40, 3.03, (12035, 6909, 85400), (343, 350, 1119)),
]
EACH = pytest.mark.parametrize("known", KNOWN, ids=[known.file.partition(".")[0] for known in KNOWN])


def rows_of(folder: Path, known: Known) -> TraceRows:
    return read_trace(folder / "traces" / known.file, form=Form("auto"))


@EACH
def test_the_figures_of_their_description(headway_data: Path, known: Known) -> None:
    rows = rows_of(headway_data, known)
    found = stats(workload_of(rows))
    assert (rows.format, found.arrivals.n, rows.unsorted) == (known.format, known.rows, 0)
    assert round(found.arrivals.span_ns / 1e9) == known.span_s
    assert found.arrivals.rate_per_s == pytest.approx(known.rate, abs=0.005)
    assert found.arrivals.gap_cv == pytest.approx(known.cv, abs=0.05 if known.cv > 10 else 0.005)
    assert found.prompt is not None
    assert found.output is not None
    assert (round(found.prompt.mean), round(found.prompt.p50), round(found.prompt.p99)) == known.prompt
    mean, p50, p99 = known.output
    assert found.output.mean == pytest.approx(mean, abs=0.5 if mean > 100 else 0.05)
    assert (round(found.output.p50), round(found.output.p99)) == (p50, p99)


def test_slow_drift_shows_in_the_ratio_at_a_minute_and_not_in_the_cv(headway_data: Path) -> None:
    found = stats(workload_of(rows_of(headway_data, KNOWN[1])))
    assert round(found.arrivals.dispersion[60] or 0) == 16


def test_ticks_and_blocks_of_mooncake(headway_data: Path) -> None:
    """1,180 distinct times; as many ids as blocks of 512 tokens in every prompt."""
    rows = rows_of(headway_data, KNOWN[2])
    assert len(np.unique(rows.arrival_ns)) == 1180
    assert rows.pieces is not None
    assert rows.pieces.counts.tolist() == (-(-rows.prompt_tokens // 512)).tolist()
    assert int(rows.pieces.tokens.sum()) == int(rows.prompt_tokens.sum())


@EACH
@pytest.mark.parametrize("target", ["azure", "burstgpt", "vidur", "csv", "jsonl", "parquet", "headway", "mooncake"])
def test_written_in_another_format(headway_data: Path, tmp_path: Path, known: Known, target: str) -> None:
    workload = workload_of(rows_of(headway_data, known))
    written = write(workload, target)
    (tmp_path / "t").write_bytes(b"".join(written.chunks))
    again = workload_of(read_trace(tmp_path / "t", form=Form(target)))
    whole = target in ("headway", "mooncake") or workload.pieces is None
    assert written.lost == ([] if whole else ["what prompts share is not in the file: it has no hash_ids"])
    assert again.arrival_ns.tolist() == workload.arrival_ns.tolist()
    assert again.prompt_tokens.tolist() == workload.prompt_tokens.tolist()
    assert again.output_tokens.tolist() == workload.output_tokens.tolist()
    assert (again.sha256() == workload.sha256()) is whole


def test_mooncake_in_blocks_of_sixteen(headway_data: Path, tmp_path: Path) -> None:
    """32 ids for each of 512 tokens: what an infinite cache would serve stays the same."""
    workload = workload_of(read_trace(headway_data / "traces" / KNOWN[2].file, form=Form("mooncake"), limit=500))
    written = write(workload, "timed_trace")
    assert written.lost == []
    (tmp_path / "t").write_bytes(b"".join(written.chunks))
    again = workload_of(read_trace(tmp_path / "t", form=Form("timed_trace")))
    before, after = stats(workload).sharing, stats(again).sharing
    assert before is not None
    assert after is not None
    assert after.served_tokens == before.served_tokens > 0


def refusal(path: Path, data: bytes) -> Any:
    path.write_bytes(data)
    try:
        return read_trace(path, form=Form("auto"))
    except ScenarioError as error:
        return str(error.args[0])


@EACH
def test_cut_anywhere(headway_data: Path, tmp_path: Path, known: Known) -> None:
    whole = (headway_data / "traces" / known.file).read_bytes()
    header = known.format == "azure"
    for cut in random.Random(3).sample(range(200, len(whole)), 25):
        found = refusal(tmp_path / "t", whole[:cut])
        finished = whole.count(b"\n", 0, cut)
        if isinstance(found, str):
            assert f"(line {finished + 1}): " in found
            assert any(name in found for name in ("column ", "TIMESTAMP", "ContextTokens", "GeneratedTokens"))
        else:
            assert len(found.arrival_ns) in (finished - header, finished + 1 - header)


@EACH
def test_packed_and_cut(headway_data: Path, tmp_path: Path, known: Known) -> None:
    packed = gzip.compress((headway_data / "traces" / known.file).read_bytes(), 1)
    assert len(refusal(tmp_path / "t", packed).arrival_ns) == known.rows
    for cut in random.Random(3).sample(range(20, len(packed)), 10):
        assert "gzip data that ends too early" in refusal(tmp_path / "t", packed[:cut])
