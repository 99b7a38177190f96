"""Putting lines on a console of any width: paragraphs, labelled rows, and tables that become lines where too narrow.

Nothing is cut, or folded inside a number or a name, at any width: what is wider by itself is left to the terminal.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.style import StyleType
from rich.table import Table
from rich.text import Text

from sim.report.names import encodable, fit
from sim.report.texts import NB, Texts

_WIDE = r"\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60"
_ATOM = rf"(?:[{_WIDE}]|[^ {NB}{_WIDE}]+)"
# A Chinese character or a word, with the brackets and stops that stay with it and what a no-break space ties to it.
# Every character is in some piece.
_PIECE = re.compile(rf" *\uff08*{_ATOM}(?:{NB}+{_ATOM})*[\u3001\u3002\uff0c\uff1a\uff1b\uff09]*| +|{NB}")

BESIDE = 30
"""A label stands beside its text where that leaves so many cells for the text; otherwise above it."""

UNBOUNDED = 10**6

NOTHING = "-"
"""What stands where there is no such time."""


@dataclass(frozen=True)
class Row:
    """Some lines of text under one label."""

    label: str
    lines: Sequence[str]
    style: StyleType = ""


@dataclass(frozen=True)
class Column:
    """A column of a table. ``unit``: its values are times in it, lined up by their points; else they are words."""

    title: str
    unit: str = ""

    @property
    def heading(self) -> str:
        return f"{self.title} {self.unit}" if self.unit else self.title

    def figure(self, value: str) -> str:
        """A value by itself: ``max ITL 3.50 ms``."""
        unit = f" {self.unit}" if self.unit and value != NOTHING else ""
        return f"{self.title} {value}{unit}".replace(" ", NB)


class Page:
    """A console as this package prints to it."""

    def __init__(self, console: Console, texts: Texts) -> None:
        self._console = console
        self._texts = texts
        self._width = max(console.width, 1)

    def blank(self) -> None:
        self._put(Text())

    def paragraph(self, text: str, style: StyleType = "", indent: str = "") -> None:
        for line in wrap(text, self._width - len(indent)):
            self._put(Text(indent + line, style))

    def rows(self, rows: Sequence[Row]) -> None:
        """Labels in a column of their own, or, where there is no room for one, each above its lines."""
        rows = [replace(row, label=row.label.replace(NB, " ")) for row in rows]
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
        lines = self._drawn(columns, rows)
        if max(line.cell_len for line in lines) <= self._width:
            for line in lines:
                self._put(line)
            return
        for name, *values in rows:
            figures = [column.figure(value) for column, value in zip(columns[1:], values, strict=True)]
            self.paragraph(f"{name}{self._texts.colon}{self._texts.comma.join(figures)}")

    def _drawn(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[Text]:
        """The lines of the table, in characters that are as wide everywhere as here, and that Markdown reads."""
        table = Table(box=box.MARKDOWN, header_style="bold")
        cells = [_lined_up(column, [row[place] for row in rows]) for place, column in enumerate(columns)]
        for heading, *_ in cells:
            table.add_column(Text(heading), no_wrap=True)
        for line in range(1, len(rows) + 1):
            table.add_row(*(Text(column[line]) for column in cells))
        options = self._console.options.update(width=UNBOUNDED, max_width=UNBOUNDED)
        drawn = self._console.render_lines(table, options, pad=False)
        lines = [Text.assemble(*((segment.text, segment.style or "") for segment in line)) for line in drawn]
        return [line for line in lines if line.plain.strip()]

    def _put(self, line: Text) -> None:
        line.rstrip()
        if self._console.no_color or not encodable(line.plain, self._console.encoding):
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


def _lined_up(column: Column, texts: Sequence[str]) -> list[str]:
    """The heading and the cells of a column, padded on the left so that decimal points stand below each other."""
    if not column.unit:
        return [column.heading, *(text.replace(NB, " ") for text in texts)]
    decimals = max((len(text) - len(_whole(text)) for text in texts), default=0)
    wholes = max((len(_whole(text)) for text in texts), default=0)
    width = max(cell_len(column.heading), wholes + decimals)
    heading = " " * (width - cell_len(column.heading)) + column.heading
    return [heading, *(" " * (width - decimals - len(_whole(text))) + text for text in texts)]


def _whole(number: str) -> str:
    return number.partition(".")[0]
