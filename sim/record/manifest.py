"""What makes a result folder whole: ``manifest.json``, which lists its files with their sizes and SHA-256.

Everything is read through the open folder (a descriptor), so that a writer who replaces the folder meanwhile can't mix
two results under a reader's hands.
"""

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from sim.errors import ResultError
from sim.record.disk import MANIFEST

SCHEMA = "headway.folder/1"

_PART = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LITTER = re.compile(
    r"\.DS_Store|\.localized|\.directory|Thumbs\.db|[Dd]esktop\.ini|(?s:\._.*|\.nfs.*|\.fuse_hidden.*)"
)
"""Files that file managers and file systems leave in any folder."""


class Entry(NamedTuple):
    """What a manifest says about one file."""

    sha256: str
    bytes: int


def is_name(name: str) -> bool:
    """Whether a result folder may have such a file: "jobs.parquet", or one level down, "fcfs/jobs.parquet"."""
    parts = name.split("/")
    return len(parts) <= 2 and all(map(_PART.fullmatch, parts)) and MANIFEST not in parts[:-1]


def text_of(files: Mapping[str, Entry]) -> bytes:
    """The manifest of a whole folder of these files."""
    listed = {name: entry._asdict() for name, entry in sorted(files.items())}
    return json.dumps({"schema": SCHEMA, "complete": True, "files": listed}, indent=1).encode() + b"\n"


def begins_with_schema(prefix: str) -> Callable[[Path], bool]:
    """A test of files: is it a JSON object whose first key is ``schema``, with a text that begins with ``prefix``?"""
    pattern = _schema_pattern(prefix)

    def ours(path: Path) -> bool:
        with open_file(path) as file:
            return pattern.match(file.read(4096)) is not None

    return ours


def _schema_pattern(prefix: str) -> re.Pattern[bytes]:
    return re.compile(rb'\s*\{\s*"schema"\s*:\s*"' + re.escape(prefix.encode()))


@contextmanager
def open_folder(path: Path) -> Iterator[int]:
    """The descriptor of a folder, for the functions below."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def is_still(folder: int, path: Path) -> bool:
    """Whether ``path`` is still this open folder; false once a writer has replaced it."""
    try:
        return os.path.samestat(os.fstat(folder), os.stat(path))
    except FileNotFoundError:
        return False


def open_file(name: str | Path, folder: int | None = None) -> BufferedReader:
    """A regular file, to be read. ``OSError`` for a link or anything else; a pipe is not waited for."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", str(name))
    return open(fd, "rb")


def load(folder: int) -> dict[str, Entry]:
    """The files that the folder's manifest lists. :class:`ResultError`, a reason without the path: it is not ours."""
    try:
        with open_file(MANIFEST, folder) as file:
            text = file.read(4096)
            if not _schema_pattern("headway.folder/").match(text):  # it may be huge, and of another program
                raise ResultError(f"its {MANIFEST} is not one of ours")
            document = json.loads(text + file.read())
    except FileNotFoundError:
        raise ResultError(f"it has no {MANIFEST}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ResultError(f"its {MANIFEST} can't be read: {getattr(error, 'strerror', None) or error}") from None
    if document["schema"] != SCHEMA:
        raise ResultError(f"its {MANIFEST} is of the schema {document['schema']!r}; this version reads {SCHEMA!r}")
    files = document.get("files")
    if document.get("complete") is not True or not isinstance(files, dict):
        raise ResultError(f"its {MANIFEST} is not that of a complete result")
    return {name: _entry(name, value) for name, value in files.items()}


def _entry(name: str, value: object) -> Entry:
    match value:
        case {"sha256": str(sha256), "bytes": int(size)} if _SHA256.fullmatch(sha256) and type(size) is int:
            if is_name(name) and name != MANIFEST and size >= 0:
                return Entry(sha256, size)
    raise ResultError(f"its {MANIFEST} has a line that can't be: {name!r}")


def strangers(folder: int, files: Mapping[str, Entry]) -> list[str]:
    """What a folder of ours holds beyond its manifest and the files listed, litter of the system's excepted."""
    found = (name for name in _walk(folder, "") if name not in files and name != MANIFEST)
    return [name for name in found if not _LITTER.fullmatch(name.rpartition("/")[2])]


def is_empty(folder: int) -> bool:
    """Whether the folder holds nothing, litter of the system's excepted."""
    return all(map(_LITTER.fullmatch, os.listdir(folder)))


def _walk(folder: int, prefix: str) -> Iterator[str]:
    """The names of all that is not a folder, links included, at any depth."""
    with os.scandir(folder) as entries:
        inside = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    for name, is_folder in inside:
        if not is_folder:
            yield prefix + name
            continue
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            yield from _walk(fd, f"{prefix}{name}/")
        finally:
            os.close(fd)


def is_whole(path: Path) -> bool:
    """Whether the folder is complete, by its manifest and the sizes of its files (their content is not read)."""
    try:
        with open_folder(path) as folder:
            return all(
                os.stat(name, dir_fd=folder, follow_symlinks=False).st_size == entry.bytes
                for name, entry in load(folder).items()
            )
    except (OSError, ResultError):
        return False


def problems(folder: int) -> list[str]:
    """Where the folder differs from its manifest, a line each: files missing, changed, or not listed."""
    try:
        files = load(folder)
    except ResultError as error:
        return [str(error)]
    found = [problem for name, entry in files.items() if (problem := _problem(folder, name, entry))]
    try:
        return found + [f"{name}: not listed in {MANIFEST}" for name in strangers(folder, files)]
    except OSError as error:  # a folder that may not be read, or that is being removed
        return [*found, f"{error.filename}: can't be read: {error.strerror}"]


def _problem(folder: int, name: str, entry: Entry) -> str | None:
    try:
        with open_file(name, folder) as file:
            size = os.fstat(file.fileno()).st_size
            if size != entry.bytes:
                return f"{name}: {size} bytes; {entry.bytes} in {MANIFEST}"
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return f"{name}: missing"
    except OSError as error:
        return f"{name}: can't be read: {error.strerror}"
    return None if sha256 == entry.sha256 else f"{name}: sha256 {sha256}; {entry.sha256} in {MANIFEST}"
