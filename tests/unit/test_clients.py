"""Each request is sent when it is due, and given up when its time comes; here to a server that only logs."""

from decimal import Decimal
from typing import Any

import pytest
from simpy import Environment, Event

from sim.clock import NS_PER_MS
from sim.request import Request, Workload
from sim.tables import Request as Row
from sim.workload.build import of_requests
from sim.workload.clients import open_loop


class Server:
    """Writes down (what, who, when in ms) and ends each request after ``serves_ms``."""

    def __init__(self, env: Environment, serves_ms: int | None) -> None:
        self.log: list[tuple[str, str, float]] = []
        self._env = env
        self._serves_ms = serves_ms

    def submit(self, request: Request) -> Event:
        self._note("submit", request)
        if self._serves_ms is None:
            return Event(self._env)
        return self._env.timeout(self._serves_ms * NS_PER_MS)

    def cancel(self, request: Request) -> None:
        self._note("cancel", request)

    def _note(self, what: str, request: Request) -> None:
        self.log.append((what, request.id, self._env.now / NS_PER_MS))


def workload(*rows: tuple[str, float, float | None]) -> Workload:
    """(id, arrival_ms, cancel_ms)."""

    def row(id_: str, arrival_ms: float, cancel_ms: float | None) -> Row:
        cancel: dict[str, Any] = {} if cancel_ms is None else {"cancel_ms": Decimal(str(cancel_ms))}
        return Row.model_validate(
            {"id": id_, "arrival_ms": Decimal(str(arrival_ms)), "prompt_tokens": 1, "output_tokens": 1, **cancel}
        )

    return of_requests([row(*each) for each in rows])


def sent(*rows: tuple[str, float, float | None], serves_ms: int | None = 1) -> list[tuple[str, str, float]]:
    env = Environment()
    server = Server(env, serves_ms)
    env.process(open_loop(env, server, workload(*rows)))
    env.run()
    return server.log


def test_each_is_sent_when_it_is_due() -> None:
    assert sent(("A", 0, None), ("B", 2.5, None), ("C", 7, None)) == [
        ("submit", "A", 0.0),
        ("submit", "B", 2.5),
        ("submit", "C", 7.0),
    ]


def test_however_long_the_server_takes() -> None:
    assert sent(("A", 0, None), ("B", 1, None), serves_ms=None) == [("submit", "A", 0.0), ("submit", "B", 1.0)]


def test_the_file_need_not_be_in_order() -> None:
    assert sent(("C", 7, None), ("A", 0, None), ("B", 2.5, None)) == [
        ("submit", "A", 0.0),
        ("submit", "B", 2.5),
        ("submit", "C", 7.0),
    ]


def test_at_one_instant_the_order_is_that_of_the_file() -> None:
    assert sent(("Z", 3, None), ("A", 3, None), ("M", 3, None)) == [
        ("submit", "Z", 3.0),
        ("submit", "A", 3.0),
        ("submit", "M", 3.0),
    ]


def test_a_client_gives_up_when_its_time_comes() -> None:
    assert sent(("A", 1, 4), serves_ms=None) == [("submit", "A", 1.0), ("cancel", "A", 4.0)]


def test_at_its_very_arrival_too() -> None:
    assert sent(("A", 1, 1), serves_ms=None) == [("submit", "A", 1.0), ("cancel", "A", 1.0)]


def test_one_that_gives_up_before_it_would_arrive_is_never_sent() -> None:
    assert sent(("A", 9, 4), ("B", 5, None)) == [("cancel", "A", 4.0), ("submit", "B", 5.0)]


def test_an_empty_workload_sends_nothing() -> None:
    env = Environment()
    server = Server(env, 1)
    env.process(open_loop(env, server, Workload.empty()))
    env.run()
    assert server.log == []


@pytest.mark.parametrize("count", [10, 1000])
def test_only_those_who_are_due_have_a_process(count: int) -> None:
    """While the first is served the heap holds the next arrival (and the test's own end), not all that are to come."""
    env = Environment()
    server = Server(env, None)
    env.process(open_loop(env, server, workload(*((f"r{n}", float(n), None) for n in range(count)))))
    env.run(until=NS_PER_MS // 2)
    assert len(env._queue) == 2
