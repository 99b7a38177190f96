"""Results on disk: what may be written where, what a folder's manifest says, who gives way to whom."""
# How whole blocks fail, and that some do so at their very end, is what is tested here:
# ruff: noqa: PT012, SIM117

import errno
import hashlib
import json
import os
import re
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sim.errors import OutputError, ResultError
from sim.record import disk, lock, manifest, store
from sim.record.place import Kind

OURS = store.begins_with_schema("test.result/")
RESULT = b'{"schema": "test.result/1", "runs": []}'
not_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")


def tree(path: Path) -> dict[str, bytes]:
    """All files below a folder, hidden ones too."""
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def write_folder(path: Path, **files: bytes) -> None:
    """A folder of these files; ``fcfs_jobs`` stands for "fcfs/jobs"."""
    with store.folder(path) as folder:
        for name, content in files.items():
            folder.write(name.replace("_", "/"), [content])


# A file


def test_a_file_holds_its_chunks_and_nothing_else_is_left(tmp_path: Path) -> None:
    store.write_file(tmp_path / "r.json", [b'{"schema"', b"", b": 1}\n"], ours=OURS)
    assert tree(tmp_path) == {"r.json": b'{"schema": 1}\n'}


def test_a_file_of_no_chunks_is_empty(tmp_path: Path) -> None:
    store.write_file(tmp_path / "r.json", [], ours=OURS)
    assert tree(tmp_path) == {"r.json": b""}


def test_missing_parents_are_created(tmp_path: Path) -> None:
    store.write_file(tmp_path / "a" / "b" / "r.json", [b"x"], ours=OURS)
    assert tree(tmp_path) == {"a/b/r.json": b"x"}


def test_a_relative_path_counts_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store.write_file(Path("r.json"), [b"x"], ours=OURS)
    write_folder(Path("mixed"), a=b"1")
    assert sorted(tree(tmp_path)) == ["mixed/a", "mixed/manifest.json", "r.json"]


def test_others_may_read_as_far_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        store.write_file(tmp_path / "r.json", [b"x"], ours=OURS)
        write_folder(tmp_path / "mixed", a=b"1")
    finally:
        os.umask(before)
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("r.json", "mixed", "mixed/a")}
    assert modes == {"r.json": 0o640, "mixed": 0o750, "mixed/a": 0o640}


def test_small_chunks_are_gathered_into_few_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def write(fd: int, data: memoryview) -> int:
        sizes.append(len(data))
        return os.write(fd, data)

    monkeypatch.setattr(disk, "write", write)
    store.write_file(tmp_path / "r.json", (b"0123456789" for _ in range(250_000)), ours=OURS)
    of_the_lock, *rest = sizes
    assert of_the_lock < 100
    assert rest == [1_048_580, 1_048_580, 402_840]
    assert (tmp_path / "r.json").stat().st_size == 2_500_000


def test_a_result_of_ours_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_bytes(RESULT)
    store.write_file(tmp_path / "r.json", [b"new"], ours=OURS)
    assert tree(tmp_path) == {"r.json": b"new"}


@pytest.mark.parametrize(
    ("content", "ours"),
    [
        (RESULT, True),
        (b' {\n "schema" :\t"test.result/22"', True),
        (b'{"schema": "test.results"}', False),
        (b'{"runs": [], "schema": "test.result/1"}', False),
        (b'\xef\xbb\xbf{"schema": "test.result/1"}', False),
        (b'[{"schema": "test.result/1"}]', False),
        (b"", False),
        (b"my notes", False),
    ],
)
def test_a_result_is_known_by_how_it_begins(tmp_path: Path, content: bytes, ours: bool) -> None:
    (tmp_path / "r.json").write_bytes(content)
    assert OURS(tmp_path / "r.json") is ours


def make_file(path: Path) -> None:
    path.write_bytes(b"my notes")


def make_folder(path: Path) -> None:
    path.mkdir()
    (path / "thesis.tex").write_bytes(b"years of work")


def make_link(path: Path) -> None:
    (path.parent / "elsewhere").write_bytes(RESULT)
    path.symlink_to("elsewhere")


def make_dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def make_loop(path: Path) -> None:
    path.symlink_to(path.name)


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the names of sockets must be short
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(here)


def make_foreign_manifest(path: Path) -> None:
    path.mkdir()
    (path / "manifest.json").write_bytes(b'{"name": "a web page", "files": {}}')


def make_skeleton(path: Path) -> None:
    (path / "for later").mkdir(parents=True)


def make_unfinished(path: Path) -> None:
    path.mkdir()
    (path / "manifest.json").write_bytes(b'{"schema": "headway.folder/1", "complete": false, "files": {}}')


def make_newer(path: Path) -> None:
    path.mkdir()
    (path / "manifest.json").write_bytes(b'{"schema": "headway.folder/2", "complete": true, "files": {}}')


def make_result_with_notes(path: Path) -> None:
    write_folder(path, a=b"1", fcfs_jobs=b"2")
    (path / "fcfs" / "notes.txt").write_bytes(b"what I think of it")


def make_result_with_a_link(path: Path) -> None:
    write_folder(path, a=b"1")
    (path / "figures").symlink_to("/")


