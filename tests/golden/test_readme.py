"""What the documents show is what happens: every command of theirs is run and its shown output compared, byte by byte.

How a block says what it is, `documents` explains. After a change of what is printed, this writes the new outputs into
the documents, for you to read in the diff (the Azure runs, too, where HEADWAY_DATA is set):

    .venv/bin/python tests/golden/test_readme.py
"""

import difflib
import doctest
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
import typer
from documents import (
    Block,
    Command,
    DocumentError,
    blocks,
    codes,
    inline_code,
    prose,
    read,
    section,
    tables,
    with_outputs,
)

import sim
from sim import gallery
from sim.cli import app
from sim.engine.plan import Blocked, Kind, Loss
from sim.policies.presets import PRESETS

ROOT = Path(__file__).parents[2]
READMES = ("README.md", "README.zh-CN.md")
DOCUMENTS = (
    *READMES, "CONTRIBUTING.md", "ARCHITECTURE.md",
    "docs/model.md", "docs/workloads.md", "docs/policies.md", "docs/theory.md", "docs/limits.md", "docs/results.md",
)  # fmt: skip
SHELL = shutil.which("sh") or "/bin/sh"

STAND_IN = """#!/bin/sh
# the Python of .venv: notes what it is asked to run
printf '%s\\n' "$*" >>"{folder}/calls"
exec "{python}" "$@"
"""
COMMAND = """#!/bin/sh
exec "{python}" -m sim "$@"
"""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")


class Printed(NamedTuple):
    """What a command did."""

    command: Command
    output: str
    exit_code: int


class Checkout:
    """A folder in which the commands of a document can be typed, with the environment of :func:`environment`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def type(self, command: Command) -> Printed:
        path = f"{self.folder}/.venv/bin:{os.environ['PATH']}"
        run = subprocess.run([SHELL, "-c", command.text], cwd=self.folder, env=environment() | {"PATH": path},
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             check=False)  # fmt: skip
        return Printed(command, run.stdout.decode(), run.returncode)

    def write(self, block: Block) -> None:
        """The block's text into the file that it is for."""
        if name := block.marks.get("file"):
            place = self.folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(block.text, encoding="utf-8")
        elif name := block.marks.get("change"):
            place = self.folder / name
            place.write_text(block.apply(read(place)), encoding="utf-8")

    def calls(self) -> list[str]:
        """What was asked of the stand-in for .venv/bin/python, in order."""
        return (self.folder / "calls").read_text().splitlines()


def ready(folder: Path) -> Checkout:
    """A checkout that is set up: this Python stands in for the one in .venv, and nothing is installed."""
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    (folder / ".ci").mkdir()
    (folder / ".ci" / "venv").write_text("# everything is set up\n")
    for name in ("Makefile", "pyproject.toml", "scenarios"):
        (folder / name).symlink_to(ROOT / name)
    for name in ("sim", "tests/unit/tiny.py"):  # what a document may change is a copy
        copy(name, folder)
    for name, text in {"python": STAND_IN, "headway": COMMAND}.items():
        (programs / name).write_text(text.format(folder=folder, python=sys.executable))
        (programs / name).chmod(0o755)
    return Checkout(folder)


def cloned(folder: Path) -> Checkout:
    """A checkout as it comes out of a clone."""
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "LICENSE", "README.md", "scenarios", "sim"):
        copy(name, folder)
    return Checkout(folder)


def copy(name: str, folder: Path) -> None:
    source, place = ROOT / name, folder / name
    if source.is_dir():
        shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, place)


