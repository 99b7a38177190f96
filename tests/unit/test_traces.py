"""Traces: rows of our own making, read exactly; and every kind of damage, each with what is said about it."""

import contextlib
import gzip
import hashlib
import time
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import ScenarioError
from sim.workload import trace_file
from sim.workload.traces import TraceRows, faster, read_trace

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
ROWS = (
    "2023-11-16 18:17:03.9799600,4808,10",
    "2023-11-16 18:17:04.0000001,3180,8",
    "2023-11-16 18:18:04,110,27",
)
ARRIVALS = [0, 20_040_100, 60_020_040_000]  # ns after 18:17:03.9799600
TEXT = "\r\n".join((HEADER, *ROWS))


def rows_of(folder: Path, data: str | bytes, **options: Any) -> TraceRows:
    path = folder / "t.csv"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_trace(path, "azure", **options)


def complaints(folder: Path, data: str | bytes, **options: Any) -> list[str]:
    """What is said about a trace, without its folder."""
    with pytest.raises(ScenarioError) as caught:
        rows_of(folder, data, **options)
    lines = [str(line).replace(f"{folder}/", "") for line in caught.value.args]
    assert all(line.isprintable() for line in lines)
    return lines


def test_rows_are_read_to_the_last_digit(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, TEXT)
    assert rows.arrival_ns.tolist() == ARRIVALS
    assert rows.prompt_tokens.tolist() == [4808, 3180, 110]
    assert rows.output_tokens.tolist() == [10, 8, 27]
    assert {column.dtype for column in (rows.arrival_ns, rows.prompt_tokens, rows.output_tokens)} == {np.dtype("int64")}
    assert (rows.rows_read, rows.unsorted) == (3, 0)
    assert rows.sha256 == hashlib.sha256(TEXT.encode()).hexdigest()


PACKED = pa.compress(TEXT.encode(), "zstd", asbytes=True)
FORMS = {
    "LF": TEXT.replace("\r", ""),
    "final newline": TEXT + "\r\n",
    "empty lines at the end": TEXT + "\n\n\n",
    "byte order mark": "\ufeff" + TEXT,
    "Z": TEXT.replace("00,4808", "00Z,4808").replace("01,3180", "01Z,3180").replace("04,110", "04Z,110"),
    "+00:00": TEXT.replace("00,4808", "00+00:00,4808").replace("01,3", "01Z,3").replace("04,1", "04+00:00,1"),
    "T": TEXT.replace(" 18", "T18"),
    "nine digits": TEXT.replace("7799600", "779960000").replace("0000001", "000000100"),
    "quotes": TEXT.replace("4808", '"4808"').replace(HEADER, HEADER.replace("TIMESTAMP", '"TIMESTAMP"')),
    "gzip": gzip.compress(TEXT.encode()),
    "gzip of two members": gzip.compress(TEXT[:50].encode()) + gzip.compress(TEXT[50:].encode()),
    "gzip with padding": gzip.compress(TEXT.encode()) + bytes(512),
    "zstd": PACKED,
    "zstd of two frames": b"".join(pa.compress(t.encode(), "zstd", asbytes=True) for t in (TEXT[:50], TEXT[50:])),
}


@pytest.mark.parametrize("data", FORMS.values(), ids=FORMS.keys())
def test_forms_of_the_same_rows(tmp_path: Path, data: str | bytes) -> None:
    rows = rows_of(tmp_path, data)
    assert rows.arrival_ns.tolist() == ARRIVALS
    assert rows.prompt_tokens.tolist() == [4808, 3180, 110]
    assert rows.sha256 == hashlib.sha256((tmp_path / "t.csv").read_bytes()).hexdigest()


@pytest.mark.parametrize("block", [4, 5, 7, 64])
@pytest.mark.parametrize("data", FORMS.values(), ids=FORMS.keys())
def test_where_blocks_end_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: str | bytes, block: int
) -> None:
    whole = rows_of(tmp_path, data)
    monkeypatch.setattr(trace_file, "BLOCK", block)
    cut = rows_of(tmp_path, data)
    assert cut.arrival_ns.tolist() == whole.arrival_ns.tolist()
    assert cut.sha256 == whole.sha256


