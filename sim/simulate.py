"""The composition root: builds the environment, wires its parts, runs them, checks, and hands out the result.

The only file that knows everybody.
"""

import platform
from collections.abc import Generator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import simpy
from simpy import Environment, Event

from sim.clock import instant_ns
from sim.costs.linear import LinearCost
from sim.engine.device import Device
from sim.engine.late import LAST, events_scheduled, late
from sim.engine.scheduler import Monitor, Scheduler
from sim.errors import StalledError
from sim.policies.presets import Axes, compose, resolve
from sim.record.check import check_tokens
from sim.record.log import Log
from sim.record.monitors import Countdown, Limits
from sim.record.result import Result
from sim.request import Workload
from sim.scenario import Scenario
from sim.version import VERSION
from sim.workload.build import build
from sim.workload.clients import open_loop

STUCK_SHOWN = 10
"""How many stuck requests an error names."""


def simulate(scenario: Scenario, *, spans: bool = True, monitors: Sequence[Monitor] = ()) -> Result:  # noqa: ARG001  # every job is an event so far
    """Run ``scenario`` under its ``scheduler.policy`` and return the result of this one run.

    ``spans=False`` turns off what is only there for speed; nothing but ``Result.work`` may differ. ``monitors`` are
    told what happens while it runs. Raises ``ScenarioError`` (the trace can't be read, no such policy),
    ``LimitError`` (``run.max_jobs``, ``run.max_seconds``), ``StalledError`` (requests that nothing can end),
    ``InvariantError`` (a bug of the engine or of a policy).

    >>> import sim
    >>> request = {"id": "P", "prompt_tokens": 12, "output_tokens": 1}
    >>> scenario = sim.load({"schema": 1, "name": "one", "workload": {"requests": [request]}})
    >>> int(sim.simulate(scenario).token_times("P")[0])  # ns: 0.25 ms for the job and 1 ms for each prompt token
    12250000
    """
    workload, trace_sha256 = build(scenario)
    axes = resolve(scenario.scheduler.policy, scenario.scheduler)
    replica = Replica(scenario, axes, workload, monitors)
    replica.run()
    record = replica.log.record()
    check_tokens(record)
    return Result(
        name=scenario.scheduler.policy,
        policy=scenario.scheduler.policy,
        scenario=scenario.document,
        resolved=resolved(scenario, axes),
        settings=settings(scenario, axes),
        provenance=provenance(scenario, workload, trace_sha256),
        record=record,
        work=replica.work(),
    )


class Replica:
    """One server with its clients, in an environment of its own."""

    def __init__(self, scenario: Scenario, axes: Axes, workload: Workload, monitors: Sequence[Monitor]) -> None:
        self.log = Log(workload)
        self._env = Environment()
        self._workload = workload
        self._done = Event(self._env)
        self._countdown = Countdown(len(workload), self._done.succeed)
        self._horizon_ns = None if scenario.run.horizon_ms is None else instant_ns(scenario.run.horizon_ms)
        limits = Limits(scenario.run.max_jobs, scenario.run.max_seconds)
        self._scheduler = Scheduler(
            self._env,
            Device(self._env, LinearCost.of(scenario.device)),
            compose(axes),
            axes.max_running,
            [self.log, self._countdown, limits, *monitors],
        )

    def run(self) -> None:
        """Start the processes and run until every request has ended, or the horizon."""
        self._env.process(self._scheduler.run())
        self._env.process(open_loop(self._env, self._scheduler, self._workload))
        if self._horizon_ns is not None:
            self._env.process(self._stop_at(self._horizon_ns))
        try:
            self._env.run(until=self._done)
        except RuntimeError as error:
            if error.__cause__ is not None:  # raised by a process, not by SimPy itself for want of events
                raise
            raise StalledError(*self._stuck()) from None
        self.log.end_unfinished(self._scheduler.state.running)

    def work(self) -> dict[str, int]:
        """What the run cost the simulator."""
        return {
            "heapEvents": events_scheduled(self._env),
            "decisions": self._scheduler.decisions,
            "jobs": self._scheduler.jobs_begun,
        }

    def _stop_at(self, horizon_ns: int) -> Generator[Event, object, None]:
        yield self._env.timeout(horizon_ns)
        yield late(self._env, LAST)
        if not self._done.triggered:
            self._done.succeed()

    def _stuck(self) -> list[str]:
        state = self._scheduler.state
        stuck = [f"{r!r} is running" for r in state.running.values()] + [f"{r!r} is waiting" for r in state.waiting]
        more = [f"and {len(stuck) - STUCK_SHOWN} more"] if len(stuck) > STUCK_SHOWN else []
        left = self._countdown.left
        return [f"stuck at {self._env.now} ns: {left} requests have not ended", *stuck[:STUCK_SHOWN], *more]


def settings(scenario: Scenario, axes: Axes) -> dict[str, Any]:
    """Every setting of a run, by its dotted key; what has no limit is None."""
    tables = {
        "scheduler": {"policy": scenario.scheduler.policy, **asdict(axes)},
        "device": scenario.device.model_dump(),
        "run": scenario.run.model_dump(exclude={"policies", "variants"}),
    }
    return {f"{table}.{key}": value for table, row in tables.items() for key, value in row.items()}


def resolved(scenario: Scenario, axes: Axes) -> dict[str, Any]:
    """The complete document of one run: it runs again, alone, to the same bytes."""
    document = scenario.document
    run = {key: value for key, value in document.get("run", {}).items() if key not in ("policies", "variants")}
    tables: dict[str, dict[str, Any]] = {"device": {}, "scheduler": {}}
    for key, value in settings(scenario, axes).items():
        table, name = key.split(".")
        if table in tables and value is not None:
            tables[table][name] = value
    document |= {**tables, "run": {"seed": scenario.run.seed, **run}}
    if scenario.workload.trace is not None:
        document["workload"]["trace"]["path"] = str(scenario.trace_path().absolute())
    return document


def provenance(scenario: Scenario, workload: Workload, trace_sha256: str | None) -> dict[str, Any]:
    """What else the result depends on, and where its requests came from."""
    return {
        "version": VERSION,
        "seed": scenario.run.seed,
        "python": platform.python_version(),
        "simpy": simpy.__version__,
        "numpy": np.__version__,
        "workloadSha256": workload.sha256(),
        "traceSha256": trace_sha256,
    }
