"""The composition root: builds the environment, wires its parts, runs them, checks, and hands out the result.

The only file that knows everybody.
"""

import platform
from collections.abc import Generator, Sequence
from dataclasses import asdict, fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import simpy
from simpy import Environment, Event

from sim.clock import instant_ns
from sim.costs.own import cost_of
from sim.engine.build import memory_of
from sim.engine.cycle import UNBOUNDED
from sim.engine.device import Device
from sim.engine.late import LAST, events_scheduled, late
from sim.engine.monitor import Monitor
from sim.engine.scheduler import Parts, Scheduler, Switches
from sim.engine.state import Rules
from sim.engine.swap import Swap
from sim.errors import LimitError, StalledError
from sim.names import brought, files_of
from sim.policies.admission import NeverFits
from sim.policies.given import Given, given_of
from sim.policies.orders import queue_of, shifts, urgency_of
from sim.policies.presets import COMPOSITIONS, Choice, KvAxes, compose, resolve
from sim.policies.victims import VICTIMS
from sim.record.check import check_tokens
from sim.record.kept import of_requests
from sim.record.log import Log
from sim.record.monitors import Countdown, Limits, Liveness
from sim.record.result import Result
from sim.record.tables import Record
from sim.request import Workload
from sim.scenario import Scenario
from sim.version import VERSION
from sim.workload import faults
from sim.workload.build import build
from sim.workload.clients import Clients, Wishes, open_loop

STUCK_SHOWN = 10
"""How many stuck requests an error names."""


def simulate(
    scenario: Scenario,
    *,
    spans: bool = True,
    cohort: bool = True,
    check: bool = False,
    monitors: Sequence[Monitor] = (),
) -> Result:
    """Run ``scenario`` under its ``scheduler.policy`` and return the result of this one run.

    ``spans=False`` and ``cohort=False`` turn off what is only there for speed; nothing but ``Result.work`` may differ
    (and, without the cohort, how many jobs a row of the record stands for). ``check`` counts
    all blocks at every decision. ``monitors`` are told what happens while it runs. Raises ``ScenarioError`` (the trace
    can't be read, no such policy), ``LimitError`` (``run.max_jobs``, ``run.max_seconds``), ``StalledError`` (requests
    that nothing can end), ``InvariantError`` (a bug of the engine or of a policy).

    >>> import sim
    >>> request = {"id": "P", "prompt_tokens": 12, "output_tokens": 1}
    >>> scenario = sim.load({"schema": 1, "name": "one", "workload": {"requests": [request]}})
    >>> int(sim.simulate(scenario).token_times("P")[0])  # ns: 0.25 ms for the job and 1 ms for each prompt token
    12250000
    """
    workload, trace_sha256 = build(scenario)
    choice = resolve(scenario)
    most_jobs = UNBOUNDED if scenario.run.max_jobs is None else scenario.run.max_jobs
    switches = Switches(spans=spans, cohort=cohort, check=check, most_jobs=most_jobs)
    replica = Replica(scenario, choice, workload, monitors, switches)

    def result(incomplete: str | None = None) -> Result:
        work = replica.work()
        whole = Result(
            name=scenario.scheduler.policy,
            policy=scenario.scheduler.policy,
            scenario=scenario.document,
            resolved=resolved(scenario, choice),
            settings=settings(scenario, choice),
            provenance=provenance(scenario, choice, workload, trace_sha256),
            record=replica.record(0 if choice.kv is None else choice.kv.block_tokens),
            work=work,
            incomplete=incomplete,
        )
        check_tokens(whole.record, whole.requests, choice.axes.max_model_tokens)
        return whole

    try:
        replica.run()
    except LimitError as error:
        replica.end()
        error.result = result(str(error))
        raise
    except StalledError as error:
        raise StalledError(*error.args, *(f"under {each}" for each in brought(scenario, choice))) from None
    return result()


