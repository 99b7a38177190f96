"""Monitors are told what happens when it happens, in order; none of them is asked, none of them polls."""

import pytest
from tiny import Document, request, scenario

import sim
from sim.clock import NS_PER_MS
from sim.engine.monitor import Monitor
from sim.engine.plan import Job
from sim.record.monitors import Countdown, Progress
from sim.request import Request, RequestSpec, Status


class Diary(Monitor):
    """Writes down all that it is told: times in ms, and how many jobs had begun."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_arrival(self, request: Request, jobs_begun: int) -> None:
        self.lines.append(f"{request.id} arrives after {jobs_begun} jobs")

    def on_job(self, job: Job) -> None:
        span = f"{job.start_ns / NS_PER_MS}-{job.end_ns / NS_PER_MS}"
        self.lines.append(f"job {job.number} {span} {job.kind.name}, {job.waiting} wait, {job.running} run")

    def on_end(self, request: Request, status: Status, reason: str | None, now_ns: int, jobs_begun: int) -> None:
        why = "" if reason is None else f" ({reason})"
        self.lines.append(f"{request.id} {status.name}{why} at {now_ns / NS_PER_MS} after {jobs_begun} jobs")


def diary(requests: list[Document], policy: str = "fcfs", **settings: object) -> list[str]:
    watcher = Diary()
    sim.simulate(scenario(requests, policy, **settings), monitors=[watcher])  # type: ignore[arg-type]
    return watcher.lines


def test_a_run_from_beginning_to_end() -> None:
    assert diary([request("A", 0, 2, 2), request("B", 1, 1, 1)]) == [
        "A arrives after 0 jobs",
        "B arrives after 1 jobs",
        "job 0 0.0-2.25 PREFILL, 0 wait, 1 run",
        "job 1 2.25-3.5 PREFILL, 0 wait, 2 run",
        "B FINISHED at 3.5 after 2 jobs",
        "job 2 3.5-4.75 DECODE, 0 wait, 1 run",
        "A FINISHED at 4.75 after 3 jobs",
    ]


def test_a_job_is_told_before_the_ends_that_it_brings_and_a_tie_after_it() -> None:
    lines = diary([request("A", 0, 2, 1), request("B", 2.25, 2, 1)])
    assert sorted(lines[1:4]) == [
        "A FINISHED at 2.25 after 1 jobs",
        "B arrives after 1 jobs",
        "job 0 0.0-2.25 PREFILL, 0 wait, 1 run",
    ]
    assert lines.index("job 0 0.0-2.25 PREFILL, 0 wait, 1 run") < lines.index("A FINISHED at 2.25 after 1 jobs")


def test_cancellations_are_told_by_the_decision_that_makes_them() -> None:
    assert diary([request("A", 0, 2, 2, cancel_ms=1), request("B", 9, 1, 1, cancel_ms=1)]) == [
        "A arrives after 0 jobs",
        "job 0 0.0-2.25 PREFILL, 0 wait, 1 run",
        "A CANCELLED (running) at 2.25 after 1 jobs",
        "B CANCELLED (not arrived) at 2.25 after 1 jobs",
    ]


def test_a_job_that_the_horizon_cuts_off_is_not_told() -> None:
    assert diary([request("A", 0, 2, 2)], run={"horizon_ms": 3}) == [
        "A arrives after 0 jobs",
        "job 0 0.0-2.25 PREFILL, 0 wait, 1 run",
    ]


def test_what_a_monitor_raises_ends_the_run() -> None:
    class Strict(Monitor):
        def on_job(self, job: Job) -> None:
            raise ArithmeticError("no")

    with pytest.raises(ArithmeticError, match=r"^no$"):
        sim.simulate(scenario([request("A", 0, 2, 2)]), monitors=[Strict()])


def test_monitors_change_nothing() -> None:
    alone = sim.simulate(scenario([request("A", 0, 2, 2)])).to_dict()
    watched = sim.simulate(scenario([request("A", 0, 2, 2)]), monitors=[Diary(), Monitor()]).to_dict()
    assert watched == alone


def ended(index: int) -> Request:
    return Request(RequestSpec(index, f"r{index}", 0, 1, 1, 1))


def test_a_countdown_calls_once_at_the_end() -> None:
    called: list[str] = []
    countdown = Countdown(3, lambda: called.append("done"))
    for index in range(3):
        assert called == []
        countdown.on_end(ended(index), Status.FINISHED, None, 0, 0)
    assert called == ["done"]


def test_progress_is_shown_now_and_then_and_counts_who_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock finds a second gone: each look, every 256 jobs, shows."""
    seconds = iter(range(100))
    monkeypatch.setattr("sim.record.monitors.monotonic", lambda: float(next(seconds)))
    shown: list[tuple[int, int]] = []
    progress = Progress(lambda ended_, now_ns: shown.append((ended_, now_ns)))
    requests = [request("A", 0, 1, 1), request("B", 0, 1, 600)]
    sim.simulate(scenario(requests, device={"job_ms": 1}), monitors=[progress], spans=False)
    assert shown == [(0, 1 * NS_PER_MS), (1, 257 * NS_PER_MS), (1, 513 * NS_PER_MS)]


def test_progress_is_not_shown_before_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.record.monitors.monotonic", lambda: 0.0)
    shown: list[tuple[int, int]] = []
    progress = Progress(lambda ended_, now_ns: shown.append((ended_, now_ns)))
    sim.simulate(scenario([request("A", 0, 1, 600)]), monitors=[progress])
    assert shown == []
