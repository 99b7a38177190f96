"""`make` sets up .venv by itself, whatever it finds: tried on a copy of the Makefile, with stand-ins for Python.

A stand-in is a shell script. It notes every call in ``calls``, lets a real Python answer the questions about versions
(as the Python that it plays), and pretends to make environments, to run pip and to run the program.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = (
    *("awk", "basename", "cat", "cksum", "cp", "dirname", "echo", "env", "find", "grep", "ln", "make", "mkdir", "mv"),
    *("readlink", "rm", "sed", "sh", "sleep", "tail"),
)

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")

STAND_IN = """#!/bin/sh
# plays Python {version}
play='{play}'
for last; do :; done
case "$*" in
  *" -c "*)
    [ ! -e "$play/{version}-is-broken" ] || exit 127
    [ ! -e "$play/{version}-has-no-ensurepip" ] || prelude='import sys; sys.modules["ensurepip"] = None'
    exec '{real}' -I -S -c "${{prelude-}}
import sys
sys.version_info = ({tuple}, 'final', 0)
sys._base_executable = '$0'
$last" ;;
  *"-m venv .venv")
    echo "{version}: venv" >>"$play/calls"
    mkdir -p .venv/bin
    if [ -e "$play/{version}-fails-late" ]; then
      echo "The virtual environment was not created successfully because ensurepip is not"
      echo "available.  On Debian/Ubuntu systems, you need to install the python3-venv"
      exit 1
    fi
    cp "$0" .venv/bin/python ;;
  *"-m pip install"*)
    echo "pip install $last" >>"$play/calls"
    [ -z "${{PYTHONPATH-}}" ] || echo "PYTHONPATH=$PYTHONPATH" >>"$play/calls"
    [ ! -e "$play/pip-hangs" ] || sleep 30
    [ ! -e "$play/pip-is-slow" ] || sleep 1
    if [ -e "$play/no-network" ]; then
      for n in 4 3 2 1 0; do
        echo "WARNING: Retrying (Retry(total=$n)) after connection broken by 'NewConnectionError': hatchling"
      done
      echo "ERROR: Could not find a version that satisfies the requirement hatchling"
      exit 1
    fi
    if [ -e "$play/pip-refuses" ]; then
      echo "Processing the checkout"
      echo "ERROR: Package 'headway' is refused"
      echo "more of it"
      exit 1
    fi ;;
  *)
    printf 'python' >>"$play/calls"
    printf ' [%s]' "$@" >>"$play/calls"
    echo >>"$play/calls"
    [ -z "${{PYTHONPATH-}}" ] || echo "PYTHONPATH=$PYTHONPATH" >>"$play/calls"
    [ ! -e "$play/exit-code" ] || exit "$(cat "$play/exit-code")" ;;
esac
"""


class Checkout:
    """A checkout in a folder with an unkind name, and a machine with the Pythons that a test puts on it."""

    def __init__(self, machine: Path) -> None:
        self.machine = machine
        self.root = machine / "it's a check out"
        self.programs = machine / "programs"
        self.play = machine / "play"
        for folder in (self.root / ".ci", self.programs, self.play):
            folder.mkdir(parents=True)
        for name in ("Makefile", "pyproject.toml", ".ci/venv"):
            shutil.copy(ROOT / name, self.root / name)
        for program in PROGRAMS:
            if found := shutil.which(program):
                (self.programs / program).symlink_to(found)

    def python(self, name: str, version: str) -> Path:
        """Put a Python of this version on the machine, under this name."""
        file = self.programs / name
        file.parent.mkdir(exist_ok=True)
        parts = ", ".join(version.split("."))
        file.write_text(STAND_IN.format(version=version, tuple=parts, play=self.play, real=sys.executable))
        file.chmod(0o755)
        return file

    def now(self, state: str) -> None:
        (self.play / state).touch()

    def no_longer(self, state: str) -> None:
        (self.play / state).unlink()

    def start(self, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
        environment = {"PATH": str(self.programs), "HOME": str(self.machine), "LC_ALL": "C", **variables}
        return subprocess.Popen(
            [str(self.programs / "make"), *arguments],
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def make(self, *arguments: str, **variables: str) -> list[str]:
        """Run make, to its end: the lines on stderr, without make's own. Its status and stdout are kept."""
        process = self.start(*arguments, **variables)
        self.out, said = process.communicate(timeout=60)
        self.code = process.returncode
        return [line for line in said.splitlines() if not line.startswith("make")]

    def calls(self) -> list[str]:
        """What the Pythons were asked to do since the last time, questions about their version apart."""
        file = self.play / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines

    def ready(self, *arguments: str) -> None:
        """Set up, without a word about it."""
        self.make(*arguments)
        assert self.code == 0
        self.calls()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """With one Python, 3.11, as python3."""
    here = Checkout(tmp_path)
    here.python("python3", "3.11.4")
    return here


