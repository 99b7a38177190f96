"""The policies, each rule on its own in a tiny scenario; then what every row of the table of presets must keep.

On the lesson's device (see ``tiny``) a job costs 0.25 ms, each prompt token 1 ms more, a decode batch 1 ms more.
"""

import random
from typing import Any

import pytest
from tiny import Document, column, log, queues, request, scenario, simulate

import sim
from sim.errors import ScenarioError
from sim.policies.oddities import oddities
from sim.policies.presets import PRESETS, Axes, Choice, KvAxes, compose, resolve
from sim.scenario import load as read

# --- prefill first ---------------------------------------------------------------------------------------------------


def test_whoever_waits_for_prefill_stops_all_decodes() -> None:
    run = simulate([request("A", 0, 1, 3), request("B", 1, 3, 1), request("C", 2, 2, 1)])
    assert log(run) == [
        (0.0, 1.25, "prefill A 1"),
        (1.25, 4.5, "prefill B 3"),
        (4.5, 6.75, "prefill C 2"),
        (6.75, 8.0, "decode A"),
        (8.0, 9.25, "decode A"),
    ]


def test_several_whole_prompts_in_one_job() -> None:
    """Two in one job: 0.25 + 3 + 2 ms, and both first tokens leave at its end; the third goes alone."""
    run = simulate([request("A", 0, 3, 2), request("B", 0, 2, 1), request("C", 0, 4, 1)], prefills_per_job=2)
    assert log(run) == [
        (0.0, 5.25, "prefill A 3 B 2"),
        (5.25, 9.5, "prefill C 4"),
        (9.5, 10.75, "decode A"),
    ]
    assert column(run, "ttftMs") == {"A": 5.25, "B": 5.25, "C": 9.5}
    assert queues(run) == ["C | A B", "| A C", "| A"]


def test_more_prompts_in_one_job_than_there_are() -> None:
    run = simulate([request("A", 0, 3, 1), request("B", 0, 2, 1)], prefills_per_job=9)
    assert log(run) == [(0.0, 5.25, "prefill A 3 B 2")]


def test_a_head_without_a_place_lets_the_others_decode() -> None:
    """One place: B waits until A has all its tokens, although it came while A was computed."""
    run = simulate([request("A", 0, 2, 3), request("B", 1, 2, 1)], max_running=1)
    assert log(run) == [
        (0.0, 2.25, "prefill A 2"),
        (2.25, 3.5, "decode A"),
        (3.5, 4.75, "decode A"),
        (4.75, 7.0, "prefill B 2"),
    ]
    assert queues(run) == ["| A", "B | A", "B | A", "| B"]


def test_as_many_prompts_in_one_job_as_there_are_places() -> None:
    run = simulate([request(id_, 0, 2, 1) for id_ in "ABC"], prefills_per_job=3, max_running=2)
    assert [what for _, _, what in log(run)] == ["prefill A 2 B 2", "prefill C 2"]


# --- taking turns ----------------------------------------------------------------------------------------------------


def test_a_decode_batch_and_a_chunk_take_turns() -> None:
    run = simulate([request("A", 0, 2, 4), request("B", 1, 5, 1)], "chunked")
    assert log(run) == [
        (0.0, 2.25, "prefill A 2"),
        (2.25, 3.5, "decode A"),  # the last job was no decode batch: A first
        (3.5, 5.75, "prefill B 2"),
        (5.75, 7.0, "decode A"),
        (7.0, 9.25, "prefill B 2"),
        (9.25, 10.5, "decode A"),
        (10.5, 11.75, "prefill B 1"),  # what is left of it, and no more
    ]


def test_without_anything_to_decode_chunks_follow_one_another() -> None:
    run = simulate([request("A", 0, 5, 1)], "chunked")
    assert [what for _, _, what in log(run)] == ["prefill A 2", "prefill A 2", "prefill A 1"]


def test_without_anything_to_prefill_decode_batches_do() -> None:
    run = simulate([request("A", 0, 1, 4)], "chunked")
    assert [what for _, _, what in log(run)] == ["prefill A 1", "decode A", "decode A", "decode A"]


def test_a_chunk_is_of_one_prompt() -> None:
    """B's single token does not ride along with the rest of A's prompt: it waits for the next turn."""
    run = simulate([request("A", 0, 3, 1), request("B", 0, 1, 1)], "chunked", chunk_tokens=4)
    assert [what for _, _, what in log(run)] == ["prefill A 3", "prefill B 1"]


