"""A document of this repository as a script: its commands with the output it shows, its Python sessions, its files.

A fenced block begins in the first column and says what it is:

    ```sh       lines that begin with "$ " are commands (a "\\" at the end goes on); the lines after one are what it
                prints, stdout and stderr as a terminal mixes them. Of a command that shows nothing, only its exit
                code is looked at.
    ```python   a session with >>> and what it prints

HTML comments on the lines before it, which no reader sees, change that. They are in :data:`MARKS`, and so is nothing
else: a block in another language without a mark, or with one that is not known, is refused, and so is a fence that is
not in the first column. A new block is therefore run unless somebody writes down why it can't be.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MARKS = {
    "not run": "for this reason",
    "with data": "run by `make slow`, and only where HEADWAY_DATA is set, for this reason",
    "with network": "likewise, in a copy of the checkout that is fresh out of a clone",
    "exit code": "what each command of the block exits with (0 when there is no such mark)",
    "file": "the block is the text of this file, which is written before the next block",
    "change": "a diff of this file, without its headings; what it changes must be there exactly once",
}

_FENCE = re.compile(r"```([a-z]*)")
_MARK = re.compile(r"<!-- ([a-z ]+): (.+) -->")
_ANY_FENCE = re.compile(r"\s*(```|~~~)")
PROMPT = "$ "


class DocumentError(Exception):
    """A block that nobody would check."""


@dataclass(frozen=True)
class Command:
    """``line`` (counted from 1) is that of its prompt; ``shown`` what stands below it, "" for nothing."""

    line: int
    text: str
    shown: str


@dataclass(frozen=True)
class Block:
    """A fenced block; ``line`` is that of its fence."""

    line: int
    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)

    def commands(self) -> list[Command]:
        """The commands of an sh block. ``DocumentError`` when it does not begin with one."""
        found: list[Command] = []
        lines = iter(enumerate(self.text.splitlines(keepends=True), self.line + 1))
        for number, line in lines:
            if line.startswith(PROMPT):
                text = line.removeprefix(PROMPT)
                while text.endswith("\\\n"):
                    text += next(lines)[1]
                found.append(Command(number, text.rstrip("\n"), ""))
            elif not found:
                raise DocumentError(f"line {number}: no prompt: a command begins with {PROMPT!r}")
            else:
                found[-1] = Command(found[-1].line, found[-1].text, found[-1].shown + line)
        return found

    def apply(self, text: str) -> str:
        """``text`` with what this diff changes."""
        lines = self.text.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if not line.startswith("+"))
        new = "".join(line[1:] for line in lines if not line.startswith("-"))
        if text.count(old) != 1:
            raise DocumentError(f"line {self.line}: what this diff changes is there {text.count(old)} times")
        return text.replace(old, new)


def blocks(text: str) -> list[Block]:
    """All fenced blocks of a document. ``DocumentError`` for the first that can't be checked and has no mark."""
    found = []
    marks: dict[str, str] = {}
    lines = iter(enumerate(text.splitlines(keepends=True), 1))
    for number, line in lines:
        if mark := _MARK.fullmatch(line.strip()):
            marks[mark[1]] = mark[2]
        elif _ANY_FENCE.match(line):
            fence = _FENCE.fullmatch(line.rstrip("\n"))
            if fence is None:
                raise DocumentError(f"line {number}: a block begins with ``` and its language, in the first column")
            body = list(_until_closed(lines, number))
            found.append(Block(number, fence[1], "".join(body), marks))
            _refuse_unknown(found[-1])
            marks = {}
        elif marks:
            raise DocumentError(f"line {number}: the mark before it belongs right before a block")
    return found


def prose(text: str) -> str:
    """The document without its fenced blocks and comments."""
    return re.sub(r"(?ms)^```.*?^```$|<!--.*?-->", "", text)


def inline_code(text: str) -> list[str]:
    """Everything between backticks outside of the blocks."""
    return [" ".join(code.split()) for code in codes(prose(text))]


def tables(text: str) -> Iterator[list[list[str]]]:
    """The rows of each table, the heading first: the cells' texts."""
    for table in re.findall(r"(?m)(?:^\|.*\|\n)+", prose(text)):
        rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]
        yield [row for row in rows if set("".join(row)) - set("-: ")]


def codes(text: str) -> list[str]:
    """Everything between backticks, in a cell."""
    return re.findall(r"`([^`]+)`", text)


def section(text: str, heading: str) -> str:
    """What stands under a heading, to the next one of any kind."""
    (found,) = re.findall(rf"(?ms)^#+ {re.escape(heading)}[^\n]*\n(.*?)(?=^#|\Z)", text)
    return str(found)


def _until_closed(lines: Iterator[tuple[int, str]], opened: int) -> Iterator[str]:
    for _, line in lines:
        if line.rstrip("\n") == "```":
            return
        yield line
    raise DocumentError(f"line {opened}: this block has no end")


def _refuse_unknown(block: Block) -> None:
    unknown = block.marks.keys() - MARKS.keys()
    if unknown:
        raise DocumentError(f"line {block.line}: {', '.join(sorted(unknown))}: no such mark; {', '.join(MARKS)}")
    if block.language == "sh":
        block.commands()
    elif block.language != "python" and not block.marks.keys() & {"not run", "file", "change"}:
        raise DocumentError(f"line {block.line}: who checks this? sh, python, or a mark: {', '.join(MARKS)}")


def with_outputs(text: str, printed: dict[int, str]) -> str:
    """The document with other outputs; ``printed`` has them by the line of the command."""
    lines = text.splitlines(keepends=True)
    for block in reversed([block for block in blocks(text) if block.language == "sh"]):
        for command in reversed(block.commands()):
            if command.shown and command.line in printed:
                first = command.line + command.text.count("\n")
                lines[first : first + command.shown.count("\n")] = [printed[command.line]]
    return "".join(lines)


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
