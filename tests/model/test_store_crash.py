"""A writer is killed, interrupted, or refused by the disk at every single call that changes something on it.

The calls are counted in a dry run; then each is tried in turn, in a forked process that dies there. What a reader finds
is the old result or the whole new one; where there was none, nothing or the whole new one.
"""

import errno
import gc
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sim.errors import OutputError, ResultError
from sim.record import disk, store

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

CALLS = ("create", "write", "truncate", "fsync", "rename", "mkdir", "unlink", "rmdir")
OLD = {"result.json": b"old", "fcfs/jobs": b"old jobs", "static/jobs": b"only in the old"}
NEW = {"result.json": b"new", "fcfs/jobs": b"new jobs", "chunked/jobs": b"new too"}
Tree = dict[str, bytes]


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing that the system has: waiting for the disk would only take minutes."""
    monkeypatch.setattr(disk, "fsync", lambda _: None)


class Kind:
    """One of the two forms of a result, and how to write and read it in these tests."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, tree: Tree) -> None:
        raise NotImplementedError

    def read(self) -> Tree | None:
        raise NotImplementedError

    def strays(self) -> set[str]:
        """Hidden names beside the path."""
        if not self.path.parent.exists():
            return set()
        return {p.name for p in self.path.parent.iterdir() if p.name.startswith(f".{self.path.name}.")}


class AsFile(Kind):
    """The values, joined by newlines, in one file."""

    def write(self, tree: Tree) -> None:
        ours = store.begins_with_schema("test/")
        lines = [b'{"schema": "test/1"}', *(f"{name} ".encode() + content for name, content in tree.items())]
        store.write_file(self.path, (b"\n" + line if i else line for i, line in enumerate(lines)), ours=ours)

    def read(self) -> Tree | None:
        store.recover(self.path)
        if not self.path.exists():
            return None
        head, *lines = self.path.read_bytes().split(b"\n")
        assert head == b'{"schema": "test/1"}'
        return {name.decode(): content for name, _, content in (line.partition(b" ") for line in lines)}


class AsFolder(Kind):
    """A file for each value."""

    def write(self, tree: Tree) -> None:
        with store.folder(self.path) as folder:
            for name, content in tree.items():
                folder.write(name, [content])

    def read(self) -> Tree | None:
        store.recover(self.path)
        if not self.path.exists():
            return None
        assert store.manifest_problems(self.path) == []
        files = [p.relative_to(self.path).as_posix() for p in self.path.rglob("*") if p.is_file()]
        return read_files(self.path, [name for name in files if "manifest.json" not in name])


def read_files(path: Path, names: Iterable[str]) -> Tree:
    found = {}
    with store.reading(path) as open_file:
        for name in names:
            with open_file(name) as file:
                found[name] = file.read()
    return found


KINDS = pytest.mark.parametrize("kind", [AsFile, AsFolder])
Hook = Callable[[int, str, Callable[..., Any], tuple[Any, ...]], Any]
"""Called in place of each call: its number, its name, the call itself, its arguments."""


def hooked(hook: Hook) -> None:
    """From now on, in this process, every changing call goes through ``hook``."""
    count = iter(range(10**9))

    def wrap(name: str) -> None:
        real = getattr(disk, name)
        setattr(disk, name, lambda *arguments: hook(next(count), name, real, arguments))

    for name in CALLS:
        wrap(name)


