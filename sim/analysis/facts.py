"""What follows from the tables of a run, worked out anew: nothing here calls the code that the simulator uses for it.

Columns are per request, per row of the schedule, or per piece (like jobs in a row), as each says. Nothing is expanded
per token, or per job. The tables must be sound (``checks_tables``, ``checks_rows``).
"""

from functools import cached_property

import numpy as np

from sim.analysis.exact import FOREVER, Mask, range_max, sum_by
from sim.analysis.gaps import Gaps
from sim.analysis.rows import Rows
from sim.engine.plan import Loss
from sim.request import NEVER, Ints


class Facts(Rows):
    """Of each request what was computed and emitted, and when its tokens came; of each piece what is in its jobs."""

    # Requests

    @property
    def first_arrival_ns(self) -> int:
        """When the first of them came; ``FOREVER`` if none did."""
        arrival_ns = self.workload.arrival_ns
        return int(arrival_ns[arrival_ns != NEVER].min(initial=FOREVER))

    @cached_property
    def scheduled(self) -> Ints:
        """Tokens scheduled for each request."""
        return sum_by(self.owner, self.record.schedule["tokens"], self.requests)

    @cached_property
    def lost(self) -> Ints:
        """Tokens of each request that were computed, cached ones included, and lost again; a copy loses nothing."""
        preemptions = self.record.preemptions
        tokens = np.where(preemptions["loss"] == Loss.SWAP, 0, preemptions["tokens"])
        return sum_by(preemptions["request"], tokens, self.requests)

    @cached_property
    def cached(self) -> Ints:
        """Tokens of each request that the prefix cache held, over all its admissions."""
        return sum_by(self.lives.owner, self.lives.cached, self.requests)

    @cached_property
    def cached_first(self) -> Ints:
        """Those of its first admission."""
        return self._first(self.lives.owner, self.lives.cached, 0)

    @cached_property
    def first_scheduled_ns(self) -> Ints:
        return self._first(self.owner, self.starts_ns[self.first_piece], NEVER)

    @cached_property
    def completed_job(self) -> Ints:
        """The job that completes each request's prompt; ``FOREVER`` if none does."""
        return self._first(self.owner[self.completes], self.first_job[self.completes], FOREVER)

    @cached_property
    def emitted(self) -> Ints:
        """Tokens that each request emitted, per sample."""
        rows = self.emits
        return sum_by(self.owner[rows], self.record.schedule["jobs"][rows], self.requests)

    @cached_property
    def first_token_ns(self) -> Ints:
        rows = self.emits
        return self._first(self.owner[rows], self.pieces.first_ends_ns[self.first_piece[rows]], NEVER)

    @cached_property
    def last_token_job(self) -> Ints:
        rows = self.emits
        return self._last(self.owner[rows], self.last_job[rows], FOREVER)

    @cached_property
    def last_token_ns(self) -> Ints:
        rows = self.emits
        return self._last(self.owner[rows], self.ends_ns[self.last_piece[rows]], NEVER)

    @cached_property
    def all_emitted(self) -> Mask:
        """Whether a request's whole output has left."""
        return np.equal(self.emitted, self.whole_output)

    @cached_property
    def whole_output(self) -> Ints:
        """What each request emits per sample when it finishes: its output, or what the model's length leaves of it."""
        longest, workload = self.claims.axes.max_model_tokens, self.workload
        if not longest:
            return workload.output_tokens
        return np.minimum(workload.output_tokens, longest - workload.prompt_tokens)

    @cached_property
    def admitted_job(self) -> Ints:
        """The job with which each request joins ``running`` for the first time; ``FOREVER`` if none does."""
        return self._first(self.record.admissions["request"], self.record.admissions["job"], FOREVER)

    @cached_property
    def admission_place(self) -> Ints:
        """Each request's place in the order of first admissions; ``FOREVER`` if it was never admitted."""
        admitted = self.record.admissions["request"]
        return self._first(admitted, np.arange(len(admitted)), FOREVER)

    def _first(self, owner: Ints, values: Ints, absent: int) -> Ints:
        return self._last(owner[::-1], values[::-1], absent)

    def _last(self, owner: Ints, values: Ints, absent: int) -> Ints:
        column = np.full(self.requests, absent, dtype=np.int64)
        column[owner] = values
        return column

    # Gaps between tokens

    @cached_property
    def _between(self) -> tuple[Ints, Ints]:
        """``(request, gap_ns)`` from the last token of each emitting row to the first of its request's next one."""
        rows = np.flatnonzero(self.emits)
        same = self.owner[rows[1:]] == self.owner[rows[:-1]]
        before, after = rows[:-1][same], rows[1:][same]
        first_ns = self.pieces.first_ends_ns[self.first_piece[after]]
        return self.owner[after], first_ns - self.ends_ns[self.last_piece[before]]

    @cached_property
    def _stretch_bounds(self) -> tuple[Ints, Ints]:
        """Of each row the first and the last of the decoding pieces that it lies in; of a chunk something else."""
        schedule, begins = self.record.schedule, self.pieces.first_decoding
        return (
            np.searchsorted(begins, schedule["job"]),
            np.searchsorted(begins, schedule["job"] + schedule["jobs"]) - 1,
        )

    @cached_property
    def _gaps_before_ns(self) -> Ints:
        """Before the first job of each decoding piece but the first: from the end of the decoding job before to its."""
        here = self.pieces.decoding
        return self.pieces.first_ends_ns[here[1:]] - self.ends_ns[here[:-1]]

    @cached_property
    def longest_gap_ns(self) -> Ints:
        """The longest gap between two tokens of each request; :data:`NEVER` below two tokens."""
        longest = np.full(self.requests, NEVER, dtype=np.int64)
        request, gap_ns = self._between
        np.maximum.at(longest, request, gap_ns)
        here = self.pieces.decoding
        last_ns = (self.ends_ns - self.pieces.last_starts_ns)[here]
        inside_ns = np.where(self.pieces.jobs[here] > 1, last_ns, NEVER)  # on a line the last job is the longest
        first, last = (bound[self.is_stretch] for bound in self._stretch_bounds)
        owner = self.owner[self.is_stretch]
        np.maximum.at(longest, owner, inside_ns[first])
        on = np.flatnonzero(last > first)
        longest_ns = np.maximum(self._gaps_before_ns, inside_ns[1:])
        np.maximum.at(longest, owner[on], range_max(longest_ns, first[on], last[on] - first[on]))
        return longest

    def gaps(self, of: Mask) -> Gaps:
        """All gaps between tokens of the requests in ``of``."""
        request, between_ns = self._between
        between_ns = between_ns[of[request]]
        rows = self.is_stretch & of[self.owner]
        first, last = (bound[rows] for bound in self._stretch_bounds)
        here = self.pieces.decoding
        begun = np.bincount(first, minlength=len(here) + 1)
        decode = np.cumsum(begun - np.bincount(last + 1, minlength=len(here) + 1))[: len(here)]
        on = (decode - begun[: len(here)])[1:]
        several = np.flatnonzero(self.pieces.jobs[here] > 1)
        lines = here[several]
        return Gaps(
            ns=np.concatenate([between_ns, self._gaps_before_ns]),
            times=np.concatenate([np.ones_like(between_ns), on]),
            later_fs=self.pieces.later_fs[lines],
            growth_fs=self.pieces.growth_fs[lines],
            later=self.pieces.jobs[lines] - 1,
            later_ns=(self.ends_ns - self.pieces.first_ends_ns)[lines],
            later_times=decode[several],
        )

    # Pieces: what is in each of their jobs, or in the first of them

    @cached_property
    def prefill_tokens(self) -> Ints:
        """Prompt tokens of each job."""
        rows = self.is_chunk
        return sum_by(self.first_piece[rows], self.record.schedule["tokens"][rows], len(self.pieces))

    @cached_property
    def chunks(self) -> Ints:
        """How many chunks each job holds."""
        return np.bincount(self.first_piece[self.is_chunk], minlength=len(self.pieces))

    @cached_property
    def decodes(self) -> Ints:
        """How many requests decode in each job."""
        return self._per_decoding_piece(np.ones_like(self.owner[self.is_stretch]))

    @cached_property
    def sequences(self) -> Ints:
        """How many sequences decode in each job: all samples of each request."""
        return self._per_decoding_piece(self.samples[self.is_stretch])

    @cached_property
    def context_tokens(self) -> Ints:
        """Tokens of context that the decodes of each first job read: of each sequence, those before and the new one."""
        rows = self.is_stretch
        at_start = self.workload.prompt_tokens[self.owner] + self.emitted_before - self.record.schedule["job"]
        context = self._per_decoding_piece((self.samples * at_start)[rows])
        here = self.pieces.decoding
        context[here] += self.sequences[here] * self.pieces.first_decoding[:-1]
        return context

    @cached_property
    def copies(self) -> Ints:
        """How many requests each job copies."""
        return np.bincount(self.pieces.of(self.record.copies["job"]), minlength=len(self.pieces))

    @cached_property
    def copied_around(self) -> Mask:
        """Whether a first job may belong to a decision with copies, which go before it: in one of the two jobs."""
        copied = np.sort(self.record.copies["job"])
        first = self.pieces.first
        near: Ints = np.searchsorted(copied, first, side="right") - np.searchsorted(copied, first - 2)
        return np.not_equal(near, 0)

    @cached_property
    def copied_blocks(self) -> Ints:
        """Blocks that each job copies."""
        copies = self.record.copies
        return sum_by(self.pieces.of(copies["job"]), copies["blocks"], len(self.pieces))

    @cached_property
    def admissions(self) -> Ints:
        """How many requests join ``running`` with each first job."""
        return np.bincount(self.pieces.of(self.record.admissions["job"]), minlength=len(self.pieces))

    def _per_decoding_piece(self, values: Ints) -> Ints:
        """Per piece, the sum of one value for each stretch that it lies in."""
        first, last = (bound[self.is_stretch] for bound in self._stretch_bounds)
        here = self.pieces.decoding
        steps = np.zeros(len(here) + 1, dtype=np.int64)
        np.add.at(steps, first, values)
        np.subtract.at(steps, last + 1, values)
        column = np.zeros(len(self.pieces), dtype=np.int64)
        column[here] = np.cumsum(steps)[:-1]
        return column