REFUSED: list[tuple[Kind, Callable[[Path], None], str]] = [
    ("file", make_file, "exists and is not a result of ours; it is left as it is"),
    ("file", make_folder, "is a folder, not a file"),
    ("file", make_link, "is a symbolic link (to elsewhere); name the file itself"),
    ("file", make_dangling, "is a symbolic link (to nowhere); name the file itself"),
    ("file", make_loop, "is a symbolic link (to out); name the file itself"),
    ("file", make_pipe, "exists and is not a regular file"),
    ("file", make_socket, "exists and is not a regular file"),
    ("folder", make_file, "exists and is not a folder"),
    ("folder", make_link, "exists and is not a folder"),
    ("folder", make_dangling, "is a symbolic link to nothing (@/nowhere)"),
    ("folder", make_loop, "is a symbolic link (to out); name the folder itself"),
    ("folder", make_pipe, "exists and is not a folder"),
    ("folder", make_folder, "is not a result folder of ours (it has no manifest.json); it is left as it is"),
    ("folder", make_skeleton, "is not a result folder of ours (it has no manifest.json); it is left as it is"),
    (
        "folder",
        make_foreign_manifest,
        "is not a result folder of ours (its manifest.json is not one of ours); it is left as it is",
    ),
    (
        "folder",
        make_unfinished,
        "is not a result folder of ours (its manifest.json is not that of a complete result); it is left as it is",
    ),
    (
        "folder",
        make_newer,
        (
            "is not a result folder of ours (its manifest.json is of the schema 'headway.folder/2'; this version reads "
            "'headway.folder/1'); it is left as it is"
        ),
    ),
    ("folder", make_result_with_notes, "holds 'fcfs/notes.txt', not part of the result; move it elsewhere first"),
    ("folder", make_result_with_a_link, "holds 'figures', not part of the result; move it elsewhere first"),
]


@pytest.mark.parametrize(("kind", "make", "why"), REFUSED)
def test_what_is_not_ours_is_refused_and_left(
    tmp_path: Path, kind: Kind, make: Callable[[Path], None], why: str
) -> None:
    path = tmp_path / "out"
    make(path)
    before = sorted(tmp_path.rglob("*")), tree(tmp_path)
    expected = f"{path}: {why.replace('@', str(tmp_path))}"
    with pytest.raises(OutputError) as checked:
        store.check_writable(path, kind, ours=OURS)
    with pytest.raises(OutputError) as written:
        if kind == "file":
            store.write_file(path, [b"new"], ours=OURS)
        else:
            write_folder(path, a=b"new")
    assert (str(checked.value), str(written.value)) == (expected, expected)
    assert (sorted(tmp_path.rglob("*")), tree(tmp_path)) == before


def test_a_second_stranger_is_counted(tmp_path: Path) -> None:
    make_result_with_notes(tmp_path / "mixed")
    (tmp_path / "mixed" / "why.md").write_bytes(b"?")
    with pytest.raises(OutputError, match=r"holds 'fcfs/notes\.txt' and 1 more, not part of the result"):
        store.check_writable(tmp_path / "mixed", "folder")


KINDS = pytest.mark.parametrize("kind", ["file", "folder"])
NUL = r"\bnull (byte|character)\b"  # in the words of whichever Python


def assert_refused(path: Path, kind: Kind, match: str) -> None:
    """Both before a run and after it."""
    with pytest.raises(OutputError, match=match):
        store.check_writable(path, kind, ours=OURS)
    with pytest.raises(OutputError, match=match):
        if kind == "file":
            store.write_file(path, [b"new"], ours=OURS)
        else:
            write_folder(path, a=b"new")


@KINDS
def test_a_path_below_a_file_is_refused(tmp_path: Path, kind: Kind) -> None:
    (tmp_path / "file").write_bytes(b"x")
    assert_refused(tmp_path / "file" / "out", kind, "Not a directory")
    assert_refused(tmp_path / "file" / "a" / "out", kind, "Not a directory")
    assert tree(tmp_path) == {"file": b"x"}


@KINDS
@pytest.mark.parametrize("path", ["n" * 300, "a/b/" + "n" * 250, "a/" + "n" * 300 + "/b"])
def test_a_name_too_long_is_refused_and_leaves_no_parents(tmp_path: Path, kind: Kind, path: str) -> None:
    assert_refused(tmp_path / path, kind, "File name too long")
    assert list(tmp_path.iterdir()) == []


@KINDS
def test_a_nul_in_the_path_is_refused(tmp_path: Path, kind: Kind) -> None:
    assert_refused(tmp_path / "a\0b", kind, NUL)


