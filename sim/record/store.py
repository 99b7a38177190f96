"""Results on disk, all or nothing: a reader finds the old result or the whole new one, whatever is killed or fails.

A **file** is written beside its place and renamed over it. A **folder** is built under a hidden name beside its place,
its manifest last; then the old folder is renamed aside and the new one into place. When a writer is killed between
these two renames, the next reader or writer puts the old one back (:func:`recover`). What is not ours stays.
"""

import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sim.errors import OutputError, ResultError
from sim.record import disk, manifest
from sim.record.manifest import Entry, begins_with_schema
from sim.record.place import Kind, Ours, nothing_is_ours, recover, refuse, writing

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["Folder", "begins_with_schema", "check_writable", "folder", "manifest_problems", "reading", "recover",
           "write_file"]  # fmt: skip

_BLOCK = 1 << 20
"""Bytes gathered before they are written."""
_TRIES = 100
"""How often to look again after another process changed something between two looks."""


# Writing


def write_file(path: Path, chunks: Iterable[bytes], *, ours: Ours) -> None:
    """Write one file, whole or not at all. Missing parents are created.

    ``ours`` tells whether an existing regular file may be replaced. :class:`OutputError` when it may not, when the path
    is a folder, a link or a device, when another process writes to it, or when a step fails.
    """
    with writing(path, "file", ours) as place:
        new = disk.hidden(place, "new")
        try:
            with _sink(path, new, place.name) as sink:
                for chunk in chunks:
                    sink.write(chunk)
            refuse(path, place, "file", ours)  # it may have come to be while the chunks did
            with disk.step(path, f"rename {new.name} to {place.name}"):
                disk.rename(new, place)
        except BaseException:
            disk.remove(new)
            raise
        try:
            disk.fsync_folder(place.parent)
        except OSError as error:
            raise OutputError(
                f"{disk.shown(path)}: fsync of its folder: {error.strerror}; "
                "the new result is whole and in place, but may not outlast a power cut"
            ) from error


@contextmanager
def folder(path: Path) -> Iterator["Folder"]:
    """Build a folder that is in place, whole, after the block. When the block raises, nothing has changed.

    It replaces an empty folder, or one of ours that holds only what its manifest lists. ``path`` may be a link to a
    folder: that folder is replaced, the link stays. :class:`OutputError` as for :func:`write_file`.
    """
    with writing(path, "folder", nothing_is_ours) as place:
        new = disk.hidden(place, "new")
        try:
            with disk.step(path, f"create folder {new.name}"):
                disk.mkdir(new)
            building = Folder(path, new)
            yield building
            building.seal()
            refuse(path, place, "folder", nothing_is_ours)  # notes may have been put there meanwhile
            old = _swap(path, new, place)
        except BaseException:
            disk.remove(new)
            raise
        disk.remove(old)


class Folder:
    """A folder being built, see :func:`folder`. Names are "jobs.parquet" or, one level down, "fcfs/jobs.parquet"."""

    def __init__(self, path: Path, build: Path) -> None:
        self._path = path
        self._build = build
        self._files: dict[str, Entry | None] = {}  # None: it is open, or was broken off

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        """One file of these bytes."""
        with self.open(name) as file:
            for chunk in chunks:
                file.write(chunk)

    @contextmanager
    def open(self, name: str) -> Iterator["Sink"]:
        """A new binary file, written to within the block. Several may be open at once."""
        if not manifest.is_name(name) or name.rpartition("/")[2] == disk.MANIFEST:
            raise OutputError(f"{disk.shown(self._path)}: {name!r} can't be the name of a file in a result folder")
        with self._create(name) as file:
            yield file

    @contextmanager
    def _create(self, name: str) -> Iterator["Sink"]:
        parent, parents = name.rpartition("/")[0], ["", *self._parents()]
        self._files[name] = None
        if parent not in parents:
            with disk.step(self._path, f"create folder {parent}"):
                disk.mkdir(self._build / parent)
        with _sink(self._path, self._build / name, name) as sink:
            yield sink
        self._files[name] = sink.entry()

    def _parents(self) -> list[str]:
        return sorted({name.split("/")[0] for name in self._files if "/" in name})

    def seal(self) -> None:
        """Write the manifests, those of the subfolders first, and make all names last: :func:`folder` calls it."""
        broken = [name for name, entry in self._files.items() if entry is None]
        if broken:
            raise OutputError(f"{disk.shown(self._path)}: {broken[0]} was not written to its end; nothing was replaced")
        parents = self._parents()
        for prefix in [*(f"{parent}/" for parent in parents), ""]:
            listed = {name: entry for name, entry in self._files.items() if entry and name.startswith(prefix)}
            with self._create(prefix + disk.MANIFEST) as file:
                file.write(manifest.text_of({name.removeprefix(prefix): entry for name, entry in listed.items()}))
        for name in [*parents, "."]:
            with disk.step(self._path, f"fsync folder {name}"):
                disk.fsync_folder(self._build / name)


