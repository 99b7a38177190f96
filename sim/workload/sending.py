"""Requests that are sent when others have ended, or whose clients leave: what is known before a run, and after it."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sim.clock import instant_ns
from sim.errors import ScenarioError
from sim.fields import MAX_TOKENS, TEXT_LENGTH
from sim.generated import MAX_REQUESTS
from sim.request import NEVER, Flags, Ints, Sending, Workload, default_id
from sim.show import show
from sim.tables import Workload as Asked
from sim.workload.streams import stream


def is_sent_by_clients(asked: Asked) -> bool:
    """Whether anything of when requests are sent, and how long somebody waits for them, is known only after the run."""
    return asked.clients is not None or asked.sessions is not None or asked.patience_ms is not None


def closed_loop(asked: Asked, lengths: tuple[Ints, Ints], seed: int) -> Workload:
    """The requests of ``clients``, with these tokens of prompt and output.

    The k-th of user u, both from 0, stands at place ``k * users + u``: so what a user asks for and how long it thinks
    before are the same whatever the server does. Each user begins with thinking, at time 0.
    """
    if asked.clients is None:
        raise TypeError("a workload without clients")
    count, users = len(lengths[0]), asked.clients.users
    place = np.arange(count, dtype=np.int64)
    pause_ns = asked.clients.think_ms.law.ns(count, stream(seed, "think"))
    workload = Workload.of(np.where(place < users, pause_ns, NEVER), *lengths)
    return replace(workload, sending=_sending(np.where(place < users, NEVER, place - users), pause_ns))


def sessions(asked: Asked, opened: tuple[Ints, Ints], lengths: tuple[Ints, Ints], seed: int) -> Workload:
    """The turns of ``sessions``, session after session: each begins with all of the turn before, its parent.

    ``opened``: when each session begins, and its number of turns. ``lengths``: of each turn, the tokens that are new in
    its prompt, and those of its output. ``ScenarioError``: they become too long.
    """
    if asked.sessions is None:
        raise TypeError("a workload without sessions")
    (opened_ns, turns), (new, output) = opened, lengths
    total = len(new)
    first = np.repeat(np.cumsum(turns) - turns, turns)
    place = np.arange(total, dtype=np.int64)
    opens = place == first
    behind = np.cumsum(new + output)
    before = behind - new - output
    prompt = before - before[first] + new
    if prompt.max() > MAX_TOKENS:
        raise ScenarioError(f"workload.sessions: a prompt of {prompt.max()} tokens; at most {MAX_TOKENS}")
    arrival_ns = np.full(total, NEVER, dtype=np.int64)
    arrival_ns[opens] = opened_ns
    pause_ns = np.where(opens, 0, asked.sessions.think_ms.law.ns(total, stream(seed, "think")))
    after = np.where(opens, NEVER, place - 1)
    return replace(
        Workload.of(arrival_ns, prompt, output),
        parent=after,
        parent_tokens=np.where(opens, 0, prompt - new),
        sending=_sending(after, pause_ns),
    )


def _sending(after: Ints, pause_ns: Ints) -> Sending:
    return Sending(after, pause_ns, np.full_like(after, NEVER), np.zeros_like(after))


def planned(base: Workload, asked: Asked, seed: int) -> Workload:
    """``base`` with what ``patience_ms`` and ``retry`` add: a row for each attempt that there may be.

    ``ScenarioError``: with all attempts there are too many.
    """
    if asked.patience_ms is None:
        return base
    none = np.full(len(base), NEVER, dtype=np.int64)
    sending = base.sending or _sending(none, np.zeros_like(none))
    patience_ns = asked.patience_ms.law.ns(len(base), stream(seed, "patience"))
    workload = replace(base, sending=replace(sending, patience_ns=patience_ns))
    if asked.retry is None:
        return workload
    backoffs_ns = np.array([instant_ns(ms) for ms in asked.retry.backoffs_ms()], dtype=np.int64)
    if len(base) * (len(backoffs_ns) + 1) > MAX_REQUESTS:
        most = MAX_REQUESTS // len(base) - 1
        raise ScenarioError(
            f"workload.retry.attempts = {len(backoffs_ns)}: too large for {len(base)} requests; at most {most}"
        )
    _check_names(workload.ids or (), len(backoffs_ns) + 1)
    return _with_attempts(workload, backoffs_ns)


def _check_names(ids: Sequence[str], attempts: int) -> None:
    """``ScenarioError``: an id that further attempts can't be named after, so that each is told from every other."""
    longest = TEXT_LENGTH - len(f"~{attempts}")
    for id_ in ids:
        _, tilde, number = id_.rpartition("~")
        if tilde and number.isdecimal():
            raise ScenarioError(f"workload.retry: id {show(id_)} ends like that of a second attempt; not with retry")
        if len(id_) > longest:
            raise ScenarioError(
                f"workload.retry: id {show(id_)} has {len(id_)} characters; at most {longest}, with ~{attempts} behind"
            )