def in_child(action: Callable[[], object], hook: Hook) -> int:
    """Run ``action`` in a forked process with the hook. 0 done, 4 OutputError, 130 interrupted, -9 killed."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        gc.disable()  # it would touch, and so copy, all that the parent has
        code = 99
        try:
            hooked(hook)
            action()
            code = 0
        except OutputError:
            code = 4
        except KeyboardInterrupt:
            code = 130
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def calls_of(action: Callable[[], object]) -> list[str]:
    """The names of the changing calls that ``action`` makes, in order (in a child)."""
    source, sink = os.pipe()

    def note(_: int, name: str, real: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        os.write(sink, f"{name} ".encode())
        return real(*arguments)

    assert in_child(action, note) == 0
    os.close(sink)
    with os.fdopen(source, "rb") as notes:
        return notes.read().decode().split()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_before(at: int) -> Hook:
    def hook(number: int, _: str, real: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if number == at:
            die()
        return real(*arguments)

    return hook


def kill_after(at: int) -> Hook:
    def hook(number: int, _: str, real: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        try:
            return real(*arguments)
        finally:
            if number == at:
                die()

    return hook


def kill_halfway(at: int) -> Hook:
    """Like ``kill_before``, but half of a write gets through."""

    def hook(number: int, name: str, real: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if number == at:
            if name == "write":
                os.write(arguments[0], arguments[1][: len(arguments[1]) // 2])
            die()
        return real(*arguments)

    return hook


def nothing(_: Kind) -> None:
    """No result yet, and its parent folders are missing as well."""


def old_result(result: Kind) -> None:
    result.write(OLD)


def cut_short(result: Kind) -> None:
    """A writer was killed before its last rename: the old folder stands aside, and nothing is in its place."""
    result.write(OLD)

    def hook(_: int, name: str, real: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if name == "rename" and arguments[1].name == result.path.name:
            die()
        return real(*arguments)

    assert in_child(partial(result.write, NEW), hook) == -signal.SIGKILL
    assert result.path.exists() == isinstance(result, AsFile)


BEFORE = pytest.mark.parametrize("before", [nothing, old_result, cut_short])


class Bench:
    """Fresh results in the same state, numbered, and the calls that writing ``NEW`` to one of them makes."""

    def __init__(self, folder: Path, kind: type[Kind], before: Callable[[Kind], None]) -> None:
        self._folder, self._kind, self._before = folder, kind, before
        self.was: Tree | None = None if before is nothing else OLD
        dry = self.fresh("dry")
        self.calls = calls_of(partial(dry.write, NEW))
        assert dry.read() == NEW
        self.commit = len(self.calls) - 1 - self.calls[::-1].index("rename")
        """The number of the call that puts the new result in its place."""

    def fresh(self, name: str) -> Kind:
        result = self._kind(self._folder / name / "results" / "mixed")
        self._before(result)
        return result

    def numbered(self, only: str | None = None) -> Iterator[tuple[int, str, Kind]]:
        """Each call's number, what it is for a message, and a fresh result to try it on."""
        for number, name in enumerate(self.calls):
            if only and name != only:
                continue
            yield number, f"{name}, call {number} of {len(self.calls)}", self.fresh(str(number))


@pytest.fixture
def bench(tmp_path: Path, kind: type[Kind], before: Callable[[Kind], None]) -> Bench:
    return Bench(tmp_path, kind, before)


def assert_next_write_is_clean(result: Kind, where: str) -> None:
    result.write(NEW)
    assert (result.read(), result.strays()) == (NEW, set()), where


@KINDS
@BEFORE
@pytest.mark.parametrize("kill", [kill_before, kill_halfway, kill_after])
def test_killed_at_every_call(bench: Bench, kill: Callable[[int], Hook]) -> None:
    only = "write" if kill is kill_halfway else None
    for number, where, result in bench.numbered(only):
        assert in_child(partial(result.write, NEW), kill(number)) == -signal.SIGKILL, where
        committed = number > bench.commit or (number == bench.commit and kill is kill_after)
        assert result.read() == (NEW if committed else bench.was), where
        assert_next_write_is_clean(result, where)


@KINDS
@pytest.mark.parametrize("before", [old_result])
def test_killed_at_every_call_and_written_again_unread(bench: Bench) -> None:
    for number, where, result in bench.numbered():
        in_child(partial(result.write, NEW), kill_before(number))
        assert_next_write_is_clean(result, where)


@KINDS
@pytest.mark.parametrize("before", [cut_short])
def test_a_reader_killed_at_every_call_of_its_recovery(bench: Bench) -> None:
    calls = calls_of(bench.fresh("read").read)
    for number, name in enumerate(calls):
        result = bench.fresh(f"read {number}")
        for kill in (kill_before, kill_after):
            in_child(result.read, kill(number))
        assert result.read() == OLD, name
        assert_next_write_is_clean(result, name)


