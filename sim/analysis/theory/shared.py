"""The theories of a batch: everybody who is there shares the steps."""

from collections.abc import Callable, Iterator
from decimal import Decimal

import numpy as np

from sim.analysis.theory.alone import static_batch_ns
from sim.analysis.theory.batches import Sharing, bulk_service, constant_steps, mean_field_tpot
from sim.analysis.theory.claims import Claim, Comparison, Control, Measure, Path, Sample, Stationary
from sim.analysis.theory.facts import DoesNotApply, Facts, need, settling
from sim.analysis.theory.single_slot import no_wait, wait_ms
from sim.clock import NS_PER_MS
from sim.policies.presets import BUDGETED
from sim.request import NEVER, Status

SHORT_STEPS = 10
"""Least mean steps of a request for which steps count as short."""

NEARLY_ALL = 0.99

SHARING_SLACK, MEAN_FIELD_SLACK = 0.005, 0.05
LIMITED = "max_running, token_budget or the pool was met in some runs"
MEAN_FIELD_LOAD = 0.8
"""Up to here the mean field is within its slack."""


def _mean_of(column: str) -> Measure:
    return lambda sample: sample.mean_ms(sample.columns[column])


def _unless_limited(facts: Facts, measure: Measure) -> Measure:
    return lambda sample: measure(sample) if facts.met_no_limit(sample) else None


def _busy(sample: Sample) -> float | None:
    waited = no_wait(sample)
    return None if waited is None else 1 - waited


@settling(lambda facts: float(facts.scenario.device.job_ms) * (1 + facts.outputs.mean()))
def steps_of_one_length(facts: Facts) -> Iterator[Claim]:
    """The unlimited batch of constant steps."""
    facts.unlimited()
    facts.costs_only("job_ms")
    facts.poisson()
    steps = facts.outputs.only
    if steps is None:
        raise DoesNotApply("requests take different numbers of steps")
    step = float(facts.scenario.device.job_ms)
    found = constant_steps(facts.rate * step, steps)
    for name, theory, measure in (
        ("mean TTFT", found.first_token * step, _mean_of("ttft_ns")),
        ("mean latency", found.latency * step, _mean_of("e2e_ns")),
    ):
        yield Stationary(f"constant steps: {name}", "ms", theory, _unless_limited(facts, measure), otherwise=LIMITED)
    yield Stationary(
        "constant steps: share of time in a step", "", found.busy, _unless_limited(facts, _busy), otherwise=LIMITED
    )


def _bulk_relaxation_ms(facts: Facts) -> float:
    """As of a queue in which each request has its share of a full step to itself."""
    share = float(facts.scenario.device.job_ms) / _slots(facts)
    return 2 * facts.rate * share * share / (1 - facts.rate * share) ** 2


@settling(_bulk_relaxation_ms)
def slots_for_a_few(facts: Facts) -> Iterator[Claim]:
    """Bulk service."""
    facts.undisturbed()
    facts.costs_only("job_ms")
    facts.poisson()
    need(facts.only_prompts, "requests stay for several steps, not one")
    need(facts.kv is None, "a pool of blocks may keep requests out")
    slots = _slots(facts)
    step = float(facts.scenario.device.job_ms)
    facts.below_saturation(facts.rate * step / slots)
    found = bulk_service(facts.rate * step, slots)
    yield Stationary(f"bulk service by {slots}: mean wait", "ms", found.wait * step, wait_ms)
    yield Stationary(f"bulk service by {slots}: share of time in a step", "", found.busy, _busy)


MOST_SLOTS = 512


def _slots(facts: Facts) -> int:
    """How many requests of one token each a job takes."""
    axes, longest = facts.axes, int(facts.prompts.tokens[-1])
    need(axes.batching == "continuous", "static batching: one prompt in a job")
    need(axes.composition != "alternate", "composition alternate: one chunk in a job")
    need(not axes.long_prefill_tokens, "long_prefill_tokens cuts prompts")
    limits = [axes.max_running]
    if axes.composition == "prefill-first":
        limits.append(axes.prefills_per_job or None)
    found = min((limit for limit in limits if limit is not None), default=None)
    if found is None:
        raise DoesNotApply("slots without limit: nobody is left behind")
    need(found <= MOST_SLOTS, f"{found} slots: more than {MOST_SLOTS}")
    if axes.has_budget and axes.token_budget is not None:
        need(
            axes.token_budget >= found * longest, f"token_budget = {axes.token_budget} may be met before the slots are"
        )
    return found


def _sharing_relaxation_ms(facts: Facts) -> float:
    """How fast the number present returns to its mean, n̄ + d to n̄; and the stay of the longest."""
    device, steps = facts.scenario.device, facts.outputs.mean()
    fixed, each = float(device.job_ms + device.decode_ms_per_batch), float(device.decode_ms_per_request)
    load = facts.rate * (each * (steps - 1) + float(device.prefill_ms_per_token) * facts.prompts.mean())
    step = (fixed + each) / (1 - load)
    # Departures n / (a + b n) per step and request have the slope a / (a + b n)²; without a, as of a single slot.
    returns = steps * step * step / fixed if fixed else 4 * steps * each / (1 - load) ** 2
    longest = facts.outputs.tokens[int(np.searchsorted(facts.outputs.shares.cumsum(), NEARLY_ALL))]
    return returns + float(longest) * step


