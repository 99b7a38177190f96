"""Option texts of the command line to values. What is given twice, empty or ill-formed is refused by name."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from sim.errors import ScenarioError
from sim.show import show
from sim.spelling import nearest

LANGUAGES = ("en", "zh")
TRACE_PATH = "workload.trace.path"
NAMES = {
    "scheduler.chunk_tokens": "--chunk",
    "device.job_ms": "--overhead-ms",
    "run.seed": "--seed",
    "run.max_jobs": "--max-jobs",
    "run.max_seconds": "--max-seconds",
    "workload.count": "--requests",
    "workload.trace.format": "--format",
    "workload.trace.unit": "--unit",
    "workload.trace.limit": "--limit",
    "workload.trace.skip": "--skip",
    "workload.trace.thin": "--thin",
    "workload.trace.loop": "--loop",
    "workload.trace.speedup": "--speedup",
}
"""The keys that have an option of their own."""


def once(option: str, given: Sequence[str] | None) -> str | None:
    """The value of an option that may stand once; None when it does not stand."""
    if not given:
        return None
    if len(given) > 1:
        raise ScenarioError(f"{option}: given {len(given)} times ({', '.join(map(show, given))}); only once")
    if not given[0].strip():
        raise ScenarioError(f"{option}: empty; a value")
    return given[0]


def several(option: str, given: Sequence[str] | None) -> Sequence[str]:
    """The values of an option that may stand several times, each of them once."""
    for text in given or ():
        once(option, [text])
        if (given or ()).count(text) > 1:
            raise ScenarioError(f"{option} {show(text)}: given twice; each at most once")
    return given or ()


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


@contextmanager
def by_their_names(given: Sequence[str] | None = None) -> Iterator[None]:
    """Complaints about a key that was given by an option of its own speak of that option."""
    try:
        yield
    except ScenarioError as error:
        lines = error.args
        for key, option in NAMES.items():
            if not any(text.startswith(f"{key}=") for text in given or ()):
                lines = tuple(str(line).replace(f"--set {key} = ", f"{option} ") for line in lines)
        raise ScenarioError(*lines) from None


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
