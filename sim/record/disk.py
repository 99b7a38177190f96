"""The few calls that change a file system, in one place: everything that is written goes through them.

They are called as ``disk.write(...)``, so that a test can wrap each one, fail it, or die before or after it.
"""

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sim.errors import OutputError

MANIFEST = "manifest.json"
"""The file that makes a folder whole: written last, removed first."""


def create(path: Path) -> int:
    """A new file, open for reading and writing. It never opens what exists and never follows a link."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)


def write(fd: int, data: memoryview) -> int:
    """Write some of ``data``; how many bytes it was."""
    return os.write(fd, data)


def truncate(fd: int) -> None:
    """Empty an open file."""
    os.ftruncate(fd, 0)
    os.lseek(fd, 0, os.SEEK_SET)


def fsync(fd: int) -> None:
    """Make a file or a folder last through a power cut."""
    os.fsync(fd)


def rename(old: Path, new: Path) -> None:
    """Give a file or a folder another name; replaces a file, or an empty folder by a folder."""
    os.rename(old, new)


def mkdir(path: Path) -> None:
    """One new folder."""
    os.mkdir(path)


def unlink(path: Path) -> None:
    """Remove what is not a folder."""
    os.unlink(path)


def rmdir(path: Path) -> None:
    """Remove an empty folder."""
    os.rmdir(path)


def write_all(fd: int, data: bytes | bytearray) -> None:
    """Write the whole of ``data``, in as many writes as it takes."""
    with memoryview(data) as rest:
        done = 0
        while done < len(rest):
            step = write(fd, rest[done:])
            if step <= 0:
                raise OSError(errno.EIO, "nothing more was written")
            done += step


def fsync_folder(path: Path) -> None:
    """Make the names in a folder last. Some network file systems can't, and say so with EINVAL: that is no failure."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(fd)


def make_parents(path: Path, created: list[Path]) -> None:
    """Create the folders above ``path`` that are missing, and append each to ``created`` as it comes to be."""
    missing = [parent for parent in path.parents if not os.path.lexists(parent)]
    for parent in reversed(missing):
        with suppress(FileExistsError):  # another run was faster
            mkdir(parent)
            created.append(parent)
            fsync_folder(parent.parent)


def remove(path: Path) -> None:
    """Remove a file or a whole folder as far as that goes; what stays is swept by the next writer.

    A folder's manifest goes first: half a folder must never look whole.
    """
    with suppress(OSError):
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            unlink(path)
            return
        with os.scandir(path) as entries:
            names = sorted((entry.name for entry in entries), key=lambda name: (name != MANIFEST, name))
        if names and names[0] == MANIFEST:
            unlink(path / MANIFEST)
            del names[0]
        for name in names:
            remove(path / name)
        rmdir(path)


def hidden(path: Path, kind: str) -> Path:
    """A fresh hidden name beside ``path``: ``kind`` is "new" (being built) or "old" (put aside)."""
    return path.with_name(f".{path.name}.{kind}-{os.getpid()}-{secrets.token_hex(4)}")


def leftovers(path: Path, kinds: str = "new|old") -> list[Path]:
    """The hidden names beside ``path`` that writers of exactly this path gave, sorted."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.(?:{kinds})-\d+-[0-9a-f]{{8}}")
    try:
        with os.scandir(path.parent) as entries:
            return sorted(path.parent / entry.name for entry in entries if pattern.fullmatch(entry.name))
    except OSError:
        return []


def shown(path: os.PathLike[str] | str) -> str:
    """A path for a message: always one line."""
    text = os.fspath(path)
    return text if text.isprintable() else repr(text)


@contextmanager
def step(path: Path, doing: str) -> Iterator[None]:
    """Turn an ``OSError`` of the block into an :class:`OutputError` that says what was being done."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise OutputError(f"{shown(path)}: {doing}: {reason}; what was there before is untouched") from error