MADE = ["3.11.4: venv"]
CORE = ["pip install ."]
RUN = ["python [-m] [sim] [run] [mixed] [--output] [results/mixed]"]
TEST = ["python [-m] [pytest] [-n] [auto] [--dist] [loadgroup] [-m] [not slow and not stress]"]
INTERRUPTED = "headway: interrupted; the same command starts again"
NO_NETWORK = (
    "headway: could not reach the package index; nothing is lost: with a network, the same command goes on "
    "(pip's own words: .venv/setup.log)"
)


# --- targets ---------------------------------------------------------------------------------------------------------


def test_make_alone_lists_its_targets_and_sets_nothing_up(checkout: Checkout) -> None:
    assert checkout.make() == []
    listed = [line.split()[0] for line in checkout.out.splitlines() if line.startswith("  ")]
    makefile = (ROOT / "Makefile").read_text()
    phony = next(line for line in makefile.splitlines() if line.startswith(".PHONY:")).split()[1:]
    assert listed == [target for target in phony if target != "tools"]
    assert not (checkout.root / ".venv").exists()


def test_the_makefile_uses_nothing_newer_than_make_3_81() -> None:
    makefile = (ROOT / "Makefile").read_text()
    newer = (".ONESHELL", ".SHELLFLAGS", "$(file ", "&:", "!=", "::=", "undefine", "$(guile")
    assert [word for word in newer if word in makefile] == []


def test_the_first_run_makes_the_environment_and_installs_the_core(checkout: Checkout) -> None:
    assert checkout.make("run", "SCENARIO=mixed") == [
        f"headway: making .venv with Python 3.11.4 ({checkout.programs}/python3)",
        "headway: installing what `make run` needs (a minute or two the first time)",
    ]
    assert checkout.code == 0
    assert checkout.out == ""
    assert checkout.calls() == MADE + CORE + RUN


def test_the_second_run_runs_and_does_nothing_else(checkout: Checkout) -> None:
    checkout.ready("run", "SCENARIO=mixed")
    assert checkout.make("run", "SCENARIO=mixed") == []
    assert checkout.calls() == RUN


def test_each_level_is_installed_once_and_holds_those_below(checkout: Checkout) -> None:
    checkout.ready("run", "SCENARIO=mixed")
    checkout.make("test")
    assert checkout.calls() == ["pip install .[dev]", *TEST]
    checkout.make("setup")
    assert checkout.calls() == ["pip install .[all]"]
    for command, calls in ((["test"], TEST), (["run", "SCENARIO=mixed"], RUN), (["setup"], [])):
        assert checkout.make(*command) == []
        assert checkout.calls() == calls


def test_run_hands_on_what_it_is_told_whatever_is_in_it(checkout: Checkout) -> None:
    checkout.ready("setup")
    trace, out = '/data/it\'s "odd" `here`; *.csv', "re sults"
    told = [f"TRACE={trace}", "POLICY=both", f"OUT={out}", "ARGS=--chunk 2 --set 'run.seed=3 # no comment'"]
    assert checkout.make("run", "SCENARIO=my folder/azure conv.toml", *told) == []
    options = f"[--output] [{out}] [--policy] [both] [--set] [workload.trace.path={trace}]"
    more = "[--chunk] [2] [--set] [run.seed=3 # no comment]"
    assert checkout.calls() == [f"python [-m] [sim] [run] [my folder/azure conv.toml] {options} {more}"]


