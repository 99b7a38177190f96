"""What the theories ask of a scenario. Each question that is answered with no says why, in one sentence."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from pathlib import Path as FilePath
from typing import NamedTuple

import numpy as np

from sim.analysis.theory.alone import Alone
from sim.analysis.theory.claims import Claim, Path, Sample
from sim.analysis.theory.laws import MOST_LENGTHS, Service, Table, merged, table_of
from sim.analysis.theory.queues import Moments, Stream
from sim.classes import Traffic, drawn_together, lengths_of
from sim.clients import Durations
from sim.engine.plan import Blocked
from sim.generated import Lengths
from sim.policies.presets import BUDGETED, Axes, KvAxes, resolve
from sim.request import Ints
from sim.scenario import Scenario
from sim.workload.arrivals import PROCESSES
from sim.workload.durations import Fixed, Uniform
from sim.workload.generate import arrival_law, length_law
from sim.workload.process import Process
from sim.workload.renewal import Poisson

MS_PER_S = 1000

SAME_LENGTH = 1.02
"""Classes that last as long as each other up to this factor end together."""

BLIND = ("fcfs", "lifo", "random", "priority", "edf")
"""Orders that do not look at lengths."""


class DoesNotApply(Exception):  # noqa: N818  # a sentence, not an error
    """Why."""


def need(condition: object, why: str) -> None:
    if not condition:
        raise DoesNotApply(why)


class Source(NamedTuple):
    """One class of generated requests, ``rate`` per ms."""

    process: str
    law: Process
    rate: float
    prompts: Table
    outputs: Table
    priority: int
    requests: int

    @property
    def lasts(self) -> float:
        """How long its requests arrive, on average, in ms."""
        return self.requests / self.rate


class Loop(NamedTuple):
    """Users of a closed loop, their mean thinking time in ms, and what they ask for."""

    users: int
    think_ms: float
    prompts: Table
    outputs: Table


@dataclass(frozen=True)
class Facts:
    """A scenario and what its policy comes to. Times in ms."""

    scenario: Scenario

    @cached_property
    def _choice(self) -> tuple[Axes, KvAxes | None]:
        return resolve(self.scenario)

    @property
    def axes(self) -> Axes:
        return self._choice[0]

    @property
    def kv(self) -> KvAxes | None:
        return self._choice[1]

    @cached_property
    def alone(self) -> Alone:
        return Alone.of(self.scenario)

    # --- the server -------------------------------------------------------------------------------------------------

    def undisturbed(self) -> None:
        """Nothing happens but arrivals and jobs: no faults, nobody leaves, no cache, everything to its end."""
        run, workload = self.scenario.run, self.scenario.workload
        need(not self.scenario.faults, "the server has faults")
        need(run.horizon_ms is None and run.max_jobs is None, "the run is cut before its end")
        need(not any(r.cancel_ms is not None for r in workload.requests or ()), "some requests are cancelled")
        need(workload.patience_ms is None, "clients run out of patience")
        need(not self.axes.max_model_tokens, "max_model_tokens cuts outputs")
        need(self.kv is None or not self.kv.prefix_cache, "the prefix cache shortens services")
        need(not self.axes.preemptive, "the order interrupts requests")

    def single_slot(self) -> None:
        """Requests are served one after another, each as if it were alone."""
        self.undisturbed()
        axes = self.axes
        long = axes.long_prefill_tokens if axes.composition in BUDGETED else 0
        need(not long, "long_prefill_tokens: what a job holds depends on who waits")
        if axes.max_running != 1:
            slots = "has no limit" if axes.max_running is None else f"= {axes.max_running}"
            prompts_only = self.only_prompts and axes.composition not in BUDGETED and axes.prefills_per_job == 1
            need(prompts_only, f"not a single slot: max_running {slots}, and a job may hold several requests")
            whole = axes.batching == "continuous" or axes.order == "fcfs"
            need(whole, f"a batch (max_running {slots}) is formed before its members are ordered")

    @cached_property
    def only_prompts(self) -> bool:
        """Whether every request emits but one token: nobody decodes."""
        requests = self.scenario.workload.requests
        if requests is not None:
            return all(request.output_tokens == 1 for request in requests)
        try:
            return all(source.outputs.only == 1 for source in self.sources)
        except DoesNotApply:
            return False

    def unlimited(self) -> None:
        """Whoever has arrived is in the next job, if no limit is met (see :meth:`met_no_limit`)."""
        self.undisturbed()
        axes = self.axes
        need(axes.composition in BUDGETED, f"composition {axes.composition}: prompts and decodes in separate jobs")
        need(axes.batching == "continuous", "static batching: nobody joins a batch")
        need(not axes.long_prefill_tokens, "long_prefill_tokens cuts prompts")
        need(axes.max_running != 1, "a single slot: no batch")

    def met_no_limit(self, sample: Sample) -> bool:
        """Whether, in this run, nobody would have been served otherwise without slots, budget and pool."""
        axes, rows = self.axes, sample.result.record.rows
        slots = axes.max_running is None or int(rows["running"].max()) < axes.max_running
        tokens = int((rows["prefill_tokens"] + rows["decode_requests"]).max())
        budget = axes.token_budget is None or tokens < axes.token_budget
        kept_out = bool((rows["blocked"] != Blocked.NOTHING).any()) or bool(
            len(sample.result.record.preemptions["job"])
        )
        return slots and budget and not kept_out and sample.all_finished

    def costs_only(self, *names: str) -> None:
        """No cost of the device but these is above 0."""
        for name in ("job_ms", "prefill_ms_per_token", "decode_ms_per_batch", "decode_ms_per_request",
                     "context_ms_per_token"):  # fmt: skip
            if name not in names:
                need(not getattr(self.scenario.device, name), f"{name} is not 0")

    # --- the order --------------------------------------------------------------------------------------------------

    def blind(self) -> None:
        """The order does not look at lengths."""
        need(self._order in BLIND, f"order {self.axes.order} may look at lengths")

    def in_order_of_arrival(self) -> None:
        need(self._order == "fcfs", f"order {self.axes.order}, not fcfs")

    @property
    def _order(self) -> str:
        """The order; priorities that are all the same are none."""
        if self.axes.order != "priority":
            return self.axes.order
        requests = self.scenario.workload.requests
        priorities = self.priorities if requests is None else {request.priority for request in requests}
        return "fcfs" if len(priorities) == 1 else "priority"

    @cached_property
    def priorities(self) -> list[int]:
        """Of generated requests, the most urgent first."""
        return sorted({source.priority for source in self.sources})

    def believed_output(self) -> int | None:
        """What an order by length takes every output for; None: what it is."""
        predictor = self.axes.predictor
        need(predictor in {"oracle", "declared"}, f"predictor {predictor} errs")
        bound = self.scenario.workload.max_tokens
        return bound if predictor == "declared" and isinstance(bound, int) else None

    def key(self, sample: Sample) -> Ints:
        """What a request is ranked by while it waits, the smallest first."""
        columns, workload = sample.columns, sample.result.record.workload
        order = self.axes.order
        if order == "lifo":
            return -columns["arrival_ns"]
        if order == "priority":
            return workload.priority[sample.order]
        if order in {"sjf", "srpt"}:
            declared = self.axes.predictor == "declared"
            return columns["prompt_tokens"] + (
                workload.max_tokens[sample.order] if declared else columns["output_tokens"]
            )
        return np.zeros_like(columns["arrival_ns"])

    def has_keys(self) -> None:
        """Whether :meth:`key` knows this order: one in which nobody's place changes while they wait."""
        order = self.axes.order
        need(order in {"fcfs", "lifo", "priority", "sjf", "srpt"}, f"order {order} has no key that is known beforehand")
        need(self.axes.ageing is None, "ageing changes the order of those who wait")
        if order in {"sjf", "srpt"}:
            self.believed_output()

    # --- the load ---------------------------------------------------------------------------------------------------

    @cached_property
    def sources(self) -> Sequence[Source]:
        """The classes of generated requests. ``DoesNotApply``: nobody knows their laws."""
        asked = self.scenario.workload
        need(asked.requests is None, "the requests are given one by one, not by a law")
        need(asked.trace is None, "the requests are a trace, not of a law")
        need(asked.clients is None, "a closed loop: arrivals depend on the server")
        need(asked.sessions is None, "sessions: arrivals depend on the server")
        if asked.classes is None:
            return [_source(asked, self._folder, asked.count or 0)]
        found = [_source(each, self._folder, n) for each, n in zip(asked.classes, asked.counts, strict=True)]
        shortest, longest = min(source.lasts for source in found), max(source.lasts for source in found)
        need(longest <= SAME_LENGTH * shortest, "the classes end at different times: counts are not as the rates")
        return found

    @property
    def loop(self) -> Loop:
        """The closed loop. ``DoesNotApply``: there is none."""
        asked = self.scenario.workload
        if asked.clients is None:
            raise DoesNotApply("no closed loop: requests do not wait for one another")
        prompt, output = lengths_of(asked)
        need(not asked.correlation and not drawn_together(prompt, output), "prompts and outputs are correlated")
        tables = (_table(prompt, self._folder, "prompts"), _table(output, self._folder, "outputs"))
        return Loop(asked.clients.users, _mean_ms(asked.clients.think_ms), *tables)

    @property
    def _folder(self) -> FilePath:
        return self.scenario.source.parent if self.scenario.source else FilePath()

    def poisson(self) -> None:
        for source in self.sources:
            need(isinstance(source.law, Poisson), f"arrivals are not Poisson: {source.process}")

    def renewal(self) -> Source:
        """The one class of arrivals whose gaps are independent and of a known variance."""
        need(len(self.sources) == 1, "several classes: their gaps together are not independent")
        (source,) = self.sources
        need(not isinstance(source.law, Poisson), "arrivals are Poisson: M/G/1 is exact")
        need(source.law.gap_cv is not None, f"{source.process}: gaps depend on one another or on time")
        return source

    @property
    def rate(self) -> float:
        """Requests per ms."""
        return sum(source.rate for source in self.sources)

    @property
    def prompts(self) -> Table:
        return merged([(source.rate, source.prompts) for source in self.sources])

    @property
    def outputs(self) -> Table:
        return merged([(source.rate, source.outputs) for source in self.sources])

    def same_lengths(self) -> None:
        """Everybody's prompt and output are independent and of the same two laws."""
        need(len(self.sources) == 1, "several classes with lengths of their own")

    def stream(self, sources: Sequence[Source] | None = None) -> Stream:
        """These classes (default all) as customers of a single slot."""
        mine = self.sources if sources is None else sources
        rate = sum(source.rate for source in mine)
        of = [(source.rate / rate, Service(self.alone, source.prompts, source.outputs).moments) for source in mine]
        return Stream(rate, Moments(sum(w * m.mean for w, m in of), sum(w * m.second for w, m in of)))

    def constant_service(self) -> float:
        """The service of all, in ms."""
        services = {Service(self.alone, s.prompts, s.outputs).constant_ms for s in self.sources}
        need(len(services) == 1 and None not in services, "services differ: lengths are not all the same")
        return services.pop() or 0.0

    def below_saturation(self, load: float) -> None:
        need(load < 1, f"load {load:.4g}: at 1 and above nothing is stationary")
        need(load > 0, "nothing takes any time that grows with the load")