@KINDS
@pytest.mark.parametrize("path", ["/", "..", "x/.."])
def test_a_path_without_a_name_is_refused(
    tmp_path: Path, kind: Kind, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_refused(Path(path), kind, "can't be replaced")


@KINDS
def test_a_path_in_a_deleted_folder_is_refused(tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert_refused(Path("out"), kind, "No such file or directory")


@not_root
@KINDS
def test_a_folder_that_can_not_be_written_is_refused(tmp_path: Path, kind: Kind) -> None:
    (tmp_path / "locked").mkdir(mode=0o555)
    assert_refused(tmp_path / "locked" / "out", kind, "Permission denied")
    assert_refused(tmp_path / "locked" / "a" / "out", kind, "Permission denied")


@KINDS
def test_a_disk_that_takes_nothing_is_found_before_the_run(
    tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(path: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(disk, "mkdir", read_only)
    with pytest.raises(OutputError, match="Read-only file system; what was there before is untouched"):
        store.check_writable(tmp_path / "out", kind)
    assert list(tmp_path.iterdir()) == []


@KINDS
def test_nothing_is_written_into_a_result_folder(tmp_path: Path, kind: Kind) -> None:
    write_folder(tmp_path / "mixed", fcfs_jobs=b"1")
    before = tree(tmp_path)
    for path in ("mixed/out", "mixed/fcfs", "mixed/fcfs/out", "mixed/a/b/out"):
        assert_refused(tmp_path / path, kind, "is inside the result folder .*mixed.*, which would no longer be whole")
    assert tree(tmp_path) == before
    assert not (tmp_path / "mixed" / "a").exists()


@KINDS
def test_the_check_leaves_nothing_behind(tmp_path: Path, kind: Kind) -> None:
    store.check_writable(tmp_path / "out", kind)
    store.check_writable(tmp_path / "a" / "b" / "out", kind)
    assert list(tmp_path.iterdir()) == []


def test_the_check_accepts_what_may_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_bytes(RESULT)
    write_folder(tmp_path / "mixed", a=b"1")
    (tmp_path / "empty").mkdir()
    before = tree(tmp_path)
    store.check_writable(tmp_path / "r.json", "file", ours=OURS)
    store.check_writable(tmp_path / "mixed", "folder")
    store.check_writable(tmp_path / "empty", "folder")
    assert tree(tmp_path) == before


def test_a_parent_that_another_run_takes_away_is_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had created the parent for its own check, and removes it just before we would take our lock in there."""
    real, turns = disk.make_parents, iter([True, True, False])

    def make_parents(path: Path, created: list[Path]) -> None:
        real(path, created)
        if next(turns):
            path.parent.rmdir()

    monkeypatch.setattr(disk, "make_parents", make_parents)
    store.write_file(tmp_path / "results" / "r.json", [b"x"], ours=OURS)
    assert tree(tmp_path) == {"results/r.json": b"x"}


def test_a_file_that_came_to_be_meanwhile_is_left(tmp_path: Path) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"new"
        (tmp_path / "r.json").write_bytes(b"my notes")

    with pytest.raises(OutputError, match="is not a result of ours"):
        store.write_file(tmp_path / "r.json", chunks(), ours=OURS)
    assert tree(tmp_path) == {"r.json": b"my notes"}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_chunks_that_raise_leave_the_old_file(tmp_path: Path, error: type[BaseException]) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"n" * 3_000_000
        raise error

    (tmp_path / "r.json").write_bytes(RESULT)
    with pytest.raises(error):
        store.write_file(tmp_path / "r.json", chunks(), ours=OURS)
    assert tree(tmp_path) == {"r.json": RESULT}


def test_an_error_of_the_chunks_is_not_taken_for_one_of_the_disk(tmp_path: Path) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"new"
        raise FileNotFoundError(errno.ENOENT, "another file")

    with pytest.raises(FileNotFoundError, match="another file"):
        store.write_file(tmp_path / "a" / "r.json", chunks(), ours=OURS)
    assert list(tmp_path.iterdir()) == [], "the parent that was created is gone as well"


# What messages say


def failing(error: int) -> Callable[..., int]:
    def call(*_: object) -> int:
        raise OSError(error, os.strerror(error))

    return call


def fail_after_signing(monkeypatch: pytest.MonkeyPatch, name: str, error: int) -> None:
    """The call fails, except for the lock's own signature."""
    real = getattr(disk, name)
    calls = iter(range(1000))
    skipped = 1 if name == "write" else 0
    monkeypatch.setattr(disk, name, lambda *a: real(*a) if next(calls) < skipped else failing(error)(*a))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        ("write", errno.ENOSPC, "write fcfs/jobs (4 bytes after 0): No space left on device"),
        ("fsync", errno.EIO, "fsync fcfs/jobs: Input/output error"),
    ],
)
def test_a_failure_names_file_step_and_reason(
    tmp_path: Path, call: str, error: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "mixed", fcfs_jobs=b"old")
    before = tree(tmp_path)
    fail_after_signing(monkeypatch, call, error)
    with pytest.raises(OutputError) as caught:
        write_folder(tmp_path / "mixed", fcfs_jobs=b"new!")
    assert str(caught.value) == f"{tmp_path}/mixed: {text}; what was there before is untouched"
    assert caught.value.exit_code == 4
    assert tree(tmp_path) == before


def test_a_failed_rename_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "rename", failing(errno.EIO))
    with pytest.raises(OutputError, match=r"rename \.r\.json\.new-\d+-\w+ to r\.json: Input/output error; what was"):
        store.write_file(tmp_path / "r.json", [b"x"], ours=OURS)
    assert list(tmp_path.iterdir()) == []


def test_a_file_whose_folder_can_not_be_flushed_is_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "fsync_folder", failing(errno.EIO))
    with pytest.raises(OutputError, match="the new result is whole and in place, but may not outlast a power cut"):
        store.write_file(tmp_path / "r.json", [b"x"], ours=OURS)
    assert tree(tmp_path) == {"r.json": b"x"}


@pytest.mark.parametrize("error", [errno.EINVAL, errno.ENOTSUP])
def test_file_systems_that_can_not_flush_folders_will_do(
    tmp_path: Path, error: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = disk.fsync
    monkeypatch.setattr(disk, "fsync", lambda fd: failing(error)() if stat.S_ISDIR(os.fstat(fd).st_mode) else real(fd))
    write_folder(tmp_path / "mixed", a=b"1")
    assert store.manifest_problems(tmp_path / "mixed") == []


def test_a_swap_that_can_not_be_undone_says_where_the_old_result_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mixed"
    write_folder(path, a=b"old")
    real, calls = disk.rename, iter(range(100))
    with monkeypatch.context() as patched:
        patched.setattr(disk, "rename", lambda *a: real(*a) if next(calls) == 0 else failing(errno.EIO)(*a))
        with pytest.raises(OutputError) as caught:
            write_folder(path, a=b"new")
        [old] = disk.leftovers(path)
        assert f"untouched, but is called {old.name} until the next run or reader puts it back" in str(caught.value)
        with pytest.raises(ResultError, match=f"the previous result stands beside it as {old.name} and can't be put"):
            store.recover(path)
    store.recover(path)
    assert tree(path)["a"] == b"old"


def test_a_message_is_one_line_whatever_the_path(tmp_path: Path) -> None:
    path = tmp_path / "two\nlines"
    path.write_bytes(b"my notes")
    with pytest.raises(OutputError) as caught:
        store.check_writable(path, "file")
    assert "\n" not in str(caught.value)
    assert r"two\nlines" in str(caught.value)


def test_a_write_that_takes_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "write", lambda *_: 0)
    with pytest.raises(OutputError, match="nothing more was written"):
        store.write_file(tmp_path / "r.json", [b"x"], ours=OURS)
    assert list(tmp_path.iterdir()) == []


