"""Where a result goes, who may write there, and how the next to come tidies up after one who was killed."""

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal

from sim.errors import OutputError, ResultError
from sim.record import disk, lock, manifest

Kind = Literal["file", "folder"]
Ours = Callable[[Path], bool]
"""Tells whether an existing regular file may be replaced."""

_PATIENCE_S = 1.0
"""How long a reader waits for a living writer that is between its two renames (it needs milliseconds)."""
_TRIES = 100
"""How often to look again after another process changed something between two looks."""


def nothing_is_ours(_: Path) -> bool:
    """The :data:`Ours` that lets no file be replaced."""
    return False


@contextmanager
def writing(path: Path, kind: Kind, ours: Ours) -> Iterator[Path]:
    """Be the only writer of ``path``, which may be written: where it really is, tidied up after dead writers."""
    with disk.step(path, "find it"):
        place = _place(path, kind)
    if place.name in ("", ".."):
        raise OutputError(f"{disk.shown(path)}: can't be replaced; name a {kind} in it")
    created: list[Path] = []
    try:
        with ExitStack() as alone:
            with disk.step(path, "create the folder that it goes to"):
                _enter(alone, place, created)
            with disk.step(path, "put the previous result back"):
                _put_back(place)
            for leftover in disk.leftovers(place):
                disk.remove(leftover)
            refuse(path, place, kind, ours)
            yield place
    finally:
        if not os.path.lexists(place):
            for parent in reversed(created):
                with suppress(OSError):  # not empty: others write there
                    disk.rmdir(parent)


def _place(path: Path, kind: Kind) -> Path:
    """The absolute path, without links: that of a folder follows a link, that of a file does not."""
    if kind == "folder":
        return Path(os.path.realpath(path))
    return Path(os.path.realpath(path.parent), path.name)


def _enter(alone: ExitStack, place: Path, created: list[Path]) -> None:
    """Take the lock of ``place``, whose missing parents are created."""
    for tries in range(_TRIES):
        try:
            disk.make_parents(place, created)
            alone.enter_context(lock.hold(place))
            return
        except FileNotFoundError:  # another run had created the parent, wrote nothing, and took it away
            if tries == _TRIES - 1:
                raise


def refuse(path: Path, place: Path, kind: Kind, ours: Ours) -> None:
    """:class:`OutputError`, with the reason, when ``path`` may not be written or replaced."""
    with disk.step(path, "look at it"):
        why = _why_not(path, place, kind, ours)
    if why:
        raise OutputError(f"{disk.shown(path)}: {why}")


def _why_not(path: Path, place: Path, kind: Kind, ours: Ours) -> str | None:
    """Why ``path`` may not be written or replaced; None when it may."""
    for parent in place.parents:
        if _is_ours(parent):
            return f"is inside the result folder {disk.shown(parent)}, which would no longer be whole; write beside it"
    if not os.path.lexists(place):
        return f"is a symbolic link to nothing ({disk.shown(place)})" if path.is_symlink() else None
    mode = os.lstat(place).st_mode
    if stat.S_ISLNK(mode):
        return f"is a symbolic link (to {disk.shown(os.readlink(place))}); name the {kind} itself"
    if kind == "folder":
        return _why_not_folder(place) if stat.S_ISDIR(mode) else "exists and is not a folder"
    if not stat.S_ISREG(mode):
        return "is a folder, not a file" if stat.S_ISDIR(mode) else "exists and is not a regular file"
    return None if ours(place) else "exists and is not a result of ours; it is left as it is"


def _why_not_folder(place: Path) -> str | None:
    if os.path.ismount(place):
        return "is a mount point, which can't be replaced; name a folder in it"
    with suppress(FileNotFoundError):  # the current folder itself may be gone
        if Path(os.path.realpath(os.curdir)).is_relative_to(place):
            return "is or holds the current folder, which can't be replaced; run it from elsewhere"
    with manifest.open_folder(place) as folder:
        if manifest.is_empty(folder):
            return None
        try:
            strangers = manifest.strangers(folder, manifest.load(folder))
        except ResultError as error:
            return f"is not a result folder of ours ({error}); it is left as it is"
    if strangers:
        more = f" and {len(strangers) - 1} more" if len(strangers) > 1 else ""
        return f"holds {strangers[0]!r}{more}, not part of the result; move it elsewhere first"
    return None


def _is_ours(path: Path) -> bool:
    try:
        with manifest.open_folder(path) as folder:
            manifest.load(folder)
    except (OSError, ResultError):
        return False
    return True


def recover(path: Path) -> None:
    """Before reading: put back the old folder of a writer that was killed between its two renames.

    Waits a moment for a writer that is alive. :class:`ResultError` when the old folder can't be put back.
    """
    try:
        place = _place(path, "folder")
    except (OSError, ValueError) as error:
        raise ResultError(f"{disk.shown(path)}: {error}") from error
    # what is missing may be a folder that holds the path
    missing = next((p for p in [*reversed(place.parents), place] if not os.path.lexists(p)), place)
    end = time.monotonic() + _PATIENCE_S
    while (aside := _put_aside(missing)) and time.monotonic() < end:
        try:
            with lock.hold(missing), disk.step(path, "rename it"):
                _put_back(missing)
        except lock.BusyError:
            time.sleep(0.01)
        except (OutputError, OSError) as error:
            why = f"the previous result stands beside it as {aside[-1].name} and can't be put back"
            raise ResultError(f"{disk.shown(path)}: {why} ({error})") from error


def _put_aside(place: Path) -> list[Path]:
    """The whole folders that were put aside, the latest last, if nothing is in their place."""
    if os.path.lexists(place):
        return []
    whole = [path for path in disk.leftovers(place, "old") if manifest.is_whole(path)]
    return sorted(whole, key=_written_ns)


def _written_ns(folder: Path) -> int:
    try:
        return os.stat(folder / disk.MANIFEST).st_mtime_ns
    except OSError:  # gone since
        return 0


def _put_back(place: Path) -> None:
    """With the lock held: undo a swap that was cut short."""
    if aside := _put_aside(place):
        disk.rename(aside[-1], place)
        disk.fsync_folder(place.parent)
