"""What ``import sim`` promises holds whatever else has been imported."""

from importlib import import_module
from importlib.util import find_spec

import pytest

import sim

LAZY = sorted({*sim.__all__} - {"__version__", "load"})


@pytest.mark.parametrize("name", LAZY)
def test_no_module_of_the_package_has_the_name_of_something_public(name: str) -> None:
    """Importing a module puts it into its package under its name, over what the package has there."""
    assert find_spec(f"sim.{name}") is None


def test_the_functions_are_functions_after_the_command_was_imported() -> None:
    import_module("sim.experiment")
    assert callable(sim.simulate)
    assert callable(sim.open_result)
