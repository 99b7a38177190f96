"""Plug-ins for tests: a file of Python in a folder, and the command run with it."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from sim import cli, plugins

HEAD = """\
from dataclasses import dataclass
from decimal import Decimal
import numpy as np
import sim
"""
FIRST = HEAD.count("\n") + 1
"""The line of a plug-in in which its own text begins."""

SCENARIO = """\
schema = 1
name = "tiny"
workload.requests = [
  {id = "A", arrival_ms = 0, prompt_tokens = 4, output_tokens = 3},
  {id = "B", arrival_ms = 1, prompt_tokens = 8, output_tokens = 2},
  {id = "C", arrival_ms = 1, prompt_tokens = 2, output_tokens = 2},
]
"""
GENERATED = """\
schema = 1
name = "tiny"
[workload]
count = 5
arrivals = {process = "deterministic", rate_per_s = 100}
prompt_tokens = {distribution = "fixed", value = 4}
output_tokens = {distribution = "fixed", value = 2}
"""


class Answer(NamedTuple):
    code: int
    out: str
    err: str


class Desk:
    """A folder with a plug-in ``mine.py`` and scenarios, and the command."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def plugin(self, text: str, name: str = "mine.py") -> str:
        (self.folder / name).write_text(HEAD + text)
        return name

    def scenario(self, more: str = "", base: str = SCENARIO) -> str:
        (self.folder / "tiny.toml").write_text(base + more)
        return "tiny.toml"

    def headway(self, *arguments: str) -> Answer:
        with pytest.raises(SystemExit) as ended:
            cli.main(list(arguments))
        printed = self._capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Answer(ended.value.code, printed.out, printed.err)

    def run(self, *arguments: str) -> Answer:
        """With ``mine.py``, in English."""
        return self.headway("run", "tiny.toml", "--plugin", "mine.py", "--lang", "en", *arguments)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Desk]:
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    with plugins.apart():
        yield Desk(tmp_path, capsys)
    signal.signal(signal.SIGTERM, before)
