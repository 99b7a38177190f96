"""A workload as it met the server, a request a line: written by ``run --save-workload``, read as format ``headway``.

The first line is ``{"headway": "workload/1"}``. Each other line is one request with the keys of a scenario's requests;
times are exact decimals of ms on the clock of the simulation. What is the default is left out. ``pieces`` is a list of
``[id, tokens]``.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from sim.clock import ms_text
from sim.complaints import wrong_type
from sim.request import NEVER, Workload, default_id
from sim.workload.trace_file import TraceFile
from sim.workload.trace_jsonl import JsonRows, parse
from sim.workload.trace_layout import Names
from sim.workload.trace_values import COUNT, BadValueError, Instants, ids_of, whole_of_value

VERSION = "workload/1"


class OwnRows(JsonRows):
    """Times are not moved: the clock is that of the simulation."""

    def __init__(self, file: TraceFile, names: Names, instants: Instants) -> None:
        super().__init__(file, names, instants)
        place = self.keys.index("hash_ids")
        readers = list(self.readers)
        readers[place] = _pieces
        self.readers = readers

    def records(self) -> Iterator[tuple[int, str]]:
        rows = super().records()
        line, first = next(rows, (1, ""))
        try:
            head = parse(first) if first else None
        except BadValueError:
            head = None
        if not isinstance(head, dict) or head.get("headway") != VERSION:
            raise self._file.error(f'line {line} must be {{"headway": "{VERSION}"}}')
        yield from rows

    def of_object(self, found: Any) -> Sequence[Any]:
        values = super().of_object(found)
        strange = [key for key in found if key not in self.columns]
        if strange:
            raise BadValueError(f"unknown key {strange[0][:40]!r}; one of {', '.join(self.columns)}")
        return values


def _pieces(value: Any) -> tuple[list[int], list[int]]:
    if value is None:
        return [], []
    if not isinstance(value, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        raise BadValueError(f"{wrong_type('a list', value)} of [id, tokens]" if not isinstance(value, list) else
                            "holds what is no [id, tokens]")  # fmt: skip
    return ids_of([id_ for id_, _ in value]), [whole_of_value(tokens, COUNT) for _, tokens in value]


def lines_of(workload: Workload) -> Iterator[str]:
    """The file, line by line."""
    yield f'{{"headway": "{VERSION}"}}\n'
    parents, groups = workload.parent.tolist(), workload.prefix_groups
    for spec in workload.specs():
        index = spec.index
        row: dict[str, Any] = {} if workload.ids is None and spec.id == default_id(index) else {"id": spec.id}
        row |= {"prompt_tokens": spec.prompt_tokens, "output_tokens": spec.output_tokens}
        more: dict[str, tuple[Any, Any]] = {
            "max_tokens": (spec.max_tokens, spec.output_tokens),
            "priority": (spec.priority, 0),
            "tenant": (spec.tenant, ""),
            "samples": (spec.samples, 1),
            "prefix_group": ("" if groups is None else groups[index], ""),
            "prefix_tokens": (int(workload.prefix_tokens[index]), 0),
            "parent": ("" if parents[index] == NEVER else workload.id(parents[index]), ""),
            "parent_tokens": (int(workload.parent_tokens[index]), 0),
            "pieces": ([] if workload.pieces is None else [list(p) for p in workload.pieces.of_request(index)], []),
        }
        row |= {key: value for key, (value, default) in more.items() if value != default}
        times = {"arrival_ms": spec.arrival_ns, "deadline_ms": spec.deadline_ns, "cancel_ms": spec.cancel_ns}
        said = [f'"{key}": {ms_text(ns)}' for key, ns in times.items() if ns is not None]
        said.append(json.dumps(row, ensure_ascii=False)[1:-1])
        yield f"{{{', '.join(said)}}}\n"
