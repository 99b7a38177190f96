"""Tables of a scenario that name a thing with keys of its own: those of somebody's own thing are its class's fields.

A cost model, a law of arrivals or of lengths is a frozen dataclass; each field is a key, checked by its annotation.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from decimal import Decimal
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    PrivateAttr,
    create_model,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from sim.errors import ScenarioError
from sim.fields import MAX_COUNT, Text
from sim.guard import Guard
from sim.registry import Registry
from sim.show import show
from sim.table import Table

DIGITS = 40
"""Beyond 10^40, or finer than 10^-40, is no number: an exponent without bound would fill the memory."""


def _number(value: object) -> object:
    return Decimal(value) if type(value) is int else value


def _bounded(value: Decimal) -> Decimal:
    if value and not -DIGITS <= value.adjusted() <= DIGITS:
        raise PydanticCustomError("bounds", f"out of range; between 1e-{DIGITS} and 1e{DIGITS}")
    return value


Number = Annotated[Decimal, BeforeValidator(_number), Field(allow_inf_nan=False), AfterValidator(_bounded)]
Whole = Annotated[int, Field(ge=-MAX_COUNT, le=MAX_COUNT)]
SIMPLE: Mapping[Any, Any] = {bool: bool, int: Whole, float: Number, Decimal: Number, str: Text}


@dataclass(frozen=True)
class OwnThing:
    """Somebody's class, and the table of its keys."""

    make: type[Any]
    table: type[Table]
    guard: Guard
    hints: Mapping[str, Any]
    """The annotations of its fields."""

    def made(self, values: Mapping[str, Any]) -> Any:
        """The thing with these values of its keys. What its ``__post_init__`` refuses is an error of the table."""
        exact = {name: _as_asked(value, self.hints[name]) for name, value in values.items()}

        def make() -> tuple[Any, str | None]:
            try:
                return self.make(**exact), None
            except ValueError as error:
                return None, str(error)

        thing, problem = self.guard.call(make)
        if problem is not None:
            raise PydanticCustomError("own", "{message}", {"message": problem})
        return thing


def _as_asked(value: Any, hint: Any) -> Any:
    """A value of the document as the field wants it: a float, a tuple."""
    kinds = _parts(hint)
    if isinstance(value, list):
        inner = [_as_asked(each, kinds[1]) for each in value]
        return tuple(inner) if any(get_origin(kind) is tuple for kind in kinds) else inner
    return float(value) if float in kinds and isinstance(value, Decimal) else value


def thing(make: Any, guard: Guard, *methods: str) -> OwnThing:
    """What a frozen dataclass with these methods comes to. ``PluginError``: it is none, or a field can't be a key."""
    if not isinstance(make, type) or not is_dataclass(make):
        guard.refuse("not a dataclass; a class under @dataclass(frozen=True), whose fields are its keys", make)
    missing = [name for name in methods if not callable(getattr(make, name, None))]
    if missing:
        guard.refuse(f"the class {make.__name__} has no {missing[0]}; it must have {', '.join(methods)}")
    hints = guard.call(get_type_hints, make)
    keys: dict[str, Any] = {}
    for field in fields(make):
        kind = _kind(hints[field.name])
        if kind is None or not field.init:
            allowed = "int, Decimal, float, bool, str, a list of one of them, or one of them or None"
            guard.refuse(f"field {field.name}: {hints[field.name]} can't be a key; {allowed}")
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        keys[field.name] = (kind, ... if default is MISSING else _plain(default))
    table = create_model(make.__name__, __base__=Table, **keys)
    return OwnThing(make, table, guard, hints)


def _parts(hint: Any) -> tuple[Any, ...]:
    return (hint, *(part for inner in get_args(hint) for part in _parts(inner)))


def _plain(value: Any) -> Any:
    """A default as a document would have it."""
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return Decimal(repr(value)) if isinstance(value, float) else value


def _kind(hint: Any) -> Any:
    """The type of a key, None for what can't be one."""
    if hint in SIMPLE:
        return SIMPLE[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal and all(isinstance(each, str) for each in inner):
        return hint
    if origin in (list, tuple) and inner[0] in SIMPLE and inner[1:] in ((), (...,)):
        return list.__class_getitem__(SIMPLE[inner[0]])
    if origin in (Union, UnionType) and len(inner) == 2 and NoneType in inner:
        kind = _kind(next(each for each in inner if each is not NoneType))
        return None if kind is None else kind | None if isinstance(kind, type) else Union[kind, None]  # noqa: UP007
    return None


def names_in(names: Mapping[str, Any]) -> Callable[[dict[str, Any]], None]:
    """For the JSON Schema: the names as they are when somebody asks."""
    return lambda schema: schema.update(enum=list(names))


class OpenTable(Table):
    """A table that says by one of its keys what it is of. ``besides``: keys that it has whatever it is of."""

    names_by: ClassVar[str]
    rows: ClassVar[Registry[Any]]
    besides: ClassVar[tuple[str, ...]] = ()
    _own: dict[str, Any] | None = PrivateAttr(None)

    @model_validator(mode="wrap")
    @classmethod
    def _with_own_keys(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        own = cls.own_of(data)
        if own is None:
            return handler(data)
        known = (cls.names_by, *cls.besides)
        keys = own.table.model_validate({key: value for key, value in data.items() if key not in known})
        values = keys.model_dump()
        own.made(values)
        table = handler({key: value for key, value in data.items() if key in known})
        table._own = values  # noqa: SLF001  # its own class
        table.check_own()
        return table

    def check_own(self) -> None:
        """What the keys that it has in any case say of somebody's own thing. Raises pydantic's errors."""

    @classmethod
    def own_of(cls, data: Any) -> OwnThing | None:
        """What somebody registered under the name that ``data``, a table as it was read, has; None for our own."""
        name = data.get(cls.names_by) if isinstance(data, dict) else None
        if not isinstance(name, str) or cls.rows.source(name) is None:
            return None
        row: OwnThing = cls.rows[name]
        return row

    @property
    def own(self) -> tuple[OwnThing, Any] | None:
        """Somebody's own thing that it is of, and one made of its keys; None: ours."""
        if self._own is None:
            return None
        name = getattr(self, self.names_by)
        if name not in self.rows:
            raise ScenarioError(f"{self.names_by} = {show(name)}: was registered when this was read, and is no longer")
        row: OwnThing = self.rows[name]
        return row, row.made(self._own)

    def all_values(self) -> dict[str, Any]:
        """All its keys with their values."""
        if self._own is None:
            return self.model_dump()
        return {key: getattr(self, key) for key in (self.names_by, *self.besides)} | self._own

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core_schema)
        inner = handler.resolve_ref_schema(schema)
        for name in cls.rows.own if "rows" in vars(cls) else ():
            for key, field in handler(cls.rows[name].table.__pydantic_core_schema__).get("properties", {}).items():
                inner.get("properties", {}).setdefault(key, field)
        return schema


def own_fields(table: type[OpenTable], data: Any) -> Mapping[str, FieldInfo] | None:
    """The keys of a table as it was read, if it is of somebody's own thing."""
    own = table.own_of(data)
    if own is None:
        return None
    known = {key: table.model_fields[key] for key in (table.names_by, *table.besides)}
    return known | own.table.model_fields
