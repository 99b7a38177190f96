"""What is printed, as each language has to say it. Grammar lives here; figures come from elsewhere, as text.

A no-break space (NB) keeps a number with its unit on one line; it is printed as a space.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from sim.capacity import Ledger
from sim.engine.plan import Blocked
from sim.request import Status

NB = "\N{NO-BREAK SPACE}"
FIRST, STALL, LAST = "ttft_ns", "max_itl_ns", "e2e_ns"
"""What a user of the server notices: the columns that a verdict compares."""


class Texts(ABC):
    """One language."""

    label: ClassVar[Mapping[str, str]]
    """Labels of rows and columns."""
    metric: ClassVar[Mapping[str, str]]
    status: ClassVar[Mapping[Status, str]]
    reason: ClassVar[Mapping[str, str]]
    """The engine's one-word reasons; all others are sentences and stay as they are."""
    kept_out_by: ClassVar[Mapping[Blocked, str]]
    """What kept the head of the queue out."""
    legend_of_requests: ClassVar[str]
    legend_of_quantiles: ClassVar[str]
    legend_of_pool: ClassVar[str]
    caveat: ClassVar[str]
    semicolon: ClassVar[str]
    comma: ClassVar[str]
    colon: ClassVar[str]
    nobody_to_compare: ClassVar[str]
    other_requests: ClassVar[str]
    other_loads: ClassVar[str]

    def change(self, before: str, after: str) -> str:
        return f"{before}{NB}→{NB}{after}"

    def sentences(self, *sentences: str) -> str:
        return " ".join(sentences)

    def in_brackets(self, text: str) -> str:
        return f" ({text})"

    @abstractmethod
    def names(self, names: Sequence[str]) -> str:
        """``A, L and S``."""

    @abstractmethod
    def workload(self, requests: int, prompt_tokens: int, output_tokens: int) -> str: ...

    @abstractmethod
    def totals(self, makespan: str, jobs: int) -> str: ...

    @abstractmethod
    def totals_changed(self, makespan: str, jobs: str) -> str: ...

    @abstractmethod
    def finished(self, finished: int, requests: int) -> str: ...

    @abstractmethod
    def load(self, arrival: str | None, saturation: str | None, load: str | None, *, too_much: bool) -> str:
        """λ and λ* in requests per second, and λ / λ*; None where there is none. ``too_much``: it is 1 or more."""

    @abstractmethod
    def preempted(self, times: int, recomputed_tokens: int) -> str: ...

    @abstractmethod
    def ledger(self, ledger: Ledger) -> str:
        """From memory and bytes per token to blocks."""

    @abstractmethod
    def water_level(self, blocks: int, lowest: int, mean: str, p99: int, highest: int) -> str: ...

    @abstractmethod
    def admitted(self, times: int) -> str: ...

    @abstractmethod
    def kept_out(self, jobs: int, reasons: Sequence[tuple[Blocked, int]], behind: str | None) -> str:
        """The head of the queue, in so many jobs, with on average so many requests behind it (None: nobody)."""

    @abstractmethod
    def work(self, scheduled: int, recomputed: tuple[int, str], wasted: tuple[int, str]) -> str:
        """Tokens; of the last two, also their share of the first."""

    @abstractmethod
    def swapped(self, times: int, blocks_out: int, blocks_in: int) -> str: ...

    @abstractmethod
    def cached(self, at_first: int, on_resume: int) -> str:
        """Tokens that were found in the cache."""

    @abstractmethod
    def tenant(self, name: str, counts: tuple[int, int], ttft: Sequence[str], e2e: Sequence[str]) -> str:
        """``counts``: finished, and in all. Times in ms: the median and the 99th percentile."""

    @abstractmethod
    def more(self, count: int) -> str:
        """So many more than were named."""

    @abstractmethod
    def against(self, new: str, old: str) -> str: ...

    @abstractmethod
    def whose(self, metric: str, figures: Sequence[tuple[str, str]]) -> str:
        """``A's longest stall 14.75 → 3.50 ms, L's 2.50 → 1.25 ms`` of (name, figures)."""

    @abstractmethod
    def how_many(self, metric: str, count: int, of: int) -> str: ...

    @abstractmethod
    def what_share(self, metric: str, count: int, share: str) -> str: ...

    @abstractmethod
    def most(self, name: str, figures: str) -> str:
        """The largest change, after :meth:`how_many` or :meth:`what_share`."""

    @abstractmethod
    def only_under(self, who: str, run: str) -> str: ...

    @abstractmethod
    def under_neither(self, who: str) -> str: ...

    @abstractmethod
    def requests(self, count: int) -> str: ...

    @abstractmethod
    def nobody_notices(self, *, makespan_differs: bool) -> str: ...

    @abstractmethod
    def all_in_everything(self, run: str, names: Sequence[str], count: int, *, better: bool) -> str: ...

    @abstractmethod
    def all_in_something(self, run: str, names: Sequence[str], count: int, *, better: bool) -> str: ...

    @abstractmethod
    def some(self, run: str, names: Sequence[str], count: int, of: int, *, better: bool) -> str:
        """For these it is better (worse), for nobody the opposite."""

    @abstractmethod
    def gain_and_lose(self, names: Sequence[str], count: int) -> str: ...

    @abstractmethod
    def only_gain(self, names: Sequence[str], count: int) -> str: ...

    @abstractmethod
    def only_lose(self, names: Sequence[str], count: int) -> str: ...

    @abstractmethod
    def no_winner(self, names: Sequence[str], count: int, kind: str) -> str:
        """``kind``: what differs between the two runs, ``policy`` or ``setting``, or ``run`` when there are others."""

    @abstractmethod
    def best_of_all(self, runs: Sequence[str], of: int, names: Sequence[str], count: int) -> str:
        """``runs`` are those that no other one beats in anything; none, one, or several that are alike."""

    @abstractmethod
    def replications(self, runs: int, requests: int | None, seed: int) -> str:
        """So many runs, with seeds from this one on. ``requests`` of each, None where only a trace knows."""

    @abstractmethod
    def verdict(self, verdict: str) -> str:
        """Of theory: ``agrees``, ``differs``, ``approximation within x %``, ``not judged: …``."""

    @abstractmethod
    def progress(self, run: str, ended: int, total: int | None, seconds: str) -> str: ...
