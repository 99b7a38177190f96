"""A workload as a trace of another format: exactly what that format can hold, and what it can't is told."""

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from sim.request import NEVER, Workload
from sim.workload.own_format import lines_of
from sim.workload.trace_formats import FORMATS

START = datetime(2023, 1, 1)  # noqa: DTZ001 (the format is naive)
"""Where the time of a trace begins that has dates."""


class Written(NamedTuple):
    """A file in pieces, and what of the workload it does not hold."""

    chunks: Iterator[bytes]
    lost: list[str]


class Form(NamedTuple):
    """How a format is written: the rows of its file, the finest time it holds in ns, what it holds besides."""

    lines: Callable[[Workload], Iterator[str]]
    finest_ns: int = 1
    block_tokens: int | None = None
    """Tokens of one of its ``hash_ids``; None: it has none."""
    holds: Sequence[str] = ()


def write(workload: Workload, format_: str) -> Written:
    """``format_`` is a key of :data:`FORMS`."""
    form = FORMS[format_]
    if format_ == "parquet":
        return Written(iter([_parquet(workload)]), _lost(workload, form))
    return Written((line.encode() for line in form.lines(workload)), _lost(workload, form))


def _lost(workload: Workload, form: Form) -> list[str]:
    lost = []
    inexact = int(np.count_nonzero(workload.arrival_ns % form.finest_ns))
    if inexact:
        lost.append(f"{inexact} times are rounded to {form.finest_ns} ns")
    if len(workload) and form.lines is not lines_of and (first := int(workload.arrival_ns.min())):
        lost.append(f"the first request arrives at 0 when it is read, not at {first} ns")
    if absent := [name for name in more_of(workload) if name not in form.holds]:
        lost.append(f"not in the file: {', '.join(absent)}")
    if workload.pieces is not None and form.lines is not lines_of and _blocks(workload, form.block_tokens) is None:
        lost.append(
            "what prompts share is not in the file: it has no hash_ids"
            if form.block_tokens is None
            else f"what prompts share is not in the file: its blocks of {form.block_tokens} tokens do not fit"
        )
    return lost


MORE = ("id", "max_tokens", "priority", "tenant", "deadline", "cancel", "samples", "prefix_group", "prefix_tokens",
        "parent", "parent_tokens")  # fmt: skip


def more_of(workload: Workload) -> dict[str, list[Any]]:
    """The columns beyond the three that every trace has, as far as they are not the defaults. Times in ns or None."""
    plain = Workload.of(workload.arrival_ns, workload.prompt_tokens, workload.output_tokens)
    defaults = dict(plain.columns())
    found: dict[str, list[Any]] = {}
    if workload.ids is not None:
        found["id"] = workload.all_ids()
    for name, column in workload.columns():
        if name in ("arrival_ns", "prompt_tokens", "output_tokens") or np.array_equal(column, defaults[name]):
            continue
        values = column.tolist()
        if name.endswith("_ns"):
            found[name.removesuffix("_ns")] = [None if value == NEVER else value for value in values]
        elif name == "parent":
            found[name] = ["" if value == NEVER else workload.id(value) for value in values]
        else:
            found[name] = values
    if "parent" in found:
        found.setdefault("id", workload.all_ids())
    for name, texts in (("tenant", workload.tenants), ("prefix_group", workload.prefix_groups)):
        if texts is not None and any(texts):
            found[name] = list(texts)
    return found


def decimal(ns: int, unit_ns: int) -> str:
    """The exact decimal of ``ns`` in a unit, without a point where it is whole."""
    whole, rest = divmod(ns, unit_ns)
    digits = f"{rest:0{len(str(unit_ns)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{digits}" if digits else str(whole)


def _rows(workload: Workload) -> Iterator[tuple[int, int, int]]:
    columns = (workload.arrival_ns, workload.prompt_tokens, workload.output_tokens)
    return zip(*(column.tolist() for column in columns), strict=True)