class Sink(io.RawIOBase):
    """A binary file that counts and hashes what it takes, and writes it in large blocks."""

    def __init__(self, path: Path, fd: int, name: str) -> None:
        super().__init__()
        self._path, self._fd, self._name = path, fd, name
        self._gathered = bytearray()
        self._sha256 = hashlib.sha256()
        self._written = 0
        self._broken = False

    def writable(self) -> bool:
        """Yes, and nothing else."""
        return True

    def write(self, data: "ReadableBuffer", /) -> int:
        """Take all of ``data``; its size in bytes."""
        if self.closed:
            raise ValueError(f"{self._name} is closed")
        before = len(self._gathered)
        self._gathered += data
        taken = len(self._gathered) - before
        if len(self._gathered) >= _BLOCK:
            self.drain()
        return taken

    def tell(self) -> int:
        """Bytes taken so far."""
        return self._written + len(self._gathered)

    def drain(self) -> None:
        """Hand to the system what was gathered."""
        if self._broken:  # and somebody above went on all the same
            raise OutputError(f"{disk.shown(self._path)}: write {self._name}: an earlier write to it failed")
        if self._gathered:
            block, self._gathered, self._broken = self._gathered, bytearray(), True
            with disk.step(self._path, f"write {self._name} ({len(block)} bytes after {self._written})"):
                disk.write_all(self._fd, block)
            self._sha256.update(block)
            self._written += len(block)
            self._broken = False

    def entry(self) -> Entry:
        """The manifest's line about what was written."""
        return Entry(self._sha256.hexdigest(), self._written)


@contextmanager
def _sink(path: Path, file: Path, name: str) -> Iterator[Sink]:
    """Create ``file``; it is whole and lasting after the block. ``name`` is what messages call it."""
    with disk.step(path, f"create {name}"):
        fd = disk.create(file)
    try:
        sink = Sink(path, fd, name)
        try:
            yield sink
            sink.drain()
        finally:
            sink.close()  # its descriptor may soon be another file's
        with disk.step(path, f"fsync {name}"):
            disk.fsync(fd)
    finally:
        os.close(fd)


def _swap(path: Path, new: Path, place: Path) -> Path:
    """Put ``new`` in its place and make that last, or undo it all. Returns the name that the old folder has now."""
    old = disk.hidden(place, "old")
    renames = [(new, place)]
    try:
        with disk.step(path, "look into it"):
            if place.exists() and os.listdir(place):  # an empty one is replaced by the rename itself
                renames.insert(0, (place, old))
        for source, target in renames:
            with disk.step(path, f"rename {source.name} to {target.name}"):
                disk.rename(source, target)
        with disk.step(path, "fsync of its folder"):
            disk.fsync_folder(place.parent)
    except BaseException as error:
        for source, target in reversed(renames):
            if os.path.lexists(target) and not os.path.lexists(source):
                with suppress(OSError):
                    disk.rename(target, source)
        if isinstance(error, OutputError) and os.path.lexists(old):
            raise OutputError(f"{error}, but is called {old.name} until the next run or reader puts it back") from error
        raise
    return old


def check_writable(path: Path, kind: Kind, *, ours: Ours = nothing_is_ours) -> None:
    """Refuse before a long run what writing would refuse after it; :class:`OutputError`. Leaves nothing behind."""
    with writing(path, kind, ours) as place:
        probe = disk.hidden(place, "new")
        with disk.step(path, f"create {probe.name}"):
            disk.mkdir(probe)
        disk.remove(probe)


# Reading


@contextmanager
def reading(path: Path) -> Iterator[Callable[[str], BinaryIO]]:
    """A function that opens the files of a folder by name, all of one result even while a writer replaces it.

    :class:`ResultError` when there is no such folder or file, or a file is gone because the folder was replaced.
    """
    with _open_folder(path) as open_folder:

        def open_file(name: str) -> BinaryIO:
            try:
                return manifest.open_file(name, open_folder)
            except OSError as error:
                still = manifest.is_still(open_folder, path)
                why = error.strerror if still else "the result was replaced while it was being read; try again"
                raise ResultError(f"{disk.shown(path)}: {name}: {why}") from error

        yield open_file


def manifest_problems(path: Path) -> list[str]:
    """Where a folder differs from its manifest, a line each; :class:`ResultError` when there is no such folder."""
    found: list[str] = []
    for _ in range(_TRIES):
        with _open_folder(path) as open_folder:
            found = manifest.problems(open_folder)
            if not found or manifest.is_still(open_folder, path):
                break  # else it was replaced, and taken away, while we read it
    return found


@contextmanager
def _open_folder(path: Path) -> Iterator[int]:
    with ExitStack() as stack:
        for tries in range(_TRIES):
            recover(path)
            try:
                open_folder = stack.enter_context(manifest.open_folder(path))
                break
            except FileNotFoundError as error:  # perhaps between two renames
                if tries == _TRIES - 1:
                    raise ResultError(f"{disk.shown(path)}: there is no such folder") from error
            except (OSError, ValueError) as error:
                raise ResultError(f"{disk.shown(path)}: {getattr(error, 'strerror', None) or error}") from error
        yield open_folder