def trace(*rows: tuple[int, int]) -> str:
    """A trace of (second, prompt tokens)."""
    return "\n".join((HEADER, *(f"2024-01-01 00:00:{second:02},{prompt},1" for second, prompt in rows)))


def test_unsorted_rows_are_sorted_and_counted_ties_stay(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, trace((5, 1), (3, 2), (5, 3), (4, 4), (3, 5)))
    assert rows.arrival_ns.tolist() == [0, 0, 10**9, 2 * 10**9, 2 * 10**9]
    assert rows.prompt_tokens.tolist() == [2, 5, 4, 1, 3]
    assert rows.unsorted == 3  # those of seconds 3, 4, 3 stand behind a 5


@pytest.mark.parametrize(
    ("skip", "limit", "prompts", "rows_read"),
    [
        (0, None, [1, 2, 3, 4], 4),
        (0, 2, [1, 2], 2),
        (1, 2, [2, 3], 3),
        (3, None, [4], 4),
        (1, 99, [2, 3, 4], 4),
    ],
)
def test_skip_and_limit(tmp_path: Path, skip: int, limit: int | None, prompts: list[int], rows_read: int) -> None:
    rows = rows_of(tmp_path, trace((1, 1), (2, 2), (4, 3), (8, 4)), skip=skip, limit=limit)
    assert rows.prompt_tokens.tolist() == prompts
    assert rows.rows_read == rows_read
    assert rows.arrival_ns[0] == 0


def test_rows_that_are_not_used_are_not_judged_but_the_file_is_read_to_its_end(tmp_path: Path) -> None:
    text = trace((1, 0), (2, 2), (3, 3), (4, 0))
    rows = rows_of(tmp_path, text, skip=1, limit=2)
    assert rows.prompt_tokens.tolist() == [2, 3]
    assert rows.sha256 == hashlib.sha256(text.encode()).hexdigest()
    cut_short = gzip.compress((text + "\n" * 10**5).encode())[:-9]
    assert "cut short" in complaints(tmp_path, cut_short, skip=1, limit=2)[0]


TIMES = st.lists(st.integers(0, 10**18), min_size=1, max_size=5).map(lambda times: sorted([0, *times]))
SPEEDUPS = st.sampled_from(["1", "2", "3", "0.7", "1.000000000000000000000000000001", "123456789.123456789", "7e8"])


