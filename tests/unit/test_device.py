"""The device runs one job at a time, for whoever holds it, and notes when each began and ended."""

from collections.abc import Generator
from decimal import Decimal
from typing import Any

import pytest
from simpy import Environment, Event

from sim.clock import MAX_NS
from sim.costs.base import CostModel, Work
from sim.costs.linear import LinearCost
from sim.engine.device import Device
from sim.engine.plan import Job
from sim.errors import InvariantError, LimitError
from sim.scenario import Device as DeviceTable

Log = list[tuple[str, float]]


class PerToken:
    """So many ns for each prompt token."""

    reads_context = False

    def __init__(self, ns: int) -> None:
        self.ns = ns

    def job_ns(self, work: Work) -> int:
        return self.ns * work.prefill_tokens


def job(tokens: int, number: int = 0) -> Job:
    return Job(number, Work(tokens, 0, 0))


@pytest.fixture
def env() -> Environment:
    return Environment()


def use(env: Environment, device: Device, *jobs: Job) -> Generator[Event, Any, None]:
    yield from device.hold()
    for each in jobs:
        yield device.submit(each)


def test_jobs_run_one_after_another(env: Environment) -> None:
    jobs = [job(3), job(5, 1), job(0, 2)]
    env.process(use(env, Device(env, PerToken(10)), *jobs))
    env.run()
    assert [(j.start_ns, j.end_ns) for j in jobs] == [(0, 30), (30, 80), (80, 80)]
    assert env.now == 80


def test_it_belongs_to_one_scheduler_at_a_time(env: Environment) -> None:
    device, log = Device(env, PerToken(10)), Log()

    def owner(name: str) -> Generator[Event, Any, None]:
        slot = yield from device.hold()
        log.append((f"{name} holds", env.now))
        yield device.submit(job(4))
        device.release(slot)

    env.process(owner("first"))
    env.process(owner("second"))
    env.run()
    assert log == [("first holds", 0), ("second holds", 40)]


def test_who_does_not_hold_it_can_not_use_it(env: Environment) -> None:
    with pytest.raises(InvariantError, match=r"^job 7 submitted at 0 ns to a device that its submitter can't use$"):
        Device(env, PerToken(10)).submit(job(1, 7))


def test_a_busy_device_takes_no_second_job(env: Environment) -> None:
    device = Device(env, PerToken(10))

    def hasty() -> Generator[Event, Any, None]:
        yield from device.hold()
        device.submit(job(4))
        yield env.timeout(39)
        device.submit(job(4, 1))

    env.process(hasty())
    with pytest.raises(InvariantError, match=r"^job 1 submitted at 39 ns to a device"):
        env.run()


def test_at_the_very_end_of_a_job_the_next_may_start(env: Environment) -> None:
    device, second = Device(env, PerToken(10)), job(4, 1)

    def punctual() -> Generator[Event, Any, None]:
        yield from device.hold()
        device.submit(job(4))
        yield env.timeout(40)
        yield device.submit(second)

    env.process(punctual())
    env.run()
    assert (second.start_ns, second.end_ns) == (40, 80)


@pytest.mark.parametrize(
    ("cost", "error", "said"),
    [
        (PerToken(-1), InvariantError, "job 0 would end before it starts; a cost model answers 0 ns or more"),
        (PerToken(MAX_NS), LimitError, f"job 0 would end at {2 * MAX_NS} ns, beyond the range of the clock ({MAX_NS})"),
    ],
)
def test_durations_that_can_not_be(env: Environment, cost: CostModel, error: type[Exception], said: str) -> None:
    env.process(use(env, Device(env, cost), job(2)))
    with pytest.raises(error) as refused:
        env.run()
    assert str(refused.value) == said


def test_the_last_instant_of_the_clock_can_be_reached(env: Environment) -> None:
    env.process(use(env, Device(env, PerToken(1)), job(MAX_NS - 1)))
    env.run()
    assert env.now == MAX_NS - 1


# --- what a job costs ------------------------------------------------------------------------------------------------

MS = 1_000_000

COSTS = [
    # the device, (prefill tokens, decoding requests, their context), ns
    ({"job_ms": 0.25}, (0, 1, 9), MS // 4),
    ({"prefill_ms_per_token": 0.5}, (3, 0, 0), 3 * MS // 2),
    ({"decode_ms_per_batch": 2}, (0, 5, 50), 2 * MS),  # once, however many
    ({"decode_ms_per_batch": 2}, (5, 0, 0), 0),  # not when nothing decodes
    ({"decode_ms_per_request": 2}, (0, 5, 50), 10 * MS),
    ({"context_ms_per_token": 0.001}, (0, 5, 50), 50_000),
    ({"job_ms": 1, "prefill_ms_per_token": 1, "decode_ms_per_batch": 1, "decode_ms_per_request": 1,
      "context_ms_per_token": 1}, (2, 3, 40), (1 + 2 + 1 + 3 + 40) * MS),  # a mixed job pays for all it does
    ({"prefill_ms_per_token": "0.0000005"}, (1, 0, 0), 1),  # half a ns is rounded up
    ({"prefill_ms_per_token": "0.000000499999"}, (1, 0, 0), 0),
    ({"prefill_ms_per_token": "0.0000005"}, (3, 0, 0), 2),  # the sum is rounded, once: 1.5 ns, not three times 1
    ({"job_ms": "0.0000002", "prefill_ms_per_token": "0.0000003"}, (1, 0, 0), 1),  # 0.2 + 0.3 ns
    ({"prefill_ms_per_token": "0.000000000001"}, (2**31 - 1, 0, 0), 2147),  # a femtosecond a token
]  # fmt: skip


@pytest.mark.parametrize(("table", "work", "ns"), COSTS)
def test_what_a_job_costs(table: dict[str, Any], work: tuple[int, int, int], ns: int) -> None:
    device = DeviceTable.model_validate({key: Decimal(str(value)) for key, value in table.items()})
    assert LinearCost.of(device).job_ns(Work(*work)) == ns


def test_what_copying_costs() -> None:
    """Per block, either way, beside the job itself: 0.25 + 3 * 0.5 ms."""
    cost = LinearCost.of(DeviceTable(job_ms=Decimal("0.25")), swap_ms_per_block=Decimal("0.5"))
    assert cost.job_ns(Work(0, 0, 0, blocks=3)) == 1_750_000


@pytest.mark.parametrize(("context_ms_per_token", "reads"), [("0", False), ("0.000000000001", True)])
def test_context_is_read_when_it_costs_something(context_ms_per_token: str, reads: bool) -> None:
    device = DeviceTable(job_ms=Decimal(1), context_ms_per_token=Decimal(context_ms_per_token))
    assert LinearCost.of(device).reads_context is reads
