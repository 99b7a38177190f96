"""Columns of a workload that only its trace states, from the ``asked`` of each request of the result JSON."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sim.errors import ResultError
from sim.record.json_shape import Run, Said
from sim.request import NEVER, Ints, Pieces
from sim.show import show


def said_by_trace(run: Run, output_tokens: Ints) -> Mapping[str, Any]:
    """By the field of a workload; nothing where no request says anything. ``ResultError``: a parent is not there."""
    said = [row.asked for row in run.requests]
    if not any(one.model_fields_set for one in said):
        return {}
    place = {row.id: index for index, row in enumerate(run.requests)}
    unknown = next((one.parent for one in said if one.parent is not None and one.parent not in place), None)
    if unknown is not None:
        raise ResultError(f"parent {show(unknown)}: no such request")

    def column(value: Callable[[Said], int | None]) -> Ints:
        return np.array([NEVER if (v := value(one)) is None else v for one in said], dtype=np.int64)

    def texts(value: Callable[[Said], str]) -> list[str] | None:
        values = list(map(value, said))
        return values if any(values) else None

    declared = column(lambda one: one.max_tokens)
    pairs = [pair for one in said for pair in one.pieces]
    ids, tokens = np.array(pairs, dtype=np.int64).reshape(-1, 2).T.copy()
    return {
        "max_tokens": np.where(declared == NEVER, output_tokens, declared),
        "priority": column(lambda one: one.priority),
        "deadline_ns": column(lambda one: one.deadline_ms),
        "cancel_ns": column(lambda one: one.cancel_ms),
        "samples": column(lambda one: one.samples),
        "prefix_tokens": column(lambda one: one.prefix_tokens),
        "parent": column(lambda one: None if one.parent is None else place[one.parent]),
        "parent_tokens": column(lambda one: one.parent_tokens),
        "tenants": texts(lambda one: one.tenant),
        "prefix_groups": texts(lambda one: one.prefix_group),
        "pieces": Pieces.of(column(lambda one: len(one.pieces)), ids, tokens) if pairs else None,
    }