@given(TIMES, SPEEDUPS)
def test_speedup_divides_exactly_and_rounds_half_up(times: list[int], speedup: str) -> None:
    quotients = [Fraction(t) / Fraction(speedup) for t in times]
    if quotients[-1] > 10**18:
        return
    expected = [int((2 * q + 1) // 2) for q in quotients]
    assert faster(np.array(times, dtype=np.int64), Decimal(speedup)).tolist() == expected


def test_a_speedup_that_leaves_the_clock(tmp_path: Path) -> None:
    assert complaints(tmp_path, trace((0, 1), (50, 1)), speedup=Decimal("1e-9")) == [
        "workload.trace.speedup = 1e-9: too small; the last arrival may be at most 1000000000000 ms"
    ]


def test_minutes_hours_days_and_leap_years(tmp_path: Path) -> None:
    stamps = ["2024-02-28 23:59:59", "2024-02-29 00:00:00", "2024-03-01 00:00:00.5", "2024-12-31 23:59:59"]
    rows = rows_of(tmp_path, "\n".join((HEADER, *(f"{stamp},1,1" for stamp in stamps))))
    assert rows.arrival_ns.tolist() == [0, 10**9, 86_401_500_000_000, (307 * 86_400) * 10**9]


# The row of the list of bad inputs, rows of a trace below a good one, and what is said about the third line.
BAD_ROWS: list[tuple[int, str, str]] = [
    (
        9,
        "2023-11-16 18:17:05,16.0,1",
        'ContextTokens = "16.0": no integer; 1 to 2147483647, in the digits 0 to 9 alone',
    ),
    (9, "2023-11-16 18:17:05,1_000,1", 'ContextTokens = "1_000": no integer; 1 to'),
    (9, "2023-11-16 18:17:05,16 ,1", 'ContextTokens = "16 ": no integer; 1 to'),
    (9, "2023-11-16 18:17:05,+16,1", 'ContextTokens = "+16": no integer; 1 to'),
    (9, "2023-11-16 18:17:05,1,\uff11\uff16", 'GeneratedTokens = "\uff11\uff16": no integer; 1 to'),
    (9, "2023-11-16 18:17:05,1,\u00b2", 'GeneratedTokens = "\u00b2": no integer; 1 to'),
    (9, "2023-11-16 18:17:05,true,1", 'ContextTokens = "true": no integer; 1 to'),
    (
        9,
        "2023-11-16 18:17:0\uff15,1,1",
        'TIMESTAMP = "2023-11-16 18:17:0\uff15": no timestamp; like 2023-11-16 18:17:03.97',
    ),
    (11, "2023-11-16 18:17:05,nan,1", 'ContextTokens = "nan": no integer; 1 to'),
    (33, "2023-11-16 18:17:05,0,1", 'ContextTokens = "0": too small; at least 1'),
    (33, "2023-11-16 18:17:05,1,-4", 'GeneratedTokens = "-4": too small; at least 1'),
    (39, "2023-11-16 18:17:05,,1", 'ContextTokens = "": empty; 1 to'),
    (39, ",1,1", 'TIMESTAMP = "": empty; like 2023-11-16'),
    (39, "nan,1,1", 'TIMESTAMP = "nan": no timestamp; like 2023-11-16'),
    (39, "-5,1,1", 'TIMESTAMP = "-5": no timestamp; like 2023-11-16'),
    (40, "1700158623,1,1", 'TIMESTAMP = "1700158623": no timestamp; like 2023-11-16'),
    (40, "0001-01-01 00:00:00,1,1", "too far from the first row; at most 1000000000000 ms"),
    (41, "2023-11-16 18:17:05Z,1,1", "with and without a time zone in one file; all or none"),
    (41, "2023-11-16 18:17:05+05:30,1,1", "a time zone other than UTC; none, Z or +00:00"),
    (41, "2023-11-16 18:17:60,1,1", "second 60: leap seconds are not supported; 00 to 59"),
    (41, "2023-11-16 18:17:05.1234567890,1,1", "finer than a nanosecond; at most 9 digits"),
    (41, "2023-02-29 18:17:05,1,1", "no such day; like 2023-11-16"),
    (41, "2023-13-01 18:17:05,1,1", "no such day; like 2023-11-16"),
    (41, "2023-11-16 24:00:00,1,1", "no timestamp; like 2023-11-16"),
    (42, "2023-11-16 18:17:05,1,1\r2023-11-16 18:17:06,1,1", "5 values; must be 3"),
    (46, '2023-11-16 18:17:05,"1,1', "not CSV: unexpected end of data; quotes must be closed in their line"),
    (46, "2023-11-16 18:17:05;1;1", "1 value; must be 3: TIMESTAMP,ContextTokens,GeneratedTokens"),
    (47, "2023-11-16 18:17:05,1", "2 values; must be 3: TIMESTAMP,ContextTokens,GeneratedTokens"),
    (47, "2023-11-16 18:17:05,1,1,1", "4 values; must be 3: TIMESTAMP,ContextTokens,GeneratedTokens"),
    (48, "2023-11-16 18:17:05,1,1\0", 'GeneratedTokens = "1\\u0000": no integer; 1 to'),
    (50, f"2023-11-16 18:17:05,{'9' * 5000},1", 'ContextTokens = "9999'),
    (52, "2023-11-16 18:17:05,2147483648,1", 'ContextTokens = "2147483648": too large; at most 2147483647'),
    (36, "\x1b[31m,1,1", 'TIMESTAMP = "\\u001B[31m": no timestamp'),
]


def by_row(cases: Sequence[tuple[Any, ...]]) -> list[str]:
    return [f"row {case[0]}, case {place}" for place, case in enumerate(cases)]


@pytest.mark.parametrize(("row", "line", "said"), BAD_ROWS, ids=by_row(BAD_ROWS))
def test_a_bad_row(tmp_path: Path, row: int, line: str, said: str) -> None:
    (complaint,) = complaints(tmp_path, f"{HEADER}\n{ROWS[0]}\n{line}\n{ROWS[2]}")
    assert complaint.startswith("t.csv (line 3): ")
    assert said in complaint


def test_all_problems_of_a_row(tmp_path: Path) -> None:
    assert complaints(tmp_path, f"{HEADER}\nx,0,y") == [
        't.csv (line 2): TIMESTAMP = "x": no timestamp; like 2023-11-16 18:17:03.9799600',
        't.csv (line 2): ContextTokens = "0": too small; at least 1',
        't.csv (line 2): GeneratedTokens = "y": no integer; 1 to 2147483647, in the digits 0 to 9 alone',
    ]


def test_twenty_problems_are_listed_and_the_others_counted(tmp_path: Path) -> None:
    lines = complaints(tmp_path, trace(*((n % 60, 0) for n in range(1000))))
    assert lines[19] == 't.csv (line 21): ContextTokens = "0": too small; at least 1'
    assert lines[20:] == ["and 980 more"]


MUST = f"must be {HEADER}"
# A whole file, and the complaint about it.
GZIP = gzip.compress(TEXT.encode())
TOO_EARLY = "t.csv: gzip data that ends too early: the file is cut short"
WHOLE: list[tuple[int, str | bytes, str]] = [
    (31, HEADER, "t.csv: no requests in it; at least one row must follow the header"),
    (2, "", f"t.csv: no header; the first line {MUST}"),
    (2, "\n\n", f"t.csv: no header; the first line {MUST}"),
    (42, TEXT.replace("\n", ""), "t.csv: lines end with CR only; must be LF or CRLF"),
    (42, TEXT.replace("\n", "") * 2000, "t.csv: lines end with CR only; must be LF or CRLF"),
    (43, TEXT.encode("utf-16"), "t.csv: not UTF-8 (looks like UTF-16 LE); must be UTF-8"),
    (43, TEXT.encode("utf-16-le"), "t.csv: not UTF-8 (looks like UTF-16 LE); must be UTF-8"),
    (43, TEXT.encode("utf-16-be"), "t.csv: not UTF-8 (looks like UTF-16 BE); must be UTF-8"),
    (43, TEXT.encode() + b"\n\xe9", f"t.csv: byte {len(TEXT) + 1} is not UTF-8; must be UTF-8"),
    (44, GZIP[:-1], TOO_EARLY),
    (44, GZIP[:2], TOO_EARLY),
    (44, GZIP + b"\x1f", TOO_EARLY),
    (44, GZIP + b"x", "t.csv: something that is not gzip follows the packed data; only gzip or nothing"),
    (44, GZIP[:40] + bytes(200), "t.csv: damaged gzip data ("),
    (44, GZIP[:-8] + bytes(8), "t.csv: damaged gzip data ("),
    (44, PACKED[:-1], "t.csv: damaged zstd data, or cut short ("),
    (44, PACKED[:4], "t.csv: damaged zstd data, or cut short ("),
    (44, PACKED + b"garbage", "t.csv: damaged zstd data, or cut short ("),
    (48, TEXT + "," + "9" * 10**5, "t.csv: a line of more than 65536 bytes; is it a trace?"),
]


@pytest.mark.parametrize(("row", "data", "complaint"), WHOLE, ids=by_row(WHOLE))
def test_a_whole_file_that_is_bad(tmp_path: Path, row: int, data: str | bytes, complaint: str) -> None:
    assert complaints(tmp_path, data)[0].startswith(complaint)


# Headers, and what is said about each (rows 46 and 47).
HEADERS = [
    (HEADER.replace(",", ";"), "1 column, separated by semicolons"),
    (HEADER.replace(",", "\t"), "1 column, separated by tabs"),
    ("TIMESTAMP", "1 column"),
    ("TIMESTAMP,1,GeneratedTokens", 'ContextTokens is missing; "1" is none of its columns'),
    ("TIMESTAMP,Context,GeneratedTokens", 'ContextTokens is missing; "Context" is none of its columns'),
    ("TIMESTAMP,TIMESTAMP,GeneratedTokens", "TIMESTAMP 2 times; ContextTokens is missing"),
    ("TIMESTAMP,ContextTokens", "GeneratedTokens is missing"),
    (HEADER + ",Id", '"Id" is none of its columns'),
    (HEADER + ",", '"" is none of its columns'),
    (HEADER + " ", 'GeneratedTokens is missing; "GeneratedTokens " is none of its columns'),
    ("GeneratedTokens,ContextTokens,TIMESTAMP", "wrong order"),
    (f'"{HEADER}', "1 column"),
]  # fmt: skip


@pytest.mark.parametrize(("header", "said"), HEADERS)
def test_a_bad_header(tmp_path: Path, header: str, said: str) -> None:
    (complaint,) = complaints(tmp_path, TEXT.replace(HEADER, header))
    assert complaint.startswith("t.csv (line 1): header = ")
    assert complaint.endswith(f": {said}; must be {HEADER}")


def test_a_bomb_is_not_unpacked_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_file, "MAX_BYTES", 3 * 2**20)
    bomb = gzip.compress((HEADER + "\n" * (8 * 2**20)).encode())
    assert complaints(tmp_path, bomb) == ["t.csv: more than 3145728 bytes (unpacked); take a part of it"]


def test_skipping_all_rows(tmp_path: Path) -> None:
    assert complaints(tmp_path, TEXT, skip=3) == [
        "t.csv: no row is left: workload.trace.skip = 3 of 3 rows; skip fewer"
    ]


def test_a_trace_that_is_missing_says_what_it_is_and_how_to_give_it(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        read_trace(tmp_path / "no.csv", "azure")
    (line,) = caught.value.args
    assert line.startswith(
        f"{tmp_path}/no.csv: can't be read: no such file or directory; must be a CSV file of the Azure"
    )
    assert line.endswith("give its path with --set workload.trace.path=FILE")


def test_a_trace_that_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="is a directory; must be a regular file"):
        read_trace(tmp_path, "azure")
    with pytest.raises(ScenarioError, match="/dev/zero: is a device; must be a regular file"):
        read_trace(Path("/dev/zero"), "azure")


def test_an_unknown_format() -> None:
    with pytest.raises(
        ScenarioError, match=r'^workload.trace.format = "azur": unknown; one of azure, .*; did you mean .azure'
    ):
        read_trace(Path("x"), "azur")


@given(st.text(alphabet='0123456789-: .,"TZ+\r\n\0a', max_size=60))
def test_no_text_makes_it_fail_otherwise(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    with contextlib.suppress(ScenarioError):
        rows_of(tmp_path_factory.getbasetemp(), f"{HEADER}\n{ROWS[0]}\n{text}")


class Known(NamedTuple):
    """What the description of a real trace says of it. Percentiles are the 50th and the 99th."""

    name: str
    rows: int
    last_ns: int
    prompt_mean: int
    prompt_percentiles: list[int]
    output_mean: int
    output_percentiles: list[int]


@pytest.mark.parametrize(
    "known",
    [
        Known("code", 8_819, 3_435_948_056_000, 2048, [1469, 7436], 28, [13, 251]),
        Known("conv", 19_366, 3_501_721_937_000, 1155, [1020, 4142], 211, [129, 601]),
    ],
    ids=lambda known: known.name,
)
def test_the_real_traces(headway_data: Path, known: Known) -> None:
    rows = read_trace(headway_data / "traces" / f"AzureLLMInferenceTrace_{known.name}.csv", "azure")
    assert (len(rows.arrival_ns), rows.rows_read, rows.unsorted) == (known.rows, known.rows, 0)
    assert int(rows.arrival_ns[-1]) == known.last_ns
    assert [round(rows.prompt_tokens.mean()), round(rows.output_tokens.mean())] == [
        known.prompt_mean,
        known.output_mean,
    ]
    assert np.percentile(rows.prompt_tokens, [50, 99]).round().tolist() == known.prompt_percentiles
    assert np.percentile(rows.output_tokens, [50, 99]).round().tolist() == known.output_percentiles


@pytest.mark.slow
def test_a_row_costs_some_microseconds(tmp_path: Path) -> None:
    stamps = (f"2023-11-16 {n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}.9799600" for n in range(19_366))
    text = "\n".join((HEADER, *(f"{stamp},4808,10" for stamp in stamps)))
    started = time.process_time()
    rows_of(tmp_path, text)
    assert time.process_time() - started < 0.5
