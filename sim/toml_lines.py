"""The line of every key of a TOML text: Python's TOML reader tells where a file is malformed, and nothing else.

The text is known to be valid TOML, so this only has to find keys and skip values, not to understand them.
"""

import re
import tomllib
from collections.abc import Iterator

Path = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)+")
_SPACE = re.compile(r"[ \t]*")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|'
    r"'''.*?'{3,5}|"
    r'"(?:[^"\\\n]|\\.)*"|'
    r"'[^'\n]*'",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}\n#]+")


def key_lines(text: str) -> dict[Path, int]:
    """Line (from 1) at which each key, table and element of a list begins.

    A path is made of keys and, inside lists, places from 0: ``("workload", "requests", 2, "id")``. Empty when the text
    is not TOML after all.
    """
    scan = _Scan(text)
    try:
        scan.file()
    except (_LostError, RecursionError):
        return {}
    return scan.lines()


class _LostError(Exception):
    """Something stands where valid TOML has something else."""


class _Scan:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[Path, int] = {}  # path to offset
        self.lengths: dict[Path, int] = {}  # of arrays of tables, so far

    def lines(self) -> dict[Path, int]:
        """Offsets to lines; they are found in the order of the text, but for tables opened by a later header."""
        lines, line, last = {}, 1, 0
        for path, offset in sorted(self.found.items(), key=lambda item: item[1]):
            line += self.text.count("\n", last, offset)
            lines[path], last = line, offset
        return lines

    def file(self) -> None:
        table: Path = ()
        while self.more():
            if self.text[self.at] == "[":
                table = self.header()
            else:
                self.pair(table)

    def more(self) -> bool:
        """Goes to the next thing that is neither blank nor comment; False at the end."""
        if blank := _BLANK.match(self.text, self.at):
            self.at = blank.end()
        return self.at < len(self.text)

    def header(self) -> Path:
        """``[a.b]`` or ``[[a.b]]``."""
        start, many = self.at, self.text.startswith("[[", self.at)
        self.at += 2 if many else 1
        names = list(self.dotted())
        self.expect("]]" if many else "]")
        path: Path = ()
        for name in names:
            self.note((*path, name), start)
            path = self.inside((*path, name))
        if many:
            path = names_of_list(path, self.lengths)
            self.lengths[path] = self.lengths.get(path, 0) + 1
            self.note(path, start)
            path = (*path, self.lengths[path] - 1)
        self.note(path, start)
        return path

    def inside(self, path: Path) -> Path:
        """A name that is an array of tables means its last one."""
        return (*path, self.lengths[path] - 1) if path in self.lengths else path

    def pair(self, table: Path) -> None:
        """``a.b = value``, in the file or in an inline table."""
        start, path = self.at, table
        for name in self.dotted():
            path = (*path, name)
            self.note(path, start)
        self.expect("=")
        self.value(path)

    def dotted(self) -> Iterator[str]:
        """The names of a dotted key."""
        while True:
            self.space()
            yield self.name()
            self.space()
            if not self.text.startswith(".", self.at):
                return
            self.at += 1

    def name(self) -> str:
        quoted = self.text[self.at : self.at + 1] in ("'", '"')
        match = self.match(_STRING if quoted else _BARE_KEY)
        return tomllib.loads(f"key = {match}")["key"] if quoted else match  # its escapes resolved

    def value(self, path: Path) -> None:
        self.space()
        char = self.text[self.at : self.at + 1]
        if char == "[":
            self.array(path)
        elif char == "{":
            self.inline_table(path)
        else:
            self.match(_STRING if char in ("'", '"') else _SCALAR)

    def array(self, path: Path) -> None:
        self.at += 1
        place = 0
        while self.more() and self.text[self.at] != "]":
            self.note((*path, place), self.at)
            self.value((*path, place))
            self.comma()
            place += 1
        self.expect("]")

    def inline_table(self, path: Path) -> None:
        self.at += 1
        while self.more() and self.text[self.at] != "}":
            self.pair(path)
            self.comma()
        self.expect("}")

    def comma(self) -> None:
        if self.more() and self.text[self.at] == ",":
            self.at += 1

    def note(self, path: Path, offset: int) -> None:
        self.found.setdefault(path, offset)

    def space(self) -> None:
        if space := _SPACE.match(self.text, self.at):
            self.at = space.end()

    def expect(self, token: str) -> None:
        if not self.text.startswith(token, self.at):
            raise _LostError
        self.at += len(token)

    def match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise _LostError
        self.at = match.end()
        return match.group()


def names_of_list(path: Path, lengths: dict[Path, int]) -> Path:
    """The path of an array of tables itself, from that of its last table."""
    return path[:-1] if path[:-1] in lengths else path