def test_a_chunk_larger_than_any_prompt_takes_it_whole() -> None:
    run = simulate([request("A", 0, 3, 2), request("B", 0, 2, 1)], "chunked", chunk_tokens=10**6)
    assert [what for _, _, what in log(run)] == ["prefill A 3", "decode A", "prefill B 2"]


def test_chunks_of_one_token() -> None:
    run = simulate([request("A", 0, 3, 1)], "chunked", chunk_tokens=1)
    assert log(run) == [(0.0, 1.25, "prefill A 1"), (1.25, 2.5, "prefill A 1"), (2.5, 3.75, "prefill A 1")]


def test_a_prompt_once_begun_is_finished_before_the_next_begins() -> None:
    run = simulate([request("A", 0, 4, 1), request("B", 1, 1, 1)], "chunked")
    assert [what for _, _, what in log(run)] == ["prefill A 2", "prefill A 2", "prefill B 1"]


def test_without_a_place_for_the_head_decodes_go_on() -> None:
    run = simulate([request("A", 0, 2, 3), request("B", 1, 2, 1)], "chunked", max_running=1)
    assert [what for _, _, what in log(run)] == ["prefill A 2", "decode A", "decode A", "prefill B 2"]


def test_after_a_pause_the_turn_is_still_the_chunks() -> None:
    """The last job was a decode batch, however long ago: a chunk of B, then a batch, then a chunk of C."""
    run = simulate([request("A", 0, 2, 2), request("B", 90, 2, 2), request("C", 90, 2, 1)], "chunked")
    assert [what for start, _, what in log(run) if start >= 90] == ["prefill B 2", "decode B", "prefill C 2"]


# --- static batches --------------------------------------------------------------------------------------------------


def test_nobody_joins_a_batch_that_runs() -> None:
    run = simulate([request("A", 0, 2, 3), request("B", 1, 2, 1)], "static")
    assert log(run) == [
        (0.0, 2.25, "prefill A 2"),
        (2.25, 3.5, "decode A"),
        (3.5, 4.75, "decode A"),
        (4.75, 7.0, "prefill B 2"),
    ]


def test_a_batch_is_all_who_wait_each_prompt_in_a_job_of_its_own() -> None:
    run = simulate([request("A", 0, 2, 2), request("B", 0, 3, 3), request("C", 0, 1, 1)], "static")
    assert log(run) == [
        (0.0, 2.25, "prefill A 2"),
        (2.25, 5.5, "prefill B 3"),
        (5.5, 6.75, "prefill C 1"),  # C has all it wants
        (6.75, 8.0, "decode A B"),
        (8.0, 9.25, "decode B"),  # A's place stands empty
    ]
    assert queues(run) == ["| A B C", "| A B C", "| A B C", "| A B", "| B"]


def test_eight_places_unless_the_scenario_says_otherwise() -> None:
    ten = [request(f"r{n}", 0, 1, 1) for n in range(10)]
    assert queues(simulate(ten, "static"))[0] == "r8 r9 | r0 r1 r2 r3 r4 r5 r6 r7"
    assert queues(simulate(ten, "static", max_running=3))[3] == "r6 r7 r8 r9 | r3 r4 r5"


def test_who_comes_at_the_end_of_a_batch_is_in_the_next() -> None:
    run = simulate([request("A", 0, 2, 1), request("B", 1, 2, 1), request("C", 2.25, 2, 1)], "static")
    assert queues(run) == ["| A", "| B C", "| C"]


def test_static_batches_of_chunks() -> None:
    """The axes are independent: a batch is formed as under static, its prompts and decodes take turns."""
    requests = [request("A", 0, 2, 3), request("B", 0, 4, 1), request("C", 1, 2, 1)]
    run = simulate(requests, "chunked", batching="static", max_running=2)
    assert log(run) == [
        (0.0, 2.25, "prefill A 2"),
        (2.25, 3.5, "decode A"),
        (3.5, 5.75, "prefill B 2"),
        (5.75, 7.0, "decode A"),
        (7.0, 9.25, "prefill B 2"),
        (9.25, 11.5, "prefill C 2"),
    ]
    assert queues(run)[0] == "| A B"


# --- the table of presets --------------------------------------------------------------------------------------------


