"""What is wrong with a scenario, in lines: ``file (line 7): scheduler.chunk_tokens = 0: too small; at least 1``."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from sim.errors import ScenarioError
from sim.keys import Keys
from sim.show import escape, shorten, show
from sim.spelling import nearest
from sim.toml_lines import Path, key_lines

MOST = 20
"""Most problems that are listed; the others are counted."""

ELSEWHERE = {
    "arrival": "arrival_ms",
    "timestamp": "arrival_ms",
    "block_size": "block_tokens",
    "chunk": "chunk_tokens",
    "chunk_size": "chunk_tokens",
    "enable_chunked_prefill": "chunked_prefill",
    "enable_prefix_caching": "prefix_cache",
    "input_length": "prompt_tokens",
    "input_tokens": "prompt_tokens",
    "long_prefill_token_threshold": "long_prefill_tokens",
    "max_model_len": "max_model_tokens",
    "max_num_batched_tokens": "token_budget",
    "max_num_seqs": "max_running",
    "max_batch_size": "max_running",
    "num_gpu_blocks": "blocks",
    "num_blocks": "blocks",
    "output_length": "output_tokens",
    "output_len": "output_tokens",
    "overhead_ms": "job_ms",
    "prompt_len": "prompt_tokens",
    "qps": "rate_per_s",
    "rate": "rate_per_s",
    "request_rate": "rate_per_s",
    "request_id": "id",
}
"""What other tools and the lesson call our keys; only those are hinted at that the schema has."""

NAMING = ("cost", "process", "distribution")
"""The keys whose value says what other keys their table has."""

MISSING = object()


@dataclass(frozen=True)
class Place:
    """Where a document comes from. ``label`` is its file, ``text`` what stood in it (None for a mapping).

    ``overrides`` are the dotted keys that were set from outside; ``variant`` names the variant that set them, which
    stands at ``within``.
    """

    label: str
    text: str | None = None
    overrides: frozenset[str] = frozenset()
    variant: str = ""
    within: Path = ()


def at(within: Path | str, message: str) -> PydanticCustomError:
    """An error of a whole table, for a validator to raise, that is about what lies ``within`` it: a key, or a path."""
    path = (within,) if isinstance(within, str) else within
    return PydanticCustomError("at", "{message}", {"within": path, "message": message})


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where, with what value, what to say about it, and which other places it is about."""

    path: Path
    message: str
    value: object = MISSING
    also: tuple[Path, ...] = ()


def of_validation(
    error: ValidationError, document: Mapping[str, Any], keys_at: Callable[[Path], Keys]
) -> list[Problem]:
    """Pydantic's errors as problems, in its order. ``keys_at``: the keys of all tables, as they are at this place."""
    found = []
    details = error.errors(include_url=False, include_input=False)
    unknown = [detail["loc"] for detail in details if detail["type"] == "unknown_name"]
    of_unknown = {loc[:-1] for loc in unknown if loc[-1] in NAMING}
    for detail in details:
        if detail["type"] == "extra_forbidden" and detail["loc"][:-1] in of_unknown:
            continue  # what keys a thing has, nobody knows who does not know the thing
        path = detail["loc"] + (detail["ctx"]["within"] if detail["type"] == "at" else ())
        value = look_up(document, path)
        if detail["type"] == "default_factory_not_called" or (detail["type"] == "too_short" and value):
            continue  # both only follow from another error, which is here as well
        found.append(Problem(path, _message(detail, path, value, keys_at(path[:-1])), value))
    return found


def look_up(document: Any, path: Path) -> object:
    for step in path:
        try:
            document = document[step]
        except (KeyError, IndexError, TypeError):
            return MISSING
    return document


def scenario_error(problems: Sequence[Problem], place: Place) -> ScenarioError:
    """All problems as one error, in the order of their lines."""
    lines = key_lines(place.text) if place.text is not None else {}
    ordered = sorted(problems, key=lambda problem: _line(problem.path, place, lines) or 0)
    return ScenarioError(*(_text(problem, place, lines) for problem in ordered))


@contextmanager
def at_most(most: int = MOST) -> Iterator[None]:
    """Shortens the list of problems of an error that comes out of it."""
    try:
        yield
    except ScenarioError as error:
        if len(error.args) <= most:
            raise
        raise ScenarioError(*error.args[:most], f"and {len(error.args) - most} more") from None


def _text(problem: Problem, place: Place, lines: Mapping[Path, int]) -> str:
    line = _line(problem.path, place, lines)
    head = dotted(problem.path)
    if problem.value is not MISSING and not (isinstance(problem.value, (dict, list)) and problem.value):
        head += f" = {show(problem.value)}"
    said = f"{head}: {problem.message}" if head else problem.message
    if problem.also:
        said += "; also " + ", ".join(dotted(p) + _in_line(_line(p, place, lines)) for p in problem.also)
    if place.variant:
        said = f"variant {show(place.variant)}: {said}"
    elif _overridden(problem.path, place):
        return f"--set {said}"
    return f"{place.label}{_in_line(line)}: {said}"


def _in_line(line: int | None) -> str:
    return f" (line {line})" if line else ""


def _overridden(path: Path, place: Place) -> bool:
    steps = [str(step) for step in path]
    return any(".".join(steps[:n]) in place.overrides for n in range(1, len(steps) + 1))


def _line(path: Path, place: Place, lines: Mapping[Path, int]) -> int | None:
    """The line of the path, or of the innermost table around it that has one."""
    if place.variant:
        setting = dotted(path)
        for within in ((*place.within, "set", setting), (*place.within, "set", *path)):
            if within in lines:
                return lines[within]
        path = place.within
    return next((lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in lines), None)