def _azure(workload: Workload) -> Iterator[str]:
    yield ",".join(FORMATS["azure"].headers[0]) + "\n"
    for ns, prompt, output in _rows(workload):
        seconds, tenths_us = divmod((ns + 50) // 100, 10**7)
        yield f"{START + timedelta(seconds=seconds)}.{tenths_us:07d},{prompt},{output}\n"


def _burstgpt(workload: Workload) -> Iterator[str]:
    yield "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    for ns, prompt, output in _rows(workload):
        yield f"{decimal(ns, 10**9)},unknown,{prompt},{output},{prompt + output},API log\n"


def _vidur(workload: Workload) -> Iterator[str]:
    yield "arrived_at,num_prefill_tokens,num_decode_tokens\n"
    yield from (f"{decimal(ns, 10**9)},{prompt},{output}\n" for ns, prompt, output in _rows(workload))


def _mooncake(workload: Workload) -> Iterator[str]:
    return _hashed(workload, 10**6, 512)


def _timed_trace(workload: Workload) -> Iterator[str]:
    return _hashed(workload, 10**9, 16)


def _hashed(workload: Workload, unit_ns: int, block_tokens: int) -> Iterator[str]:
    blocks = _blocks(workload, block_tokens)
    for index, (ns, prompt, output) in enumerate(_rows(workload)):
        ids = [] if blocks is None else blocks[index]
        yield (
            f'{{"timestamp": {decimal(ns, unit_ns)}, "input_length": {prompt}, "output_length": {output}, '
            f'"hash_ids": {json.dumps(ids)}}}\n'
        )


def _blocks(workload: Workload, size: int | None) -> list[list[int]] | None:
    """The pieces as blocks of ``size`` tokens; None where they do not fall into such blocks.

    A piece of several blocks becomes several ids; where all are one block each, the ids stay.
    """
    if workload.pieces is None or size is None:
        return None
    numbers: dict[tuple[int, int], int] = {}
    same = not (workload.pieces.tokens > size).any()
    found = []
    for pieces, prompt in zip(workload.pieces.of_each(), workload.prompt_tokens.tolist(), strict=True):
        ids, start = [], 0
        for id_, tokens in pieces:
            if start % size:
                return None
            parts = range(-(-tokens // size))
            ids += [id_] if same else [numbers.setdefault((id_, part), len(numbers)) for part in parts]
            start += tokens
        if start % size and start < prompt:
            return None
        found.append(ids)
    return found


def _named(workload: Workload) -> dict[str, list[Any]]:
    """All columns of a generic format by their names."""
    three = {
        "arrival_ms": workload.arrival_ns,
        "prompt_tokens": workload.prompt_tokens,
        "output_tokens": workload.output_tokens,
    }
    return {name: column.tolist() for name, column in three.items()} | more_of(workload)


TIMES = ("arrival_ms", "deadline", "cancel")


def _csv(workload: Workload) -> Iterator[str]:
    """Texts are always in quotes, whatever they begin with."""
    columns = _named(workload)
    yield ",".join(columns) + "\n"
    for row in zip(*columns.values(), strict=True):
        yield ",".join(_cell(name, value) for name, value in zip(columns, row, strict=True)) + "\n"


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return decimal(value, 10**6) if name in TIMES else str(value)


def _jsonl(workload: Workload) -> Iterator[str]:
    columns = _named(workload)
    for row in zip(*columns.values(), strict=True):
        cells = (f'"{name}": {_json(name, value)}' for name, value in zip(columns, row, strict=True))
        yield "{" + ", ".join(cells) + "}\n"


def _json(name: str, value: Any) -> str:
    return decimal(value, 10**6) if name in TIMES and value is not None else json.dumps(value, ensure_ascii=False)


def _parquet(workload: Workload) -> bytes:
    """``arrival_ns``, ``deadline`` and ``cancel`` in whole ns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = _named(workload)
    columns = {"arrival_ns": columns.pop("arrival_ms"), **columns}
    texts = ("id", "tenant", "prefix_group", "parent")
    table = pa.table({name: pa.array(values, pa.string() if name in texts else pa.int64())
                      for name, values in columns.items()})  # fmt: skip
    file = io.BytesIO()
    pq.write_table(table, file, compression="zstd")
    return file.getvalue()


FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "azure": Form(_azure, finest_ns=100),
        "burstgpt": Form(_burstgpt),
        "mooncake": Form(_mooncake, block_tokens=512),
        "vidur": Form(_vidur),
        "timed_trace": Form(_timed_trace, block_tokens=16),
        "csv": Form(_csv, holds=MORE),
        "jsonl": Form(_jsonl, holds=MORE),
        "parquet": Form(_csv, holds=MORE),
        "headway": Form(lines_of, holds=MORE),
    }
)
"""The formats that can be written."""
