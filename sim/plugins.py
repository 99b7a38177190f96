"""Somebody's own policies, orders, victim rules and so on: registered by a call, loaded from a file, or installed.

A plug-in is code, and runs as such. Only who starts a run names one: no scenario, trace or result can.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from re import fullmatch
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple, NoReturn, TypeVar

from sim.errors import PluginError, ScenarioError
from sim.files import open_regular
from sim.guard import MAX_SECONDS, WATCH, Guard
from sim.registry import Registry, Source
from sim.show import show, show_path
from sim.spelling import nearest

Thing = TypeVar("Thing")

GROUP = "headway.plugins"
"""The entry points of packages that bring plug-ins: a module that registers when it is imported, or a function."""

MAX_BYTES = 2**24
NAME = r"[A-Za-z0-9._-]{1,64}"
TAKEN = MappingProxyType({"victim": ("auto",), "policy": ("both", "all"), "trace format": ("auto",)})
"""Names that mean something else."""

FLAGS = ("moves", "preempts", "sinks")


class Kind(NamedTuple):
    """Where things of one kind are kept: a table, and what checks and wraps one for it, given these besides."""

    table: str
    make: str
    besides: tuple[Any, ...] = ()


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "policy": Kind("sim.policies.presets:PRESETS", "sim.policies.own:preset"),
        "composition": Kind("sim.policies.presets:COMPOSITIONS", "sim.policies.own:composition"),
        "order": Kind("sim.policies.orders:ORDERS", "sim.policies.own:order"),
        "victim": Kind("sim.policies.victims:VICTIMS", "sim.policies.own:victim"),
        "predictor": Kind("sim.policies.predictors:PREDICTORS", "sim.policies.own:predictor"),
        "cost": Kind("sim.device_keys:COSTS", "sim.own_keys:thing", ("job_ns",)),
        "arrivals": Kind("sim.workload.arrivals:PROCESSES", "sim.own_keys:thing", ("arrival_ns",)),
        "lengths": Kind("sim.workload.lengths:DISTRIBUTIONS", "sim.own_keys:thing", ("tokens",)),
        "trace format": Kind("sim.workload.trace_formats:FORMATS", "sim.workload.trace_own:layout"),
    }
)
"""The kinds of things that can be registered."""


class Registered(NamedTuple):
    """Something of somebody's own."""

    kind: str
    name: str
    source: Source


# Registering


def register(kind: str, name: str, /, *thing: Any, **flags: bool) -> Any:
    """Add something of one's own by name, as a call or as a decorator: ``register("victim", "mine", rule)``.

    ``kind``: policy (a ``Preset``), composition (settings to policy), order (a key for each request: a function, or an
    ``Order``), victim, predictor; arrivals, lengths, cost (frozen dataclasses whose fields are their keys); trace
    format (a ``Layout``). An order may have the flags of ``Order``: ``moves``, ``preempts``, ``sinks``.
    ``PluginError``: there is one of this name, or it is no such thing.

    >>> import sim
    >>> @sim.register("order", "longest-prompt")
    ... def longest_prompt(request, given):
    ...     return -request.prompt_tokens
    >>> from sim import plugins
    >>> plugins.remove("order", "longest-prompt")
    """
    caller = sys._getframe(1)  # noqa: SLF001  # there is no other way to know who calls
    source = Source(caller.f_code.co_filename, caller.f_lineno, _digest(caller.f_code.co_filename))
    guard = Guard(source, f"{kind} {show(name)}")

    def enter(it: Thing) -> Thing:
        _check_name(guard, kind, name, flags)
        row = _found(KINDS[kind].make)(it, guard, *KINDS[kind].besides, **flags)
        table_of(kind).add(name, row, source)
        return it

    return enter(*thing) if thing else enter


def _check_name(guard: Guard, kind: str, name: str, flags: Mapping[str, bool]) -> None:
    if kind not in KINDS:
        _refuse(guard, f"no such kind; one of {', '.join(KINDS)}{nearest(str(kind), KINDS)}")
    if not fullmatch(NAME, str(name)):
        _refuse(guard, "not a name; 1 to 64 of letters, digits, '.', '_', '-'")
    if name in table_of(kind) or name in TAKEN.get(kind, ()):
        _refuse(guard, "there is one of this name already; another name")
    unknown = [flag for flag in flags if kind != "order" or flag not in FLAGS]
    if unknown:
        _refuse(guard, f"{unknown[0]}: no such flag; an order may have {', '.join(FLAGS)}")


