"""Which keys the tables of a schema have, read off its pydantic models; nothing else lists them."""

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Model = TypeVar("Model", bound=BaseModel)
Path = tuple[str, ...]
Keys = Mapping[Path, Mapping[str, FieldInfo]]
"""By table (``("workload", "requests")`` for each of a list), its keys as they are written."""


def tables(model: type[BaseModel], at: Path = ()) -> dict[Path, dict[str, FieldInfo]]:
    """All tables of ``model``, the outermost first."""
    own = {info.alias or name: info for name, info in model.model_fields.items()}
    found = {at: own}
    for key, info in own.items():
        for inner in _models(info.annotation):
            found |= tables(inner, (*at, key))
    return found


def models(model: type[BaseModel], kind: type[Model], at: Path = ()) -> dict[Path, type[Model]]:
    """Those tables of ``model`` that are of this kind, by where they stand."""
    found = {at: model} if issubclass(model, kind) else {}
    for key, info in model.model_fields.items():
        for inner in _models(info.annotation):
            found |= models(inner, kind, (*at, info.alias or key))
    return found


def is_list(info: FieldInfo) -> bool:
    """Whether the key holds a list."""
    return any(get_origin(kind) is tuple for kind in _parts(info.annotation))


def settable(keys: Keys) -> dict[str, bool]:
    """Every dotted key that can be set from outside, and whether it is a list, which is set as a whole."""
    lists = {(*at, key) for at, table in keys.items() for key, info in table.items() if is_list(info)}
    return {
        ".".join((*at, key)): (*at, key) in lists
        for at, table in keys.items()
        if not any(at[:n] in lists for n in range(len(at) + 1))
        for key in table
    }


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    for kind in _parts(annotation):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield kind


def _parts(annotation: Any) -> Iterator[Any]:
    """The annotation and everything inside its unions, tuples and ``Annotated``."""
    yield annotation
    if get_origin(annotation) in (Union, UnionType, tuple, Annotated):
        for inner in get_args(annotation):
            yield from _parts(inner)
