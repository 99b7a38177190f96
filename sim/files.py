"""Opening the files of strangers: regular files only, with the reason in one line when it can't be done."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from sim.errors import ScenarioError
from sim.show import show_path

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def open_regular(path: Path, hint: str = "") -> BinaryIO:
    """Opens a regular file for reading its bytes. ``ScenarioError`` names the path and the reason.

    ``hint`` is added when there is no such file. A pipe or a device is refused without reading from it.
    """
    try:
        # O_NONBLOCK: opening a pipe that nobody writes to must not wait; regular files do not care.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
    except ValueError:
        raise ScenarioError(f"{show_path(path)}: not a file name: it contains a NUL character") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        more = hint if error.errno == errno.ENOENT else ""
        raise ScenarioError(f"{show_path(path)}: can't be read: {reason}{more}") from None
    try:
        mode = os.fstat(file).st_mode
        if not stat.S_ISREG(mode):
            kind = next((name for test, name in _KINDS if test(mode)), "something else")
            raise ScenarioError(f"{show_path(path)}: is {kind}; must be a regular file")
        return os.fdopen(file, "rb")
    except BaseException:
        os.close(file)
        raise


def not_utf8(offset: int) -> str:
    return f"byte {offset} is not UTF-8; must be UTF-8"


def looks_like_utf16(start: bytes) -> str:
    """``" (looks like UTF-16 LE)"`` by the mark at the start or by every other byte being NUL; else nothing."""
    if start.startswith(b"\xff\xfe") or (len(start) > 3 and start[1] == start[3] == 0 and start[0]):
        return " (looks like UTF-16 LE)"
    if start.startswith(b"\xfe\xff") or (len(start) > 3 and start[0] == start[2] == 0 and start[1]):
        return " (looks like UTF-16 BE)"
    return ""
