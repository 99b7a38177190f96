"""The tie rule, in one place: at one instant, completions and arrivals come first, then the scheduler decides.

SimPy orders events of one instant by priority and then by when they were put on the heap. Whatever happens is NORMAL
(1) or URGENT (0); decisions are LATE (2), so they see all of the instant, also what zero-delay events still bring
about; the horizon is LAST (3). Nothing else in Headway depends on the order of the heap.
"""

from simpy import Environment, Event

LATE = 2
LAST = 3


def late(env: Environment, priority: int = LATE) -> Event:
    """An event of this instant, after everything else that happens in it."""
    event = Event(env)
    event._ok = True
    event._value = None
    env.schedule(event, priority)  # type: ignore[arg-type]  # its two names are no bound: any int orders
    return event


def schedule_late(event: Event, priority: int = LATE) -> None:
    """Trigger ``event``, which somebody already waits for, after everything else of this instant."""
    event._ok = True
    event._value = None
    event.env.schedule(event, priority)  # type: ignore[arg-type]  # as above


def events_scheduled(env: Environment) -> int:
    """How many events were ever put on the heap: a count of work. Ask once, at the end (asking counts as one)."""
    return next(env._eid)
