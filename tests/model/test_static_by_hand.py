"""`static-vs-continuous`, job by job with a pencil, then the simulator beside it.

The lesson's device: every job costs 0.25 ms, a prefill 1 ms more for each prompt token, a decode batch 1 ms more,
whatever its size. All four prompts have 2 tokens, so a prefill takes 2.25 ms and a decode batch 1.25 ms.

There are two places. The requests:  long  comes at 0 ms, wants 12 tokens.
                                     brief comes at 0 ms, wants  2.
                                     next  comes at 1 ms, wants  2.
                                     last  comes at 1 ms, wants  2.
"""

from typing import Any

import sim


def run(policy: str) -> dict[str, Any]:
    scenario = sim.load("static-vs-continuous", overrides={"scheduler.policy": policy})
    found: dict[str, Any] = sim.simulate(scenario).to_dict()["runs"][0]
    return found


def jobs(found: dict[str, Any]) -> list[tuple[float, float, str, str]]:
    """(start, end, what, "waiting | running" as they stand after scheduling)."""
    return [
        (
            event["startMs"],
            event["endMs"],
            " ".join([event["kind"], *(entry["id"] for entry in event["scheduled"])]),
            " ".join([*event["waiting"], "|", *event["running"]]),
        )
        for event in found["events"]
    ]


def metrics(found: dict[str, Any], key: str) -> dict[str, Any]:
    return {request["id"]: request[key] for request in found["requests"]}


def test_continuous() -> None:
    """``fcfs``: while anybody waits and there is a place, the whole prompt of the head; otherwise decode all."""
    found = run("fcfs")

    assert jobs(found) == [
        # At 0 long and brief are there, and two places: first long's prompt.
        (0.00, 2.25, "prefill long", "brief | long"),  # long1
        # next and last came at 1. brief takes the second place.
        (2.25, 4.50, "prefill brief", "next last | long brief"),  # brief1
        # next waits, but there is no place: decode.
        (4.50, 5.75, "decode long brief", "next last | long brief"),  # long2 brief2: brief leaves
        # brief's place is free, and next's prompt interrupts long.
        (5.75, 8.00, "prefill next", "last | long next"),  # next1
        (8.00, 9.25, "decode long next", "last | long next"),  # long3 next2: next leaves
        (9.25, 11.50, "prefill last", "| long last"),  # last1
        (11.50, 12.75, "decode long last", "| long last"),  # long4 last2: last leaves
        # long alone has 4 of 12 tokens: eight more batches.
        (12.75, 14.00, "decode long", "| long"),  # long5
        (14.00, 15.25, "decode long", "| long"),  # long6
        (15.25, 16.50, "decode long", "| long"),  # long7
        (16.50, 17.75, "decode long", "| long"),  # long8
        (17.75, 19.00, "decode long", "| long"),  # long9
        (19.00, 20.25, "decode long", "| long"),  # long10
        (20.25, 21.50, "decode long", "| long"),  # long11
        (21.50, 22.75, "decode long", "| long"),  # long12: all done, after 7 + 8 = 15 jobs
    ]
    assert metrics(found, "finishMs") == {"long": 22.75, "brief": 5.75, "next": 9.25, "last": 12.75}
    assert metrics(found, "queueMs") == {
        "long": 0,
        "brief": 2.25,  # behind long's prompt
        "next": 4.75,  # 5.75 - 1: until brief's place is free
        "last": 8.25,  # 9.25 - 1: until next's place is free
    }
    assert metrics(found, "maxItlMs")["long"] == 3.50  # long1 to long2, as to long3 and long4: a prompt and a batch


def test_static() -> None:
    """``static``: a batch is formed when nobody runs, and nobody joins until its longest request has ended."""
    found = run("static")

    assert jobs(found) == [
        # At 0 nobody runs: long and brief are the batch, both from now on in their places.
        (0.00, 2.25, "prefill long", "| long brief"),  # long1
        (2.25, 4.50, "prefill brief", "next last | long brief"),  # brief1; next and last came at 1
        (4.50, 5.75, "decode long brief", "next last | long brief"),  # long2 brief2: brief leaves
        # brief's place stands empty while long gets its other ten tokens, 5.75 + 10 x 1.25 = 18.25.
        *[
            (start, start + 1.25, "decode long", "next last | long")
            for start in (5.75, 7.00, 8.25, 9.50, 10.75, 12.00, 13.25, 14.50, 15.75, 17.00)
        ],  # long3 ... long12, undisturbed
        # The second batch: next and last.
        (18.25, 20.50, "prefill next", "| next last"),  # next1
        (20.50, 22.75, "prefill last", "| next last"),  # last1
        (22.75, 24.00, "decode next last", "| next last"),  # both are done, after 3 + 10 + 3 = 16 jobs
    ]
    assert metrics(found, "finishMs") == {"long": 18.25, "brief": 5.75, "next": 24.00, "last": 24.00}
    assert metrics(found, "queueMs") == {
        "long": 0,
        "brief": 2.25,
        "next": 17.25,  # 18.25 - 1: a whole batch
        "last": 19.50,  # 20.50 - 1
    }
    assert metrics(found, "maxItlMs") == {
        "long": 3.50,  # long1 to long2: brief's prompt and a batch; never again
        "brief": 1.25,
        "next": 3.50,  # next1 to next2: last's prompt and a batch
        "last": 1.25,
    }


def test_the_place_that_stands_empty() -> None:
    """Static batching serves both newcomers 14.75 and 11.25 ms later, and gets long done 4.50 ms sooner."""
    continuous, static = (metrics(run(policy), "finishMs") for policy in ("fcfs", "static"))
    assert {id_: static[id_] - continuous[id_] for id_ in continuous} == {
        "long": -4.50,  # two prompts of 2.25 ms that did not interrupt it
        "brief": 0,
        "next": 14.75,
        "last": 11.25,
    }