def test_a_scenario_file_gets_a_folder_of_its_name(checkout: Checkout) -> None:
    checkout.ready("setup")
    checkout.make("run", "SCENARIO=mine/odd one.toml")
    assert checkout.calls() == ["python [-m] [sim] [run] [mine/odd one.toml] [--output] [results/odd one]"]


def test_run_without_a_scenario_says_so_before_anything_is_set_up(checkout: Checkout) -> None:
    assert checkout.make("run") == ["which one? make run SCENARIO=mixed; all of them: ls scenarios"]
    assert checkout.code != 0
    assert checkout.calls() == []


def test_check_is_format_lint_types_tests_and_stops_at_the_first_that_fails(checkout: Checkout) -> None:
    checkout.ready("setup")
    parts = ["python [-m] [ruff] [format] [--check] [.]", "python [-m] [ruff] [check] [.]", "python [-m] [mypy]", *TEST]
    checkout.make("-j4", "check")
    assert checkout.calls() == parts
    (checkout.play / "exit-code").write_text("1")
    checkout.make("check")
    assert (checkout.code, checkout.calls()) == (2, parts[:1])


@pytest.mark.parametrize(("pytests", "makes"), [("0", 0), ("5", 0), ("1", 2), ("2", 2)])
def test_no_slow_test_is_no_failure(checkout: Checkout, pytests: str, makes: int) -> None:
    checkout.ready("setup")
    (checkout.play / "exit-code").write_text(pytests)
    checkout.make("slow")
    assert checkout.code == makes


def test_the_users_own_python_does_not_come_in(checkout: Checkout) -> None:
    checkout.make("run", "SCENARIO=mixed", PYTHONPATH="/somewhere/else", PYTHONHOME="/nowhere")
    assert checkout.calls() == MADE + CORE + RUN


# --- which Python ----------------------------------------------------------------------------------------------------


def test_a_newer_python_beside_one_that_is_too_old_is_found(checkout: Checkout) -> None:
    checkout.python("python3", "3.9.18")
    checkout.python("python3.11", "3.11.9")
    checkout.python("python3.13", "3.13.1")
    checkout.make("run", "SCENARIO=mixed")
    assert checkout.calls() == ["3.13.1: venv", *CORE, *RUN]


def test_a_name_that_does_not_run_is_passed_over(checkout: Checkout) -> None:
    checkout.python("python3", "3.9.18")
    checkout.python("python3.12", "3.12.0")
    checkout.now("3.12.0-is-broken")
    checkout.python("python3.11", "3.11.9")
    checkout.make("setup")
    assert checkout.calls() == ["3.11.9: venv", "pip install .[all]"]


def test_only_too_old_a_python_is_said_in_one_line(checkout: Checkout) -> None:
    checkout.python("python3", "3.9.18")
    assert checkout.make("run", "SCENARIO=mixed") == [
        "headway: python3 is Python 3.9.18; 3.11 or newer is needed; name another one: PYTHON=/path/to/python"
    ]
    assert checkout.code != 0
    assert not (checkout.root / ".venv").exists()


def test_no_python_at_all_is_said_in_one_line(checkout: Checkout) -> None:
    (checkout.programs / "python3").unlink()
    assert checkout.make("setup") == [
        "headway: no python3 found; 3.11 or newer is needed; name another one: PYTHON=/path/to/python"
    ]


def test_the_python_that_is_named_wins(checkout: Checkout) -> None:
    mine = checkout.python("a folder/my python", "3.12.0")
    checkout.make("setup", f"PYTHON={mine}")
    assert checkout.calls() == ["3.12.0: venv", "pip install .[all]"]


def test_a_named_python_that_is_too_old_is_refused_in_one_line(checkout: Checkout) -> None:
    checkout.python("python3.10", "3.10.2")
    assert checkout.make("setup", "PYTHON=python3.10") == [
        "headway: PYTHON=python3.10 is Python 3.10.2; 3.11 or newer is needed"
    ]
    assert checkout.calls() == []


def test_a_named_python_that_is_none_is_refused_in_one_line(checkout: Checkout) -> None:
    assert checkout.make("setup", "PYTHON=pyhton") == ["headway: PYTHON=pyhton does not run"]


