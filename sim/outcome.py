"""How a command ends: what it says to the human, and with which exit code; nothing on the way may hide it."""

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn, TextIO

import typer

from sim.errors import HeadwayError, OutputError


class _Ended(BaseException):
    """Somebody ended the command from outside. No ``Exception``: nothing on the way may take it for a failure."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


@contextmanager
def telling_of_output() -> Iterator[None]:
    """What happens to the command's own output and to the command, before the parser makes something else of it."""
    try:
        yield
    except KeyboardInterrupt:
        raise _Ended(130, "interrupted; no result was left half-written") from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter complains once more at its exit
        raise _Ended(141, "") from None
    except OSError as error:
        sys.stdout = nowhere()
        raise OutputError(f"standard output: {error.strerror}") from error


def nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123  # open until the process ends


def guarded(command: Callable[[], Any], debug: bool) -> int:
    """Run ``command``; every way in which it can end becomes a line or two on stderr and an exit code."""
    usage_error: type[Exception] = typer.BadParameter.__mro__[1]  # the parser's own base class, without a public name
    try:
        code = command()
        with telling_of_output():
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except HeadwayError as error:
        _explain(debug)
        say(str(error))
        return error.exit_code
    except usage_error as error:
        say(f"{error.format_message().rstrip('.')}; see headway --help")  # type: ignore[attr-defined]
        return 2
    except _Ended as ended:
        say(ended.message)
        return ended.code
    except Exception as error:  # noqa: BLE001  # a traceback is no answer; --debug shows it
        _explain(debug)
        say(f"a bug in Headway: {type(error).__name__}: {error}; --debug shows where")
        return 1


def _explain(debug: bool) -> None:
    if debug:
        traceback.print_exc()


def terminate(signum: int, _frame: object) -> NoReturn:
    raise _Ended(128 + signum, "terminated; no result was left half-written")


def say(text: str) -> None:
    """A line for the human: never mixed with what was asked for."""
    if text:
        print(text, file=sys.stderr)


def print_json(document: Mapping[str, Any]) -> None:
    print(json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False))
