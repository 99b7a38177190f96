"""SimPy re-creates the exception of a failed process as ``type(e)(*e.args)``: every error of ours survives that."""

import pickle

import pytest

from sim import errors
from sim.errors import (
    EndlessPluginError,
    HeadwayError,
    InvariantError,
    LimitError,
    OutputError,
    PluginError,
    ResultError,
    ScenarioError,
    StalledError,
)

ALL = [
    ScenarioError,
    PluginError,
    EndlessPluginError,
    ResultError,
    StalledError,
    LimitError,
    OutputError,
    InvariantError,
]


def test_none_is_forgotten_here() -> None:
    defined = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, HeadwayError)}
    assert defined == {HeadwayError, *ALL}


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("lines", [(), ("one line",), ("two", "lines")])
def test_it_survives_being_made_again_and_being_sent(kind: type[HeadwayError], lines: tuple[str, ...]) -> None:
    error = kind(*lines)
    for again in (type(error)(*error.args), pickle.loads(pickle.dumps(error))):  # noqa: S301 (our own)
        assert type(again) is kind
        assert again.args == lines
        assert str(again) == "\n".join(lines)
        assert again.exit_code == error.exit_code


def test_each_has_the_exit_code_of_its_kind() -> None:
    assert {kind.__name__: kind.exit_code for kind in ALL} == {
        "ScenarioError": 2,
        "PluginError": 2,
        "EndlessPluginError": 3,
        "ResultError": 2,
        "StalledError": 3,
        "LimitError": 3,
        "OutputError": 4,
        "InvariantError": 1,
    }
