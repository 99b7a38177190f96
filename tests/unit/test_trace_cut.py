"""A trace that is cut short anywhere: its last row is named, or what is there is read; a packed one is never read."""

import gzip
import random
from pathlib import Path

import pytest
from trace_samples import SAMPLES

from sim.errors import ScenarioError
from sim.workload.trace_formats import FORMATS
from sim.workload.traces import Form, TraceRows, read_trace

ROWS = 40
CUTS = 200


def long(sample: str) -> tuple[str, bytes]:
    """Many rows of a sample: its second one again and again. A list of conversations stays one list."""
    format_, text = SAMPLES[sample]
    if format_ == "sharegpt":
        return format_, b"[" + b",\n".join([text[1:-1].encode()] * 10) + b"]"
    *head, last = [line for line in text.split("\n") if line]
    lines = [*head, *(last.replace('"chat_id": 160', f'"chat_id": {160 + n}') for n in range(ROWS - 1))]
    return format_, "\r\n".join(lines).encode()


def read(path: Path, format_: str, data: bytes) -> TraceRows | list[str]:
    path.write_bytes(data)
    try:
        return read_trace(path, form=Form(format_))
    except ScenarioError as error:
        return [str(line).replace(str(path), "t") for line in error.args]


@pytest.mark.parametrize("sample", [name for name, (format_, _) in SAMPLES.items() if format_ != "sharegpt"])
def test_the_row_that_is_broken_is_named_with_its_column(tmp_path: Path, sample: str) -> None:
    format_, whole = long(sample)
    has_header = format_ in ("azure", "burstgpt", "vidur", "csv")
    rows = read(tmp_path / "t", format_, whole)
    assert isinstance(rows, TraceRows)
    columns = [rows.prompt_tokens.tolist(), rows.output_tokens.tolist()]
    assert len(columns[0]) == ROWS
    random_cuts = random.Random(5).sample(range(len(whole)), CUTS)
    refused = 0
    for cut in random_cuts:
        part = whole[:cut]
        finished = part.count(b"\n")  # lines with their ends
        found = read(tmp_path / "t", format_, part)
        if isinstance(found, TraceRows):
            count = len(found.arrival_ns)
            assert count in (finished - has_header, finished + 1 - has_header)
            assert found.prompt_tokens[: count - 1].tolist() == columns[0][: count - 1]
            assert found.output_tokens[: count - 1].tolist() == columns[1][: count - 1]
        elif finished < has_header or not part:
            assert len(found) == 1
        elif finished == has_header and not part.endswith((b"}", b"0", b"8")) and "line" not in found[0]:
            assert found == ["t: no requests in it; at least one row must follow the header"]
        else:
            refused += 1
            assert all(line.startswith(f"t (line {finished + 1}): ") for line in found)
            named = [*FORMATS[format_].columns.values(), "tenant", "column "]
            assert any(name in line for line in found for name in named)
    assert refused > CUTS / 4


@pytest.mark.parametrize("sample", [name for name, (format_, _) in SAMPLES.items() if format_ == "sharegpt"])
def test_a_list_of_conversations_that_is_cut_is_refused(tmp_path: Path, sample: str) -> None:
    format_, whole = long(sample)
    assert isinstance(read(tmp_path / "t", format_, whole), TraceRows)
    for cut in random.Random(5).sample(range(len(whole)), CUTS):
        found = read(tmp_path / "t", format_, whole[:cut])
        assert isinstance(found, list)
        assert "line " in found[0] or cut < 2


@pytest.mark.parametrize("format_", ["auto", None], ids=["by content", "by name"])
@pytest.mark.parametrize("sample", SAMPLES)
def test_a_packed_trace_that_is_cut_is_refused(tmp_path: Path, sample: str, format_: str | None) -> None:
    name, whole = long(sample)
    packed = gzip.compress(whole, mtime=0)
    for cut in {*random.Random(7).sample(range(len(packed)), min(CUTS, len(packed))), len(packed) - 1}:
        found = read(tmp_path / "t", format_ or name, packed[:cut])
        assert isinstance(found, list)
        assert cut < 2 or "gzip data that ends too early: the file is cut short" in found[0]
    assert isinstance(read(tmp_path / "t", name, packed + packed[:0]), TraceRows)
    assert "something that is not gzip follows" in read(tmp_path / "t", name, packed + b"x")[0]  # type: ignore[index]
