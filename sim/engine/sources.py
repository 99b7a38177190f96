"""Whose the first tokens of each request are: what its parent, its group and its pieces say, put together."""

from collections import Counter
from collections.abc import Iterator

from sim.engine.contents import Sources, Stretches
from sim.request import NEVER, Workload


def sources_of(workload: Workload) -> Sources:
    """Where the tokens of each request come from: its parent's first, then its group's, its pieces', its own."""
    written = _Written(workload)
    sources: dict[int, Stretches] = {}
    parents: dict[int, tuple[int, int]] = {}
    for index in _parents_first(workload) if written.any else ():
        own: list[tuple[int, int]] = []
        parent = int(workload.parent[index])
        if parent != NEVER:
            tokens = int(workload.parent_tokens[index])
            parents[index] = parent, tokens
            own = _first(tokens, (*sources.get(parent, ()), (tokens, parent)))
        if whole := joined([*own, *written.group(index), *written.pieces(index)]):
            sources[index] = whole
    return Sources(_nodes(sources, len(workload), written.first_piece), parents)


class _Written:
    """Sources beyond the requests themselves, numbered after them: the groups, then the pieces.

    A piece is numbered with the position at which it begins, so that like tokens have the same source and position.
    """

    def __init__(self, workload: Workload) -> None:
        names = workload.prefix_groups
        self._groups = {name: len(workload) + place for place, name in enumerate(dict.fromkeys(names or ()))}
        self._workload = workload
        self._pieces: dict[tuple[int, int], int] = {}
        self.first_piece = len(workload) + len(self._groups)
        self.any = bool(names) or workload.pieces is not None or bool((workload.parent != NEVER).any())

    def group(self, index: int) -> Iterator[tuple[int, int]]:
        name = "" if self._workload.prefix_groups is None else self._workload.prefix_groups[index]
        if name:
            yield int(self._workload.prefix_tokens[index]), self._groups[name]

    def pieces(self, index: int) -> Iterator[tuple[int, int]]:
        position, prompt = 0, int(self._workload.prompt_tokens[index])
        for id_, tokens in () if self._workload.pieces is None else self._workload.pieces.of_request(index):
            source = self._pieces.setdefault((id_, position), self.first_piece + len(self._pieces))
            position = min(position + tokens, prompt)
            yield position, source


def joined(stretches: list[tuple[int, int]]) -> Stretches:
    """One after the other: each from where the one before ends; neighbours of one source are one."""
    result: list[tuple[int, int]] = []
    for upto, source in stretches:
        if upto <= (result[-1][0] if result else 0):
            continue
        if result and result[-1][1] == source:
            result.pop()
        result.append((upto, source))
    return tuple(result)


def _nodes(sources: dict[int, Stretches], requests: int, first_piece: int) -> dict[int, Stretches]:
    """Each source with all before it as one number. The last pieces that nobody else has are the request's own."""
    numbers: dict[tuple[int, int, int], int] = {}
    paths: dict[int, Stretches] = {}
    for index, stretches in sources.items():
        node, start = NEVER, 0
        path: list[tuple[int, int]] = []
        for upto, source in stretches:
            # What a request has of its own has always the same before it.
            node = source if source < requests else numbers.setdefault((node, start, source), requests + len(numbers))
            path.append((upto, node))
            start = upto
        paths[index] = tuple(path)
    visits = Counter(node for path in paths.values() for _, node in path)
    kept: dict[int, Stretches] = {}
    for index, whole in paths.items():
        length = len(whole)
        while length and visits[whole[length - 1][1]] == 1 and sources[index][length - 1][1] >= first_piece:
            length -= 1
        if length:
            kept[index] = whole[:length]
    return kept


def _parents_first(workload: Workload) -> Iterator[int]:
    """All requests, each after its parent."""
    parents, seen = workload.parent.tolist(), [False] * len(workload)
    for index in range(len(workload)):
        line = []
        while index != NEVER and not seen[index]:
            seen[index] = True
            line.append(index)
            index = parents[index]  # noqa: PLW2901  # up the line of its parents
        yield from reversed(line)


def _first(tokens: int, stretches: Stretches) -> list[tuple[int, int]]:
    """The stretches of the first ``tokens`` positions."""
    cut: list[tuple[int, int]] = []
    for upto, source in stretches:
        cut.append((min(upto, tokens), source))
        if upto >= tokens:
            break
    return cut
