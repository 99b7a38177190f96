"""ShareGPT: the first question and answer of each conversation. There is no tokenizer here: words are counted."""

from collections.abc import Iterator, Sequence
from typing import Any

from sim.complaints import wrong_type
from sim.workload.trace_file import TraceFile
from sim.workload.trace_jsonl import MAX_LINE, parse
from sim.workload.trace_layout import NEEDED
from sim.workload.trace_values import COUNT, BadValueError, Read, whole_of_value

LONGEST = 16 * MAX_LINE
"""Most characters of one conversation."""


class ConversationRows:
    """A list of conversations, or one a line. A turn with a number under ``tokens`` has so many; else its words count.

    A conversation without a question or an answer has zero tokens.
    """

    def __init__(self, file: TraceFile) -> None:
        self._file = file
        self.keys: Sequence[str] = NEEDED[1:]
        self.columns: Sequence[str] = ("the first question", "the first answer")
        self.readers: Sequence[Read] = [lambda value: whole_of_value(value, COUNT)] * 2
        self.counted_words = False

    def records(self) -> Iterator[tuple[int, str]]:
        """Each conversation as its JSON text, and the line on which it begins."""
        text, line, inside, after = "", 1, False, False
        for piece in self._file.texts():
            text += piece
            while True:
                rest = text.lstrip(" \t\r\n" + ("," if after else "") + ("" if inside else "["))
                inside = inside or (not after and text.lstrip().startswith("["))
                line += text.count("\n", 0, len(text) - len(rest))
                text = rest
                if text.startswith("]") and inside:
                    text, inside = text[1:], False
                    continue
                end = _end(text)
                if end is None:
                    break
                yield line, text[:end]
                line += text.count("\n", 0, end)
                text, after = text[end:], True
            if len(text) > LONGEST:
                raise self._file.error(f"a conversation of more than {LONGEST} characters in line {line}")
        if text.strip() or inside:
            yield line, text

    def values(self, record: str) -> Sequence[int]:
        found = parse(record)
        if not isinstance(found, dict) or not isinstance(found.get("conversations"), list):
            raise BadValueError('no conversation; an object with a list "conversations"')
        turns = found["conversations"][:2]
        return [*map(self._length, turns), 0, 0][:2]

    def _length(self, turn: Any) -> int:
        if not isinstance(turn, dict):
            raise BadValueError(f"a turn: {wrong_type('an object', turn)}")
        if "tokens" in turn:
            return whole_of_value(turn["tokens"], COUNT)
        if type(turn.get("value")) is not str:
            raise BadValueError(f"value of a turn: {wrong_type('a string', turn.get('value'))}")
        self.counted_words = True
        return len(turn["value"].split())


def _end(text: str) -> int | None:
    """Where the object at the start of ``text`` ends; None when it does not."""
    depth, quoted, place = 0, False, 0
    while place < len(text):
        char = text[place]
        if quoted:
            place = _closing(text, place)
            if place < 0:
                return None
            quoted = False
        elif char == '"':
            quoted = True
        elif char in "{[":
            depth += 1
        elif char in "}]":
            depth -= 1
            if depth <= 0:
                return place + 1
        place += 1
    return None


def _closing(text: str, place: int) -> int:
    """Where the quote is that ends a string; -1 when there is none."""
    while True:
        place = text.find('"', place)
        if place < 0:
            return place
        slashes = place
        while slashes and text[slashes - 1] == "\\":
            slashes -= 1
        if (place - slashes) % 2 == 0:
            return place
        place += 1
