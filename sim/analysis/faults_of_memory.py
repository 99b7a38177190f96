"""Faults of the block pool: who gets blocks, who loses them, and who counts them. What is near agrees with them."""

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from itertools import pairwise

from sim.analysis.damage import Damaged, Json, NothingToDamageError, duration, number, pick, shift


def leaked_block(d: Damaged) -> None:
    """A block that is not given back when its request ends: the pool has one less from then on."""
    event = pick(event for event in _after_an_end(d) if all(later["freeBlocks"] for later in _from(d, event)))
    for later in _from(d, event):
        later["freeBlocks"] -= 1
    d.rebuild()


def double_freed_block(d: Damaged) -> None:
    """A block that is given back twice: the pool has one more from then on."""
    blocks = _pool(d)
    event = pick(e for e in _after_an_end(d) if all(later["freeBlocks"] < blocks for later in _from(d, e)))
    for later in _from(d, event):
        later["freeBlocks"] += 1
    d.rebuild()


def lost_reference(d: Damaged) -> None:
    """A shared block that is free as soon as one of its holders has ended, while another still holds it."""
    cached = [row["id"] for row in d.requests if row["cachedTokens"]]
    blocks = _pool(d)
    event = pick(event for event in _after_an_end(d) if set(cached) & set(event["running"])
                 and event["freeBlocks"] + 1 < blocks)  # fmt: skip
    event["freeBlocks"] += 1
    d.rebuild()


def over_hit(d: Damaged) -> None:
    """A hit on a block that nobody has computed: of a prompt one block more is taken for cached."""
    size = d.run["settings"]["kv.block_tokens"]
    cost = d.cost_ms("prefill_ms_per_token")
    if not d.run["settings"]["kv.prefix_cache"]:
        raise NothingToDamageError
    event, item = pick((event, item) for event, item, joins in _first_chunks(d) if joins and item["tokens"] > size)
    item["tokens"] -= size
    _row(d, item["id"])["cachedTokens"] += size
    later = d.events[event["job"] + 1 :]
    event["endMs"] = number(event["endMs"]) - cost * size
    shift(later, -cost * size)
    d.rebuild()


def victim_out_of_order(d: Damaged) -> None:
    """The first of those who run is preempted, whatever the rule says."""
    before, event = pick((a, b) for a, b in pairwise(d.events) if b["preempted"] and "swapped" not in b
                         and len(a["running"]) > 1 and a["running"][0] not in b["preempted"])  # fmt: skip
    event["preempted"][0] = before["running"][0]
    d.rebuild()


def admitted_over_the_gate(d: Damaged) -> None:
    """The head of the queue joins although the blocks that it must find free are not there."""
    _pool(d)
    event = pick(event for event in d.events if event["waiting"] and not event["preempted"]
                 and d.events[-1] is not event and event["scheduled"])  # fmt: skip
    event["running"].append(event["waiting"].pop(0))
    d.rebuild()


def kept_out(d: Damaged) -> None:
    """Somebody who has room waits for one job more: a wake-up that was lost."""
    _pool(d)
    event, item, _ = pick((event, item, joins) for event, item, joins in _first_chunks(d)
                          if joins and len(event["scheduled"]) > 1 and event["running"][-1] == item["id"])  # fmt: skip
    event["scheduled"].remove(item)
    event["running"].remove(item["id"])
    event["waiting"].insert(0, item["id"])
    d.rebuild()


def forgotten_preemption(d: Damaged) -> None:
    """A preemption that nobody counts: the request is back in the queue, and was never preempted."""
    event = pick(event for event in d.events if event["preempted"])
    _row(d, event["preempted"].pop())["preemptions"] -= 1
    d.rebuild()


def resume_forgets_output(d: Damaged) -> None:
    """A preempted request that prefills its prompt again and not what it had emitted."""
    row = pick(row for row in d.finished() if row["preemptions"] and _resumes(d, row))
    event, item = _resumes(d, row)[0]
    item["tokens"] -= 1
    cost = d.cost_ms("prefill_ms_per_token")
    event["endMs"] = number(event["endMs"]) - cost
    shift(d.events[event["job"] + 1 :], -cost)
    d.rebuild()


def swap_not_charged(d: Damaged) -> None:
    """Copies that take no time: a swap job costs no more than any other."""
    per_block = number(d.run["settings"]["kv.swap_ms_per_block"] or 0)
    event = pick(event for event in d.events if event["kind"] == "swap" and per_block)
    saved = duration(event) - d.cost_ms("job_ms")
    event["endMs"] = number(event["endMs"]) - saved
    shift(d.events[event["job"] + 1 :], -saved)
    d.rebuild()


