"""Faults of the book-keeping: the jobs are right, and what is said of them, or of where they came from, is not."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from decimal import Decimal

from sim.analysis.damage import NS, Damaged, Json, NothingToDamageError, number, pick


def doubled_token(d: Damaged) -> None:
    """A completion that is booked twice: one more token, at the instant of another."""
    row = pick(row for row in d.finished() if len(row["tokenTimesMs"]) > 1)
    row["tokenTimesMs"].insert(1, row["tokenTimesMs"][1])
    row["emittedTokens"] += 1


def moved_token(d: Damaged) -> None:
    """A token that is stamped when its job starts, not when it ends."""
    row, place, event = pick(
        (row, place, event)
        for row in d.finished()
        for place, at in enumerate(row["tokenTimesMs"][1:-1], 1)
        for event in d.events
        if event["endMs"] == at and number(event["startMs"]) > number(row["tokenTimesMs"][place - 1])
    )
    row["tokenTimesMs"][place] = event["startMs"]


def wrong_ttft(d: Damaged) -> None:
    """TTFT counted from when the request was first scheduled, so that waiting costs nothing."""
    row = pick(row for row in d.finished() if number(row["queueMs"]) > 0)
    row["ttftMs"] = number(row["ttftMs"]) - number(row["queueMs"])


def ttft_revised_later(d: Damaged) -> None:
    """A first token that is overwritten by the second."""
    row = pick(row for row in d.finished() if len(row["tokenTimesMs"]) > 1)
    row["firstTokenMs"] = row["tokenTimesMs"][1]
    row["ttftMs"] = number(row["firstTokenMs"]) - number(row["arrivalMs"])


def wrong_queue_time(d: Damaged) -> None:
    """Queue time counted up to the first token."""
    row = pick(d.finished())
    row["queueMs"] = row["ttftMs"]


def wrong_max_itl(d: Damaged) -> None:
    """The longest stall taken from the last two tokens only."""
    rows = (row for row in d.finished() if len(row["tokenTimesMs"]) > 1)
    row = pick(row for row in rows if _last_gap(row) != number(row["maxItlMs"]))
    row["maxItlMs"] = _last_gap(row)


def wrong_metric(d: Damaged) -> None:
    """A percentile by the nearest rank instead of the linear one: the maximum."""
    figures = pick(figures for name in ("ttft", "itl", "tpot", "e2e", "queue")
                   if (figures := d.run["summary"][name])["n"] and figures["p90"] != figures["max"])  # fmt: skip
    figures["p90"] = figures["max"]


def wrong_count(d: Damaged) -> None:
    """A counter that starts at one."""
    d.run["summary"]["scheduledTokens"] += 1


def wrong_kind(d: Damaged) -> None:
    """A job that is labelled by what the policy wanted, not by what it did."""
    event = pick(event for event in d.events if event["kind"] == "decode")
    event["kind"] = "mixed"


def wrong_status(d: Damaged) -> None:
    """A request that has finished and is reported as still running."""
    row = pick(d.finished())
    row |= {"status": "unfinished", "reason": "running", "finishReason": None,
            "finishMs": None, "endedMs": None, "e2eMs": None}  # fmt: skip
    d.rebuild()


def lost_request(d: Damaged) -> None:
    """A request that nobody serves and nobody misses: it is in the workload, and nowhere else."""
    if len(d.requests) < 2:
        raise NothingToDamageError
    gone = d.requests.pop()["id"]
    for event in d.events:
        event["scheduled"] = [item for item in event["scheduled"] if item["id"] != gone]
        for key in ("waiting", "running"):
            event[key] = [id_ for id_ in event[key] if id_ != gone]
    d.rebuild()


def doubled_request(d: Damaged) -> None:
    """A request that is reported twice."""
    d.requests.append(deepcopy(d.requests[-1]))
    d.run["summary"]["requests"] += 1
    d.run["summary"][d.requests[-1]["status"]] += 1


def swapped_rows(d: Damaged) -> None:
    """Two requests whose rows are in each other's place."""
    if len(d.requests) < 2:
        raise NothingToDamageError
    d.requests[0], d.requests[1] = d.requests[1], d.requests[0]


def changed_settings(d: Damaged) -> None:
    """A setting recorded that was not the one used."""
    d.run["settings"]["scheduler.chunk_tokens"] += 1


def changed_device(d: Damaged) -> None:
    """The scenario's device changed after the run, with everything that is recorded of it."""
    d.cost_ms("job_ms")
    device = d.document["scenario"].get("device")
    if not device or "job_ms" not in device:
        device = {"job_ms": "0.25", "prefill_ms_per_token": 1, "decode_ms_per_batch": 1}
    dearer = number(device["job_ms"]) + 2 * NS
    d.document["scenario"]["device"] = {**device, "job_ms": dearer}
    for run in d.document["runs"]:
        run["settings"]["device.job_ms"] = dearer


def changed_workload(d: Damaged) -> None:
    """The scenario's requests changed after the run."""
    d.asked(0)["output_tokens"] += 1


def changed_digest(d: Damaged) -> None:
    """The digest of another workload."""
    digest = d.document["provenance"]["workloadSha256"]
    d.document["provenance"]["workloadSha256"] = digest[1:] + ("1" if digest[0] == "0" else "0")


def changed_seed(d: Damaged) -> None:
    """The seed of another run."""
    d.document["provenance"]["seed"] += 1


def _last_gap(row: Json) -> Decimal:
    return number(row["tokenTimesMs"][-1]) - number(row["tokenTimesMs"][-2])


CLAIMS: Mapping[str, Callable[[Damaged], None]] = {
    "doubled-token": doubled_token,
    "moved-token": moved_token,
    "wrong-ttft": wrong_ttft,
    "ttft-revised-later": ttft_revised_later,
    "wrong-queue-time": wrong_queue_time,
    "wrong-max-itl": wrong_max_itl,
    "wrong-metric": wrong_metric,
    "wrong-count": wrong_count,
    "wrong-kind": wrong_kind,
    "wrong-status": wrong_status,
    "lost-request": lost_request,
    "doubled-request": doubled_request,
    "swapped-rows": swapped_rows,
    "changed-settings": changed_settings,
    "changed-device": changed_device,
    "changed-workload": changed_workload,
    "changed-digest": changed_digest,
    "changed-seed": changed_seed,
}