class Replica:
    """One server with its clients, in an environment of its own."""

    def __init__(
        self,
        scenario: Scenario,
        choice: Choice,
        workload: Workload,
        monitors: Sequence[Monitor],
        switches: Switches,
    ) -> None:
        axes, kv = choice
        self.log = Log(workload)
        self._env = Environment()
        self._workload = workload
        self._max_model_tokens = axes.max_model_tokens
        self._done = Event(self._env)
        self._countdown = Countdown(len(workload), self._done.succeed)
        self._horizon_ns = None if scenario.run.horizon_ms is None else instant_ns(scenario.run.horizon_ms)
        self._faults = faults.schedule(scenario)
        self._swap = Swap(0 if kv is None or kv.preemption != "swap" else kv.swap_blocks)
        cost = cost_of(scenario.device, Decimal(0) if scenario.kv is None else scenario.kv.swap_ms_per_block)
        memory = memory_of(self._env, kv, workload)
        given = given_of(axes, scenario.run.seed, workload, cost, memory.cached)
        parts = Parts(
            policy=compose(axes),
            rules=_rules(kv, given),
            waiting=queue_of(given),
            memory=memory,
            swap=self._swap,
            never_fits=NeverFits(axes, kv, crashes=bool(self._faults.crashes_ns)),
        )
        limits = Limits(scenario.run.max_jobs, scenario.run.max_seconds)
        quiet_from_ns = max(
            self._faults.last_ns, int(max(workload.arrival_ns.max(initial=0), workload.cancel_ns.max(initial=0)))
        )
        liveness = Liveness(_most_tokens(kv, workload), quiet_from_ns)
        can_circle = kv is not None or COMPOSITIONS.source(axes.composition) is not None
        observers = [*([limits] if limits.any else []), self.log, self._countdown, *([liveness] if can_circle else [])]
        device = Device(self._env, cost, self._faults.troubles)
        self._scheduler = Scheduler(self._env, device, parts, [*observers, *monitors], switches)
        self._clients: Clients | None = None
        if workload.sending is not None:
            wishes = Wishes(self._countdown.skip, liveness.expect)
            self._clients = Clients(self._env, self._scheduler, workload, wishes, axes.max_model_tokens)

    def run(self) -> None:
        """Start the processes and run until every request has ended, or the horizon."""
        self._env.process(self._scheduler.serve())
        if self._clients is None:
            self._env.process(open_loop(self._env, self._scheduler, self._workload, self._max_model_tokens))
        else:
            self._env.process(self._clients.arrive())
        for process in self._faults.processes(self._env, self._scheduler):
            self._env.process(process)
        if not len(self._workload):
            self._done.succeed()
        if self._horizon_ns is not None:
            self._env.process(self._stop_at(self._horizon_ns))
        try:
            self._env.run(until=self._done)
        except RuntimeError as error:
            if error.__cause__ is not None:  # raised by a process, not by SimPy itself for want of events
                raise
            raise StalledError(*self._stuck()) from None
        self.end()

    def end(self) -> None:
        """Whoever has not ended by now is unfinished."""
        self._scheduler.stop()
        self.log.end_unfinished(self._scheduler.state.running, self._swap.indices)

    def record(self, block_tokens: int) -> Record:
        """The tables of the run, whose workload is the one that it met. Call it once, when the run is over."""
        record, clients = self.log.record(block_tokens), self._clients
        if clients is None:
            return record
        workload = replace(record.workload, arrival_ns=clients.arrival_ns, cancel_ns=clients.cancel_ns)
        return of_requests(replace(record, workload=workload), np.flatnonzero(clients.needed))

    def work(self) -> dict[str, int]:
        """What the run cost the simulator."""
        return {
            "heapEvents": events_scheduled(self._env),
            "decisions": self._scheduler.decisions,
            "policyCalls": self._scheduler.policy_calls,
            "jobs": self._scheduler.jobs_begun,
            "spans": self._scheduler.spans,
            "rows": self.log.rows,
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
        return [
            f"stuck at {self._scheduler.idle_since_ns} ns: {left} requests have not ended",
            *stuck[:STUCK_SHOWN],
            *more,
        ]


def _most_tokens(kv: KvAxes | None, workload: Workload) -> int:
    """Tokens that can be computed at once."""
    if kv is not None:
        return kv.blocks * kv.block_tokens
    return int((workload.prompt_tokens + workload.samples * workload.output_tokens).sum())


def _rules(kv: KvAxes | None, given: Given) -> Rules:
    axes, name = given.axes, "auto" if kv is None else kv.victim
    if name == "auto":
        name = "lowest-priority" if axes.order == "priority" else "last"
    return Rules(
        limits=axes.limits,
        victim=VICTIMS[name](given.seed),
        reads_context=given.cost.reads_context,
        last_goes=name == "last",
        urgency=urgency_of(given),
        shifting=shifts(axes),
    )


def _pool_costs(scenario: Scenario) -> dict[str, Any]:
    """What belongs to the pool and not to its scheduling: what copying costs, and the ledger behind its size."""
    ledger = scenario.ledger
    return {
        "swap_ms_per_block": None if scenario.kv is None else scenario.kv.swap_ms_per_block,
        "memory_gib": None if ledger is None else ledger.memory_gib,
        "bytes_per_token": None if ledger is None else ledger.kv_bytes_per_token,
    }


def settings(scenario: Scenario, choice: Choice) -> dict[str, Any]:
    """Every setting of a run, by its dotted key; what has no limit is None, and so is the pool without ``[kv]``."""
    axes, kv = choice
    pool = dict.fromkeys(field.name for field in fields(KvAxes)) if kv is None else asdict(kv)
    tables = {
        "scheduler": {"policy": scenario.scheduler.policy, **axes.document()},
        "kv": {**pool, **_pool_costs(scenario)},
        "device": scenario.device.all_values(),
        "run": scenario.run.model_dump(exclude={"policies", "variants"}),
    }
    return {f"{table}.{key}": value for table, row in tables.items() for key, value in row.items()}


def resolved(scenario: Scenario, choice: Choice) -> dict[str, Any]:
    """The complete document of one run: it runs again, alone, to the same bytes."""
    document = scenario.document
    run = {key: value for key, value in document.get("run", {}).items() if key not in {"policies", "variants"}}
    tables: dict[str, dict[str, Any]] = {"device": {}, "kv": {}, "scheduler": {}}
    for key, value in settings(scenario, choice).items():
        table, name = key.split(".")
        if table in tables and value is not None:
            tables[table][name] = value
    if scenario.ledger is not None:
        del tables["kv"]["blocks"], tables["kv"]["bytes_per_token"]  # they follow from memory_gib and [model]
    document |= {name: table for name, table in tables.items() if table} | {"run": {"seed": scenario.run.seed, **run}}
    _make_absolute(document["workload"], scenario.folder)
    return document


def _make_absolute(value: Any, folder: Path) -> None:
    """Every ``path`` below it, in place."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        if key == "path":
            value[key] = str((folder / each).absolute())
        else:
            _make_absolute(each, folder)


def provenance(scenario: Scenario, choice: Choice, workload: Workload, trace_sha256: str | None) -> dict[str, Any]:
    """What else the result depends on, and where its requests came from."""
    files = files_of(brought(scenario, choice))
    return {
        "version": VERSION,
        "seed": scenario.run.seed,
        "python": platform.python_version(),
        "simpy": simpy.__version__,
        "numpy": np.__version__,
        "workloadSha256": workload.sha256(),
        "traceSha256": trace_sha256,
        **({"plugins": files} if files else {}),
    }
