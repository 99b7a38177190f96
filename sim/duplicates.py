"""What may be there only once in a scenario, looked for in the document itself: whatever else is wrong with it."""

from collections.abc import Iterable, Mapping
from typing import Any

from sim.complaints import MISSING, Problem, look_up
from sim.request import default_id
from sim.toml_lines import Path

SHOWN = 5
"""Most places that are told."""


def duplicates(document: Mapping[str, Any]) -> list[Problem]:
    """Ids of requests (also of those that go by their place), policies, variants: one problem for each repeated one."""
    found: list[Problem] = []
    for path, field in ((("workload", "requests"), "id"), (("run", "policies"), ""), (("run", "variants"), "name")):
        listed = look_up(document, path)
        if isinstance(listed, list):
            found += _repeated(path, field, listed)
    return found


def _repeated(path: Path, field: str, listed: list[Any]) -> Iterable[Problem]:
    places: dict[str, list[int]] = {}
    for place, item in enumerate(listed):
        key = _key(item, field, place)
        if isinstance(key, str):
            places.setdefault(key, []).append(place)
    for key, several in places.items():
        if len(several) > 1:
            yield _problem(path, field, listed, key, several)


def _key(item: Any, field: str, place: int) -> object:
    if not field:
        return item
    if not isinstance(item, dict):
        return None
    name = item.get(field)
    if field == "id":
        return default_id(place) if name is None else name
    return name.lower() if isinstance(name, str) else None  # folders, where capitals may not make a difference


def _problem(path: Path, field: str, listed: list[Any], key: str, places: list[int]) -> Problem:
    """Complains at the second place, and tells the others, the first five of all."""
    first, second, *rest = places[:SHOWN]
    at = (*path, second, field) if field else (*path, second)
    value = listed[second].get(field, MISSING) if field else listed[second]
    default = f"{key} by its place, " if value is MISSING else ""
    more = f" ({len(places)} in all)" if len(places) > SHOWN else ""
    return Problem(
        at, f"{default}not unique{more}; each at most once", value, tuple((*path, p) for p in (first, *rest))
    )