def _refuse(guard: Guard, problem: str) -> NoReturn:
    guard.refuse(problem)


def remove(kind: str, name: str) -> None:
    """Take something that was registered away again. ``KeyError``: there is none of this name."""
    table_of(kind).remove(name)


def registered() -> list[Registered]:
    """All that was registered, by kind, in the order in which it came."""
    return [Registered(kind, name, source) for kind in KINDS for name, source in table_of(kind).own.items()]


@contextmanager
def apart() -> Iterator[None]:
    """Whatever is registered within is gone behind it."""
    before = set(registered())
    try:
        yield
    finally:
        for kind, name, source in registered():
            if (kind, name, source) not in before:
                remove(kind, name)


def table_of(kind: str) -> Registry[Any]:
    """All of one kind, by name."""
    table: Registry[Any] = _found(KINDS[kind].table)
    return table


def _found(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def _digest(file: str) -> str | None:
    try:
        with open_regular(Path(file)) as opened:
            return sha256(opened.read()).hexdigest()
    except (OSError, ScenarioError, ValueError):
        return None


# Loading


def load(path: Path | str) -> None:
    """Run a file that registers what it brings. ``PluginError``: it can't be read or run; then nothing of it stays."""
    path = Path(path)
    code = _read(path)
    name = f"headway_plugin_{sha256(str(path.absolute()).encode()).hexdigest()[:16]}"
    module = ModuleType(name)
    module.__file__ = str(path)
    before = set(registered())
    sys.modules[name] = module  # where dataclasses look for what their annotations name
    try:
        Guard(Source(str(path), 1), "it can't be loaded").call(_run, code, str(path), module.__dict__)
    except BaseException:
        del sys.modules[name]
        for kind, known, source in set(registered()) - before:
            if source.file == str(path):
                remove(kind, known)
        raise


def _run(code: bytes, file: str, names: dict[str, Any]) -> None:
    exec(compile(code, file, "exec", dont_inherit=True), names)  # noqa: S102  # the user named it on the command line


def _read(path: Path) -> bytes:
    label = f"plugin {show_path(path)}"
    try:
        with open_regular(path) as file:
            data = file.read(MAX_BYTES + 1)
    except ScenarioError as error:
        raise PluginError(*(f"plugin {line}" for line in error.args)) from None
    except OSError as error:
        raise PluginError(f"{label}: can't be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise PluginError(f"{label}: larger than {MAX_BYTES // 2**20} MiB; a file of Python")
    return data


@contextmanager
def loaded(paths: Sequence[str], seconds: float = MAX_SECONDS) -> Iterator[None]:
    """Within, these files are loaded, and no call into a plug-in takes longer than so many seconds."""
    with apart(), WATCH.on(seconds):
        for path in paths:
            load(path)
        yield


# Installed ones


def installed() -> Sequence[EntryPoint]:
    """The plug-ins of installed packages."""
    return tuple(entry_points(group=GROUP))


def news() -> bool:
    """Whether any of them is not loaded yet."""
    return any(point not in _LOADED for point in installed())


def load_installed() -> list[str]:
    """Load the plug-ins of installed packages, each once in a process; what is wrong with some of them, a line each."""
    problems = []
    for point in installed():
        if point not in _LOADED:
            _LOADED.append(point)
            problems += _load_point(point)
    return problems


_LOADED: list[EntryPoint] = []
"""Of this process, as ``sys.modules`` is."""


def _load_point(point: EntryPoint) -> list[str]:
    guard = Guard(Source(point.module, 0), f"entry point {show(point.name)} of {GROUP} can't be loaded")

    def bring() -> None:
        found = point.load()
        if callable(found):
            found()

    try:
        guard.call(bring)
    except PluginError as error:
        return [str(line) for line in error.args]
    return []
