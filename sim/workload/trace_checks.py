"""What the columns of a trace say of one another: ids once each, declared bounds, parents that are there."""

from collections.abc import Iterator, Sequence

import numpy as np

from sim.request import NEVER, Ints, default_id
from sim.workload.trace_file import TraceFile
from sim.workload.trace_rows import Columns, int64

SHOWN = 5
"""Lines that are told of one id."""


def check(file: TraceFile, columns: Columns, named: dict[str, str]) -> None:
    """Notes each problem in ``file``; ``named`` is what it calls the keys."""
    ints, lines = {key: int64(values) for key, values in columns.ints.items()}, columns.lines

    def complain(bad: "np.ndarray[tuple[int], np.dtype[np.bool_]]", key: str, problem: str) -> None:
        for row in np.flatnonzero(bad).tolist():
            file.complain(lines[row], named[key], int(ints[key][row]), problem)

    if "max_tokens" in ints:
        less = (ints["max_tokens"] > 0) & (ints["max_tokens"] < ints["output_tokens"])
        complain(less, "max_tokens", f"too small; at least the row's {named['output_tokens']}")
    for tokens, of in (("prefix_tokens", "prefix_group"), ("parent_tokens", "parent")):
        if tokens in ints:
            complain(ints[tokens] > ints["prompt_tokens"], tokens, f"too large; at most the {named['prompt_tokens']}")
            given = np.array([bool(text) for text in columns.texts.get(of, [""] * len(lines))], dtype=bool)
            complain((ints[tokens] > 0) & ~given, tokens, f"without {of}; name it, or leave it out")
    for id_, rows in _repeated(columns.texts.get("id", ())):
        shown = ", ".join(str(lines[row]) for row in rows[:SHOWN])
        more = f" ({len(rows)} in all)" if len(rows) > SHOWN else ""
        file.complain(lines[rows[1]], named["id"], id_, f"not unique: lines {shown}{more}; each at most once")


def _repeated(ids: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """Ids that stand more than once, those that go by their place included, and their rows."""
    if len(set(ids)) == len(ids):
        return
    rows: dict[str, list[int]] = {}
    for row, id_ in enumerate(ids):
        rows.setdefault(id_ or default_id(row), []).append(row)
    yield from ((id_, several) for id_, several in rows.items() if len(several) > 1)


def parents(file: TraceFile, columns: Columns, named: dict[str, str]) -> tuple[Ints, int]:
    """The place of each row's parent in the file, and how many name one that is not among the rows taken.

    Problems are noted: a parent that is too short, or goes round.
    """
    names, ids = columns.texts["parent"], columns.texts.get("id") or []
    place = {id_ or default_id(row): row for row, id_ in enumerate(ids or [""] * len(names))}
    found = [NEVER if name in ("", "-1") else place.get(name, NEVER) for name in names]
    absent = sum(1 for name, row in zip(names, found, strict=True) if row == NEVER and name not in ("", "-1"))
    if "parent_tokens" in columns.ints:
        _too_long(file, columns, named, found)
    for row in _circular(found):
        file.complain(columns.lines[row], named["parent"], names[row], "in the end its own parent; none may go round")
    return np.array(found, dtype=np.int64), absent


def _too_long(file: TraceFile, columns: Columns, named: dict[str, str], found: list[int]) -> None:
    prompt, output, tokens = (columns.ints[key] for key in ("prompt_tokens", "output_tokens", "parent_tokens"))
    for row, parent in enumerate(found):
        if parent != NEVER and tokens[row] > (most := prompt[parent] + output[parent]):
            problem = f"too large; at most {most}, the parent's prompt and output"
            file.complain(columns.lines[row], named["parent_tokens"], tokens[row], problem)


def _circular(parents_of: list[int]) -> Iterator[int]:
    """One row of each circle."""
    done = [0] * len(parents_of)
    for start in range(len(parents_of)):
        row = start
        while row != NEVER and not done[row]:
            done[row] = start + 1
            row = parents_of[row]
        if row != NEVER and done[row] == start + 1:
            yield row
