"""A trace file as lines of text: plain, gzip or zstd by its first bytes, hashed as it is read, in bounded memory."""

import codecs
import hashlib
import io
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Self

from sim.errors import ScenarioError
from sim.files import looks_like_utf16, not_utf8, open_regular
from sim.show import show, show_path

BLOCK = 2**20
MAX_LINE = 2**16
"""Most bytes of a line; of formats whose lines hold lists, more."""

MAX_BYTES = 4 * 2**30
"""Most bytes of a trace, unpacked: some 10^8 requests. A few kilobytes of gzip may claim to be more."""

START = 2**18
"""Bytes that are enough to see what a file is."""

MOST = 20
"""Most problems that are listed; the others are counted."""

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class TraceFile:
    """The lines of one trace, and the complaints about them. To be closed, or used in a ``with``.

    ``missing`` says what the file is to be, for when it is not there; ``max_line``: most bytes of a line.
    """

    def __init__(self, path: Path, missing: str = "", max_line: int = MAX_LINE) -> None:
        self.path = path
        self.label = show_path(path)
        self.max_line = max_line
        self._raw = _Hashed(open_regular(path, missing))
        self._others: list[BinaryIO] = []
        self._problems: list[str] = []
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()
        for file in self._others:
            file.close()

    def again(self) -> BinaryIO:
        """The file as it is stored, once more, for a reader that jumps to and fro; it is closed with this one."""
        self._others.append(open_regular(self.path))
        return self._others[-1]

    def lines(self) -> Iterator[str]:
        """Each line without its end (LF or CRLF); the last may have none. A byte order mark is dropped."""
        offset, rest = 0, b""
        for block in self._bounded(_unpacked(self._raw)):
            if offset == 0 and not rest and (seems := looks_like_utf16(block)):
                raise self.error(f"not UTF-8{seems}; must be UTF-8")
            head, newline, tail = (rest + block).rpartition(b"\n")
            yield from self._text(head + newline, offset)
            offset, rest = offset + len(head) + len(newline), tail
            if len(rest) > self.max_line:
                raise self.error(_endless(rest, self.max_line))
        if rest:
            yield from self._text(rest + b"\n", offset)

    def texts(self) -> Iterator[str]:
        """The text, some of it at a time, wherever its lines end."""
        decoder, offset = codecs.getincrementaldecoder("utf-8-sig")(), 0
        for block in chain(self._bounded(_unpacked(self._raw)), (b"",)):
            if offset == 0 and (seems := looks_like_utf16(block)):
                raise self.error(f"not UTF-8{seems}; must be UTF-8")
            try:
                yield decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                raise self.error(not_utf8(offset + error.start)) from None
            offset += len(block)

    def start(self) -> bytes:
        """The first bytes of the file, unpacked: to see what it is. What is read is gone for :meth:`lines`."""
        start = b""
        for block in self._bounded(_unpacked(self._raw)):
            start += block
            if len(start) >= START:
                break
        return start

    def sha256(self) -> str:
        """The digest of the file's bytes as they are stored; to be asked when all lines are read."""
        while self._raw.read(BLOCK):
            pass
        return self._raw.digest.hexdigest()

    def complain(self, line: int, column: str, value: object, problem: str) -> None:
        """Notes a problem of one value."""
        self._note(f"{self.label} (line {line}): {column} = {show(value)}: {problem}")

    def complain_of_line(self, line: int, problem: str) -> None:
        self._note(f"{self.label} (line {line}): {problem}")

    def raise_problems(self) -> None:
        """Raises what was noted, if anything was."""
        if self._count:
            more = [f"and {self._count - MOST} more"] if self._count > MOST else []
            raise ScenarioError(*self._problems, *more)

    def error(self, problem: str) -> ScenarioError:
        """An error of the whole file."""
        return ScenarioError(f"{self.label}: {problem}")

    def _note(self, problem: str) -> None:
        self._count += 1
        if self._count <= MOST:
            self._problems.append(problem)

    def _text(self, block: bytes, offset: int) -> Iterator[str]:
        """The lines of a block that ends with a line's end, or is empty."""
        start = 3 if offset == 0 and block.startswith(b"\xef\xbb\xbf") else 0
        try:
            text = block[start:].decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.error(not_utf8(offset + start + error.start)) from None
        lines = text.replace("\r\n", "\n").split("\n")
        lines.pop()
        return iter(lines)

    def _bounded(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        total = 0
        try:
            for block in blocks:
                total += len(block)
                if total > MAX_BYTES:
                    raise self.error(f"more than {MAX_BYTES} bytes (unpacked); take a part of it")
                yield block
        except _PackingError as error:
            raise self.error(str(error)) from None
        except OSError as error:
            raise self.error(f"can't be read: {(error.strerror or str(error)).lower()}") from None


class _PackingError(Exception):
    """The packed data is damaged."""


class _Hashed(io.RawIOBase):
    """A file that hashes what is read from it."""

    def __init__(self, file: io.BufferedIOBase | Any) -> None:
        super().__init__()
        self.digest = hashlib.sha256()
        self._file = file

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data: bytes = self._file.read(size)
        self.digest.update(data)
        return data

    def close(self) -> None:
        self._file.close()
        super().close()


def _endless(rest: bytes, most: int) -> str:
    if b"\r" in rest:
        return "lines end with CR only; must be LF or CRLF"
    return f"a line of more than {most} bytes; is it a trace?"


def _unpacked(raw: _Hashed) -> Iterator[bytes]:
    start = raw.read(BLOCK)
    if start.startswith(GZIP):
        return _gunzip(_blocks(start, raw))
    if start.startswith(ZSTD):
        return _unzstd(start, raw)
    return _blocks(start, raw)


def _blocks(start: bytes, raw: _Hashed) -> Iterator[bytes]:
    block = start
    while block:
        yield block
        block = raw.read(BLOCK)


def _gunzip(packed: Iterable[bytes]) -> Iterator[bytes]:
    """Unpacks one or more gzip members; like gzip, takes zeros after the last one for padding."""
    member = None
    for block in packed:
        rest = block
        while rest:
            member = member or _next_member(rest)
            if member is None:
                rest = rest.lstrip(b"\0")
                continue
            yield _inflate(member, rest)
            rest = member.unused_data if member.eof else member.unconsumed_tail
            member = None if member.eof else member
    if member is not None:
        raise _PackingError("gzip data that ends too early: the file is cut short")


def _next_member(rest: bytes) -> Any:
    """What unpacks the member that begins here; None when padding does."""
    if rest.startswith(b"\0"):
        return None
    if rest[:2] != GZIP[: len(rest)]:
        raise _PackingError("something that is not gzip follows the packed data; only gzip or nothing")
    return zlib.decompressobj(wbits=31)


def _inflate(member: Any, data: bytes) -> bytes:
    try:
        return bytes(member.decompress(data, BLOCK))
    except zlib.error as error:
        raise _PackingError(f"damaged gzip data ({error})") from None


def _unzstd(start: bytes, raw: _Hashed) -> Iterator[bytes]:
    import pyarrow as pa  # a large import, which only packed traces need

    try:
        with pa.CompressedInputStream(pa.PythonFile(_Pushed(start, raw), mode="r"), "zstd") as stream:
            while block := stream.read(BLOCK):
                yield block
    except OSError as error:
        raise _PackingError(f"damaged zstd data, or cut short ({error})") from None


class _Pushed(io.RawIOBase):
    """A file with bytes put back at its start."""

    def __init__(self, start: bytes, file: _Hashed) -> None:
        super().__init__()
        self._start, self._file = start, file

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if not self._start:
            return self._file.read(size)
        end = len(self._start) if size < 0 else size
        data, self._start = self._start[:end], self._start[end:]
        return data