def fail(error: int, *, first: int, last: int = 10**9, names: tuple[str, ...] = CALLS) -> Hook:
    """The calls of these names, from the first number to the last, fail with the error that a disk would give."""

    def hook(number: int, name: str, real: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if first <= number <= last and name in names:
            raise OSError(error, os.strerror(error))
        return real(*arguments)

    return hook


@KINDS
@BEFORE
def test_every_call_fails_once(bench: Bench) -> None:
    for number, where, result in bench.numbered():
        error = (errno.ENOSPC, errno.EIO, errno.EACCES)[number % 3]
        of_the_dead = result.strays()
        code = in_child(partial(result.write, NEW), fail(error, first=number, last=number))
        found, strays = result.read(), result.strays() - of_the_dead
        if number <= bench.commit and bench.calls[number] not in ("unlink", "rmdir"):
            assert (code, found, strays) == (4, bench.was, set()), where
            assert bench.was or not result.path.parent.exists(), f"{where}: parents stayed"
        elif bench.calls[number] == "fsync":  # of the folder, after the rename: a file can't go back, a folder can
            assert (code, found, strays) == (4, NEW if isinstance(result, AsFile) else bench.was, set()), where
        else:  # tidying up, before or after: no failure, and the next writer has another go
            assert (code, found) == (0, NEW), where
        assert_next_write_is_clean(result, where)


@KINDS
@BEFORE
def test_the_disk_is_full_from_one_call_on(bench: Bench) -> None:
    """What needs room fails for good; what doesn't works: nothing may be left behind."""
    for number, where, result in bench.numbered():
        full = fail(errno.ENOSPC, first=number, names=("create", "write", "mkdir", "fsync"))
        of_the_dead = result.strays()
        code = in_child(partial(result.write, NEW), full)
        found, strays = result.read(), result.strays() - of_the_dead
        assert found == NEW or (code, found, strays) == (4, bench.was, set()), where
        assert_next_write_is_clean(result, where)


@KINDS
@BEFORE
def test_the_disk_is_gone_from_one_call_on(bench: Bench) -> None:
    """Not even tidying up works any more, nor taking back a rename."""
    for number, where, result in bench.numbered():
        gone = fail(errno.EIO, first=number)
        code = in_child(partial(result.write, NEW), gone)
        assert code == (0 if result.read() == NEW and number > bench.commit + 1 else 4), where
        assert result.read() in (bench.was, NEW), where
        assert_next_write_is_clean(result, where)


def interrupt(at: int, *, after: bool) -> Hook:
    def hook(number: int, _: str, real: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if number == at and not after:
            raise KeyboardInterrupt
        try:
            answer = real(*arguments)
        except OSError:
            if number == at:
                raise KeyboardInterrupt from None
            raise
        if number == at:
            raise KeyboardInterrupt
        return answer

    return hook


@KINDS
@BEFORE
@pytest.mark.parametrize("after", [False, True])
def test_interrupted_at_every_call(bench: Bench, *, after: bool) -> None:
    for number, where, result in bench.numbered():
        of_the_dead = result.strays()
        code = in_child(partial(result.write, NEW), interrupt(number, after=after))
        assert code == 130, where
        found = result.read()
        assert found in (bench.was, NEW), where
        assert found == bench.was or number >= bench.commit, where
        if bench.was is None or number < bench.commit:
            assert not [name for name in result.strays() - of_the_dead if not name.endswith(".lock")], where
        assert_next_write_is_clean(result, where)


@KINDS
@BEFORE
def test_every_write_takes_one_byte(bench: Bench) -> None:
    def hook(_: int, name: str, real: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        return real(arguments[0], arguments[1][:1]) if name == "write" else real(*arguments)

    result = bench.fresh("short")
    assert in_child(partial(result.write, NEW), hook) == 0
    assert result.read() == NEW


# Several processes at once


def numbered_tree(number: int) -> Tree:
    """A result in which every file says the same: which one it is."""
    return {name: str(number).encode() * 100 for name in ("result.json", "fcfs/jobs", "chunked/jobs")}


def spawn(action: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return pid


def wait_for(pids: list[int]) -> None:
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0] * len(pids)


@KINDS
def test_a_reader_never_sees_a_mix(tmp_path: Path, kind: type[Kind]) -> None:
    result = kind(tmp_path / "mixed")
    result.write(numbered_tree(0))

    def write_for_a_while() -> None:
        end = time.monotonic() + 0.7
        number = 1
        while time.monotonic() < end:
            result.write(numbered_tree(number))
            number += 1

    pid = spawn(write_for_a_while)
    seen = set()
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        try:
            seen.add(frozenset(read_one(result).values()))
        except ResultError as error:
            assert "was replaced while it was being read" in str(error)  # noqa: PT017
    assert all(len(values) == 1 for values in seen)
    assert len(seen) > 1
    assert result.strays() == set()


def read_one(result: Kind) -> Tree:
    """As a program would read it, while it may be replaced at any moment."""
    if isinstance(result, AsFile):
        return result.read() or {}
    assert store.manifest_problems(result.path) == []
    return read_files(result.path, numbered_tree(0))


@KINDS
def test_many_writers_at_once(tmp_path: Path, kind: type[Kind]) -> None:
    """Each writes in full or is told at once that another one does. The parents are missing at first."""
    result = kind(tmp_path / "a" / "b" / "mixed")

    def write_thrice(number: int) -> None:
        written = 0
        while written < 3:
            try:
                result.write(numbered_tree(number))
                written += 1
            except OutputError as error:
                assert "is being written by" in str(error) or "changes hands" in str(error)  # noqa: PT017
                time.sleep(0.001)

    wait_for([spawn(partial(write_thrice, number)) for number in range(4)])
    values = set((result.read() or {}).values())
    assert len(values) == 1
    assert result.strays() == set()


def test_runs_that_share_a_missing_parent(tmp_path: Path) -> None:
    """One checks and takes the parent away again, while the other is about to write there."""

    def check_and_write(number: int) -> None:
        for turn in range(20):
            path = tmp_path / str(turn) / "results" / str(number)
            store.check_writable(path, "folder")
            AsFolder(path).write(NEW)

    wait_for([spawn(partial(check_and_write, number)) for number in range(4)])
    for path in tmp_path.glob("*/results/*"):
        assert AsFolder(path).read() == NEW
    assert len(list(tmp_path.glob("*/results/*"))) == 80


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A path, and the process that is writing there until it is killed."""
    path = tmp_path / "mixed"
    source, sink = os.pipe()

    def hold() -> None:
        with store.folder(path) as folder:
            folder.write("half", [b"x"])
            os.write(sink, b"!")
            time.sleep(60)

    pid = spawn(hold)
    assert select.select([source], [], [], 20)[0]
    yield path, pid
    os.close(source)
    os.close(sink)
    if pid_is_ours(pid):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def pid_is_ours(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return False


def test_a_second_writer_is_told_who_writes(holder: tuple[Path, int]) -> None:
    path, pid = holder
    attempts: list[Callable[[], None]] = [
        partial(AsFolder(path).write, NEW),
        partial(store.check_writable, path, "folder"),
    ]
    for attempt in attempts:
        with pytest.raises(OutputError, match=rf"mixed: is being written by process {pid} since \d{{4}}-\d\d-\d\dT"):
            attempt()
    assert AsFolder(path).read() is None


def test_the_lock_of_a_killed_writer_is_no_obstacle(holder: tuple[Path, int]) -> None:
    path, pid = holder
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert len(AsFolder(path).strays()) == 2, "its lock, and the folder it was building"
    assert_next_write_is_clean(AsFolder(path), "")


def test_a_reader_waits_for_a_writer_between_its_renames(tmp_path: Path) -> None:
    result = AsFolder(tmp_path / "mixed")
    result.write(OLD)
    source, sink = os.pipe()

    def hook(_: int, name: str, real: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if name == "rename" and arguments[1] == result.path:
            os.write(sink, b"!")
            time.sleep(0.2)
        return real(*arguments)

    def write_slowly() -> None:
        hooked(hook)
        result.write(NEW)

    pid = spawn(write_slowly)
    assert select.select([source], [], [], 20)[0]
    assert not result.path.exists()
    assert result.read() == NEW
    wait_for([pid])
    os.close(source)
    os.close(sink)


def test_a_reader_does_not_wait_for_ever(tmp_path: Path) -> None:
    result = AsFolder(tmp_path / "mixed")
    result.write(OLD)
    source, sink = os.pipe()

    def hook(_: int, name: str, real: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if name == "rename" and arguments[1] == result.path:
            os.write(sink, b"!")
            time.sleep(60)
        return real(*arguments)

    def stop_between() -> None:
        hooked(hook)
        result.write(NEW)

    pid = spawn(stop_between)
    assert select.select([source], [], [], 20)[0]
    began = time.monotonic()
    assert result.read() is None
    assert 0.5 < time.monotonic() - began < 10
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert result.read() == OLD
    os.close(source)
    os.close(sink)
