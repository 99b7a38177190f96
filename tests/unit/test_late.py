"""The tie rule: a late event comes after everything else of its instant, also what zero-delay events bring about."""

from collections.abc import Generator
from typing import Any

import pytest
from simpy import Environment, Event

from sim.engine.late import LAST, events_scheduled, late, schedule_late

Log = list[tuple[str, float]]
Waits = Generator[Event, Any, None]


@pytest.fixture
def env() -> Environment:
    return Environment()


@pytest.fixture
def log() -> Log:
    return []


def note(env: Environment, log: Log, name: str, event: Event) -> Waits:
    yield event
    log.append((name, env.now))


def test_it_comes_after_what_was_scheduled_behind_it(env: Environment, log: Log) -> None:
    env.process(note(env, log, "late", late(env)))
    env.process(note(env, log, "zero delay", env.timeout(0)))
    env.run()
    assert log == [("zero delay", 0), ("late", 0)]


def test_it_comes_after_a_whole_chain_of_zero_delays(env: Environment, log: Log) -> None:
    def chain() -> Waits:
        for link in ("one", "two", "three"):
            yield env.timeout(0)
            log.append((link, env.now))
        yield env.process(note(env, log, "a process", env.timeout(0)))

    env.process(note(env, log, "late", late(env)))
    env.process(chain())
    env.run()
    assert log == [("one", 0), ("two", 0), ("three", 0), ("a process", 0), ("late", 0)]


def test_it_comes_before_the_next_instant(env: Environment, log: Log) -> None:
    env.process(note(env, log, "a nanosecond on", env.timeout(1)))
    env.process(note(env, log, "late", late(env)))
    env.run()
    assert log == [("late", 0), ("a nanosecond on", 1)]


def test_what_a_late_event_brings_about_comes_before_the_next_late_one(env: Environment, log: Log) -> None:
    def decide(turn: Event) -> Waits:
        yield turn
        log.append(("decided", env.now))
        env.process(note(env, log, "what came of it", env.timeout(0)))

    env.process(decide(late(env)))
    env.process(note(env, log, "another late", late(env)))
    env.run()
    assert log == [("decided", 0), ("what came of it", 0), ("another late", 0)]


def test_late_events_come_in_their_own_order(env: Environment, log: Log) -> None:
    for name in ("first", "second"):
        env.process(note(env, log, name, late(env)))
    env.run()
    assert log == [("first", 0), ("second", 0)]


def test_the_last_comes_after_the_late(env: Environment, log: Log) -> None:
    env.process(note(env, log, "last", late(env, LAST)))
    env.process(note(env, log, "late", late(env)))
    env.process(note(env, log, "now", env.timeout(0)))
    env.run()
    assert log == [("now", 0), ("late", 0), ("last", 0)]


def test_an_event_that_somebody_waits_for_already_can_be_made_late(env: Environment, log: Log) -> None:
    bell = Event(env)

    def ring() -> Waits:
        yield env.timeout(7)
        schedule_late(bell)
        yield env.timeout(0)
        log.append(("rung", env.now))

    env.process(note(env, log, "woken", bell))
    env.process(ring())
    env.run()
    assert log == [("rung", 7), ("woken", 7)]


def test_work_is_counted_in_events(env: Environment) -> None:
    for _ in range(5):
        env.timeout(1)
    assert events_scheduled(env) == 5
