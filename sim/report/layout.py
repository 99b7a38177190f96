"""Putting lines on a console of any width: paragraphs, labelled rows, and tables that become lines where too narrow.

Nothing is cut or folded inside a number or a name, whatever the width: a terminal that is narrower than a word wraps it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.style import StyleType
from rich.table import Table
from rich.text import Text

from sim.report.names import fit
from sim.report.texts import NB

# One Chinese character, or a word, with the punctuation that may not part from it.
_PIECE = re.compile(
    r" *[（“]*(?:[\u2e80-\u2fff\u3040-\u9fff\uf900-\ufaff]|[^ \u2e80-\u9fff\uf900-\uff60]+)?[、，。；：）”]*"
)

BESIDE = 30
"""A label stands beside its text where that leaves so many cells for the text; otherwise above it."""

UNBOUNDED = 10**6


@dataclass(frozen=True)
class Row:
    """Some lines of text under one label."""

    label: str
    lines: Sequence[str]
    style: StyleType = ""


@dataclass(frozen=True)
class Column:
    """A column of a table; ``unit`` is that of all its values."""

    title: str
    unit: str = ""
    right: bool = True

    @property
    def heading(self) -> str:
        return f"{self.title} {self.unit}" if self.unit else self.title


class Page:
    """A console as this package prints to it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._width = max(console.width, 1)

    def blank(self) -> None:
        self._put(Text())

    def paragraph(self, text: str, style: StyleType = "", indent: str = "") -> None:
        for line in wrap(text, self._width - len(indent)):
            self._put(Text(indent + line, style))

    def rows(self, rows: Sequence[Row]) -> None:
        """Labels in a column of their own, or, where there is no room for one, each above its lines."""
        widest = max((cell_len(row.label) for row in rows), default=0)
        hang = widest + 4
        beside = self._width - hang >= BESIDE
        for row in rows:
            label = Text("  ").append(row.label, row.style)
            if beside:
                label.append(" " * (hang - 2 - cell_len(row.label)))
            else:
                self._put(label)
                label, hang = Text(" " * 4), 4
            for line in (part for text in row.lines for part in wrap(text, self._width - hang)):
                self._put(label + Text(line))
                label = Text(" " * hang)

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        """Where the console is too narrow for the table, a paragraph for each of its rows."""
        table = Table(box=box.MARKDOWN, header_style="bold")
        for column in columns:
            table.add_column(Text(column.heading), justify="right" if column.right else "left", no_wrap=True)
        for row in rows:
            table.add_row(*map(Text, row))
        options = self._console.options.update(width=UNBOUNDED, max_width=UNBOUNDED)
        lines = [
            Text.assemble(*((s.text, s.style or "") for s in line))
            for line in self._console.render_lines(table, options, pad=False)
        ]
        lines = [line for line in lines if line.plain.strip()]
        if max(line.cell_len for line in lines) <= self._width:
            for line in lines:
                self._put(line)
            return
        for row in rows:
            cells = [
                f"{c.title} {v.strip()}{f' {c.unit}' if c.unit else ''}"
                for c, v in zip(columns[1:], row[1:], strict=True)
            ]
            self.paragraph(f"{row[0]}: {', '.join(cell.replace(' ', NB) for cell in cells)}")

    def _put(self, line: Text) -> None:
        line.rstrip()
        if not fits(line.plain, self._console.encoding):
            line = Text(fit(line.plain, self._console.encoding))
        self._console.print(line, soft_wrap=True, highlight=False)


def wrap(text: str, width: int) -> Iterator[str]:
    """Lines of at most ``width`` cells, but for a piece that is wider by itself."""
    line = ""
    for piece in _PIECE.findall(text):
        if line and cell_len(line + piece) > width:
            yield line.replace(NB, " ")
            line = piece.lstrip(" ")
        else:
            line += piece
    yield line.replace(NB, " ")