def test_naming_another_python_later_makes_the_environment_anew(checkout: Checkout) -> None:
    checkout.ready("setup")
    checkout.python("python3.12", "3.12.0")
    said = checkout.make("run", "SCENARIO=mixed", "PYTHON=python3.12")
    assert said[0] == "headway: .venv has Python 3.11, not 3.12.0: making it anew"
    assert checkout.calls() == ["3.12.0: venv", *CORE, *RUN]
    assert checkout.make("run", "SCENARIO=mixed") == []


# --- Debian without python3-venv -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["3.11.4-has-no-ensurepip", "3.11.4-fails-late"])
def test_a_python_that_cannot_make_environments_is_one_line_and_leaves_nothing(checkout: Checkout, how: str) -> None:
    checkout.now(how)
    said = checkout.make("run", "SCENARIO=mixed")
    assert checkout.code != 0
    assert said[-1].startswith("headway: ")
    assert said[-1].endswith("without ensurepip; on Debian and Ubuntu: apt install python3.11-venv")
    assert len(said) == (1 if how.endswith("ensurepip") else 2)
    assert not (checkout.root / ".venv").exists()
    checkout.calls()

    checkout.no_longer(how)
    checkout.make("run", "SCENARIO=mixed")
    assert checkout.calls() == MADE + CORE + RUN


def test_another_python_that_can_is_taken(checkout: Checkout) -> None:
    checkout.now("3.11.4-has-no-ensurepip")
    checkout.python("python3.12", "3.12.0")
    checkout.make("setup")
    assert checkout.calls() == ["3.12.0: venv", "pip install .[all]"]


# --- no network ------------------------------------------------------------------------------------------------------


def test_without_a_network_there_is_one_line_and_the_same_command_works_later(checkout: Checkout) -> None:
    checkout.now("no-network")
    said = checkout.make("run", "SCENARIO=mixed")
    assert (said[2:], checkout.code, checkout.out) == ([NO_NETWORK], 2, "")
    assert "NewConnectionError" in (checkout.root / ".venv" / "setup.log").read_text()
    checkout.calls()

    checkout.no_longer("no-network")
    checkout.make("run", "SCENARIO=mixed")
    assert checkout.calls() == MADE + CORE + RUN


def test_what_was_set_up_before_the_network_went_still_runs(checkout: Checkout) -> None:
    checkout.ready("run", "SCENARIO=mixed")
    checkout.now("no-network")
    assert checkout.make("test")[1:] == [NO_NETWORK]
    checkout.calls()
    assert checkout.make("run", "SCENARIO=mixed") == []
    assert checkout.calls() == RUN


def test_what_else_pip_has_to_say_is_its_last_error(checkout: Checkout) -> None:
    checkout.now("pip-refuses")
    assert checkout.make("setup")[2:] == [
        "headway: could not install: ERROR: Package 'headway' is refused (pip's own words: .venv/setup.log)"
    ]


# --- an environment that is no good ----------------------------------------------------------------------------------


def made_anew(checkout: Checkout) -> str:
    """Run; the environment must have been made anew. Why, in make's words."""
    said = checkout.make("run", "SCENARIO=mixed")
    assert checkout.calls() == MADE + CORE + RUN
    return said[0]


def test_an_environment_without_stamps_is_half_made(checkout: Checkout) -> None:
    checkout.ready("run", "SCENARIO=mixed")
    shutil.rmtree(checkout.root / ".venv" / "stamps")
    assert made_anew(checkout) == "headway: .venv is half made: making it anew"


def test_a_stamp_cut_short_is_none(checkout: Checkout) -> None:
    checkout.ready("run", "SCENARIO=mixed")
    (checkout.root / ".venv" / "stamps" / "core").write_text("3.11\n")
    assert made_anew(checkout) == "headway: .venv is half made: making it anew"


def test_an_environment_whose_python_is_gone_is_made_anew(checkout: Checkout) -> None:
    checkout.ready("setup")
    python = checkout.root / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3.11")
    assert made_anew(checkout) == "headway: .venv has lost its Python 3.11: making it anew"


def test_an_environment_whose_python_became_another_is_made_anew(checkout: Checkout) -> None:
    checkout.ready("setup")
    shutil.copy(checkout.python("python3.12", "3.12.0"), checkout.root / ".venv" / "bin" / "python")
    assert made_anew(checkout) == "headway: .venv has lost its Python 3.11: making it anew"