@settling(_sharing_relaxation_ms)
def shared_steps(facts: Facts) -> Iterator[Claim]:
    """Generalised processor sharing."""
    facts.unlimited()
    facts.costs_only("job_ms", "prefill_ms_per_token", "decode_ms_per_request")
    facts.poisson()
    device, prompt = facts.scenario.device, facts.prompts.only
    each = device.decode_ms_per_request
    need(each > 0, "decode_ms_per_request is 0: a step is as long for many as for one")
    same = prompt is not None and device.prefill_ms_per_token * prompt == each
    need(same, "the first step of a request costs something else than the others (prefill_ms_per_token x prompt)")
    steps = facts.outputs.mean()
    need(steps >= SHORT_STEPS, f"{steps:.4g} steps on average: fewer than {SHORT_STEPS}, a step is not short")
    facts.below_saturation(facts.rate * float(each) * steps)
    sharing = Sharing(float(device.job_ms), float(each), facts.rate, steps)
    controls = [Control(_mean_gap_ms, 1 / facts.rate), Control(_mean_output, steps)]

    def claim(name: str, theory: float, measure: Measure) -> Stationary:
        measure = _unless_limited(facts, measure)
        return Stationary(
            f"processor sharing: {name}",
            "ms",
            theory,
            measure,
            SHARING_SLACK,
            rough=True,
            controls=controls,
            otherwise=LIMITED,
        )

    yield claim("mean latency", sharing.mean_latency, _mean_of("e2e_ns"))
    lengths = facts.outputs.tokens.tolist()
    if 1 < len(lengths) <= 4:
        for length in lengths:
            measure = _among(lambda sample, o=length: sample.columns["output_tokens"] == o)  # type: ignore[misc]
            yield claim(f"mean latency at {length} tokens", sharing.mean_stay(length) + sharing.boundary, measure)


def _among(which: Callable[[Sample], "np.typing.NDArray[np.bool_]"]) -> Measure:
    return lambda sample: sample.mean_ms(sample.columns["e2e_ns"], which(sample).astype(np.int64))


def _mean_gap_ms(sample: Sample) -> float | None:
    return float(sample.columns["arrival_ns"][-1] / NS_PER_MS / len(sample))


def _mean_output(sample: Sample) -> float | None:
    return float(sample.columns["output_tokens"].mean())


@settling(_sharing_relaxation_ms)
def mean_field(facts: Facts) -> Iterator[Claim]:
    """TPOT of the unlimited batch."""
    facts.unlimited()
    facts.costs_only("job_ms", "prefill_ms_per_token", "decode_ms_per_batch", "decode_ms_per_request")
    facts.poisson()
    device, decodes = facts.scenario.device, facts.outputs.mean() - 1
    need(decodes > 0, "nobody decodes: there is no TPOT")
    each = float(device.decode_ms_per_request)
    load = facts.rate * (float(device.prefill_ms_per_token) * facts.prompts.mean() + each * decodes)
    facts.below_saturation(load)
    need(load <= MEAN_FIELD_LOAD, f"load {load:.4g}: above {MEAN_FIELD_LOAD}, the approximation is too coarse")
    fixed = float(device.job_ms + device.decode_ms_per_batch)
    measure = _unless_limited(facts, _tpot)
    yield Stationary(
        "mean field: mean TPOT",
        "ms",
        mean_field_tpot(fixed, each, load),
        measure,
        MEAN_FIELD_SLACK,
        rough=True,
        otherwise=LIMITED,
    )


def _tpot(sample: Sample) -> float | None:
    tpot = sample.columns["tpot_ns"]
    return sample.mean_ms(tpot, (tpot != NEVER).astype(np.int64))


def lone_requests(facts: Facts) -> Iterator[Claim]:
    """Whoever met nobody and was met by nobody: the closed form of a request alone."""
    facts.undisturbed()
    need(facts.axes.chunked_prefill or not facts.axes.long_prefill_tokens, "long_prefill_tokens cuts prompts")

    def compare(sample: Sample) -> Comparison | None:
        columns = sample.columns
        finished = (columns["status"] == Status.FINISHED) & (columns["samples"] == 1)
        there = columns["status"] != Status.REJECTED
        arrival, finish = columns["arrival_ns"][there], columns["finish_ns"][there]
        before = np.concatenate([[-1], np.maximum.accumulate(finish)[:-1]])
        after = np.concatenate([arrival[1:], [np.iinfo(np.int64).max]])
        lone = np.flatnonzero(there)[(arrival >= before) & (finish <= after) & finished[there]]
        if not len(lone):
            return None
        mine = {name: column[lone] for name, column in columns.items()}
        ttft = facts.alone.prefill_ns(mine["prompt_tokens"])
        stay = ttft + facts.alone.decode_ns(mine["prompt_tokens"], mine["output_tokens"])
        different = int(((mine["ttft_ns"] != ttft) | (mine["e2e_ns"] != stay)).sum())
        return Comparison(float(stay.mean() / NS_PER_MS), float(mine["e2e_ns"].mean() / NS_PER_MS), different)

    yield Path("lone requests: mean E2E", "ms", compare, "no request was alone")


