"""The tutorial is true: its files are written, its commands typed, and what it shows is what they print.

How a block says what it is, `documents` explains. After a change of what is printed, this writes the new outputs into
the document, for you to read in the diff:

    .venv/bin/python tests/golden/test_tutorial.py
"""

import ast
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from documents import Block, Command, blocks, read, with_outputs

ROOT = Path(__file__).parents[2]
TUTORIALS = ("docs/tutorial.md", "docs/tutorial.zh-CN.md")
LINES = 15
"""No plug-in has so many lines of code."""


class Typed(NamedTuple):
    command: Command
    exit_code: int
    due_code: int
    printed: str


def typed(name: str, folder: Path) -> Iterator[Typed]:
    """Every command of a document, typed in ``folder``, where the files before it are."""
    for block in blocks(read(ROOT / name)):
        if "file" in block.marks:
            (folder / block.marks["file"]).write_text(block.text, encoding="utf-8")
        for command in block.commands() if block.language == "sh" else ():
            run = _run(command, folder)
            yield Typed(command, run.returncode, int(block.marks.get("exit code", "0")), run.stdout.decode())


def _run(command: Command, folder: Path) -> "subprocess.CompletedProcess[bytes]":
    program, *arguments = shlex.split(command.text)
    assert program == "headway"
    environment = {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]}
    return subprocess.run([sys.executable, "-m", "sim", *arguments], cwd=folder, env=environment, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip


def files(name: str) -> dict[str, Block]:
    return {block.marks["file"]: block for block in blocks(read(ROOT / name)) if "file" in block.marks}


@pytest.mark.parametrize("name", TUTORIALS)
def test_every_command_prints_what_the_tutorial_shows(name: str, tmp_path: Path) -> None:
    for each in typed(name, tmp_path):
        assert each.command.shown, f"line {each.command.line}: shows nothing"
        assert (each.exit_code, each.printed) == (each.due_code, each.command.shown), f"line {each.command.line}"


@pytest.mark.parametrize("name", TUTORIALS)
def test_every_block_of_python_is_a_file_that_some_command_loads(name: str) -> None:
    text = read(ROOT / name)
    python = [block for block in blocks(text) if block.language == "python"]
    assert [block for block in python if "file" not in block.marks] == []
    loaded = {word for command in _commands(text) for word in shlex.split(command) if word.endswith(".py")}
    assert loaded == {block.marks["file"] for block in python}


def _commands(text: str) -> list[str]:
    return [command.text for block in blocks(text) if block.language == "sh" for command in block.commands()]


def test_each_thing_takes_less_than_fifteen_lines() -> None:
    """Lines of code: without blank ones."""
    sizes = {
        name: sum(1 for line in block.text.splitlines() if line.strip())
        for name, block in files(TUTORIALS[0]).items()
        if block.language == "python"
    }
    assert max(sizes.values()) < LINES
    kinds = {_kind(block.text) for block in files(TUTORIALS[0]).values() if block.language == "python"}
    assert kinds == {"arrivals", "order", "victim", "cost"}


def _kind(text: str) -> str:
    """The first argument of its call of ``register``."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    registers = [call for call in calls if ast.unparse(call.func) == "sim.register"]
    return str(ast.literal_eval(registers[0].args[0]))


def test_both_languages_have_the_same_files_and_commands() -> None:
    first, second = (read(ROOT / name) for name in TUTORIALS)
    assert {name: block.text for name, block in files(TUTORIALS[0]).items()} == {
        name: block.text for name, block in files(TUTORIALS[1]).items()
    }
    assert [command.removesuffix(" --lang zh") for command in _commands(second)] == _commands(first)


def main() -> None:
    for name in TUTORIALS:
        with tempfile.TemporaryDirectory() as folder:
            printed = {each.command.line: each.printed for each in typed(name, Path(folder))}
        text = with_outputs(read(ROOT / name), printed)
        (ROOT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