def _with_attempts(workload: Workload, backoffs_ns: Ints) -> Workload:
    """Each request in as many rows as it may be sent: r000001, r000001~2, r000001~3; its tokens are the first one's."""
    each = len(backoffs_ns) + 1
    attempt = np.tile(np.arange(each, dtype=np.int64), len(workload))
    again = attempt > 0
    place = np.arange(len(attempt), dtype=np.int64)
    spread = _rows(workload, np.repeat(np.arange(len(workload)), each))
    sending, names = spread.sending, spread.ids or ()
    if sending is None:
        raise TypeError("a workload without patience")

    def row(of: Ints) -> Ints:
        return np.where(of == NEVER, NEVER, of * each)

    return replace(
        spread,
        ids=[f"{name}~{k + 1}" if k else name for name, k in zip(names, attempt.tolist(), strict=True)],
        arrival_ns=np.where(again, NEVER, spread.arrival_ns),
        parent=np.where(again, place - attempt, row(spread.parent)),
        parent_tokens=np.where(again, spread.prompt_tokens, spread.parent_tokens),
        sending=Sending(
            after=np.where(again, place - attempt, row(sending.after)),
            pause_ns=np.where(again, np.concatenate([[0], backoffs_ns])[attempt], sending.pause_ns),
            patience_ns=sending.patience_ns,
            attempt=attempt,
        ),
    )


def _rows(workload: Workload, rows: Ints) -> Workload:
    """These rows; what names rows in them still means those of ``workload``."""

    def texts(column: Sequence[str] | None) -> list[str] | None:
        return None if column is None else [column[row] for row in rows.tolist()]

    sending = workload.sending
    columns: dict[str, Any] = {name: column[rows] for name, column in workload.columns()}
    return replace(
        workload,
        **columns,
        ids=[workload.id(row) for row in rows.tolist()],
        tenants=texts(workload.tenants),
        prefix_groups=texts(workload.prefix_groups),
        sending=sending and Sending(**{name: column[rows] for name, column in sending.columns()}),
        pieces=workload.pieces and workload.pieces.take(rows),
    )


def kept(workload: Workload, rows: Ints) -> Workload:
    """These rows, ascending, and no others; each that another one names has to be among them."""
    found, new = _rows(workload, rows), new_rows(rows, len(workload))
    sending = found.sending and replace(found.sending, after=new[found.sending.after])
    ids = None if all(id_ == default_id(row) for row, id_ in enumerate(found.ids or ())) else found.ids
    return replace(found, parent=new[found.parent], sending=sending, ids=ids)


def without_attempts(shown: Workload, *, retried: bool) -> Workload:
    """Of a trace's requests as a run met them, those of the trace: sent once each, and given up by nobody.

    ``retried``: whether the scenario has them sent again; else an id like that of a second attempt is the trace's own.
    """
    first = [row for row in range(len(shown)) if not (retried and _is_attempt(shown, row))]
    base = kept(replace(shown, sending=None), np.array(first, dtype=np.int64))
    return replace(base, cancel_ns=np.full(len(first), NEVER, dtype=np.int64))


def _is_attempt(shown: Workload, row: int) -> bool:
    """Whether the request is the one of the row above, sent again."""
    name, _, number = shown.id(row).rpartition("~")
    if not (row and name and number.isascii() and number.isdecimal() and number[0] != "0"):
        return False
    before = int(number) - 1
    return before > 0 and shown.id(row - 1) == (name if before == 1 else f"{name}~{before}")


def new_rows(rows: Ints, of: int) -> Ints:
    """By each of ``of`` old rows its new one when only ``rows`` are kept; that of NEVER (from the end) is NEVER."""
    new = np.full(of + 1, NEVER, dtype=np.int64)
    new[rows] = np.arange(len(rows))
    return new


def rows_of(plan: Workload, ids: Collection[str]) -> Ints:
    """The rows of ``plan`` that a record with these ids holds: every request, and those attempts that it has."""
    if plan.sending is None or not plan.sending.attempt.any():
        return np.arange(len(plan), dtype=np.int64)
    known = frozenset(ids)
    attempts = plan.sending.attempt.tolist()
    rows = [row for row, id_ in enumerate(plan.ids or ()) if not attempts[row] or id_ in known]
    return np.array(rows, dtype=np.int64)


def met(plan: Workload, arrival_ns: Ints, first_token_ns: Ints, rejected: Flags, horizon_ns: int | None) -> Workload:
    """``plan`` as a run met it: sent at ``arrival_ns`` and given up when its clients' patience ended."""
    left_ns = leaving_ns(plan, arrival_ns, first_token_ns, rejected, horizon_ns)
    cancel_ns = np.where(left_ns == NEVER, plan.cancel_ns, left_ns)
    return replace(plan, arrival_ns=arrival_ns, cancel_ns=cancel_ns)


def leaving_ns(plan: Workload, arrival_ns: Ints, first_token_ns: Ints, rejected: Flags, horizon_ns: int | None) -> Ints:
    """When each client ran out of patience (NEVER: it did not): no token had come by then, that instant included.

    Who gives up for another reason by then (``cancel_ns``) does not leave for this one.
    """
    if plan.sending is None:
        return np.full(len(plan), NEVER, dtype=np.int64)
    patience_ns = plan.sending.patience_ns
    ns = arrival_ns + patience_ns
    waits = (arrival_ns != NEVER) & (patience_ns != NEVER) & ~rejected
    in_vain = (first_token_ns == NEVER) | (first_token_ns > ns)
    wants = (plan.cancel_ns == NEVER) | (ns < plan.cancel_ns)
    within = np.ones(len(plan), dtype=bool) if horizon_ns is None else ns <= horizon_ns
    return np.where(waits & in_vain & wants & within, ns, NEVER)
