"""The result of one run: its record, and everything that follows from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from sim.record import json_form
from sim.record.memory import Usage, usage
from sim.record.metrics import Summary, summarise
from sim.record.tables import Record, Table
from sim.record.timeline import Timeline, request_columns
from sim.request import Ints, Status


@dataclass(frozen=True)
class Result:
    """One policy, one run.

    ``scenario`` is the document as read and ``resolved`` the complete one of this run, both in the TOML's shape;
    ``settings`` every resolved setting by its dotted key; ``work`` what the run cost the simulator (heap events,
    cycles), which says nothing about the server.
    """

    name: str
    policy: str
    scenario: Mapping[str, Any]
    resolved: Mapping[str, Any]
    settings: Mapping[str, Any]
    provenance: Mapping[str, Any]
    record: Record
    work: Mapping[str, int]
    incomplete: str | None = None
    """Why the run did not come to its end, if so; whoever had not ended by then is unfinished."""

    @cached_property
    def timeline(self) -> Timeline:
        return Timeline(self.record)

    @cached_property
    def requests(self) -> Table:
        """Column name to int64 array, one row per request in the order of the workload.

        Times end in ``_ns``: ``arrival_ns, first_scheduled_ns, first_token_ns, finish_ns, queue_ns, ttft_ns,
        max_itl_ns, tpot_ns, e2e_ns, ended_ns``; -1 where there is no such time. ``status`` holds values of
        :class:`sim.request.Status`.
        """
        return request_columns(self.record, self.timeline)

    @property
    def jobs(self) -> Table:
        """Column name to int64 array, one row per job.

        ``start_ns, end_ns, kind, prefill_tokens, decode_requests``, and how many requests were ``waiting`` and
        ``running`` once it was scheduled. ``kind`` holds values of :class:`sim.engine.plan.Kind`.
        """
        return self.record.jobs

    @cached_property
    def summary(self) -> Summary:
        return summarise(self.record, self.requests, self.timeline, self.settings["kv.blocks"])

    def memory_usage(self) -> Usage:
        """What the slots of the pool were used for during each job (see :mod:`sim.record.memory`).

        ``ValueError``: there is no pool, or requests share blocks.
        """
        return usage(self.record, self.settings)

    def finish_reason(self, index: int) -> str | None:
        """Why the request at ``index`` finished: ``stop`` (it emitted all), ``length`` (cut); None if it did not."""
        return (None, "stop", "length")[self.finish_codes[index]]

    @cached_property
    def finish_codes(self) -> Ints:
        """Per request: 0 did not finish, 1 emitted all, 2 was cut."""
        whole = self.requests["emitted_tokens"] == self.requests["output_tokens"] * self.requests["samples"]
        return np.where(self.record.requests["status"] == Status.FINISHED, np.where(whole, 1, 2), 0)

    def token_times(self, id: str) -> Ints:  # noqa: A002  # the contract's name
        """The times of a request's tokens: int64 ns, in order, empty if it emitted none. ``KeyError``: no such id."""
        try:
            index = self._index_of[id]
        except KeyError:
            raise KeyError(f"no request {id!r} in this result") from None
        return self.timeline.token_times(index)

    @cached_property
    def _index_of(self) -> dict[str, int]:
        return {id_: index for index, id_ in enumerate(self.record.workload.all_ids())}

    def to_dict(self) -> dict[str, Any]:
        """The result JSON with this one run, of plain ints, floats, strings; times in ms."""
        document: dict[str, Any] = json_form.plain(json_form.document([self]))
        return document

    def save(self, path: str | PathLike[str]) -> None:
        """Write this run: one JSON file if ``path`` ends in ``.json``, else a folder of Parquet tables.

        Atomic: a reader sees the old result or the whole new one. ``OutputError``: it could not be written.
        """
        from sim.record import write

        write.save_run(self, path)
