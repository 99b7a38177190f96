"""Paths that hold no scenario, and the forms of text that do (rows 1, 42 and 43 of the list of bad inputs)."""

import errno
import os
import socket
from pathlib import Path

import pytest

from sim import document
from sim.errors import ScenarioError
from sim.scenario import load

TEXT = 'schema = 1\nname = "x"\n[workload]\nrequests = [{prompt_tokens = 1, output_tokens = 1}]\n'


def complaint(path: str | bytes | Path) -> str:
    with pytest.raises(ScenarioError) as caught:
        load(os.fsdecode(path))
    (line,) = caught.value.args
    assert line.isprintable()
    return str(line)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "no.toml"
    assert complaint(path) == f"{path}: can't be read: no such file or directory"


def test_a_folder(tmp_path: Path) -> None:
    assert complaint(tmp_path) == f"{tmp_path}: is a directory; must be a regular file"


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert complaint(path) == f"{path}: is a pipe; must be a regular file"


def test_a_device_without_end() -> None:
    assert complaint("/dev/zero") == "/dev/zero: is a device; must be a regular file"


def test_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("s")
        assert complaint("s").startswith("s: can't be read: ")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "open", refuse)  # root may read everything, so that chmod is no test of this
    assert complaint(tmp_path / "s.toml") == f"{tmp_path / 's.toml'}: can't be read: permission denied"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("-", "-: reading a scenario from standard input is not supported; must be a file"),
        ("a\0b", "a\\u0000b: not a file name: it contains a NUL character"),
        ("", ".: is a directory; must be a regular file"),
        ("x" * 5000, f"{'x' * 5000}: can't be read: file name too long"),
        ("a\x1b[31m\n.toml", "a\\u001B[31m\\n.toml: can't be read: no such file or directory"),
        (b"\xff.toml", "\\uDCFF.toml: can't be read: no such file or directory"),
    ],
)
def test_odd_paths(path: str | bytes, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert complaint(path) == said


def test_a_link_to_a_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(TEXT)
    (tmp_path / "link").symlink_to("s.toml")
    assert load(tmp_path / "link").source == tmp_path / "link"


def test_a_file_without_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert document.MAX_BYTES == 64 * 2**20
    monkeypatch.setattr(document, "MAX_BYTES", 2**20)
    path = tmp_path / "s.toml"
    path.write_text(TEXT + "#" * 2**20)
    assert complaint(path) == f"{path}: larger than 1 MiB; put the requests into a trace"


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + TEXT.encode(),
        TEXT.replace("\n", "\r\n").encode(),
        TEXT.rstrip("\n").encode(),
        (TEXT + "  \n\n").encode(),
    ],
    ids=["byte order mark", "CRLF", "no final newline", "trailing blanks"],
)
def test_forms_of_text_that_are_fine(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(data)
    assert load(path).name == "x"


def test_lines_are_counted_alike_with_a_mark_and_crlf(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("x", "/").replace("\n", "\r\n").encode())
    assert complaint(path).startswith(f'{path} (line 2): name = "/": not a name')
