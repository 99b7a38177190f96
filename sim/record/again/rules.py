"""What each composition decides, and whom each victim rule picks: the design's sentences, for a second time."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from sim.engine.plan import Kind
from sim.policies.presets import Axes, KvAxes
from sim.record.again.server import NO_BOUND, OffTheRecordError, Req, urgency
from sim.record.again.turn import Turn


def decide(turn: Turn) -> None:
    """One decision. Static batching: a batch joins when nobody runs, whole; nobody else until all of it has ended."""
    axes = turn.server.axes
    if axes.batching == "static":
        if not turn.server.running:
            turn.bring_back()
            while (head := turn.head()) is not None and turn.admit(head, turn.rest(head)):
                pass
        turn.closed = True
    if axes.composition not in RULES:
        raise OffTheRecordError(f"nobody here knows the rule of composition {axes.composition}")
    RULES[axes.composition](turn)


def _mixed(turn: Turn) -> None:
    """All who run under one budget, then those who come back, then those who wait; nobody joins after a preemption."""
    server, axes = turn.server, turn.server.axes
    lone = len(server.running) + len(server.waiting) <= 1
    rests = [turn.rest(req) for req in (*server.running.values(), *server.waiting)] if lone else []
    stuck = not axes.chunked_prefill and any(rest > turn.left for rest in rests)  # alone, whole, and too long for a job
    most = axes.long_prefill_tokens if axes.long_prefill_tokens and (stuck or not lone) else NO_BOUND
    order = list(server.running.values())
    if axes.composition == "mixed-decode-first":
        order = [req for req in order if not req.prefills] + [req for req in order if req.prefills]
    turn.extend(order, most, cut=axes.chunked_prefill)
    if turn.short:
        return
    turn.extend(turn.bring_back(), most, cut=axes.chunked_prefill)
    while turn.left > 0 and (head := turn.head()) is not None:
        tokens = min(turn.rest(head), most)
        if axes.chunked_prefill:
            tokens = min(tokens, turn.left)
        if not turn.prefill(head, tokens):
            break


def _prefill_first(turn: Turn) -> None:
    """Whole prompts, as many as go into a job; without any, decodes."""
    most = turn.server.axes.prefills_per_job or NO_BOUND
    while len(turn.taken) < most:
        req = turn.next_prompt()
        if req is None or not turn.prefill(req, turn.rest(req)):
            break
    if not turn.taken and not turn.decode():
        _make_room(turn)


def _alternate(turn: Turn) -> None:
    """After decodes a chunk, if there is one to be had; else decodes; else a chunk."""
    if turn.server.last_kind is Kind.DECODE and _chunk(turn):
        return
    if not turn.decode() and not _chunk(turn):
        _make_room(turn)


def _chunk(turn: Turn) -> bool:
    req = turn.next_prompt()
    return req is not None and turn.prefill(req, min(turn.rest(req), turn.server.axes.chunk_tokens))


def _make_room(turn: Turn) -> None:
    """Nothing can be done, for somebody who has half of a prompt has no blocks for the next chunk: somebody goes."""
    if not turn.taken and turn.lacks_blocks and any(req.prefills for req in turn.server.running.values()):
        turn.preempt()


RULES: Mapping[str, Callable[[Turn], None]] = MappingProxyType(
    {
        "mixed": _mixed,
        "mixed-decode-first": _mixed,
        "prefill-first": _prefill_first,
        "alternate": _alternate,
    }
)

VICTIMS: Mapping[str, Callable[[Sequence[Req]], Req]] = MappingProxyType(
    {
        "last": lambda running: running[-1],
        "lowest-priority": lambda running: max(running, key=urgency),
        "fewest-tokens": lambda running: min(reversed(running), key=lambda req: req.computed),
        "most-blocks": lambda running: max(reversed(running), key=lambda req: req.held),
        "longest-remaining": lambda running: max(reversed(running), key=lambda req: req.declared - req.emitted),
    }
)
"""From those who run, in order of admission. Where several are equal, the last admitted."""


def victim_rule(axes: Axes, kv: KvAxes | None) -> str:
    """The name of the rule that ``auto`` stands for, or of the one that was asked for."""
    name = "auto" if kv is None else kv.victim
    if name != "auto":
        return name
    return "lowest-priority" if axes.order == "priority" else "last"
