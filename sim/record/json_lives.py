"""What each request computes from one admission to the loss of its blocks, read off the jobs of a JSON."""

from dataclasses import dataclass, field

from sim.record.json_shape import Run
from sim.request import Workload


@dataclass
class Life:
    """From an admission until the blocks are lost for good; a swap does not end it.

    ``known`` are the tokens to prefill, ``cached`` those of them that were there (not known before it is over, unless
    told), ``scheduled`` all that was scheduled so far.
    """

    request: int
    known: int
    claimed: int | None
    chunks: list[tuple[int, int, int]] = field(default_factory=list)
    cached: int = 0
    scheduled: int = 0
    decodes: int = 0


class Lives:
    """Per request its chunks ``(job, tokens, place, emits)`` and stretches of decodes ``[first, jobs, tokens]``."""

    def __init__(self, run: Run, workload: Workload, *, has_cache: bool) -> None:
        self.chunks: list[list[tuple[int, int, int, bool]]] = [[] for _ in run.requests]
        self.stretches: list[list[list[int]]] = [[] for _ in run.requests]
        self._rows = run.requests
        self._has_cache = has_cache
        self._samples = workload.samples.tolist()
        self._prompts = workload.prompt_tokens.tolist()
        self._emitted = [0] * len(run.requests)
        self._begun = [0] * len(run.requests)
        self._on_resume = [row.cached_on_resume_tokens for row in run.requests]
        self._interrupted = [False] * len(run.requests)
        self._open: dict[int, Life] = {}

    def begin(self, request: int, cached: int | None) -> Life:
        """It is admitted from the queue, with so many tokens there already, if that is known."""
        known = self._prompts[request] + self._samples[request] * self._emitted[request]
        self._begun[request] += 1
        life = self._open[request] = Life(request, known, cached)
        return life

    def of(self, request: int) -> Life:
        """The life under way; one that begins unseen, in a record that is not sound."""
        return self._open.get(request) or self.begin(request, None)

    def prefill(self, request: int, job: int, tokens: int, place: int) -> None:
        life = self.of(request)
        life.chunks.append((job, tokens, place))
        life.scheduled += tokens
        self._interrupted[request] = True

    def decode(self, request: int, number: int, tokens: int) -> None:
        """In the decoding job of this number."""
        life, stretches = self.of(request), self.stretches[request]
        life.scheduled += tokens
        life.decodes += 1
        if stretches and stretches[-1][0] + stretches[-1][1] == number and not self._interrupted[request]:
            stretches[-1][1] += 1
            stretches[-1][2] += tokens
        else:
            stretches.append([number, 1, tokens])
        self._interrupted[request] = False

    def pause(self, request: int) -> None:
        """It is copied to the host: a stretch of decodes ends with that."""
        self._interrupted[request] = True

    def close(self, request: int, *, finished: bool = False) -> None:
        """It is over: what its jobs say of the tokens that were cached, and which chunk completed the prompt."""
        life = self._open.pop(request, None)
        if life is None:
            return
        computed = sum(tokens for _, tokens, _ in life.chunks)
        life.cached = self._cached(life, computed, complete=life.decodes > 0 or finished)
        upto = life.cached
        for job, tokens, place in life.chunks:
            upto += tokens
            self.chunks[request].append((job, tokens, place, upto == life.known))
            self._emitted[request] += upto == life.known
        self._emitted[request] += life.decodes

    def close_all(self) -> None:
        for request in list(self._open):
            self.close(request, finished=self._rows[request].status == "finished")

    def _cached(self, life: Life, computed: int, *, complete: bool) -> int:
        first = self._begun[life.request] == 1
        if life.claimed is not None:
            cached = life.claimed
        elif not self._has_cache:
            cached = 0
        elif complete:
            cached = max(life.known - computed, 0)
        elif first:
            cached = self._rows[life.request].cached_tokens
        else:
            cached = max(min(self._on_resume[life.request], life.known - computed - 1), 0)
        if not first:
            self._on_resume[life.request] -= cached
        return cached