def lost_copy(d: Damaged) -> None:
    """One block fewer comes back from the host than went there."""
    copy = pick(copy for event in d.events for copy in event.get("swapped", ())
                if copy["direction"] == "in" and copy["blocks"] > 1)  # fmt: skip
    copy["blocks"] -= 1
    d.rebuild()


def watermark_off_by_one(d: Damaged) -> None:
    """``>`` for ``>=``: somebody is admitted into the last block above the watermark."""
    mark = d.run["settings"]["kv.watermark_blocks"]
    _pool(d)
    pick(b for a, b in pairwise(d.events) if b["freeBlocks"] == mark and set(a["running"]) & set(b["running"])
         and set(b["running"]) - set(a["running"]) and "swapped" not in b)  # fmt: skip
    d.document["scenario"]["kv"]["watermark_blocks"] = mark + 1
    for run in d.document["runs"]:
        run["settings"]["kv.watermark_blocks"] = mark + 1


def rejected_though_it_fits(d: Damaged) -> None:
    """A request that could have been served is turned away, with an arithmetic that is wrong."""
    blocks = _pool(d)
    row = pick(row for row in d.finished())
    for event in d.events:
        event["scheduled"] = [item for item in event["scheduled"] if item["id"] != row["id"]]
        for key in ("waiting", "running", "preempted"):
            event[key] = [id_ for id_ in event[key] if id_ != row["id"]]
    row |= {"status": "rejected", "reason": f"needs {blocks + 1} of {blocks} blocks", "finishReason": None,
            "endedMs": None, "tokenTimesMs": []}  # fmt: skip
    d.rebuild()


def withheld_in_use(d: Damaged) -> None:
    """A pool fault that does not reach the pool: what is withheld counts as free."""
    faults = [fault for fault in d.document["scenario"].get("faults", ()) if fault["kind"] == "pool"]
    event, fault = pick((event, fault) for fault in faults for event in d.events
                        if number(fault["at_ms"]) <= number(event["startMs"]) < number(fault["until_ms"])
                        and event["freeBlocks"] + fault["blocks"] <= _pool(d))  # fmt: skip
    event["freeBlocks"] += fault["blocks"]
    d.rebuild()


def lost_sample(d: Damaged) -> None:
    """One of several sequences over one prompt is left out of a decode."""
    _, item = pick((event, item) for event, item in d.items("decode") if item["tokens"] > 1)
    item["tokens"] -= 1


MEMORY: Mapping[str, Callable[[Damaged], None]] = {
    "leaked-block": leaked_block,
    "double-freed-block": double_freed_block,
    "lost-reference": lost_reference,
    "over-hit": over_hit,
    "victim-out-of-order": victim_out_of_order,
    "admitted-over-the-gate": admitted_over_the_gate,
    "kept-out": kept_out,
    "forgotten-preemption": forgotten_preemption,
    "resume-forgets-output": resume_forgets_output,
    "swap-not-charged": swap_not_charged,
    "lost-copy": lost_copy,
    "watermark-off-by-one": watermark_off_by_one,
    "rejected-though-it-fits": rejected_though_it_fits,
    "withheld-in-use": withheld_in_use,
    "lost-sample": lost_sample,
}


def _pool(d: Damaged) -> int:
    """The blocks of the pool, if there is one."""
    blocks: int | None = d.run["settings"]["kv.blocks"]
    if blocks is None:
        raise NothingToDamageError
    return blocks


def _row(d: Damaged, id_: str) -> Json:
    return next(row for row in d.requests if row["id"] == id_)


def _from(d: Damaged, event: Json) -> list[Json]:
    return d.events[event["job"] :]


def _after_an_end(d: Damaged) -> Iterator[Json]:
    """The jobs before which somebody has ended, and those who run hold blocks."""
    _pool(d)
    for before, event in pairwise(d.events):
        gone = set(before["running"]) - set(event["running"]) - set(event["waiting"])
        if gone and not event["preempted"]:
            yield event


def _first_chunks(d: Damaged) -> Iterator[tuple[Json, Json, bool]]:
    """Chunks, and whether their request joins with them for the first time."""
    seen: set[str] = set()
    for event, item in d.items("prefill"):
        yield event, item, item["id"] not in seen
        seen.add(item["id"])


def _resumes(d: Damaged, row: Json) -> list[tuple[Json, Json]]:
    """The chunks of a request after its first token, if they are not of one token."""
    first = Decimal(0) if row["firstTokenMs"] is None else number(row["firstTokenMs"])
    return [(event, item) for event, item in d.items("prefill")
            if item["id"] == row["id"] and item["tokens"] > 1 and number(event["startMs"]) >= first]  # fmt: skip
