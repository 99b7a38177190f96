"""The ready scenarios: one TOML per question, found by name from a checkout and from an installed wheel alike.

A wheel carries them inside the package (``sim/scenarios/``, put there by the build); in a checkout, which an editable
install points at, they lie beside it (``scenarios/``).
"""

import os
from pathlib import Path

from sim.errors import ScenarioError
from sim.show import show
from sim.spelling import nearest

_PACKAGE = Path(__file__).resolve().parent
_PLACES = (_PACKAGE / "scenarios", _PACKAGE.parent / "scenarios")


def names() -> list[str]:
    """All ready scenarios, by name."""
    return sorted(file.stem for file in _folder().glob("*.toml"))


def path(name: str) -> Path:
    """The file of the ready scenario ``name``. ScenarioError when there is none; the name is never taken as a path."""
    known = names()
    if name not in known:
        allowed = ", ".join(known) or "none: this installation lacks its scenarios"
        message = f"no ready scenario is called {show(name)}; ready: {allowed}{nearest(name, known)}"
        raise ScenarioError(message)
    return _folder() / f"{name}.toml"


def find(source: str | os.PathLike[str]) -> Path:
    """The scenario file that somebody means by ``source``: a ready scenario's name, or a path.

    A bare word is a name, and if nothing ready is called so, the file of that name in the current folder. What has a
    folder or ``.toml`` in it, and every ``os.PathLike``, is a path; whether there is such a file, its reader finds out.
    """
    if not isinstance(source, str) or os.sep in source or source.endswith(".toml"):
        return Path(source)
    if source not in names() and os.path.isfile(source):  # noqa: PTH113  # False, no error, for impossible names
        return Path(source)
    return path(source)


def _folder() -> Path:
    return next((place for place in _PLACES if place.is_dir()), _PLACES[0])
