"""Option texts of the command line to values. What is given twice, empty or ill-formed is refused by name."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from sim.errors import ScenarioError
from sim.show import show
from sim.spelling import nearest

LANGUAGES = ("en", "zh")
TRACE_PATH = "workload.trace.path"


def once(option: str, given: Sequence[str] | None) -> str | None:
    """The value of an option that may stand once; None when it does not stand."""
    if not given:
        return None
    if len(given) > 1:
        raise ScenarioError(f"{option}: given {len(given)} times ({', '.join(map(show, given))}); only once")
    if not given[0].strip():
        raise ScenarioError(f"{option}: empty; a value")
    return given[0]


def integer(option: str, given: Sequence[str] | None) -> int | None:
    text = once(option, given)
    if text is None:
        return None
    if not re.fullmatch(r"-?[0-9]{1,30}", text):
        raise ScenarioError(f"{option} {show(text)}: not an integer; decimal digits")
    return int(text)


def decimal(option: str, given: Sequence[str] | None) -> Decimal | None:
    text = once(option, given)
    if text is None:
        return None
    if not re.fullmatch(r"-?[0-9]{1,30}(\.[0-9]{1,30})?", text):
        raise ScenarioError(f"{option} {show(text)}: not a number; decimal digits, with a point if needed")
    return Decimal(text)


def language(given: Sequence[str] | None) -> str:
    """The language asked for, else that of the locale."""
    from sim.report.language import from_locale

    text = once("--lang", given)
    if text is None:
        return from_locale()
    if text not in LANGUAGES:
        raise ScenarioError(f"--lang {show(text)}: unknown; one of {', '.join(LANGUAGES)}{nearest(text, LANGUAGES)}")
    return text


def overrides(given: Sequence[str] | None, named: Mapping[str, Any]) -> dict[str, Any]:
    """What ``--set`` and the options with names of their own put into the document, by dotted key."""
    values: dict[str, Any] = {}
    for text in given or ():
        key, separator, value = text.partition("=")
        if not separator or not re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+", key):
            raise ScenarioError(f"--set {show(text)}: not of the form TABLE.KEY=VALUE; e.g. scheduler.chunk_tokens=4")
        if key in values:
            raise ScenarioError(f"--set {key}: given twice; only once")
        values[key] = toml_value(value) if key != TRACE_PATH else str(Path(value).absolute())
    for key, value in named.items():
        if value is not None and key in values:
            raise ScenarioError(f"--set {key}: also given by an option of its own; only one of them")
        if value is not None:
            values[key] = value
    return values


def toml_value(text: str) -> Any:
    """``text`` as TOML reads it (``4``, ``0.5``, ``true``, ``["a", "b"]``); what is no TOML value is a text itself."""
    if "\n" in text:
        return text
    try:
        return tomllib.loads(f"value = {text}", parse_float=Decimal)["value"]
    except (ValueError, RecursionError):
        return text