def environment() -> dict[str, str]:
    """A user's, of whom nothing is known: no locale but UTF-8, no terminal, and nothing of the make that runs this."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    unbuffered = {"PYTHONUNBUFFERED": "1"}  # as on a terminal, where stdout and stderr keep their order
    return kept | unbuffered | {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"}


def played(name: str, wanted: str | None = None) -> Iterator[tuple[Block, Command | None]]:
    """The blocks of a document that are run, each command by itself: those with the mark ``wanted``, or without any."""
    for block in blocks(read(ROOT / name)):
        mark = next((mark for mark in ("not run", "with data", "with network") if mark in block.marks), None)
        if mark != wanted:
            continue
        yield from ((block, command) for command in block.commands()) if block.language == "sh" else [(block, None)]


def commands_of(name: str) -> list[str]:
    """The text of every command in a document's blocks."""
    return [
        command.text for block in blocks(read(ROOT / name)) if block.language == "sh" for command in block.commands()
    ]


def type_all(checkout: Checkout, name: str, wanted: str | None = None) -> Iterator[tuple[Block, Printed]]:
    """Type what the document tells to type, and write the files that it tells to write."""
    for block, command in played(name, wanted):
        checkout.write(block)
        if command is not None:
            yield block, checkout.type(command)


def due_code(block: Block) -> int:
    return int(block.marks.get("exit code", "0"))


def differences(name: str, block: Block, printed: Printed) -> Iterator[str]:
    """What is not as the document says."""
    command = printed.command
    place = f"{name}:{command.line}: {command.text}"
    if printed.exit_code != due_code(block):
        yield f"{place}: exits with {printed.exit_code}\n{printed.output}"
    elif command.shown and command.shown != printed.output:
        shown, found = command.shown.splitlines(keepends=True), printed.output.splitlines(keepends=True)
        yield f"{place}\n" + "".join(difflib.unified_diff(shown, found, "shown", "printed", n=0))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return ready(tmp_path)


# --- the commands ----------------------------------------------------------------------------------------------------


def python_sessions(name: str) -> Iterator[str]:
    """The failures of a document's Python sessions, which are one session."""
    parser, names = doctest.DocTestParser(), dict[str, object]()
    for block in blocks(read(ROOT / name)):
        if block.language == "python" and not block.marks:
            test = parser.get_doctest(block.text, names, f"{name}:{block.line}", name, block.line)
            if not test.examples:
                yield f"{name}:{block.line}: a session has >>>"
            words: list[str] = []
            doctest.DocTestRunner(verbose=False).run(test, out=words.append, clear_globs=False)
            names = test.globs
            yield from words


