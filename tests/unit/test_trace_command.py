"""``headway trace``: figures by hand, warnings, the drawing, and other formats of a trace."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from trace_samples import AZURE, MOONCAKE, SAMPLES

from sim import cli
from sim.report.trace import histogram, level, per_bin
from sim.request import Workload
from sim.workload.trace_stats import ranks, stats
from sim.workload.traces import Form, read_trace


class Answer(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture
def trace(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Command]:
    """The command in an empty folder, in English."""
    monkeypatch.chdir(tmp_path)
    for name in ("LC_ALL", "LC_MESSAGES", "LANG", "LANGUAGE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    before = signal.getsignal(signal.SIGTERM)

    def call(*arguments: str) -> Answer:
        with pytest.raises(SystemExit) as ended:
            cli.main(["trace", *arguments])
        printed = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Answer(ended.value.code, printed.out, printed.err)

    yield call
    signal.signal(signal.SIGTERM, before)


def answer(trace: Command, *arguments: str) -> dict[str, Any]:
    found = trace(*arguments, "--json")
    assert found.code == 0, found.err
    document: dict[str, Any] = json.loads(found.out)
    return document


BY_HAND = """arrival_ms,prompt_tokens,output_tokens
0,1,8
1000,2,4
1000,4,2
4000,8,1
"""


def test_figures_by_hand(trace: Command) -> None:
    """Gaps 1, 0, 3 s: mean 4/3, variance 10/3 - 16/9 = 14/9, CV = sqrt(14)/4. Windows of 1 s: 1, 2, 0, 0 (the last
    arrival is at the end of the span): mean 3/4, variance 5/4 - 9/16 = 11/16, ratio 11/12. Below two windows: none.
    Prompts 1, 2, 4, 8: p50 3, p90 8 - 0.3 * 4 = 6.8. Ranks are opposite; each product is 8, the squares sum to 85."""
    Path("t").write_text(BY_HAND)
    found = answer(trace, "t")
    assert (found["rows"], found["spanMs"], found["ratePerS"]) == (4, 4000.0, 0.75)
    assert found["cv"] == pytest.approx(14**0.5 / 4)
    assert found["varianceToMean"] == {"1": pytest.approx(11 / 12), "10": None, "60": None}
    assert (found["distinctTimes"], found["tied"], found["mostAtOnce"]) == (3, 2, 2)
    assert found["tickNs"] == 10**9
    assert found["promptTokens"] == pytest.approx({"mean": 3.75, "p50": 3, "p90": 6.8, "p99": 7.88, "min": 1, "max": 8})
    assert found["rankCorrelation"] == pytest.approx(-1)
    assert found["correlation"] == pytest.approx((32 / 4 - 3.75**2) / (85 / 4 - 3.75**2))
    assert found["sharing"] is None


def test_equal_ranks_share_their_mean() -> None:
    assert ranks(np.array([5, 1, 5, 9])).tolist() == [2.5, 1, 2.5, 4]


def test_windows_without_arrivals_count() -> None:
    """3 at once, then nothing for 9 s, one at 10 s: counts 3, 0, ... over ten windows: 0.9 - 0.09 over 0.3."""
    found = stats(Workload.of(np.array([0, 0, 0, 10]) * 10**9, np.full(4, 3), np.full(4, 3)))
    assert found.arrivals.dispersion[1] == pytest.approx((0.9 - 0.09) / 0.3)


def test_one_request_and_none() -> None:
    one = stats(Workload.of(np.array([5]), np.array([3]), np.array([4])))
    assert (one.arrivals.n, one.arrivals.span_ns, one.arrivals.rate_per_s, one.arrivals.gap_cv) == (1, 0, None, None)
    assert one.rank_correlation is None
    none = stats(Workload.empty())
    assert (none.arrivals.n, none.prompt, none.most_at_once) == (0, None, 0)


def test_sharing_by_hand(trace: Command) -> None:
    """The second prompt begins with the 512 tokens of id 7 that the first brought: of 1,630 tokens."""
    Path("t").write_text(MOONCAKE)
    found = answer(trace, "t")
    assert found["sharing"] == {
        "ids": 4,
        "pieces": 5,
        "coveredTokens": 1630,
        "servedTokens": 512,
        "servedShare": 512 / 1630,
    }


def warned(trace: Command, text: str, *arguments: str) -> list[str]:
    Path("t").write_text(text)
    return [warning["what"] for warning in answer(trace, "t", *arguments)["warnings"]]


def rows(times: list[str], unit: str = "s", prompt: int = 5) -> str:
    return f"arrival_{unit},prompt_tokens,output_tokens\n" + "".join(f"{time},{prompt},1\n" for time in times)


def test_what_a_reader_might_get_wrong(trace: Command) -> None:
    assert warned(trace, rows(["0", "1", "2"])) == []
    assert warned(trace, rows(["0", "1000", "2000"])) == ["slow"]  # ms that are read as s
    assert warned(trace, rows(["0", "0.25", "0.5"], "ms")) == ["fast"]  # s that are read as ms
    assert warned(trace, rows(["0", "0", "3", "3"])) == ["ticks"]
    assert warned(trace, rows(["1", "0", "2"])) == ["unsorted"]
    assert warned(trace, rows(["0", "1"]) + "2,0,5\n") == ["zero"]


def test_ids_that_stand_for_little_of_the_prompts(trace: Command) -> None:
    """Mooncake's ids read with blocks of 16 tokens: (2 + 3) * 16 of 1,630."""
    found = warned(trace, MOONCAKE, "--format", "timed_trace", "--unit", "ms")
    assert found == ["covered"]