def written(policy: str = "fcfs", **keys: Any) -> sim.Scenario:
    """One request; ``kv.blocks`` and the like are written with ``__``, what stands alone belongs to the scheduler."""
    dotted = {key.replace("__", ".") if "__" in key else f"scheduler.{key}": value for key, value in keys.items()}
    return scenario([request("A", 0, 1, 1)], policy).with_overrides(dotted)


@pytest.mark.parametrize("policy", PRESETS)
def test_what_is_written_holds_for_every_policy(policy: str) -> None:
    given: dict[str, Any] = {
        "batching": "static",
        "composition": "alternate",
        "prefills_per_job": 3,
        "chunk_tokens": 5,
        "token_budget": 9,
        "max_running": 7,
        "order": "priority",
        "chunked_prefill": True,
        "long_prefill_tokens": 4,
        "max_model_tokens": 99,
    }
    assert resolve(written(policy, **given)) == Choice(Axes(**given), None)


@pytest.mark.parametrize("policy", PRESETS)
def test_what_is_written_of_the_pool_too(policy: str) -> None:
    given: dict[str, Any] = {
        "blocks": 30,
        "block_tokens": 4,
        "allocation": "paged",
        "gate": "full",
        "watermark_blocks": 0,
        "prefix_cache": True,
        "preemption": "swap",
        "victim": "random",
        "swap_blocks": 8,
    }
    assert resolve(written(policy, **{f"kv__{key}": value for key, value in given.items()})).kv == KvAxes(**given)


def test_what_is_not_takes_the_presets_value() -> None:
    rows = {policy: resolve(written(policy)).axes for policy in PRESETS}
    assert {name: (axes.batching, axes.composition, axes.max_running) for name, axes in rows.items()} == {
        "fcfs": ("continuous", "prefill-first", None),
        "chunked": ("continuous", "alternate", None),
        "static": ("static", "prefill-first", 8),
        "orca": ("continuous", "mixed", 256),
        "sarathi": ("continuous", "mixed-decode-first", 256),
        "vllm": ("continuous", "mixed", 256),
        "vllm-v0": ("continuous", "prefill-first", 256),
        "trtllm-no-evict": ("continuous", "mixed", 256),
        "trtllm-max-utilization": ("continuous", "mixed", 256),
    }
    assert (rows["chunked"].chunk_tokens, rows["fcfs"].prefills_per_job, rows["vllm-v0"].prefills_per_job) == (2, 1, 0)
    assert {name: axes.token_budget for name, axes in rows.items() if axes.token_budget} == {
        **dict.fromkeys(("orca", "vllm", "vllm-v0", "trtllm-no-evict", "trtllm-max-utilization"), 2048),
        "sarathi": 512,
    }
    assert [name for name, axes in rows.items() if not axes.chunked_prefill] == ["orca", "vllm-v0"]


def test_nor_of_the_pool() -> None:
    """The watermark is a hundredth of the pool, rounded down."""
    rows = {policy: resolve(written(policy, kv__blocks=399)).kv for policy in PRESETS}
    plain = ("paged", "full", 0)
    assert {name: (kv.allocation, kv.gate, kv.watermark_blocks) for name, kv in rows.items() if kv} == {
        **dict.fromkeys(("fcfs", "chunked", "static", "vllm"), plain),
        "orca": ("contiguous", "reserve", 0),
        "sarathi": ("paged", "full", 3),
        "vllm-v0": ("paged", "full", 3),
        "trtllm-no-evict": ("paged", "reserve", 0),
        "trtllm-max-utilization": ("paged", "chunk", 0),
    }


def test_a_preset_is_nothing_but_its_row() -> None:
    """``fcfs`` with the composition of ``chunked`` is ``chunked``."""
    requests = [request("A", 0, 2, 4), request("B", 1, 5, 2)]
    assert log(simulate(requests, "fcfs", composition="alternate")) == log(simulate(requests, "chunked"))
    assert log(simulate(requests, "chunked", composition="prefill-first")) == log(simulate(requests, "fcfs"))


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ScenarioError, match=r'scheduler\.policy = "fcsf": unknown; one of fcfs, .* mean \'fcfs\'\?$'):
        written("fcsf")


def test_by_whoever_did_not_ask_when_it_was_read_too() -> None:
    unasked = read({**written().document, "scheduler": {"policy": "fcsf"}})
    with pytest.raises(ScenarioError, match=r"^policy = 'fcsf': unknown; one of fcfs, .*; did you mean 'fcfs'\?$"):
        resolve(unasked)