def test_a_checkout_that_was_moved_gets_a_new_environment(checkout: Checkout) -> None:
    checkout.ready("setup")
    before = checkout.root
    checkout.root = before.rename(checkout.machine / "moved")
    assert made_anew(checkout) == f"headway: .venv was made in another folder, {before}: making it anew"


def test_a_checkout_that_was_copied_gets_one_of_its_own(checkout: Checkout) -> None:
    checkout.ready("setup")
    checkout.root = Path(shutil.copytree(checkout.root, checkout.machine / "copy", symlinks=True))
    assert "was made in another folder" in made_anew(checkout)


def test_the_broken_environment_is_not_used_to_make_the_new_one_even_when_it_is_active(checkout: Checkout) -> None:
    checkout.ready("setup")
    shutil.rmtree(checkout.root / ".venv" / "stamps")
    active = checkout.root / ".venv" / "bin"
    shutil.copy(active / "python", active / "python3")
    said = checkout.make("setup", PATH=f"{active}:{checkout.programs}")
    assert said[1] == f"headway: making .venv with Python 3.11.4 ({checkout.programs}/python3)"
    assert checkout.calls() == [*MADE, "pip install .[all]"]


# --- changes of pyproject.toml ---------------------------------------------------------------------------------------


def edit(checkout: Checkout, old: str, new: str) -> None:
    file = checkout.root / "pyproject.toml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_other_dependencies_are_installed_into_the_environment_that_is_there(checkout: Checkout) -> None:
    checkout.ready("setup")
    edit(checkout, "dependencies = [", 'dependencies = [\n  "attrs",')
    checkout.make("run", "SCENARIO=mixed")
    assert checkout.calls() == CORE + RUN
    checkout.make("test")
    assert checkout.calls() == ["pip install .[dev]", *TEST]
    checkout.make("setup")
    assert checkout.calls() == ["pip install .[all]"]


def test_other_settings_of_a_tool_install_nothing(checkout: Checkout) -> None:
    checkout.ready("setup")
    edit(checkout, "line-length = ", "line-length = 1")
    os.utime(checkout.root / "pyproject.toml")
    checkout.make("run", "SCENARIO=mixed")
    assert checkout.calls() == RUN


# --- interruptions and two at once -----------------------------------------------------------------------------------


@pytest.fixture
def hanging(checkout: Checkout) -> Iterator["subprocess.Popen[str]"]:
    """A first `make setup` that has come as far as pip, which does not end."""
    checkout.now("pip-hangs")
    process = checkout.start("setup")
    for _ in range(1000):
        calls = checkout.play / "calls"
        if calls.exists() and "pip" in calls.read_text():
            break
        time.sleep(0.01)
    checkout.no_longer("pip-hangs")
    checkout.calls()
    yield process
    process.communicate(timeout=60)


def test_after_ctrl_c_the_same_command_starts_again(checkout: Checkout, hanging: "subprocess.Popen[str]") -> None:
    os.killpg(hanging.pid, signal.SIGINT)
    _, said = hanging.communicate(timeout=60)
    assert INTERRUPTED in said.splitlines()
    assert not (checkout.root / ".venv.lock").is_symlink()
    assert made_anew(checkout) == "headway: .venv is half made: making it anew"


def test_after_kill_9_too_although_nobody_took_the_lock_away(
    checkout: Checkout, hanging: "subprocess.Popen[str]"
) -> None:
    os.killpg(hanging.pid, signal.SIGKILL)
    hanging.wait(timeout=60)
    assert (checkout.root / ".venv.lock").is_symlink()
    said = checkout.make("run", "SCENARIO=mixed")
    assert "headway: .venv is half made: making it anew" in said
    assert checkout.calls() == MADE + CORE + RUN
    assert not (checkout.root / ".venv.lock").is_symlink()


def test_of_two_at_once_the_second_waits_and_finds_all_done(checkout: Checkout) -> None:
    checkout.now("pip-is-slow")
    both = [checkout.start("setup") for _ in range(2)]
    said = sorted(process.communicate(timeout=60)[1].splitlines() for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert checkout.calls() == [*MADE, "pip install .[all]"]
    assert ["headway: waiting for another make to set up .venv (when there is none: rm .venv.lock)"] in said
