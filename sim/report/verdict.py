"""Who gained and who lost: two runs of one scenario compared, request by request, in plain words.

What is compared is what a user of the server notices: the first token, the longest stall, and the last token. Only
requests that finished under both runs are compared; finishing under one of them alone is itself a gain or a loss.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sim.record.quantiles import distribution
from sim.record.result import Result
from sim.report.layout import NOTHING, Row
from sim.report.names import ms, request_name, visible, whole_ns
from sim.report.texts import FIRST, LAST, STALL, Texts
from sim.request import NEVER, Ints, Status

Mask = npt.NDArray[np.bool_]

METRICS = (FIRST, STALL, LAST)
ALL_NAMED = 8
"""Up to so many requests, each is named; beyond, they are counted."""
FEW_NAMED = 3
"""So few are named whatever the size of the whole."""
EACH_SHOWN = 20
"""Beyond so many requests, shares and quantiles are what matters."""
QUANTILES = (50, 90, 99)
NO_TIME = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Change:
    """One metric of the requests (by index) that have it under both runs, in ns."""

    metric: str
    requests: Ints
    before_ns: Ints
    after_ns: Ints

    @cached_property
    def gained(self) -> Ints:
        """Positions in ``requests``; likewise the other two."""
        return np.flatnonzero(self.after_ns < self.before_ns)

    @cached_property
    def lost(self) -> Ints:
        return np.flatnonzero(self.after_ns > self.before_ns)

    @cached_property
    def unchanged(self) -> Ints:
        return np.flatnonzero(self.after_ns == self.before_ns)


@dataclass(frozen=True)
class Comparison:
    """Run ``new`` against run ``old``."""

    old: Result
    new: Result

    @cached_property
    def same_requests(self) -> bool:
        """Whether the two serve requests of the same names; a variant may have another workload."""
        return same_requests(self.old, self.new)

    @cached_property
    def same_load(self) -> bool:
        first, second = (result.provenance.get("workloadSha256") for result in (self.old, self.new))
        return first == second

    @cached_property
    def only_old(self) -> Ints:
        """The requests that finished under ``old`` alone, by index."""
        return np.flatnonzero(finished(self.old) & ~finished(self.new))

    @cached_property
    def only_new(self) -> Ints:
        return np.flatnonzero(finished(self.new) & ~finished(self.old))

    @cached_property
    def neither(self) -> Ints:
        return np.flatnonzero(~finished(self.new) & ~finished(self.old))

    @cached_property
    def compared(self) -> int:
        """How many requests finished under at least one of the two."""
        return len(self.old.record.workload) - len(self.neither) if self.same_requests else 0

    @cached_property
    def changes(self) -> Sequence[Change]:
        both = finished(self.old) & finished(self.new)
        return [self._change(metric, both) for metric in METRICS]

    @cached_property
    def gains(self) -> Mask:
        """Of all requests, those for which something got better; ``loses`` likewise. A request may be in both."""
        return self._any(self.only_new, [change.gained for change in self.changes])

    @cached_property
    def loses(self) -> Mask:
        return self._any(self.only_old, [change.lost for change in self.changes])

    @property
    def makespans_ns(self) -> tuple[int | None, int | None]:
        return self.old.summary.makespan_ns, self.new.summary.makespan_ns

    def _change(self, metric: str, both: Mask) -> Change:
        before, after = self.old.requests[metric], self.new.requests[metric]
        requests = np.flatnonzero(both & (before != NEVER) & (after != NEVER))
        return Change(metric, requests, before[requests], after[requests])

    def _any(self, at_once: Ints, moved: Sequence[Ints]) -> Mask:
        mask = np.zeros(len(self.old.record.workload), dtype=bool)
        mask[at_once] = True
        for change, positions in zip(self.changes, moved, strict=True):
            mask[change.requests[positions]] = True
        return mask


def finished(result: Result) -> Mask:
    mask: Mask = result.requests["status"] == Status.FINISHED
    return mask


def same_requests(first: Result, second: Result) -> bool:
    one, other = first.record.workload, second.record.workload
    return len(one) == len(other) and (one.ids is other.ids or one.all_ids() == other.all_ids())


class Verdict:
    """A comparison in words. ``kind``: what differs between the runs (:meth:`Texts.no_winner`)."""

    def __init__(self, comparison: Comparison, texts: Texts, kind: str) -> None:
        self._it = comparison
        self._texts = texts
        self._kind = kind
        self._named = comparison.compared <= ALL_NAMED
        self._old, self._new = visible(comparison.old.name), visible(comparison.new.name)

    def title(self) -> str:
        return self._texts.against(self._new, self._old)

    def rows(self) -> Iterator[Row]:
        it, label = self._it, self._texts.label
        if it.same_requests:
            if gained := [line for change in it.changes if (line := self._moved(change, change.gained))]:
                yield Row(label["gained"], gained, "green")
            if lost := [line for change in it.changes if (line := self._moved(change, change.lost))]:
                yield Row(label["lost"], lost, "red")
            if unchanged := [line for change in it.changes if (line := self._unchanged(change))]:
                yield Row(label["unchanged"], [self._texts.semicolon.join(unchanged)])
            if ended := list(self._ended()):
                yield Row(label["finished"], [self._texts.semicolon.join(ended)])
            yield from self._quantiles()
        before, after = (NOTHING if ns is None else ms(ns) for ns in it.makespans_ns)
        makespan = self._pair(before, after, "" if before == after == NOTHING else "ms")
        jobs = self._pair(f"{it.old.summary.jobs:,}", f"{it.new.summary.jobs:,}")
        yield Row(label["overall"], [self._texts.totals_changed(makespan, jobs)])

    def conclusion(self) -> str:
        """The one sentence that remains."""
        it, texts = self._it, self._texts
        if not it.same_requests:
            return texts.other_requests
        if not it.compared:
            return texts.nobody_to_compare
        gains, loses = it.gains, it.loses
        if not (gains.any() or loses.any()):
            before, after = it.makespans_ns
            return texts.nobody_notices(makespan_differs=before != after)
        if gains.any() and loses.any():
            return self._mixed(gains, loses)
        better = bool(gains.any())
        moved = np.flatnonzero(gains | loses)
        if len(moved) < it.compared:
            return texts.some(self._new, self._names(moved), len(moved), it.compared, better=better)
        everything = all(not len(change.unchanged) for change in it.changes)
        say = texts.all_in_everything if everything else texts.all_in_something
        return say(self._new, self._names(moved), len(moved), better=better)

    def note(self) -> str | None:
        """What must be known before the rows are read."""
        return self._texts.other_loads if self._it.same_requests and not self._it.same_load else None

    def _mixed(self, gains: Mask, loses: Mask) -> str:
        texts = self._texts
        groups = (
            (gains & loses, texts.gain_and_lose),
            (gains & ~loses, texts.only_gain),
            (loses & ~gains, texts.only_lose),
        )
        parts = [
            say(self._names(indices), len(indices)) for mask, say in groups if len(indices := np.flatnonzero(mask))
        ]
        everybody = np.flatnonzero(finished(self._it.old) | finished(self._it.new))
        last = texts.no_winner(self._names(everybody), len(everybody), self._kind)
        return f"{texts.comma.join(parts)}{texts.colon}{last}"

    def _moved(self, change: Change, positions: Ints) -> str:
        """One metric of those that gained, or lost; empty if there are none."""
        shown = self._of_interest(change, positions)
        if not len(shown):
            return ""
        if self._named or len(shown) <= FEW_NAMED:
            return self._texts.whose(change.metric, [self._figure(change, at) for at in shown.tolist()])
        largest = shown[np.argmax(np.abs(change.after_ns[shown] - change.before_ns[shown]))]
        return self._count(change, shown) + self._texts.most(*self._figure(change, int(largest)))

    def _unchanged(self, change: Change) -> str:
        shown = self._of_interest(change, change.unchanged)
        if not len(shown):
            return ""
        if self._named or len(shown) <= FEW_NAMED:
            figures = [
                (self._name(change.requests[at]), f"{ms(int(change.after_ns[at]))}\N{NO-BREAK SPACE}ms") for at in shown
            ]
            return self._texts.whose(change.metric, figures)
        return self._count(change, shown)

    def _of_interest(self, change: Change, positions: Ints) -> Ints:
        """Where each is named, the last token of a request that has only one goes without saying: it is the first."""
        if not self._named or change.metric != LAST:
            return positions
        return positions[self._it.new.requests["emitted_tokens"][change.requests[positions]] > 1]

    def _count(self, change: Change, positions: Ints) -> str:
        count, of = len(positions), len(change.requests)
        if self._it.compared > EACH_SHOWN:
            return self._texts.what_share(change.metric, count, percent(count, of))
        return self._texts.how_many(change.metric, count, of)

    def _figure(self, change: Change, at: int) -> tuple[str, str]:
        before_ns, after_ns = int(change.before_ns[at]), int(change.after_ns[at])
        return self._name(change.requests[at]), self._pair(ms(before_ns), ms(after_ns), "ms")

    def _ended(self) -> Iterator[str]:
        it, texts = self._it, self._texts
        if len(it.only_new):
            yield texts.only_under(self._who(it.only_new), self._new)
        if len(it.only_old):
            yield texts.only_under(self._who(it.only_old), self._old)
        if len(it.neither):
            yield texts.under_neither(self._who(it.neither))

    def _quantiles(self) -> Iterator[Row]:
        """Where there are too many to look at each: how the distribution of each metric moved."""
        if self._it.compared <= EACH_SHOWN:
            return
        for change in self._it.changes:
            before, after = distribution(change.before_ns), distribution(change.after_ns)
            if before.max is None or after.max is None:
                continue
            pairs = [(f"p{q}", before.percentiles[q], after.percentiles[q]) for q in QUANTILES]
            figures = [(name, whole_ns(a), whole_ns(b)) for name, a, b in pairs if a is not None and b is not None]
            figures.append((self._texts.label["max"], before.max, after.max))
            parts = [f"{name}\N{NO-BREAK SPACE}{self._pair(ms(a), ms(b))}" for name, a, b in figures]
            yield Row(self._texts.metric[change.metric], [f"{self._texts.comma.join(parts)}\N{NO-BREAK SPACE}ms"])

    def _pair(self, before: str, after: str, unit: str = "") -> str:
        text = before if before == after else self._texts.change(before, after)
        return f"{text}\N{NO-BREAK SPACE}{unit}" if unit else text

    def _who(self, indices: Ints) -> str:
        if len(indices) <= (ALL_NAMED if self._named else FEW_NAMED):
            return self._texts.names([self._name(index) for index in indices])
        return self._texts.requests(len(indices))

    def _names(self, indices: Ints) -> list[str]:
        """Their names, or none where they are rather counted."""
        named = self._named or len(indices) <= FEW_NAMED
        return [self._name(index) for index in indices] if named else []

    def _name(self, index: int) -> str:
        return request_name(self._it.new.record.workload, int(index))


def best_of_all(results: Sequence[Result], texts: Texts) -> str | None:
    """Of three runs or more: which of them no other one beats for anybody in anything. None if it can't be said."""
    if not all(same_requests(results[0], result) for result in results[1:]):
        return None
    served = np.flatnonzero(np.logical_or.reduce([finished(result) for result in results]))
    if not len(served):
        return None
    times = np.array([[_times_ns(result, metric) for metric in METRICS] for result in results])
    best = (times == times.min(axis=0)).all(axis=(1, 2))
    names = [visible(result.name) for result, wins in zip(results, best, strict=True) if wins]
    workload = results[0].record.workload
    who = [request_name(workload, int(index)) for index in served] if len(served) <= ALL_NAMED else []
    return texts.best_of_all(names, len(results), who, len(served))


def _times_ns(result: Result, metric: str) -> Ints:
    """Per request; who did not finish is behind everybody."""
    times: Ints = np.where(finished(result), result.requests[metric], NO_TIME)
    return times


def percent(count: int, of: int) -> str:
    """With one decimal, half up; nothing is "0.0 %" that is something, nor "100.0 %" that is not all."""
    tenths = (2000 * count + of) // (2 * of)
    if count and not tenths:
        return "<0.1\N{NO-BREAK SPACE}%"
    if count < of and tenths == 1000:
        return ">99.9\N{NO-BREAK SPACE}%"
    return f"{tenths // 10}.{tenths % 10}\N{NO-BREAK SPACE}%"