def commands_in_tables(name: str) -> Iterator[Command]:
    """What a table tells to run: a command with its arguments, not one that is only named."""
    for table in tables(read(ROOT / name)):
        for code in (code for row in table for cell in row for code in codes(cell)):
            if code.startswith("headway run "):
                yield Command(0, code, "")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_command_prints_what_the_document_shows(
    name: str, checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs: list[str] = []
    wrong: list[str] = []
    for block, printed in type_all(checkout, name):
        outputs.append(printed.output)
        wrong += differences(name, block, printed)
    for command in (
        commands_in_tables(name) if name != READMES[1] else ()
    ):  # the same as in the first, a test below says
        wrong += differences(name, Block(0, "sh", ""), checkout.type(command))
    monkeypatch.chdir(checkout.folder)
    wrong += python_sessions(name)
    if name in READMES:
        outputs += [read(file) for file in checkout.folder.glob("r*/**/*.json")]
        wrong += figures_from_nowhere(name, outputs)
    assert wrong == [], "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("name", READMES)
def test_the_azure_runs_print_what_the_document_shows(name: str, checkout: Checkout, headway_data: Path) -> None:
    for trace in (headway_data / "traces").glob("*.csv"):
        (checkout.folder / trace.name).symlink_to(trace)
    wrong = [
        line for block, printed in type_all(checkout, name, "with data") for line in differences(name, block, printed)
    ]
    assert wrong == [], "\n".join(wrong)


@pytest.mark.slow
def test_without_make_it_takes_the_commands_that_the_readme_names(headway_data: Path, tmp_path: Path) -> None:
    """``headway_data`` is asked for because whoever has it has a network."""
    clone = cloned(tmp_path / "headway")
    typed = type_all(clone, "README.md", "with network")
    wrong = [line for block, printed in typed for line in differences("README.md", block, printed)]
    assert wrong == [], "\n".join(wrong)
    assert (clone.folder / "results" / "mixed" / "result.json").is_file()


# --- make ------------------------------------------------------------------------------------------------------------


def make_targets() -> set[str]:
    (phony,) = re.findall(r"(?m)^\.PHONY: (.*)$", read(ROOT / "Makefile"))
    return set(phony.split())


def test_every_make_target_that_is_named_exists() -> None:
    named = set()
    for name in DOCUMENTS:
        for code in (*commands_of(name), *inline_code(read(ROOT / name))):
            if match := re.match(r"make (?:-n )?([a-z-]+)", code):
                named.add(match[1])
    assert named >= {"run", "test"}
    assert named - make_targets() == set()


def test_make_run_is_the_command_that_the_readme_gives_for_those_without_make(checkout: Checkout) -> None:
    plan = checkout.type(Command(0, "make -n run SCENARIO=mixed", "")).output
    assert "exec .venv/bin/python -m sim run" in plan
    checkout.type(Command(0, "make run SCENARIO=mixed", ""))
    for name in READMES:
        *_, (_, last) = played(name, "with network")
        assert last is not None
        assert checkout.calls() == [last.text.replace(".venv/bin/headway", "-m sim")]


# --- docs/results.md -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    checkout = ready(tmp_path_factory.mktemp("checkout"))
    checkout.type(Command(0, "headway run mixed --output results/mixed", ""))
    return checkout.folder / "results" / "mixed"


@pytest.fixture(scope="module")
def swapping() -> dict[str, Any]:
    """A run of which the JSON has all that belongs to memory."""
    (run,) = sim.simulate(sim.load("swap-runs-out", overrides={"kv.swap_blocks": 4})).to_dict()["runs"]
    return dict(run)


def listed(heading: str) -> dict[str, set[str]]:
    """The names in the first column of the section's table, each with the names that its second cell explains."""
    (rows,) = tables(section(read(ROOT / "docs" / "results.md"), heading))
    return {name: set(codes(row[1])) for row in rows[1:] for name in codes(row[0])}


@pytest.mark.parametrize(
    ("heading", "files"),
    [
        ("`requests.parquet`", ["requests"]),
        ("`jobs.parquet`", ["jobs"]),
        ("`schedule.parquet`", ["schedule"]),
        ("`admissions.parquet`,", ["admissions", "preemptions", "copies"]),
    ],
)
def test_every_column_of_a_table_is_explained(result: Path, heading: str, files: list[str]) -> None:
    columns = {column for name in files for column in pq.read_schema(result / "fcfs" / f"{name}.parquet").names}
    assert listed(heading).keys() == columns


def test_every_field_of_the_json_is_explained(result: Path) -> None:
    document = json.loads(read(result / "result.json"))
    run = document["runs"][0]
    assert listed("The JSON").keys() == document.keys()
    assert listed("The JSON")["provenance"] == document["provenance"].keys()
    assert listed("A run").keys() == run.keys()
    assert listed("A run")["requests"] == run["requests"][0].keys()
    assert listed("A run")["events"] == run["events"][0].keys()
    assert listed("A run")["work"] == run["work"].keys()
    assert listed("A summary").keys() == run["summary"].keys()


def test_every_field_of_the_pool_is_explained(swapping: dict[str, Any]) -> None:
    fields, pool = listed("The pool in a summary"), swapping["summary"]["kv"]
    assert fields.keys() == pool.keys()
    assert fields["usedBlocks"] == pool["usedBlocks"].keys()
    assert fields["keptOut"] == pool["keptOut"].keys()


def test_what_a_swap_job_says_besides_is_explained(swapping: dict[str, Any]) -> None:
    job = next(event for event in swapping["events"] if event["kind"] == "swap")
    assert job.keys() - listed("A run")["events"] == {"swapped"}
    assert {"swapped", *job["swapped"][0]} <= set(codes(section(read(ROOT / "docs" / "results.md"), "A run")))


@pytest.mark.parametrize(("column", "codes_of"), [("`kind`", Kind), ("`loss`", Loss), ("`blocked`", Blocked)])
def test_every_word_of_a_column_is_explained(column: str, codes_of: type[IntEnum]) -> None:
    (row,) = re.findall(rf"(?m)^\| {column} \| (.*) \|$", read(ROOT / "docs" / "results.md"))
    assert [word.name.lower() for word in codes_of if not re.search(rf"\b{word.name.lower()}\b", row)] == []


# --- the two READMEs, and their tables -------------------------------------------------------------------------------


def english(command: str) -> str:
    return re.sub(r' (--lang zh|ARGS="--lang zh")', "", command)


def test_both_readmes_give_the_same_commands() -> None:
    here, there = (list(map(english, commands_of(name))) for name in READMES)
    assert here == there
    ours = [[command.text for command in commands_in_tables(name)] for name in READMES]
    assert ours[0] == ours[1]


@pytest.mark.parametrize("name", READMES)
def test_the_lessons_commands_stand_beside_their_translation(name: str) -> None:
    pairs = [codes(" ".join(row)) for table in tables(read(ROOT / name)) for row in table if "simulate.py" in row[0]]
    assert len(pairs) == 3
    for lesson, ours in pairs:
        assert ours == lesson.replace("python3 simulate.py --trace ", "headway run ")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_command_and_option_that_is_named_exists(name: str) -> None:
    headway = typer.main.get_command(app)
    commands = getattr(headway, "commands", {})
    options = {option for command in (headway, *commands.values()) for option in (*command.params, "--help")}
    known = {opt for option in options for opt in getattr(option, "opts", [option])}
    for code in inline_code(read(ROOT / name)):
        words = code.split()
        if words[0] == "headway" and len(words) > 1:
            assert words[1] in commands, code
        if words[0] == "headway" or words[0].startswith("--"):
            assert {word for word in words if word.startswith("--")} <= known, code


@pytest.mark.parametrize("name", READMES)
def test_the_table_of_policies_has_all_of_them(name: str) -> None:
    wide = [rows for rows in tables(read(ROOT / name)) if rows[0][0] in ("policy", "策略") and len(rows[0]) == 4]
    assert [[code for row in rows[1:] for code in codes(row[0])] for rows in wide] == [list(PRESETS)]


@pytest.mark.parametrize("name", READMES)
def test_the_scenarios_that_are_named_are_ready(name: str) -> None:
    (rows,) = (rows for rows in tables(read(ROOT / name)) if rows[0][0] in ("axis", "方面"))
    assert [code for row in rows[1:] for code in codes(row[2]) if code not in gallery.names()] == []


def anchors(text: str) -> set[str]:
    """The names under which a document's headings can be linked to, as GitHub makes them."""
    headings = re.findall(r"(?m)^#+ (.*)$", prose(text))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_leads_somewhere(name: str) -> None:
    text = read(ROOT / name)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            place = (ROOT / name).parent / path if path else ROOT / name
            assert place.exists(), target
            assert not anchor or anchor in anchors(read(place)), target


DERIVED = {Decimal("14.75") - Decimal("3.50"), Decimal("21.25") - Decimal("12.50"), Decimal("21.75") - Decimal("11.75"),
           Decimal("28.25") - Decimal("21.25")}  # fmt: skip
"""What the READMEs subtract: of A's stall, of the first tokens of L and S in mixed, of U1's last token in unseen."""


def figures_from_nowhere(name: str, outputs: list[str]) -> Iterator[str]:
    """Figures of the prose that no command printed. Those of the Azure run are in what the document shows."""
    shown = [block.text for block in blocks(read(ROOT / name)) if "with data" in block.marks]
    known = {Decimal(figure) for text in (*outputs, *shown) for figure in re.findall(r"\d+\.\d+", text)} | DERIVED
    for figure in re.findall(r"(?<!Python )(?<!make )(?<!vLLM[ \n])\b\d+\.\d\d+\b", prose(read(ROOT / name))):
        if Decimal(figure) not in known and figure != "3.11":
            yield f"{name}: no command printed {figure}"


# --- the reader of documents itself ----------------------------------------------------------------------------------


def test_commands_and_what_they_print() -> None:
    (block,) = blocks("text\n```sh\n$ a \\\n  b\n1\n\n2\n$ c\n```\n")
    assert block.commands() == [Command(3, "a \\\n  b", "1\n\n2\n"), Command(8, "c", "")]


def test_marks_belong_to_the_next_block_alone() -> None:
    marked, plain = blocks("<!-- not run: no network -->\n<!-- exit code: 2 -->\n```sh\n$ a\n```\n```sh\n$ b\n```\n")
    assert marked.marks == {"not run": "no network", "exit code": "2"}
    assert plain.marks == {}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```sh\nmake run\n```\n", "line 2: no prompt"),
        ("```\nmake run\n```\n", "who checks this"),
        ("```toml\na = 1\n```\n", "who checks this"),
        ("```console\n$ make run\n```\n", "who checks this"),
        ("- a list:\n  ```sh\n  $ make run\n  ```\n", "line 2: a block begins with"),
        ("~~~sh\n$ make run\n~~~\n", "line 1: a block begins with"),
        ("```sh title\n$ make run\n```\n", "line 1: a block begins with"),
        ("```sh\n$ make run\n", "line 1: this block has no end"),
        ("<!-- skip: slow -->\n```sh\n$ make run\n```\n", "skip: no such mark"),
        ("<!-- not run: slow -->\n\n```sh\n$ make run\n```\n", "line 2: the mark before it"),
    ],
)
def test_a_block_that_nobody_would_check_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(DocumentError, match=complaint):
        blocks(text)