# A folder


def entry(content: bytes) -> dict[str, object]:
    return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


def test_a_folder_and_its_manifests(tmp_path: Path) -> None:
    with store.folder(tmp_path / "mixed") as folder:
        folder.write("result.json", [b"re", b"sult"])
        folder.write("fcfs/jobs", [b"jobs"])
        folder.write("fcfs/a", [])
        assert not (tmp_path / "mixed").exists(), "nothing is there before all is"
    found = tree(tmp_path / "mixed")
    inner = {"schema": "headway.folder/1", "complete": True, "files": {"a": entry(b""), "jobs": entry(b"jobs")}}
    outer = {
        "schema": "headway.folder/1",
        "complete": True,
        "files": {
            "fcfs/a": entry(b""),
            "fcfs/jobs": entry(b"jobs"),
            "fcfs/manifest.json": entry(found["fcfs/manifest.json"]),
            "result.json": entry(b"result"),
        },
    }
    assert list(found) == ["fcfs/a", "fcfs/jobs", "fcfs/manifest.json", "manifest.json", "result.json"]
    assert (json.loads(found["fcfs/manifest.json"]), json.loads(found["manifest.json"])) == (inner, outer)
    assert list(json.loads(found["manifest.json"])["files"]) == sorted(outer["files"])  # type: ignore[call-overload]
    assert [p.name for p in tmp_path.iterdir()] == ["mixed"]


def test_the_order_of_writing_leaves_no_trace(tmp_path: Path) -> None:
    write_folder(tmp_path / "1", a=b"1", b=b"2", fcfs_jobs=b"3")
    write_folder(tmp_path / "2", fcfs_jobs=b"3", b=b"2", a=b"1")
    assert tree(tmp_path / "1") == tree(tmp_path / "2")


def test_a_subfolder_stands_on_its_own(tmp_path: Path) -> None:
    write_folder(tmp_path / "mixed", a=b"1", fcfs_jobs=b"2")
    assert store.manifest_problems(tmp_path / "mixed" / "fcfs") == []
    (tmp_path / "mixed" / "fcfs").rename(tmp_path / "moved")
    assert store.manifest_problems(tmp_path / "moved") == []
    write_folder(tmp_path / "moved", b=b"3")
    assert sorted(tree(tmp_path / "moved")) == ["b", "manifest.json"]


def test_a_folder_without_files_is_whole(tmp_path: Path) -> None:
    write_folder(tmp_path / "mixed")
    assert store.manifest_problems(tmp_path / "mixed") == []


def test_an_old_result_is_replaced_whole(tmp_path: Path) -> None:
    write_folder(tmp_path / "mixed", a=b"1", static_jobs=b"2")
    write_folder(tmp_path / "mixed", b=b"3", fcfs_jobs=b"4")
    names = ["b", "fcfs/jobs", "fcfs/manifest.json", "manifest.json"]
    assert sorted(tree(tmp_path / "mixed")) == names
    assert sorted(p.name for p in (tmp_path / "mixed").iterdir()) == ["b", "fcfs", "manifest.json"]
    assert [p.name for p in tmp_path.iterdir()] == ["mixed"]


def test_a_damaged_result_of_ours_is_replaced_as_well(tmp_path: Path) -> None:
    write_folder(tmp_path / "mixed", a=b"1", b=b"2")
    (tmp_path / "mixed" / "a").unlink()
    (tmp_path / "mixed" / "b").write_bytes(b"changed")
    write_folder(tmp_path / "mixed", c=b"3")
    assert sorted(tree(tmp_path / "mixed")) == ["c", "manifest.json"]


@pytest.mark.parametrize("litter", [".DS_Store", "._a", "Thumbs.db", "desktop.ini", "fcfs/.DS_Store", ".nfs0001"])
def test_litter_of_the_system_is_no_obstacle(tmp_path: Path, litter: str) -> None:
    path = tmp_path / "mixed"
    write_folder(path, a=b"1", fcfs_jobs=b"2")
    (path / litter).write_bytes(b"icon positions")
    assert store.manifest_problems(path) == []
    write_folder(path, b=b"3")
    assert sorted(tree(path)) == ["b", "manifest.json"]


@pytest.mark.parametrize("litter", [None, ".DS_Store"])
def test_an_empty_folder_is_replaced(tmp_path: Path, litter: str | None) -> None:
    (tmp_path / "mixed").mkdir()
    if litter:
        (tmp_path / "mixed" / litter).write_bytes(b"icon positions")
    write_folder(tmp_path / "mixed", a=b"1")
    assert sorted(tree(tmp_path)) == ["mixed/a", "mixed/manifest.json"]


def test_through_a_link_to_a_folder_the_folder_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "link").symlink_to("far/away")
    write_folder(tmp_path / "link", a=b"1")
    write_folder(tmp_path / "link", a=b"2")
    assert (tmp_path / "link").readlink() == Path("far/away")
    assert (tmp_path / "far" / "away" / "a").read_bytes() == b"2"
    assert [p.name for p in (tmp_path / "far").iterdir()] == ["away"]


