"""Calls into somebody's own code: what it raises, answers or never answers is said with its file and line."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from types import FrameType, TracebackType
from typing import Any, NoReturn, TypeVar

from sim.errors import EndlessPluginError, HeadwayError, InvariantError, PluginError
from sim.registry import Source
from sim.show import escape, shorten

Answer = TypeVar("Answer")

MAX_SECONDS = 10.0
"""How long one call may take, unless somebody says otherwise."""


@dataclass(frozen=True)
class Guard:
    """Calls what ``source`` registered. ``what`` names it in messages: ``order "mine"``."""

    source: Source
    what: str

    def call(self, function: Callable[..., Answer], *given: Any) -> Answer:
        """What ``function`` answers. ``PluginError``: it raised; ``EndlessPluginError``: it went on for too long."""
        calls, shown = WATCH.calls, sys.stdout
        call = (self, monotonic())
        calls.append(call)
        if WATCH.quiet:
            sys.stdout = sys.stderr
        try:
            return function(*given)
        except _Overdue as overdue:
            if overdue.call is not call:
                raise
            raise self._endless(overdue) from None
        except InvariantError as error:
            raise PluginError(self._said(str(error), error.__traceback__)) from error
        except HeadwayError:
            raise
        except (Exception, SystemExit) as error:
            raise PluginError(self._said(_in_words(error), error.__traceback__, self._line_in(error))) from error
        finally:
            calls.pop()
            sys.stdout = shown

    def refuse(self, problem: str, function: object = None) -> NoReturn:
        """It answered something that can't be; where ``function`` stands if that is known, else where it registered."""
        raise PluginError(f"{self.source.at(_line_of(function, self.source.file))}: {self.what}: {problem}")

    def _line_in(self, error: BaseException) -> int | None:
        """The line that the compiler complains of; None for all other errors, which say it by their traceback."""
        of_file = isinstance(error, SyntaxError) and error.filename == self.source.file
        return error.lineno if isinstance(error, SyntaxError) and of_file else None

    def _said(self, said: str, traceback: TracebackType | None, line: int | None = None) -> str:
        source, places = self.source, _places(traceback)
        if not source.line and places:  # of a package, whose file only the error knows
            source = Source(*places[-1])
        if line is None:
            line = next((at for file, at in reversed(places) if file == source.file), None)
        return f"{source.at(line)}: {self.what}: {escape(shorten(said, 400))}"

    def _endless(self, overdue: "_Overdue") -> EndlessPluginError:
        frame, line = overdue.frame, None
        while frame is not None and line is None:
            line = frame.f_lineno if frame.f_code.co_filename == self.source.file else None
            frame = frame.f_back
        after = f"no answer after {overdue.seconds:g} s; it was stopped there"
        return EndlessPluginError(f"{self.source.at(line)}: {self.what}: {after}")


def _in_words(error: BaseException) -> str:
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _places(traceback: TracebackType | None) -> list[tuple[str, int]]:
    """File and line of each frame, the innermost last; without those of the import system, which has no files."""
    places = []
    while traceback is not None:
        places.append((traceback.tb_frame.f_code.co_filename, traceback.tb_lineno))
        traceback = traceback.tb_next
    return [(file, line) for file, line in places if not file.startswith("<frozen ")]


def _line_of(function: object, file: str) -> int | None:
    code = getattr(function, "__code__", None) or getattr(getattr(function, "__func__", None), "__code__", None)
    return code.co_firstlineno if code is not None and code.co_filename == file else None


class _Overdue(BaseException):
    """Raised where a call stands that has taken too long. No ``Exception``, lest the plug-in take it for its own."""

    def __init__(self, call: tuple[Guard, float], seconds: float, frame: FrameType | None) -> None:
        super().__init__()
        self.call = call
        self.seconds = seconds
        self.frame = frame


class Watch(threading.local):
    """Of a thread: the calls under way, the innermost last, and when each of them began."""

    def __init__(self) -> None:
        self.calls: list[tuple[Guard, float]] = []
        self.seconds = MAX_SECONDS
        self.quiet = False
        """Whether what plug-ins print goes to stderr."""

    @contextmanager
    def on(self, seconds: float = MAX_SECONDS) -> Iterator[None]:
        """Within, what plug-ins print does not mix with answers, and none of their calls may take longer.

        The latter only where the system has an alarm clock, and in the main thread.
        """
        before, self.quiet = self.quiet, True
        try:
            with self._ticking(seconds):
                yield
        finally:
            self.quiet = before

    @contextmanager
    def _ticking(self, seconds: float) -> Iterator[None]:
        if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
            yield
            return
        before, handler = self.seconds, signal.signal(signal.SIGALRM, self._look)
        self.seconds = seconds
        tick = min(seconds / 8, 0.25)
        timer = signal.setitimer(signal.ITIMER_REAL, tick, tick)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, *timer)
            signal.signal(signal.SIGALRM, handler)
            self.seconds = before

    def _look(self, _signal: int, frame: FrameType | None) -> None:
        now = monotonic()
        for call in reversed(self.calls):
            if now - call[1] > self.seconds:
                raise _Overdue(call, self.seconds, frame)


WATCH = Watch()
"""Of the process, as its alarm clock is."""
