"""RAGPulse: prompts put together from five lists of texts, whose lengths stand in side files beside the trace."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sim.complaints import wrong_type
from sim.workload.trace_file import TraceFile
from sim.workload.trace_jsonl import JsonRows, parse
from sim.workload.trace_layout import Names
from sim.workload.trace_values import COUNT, BadValueError, Instants, ids_of, whole_of_value

PARTS = ("sys_prompt", "passages_ids", "history", "web_search", "user_input")
"""In the order of the prompt."""

SIDE_FILES = ("1_sys_prompt.jsonl", "2_passages.jsonl", "3_history.jsonl", "4_user_input.jsonl", "5_web_search.jsonl")
ID_KEY = re.compile(r"(.+_)?id|hash_ids").fullmatch
"""Each side file calls its ids something else: ``sys_prompt_id``, ``passage_id``, ``history_id``, ..."""


class RagRows(JsonRows):
    """Without side files the lengths are read and nothing is shared."""

    def __init__(self, file: TraceFile, names: Names, instants: Instants) -> None:
        super().__init__(file, names, instants)
        self.tokens = _side_files(file.path.parent)
        place = self.keys.index("hash_ids")
        readers = list(self.readers)
        readers[place] = self._pieces
        self.readers = readers

    def _pieces(self, value: Any) -> Sequence[int] | tuple[list[int], list[int]]:
        if value is None:
            return []
        if not isinstance(value, dict):
            raise BadValueError(f"{wrong_type('an object', value)}; lists {', '.join(PARTS)}")
        strange = [key for key in value if key not in PARTS]
        if strange:
            raise BadValueError(f"holds {strange[0][:40]!r}; lists {', '.join(PARTS)}")
        ids = [id_ for part in PARTS for id_ in ids_of(value.get(part, []))]
        if self.tokens is None:
            return []
        unknown = [id_ for id_ in ids if id_ not in self.tokens]
        if unknown:
            raise BadValueError(f"no side file has the length of id {unknown[0]}; {', '.join(SIDE_FILES)}")
        return ids, [self.tokens[id_] for id_ in ids]


def _side_files(folder: Path) -> dict[int, int] | None:
    """Tokens by id; None when there is no side file. ``ScenarioError``: one is damaged, or two do not agree."""
    tokens: dict[int, int] = {}
    there = [folder / name for name in SIDE_FILES if (folder / name).exists()]
    for path in there:
        with TraceFile(path) as file:
            for line, text in enumerate(file.lines(), 1):
                if text.strip():
                    _read_side(file, line, text, tokens)
            file.raise_problems()
    return tokens if there else None


def _read_side(file: TraceFile, line: int, text: str, tokens: dict[int, int]) -> None:
    try:
        row = parse(text)
        if not isinstance(row, dict):
            raise BadValueError(wrong_type("an object", row))
        keys = [key for key in row if ID_KEY(key)]
        if len(keys) != 1 or "token_length" not in row:
            raise BadValueError('no row of a side file; like {"passage_id": 3, "token_length": 298}')
        length = whole_of_value(row["token_length"], COUNT)
        for id_ in ids_of(found if isinstance(found := row[keys[0]], list) else [found]):
            if tokens.setdefault(id_, length) != length:
                raise BadValueError(f"id {id_} has {length} tokens here and {tokens[id_]} elsewhere; one length each")
    except BadValueError as bad:
        file.complain_of_line(line, str(bad))
