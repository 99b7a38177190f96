"""The prefix cache, once more: blocks one by one, found by what they hold."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping
from itertools import islice

from sim.policies.presets import KvAxes
from sim.record.again.pool import Counted, Holder
from sim.request import NEVER, Workload

BEYOND = 2**62
"""Above every source."""

Stretch = tuple[int, int]
"""``(position behind it, source)``: the tokens up to that position, from the stretch before on, are the source's."""


class Hashed(Counted):
    """A block can be found once it is full of tokens that were scheduled, until somebody takes it off the free list.

    The free list: blocks that nobody will ask for, the newest first; those that were never used; those that can be
    found, the one that was freed first at the front.
    """

    def __init__(self, kv: KvAxes, contents: "Contents") -> None:
        super().__init__(kv)
        self.contents = contents
        self._spent: list[int] = []
        self._unused = 0
        self._kept: OrderedDict[int, None] = OrderedDict()
        self._holders: dict[int, int] = {}
        self._key: dict[int, int] = {}
        self._with: dict[int, dict[int, None]] = {}
        self._table: dict[int, list[int]] = {}
        self._findable: dict[int, int] = {}
        self._until: dict[int, int] = {}

    def hits(self, holder: Holder) -> list[int]:
        """The longest run of its first blocks that are there; one token at least is left to compute.

        Of several samples only the prompt is one row of tokens.
        """
        found: list[int] = []
        most = holder.known - 1 if holder.samples == 1 else min(holder.known - 1, holder.prompt)
        for number in range(most // self.size):
            same = self._with.get(self.contents.key(holder.index, number))
            if not same:
                break
            found.append(next(iter(same)))
        return found

    def cached(self, holder: Holder) -> int:
        return len(self.hits(holder)) * self.size

    def admits(self, holder: Holder, tokens: int, *, others: bool) -> bool:
        hits = self.hits(holder)
        revived = sum(block not in self._holders for block in hits)
        new = max(self.gate(holder, tokens) - len(hits), 0)
        return new + revived + self.margin(others=others) <= self.free

    def admit(self, holder: Holder, tokens: int, computed: int) -> None:
        table = self._table[holder.index] = self.hits(holder)
        for block in table:
            if block not in self._holders:
                del self._kept[block]
            self._holders[block] = self._holders.get(block, 0) + 1
        self._findable[holder.index] = len(table)
        self._take(holder, self.first(holder, tokens) - len(table), computed)

    def room_until(self, holder: Holder) -> int:
        return self._until[holder.index]

    def grow(self, holder: Holder, tokens: int) -> None:
        self._take(holder, self.whole(holder, tokens) - holder.held, tokens)

    def release(self, holder: Holder) -> None:
        """The last block first; what can still be found goes to the back of the free list."""
        for block in reversed(self._table.pop(holder.index)):
            self._holders[block] -= 1
            if not self._holders[block]:
                del self._holders[block]
                if block in self._key:
                    self._kept[block] = None
                else:
                    self._spent.append(block)
        holder.held = 0
        self.used = len(self._holders)

    def forget(self) -> None:
        self._key.clear()
        self._with.clear()

    def _take(self, holder: Holder, blocks: int, tokens: int) -> None:
        table = self._table[holder.index]
        for _ in range(blocks):
            block = self._from_free_list()
            self._holders[block] = 1
            table.append(block)
        holder.held = len(table)
        self.used = len(self._holders)
        last = holder.known if holder.samples == 1 else holder.prompt
        full = min(tokens, last) // self.size
        for number in range(self._findable[holder.index], full):
            key = self._key[table[number]] = self.contents.key(holder.index, number)
            self._with.setdefault(key, {})[table[number]] = None
        self._findable[holder.index] = max(self._findable[holder.index], full)
        next_full = (tokens // self.size + 1) * self.size - 1
        self._until[holder.index] = min(next_full, len(table) * self.size) if holder.samples == 1 else 0

    def _from_free_list(self) -> int:
        if self._spent:
            return self._spent.pop()
        if self._unused < self.kv.blocks:
            self._unused += 1
            return self._unused - 1
        block, _ = self._kept.popitem(last=False)
        key = self._key.pop(block, None)
        if key is not None:
            del self._with[key][block]
        return block


class Contents:
    """A number for what a block and all before it hold: the same number, the same tokens."""

    def __init__(self, size: int, workload: Workload) -> None:
        self._size = size
        self._stretches = stretches_of(workload)
        self._numbers: dict[tuple[int, tuple[Stretch, ...]], int] = {}
        self._keys: dict[int, list[int]] = {}

    def key(self, index: int, number: int) -> int:
        keys = self._keys.setdefault(index, [])
        while len(keys) <= number:
            content = self._tokens(index, len(keys) * self._size)
            before = keys[-1] if keys else NEVER
            keys.append(self._numbers.setdefault((before, content), len(self._numbers)))
        return keys[number]

    def _tokens(self, index: int, first: int) -> tuple[Stretch, ...]:
        """Whose tokens the block from position ``first`` on holds."""
        behind, cut = first + self._size, []
        stretches = self._stretches.get(index, ())
        for upto, source in islice(stretches, bisect_right(stretches, (first, BEYOND)), None):
            cut.append((min(upto, behind), source))
            if upto >= behind:
                break
        return merged([*cut, (behind, index)])


def merged(stretches: list[Stretch]) -> tuple[Stretch, ...]:
    """Without those that are empty, neighbours of one source as one."""
    result: list[Stretch] = []
    for upto, source in stretches:
        if result and upto <= result[-1][0]:
            continue
        if result and result[-1][1] == source:
            result.pop()
        result.append((upto, source))
    return tuple(result)


def stretches_of(workload: Workload) -> Mapping[int, tuple[Stretch, ...]]:
    """Of each request that shares any: its parent's tokens, then its group's, then its pieces; groups count on.

    A piece counts on after the groups; it is another one at another place of the prompt.
    """
    groups = {name: len(workload) + place for place, name in enumerate(dict.fromkeys(workload.prefix_groups or ()))}
    parents, lengths = workload.parent.tolist(), workload.parent_tokens.tolist()
    prefixes, names = workload.prefix_tokens.tolist(), workload.prefix_groups
    numbers: dict[Stretch, int] = {}
    done: dict[int, tuple[Stretch, ...]] = {}
    for start in range(len(workload)):
        line = [start]
        while parents[line[-1]] != NEVER and parents[line[-1]] not in done:
            line.append(parents[line[-1]])
        for index in reversed(line):
            own: list[Stretch] = []
            if parents[index] != NEVER and lengths[index]:
                parent, length = parents[index], lengths[index]
                own += [(min(upto, length), source) for upto, source in (*done[parent], (length, parent))]
            if names is not None and names[index] and prefixes[index]:
                own.append((prefixes[index], groups[names[index]]))
            position = 0
            for piece, tokens in () if workload.pieces is None else workload.pieces.of_request(index):
                number = numbers.setdefault((piece, position), len(workload) + len(groups) + len(numbers))
                position = min(position + tokens, int(workload.prompt_tokens[index]))
                own.append((position, number))
            done[index] = tuple(stretch for stretch in merged(own) if stretch[0] > 0)
    return {index: stretches for index, stretches in done.items() if stretches}
