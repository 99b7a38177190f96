"""Headway: a laboratory for one question about an LLM server. Who goes first, and what does that cost everybody else?

>>> import sim
>>> scenario = sim.load("mixed")
>>> result = sim.simulate(scenario.with_overrides({"scheduler.policy": "chunked"}))
>>> result.token_times("A")[:3].tolist()  # nanoseconds
[2250000, 3500000, 7000000]
"""

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from sim.version import VERSION

if TYPE_CHECKING:
    from sim.plugins import register
    from sim.record.read import open_result, open_results
    from sim.record.result import Result
    from sim.scenario import Scenario
    from sim.simulation import simulate

__version__ = VERSION

__all__ = ["Result", "Scenario", "__version__", "load", "open_result", "open_results", "register", "simulate"]

_HOMES = {
    "Result": "sim.record.result",
    "Scenario": "sim.scenario",
    "open_result": "sim.record.read",
    "open_results": "sim.record.read",
    "register": "sim.plugins",
    "simulate": "sim.simulation",
}


def load(source: str | PathLike[str] | Mapping[str, Any], *, overrides: Mapping[str, Any] | None = None) -> "Scenario":
    """Read a scenario: the path of a TOML file, a mapping of the same shape, or the name of one that Headway ships.

    ``overrides`` are put into it first, by dotted key: ``{"scheduler.chunk_tokens": 4}``. ``ScenarioError`` names
    every problem, one a line.
    """
    from sim import gallery, names, scenario
    from sim.errors import ScenarioError

    place = source if isinstance(source, Mapping) else gallery.find(source)
    try:
        return scenario.load(place, overrides=overrides, known=names.known())
    except ScenarioError as error:
        from sim import plugins

        if not plugins.news():
            raise
        problems = plugins.load_installed()
        try:
            return scenario.load(place, overrides=overrides, known=names.known())
        except ScenarioError:
            raise ScenarioError(*error.args, *problems) from None


def __getattr__(name: str) -> Any:
    """The rest of the public face, imported when it is first asked for: ``import sim`` alone stays cheap."""
    if name not in _HOMES:
        raise AttributeError(f"module 'sim' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