def test_a_diff_goes_where_its_context_stands() -> None:
    diff = Block(1, "diff", " a\n-b\n+B\n+C\n d\n")
    assert diff.apply("x\na\nb\nd\n") == "x\na\nB\nC\nd\n"
    with pytest.raises(DocumentError, match="there 0 times"):
        diff.apply("x\n")


def test_new_outputs_replace_the_old() -> None:
    text = "```sh\n$ a\nold\nold\n$ b\n$ c\nold\n```\n"
    assert with_outputs(text, {2: "new\n", 5: "not shown\n", 6: "1\n2\n"}) == "```sh\n$ a\nnew\n$ b\n$ c\n1\n2\n```\n"


# --- writing the outputs anew ----------------------------------------------------------------------------------------


def rewrite(name: str, folder: Path) -> None:
    """Put what the commands print into the document. Those that show nothing stay as they are."""
    checkout = ready(folder)
    data = os.environ.get("HEADWAY_DATA")
    for trace in Path(data, "traces").glob("*.csv") if data else ():
        (folder / trace.name).symlink_to(trace)
    printed = {}
    for wanted in (None, *(("with data",) if data else ())):
        for block, done in type_all(checkout, name, wanted):
            if done.exit_code != due_code(block):
                sys.exit("\n".join(differences(name, block, done)))  # nothing is written that went wrong
            printed[done.command.line] = done.output
    text = read(ROOT / name)
    (ROOT / name).write_text(with_outputs(text, printed), encoding="utf-8")


if __name__ == "__main__":
    for document in DOCUMENTS:
        with tempfile.TemporaryDirectory() as place:
            rewrite(document, Path(place))