def _source(asked: Traffic, folder: FilePath, count: int) -> Source:
    arrivals, (prompt, output) = asked.arrivals, lengths_of(asked)
    if arrivals is None:
        raise DoesNotApply("there is no law of arrivals")
    law = arrival_law(arrivals, folder)
    rate = law.mean_rate_per_s
    if not rate:
        raise DoesNotApply(f"arrivals of {arrivals.process} have no mean rate")
    need(not asked.correlation and not drawn_together(prompt, output), "prompts and outputs are correlated")
    name = arrivals.process if type(law) is PROCESSES.get(arrivals.process) else f"{arrivals.process}, changed"
    prompts, outputs = _table(prompt, folder, "prompts"), _table(output, folder, "outputs")
    return Source(name, law, float(rate) / MS_PER_S, prompts, outputs, asked.priority, count)


def _mean_ms(durations: Durations) -> float:
    law = durations.law
    if isinstance(law, Fixed):
        return float(law.value)
    if isinstance(law, Uniform):
        return float(law.min + law.max) / 2
    mean = durations.mean
    if mean is None:
        raise DoesNotApply(f"thinking times of {durations.distribution}: their mean is not known here")
    return float(mean)


def _table(lengths: Lengths, folder: FilePath, name: str) -> Table:
    need(lengths.own is None, f"{name} of {lengths.distribution}: a plug-in's law, of which no table is known")
    table = table_of(length_law(lengths, folder))
    if table is None:
        raise DoesNotApply(f"{name} of {lengths.distribution}: more than {MOST_LENGTHS:,} lengths")
    return table


Theory = Callable[[Facts], Iterator[Claim]]
"""What it claims of a scenario. ``DoesNotApply``: nothing, or nothing more."""


def settling(relaxation_ms: Callable[[Facts], float]) -> Callable[[Theory], Theory]:
    """Tells the claims of a theory how long the server takes to forget how it began."""

    def decorate(theory: Theory) -> Theory:
        @wraps(theory)
        def told(facts: Facts) -> Iterator[Claim]:
            for claim in theory(facts):
                yield claim if isinstance(claim, Path) else replace(claim, settles_ms=relaxation_ms(facts))

        return told

    return decorate