@pytest.mark.parametrize("inside", [".", "fcfs"])
def test_the_current_folder_is_not_pulled_away(tmp_path: Path, inside: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path / "mixed", fcfs_jobs=b"1")
    monkeypatch.chdir(tmp_path / "mixed" / inside)
    assert_refused(tmp_path / "mixed", "folder", "is or holds the current folder")


def test_a_mount_point_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path) == tmp_path / "out")
    assert_refused(tmp_path / "out", "folder", "is a mount point, which can't be replaced; name a folder in it")


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "/",
        "/a",
        "a/",
        "../a",
        "a/..",
        "a/b/c",
        "a\0b",
        "a b",
        "a\n",
        "é",
        "x" * 101,
        "manifest.json",
        "fcfs/manifest.json",
        "manifest.json/jobs",
    ],
)
def test_names_that_a_result_can_not_have(tmp_path: Path, name: str) -> None:
    with (
        pytest.raises(OutputError, match="can't be the name of a file in a result folder"),
        store.folder(tmp_path / "mixed") as folder,
    ):
        folder.write(name, [b"x"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("first", "second"), [("a", "a"), ("a", "a/b"), ("a/b", "a"), ("a/b", "a/b")])
def test_two_files_can_not_share_a_name(tmp_path: Path, first: str, second: str) -> None:
    with pytest.raises(OutputError, match="File exists"), store.folder(tmp_path / "mixed") as folder:
        folder.write(first, [b"1"])
        folder.write(second, [b"2"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_block_that_raises_changes_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    write_folder(tmp_path / "mixed", a=b"old")
    before = tree(tmp_path)
    with pytest.raises(error), store.folder(tmp_path / "mixed") as folder, folder.open("fcfs/jobs") as file:
        file.write(b"n" * 3_000_000)
        raise error
    assert tree(tmp_path) == before
    with pytest.raises(error), store.folder(tmp_path / "a" / "b" / "new") as folder:
        folder.write("fcfs/jobs", [b"1"])
        raise error
    assert tree(tmp_path) == before
    assert not (tmp_path / "a").exists()


def test_a_failure_that_the_block_swallows_still_fails_it(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="a was not written to its end; nothing was replaced"):
        with store.folder(tmp_path / "mixed") as folder:
            folder.write("b", [b"fine"])
            try:
                with folder.open("a"):
                    raise ValueError
            except ValueError:
                pass
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_failed_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody between us and the disk catches the error, and goes on writing when there is room again."""
    with (
        pytest.raises(OutputError, match="write a: an earlier write to it failed"),
        store.folder(tmp_path / "mixed") as folder,
        folder.open("a") as file,
    ):
        with monkeypatch.context() as patched:
            patched.setattr(disk, "write", failing(errno.ENOSPC))
            with pytest.raises(OutputError, match="No space left"):
                file.write(b"x" * 2_000_000)
        file.write(b"the rest")
    assert list(tmp_path.iterdir()) == []


def test_several_files_are_open_at_once(tmp_path: Path) -> None:
    with store.folder(tmp_path / "mixed") as folder, folder.open("a") as a, folder.open("fcfs/b") as b:
        for _ in range(3):
            a.write(b"a")
            b.write(b"b")
    assert (tmp_path / "mixed" / "a").read_bytes() == b"aaa"
    assert (tmp_path / "mixed" / "fcfs" / "b").read_bytes() == b"bbb"


def test_a_file_takes_all_that_is_bytes_and_counts_it(tmp_path: Path) -> None:
    with store.folder(tmp_path / "mixed") as folder, folder.open("a") as file:
        sizes = [file.write(memoryview(b"abcdefgh").cast("I")), file.write(bytearray(b"ij")), file.write(b"")]
        assert (sizes, file.tell(), file.writable(), file.readable(), file.seekable()) == (
            [8, 2, 0],
            10,
            True,
            False,
            False,
        )
    assert (tmp_path / "mixed" / "a").read_bytes() == b"abcdefghij"


def test_a_file_is_closed_after_its_block(tmp_path: Path) -> None:
    with store.folder(tmp_path / "mixed") as folder:
        with folder.open("a") as file:
            file.write(b"x")
        with pytest.raises(ValueError, match="a is closed"):
            file.write(b"y")
    assert store.manifest_problems(tmp_path / "mixed") == []


def test_pyarrow_writes_its_tables_into_it(tmp_path: Path) -> None:
    table = pa.table({"arrival_ns": list(range(300_000)), "id": [str(i) for i in range(300_000)]})
    with store.folder(tmp_path / "mixed") as folder, folder.open("fcfs/requests.parquet") as file:
        with pq.ParquetWriter(file, table.schema) as writer:
            for batch in table.to_batches(100_000):
                writer.write_batch(batch)
    assert store.manifest_problems(tmp_path / "mixed") == []
    assert pq.read_table(tmp_path / "mixed" / "fcfs" / "requests.parquet") == table
    with store.reading(tmp_path / "mixed") as open_file, open_file("fcfs/requests.parquet") as read:
        assert pq.read_table(read) == table


def test_a_full_disk_stops_pyarrow_with_our_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"arrival_ns": list(range(300_000))})
    with pytest.raises(OutputError, match=r"write jobs\.parquet .*: No space left on device"):
        with store.folder(tmp_path / "mixed") as folder:
            monkeypatch.setattr(disk, "write", failing(errno.ENOSPC))
            with folder.open("jobs.parquet") as file:
                pq.write_table(table, file)
    assert list(tmp_path.iterdir()) == []


def test_notes_put_there_during_the_run_are_left(tmp_path: Path) -> None:
    path = tmp_path / "mixed"
    write_folder(path, a=b"1")
    with pytest.raises(OutputError, match=r"holds 'notes\.txt'"), store.folder(path) as folder:
        folder.write("a", [b"2"])
        (path / "notes.txt").write_bytes(b"!")
    assert (path / "a").read_bytes() == b"1"
    assert [p.name for p in tmp_path.iterdir()] == ["mixed"]


# After a crash


def put_aside(path: Path, suffix: str = "1-00000000") -> Path:
    """What a writer leaves that is killed between its two renames."""
    aside = path.with_name(f".{path.name}.old-{suffix}")
    path.rename(aside)
    return aside


def test_the_old_folder_is_put_back(tmp_path: Path) -> None:
    write_folder(tmp_path / "mixed", a=b"1", fcfs_jobs=b"2")
    before = tree(tmp_path)
    put_aside(tmp_path / "mixed")
    store.recover(tmp_path / "mixed")
    assert tree(tmp_path) == before


def test_who_reads_a_part_of_it_gets_it_back_as_well(tmp_path: Path) -> None:
    write_folder(tmp_path / "mixed", fcfs_jobs=b"2")
    put_aside(tmp_path / "mixed")
    assert store.manifest_problems(tmp_path / "mixed" / "fcfs") == []


def test_it_is_put_back_behind_a_link(tmp_path: Path) -> None:
    write_folder(tmp_path / "far" / "mixed", a=b"1")
    (tmp_path / "link").symlink_to("far/mixed")
    put_aside(tmp_path / "far" / "mixed")
    assert store.manifest_problems(tmp_path / "link") == []
    put_aside(tmp_path / "far" / "mixed")
    write_folder(tmp_path / "link", a=b"2")
    assert (tmp_path / "far" / "mixed" / "a").read_bytes() == b"2"


def test_the_check_before_a_run_puts_it_back(tmp_path: Path) -> None:
    write_folder(tmp_path / "mixed", a=b"1")
    put_aside(tmp_path / "mixed")
    store.check_writable(tmp_path / "mixed", "folder")
    assert store.manifest_problems(tmp_path / "mixed") == []


def test_of_several_the_latest_is_put_back(tmp_path: Path) -> None:
    for number, token in enumerate(["9-00000000", "1-ffffffff", "5-00000000"]):
        write_folder(tmp_path / "other", a=str(number).encode())
        os.utime(tmp_path / "other" / "manifest.json", ns=(0, [10, 30, 20][number]))
        (tmp_path / "other").rename(tmp_path / f".mixed.old-{token}")
    store.recover(tmp_path / "mixed")
    assert (tmp_path / "mixed" / "a").read_bytes() == b"1"
    write_folder(tmp_path / "mixed", a=b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["mixed"]


def test_a_folder_half_removed_is_not_put_back_but_swept(tmp_path: Path) -> None:
    write_folder(tmp_path / "mixed", a=b"1", b=b"2")
    (put_aside(tmp_path / "mixed") / "a").unlink()
    store.recover(tmp_path / "mixed")
    assert not (tmp_path / "mixed").exists()
    write_folder(tmp_path / "mixed", c=b"3")
    assert [p.name for p in tmp_path.iterdir()] == ["mixed"]


def test_the_manifest_is_the_first_to_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what is left of a folder half removed does not look whole."""
    removed = []

    def unlink(path: Path) -> None:
        removed.append(path.relative_to(tmp_path / "mixed").as_posix())
        path.unlink()

    write_folder(tmp_path / "mixed", a=b"1", fcfs_jobs=b"2")
    monkeypatch.setattr(disk, "unlink", unlink)
    disk.remove(tmp_path / "mixed")
    assert removed == ["manifest.json", "a", "fcfs/manifest.json", "fcfs/jobs"]


def test_a_reader_sweeps_nothing(tmp_path: Path) -> None:
    write_folder(tmp_path / "mixed", a=b"1")
    put_aside(tmp_path / "mixed")
    write_folder(tmp_path / "other", a=b"2")
    (tmp_path / "other").rename(tmp_path / "mixed")
    (tmp_path / ".mixed.new-1-00000000").mkdir()
    before = sorted(tmp_path.rglob("*"))
    store.recover(tmp_path / "mixed")
    assert store.manifest_problems(tmp_path / "mixed") == []
    assert sorted(tmp_path.rglob("*")) == before


def test_what_only_looks_like_ours_is_not_swept(tmp_path: Path) -> None:
    """Least of all the folder that a writer of "mixed.new-1" is building."""
    names = [
        ".mixed.new-1.new-2-00000000",
        ".mixed.new-x",
        ".mixed.old",
        ".Mixed.new-1-00000000",
        ".mixed2.new-1-00000000",
    ]
    for name in names:
        (tmp_path / name).mkdir()
    write_folder(tmp_path / "mixed", a=b"1")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*names, "mixed"])


def test_recovery_of_what_is_not_there_does_nothing(tmp_path: Path) -> None:
    store.recover(tmp_path / "a" / "b")
    store.recover(tmp_path / "mixed")
    assert list(tmp_path.iterdir()) == []


# The lock


def lock_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


@KINDS
def test_a_second_writer_is_refused_at_once(tmp_path: Path, kind: Kind) -> None:
    path = tmp_path / "out"
    with lock.hold(path):
        text = lock_of(path).read_text()
        assert_refused(path, kind, rf"out: is being written by {re.escape(text.strip())} \(\.out\.lock\)")
    assert list(tmp_path.iterdir()) == []


def test_different_paths_do_not_meet(tmp_path: Path) -> None:
    with store.folder(tmp_path / "1") as one, store.folder(tmp_path / "2") as two:
        one.write("a", [b"1"])
        two.write("a", [b"2"])
    assert tree(tmp_path / "1")["a"] == b"1"
    assert tree(tmp_path / "2")["a"] == b"2"


@pytest.mark.parametrize("text", ["", "pro", "process 1 since 2020-01-01T00:00:00+00:00\n"])
def test_a_lock_that_nobody_holds_is_taken_over(tmp_path: Path, text: str) -> None:
    lock_of(tmp_path / "out").write_text(text)
    write_folder(tmp_path / "out", a=b"1")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def make_foreign(path: Path) -> None:
    path.write_bytes(b"mine")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (make_foreign, r"\.out\.lock beside it is in the way: not a lock of ours"),
        (make_pipe, r"\.out\.lock beside it is in the way: not a regular file"),
        (make_folder, r"open \.out\.lock: Is a directory"),
        (make_dangling, r"open \.out\.lock: "),
    ],
)
def test_what_is_no_lock_is_left(tmp_path: Path, make: Callable[[Path], None], why: str) -> None:
    make(lock_of(tmp_path / "out"))
    before = sorted(tmp_path.rglob("*")), (tree(tmp_path))
    assert_refused(tmp_path / "out", "folder", why)
    assert (sorted(tmp_path.rglob("*")), tree(tmp_path)) == before