def test_it_is_drawn(trace: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    Path("t").write_text(BY_HAND)
    found = trace("t")
    assert found.code == 0
    lines = found.out.splitlines()
    assert lines[0] == "t: 4 requests, format csv" or lines[0].endswith("/t: 4 requests, format csv")
    drawn = next(line for line in lines if "|" in line)
    assert len(drawn.strip()) == 2 + 14  # 30 cells less 16 for the labels, between two bars
    assert sum(sign != " " for sign in drawn.strip(" |")) == 3  # three instants


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_in_signs_of_ascii(trace: Command, encoding: str) -> None:
    from sim import load
    from sim.analysis.traced import report
    from sim.report.trace import lines

    Path("t").write_text(BY_HAND)
    found = report(load({"schema": 1, "name": "t", "workload": {"trace": {"path": "t"}}}))
    for lang in ("en", "zh"):
        "\n".join(lines(found, lang=lang, encoding=encoding)).encode("ascii")


def test_chinese(trace: Command) -> None:
    Path("t").write_text(BY_HAND)
    assert "4 个请求" in trace("t", "--lang", "zh").out


def test_bars() -> None:
    assert [level(count, 10, " abc") for count in (0, 1, 4, 5, 9, 10)] == [" ", "a", "a", "b", "b", "c"]
    assert per_bin(np.array([0, 1, 5, 10]), 10, 2)[0].tolist() == [2, 2]
    assert list(histogram(np.array([1, 3, 8, 9]), 4, "#")) == [
        "                  1        1 ##",
        "                2-3        1 ##",
        "                4-7        0",
        "               8-15        2 ####",
    ]


TARGETS = ["azure", "burstgpt", "vidur", "mooncake", "timed_trace", "csv", "jsonl", "parquet", "headway"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sample", [name for name in SAMPLES if name != "sharegpt"])
def test_there_and_back(trace: Command, sample: str, target: str) -> None:
    format_, text = SAMPLES[sample]
    Path("t").write_text(text)
    assert trace("t", "--to", target, "--output", "o").code == 0
    before, after = (read_trace(Path(name), form=Form(f)) for name, f in (("t", format_), ("o", target)))
    for name in ("arrival_ns", "prompt_tokens", "output_tokens"):
        assert getattr(after, name).tolist() == getattr(before, name).tolist()


def test_what_the_target_can_not_hold_is_told(trace: Command) -> None:
    Path("t").write_text("id,arrival_ms,prompt_tokens,output_tokens\na,0,5,1\nb,0.000050,5,1")
    assert trace("t", "--to", "azure", "--output", "o").err == (
        "note: --to azure: 1 times are rounded to 100 ns\nnote: --to azure: not in the file: id\nwritten: o\n"
    )
    Path("m").write_text(MOONCAKE)
    lost = answer(trace, "m", "--to", "vidur", "--output", "v")["written"]["lost"]
    assert lost == ["what prompts share is not in the file: it has no hash_ids"]
    assert answer(trace, "m", "--to", "timed_trace", "--output", "x")["written"]["lost"] == []


def test_nothing_is_overwritten(trace: Command) -> None:
    Path("t").write_text(AZURE)
    Path("o").write_text("mine")
    assert trace("t", "--to", "csv", "--output", "o").code == 4
    assert trace("t", "--to", "csv", "--output", "t").code == 4
    assert (Path("t").read_text(), Path("o").read_text()) == (AZURE, "mine")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("t", "--limit", "0"), "--limit 0: too small; at least 1"),
        (("t", "--thin", "1.5"), "--thin 1.5: too large; at most 1"),
        (("t", "--format", "azur"), '--format "azur": unknown; one of azure, '),
        (("t", "--to", "xml", "--output", "o"), '--to "xml": unknown; one of azure, '),
        (("t", "--to", "csv"), "--to and --output: only together"),
        (("t", "--skip", "9"), "no row is left: workload.trace.skip = 9 of 2 rows; skip fewer"),
        (("no",), "can't be read: no such file or directory"),
        (("t", "--set", "workload.trace.column.id=x"), "unknown key"),
    ],
)
def test_what_is_refused(trace: Command, arguments: tuple[str, ...], said: str) -> None:
    Path("t").write_text(AZURE)
    found = trace(*arguments)
    assert (found.code, found.out) == (2, "")
    assert said in found.err
    assert not Path("o").exists()


def test_an_empty_trace(trace: Command) -> None:
    Path("t").write_text(AZURE.split("\n", maxsplit=1)[0])
    assert trace("t").code == 2
    found = answer(trace, "t", "--allow-empty")
    assert (found["rows"], found["promptTokens"], found["ratePerS"]) == (0, None, None)
    assert trace("t", "--allow-empty").code == 0


def test_options_choose_rows(trace: Command) -> None:
    Path("t").write_text(rows([str(n) for n in range(100)]))
    assert answer(trace, "t", "--skip", "10", "--limit", "20")["spanMs"] == 19_000
    assert answer(trace, "t", "--speedup", "2")["spanMs"] == 49_500
    assert answer(trace, "t", "--loop", "3")["rows"] == 300
    window = ("--set", "workload.trace.window={from_ms = 10000, to_ms = 15000}")
    assert answer(trace, "t", *window)["rows"] == 5
    assert answer(trace, "t", "--thin", "0.5", "--seed", "1")["rows"] != answer(trace, "t", "--thin", "0.5")["rows"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_times_that_are_all_the_same_are_multiples_of_nothing(trace: Command, language: str) -> None:
    Path("t").write_text("arrival_ms,prompt_tokens,output_tokens\n0,1,8\n0,1,8\n")
    found = trace("t", "--lang", language)
    assert found.code == 0, found.err
    assert " 0 ns" not in found.out
