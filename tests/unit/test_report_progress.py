"""The progress line: seen on a terminal only, one line, gone at the end."""

from io import StringIO

import pytest
from rich.console import Console

from sim.report.progress import _Line, progress

ERASE = "\r\x1b[2K"


def line(
    out: StringIO, lang: str = "en", total: int | None = 19_366, width: int = 80, *, terminal: bool = True
) -> _Line:
    console = Console(file=out, force_terminal=terminal, width=width, no_color=True, _environ={"TERM": "xterm"})
    return _Line(console, "fcfs", lang, total)


def test_it_is_rewritten_in_place_and_gone_at_the_end() -> None:
    out = StringIO()
    shown = line(out)
    shown.show(1_234, 224_199_999_999)
    shown.show(1_235, 1_224_200_000_000)
    shown.clear()
    assert out.getvalue() == (
        f"fcfs: 1,234 of 19,366 requests done, 224.1 s simulated\r{ERASE}"
        f"fcfs: 1,235 of 19,366 requests done, 1,224.2 s simulated\r{ERASE}"
    )


@pytest.mark.parametrize(
    ("lang", "total", "text"),
    [
        ("en", None, "fcfs: 1 request done, 0.0 s simulated"),
        ("zh", 3, "fcfs：3 条请求中 1 条已结束，模拟到 0.0 s"),  # noqa: RUF001
        ("zh", None, "fcfs：已结束 1 条请求，模拟到 0.0 s"),  # noqa: RUF001
    ],
)
def test_its_words(lang: str, total: int | None, text: str) -> None:
    out = StringIO()
    line(out, lang, total).show(1, 0)
    assert out.getvalue() == f"{text}\r"


@pytest.mark.parametrize("width", [1, 2, 20])
def test_it_never_fills_its_line(width: int) -> None:
    out = StringIO()
    line(out, width=width).show(1, 0)
    assert len(out.getvalue().rstrip("\r")) <= max(width - 1, 1)


def test_nothing_in_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    out = StringIO()
    line(out, terminal=False).show(1, 0)
    assert out.getvalue() == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress("fcfs", "en") as monitor:
        monitor._show(1, 0)
    assert capsys.readouterr() == ("", "")


def test_it_goes_away_when_the_run_fails() -> None:
    out = StringIO()
    console = Console(file=out, force_terminal=True, width=80, _environ={"TERM": "xterm"})
    with pytest.raises(KeyboardInterrupt):
        _interrupted(console)
    assert out.getvalue().endswith(ERASE)


def _interrupted(console: Console) -> None:
    with progress("fcfs", "en", console=console) as monitor:
        monitor._show(1, 0)
        raise KeyboardInterrupt
