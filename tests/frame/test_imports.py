"""Imports go down only, and few files know SimPy.

Everything is read from the syntax tree, so an import inside a function counts as well as one at the top.
"""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

SIM = Path(__file__).parents[2] / "sim"

# The house, from its floor up. A name stands for the module, or for all modules of the package, unless one of them has
# a place of its own. A module may import what is on a lower line or, without going in circles, on its own; imports for
# the type checker alone (``if TYPE_CHECKING``) make no circle, but they go down like all others. What is indented goes
# on with the line above it.
FLOORS = """
errors clock version show spelling files capacity footprint registry guard
request
scenario document duplicates schema fields keys complaints table tables toml_lines gallery generated traced classes
    own_keys device_keys workload.own_laws
    clients workload.arrivals workload.batches workload.continuous workload.distribution workload.durations
    workload.hawkes workload.law workload.lengths workload.modulated workload.process workload.renewal workload.streams
    workload.varying
costs policies engine engine.cohort engine.contents engine.contiguous engine.faults engine.cycle engine.growth engine.kv
    engine.late engine.memory engine.monitor engine.plan engine.prefix engine.queue engine.sources
    engine.span engine.state engine.swap engine.way
engine.build engine.device engine.scheduler workload record names
simulation experiment plugins
analysis report
__init__
cli options outcome template
__main__
"""
KNOW_SIMPY = ("engine.", "simulation.", "workload.clients.")
TYPES_ONLY = ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def floor_of(module: str) -> int | None:
    """The line of ``module`` ("engine.kv"), or None when nobody gave it a place. Each part of engine/ needs its own."""
    floors = {name: floor for floor, line in enumerate(FLOORS.replace("\n ", " ").split("\n")) for name in line.split()}
    package = module.partition(".")[0]
    return floors.get(module, None if package == "engine" else floors.get(package))


def modules(root: Path) -> dict[str, Path]:
    """Every module below ``root``, the package: "engine.kv", and "engine" for engine/__init__.py."""
    found = {}
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)] = file
    return found


class Import(NamedTuple):
    line: int
    name: str  # the full dotted name; ``from a import b`` is a.b, whether b is a module or in one
    for_types: bool


def imports(file: Path, root: Path) -> Iterator[Import]:
    """All that ``file`` imports, wherever it does so."""
    package = [root.name, *file.relative_to(root).parent.parts]
    tree = ast.parse(file.read_text(encoding="utf-8"))
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) in TYPES_ONLY]
    for_types = {id(node) for block in blocks for statement in block.body for node in ast.walk(statement)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, name.name, id(node) in for_types) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield from (Import(node.lineno, f"{base}.{name.name}", id(node) in for_types) for name in node.names)


def own_module(name: str, package: str, known: dict[str, Path]) -> str | None:
    """The module of ours that an imported name ("sim.engine.kv.Pool") belongs to: "engine.kv"; None for strangers."""
    if name.partition(".")[0] != package:
        return None
    rest = name.partition(".")[2]
    while rest and rest not in known:
        rest = rest.rpartition(".")[0]
    return rest or "__init__"


def complaints(root: Path) -> list[str]:
    """What is wrong with the imports of the package at ``root``: one line each."""
    known = modules(root)
    wrong = [f"{name} has no place in FLOORS" for name in known if floor_of(name) is None]
    sideways: dict[str, set[str]] = {}
    for module, file in known.items():
        for line, name, for_types in imports(file, root):
            target = own_module(name, root.name, known)
            mine, theirs = floor_of(module), floor_of(target or "")
            if target and target != module and mine is not None and theirs is not None:
                if theirs > mine:
                    wrong.append(f"{module}:{line} imports {target}, which is above it")
                elif theirs == mine and not for_types:
                    sideways.setdefault(module, set()).add(target)
            if name.partition(".")[0] == "simpy" and not f"{module}.".startswith(KNOW_SIMPY):
                wrong.append(f"{module}:{line} imports simpy")
    try:
        TopologicalSorter(sideways).prepare()
    except CycleError as circle:
        wrong.append("in a circle: " + " -> ".join(circle.args[1]))
    return wrong


def test_imports_go_down_only() -> None:
    assert complaints(SIM) == []


# --- the checker itself, on a small house ----------------------------------------------------------------------------


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A package ``sim`` of a few modules in which nothing is wrong."""
    root = tmp_path / "sim"
    for name, text in {
        "__init__.py": "from sim.simulation import simulate\n",
        "errors.py": "",
        "request.py": "import numpy\nfrom sim.errors import HeadwayError\n",
        "engine/__init__.py": "",
        "engine/plan.py": "from sim.costs.base import Work\nfrom ..request import Request\n",
        "engine/scheduler.py": "import simpy\nfrom . import plan\n",
        "costs/base.py": "",
        "policies/orders.py": "from sim.engine import plan\n",
        "workload/clients.py": "from simpy import Environment\n",
        "simulation.py": "import simpy.core\nimport sim.engine.scheduler\n",
        "cli.py": "import sim\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_sound_house_has_no_complaints(house: Path) -> None:
    assert complaints(house) == []


@pytest.mark.parametrize(
    ("module", "planted", "complaint"),
    [
        ("errors", "import sim.cli", "errors:1 imports cli, which is above it"),
        ("errors", "from sim import cli", "errors:1 imports cli, which is above it"),
        ("errors", "from . import cli", "errors:1 imports cli, which is above it"),
        ("errors", "from .cli import main", "errors:1 imports cli, which is above it"),
        ("errors", "from sim import __version__", "errors:1 imports __init__, which is above it"),
        ("errors", "def f():\n    from sim.request import Request", "errors:2 imports request, which is above it"),
        (
            "engine.plan",
            "from .scheduler import Scheduler",
            "engine.plan:1 imports engine.scheduler, which is above it",
        ),
        ("engine.plan", "from ..simulation import simulate", "engine.plan:1 imports simulation, which is above it"),
        ("engine", "from sim.engine.scheduler import S", "engine:1 imports engine.scheduler, which is above it"),
        (
            "policies.orders",
            "import sim.workload.clients",
            "policies.orders:1 imports workload.clients, which is above it",
        ),
        ("simulation", "if True:\n    from sim import cli", "simulation:2 imports cli, which is above it"),
        ("request", "if TYPE_CHECKING:\n    from sim.cli import main", "request:2 imports cli, which is above it"),
        ("costs.base", "import simpy", "costs.base:1 imports simpy"),
        ("policies.orders", "def f():\n    from simpy.core import Environment", "policies.orders:2 imports simpy"),
        ("cli", "import simpy", "cli:1 imports simpy"),
        ("workload.traces", "import simpy", "workload.traces:1 imports simpy"),
        ("engine.novelty", "", "engine.novelty has no place in FLOORS"),
        ("novelty", "", "novelty has no place in FLOORS"),
    ],
)
def test_what_is_planted_is_found(house: Path, module: str, planted: str, complaint: str) -> None:
    file = house.joinpath(*module.split("."))
    file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    file.write_text(planted + "\n")
    assert complaints(house) == [complaint]


def test_a_circle_on_one_floor_is_found(house: Path) -> None:
    (house / "costs" / "base.py").write_text("import sim.engine.plan\n")
    (found,) = complaints(house)
    assert found in {
        "in a circle: costs.base -> engine.plan -> costs.base",
        "in a circle: engine.plan -> costs.base -> engine.plan",
    }


def test_a_circle_for_the_type_checker_alone_is_none(house: Path) -> None:
    (house / "costs" / "base.py").write_text("if TYPE_CHECKING:\n    from sim.policies.orders import Order\n")
    assert complaints(house) == []
