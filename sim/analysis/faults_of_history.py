"""Faults of the engine: what happened is not what should have. All that follows from the jobs agrees with them."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from itertools import pairwise

from sim.analysis.damage import NS, Damaged, Json, NothingToDamageError, duration, number, pick, shift


def lost_token(d: Damaged) -> None:
    """A completion that was dropped: one request of a decode batch gets no token, and nobody makes up for it."""
    event = pick(event for event in d.events if len(event["scheduled"]) > 1 and event["kind"] == "decode")
    event["scheduled"].pop()
    d.rebuild()


def phantom_decode(d: Damaged) -> None:
    """A stale list of who runs: a request that has finished is decoded once more."""
    last = {item["id"]: event["job"] for event in d.events for item in event["scheduled"]}
    event, id_ = pick((event, row["id"]) for row in d.finished() for event in d.events
                      if event["kind"] == "decode" and event["job"] > last[row["id"]])  # fmt: skip
    event["scheduled"].append({"id": id_, "tokens": 1, "phase": "decode"})
    event["running"].append(id_)
    d.rebuild()


def decode_too_early(d: Damaged) -> None:
    """A prefill taken for complete one job early: its last chunk is decoded instead."""
    event, item = pick((event, item) for event, item in d.items("prefill")
                       if item["tokens"] == 1 and event["kind"] == "prefill")  # fmt: skip
    item["phase"], event["kind"] = "decode", "decode"
    d.rebuild()


def job_without_work(d: Damaged) -> None:
    """A scheduler that submits an empty batch: the device works on nothing."""
    last = pick(reversed(d.events))
    start = number(last["endMs"])
    empty: Json = {"scheduled": [], "preempted": [], "waiting": [], "running": []}
    d.events.append({**last, **empty, "kind": "decode", "startMs": start, "endMs": start + duration(last)})
    d.rebuild()


def lost_job(d: Damaged) -> None:
    """A log that loses a job in which somebody decoded."""
    event = pick(event for event in d.events if event["kind"] == "decode" and event is not d.events[-1])
    d.events.remove(event)
    d.rebuild()


def overlapping_jobs(d: Damaged) -> None:
    """A device that takes a job before it is done with the one before."""
    before = pick(event for event in d.events[:-1] if duration(event) > NS)
    event = d.events[d.events.index(before) + 1]
    event["startMs"] = number(before["endMs"]) - NS
    d.rebuild()


def idle_gap(d: Damaged) -> None:
    """A wake-up that comes late: the device idles although somebody waits or runs."""
    later = pick(d.events[i:] for i in range(1, len(d.events)) if _follows_at_once(d.events, i))
    shift(later, Decimal(1))
    d.rebuild()


def wrong_duration(d: Damaged) -> None:
    """A cost that is rounded once too often: one job takes a nanosecond more."""
    event = pick(iter(d.events))
    later = d.events[1:]
    event["endMs"] = number(event["endMs"]) + NS
    shift(later, NS)
    d.rebuild()


def chunk_over_limit(d: Damaged) -> None:
    """A limit forgotten in one place: a chunk takes one token more than it may, the next one token less."""
    if d.run["settings"]["scheduler.composition"] != "alternate":
        raise NothingToDamageError
    cost = d.cost_ms("prefill_ms_per_token")
    pairs = list(d.items("prefill"))
    (first, more), (second, less) = pick((a, b) for a, b in pairwise(pairs)
                                         if a[1]["id"] == b[1]["id"] and b[1]["tokens"] > 1)  # fmt: skip
    more["tokens"], less["tokens"] = more["tokens"] + 1, less["tokens"] - 1
    between = d.events[first["job"] : second["job"] + 1]
    shift(between[:-1], cost, ("endMs",))
    shift(between[1:], cost, ("startMs",))
    d.rebuild()


def early_admission(d: Damaged) -> None:
    """A request that joins those who run a job before anything of it is scheduled."""
    before, id_ = pick((before, event["running"][-1]) for before, event in pairwise(d.events)
                       if event["running"] and event["running"][-1] in before["waiting"])  # fmt: skip
    before["waiting"].remove(id_)
    before["running"].append(id_)
    d.rebuild()


def overtaking(d: Damaged) -> None:
    """A queue that does not keep its order: who came later is served first."""
    joined: dict[str, int] = {}
    for event in d.events:
        for id_ in event["running"]:
            joined.setdefault(id_, event["job"])
    rows = [row for row in d.requests if row["id"] in joined]
    first, passed = pick((a, b) for a in rows for b in rows
                         if joined[a["id"]] < joined[b["id"]] and number(a["arrivalMs"]) > 0)  # fmt: skip
    earlier = number(first["arrivalMs"]) - NS
    passed["arrivalMs"] = d.asked(d.requests.index(passed))["arrival_ms"] = earlier
    for event in d.events[: joined[passed["id"]]]:
        if number(event["startMs"]) >= earlier and passed["id"] not in event["waiting"]:
            event["waiting"].insert(0, passed["id"])
    d.rebuild()
    d.sign()


def token_before_arrival(d: Damaged) -> None:
    """An engine that knows of a request before it is there: it arrives after its first token."""
    row = pick(row for row in d.finished() if len(row["tokenTimesMs"]) > 1)
    index = d.requests.index(row)
    row["arrivalMs"] = d.asked(index)["arrival_ms"] = number(row["firstTokenMs"]) + NS
    d.rebuild()
    d.sign()


def swapped_requests(d: Damaged) -> None:
    """Work booked to the wrong request: two of them have changed names in all that the engine did."""
    one, other = pick((a["id"], b["id"]) for a in d.requests for b in d.requests
                      if len(a["tokenTimesMs"]) < len(b["tokenTimesMs"]))  # fmt: skip
    names = {one: other, other: one}
    for event in d.events:
        for item in event["scheduled"]:
            item["id"] = names.get(item["id"], item["id"])
        for key in ("waiting", "running"):
            event[key] = [names.get(id_, id_) for id_ in event[key]]
    d.rebuild()


def stale_running(d: Damaged) -> None:
    """A request that has finished and is still counted among those who run."""
    last = {item["id"]: event["job"] for event in d.events for item in event["scheduled"]}
    event, id_ = pick((d.events[last[row["id"]] + 1], row["id"]) for row in d.finished()
                      if last[row["id"]] + 1 < len(d.events))  # fmt: skip
    event["running"].insert(0, id_)


def lost_waiting(d: Damaged) -> None:
    """A request that waits and is not in the queue."""
    event = pick(event for event in d.events if event["waiting"])
    event["waiting"].pop()


def wrong_order_of_batch(d: Damaged) -> None:
    """A batch that is built from an unordered set."""
    event = pick(event for event in d.events if len(event["scheduled"]) > 1)
    event["scheduled"].reverse()
    d.rebuild()


HISTORY: Mapping[str, Callable[[Damaged], None]] = {
    "lost-token": lost_token,
    "phantom-decode": phantom_decode,
    "decode-too-early": decode_too_early,
    "job-without-work": job_without_work,
    "lost-job": lost_job,
    "overlapping-jobs": overlapping_jobs,
    "idle-gap": idle_gap,
    "wrong-duration": wrong_duration,
    "chunk-over-limit": chunk_over_limit,
    "early-admission": early_admission,
    "overtaking": overtaking,
    "token-before-arrival": token_before_arrival,
    "swapped-requests": swapped_requests,
    "stale-running": stale_running,
    "lost-waiting": lost_waiting,
    "wrong-order-of-batch": wrong_order_of_batch,
}


def _follows_at_once(events: list[Json], place: int) -> bool:
    return number(events[place - 1]["endMs"]) == number(events[place]["startMs"])
