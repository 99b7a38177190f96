"""One writer at a time: a lock file beside the path, which a process that dies lets go of by dying."""

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from sim.errors import OutputError
from sim.record import disk

_HOLDER = re.compile(r"process (\d{1,9}) since (\S{1,64})\n")
_NO_FLOCK = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL}
_TRIES = 1000


class BusyError(OutputError):
    """Another process is writing to the path."""


@contextmanager
def hold(path: Path) -> Iterator[None]:
    """Be the only writer of ``path`` in this block, or raise :class:`BusyError` at once.

    ``.NAME.lock`` names the process and when it began. It is removed at the end; one that a killed process left is
    taken over. ``FileNotFoundError`` when the parent folder is missing.
    """
    lock = path.with_name(f".{path.name}.lock")
    fd = _acquire(path, lock)
    try:
        yield
    finally:
        with suppress(OSError):  # a lock file that stays is no obstacle
            disk.unlink(lock)  # while it is held: whoever opened it meanwhile finds it gone, and tries again
        os.close(fd)


def _acquire(path: Path, lock: Path) -> int:
    for _ in range(_TRIES):
        with disk.step(path, f"open {lock.name}"):
            try:
                fd, fresh = _open(lock)
            except FileNotFoundError:
                if path.parent.is_dir():
                    continue  # it was removed between two looks
                break
        try:
            with disk.step(path, f"take {lock.name}"):
                if _take(path, fd, lock, fresh=fresh):
                    return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))
    raise BusyError(f"{disk.shown(path)}: {lock.name} changes hands all the time: other processes write to it")


def _open(lock: Path) -> tuple[int, bool]:
    """The lock file, and whether it is this call that created it."""
    try:
        return disk.create(lock), True
    except FileExistsError:
        return os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), False


def _take(path: Path, fd: int, lock: Path, *, fresh: bool) -> bool:
    """Lock the open file and sign it. False: it is no longer the file of that name, so look again."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OutputError(f"{disk.shown(path)}: {lock.name} beside it is in the way: not a regular file")
    taken = _flock(fd)
    text = os.pread(fd, 256, 0).decode("utf-8", "replace")
    if taken is None:  # a file system without locks: whoever created the file holds it while they live
        taken = fresh or _is_dead(text)
    if not taken:
        holder = _HOLDER.fullmatch(text)
        who = f"process {holder[1]} since {holder[2]}" if holder else "another process"
        raise BusyError(f"{disk.shown(path)}: is being written by {who} ({lock.name})")
    if not _is_still(fd, lock):
        return False
    if text and not "process ".startswith(text[:8]):
        raise OutputError(f"{disk.shown(path)}: {lock.name} beside it is in the way: not a lock of ours")
    with disk.step(path, f"write {lock.name}"):
        try:
            disk.truncate(fd)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            disk.write_all(fd, f"process {os.getpid()} since {now}\n".encode())
        except BaseException:
            with suppress(OSError):
                disk.unlink(lock)
            raise
    return True


def _flock(fd: int) -> bool | None:
    """Whether the file is locked by us now; None where there are no such locks."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NO_FLOCK:
            return None
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def _is_still(fd: int, lock: Path) -> bool:
    """Whether the open file is still the one of that name: its holder may have removed it before letting go."""
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(lock))
    except FileNotFoundError:
        return False


def _is_dead(text: str) -> bool:
    """Whether the signed process is gone. An unsigned lock may be a second old: it counts as held."""
    holder = _HOLDER.fullmatch(text)
    if holder is None or os.name != "posix":  # elsewhere signal 0 is not harmless
        return False
    try:
        os.kill(int(holder[1]), 0)
    except ProcessLookupError:
        return True
    except OSError:  # it lives, and is another user's
        return False
    return False
