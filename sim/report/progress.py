"""A line that tells how far a long run is: on a terminal only, rewritten in place, gone at the end."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from sim.record.monitors import Progress
from sim.report.catalogue import texts_of
from sim.report.names import fit

NS_PER_TENTH = 10**8


@contextmanager
def progress(name: str, lang: str, *, total: int | None = None, console: Console | None = None) -> Iterator[Progress]:
    """A monitor for ``simulate`` that shows the progress of the run ``name``, on stderr unless ``console`` is given.

    ``total`` is the number of requests, where it is known before the run.
    """
    console = console or Console(stderr=True, force_terminal=None if _is_terminal(sys.stderr) else False)
    line = _Line(console, name, lang, total)
    try:
        yield Progress(line.show)
    finally:
        line.clear()


def _is_terminal(file: TextIO | None) -> bool:
    """Rich takes any file for one where FORCE_COLOR is set; a closed stderr is None."""
    return file is not None and file.isatty()


class _Line:
    """One line of a terminal. The cursor stays at its beginning, so that whatever is printed next replaces it."""

    def __init__(self, console: Console, name: str, lang: str, total: int | None) -> None:
        self._console = console
        self._live = console.is_terminal and not console.is_dumb_terminal
        self._texts = texts_of(lang, console.encoding)
        self._name = name
        self._total = total
        self._shown = False

    def show(self, ended: int, now_ns: int) -> None:
        """``ended`` requests have ended and the simulated time is ``now_ns``."""
        if not self._live:
            return
        self.clear()
        seconds, tenths = divmod(now_ns // NS_PER_TENTH, 10)
        text = Text(
            fit(self._texts.progress(self._name, ended, self._total, f"{seconds:,}.{tenths}"), self._console.encoding)
        )
        text.truncate(max(self._console.width - 1, 1), overflow="ellipsis")  # the last column would start a new line
        self._console.print(text, end="", no_wrap=True, crop=False, overflow="ignore", highlight=False)
        self._console.control(Control(ControlType.CARRIAGE_RETURN))
        self._shown = True

    def clear(self) -> None:
        if self._shown:
            self._console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))
            self._shown = False