@pytest.mark.parametrize(
    ("policy", "keys", "names"),
    [
        ("fcfs", {"chunk_tokens": 4}, ["scheduler.chunk_tokens"]),
        ("fcfs", {"prefills_per_job": 4}, []),
        ("chunked", {"chunk_tokens": 4}, []),
        ("chunked", {"prefills_per_job": 4}, ["scheduler.prefills_per_job"]),
        ("static", {"chunk_tokens": 4, "max_running": 2}, ["scheduler.chunk_tokens"]),
        ("fcfs", {"chunk_tokens": 4, "composition": "alternate"}, []),
        ("fcfs", {}, []),
        ("fcfs", {"token_budget": 4}, ["scheduler.token_budget"]),  # a job of one prompt is not bounded
        ("fcfs", {"token_budget": 4, "prefills_per_job": 0}, []),
        ("vllm", {"token_budget": 400, "long_prefill_tokens": 40, "chunked_prefill": True}, []),
        ("vllm", {"chunk_tokens": 4, "prefills_per_job": 4}, ["scheduler.prefills_per_job", "scheduler.chunk_tokens"]),
        ("vllm", {"kv__blocks": 9, "kv__gate": "chunk", "kv__swap_blocks": 4}, ["kv.swap_blocks"]),
        ("vllm", {"kv__blocks": 9, "kv__preemption": "swap", "kv__swap_blocks": 4}, []),
        ("orca", {"kv__blocks": 9, "kv__gate": "chunk"}, ["kv.gate"]),  # a region is all that was declared
        ("orca", {"kv__blocks": 9, "kv__gate": "chunk", "kv__allocation": "paged"}, []),
    ],
)
def test_settings_that_a_policy_does_not_use(policy: str, keys: dict[str, Any], names: list[str]) -> None:
    found = [oddity for oddity in oddities(written(policy, **keys)) if oddity.endswith(" is not used by")]
    assert [oddity.removesuffix(" is not used by") for oddity in found] == names


def test_a_budget_below_the_places_is_odd() -> None:
    odd = "token_budget = 7 is below max_running = 8: not all can decode in one job under"
    assert list(oddities(written("vllm", token_budget=7, max_running=8))) == [odd]
    assert list(oddities(written("vllm", token_budget=8, max_running=8))) == []


def test_a_bound_on_prefills_above_the_budget_is_odd() -> None:
    odd = "long_prefill_tokens = 9 is above token_budget = 8, which holds under"
    assert list(oddities(written("vllm", token_budget=8, max_running=8, long_prefill_tokens=9))) == [odd]
    assert list(oddities(written("vllm", token_budget=8, max_running=8, long_prefill_tokens=8))) == []


def crowd(seed: int, count: int = 40) -> list[Document]:
    """Requests that often meet: at one instant, within a job, or after a pause; a third of them is given up."""
    rng = random.Random(seed)
    now = 0.0
    made = []
    for n in range(count):
        now += rng.choice([0, 0, 1, 2.25, 3.5, 20])
        patience = {"cancel_ms": now + rng.choice([-1, 0, 4, 40])} if now > 1 and not rng.randrange(3) else {}
        made.append(request(f"r{n}", now, rng.randint(1, 9), rng.randint(1, 6), **patience))
    return made


VARIED: list[dict[str, Any]] = [{}, {"max_running": 1}, {"max_running": 3}, {"batching": "static"}]


@pytest.mark.parametrize("keys", VARIED, ids=str)
@pytest.mark.parametrize("policy", PRESETS)
def test_every_policy_ends_every_request_and_its_record_is_sound(policy: str, keys: dict[str, Any]) -> None:
    for seed in range(3):
        requests = crowd(seed)
        run = simulate(requests, policy, **keys)
        assert {row["status"] for row in run["requests"]} <= {"finished", "cancelled"}
        for row, asked in zip(run["requests"], requests, strict=True):
            assert row["status"] == "finished" or "cancel_ms" in asked


@pytest.mark.parametrize("policy", PRESETS)
def test_the_same_again_is_the_same(policy: str) -> None:
    asked = scenario(crowd(7), policy)
    assert sim.simulate(asked).to_dict() == sim.simulate(asked).to_dict()


@pytest.mark.parametrize("policy", PRESETS)
def test_policies_have_no_state(policy: str) -> None:
    """Two of the same settings are equal, can't be changed, and so can't remember."""
    first, second = (compose(resolve(written(policy)).axes) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
