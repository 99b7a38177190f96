"""What follows from the tables of a run, worked out anew: nothing here calls the code that the simulator uses for it.

Columns are per request, per row of the schedule, or per job, as each says. Nothing is expanded per token. The tables
must be sound (``checks_tables``).
"""

from functools import cached_property

import numpy as np

from sim.analysis.exact import FOREVER, Mask, range_max, sum_by
from sim.analysis.rows import Rows
from sim.engine.plan import Loss
from sim.request import NEVER, Ints


class Facts(Rows):
    """Of each request what was computed and emitted, and when its tokens came; of each job what is in it."""

    # Requests

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
        return self._first(self.owner, self.starts_ns[self.first_job], NEVER)

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
        return self._first(self.owner[rows], self.ends_ns[self.first_job[rows]], NEVER)

    @cached_property
    def last_token_job(self) -> Ints:
        rows = self.emits
        return self._last(self.owner[rows], self.last_job[rows], FOREVER)

    @cached_property
    def last_token_ns(self) -> Ints:
        rows = self.emits
        return self._last(self.owner[rows], self.ends_ns[self.last_job[rows]], NEVER)

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
        return self.owner[after], self.ends_ns[self.first_job[after]] - self.ends_ns[self.last_job[before]]

    @cached_property
    def longest_gap_ns(self) -> Ints:
        """The longest gap between two tokens of each request; :data:`NEVER` below two tokens."""
        longest = np.full(self.requests, NEVER, dtype=np.int64)
        request, gap_ns = self._between
        np.maximum.at(longest, request, gap_ns)
        long = self.is_stretch & (self.record.schedule["jobs"] > 1)
        first, steps = self.record.schedule["job"][long], self.record.schedule["jobs"][long] - 1
        np.maximum.at(longest, self.owner[long], range_max(np.diff(self.decode_ends_ns), first, steps))
        return longest

    def gaps(self, of: Mask) -> tuple[Ints, Ints]:
        """``(gap_ns, how often)``: all gaps between tokens of the requests in ``of``."""
        request, between_ns = self._between
        between_ns = between_ns[of[request]]
        rows = self.is_stretch & of[self.owner]
        first = self.record.schedule["job"][rows]
        steps = self.record.schedule["jobs"][rows] - 1
        bins = len(self.decoding) + 1
        begun = np.cumsum(np.bincount(first, minlength=bins))
        ended = np.cumsum(np.bincount(first + steps, minlength=bins))
        inside = (begun - ended)[: max(len(self.decoding) - 1, 0)]
        gap_ns = np.concatenate([between_ns, np.diff(self.decode_ends_ns)])
        return gap_ns, np.concatenate([np.ones_like(between_ns), inside])

    # Jobs

    @cached_property
    def prefill_tokens(self) -> Ints:
        """Prompt tokens of each job."""
        rows = self.is_chunk
        return sum_by(self.first_job[rows], self.record.schedule["tokens"][rows], self.jobs)

    @cached_property
    def chunks(self) -> Ints:
        """How many chunks each job holds."""
        return np.bincount(self.first_job[self.is_chunk], minlength=self.jobs)

    @cached_property
    def decodes(self) -> Ints:
        """How many requests decode in each job."""
        return self._per_decoding_job(np.ones_like(self.owner[self.is_stretch]))

    @cached_property
    def sequences(self) -> Ints:
        """How many sequences decode in each job: all samples of each request."""
        return self._per_decoding_job(self.samples[self.is_stretch])

    @cached_property
    def context_tokens(self) -> Ints:
        """Tokens of context that the decodes of each job read: of each sequence, those before and the new one."""
        rows = self.is_stretch
        at_start = self.workload.prompt_tokens[self.owner] + self.emitted_before - self.record.schedule["job"]
        context = self._per_decoding_job((self.samples * at_start)[rows])
        context[self.decoding] += self.sequences[self.decoding] * np.arange(len(self.decoding))
        return context

    @cached_property
    def copies(self) -> Ints:
        """How many requests each job copies."""
        return np.bincount(self.record.copies["job"], minlength=self.jobs)

    @cached_property
    def copied_around(self) -> Mask:
        """Whether a job may belong to a decision with copies, which go before it."""
        near = self.copies.copy()
        for back in (1, 2):
            near[back:] += self.copies[:-back] if back < len(near) else 0
        return np.not_equal(near, 0)

    @cached_property
    def copied_blocks(self) -> Ints:
        """Blocks that each job copies."""
        return sum_by(self.record.copies["job"], self.record.copies["blocks"], self.jobs)

    @cached_property
    def admissions(self) -> Ints:
        """How many requests join ``running`` with each job."""
        return np.bincount(self.record.admissions["job"], minlength=self.jobs)

    def _per_decoding_job(self, values: Ints) -> Ints:
        """Per job, the sum of one value for each stretch that it lies in."""
        first = self.record.schedule["job"][self.is_stretch]
        behind = first + self.record.schedule["jobs"][self.is_stretch]
        steps = np.zeros(len(self.decoding) + 1, dtype=np.int64)
        np.add.at(steps, first, values)
        np.subtract.at(steps, behind, values)
        column = np.zeros(self.jobs, dtype=np.int64)
        column[self.decoding] = np.cumsum(steps)[:-1]
        return column