def dotted(path: Path) -> str:
    """``workload.requests[2].id``; what is no bare key of TOML is quoted."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = step if re.fullmatch(r"[A-Za-z0-9_-]+", step) else show(step)
            text += f".{shorten(name)}" if text else shorten(name)
    return text


def _message(detail: ErrorDetails, path: Path, value: object, keys: Keys) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return unknown_key(path, keys)
    if kind == "missing":
        return _missing(path, keys)
    if kind in EXPECTED:
        return wrong_type(EXPECTED[kind], value)
    if kind in WORDS:
        return WORDS[kind](context, value)
    return str(detail["msg"])


EXPECTED = {
    "bool_type": "true or false",
    "int_type": "an integer",
    "is_instance_of": "a number",
    "decimal_type": "a number",
    "string_type": "a string",
    "tokens_or_output": 'an integer or "output"',
    "tuple_type": "a list",
    "list_type": "a list",
    "model_type": "a table",
    "dict_type": "a table",
}


def wrong_type(expected: str, value: object) -> str:
    """``expected an integer, got a string; write 16 without quotes``."""
    said = f"expected {expected}, got {_kind(value)}"
    if isinstance(value, Decimal) and expected == "an integer":
        if not value.is_finite():
            return f"{said}; must be finite"
        whole = value == value.to_integral_value() and abs(value) < 10**18
        return f"{said} with a decimal point or an exponent" + (f"; write {int(value)}" if whole else "")
    if isinstance(value, str) and re.fullmatch(r"\s*-?\d+(\.\d+)?\s*", value, re.ASCII) and "string" not in expected:
        return f"{said}; write {escape(shorten(value.strip()))} without quotes"
    return said


def _kind(value: object) -> str:
    kinds = {bool: "a boolean", int: "an integer", str: "a string", Decimal: "a number", list: "a list",
             dict: "a table", type(None): "nothing"}  # fmt: skip
    return kinds.get(type(value), f"a value of type {type(value).__name__}")


def _literal(context: Mapping[str, Any], value: object) -> str:
    allowed = re.findall(r"'([^']*)'", context["expected"])
    return unknown_name(value, allowed) if isinstance(value, str) else wrong_type("a string", value)


def unknown_name(value: object, allowed: Sequence[str]) -> str:
    return f"unknown; one of {', '.join(allowed)}{nearest(str(value), allowed)}"


WORDS: Mapping[str, Callable[[Mapping[str, Any], object], str]] = {
    "greater_than_equal": lambda c, _: f"too small; at least {_bound(c['ge'])}",
    "greater_than": lambda c, _: f"too small; above {_bound(c['gt'])}",
    "less_than_equal": lambda c, _: f"too large; at most {_bound(c['le'])}",
    "finite_number": lambda *_: "not finite; must be a finite number",
    "literal_error": _literal,
    "unknown_name": lambda c, v: unknown_name(v, c["names"]),
    "string_pattern_mismatch": lambda *_: "not a name; 1 to 64 of letters, digits, '.', '_', '-'",
    "string_too_long": lambda c, v: f"{len(str(v))} characters; at most {c['max_length']}",
    "string_too_short": lambda *_: "empty; at least 1 character",
    "string_unicode": lambda *_: "not valid Unicode; no lone surrogates",
    "too_long": lambda c, _: f"{c['actual_length']} items; at most {c['max_length']}",
    "too_short": lambda *_: "empty; at least one",
}


def _bound(value: object) -> str:
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _missing(path: Path, keys: Keys) -> str:
    if isinstance(path[-1], int):
        return "missing; the list is too short"
    info = keys[names(path[:-1])][path[-1]]
    if names(path) in keys:
        return f"missing; a table [{dotted(path)}] with {', '.join(keys[names(path)])}"
    return f"missing; for example {path[-1]} = {show(info.examples[0])}" if info.examples else "missing"


def names(path: Path) -> tuple[str, ...]:
    return tuple(step for step in path if isinstance(step, str))


def unknown_key(path: Path, keys: Keys) -> str:
    """What to say of a key that its table does not have: where it belongs, what it may have meant, or all there are."""
    table, key = names(path[:-1]), str(path[-1])
    own = keys.get(table, {})
    said = f"unknown key in {_table(path[:-1])}"
    meant = ELSEWHERE.get(key, key)
    if meant in own:
        return f"{said}; did you mean '{meant}'?"
    homes = [_header(home) for home, names_there in keys.items() if meant in names_there]
    if homes:
        called = f"'{meant}' " if meant != key else ""
        return f"{said}; {called}belongs to {' or '.join(homes)}"
    return said + (nearest(key, own) or f"; one of {', '.join(own)}")


def _table(path: Path) -> str:
    if path and isinstance(path[-1], int):
        return dotted(path)
    return _header(names(path))


def _header(table: tuple[str, ...]) -> str:
    return f"[{'.'.join(table)}]" if table else "the file"


def unknown_override(key: str, settable: Mapping[str, bool]) -> str | None:
    """What to say of a dotted key that can't be set; None when it can."""
    if key in settable:
        return None
    parts = key.split(".")
    above = next((".".join(parts[:n]) for n in range(1, len(parts)) if settable.get(".".join(parts[:n]))), None)
    if above:
        return f"{above} is a list; set it as a whole"
    meant = ELSEWHERE.get(parts[-1], parts[-1])
    homes = [name for name in settable if name.split(".")[-1] == meant]
    return "unknown key" + (f"; did you mean '{homes[0]}'?" if homes else nearest(key, settable))