def batch_at_once(facts: Facts) -> Iterator[Claim]:
    """Everybody comes at one instant, with outputs of one length."""
    facts.undisturbed()
    requests = facts.scenario.workload.requests
    if requests is None:
        raise DoesNotApply("the requests are not given one by one")
    need(len({request.arrival_ms for request in requests}) == 1, "not all arrive at one instant")
    need(len({request.output_tokens for request in requests}) == 1, "not all outputs have the same length")
    need(all(request.samples == 1 for request in requests), "some requests have samples")
    need(facts.kv is None, "a pool of blocks may keep requests out")
    axes = facts.axes
    limit = axes.max_running
    need(limit is None or limit >= len(requests), f"max_running = {limit}: not all run at once")
    mixed = axes.composition in BUDGETED
    tokens = sum(request.prompt_tokens for request in requests)
    if mixed:
        need(axes.batching == "continuous", "static batching of composition mixed")
        need(not axes.long_prefill_tokens, "long_prefill_tokens cuts prompts")
        budget = axes.token_budget
        need(budget is None or budget >= tokens, f"token_budget = {budget}: not all {tokens} prompt tokens in one job")
    else:
        need(axes.composition == "prefill-first", "composition alternate: decodes come between the prompts")
        need(axes.prefills_per_job == 1, f"prefills_per_job = {axes.prefills_per_job}, not 1")
        need(requests[0].output_tokens > 1, "one output token each: they end one after another")

    def compare(sample: Sample) -> Comparison | None:
        columns, output = sample.columns, int(sample.columns["output_tokens"][0])
        if not sample.all_finished:
            return None
        end = static_batch_ns(facts.scenario, columns["prompt_tokens"], output, in_one_job=mixed)
        return Comparison(
            end / NS_PER_MS, float(columns["e2e_ns"].mean() / NS_PER_MS), int((columns["e2e_ns"] != end).sum())
        )

    yield Path("a batch at once: E2E", "ms", compare, "some requests did not finish")


def response_time_law(facts: Facts) -> Iterator[Claim]:
    """R = N / X - Z on measured values: thinking as it was drawn, and what the end of the run cut off of it."""
    clients = facts.scenario.workload.clients
    if clients is None:
        raise DoesNotApply("no closed loop: requests do not wait for one another")
    facts.undisturbed()

    def compare(sample: Sample) -> Comparison | None:
        sending, columns = sample.result.record.workload.sending, sample.result.requests
        if sending is None or not sample.all_finished:
            return None
        finish, requests = columns["finish_ns"], len(columns["finish_ns"])
        users, end = min(clients.users, requests), int(finish.max())
        last = [int(finish[user :: clients.users].max()) for user in range(users)]
        thinking = int(sending.pause_ns.sum()) + sum(end - at for at in last)
        expected = users * end - thinking  # N T - n Z, which is n R
        response = int(columns["e2e_ns"].sum())
        scale = requests * NS_PER_MS
        return Comparison(expected / scale, response / scale, int(expected != response))

    yield Path("response-time law: mean response", "ms", compare, "some requests did not finish")


def least_work(facts: Facts) -> Iterator[Claim]:
    """No server is faster than the work that no batch makes less: the rate at which it would be saturated."""
    need(facts.kv is None or not facts.kv.prefix_cache, "the prefix cache saves work")
    device = facts.scenario.device
    costs = (device.prefill_ms_per_token, device.decode_ms_per_request, device.context_ms_per_token)
    need(any(costs), "only jobs cost anything: there is no rate that an unlimited batch can't serve")

    def compare(sample: Sample) -> Comparison | None:
        columns = sample.columns
        finished = columns["status"] == Status.FINISHED
        rows = sample.result.record.rows
        if not finished.any():
            return None
        prompt, output, samples = (
            columns[name][finished].tolist() for name in ("prompt_tokens", "output_tokens", "samples")
        )
        emitted = (columns["emitted_tokens"][finished] // columns["samples"][finished]).tolist()
        prefill, each, read = costs
        work = sum(
            (prefill * p + s * ((o - 1) * each + read * ((o - 1) * p + (o - 1) * o // 2)))
            for p, o, s in zip(prompt, emitted, samples, strict=True)
        )
        busy = Decimal(int((rows["end_ns"] - rows["start_ns"]).sum())) / NS_PER_MS
        rounding = Decimal(int(rows["jobs"].sum())) / 2 / NS_PER_MS
        count = len(output)
        return Comparison(float(1000 * count / work), float(1000 * count / busy), int(busy + rounding < work))

    yield Path("saturation: rate while busy (bound)", "/s", compare, bound=True)