def test_a_lock_that_is_removed_while_it_is_taken_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder removes it and lets go between our opening it and our locking it: what we then hold has no name."""
    real = lock._flock
    times: list[int] = []

    def late(fd: int) -> bool | None:
        if not times:
            lock_of(tmp_path / "out").unlink()
        times.append(fd)
        return real(fd)

    monkeypatch.setattr(lock, "_flock", late)
    with lock.hold(tmp_path / "out"):
        assert lock_of(tmp_path / "out").read_text().startswith(f"process {os.getpid()} since ")
    assert len(times) == 2


class TestWithoutLocksOfTheSystem:
    """Some network file systems have none: there, who creates the file holds it for as long as they live."""

    @pytest.fixture(autouse=True)
    def no_flock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lock, "_flock", lambda _: None)

    def test_one_writer_holds_it(self, tmp_path: Path) -> None:
        with lock.hold(tmp_path / "out"):
            assert_refused(tmp_path / "out", "folder", f"is being written by process {os.getpid()} since")
        write_folder(tmp_path / "out", a=b"1")
        assert [p.name for p in tmp_path.iterdir()] == ["out"]

    def test_a_dead_writer_is_no_obstacle(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        lock_of(tmp_path / "out").write_text("process 12345 since 2020-01-01T00:00:00+00:00\n")

        def kill(pid: int, signal: int) -> None:
            assert (pid, signal) == (12345, 0)
            raise ProcessLookupError

        monkeypatch.setattr(os, "kill", kill)
        write_folder(tmp_path / "out", a=b"1")
        assert [p.name for p in tmp_path.iterdir()] == ["out"]

    def test_another_users_process_lives(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        lock_of(tmp_path / "out").write_text("process 1 since 2020-01-01T00:00:00+00:00\n")
        monkeypatch.setattr(os, "kill", failing(errno.EPERM))
        assert_refused(tmp_path / "out", "folder", r"process 1 since 2020-01-01T00:00:00\+00:00 \(\.out\.lock\)")

    def test_an_unsigned_lock_counts_as_held(self, tmp_path: Path) -> None:
        lock_of(tmp_path / "out").write_text("")
        assert_refused(tmp_path / "out", "folder", r"another process \(\.out\.lock\)")


# Checking and reading


def change_content(path: Path) -> None:
    (path / "fcfs" / "jobs").write_bytes(b"3")


def change_size(path: Path) -> None:
    (path / "fcfs" / "jobs").write_bytes(b"22")


def lose_file(path: Path) -> None:
    (path / "a").unlink()


def lose_subfolder(path: Path) -> None:
    for file in (path / "fcfs").iterdir():
        file.unlink()
    (path / "fcfs").rmdir()


def add_files(path: Path) -> None:
    (path / "fcfs" / "deep").mkdir()
    (path / "fcfs" / "deep" / "notes").write_bytes(b"")
    (path / "z").write_bytes(b"")


def change_inner_manifest(path: Path) -> None:
    text = (path / "fcfs" / "manifest.json").read_text()
    (path / "fcfs" / "manifest.json").write_text(text.replace('"jobs"', '"sboj"'))


def link_file(path: Path) -> None:
    (path / "a").rename(path.parent / "elsewhere")
    (path / "a").symlink_to("../elsewhere")


def pipe_file(path: Path) -> None:
    (path / "a").unlink()
    os.mkfifo(path / "a")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("damage", "problems"),
    [
        (lambda _: None, []),
        (change_content, [f"fcfs/jobs: sha256 {sha256(b'3')}; {sha256(b'2')} in manifest.json"]),
        (change_size, ["fcfs/jobs: 2 bytes; 1 in manifest.json"]),
        (lose_file, ["a: missing"]),
        (lose_subfolder, ["fcfs/jobs: missing", "fcfs/manifest.json: missing"]),
        (add_files, ["fcfs/deep/notes: not listed in manifest.json", "z: not listed in manifest.json"]),
        (link_file, [f"a: can't be read: {os.strerror(errno.ELOOP)}"]),
        (pipe_file, ["a: can't be read: not a regular file"]),
    ],
)
def test_the_check_names_each_difference(tmp_path: Path, damage: Callable[[Path], None], problems: list[str]) -> None:
    write_folder(tmp_path / "mixed", a=b"1", fcfs_jobs=b"2")
    damage(tmp_path / "mixed")
    assert store.manifest_problems(tmp_path / "mixed") == problems


def test_a_changed_inner_manifest_is_found_from_outside(tmp_path: Path) -> None:
    write_folder(tmp_path / "mixed", a=b"1", fcfs_jobs=b"2")
    change_inner_manifest(tmp_path / "mixed")
    [problem] = store.manifest_problems(tmp_path / "mixed")
    assert problem.startswith("fcfs/manifest.json: sha256 ")
    assert store.manifest_problems(tmp_path / "mixed" / "fcfs") == [
        "sboj: missing",
        "jobs: not listed in manifest.json",
    ]


FINE = entry(b"")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "it has no manifest.json"),
        (b"", "its manifest.json is not one of ours"),
        (b"\xff\xfe", "its manifest.json is not one of ours"),
        (b'{"schema": "headway.folder/1", "complete"', "its manifest.json can't be read: "),
        (b'{"schema": "headway.folder/1", "files": ' + b"[" * 100_000, "its manifest.json can't be read: "),
        (b'{"schema": "headway.folder/1", "files": ' + b"9" * 9_999 + b"}", "its manifest.json can't be read: "),
        (b'{"schema": "headway.folder/1", "files": "\xff"}', "its manifest.json can't be read: "),
        ({"schema": "headway.folder/9"}, "its manifest.json is of the schema 'headway.folder/9'"),
        ({"files": {}}, "its manifest.json is not that of a complete result"),
        ({"complete": 1, "files": {}}, "its manifest.json is not that of a complete result"),
        ({"complete": True}, "its manifest.json is not that of a complete result"),
        ({"complete": True, "files": []}, "its manifest.json is not that of a complete result"),
        ({"complete": True, "files": {"a": None}}, "its manifest.json has a line that can't be: 'a'"),
        ({"complete": True, "files": {"a": {**FINE, "bytes": True}}}, "has a line that can't be: 'a'"),
        ({"complete": True, "files": {"a": {**FINE, "bytes": -1}}}, "has a line that can't be: 'a'"),
        ({"complete": True, "files": {"a": {**FINE, "bytes": 1.0}}}, "has a line that can't be: 'a'"),
        ({"complete": True, "files": {"a": {**FINE, "sha256": "A" * 64}}}, "has a line that can't be: 'a'"),
        ({"complete": True, "files": {"../../etc/passwd": FINE}}, "has a line that can't be: '../../etc/passwd'"),
        ({"complete": True, "files": {"/etc/passwd": FINE}}, "has a line that can't be: '/etc/passwd'"),
        ({"complete": True, "files": {"manifest.json": FINE}}, "has a line that can't be: 'manifest.json'"),
    ],
)
def test_a_manifest_that_is_none(tmp_path: Path, text: bytes | dict[str, object] | None, problem: str) -> None:
    if isinstance(text, dict):
        text = json.dumps({"schema": "headway.folder/1", **text}).encode()
    if text is not None:
        (tmp_path / "manifest.json").write_bytes(text)
    (tmp_path / "notes").write_bytes(b"")
    [found] = store.manifest_problems(tmp_path)
    assert problem in found
    assert_refused(tmp_path, "folder", "is not a result folder of ours")


def test_a_manifest_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "manifest.json")
    assert store.manifest_problems(tmp_path) == ["its manifest.json can't be read: not a regular file"]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda _: None, "there is no such folder"),
        (make_file, "Not a directory"),
        (make_pipe, "Not a directory"),
        (make_dangling, "there is no such folder"),
        (make_loop, os.strerror(errno.ELOOP)),
    ],
)
def test_what_is_no_folder_can_not_be_checked(tmp_path: Path, make: Callable[[Path], None], why: str) -> None:
    make(tmp_path / "out")
    with pytest.raises(ResultError, match=why):
        store.manifest_problems(tmp_path / "out")
    with pytest.raises(ResultError, match=why), store.reading(tmp_path / "out"):
        pass


def test_a_nul_in_the_path_of_a_folder_to_read(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=NUL):
        store.manifest_problems(tmp_path / "a\0b")


def content(file: BinaryIO) -> bytes:
    with file:
        return file.read()


def test_a_reader_keeps_to_the_result_that_it_opened(tmp_path: Path) -> None:
    path = tmp_path / "mixed"
    write_folder(path, a=b"old", fcfs_jobs=b"old jobs")
    with store.reading(path) as open_file:
        already_open = open_file("a")
        write_folder(path, a=b"new", fcfs_jobs=b"new jobs")
        assert content(already_open) == b"old"
        with pytest.raises(ResultError, match="fcfs/jobs: the result was replaced while it was being read; try again"):
            open_file("fcfs/jobs")
    with store.reading(path) as open_file:
        assert content(open_file("fcfs/jobs")) == b"new jobs"
        with pytest.raises(ResultError, match="mixed: nothing: No such file"):
            open_file("nothing")


def test_the_check_starts_again_when_the_folder_is_replaced_under_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mixed"
    write_folder(path, a=b"old")
    real = manifest.problems
    turns: list[list[str]] = []

    def slowly(folder: int) -> list[str]:
        if not turns:
            write_folder(path, b=b"new")
        turns.append(real(folder))
        return turns[-1]

    monkeypatch.setattr(manifest, "problems", slowly)
    assert store.manifest_problems(path) == []
    assert turns == [["it has no manifest.json"], []]
