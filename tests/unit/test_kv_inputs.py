"""Bad inputs about memory: [kv], [model], [[faults]], samples, prefixes, parents, and what they ask of the scheduler.

First what is refused when a scenario is read, with the whole line that says so; then what is legal but odd: accepted,
and noted; then what can't be served: rejected, with the arithmetic. Numbers are those of the list of bad inputs (0: a
mistake that it does not have).
"""

import json
import re
import signal
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tomli_w

import sim
from sim import cli
from sim.errors import ScenarioError

BASE = """\
schema = 1
name = "base"
[workload]
requests = [
  {id = "A", prompt_tokens = 16, output_tokens = 4},
  {id = "B", arrival_ms = 1, prompt_tokens = 32, output_tokens = 8},
]
[kv]
blocks = 100
[scheduler]
policy = "vllm"
token_budget = 64
[[faults]]
kind = "pool"
at_ms = 10
until_ms = 20
blocks = 5
"""

# Mistakes in BASE: the row of the list, what stands there -> what is put in its place (⏎ is a newline), and below it
# the whole complaint, its further lines indented more.
REFUSED = r"""
13: blocks = 100 -> blocks = 0
    s.toml (line 9): kv.blocks = 0: too small; at least 1
13: blocks = 100 -> blocks = 100⏎block_tokens = 0
    s.toml (line 10): kv.block_tokens = 0: too small; at least 1
13: token_budget = 64 -> max_running = 0
    s.toml (line 12): scheduler.max_running = 0: too small; at least 1
13: token_budget = 64 -> token_budget = 0
    s.toml (line 12): scheduler.token_budget = 0: too small; at least 1
13: token_budget = 64 -> chunk_tokens = 0
    s.toml (line 12): scheduler.chunk_tokens = 0: too small; at least 1
20: blocks = 100 -> blocks = 100⏎watermark_blocks = 100
    s.toml (line 10): kv.watermark_blocks = 100: too large; less than the pool's 100 blocks
20: blocks = 100 -> memory_gib = 1⏎watermark_blocks = 512⏎[model]⏎name = "llama-3-8b"
    s.toml (line 10): kv.watermark_blocks = 512: too large; less than the pool's 512 blocks
20: blocks = 100 -> blocks = 100⏎watermark_blocks = -1
    s.toml (line 10): kv.watermark_blocks = -1: too small; at least 0
20: blocks = 100 -> blocks = 100⏎watermark_blocks = 0.01
    s.toml (line 10): kv.watermark_blocks = 0.01: expected an integer, got a number with a decimal point or an exponent
26: policy = "vllm" -> policy = "fifo"
    s.toml (line 11): scheduler.policy = "fifo": unknown; one of fcfs, chunked, static, orca, sarathi, vllm, vllm-v0,
        trtllm-no-evict, trtllm-max-utilization; did you mean 'fcfs'?
26: policy = "vllm" -> policy = "vllm-v1"
    s.toml (line 11): scheduler.policy = "vllm-v1": unknown; one of fcfs, chunked, static, orca, sarathi, vllm, vllm-v0,
        trtllm-no-evict, trtllm-max-utilization; did you mean 'vllm-v0'?
26: blocks = 100 -> blocks = 100⏎victim = "first"
    s.toml (line 10): kv.victim = "first": unknown; one of auto, last, lowest-priority, fewest-tokens, most-blocks,
        longest-remaining, random
26: blocks = 100 -> blocks = 100⏎allocation = "pages"
    s.toml (line 10): kv.allocation = "pages": unknown; one of paged, contiguous; did you mean 'paged'?
26: blocks = 100 -> blocks = 100⏎gate = "ful"
    s.toml (line 10): kv.gate = "ful": unknown; one of full, chunk, reserve; did you mean 'full'?
26: blocks = 100 -> blocks = 100⏎preemption = "recompte"
    s.toml (line 10): kv.preemption = "recompte": unknown; one of recompute, swap; did you mean 'recompute'?
26: token_budget = 64 -> composition = "mix"
    s.toml (line 12): scheduler.composition = "mix": unknown; one of prefill-first, alternate, mixed,
        mixed-decode-first; did you mean 'mixed'?
52: prompt_tokens = 32 -> prompt_tokens = 2147483648
    s.toml (line 6): workload.requests[1].prompt_tokens = 2147483648: too large; at most 2147483647
0: blocks = 100 -> blocks = -1
    s.toml (line 9): kv.blocks = -1: too small; at least 1
0: blocks = 100 -> blocks = 1000000001
    s.toml (line 9): kv.blocks = 1000000001: too large; at most 1000000000
0: blocks = 100 -> blocks = 16.0
    s.toml (line 9): kv.blocks = 16.0: expected an integer, got a number with a decimal point or an exponent; write 16
0: blocks = 100 -> blocks = "100"
    s.toml (line 9): kv.blocks = "100": expected an integer, got a string; write 100 without quotes
0: blocks = 100 -> block = 100
    s.toml (line 9): kv.block = 100: unknown key in [kv]; did you mean 'blocks'?
0: blocks = 100 -> num_gpu_blocks = 100
    s.toml (line 9): kv.num_gpu_blocks = 100: unknown key in [kv]; did you mean 'blocks'?
0: blocks = 100 -> blocks = 100⏎block_size = 16
    s.toml (line 10): kv.block_size = 16: unknown key in [kv]; did you mean 'block_tokens'?
0: blocks = 100 -> blocks = 100⏎enable_prefix_caching = true
    s.toml (line 10): kv.enable_prefix_caching = true: unknown key in [kv]; did you mean 'prefix_cache'?
0: blocks = 100 -> blocks = 100⏎watermark = 0.01
    s.toml (line 10): kv.watermark = 0.01: unknown key in [kv]; did you mean 'watermark_blocks'?
0: blocks = 100 -> blocks = 100⏎max_running = 4
    s.toml (line 10): kv.max_running = 4: unknown key in [kv]; belongs to [scheduler]
0: blocks = 100 -> blocks = 100⏎block_tokens = 1048577
    s.toml (line 10): kv.block_tokens = 1048577: too large; at most 1048576
0: blocks = 100 -> block_tokens = 16
    s.toml (line 8): kv: neither blocks nor memory_gib; exactly one of them
0: blocks = 100 -> blocks = 100⏎memory_gib = 1
    s.toml (line 8): kv: both blocks and memory_gib; exactly one of them
0: blocks = 100 -> blocks = 100⏎swap_blocks = -1
    s.toml (line 10): kv.swap_blocks = -1: too small; at least 0
0: blocks = 100 -> blocks = 100⏎swap_ms_per_block = -0.5
    s.toml (line 10): kv.swap_ms_per_block = -0.5: too small; at least 0
0: blocks = 100 -> blocks = 100⏎swap_ms_per_block = 0.0000000000001
    s.toml (line 10): kv.swap_ms_per_block = 1e-13: too many decimals; at most 12 of a millisecond
0: blocks = 100 -> blocks = 100⏎allocation = "contiguous"⏎prefix_cache = true
    s.toml (line 11): kv.prefix_cache = true: regions share no blocks; only with allocation paged
0: blocks = 100 -> memory_gib = 1
    s.toml (line 9): kv.memory_gib = 1: without [model]; what a token's KV takes gives the blocks
0: blocks = 100 -> memory_gib = 0
    s.toml (line 9): kv.memory_gib = 0: too small; above 0
0: blocks = 100 -> memory_gib = nan
    s.toml (line 9): kv.memory_gib = nan: not finite; must be a finite number
0: blocks = 100 -> memory_gib = 1000001
    s.toml (line 9): kv.memory_gib = 1000001: too large; at most 1000000
0: blocks = 100 -> memory_gib = 0.001⏎[model]⏎name = "llama-3-8b"
    s.toml (line 9): kv.memory_gib = 0.001: 0.001 GiB = 1,073,741 B; one block of 16 tokens takes 16 * 131,072 = 2,097,152 B; 0 blocks fit;
        a pool has 1 to 1,000,000,000
0: blocks = 100 -> memory_gib = 1000000⏎[model]⏎kv_bytes_per_token = 1
    s.toml (line 9): kv.memory_gib = 1000000: 1000000 GiB = 1,073,741,824,000,000 B; one block of 16 tokens takes 16 * 1 = 16 B;
        67,108,864,000,000 blocks fit; a pool has 1 to 1,000,000,000
0: blocks = 100 -> memory_gib = 1⏎[model]
    s.toml (line 10): model = {}: does not say what a token's KV takes; exactly one of: name; layers, kv_heads and
        head_size; kv_bytes_per_token
0: blocks = 100 -> memory_gib = 1⏎[model]⏎layers = 32⏎kv_heads = 8
    s.toml (line 10): model: does not say what a token's KV takes; exactly one of: name; layers, kv_heads and head_size;
        kv_bytes_per_token
0: blocks = 100 -> memory_gib = 1⏎[model]⏎name = "llama-3-8b"⏎layers = 32
    s.toml (line 10): model: does not say what a token's KV takes; exactly one of: name; layers, kv_heads and head_size;
        kv_bytes_per_token
0: blocks = 100 -> memory_gib = 1⏎[model]⏎name = "llama-3-8b"⏎kv_bytes_per_token = 100
    s.toml (line 10): model: does not say what a token's KV takes; exactly one of: name; layers, kv_heads and head_size;
        kv_bytes_per_token
0: blocks = 100 -> memory_gib = 1⏎[model]⏎name = "llama-3-8"
    s.toml (line 11): model.name = "llama-3-8": unknown; one of llama-2-7b, llama-2-13b, llama-2-70b, llama-3-8b,
        llama-3-70b, mistral-7b, mixtral-8x7b, opt-13b, qwen2.5-7b, qwen2.5-72b, deepseek-v3; did you mean 'llama-3-8b'?
0: blocks = 100 -> memory_gib = 1⏎[model]⏎layers = 0⏎kv_heads = 8⏎head_size = 128
    s.toml (line 11): model.layers = 0: too small; at least 1
0: blocks = 100 -> memory_gib = 1⏎[model]⏎kv_bytes_per_token = 0
    s.toml (line 11): model.kv_bytes_per_token = 0: too small; at least 1
0: blocks = 100 -> memory_gib = 1⏎[model]⏎kv_bytes_per_token = 100⏎bytes = 17
    s.toml (line 12): model.bytes = 17: too large; at most 16
0: blocks = 100 -> memory_gib = 1⏎[model]⏎name = "llama-3-8b"⏎hidden = 3
    s.toml (line 12): model.hidden = 3: unknown key in [model]; one of name, layers, kv_heads, head_size, bytes,
        kv_bytes_per_token
0: kind = "pool" -> kind = "pol"
    s.toml (line 14): faults[0].kind = "pol": unknown; one of pool, stall, slow, crash; did you mean 'pool'?
0: kind = "pool"⏎ ->
    s.toml (line 13): faults[0].kind: missing; for example kind = "crash"
0: at_ms = 10⏎ ->
    s.toml (line 13): faults[0].at_ms: missing; for example at_ms = 100
0: at_ms = 10 -> at_ms = -1
    s.toml (line 15): faults[0].at_ms = -1: too small; at least 0
0: until_ms = 20 -> until_ms = 10
    s.toml (line 16): faults[0].until_ms = 10: too small; more than at_ms, 10
0: until_ms = 20 -> until_ms = nan
    s.toml (line 16): faults[0].until_ms = nan: not finite; must be a finite number
0: until_ms = 20⏎ ->
    s.toml (line 13): faults[0].until_ms: missing in a fault of kind pool
0: blocks = 5 ->
    s.toml (line 13): faults[0].blocks: missing in a fault of kind pool
0: blocks = 5 -> blocks = 0
    s.toml (line 17): faults[0].blocks = 0: too small; at least 1
0: blocks = 5 -> blocks = 5⏎factor = 2
    s.toml (line 18): faults[0].factor = 2: not of a fault of kind pool
0: kind = "pool" -> kind = "stall"
    s.toml (line 17): faults[0].blocks = 5: not of a fault of kind stall
0: kind = "pool" -> kind = "crash"
    s.toml (line 16): faults[0].until_ms = 20: not of a fault of kind crash
0: kind = "pool"⏎at_ms = 10⏎until_ms = 20⏎blocks = 5 -> kind = "slow"⏎at_ms = 10⏎until_ms = 20
    s.toml (line 13): faults[0].factor: missing in a fault of kind slow
0: kind = "pool"⏎at_ms = 10⏎until_ms = 20⏎blocks = 5 -> kind = "slow"⏎at_ms = 10⏎until_ms = 20⏎factor = 0
    s.toml (line 17): faults[0].factor = 0: too small; above 0
0: kind = "pool"⏎at_ms = 10⏎until_ms = 20⏎blocks = 5 -> kind = "slow"⏎at_ms = 10⏎until_ms = 20⏎factor = 1000001
    s.toml (line 17): faults[0].factor = 1000001: too large; at most 1000000
0: until_ms = 20 -> until_ms = 20⏎node = 3
    s.toml (line 17): faults[0].node = 3: unknown key in faults[0]; did you mean 'kind'?
0: [[faults]] -> [faults]
    s.toml (line 13): faults: expected a list, got a table
0: [kv]⏎blocks = 100⏎ ->
    s.toml (line 11): faults: a fault of kind pool without [kv]; blocks are withheld from a pool
0: id = "A" -> id = "A", samples = 0
    s.toml (line 5): workload.requests[0].samples = 0: too small; at least 1
0: id = "A" -> id = "A", samples = 1000001
    s.toml (line 5): workload.requests[0].samples = 1000001: too large; at most 1000000
0: id = "A" -> id = "A", samples = 1.5
    s.toml (line 5): workload.requests[0].samples = 1.5: expected an integer, got a number with a decimal point or an
        exponent
0: id = "A" -> id = "A", prefix_tokens = 8
    s.toml (line 5): workload.requests[0].prefix_tokens = 8: without prefix_group; name it, or leave prefix_tokens out
0: id = "A" -> id = "A", prefix_group = "g", prefix_tokens = 17
    s.toml (line 5): workload.requests[0].prefix_tokens = 17: too large; at most prompt_tokens, 16
0: id = "A" -> id = "A", prefix_group = "g", prefix_tokens = -1
    s.toml (line 5): workload.requests[0].prefix_tokens = -1: too small; at least 0
0: id = "A" -> id = "A", prefix_group = "a\nb"
    s.toml (line 5): workload.requests[0].prefix_group = "a\nb": control character U+000A; none is allowed
0: id = "A" -> id = "A", prefix_group = 5
    s.toml (line 5): workload.requests[0].prefix_group = 5: expected a string, got an integer
0: id = "B" -> id = "B", parent_tokens = 8
    s.toml (line 6): workload.requests[1].parent_tokens = 8: without parent; name it, or leave parent_tokens out
0: id = "B" -> id = "B", parent = "A", parent_tokens = 33
    s.toml (line 6): workload.requests[1].parent_tokens = 33: too large; at most prompt_tokens, 32
0: id = "B" -> id = "B", parent = "A", parent_tokens = 21
    s.toml (line 6): workload.requests[1].parent_tokens = 21: too large; at most 20, the parent's
        prompt and output
0: id = "B" -> id = "B", parent = "C", parent_tokens = 8
    s.toml (line 6): workload.requests[1].parent = "C": no such request
0: id = "B" -> id = "B", parent = "B"
    s.toml (line 6): workload.requests[1].parent = "B": in the end its own parent; parents may not go
        round
0: A", prompt_tokens = 16, output_tokens = 4},⏎  {id = "B" -> A", prompt_tokens = 16, output_tokens = 4, parent = "B"},⏎  {id = "B", parent = "A"
    s.toml (line 5): workload.requests[0].parent = "B": in the end its own parent; parents may not go
        round
0: id = "B" -> id = "B", parent = 5
    s.toml (line 6): workload.requests[1].parent = 5: expected a string, got an integer
0: id = "B" -> id = "B", max_tokens = 7
    s.toml (line 6): workload.requests[1].max_tokens = 7: too small; at least output_tokens, 8
0: token_budget = 64 -> order = "prio"
    s.toml (line 12): scheduler.order = "prio": unknown; one of fcfs, lifo, priority, sjf, srpt, hrrn, edf,
        least-slack, mlfq, vtc, drr, lpm, random; did you mean 'priority'?
0: token_budget = 64 -> long_prefill_tokens = -1
    s.toml (line 12): scheduler.long_prefill_tokens = -1: too small; at least 0
0: token_budget = 64 -> max_model_tokens = -1
    s.toml (line 12): scheduler.max_model_tokens = -1: too small; at least 0
"""  # noqa: E501  # a line of the table is one mistake


class Mistake(NamedTuple):
    """One entry of REFUSED."""

    row: int
    old: str
    new: str
    complaint: str


def mistakes() -> list[Mistake]:
    entries = re.findall(r"^(\d+): (.*) ->(?: (.*))?((?:\n +.*)+)", REFUSED, re.MULTILINE)
    return [
        Mistake(int(row), old.replace("⏎", "\n"), new.replace("⏎", "\n"), " ".join(complaint.split()))
        for row, old, new, complaint in entries
    ]


def complaints(folder: Path, text: str) -> list[str]:
    """What is said about a file, without its folder."""
    path = folder / "s.toml"
    path.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        sim.load(path)
    return [str(line).replace(f"{folder}/", "") for line in caught.value.args]


@pytest.mark.parametrize(
    ("row", "old", "new", "complaint"), mistakes(), ids=[f"row {m.row}, case {n}" for n, m in enumerate(mistakes())]
)
def test_a_mistake_is_said_in_one_line(tmp_path: Path, row: int, old: str, new: str, complaint: str) -> None:
    assert BASE.count(old) >= 1
    assert complaints(tmp_path, BASE.replace(old, new, 1)) == [complaint]


def test_no_mistake_is_lost_from_the_table() -> None:
    assert len(mistakes()) == len(re.findall(r"^\d+: ", REFUSED, re.MULTILINE))
    assert {mistake.row for mistake in mistakes()} >= {13, 20, 26, 52}


def test_what_the_mistakes_are_made_in_is_sound(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(BASE)
    assert sim.load(path).pool_blocks == 100


@pytest.mark.parametrize(
    ("old", "key"), [("blocks = 100", "kv.prefix_cache"), ("token_budget = 64", "scheduler.chunked_prefill")]
)
def test_what_is_no_boolean_is_said_as_of_any_other_type(tmp_path: Path, old: str, key: str) -> None:
    text = BASE.replace(old, f"{old}\n{key.split('.')[1]} = 1", 1)
    assert [line.split("): ")[1] for line in complaints(tmp_path, text)] == [
        f"{key} = 1: expected true or false, got an integer"
    ]


# --- the command ------------------------------------------------------------------------------------------------------

Document = dict[str, Any]


class Answer(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture
def headway(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """``headway run`` of a document, in English."""
    monkeypatch.setenv("COLUMNS", "200")
    before = signal.getsignal(signal.SIGTERM)

    def call(document: Document, *options: str) -> Answer:
        path = tmp_path / "s.toml"
        path.write_text(tomli_w.dumps(document))
        with pytest.raises(SystemExit) as ended:
            cli.main(["run", str(path), "--lang", "en", *options])
        printed = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Answer(ended.value.code, printed.out, printed.err)

    yield call
    signal.signal(signal.SIGTERM, before)


def two(kv: Document, **scheduler: Any) -> Document:
    """Two requests on a device where every job takes 1 ms."""
    return {
        "schema": 1,
        "name": "two",
        "workload": {
            "requests": [
                {"id": "A", "prompt_tokens": 40, "output_tokens": 4},
                {"id": "B", "prompt_tokens": 8, "output_tokens": 2},
            ]
        },
        "device": {"job_ms": 1},
        "kv": kv,
        "scheduler": {"policy": "vllm", **scheduler},
    }


def run_of(document: Document) -> dict[str, Any]:
    run: dict[str, Any] = sim.simulate(sim.load(document), check=True).to_dict()["runs"][0]
    return run


ODD = [
    # row, [kv] and [scheduler], how the one note begins: of a chunk above the prompt, or of no whole blocks, nothing
    (14, {}, {"policy": "chunked", "chunk_tokens": 64}, ""),
    (14, {}, {"policy": "chunked", "chunk_tokens": 7}, ""),
    (
        14, {}, {"token_budget": 16, "max_running": 4, "long_prefill_tokens": 32},
        "note: long_prefill_tokens = 32 is above token_budget = 16",
    ),
    (
        15, {}, {"token_budget": 16, "max_running": 17},
        "note: token_budget = 16 is below max_running = 17",
    ),
    (15, {}, {"token_budget": 16, "max_running": 16}, ""),
    (19, {"preemption": "swap"}, {}, ""),  # with 0 blocks on the host swap is recompute, as documented
    (27, {}, {"chunk_tokens": 8}, "note: scheduler.chunk_tokens is not used by vllm"),
    (27, {}, {"policy": "fcfs", "token_budget": 8}, "note: scheduler.token_budget is not used by fcfs"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "kv", "scheduler", "note"), ODD, ids=[f"row {odd[0]}, case {n}" for n, odd in enumerate(ODD)]
)
def test_what_is_legal_but_odd_runs_and_is_noted(
    headway: Command, row: int, kv: Document, scheduler: Document, note: str
) -> None:
    answer = headway(two({"blocks": 100, **kv}, **scheduler))
    assert answer.code == 0
    assert answer.err.startswith(note)
    assert answer.err.count("\n") == bool(note)
    assert "all 2 requests finished" in answer.out


@pytest.mark.parametrize(
    "document",
    [
        two({"blocks": 100, "swap_blocks": 8}),  # preemption is recompute
        two({"blocks": 100, "allocation": "contiguous", "gate": "chunk"}),  # a region is taken whole
        two({"blocks": 100}) | {"model": {"name": "llama-3-8b"}},  # the blocks are given
    ],
    ids=["swap_blocks without swap", "gate of a region", "model without memory"],
)
def test_a_setting_of_the_pool_that_nothing_reads_is_noted(headway: Command, document: Document) -> None:
    assert headway(document).err.startswith("note: ")


def test_row_16_a_prompt_over_the_budget_without_chunks_is_named(headway: Command) -> None:
    # A: 40 + 4 - 1 = 43 tokens, for with a finite pool it may be preempted and prefill what it emitted as well.
    document = two({"blocks": 100}, token_budget=32, max_running=8, chunked_prefill=False)
    reason = "a prefill of 43 tokens in one job, token_budget is 32 and chunked_prefill is false"
    a, b = run_of(document)["requests"]
    assert (a["status"], a["reason"], b["status"]) == ("rejected", reason, "finished")
    assert headway(document, "--strict")[::2] == (2, f'vllm: request "A": {reason}\n')


def test_row_17_who_is_larger_than_the_pool_is_rejected_and_counted(headway: Command) -> None:
    document = two({"blocks": 2})  # A: ceil(43 / 16) = 3
    reason = "needs 3 of 2 blocks: 40 + 4 - 1 = 43 tokens, 16 a block"
    answer = headway(document)
    assert answer.code == 0
    assert "1 of 2 requests finished" in answer.out
    assert f"rejected 1: A ({reason})" in answer.out
    assert headway(document, "--strict")[::2] == (2, f'vllm: request "A": {reason}\n')


def test_row_17_a_run_that_rejects_all_is_a_run_with_nulls(headway: Command) -> None:
    document = two({"blocks": 1, "block_tokens": 1})
    answer = headway(document)
    assert answer.code == 0
    assert "0 of 2 requests finished" in answer.out
    assert "rejected 2: A (needs 43 of 1 blocks" in answer.out
    (run,) = json.loads(headway(document, "--json").out)["runs"]
    assert run["events"] == []
    nothing = {"n": 0, **dict.fromkeys(("mean", "p50", "p90", "p95", "p99", "max"))}
    assert all(run["summary"][name] == nothing for name in ("ttft", "itl", "tpot", "e2e", "queue"))
    assert (run["summary"]["rejected"], run["summary"]["jobs"], run["summary"]["makespanMs"]) == (2, 0, None)
    assert (run["summary"]["outputTokensPerS"], run["summary"]["requestsPerS"]) == (None, None)
    for request in run["requests"]:
        assert request["tokenTimesMs"] == []
        assert {request[key] for key in ("firstScheduledMs", "firstTokenMs", "finishMs", "endedMs", "ttftMs")} == {None}


@pytest.mark.parametrize("kv", [{"gate": "reserve"}, {"allocation": "contiguous"}], ids=["reserve", "contiguous"])
def test_row_18_what_is_declared_counts_where_it_is_reserved(kv: Document) -> None:
    # ceil((8 + 1000 - 1) / 16) = 63 blocks, although B emits 2.
    document = two({"blocks": 10, **kv})
    document["workload"]["requests"][1]["max_tokens"] = 1000
    a, b = run_of(document)["requests"]
    assert a["status"] == "finished"
    assert b["reason"] == "needs 63 of 10 blocks: 8 + 1000 - 1 = 1007 tokens as declared, 16 a block"
    document["kv"] = {"blocks": 10}
    assert run_of(document)["requests"][1]["status"] == "finished"


def test_row_19_a_victim_that_the_host_has_no_room_for_is_computed_again_and_counted_so() -> None:
    # Blocks of 4, 6 of them; two requests of 8 + 9: at 5 one gives up 3 blocks and 12 tokens. The host has 2.
    requests = [{"id": name, "prompt_tokens": 8, "output_tokens": 9} for name in "AB"]
    document = two({"blocks": 6, "block_tokens": 4, "preemption": "swap", "swap_blocks": 2})
    document["workload"] = {"requests": requests}
    run = run_of(document)
    assert (run["summary"]["preemptions"], run["summary"]["recomputedTokens"]) == (1, 12)
    assert [event for event in run["events"] if event["kind"] == "swap"] == []
    document["kv"]["swap_blocks"] = 3
    run = run_of(document)
    assert (run["summary"]["preemptions"], run["summary"]["recomputedTokens"]) == (1, 0)
    assert [event["startMs"] for event in run["events"] if event["kind"] == "swap"] == [5, 10]


BILLION = 10**9


@pytest.mark.parametrize(
    ("kv", "why"),
    [
        ({"blocks": 1000}, "needs 62500000 of 1000 blocks: 1000000000 + 1 - 1 = 1000000000 tokens, 16 a block"),
        (
            {"blocks": 1000, "allocation": "contiguous"},
            "needs 62500000 of 1000 blocks: 1000000000 + 1 - 1 = 1000000000 tokens as declared, 16 a block",
        ),
        (
            {"blocks": 1000, "prefix_cache": True},
            "needs 62500000 of 1000 blocks: 1000000000 + 1 - 1 = 1000000000 tokens, 16 a block",
        ),
        ({"blocks": BILLION}, None),  # it fits, and is counted, not listed
        ({"blocks": BILLION, "allocation": "contiguous"}, None),
    ],
)
def test_row_52_a_billion_tokens_are_a_number(kv: Document, why: str | None) -> None:
    document = two(kv, token_budget=2 * BILLION)
    document["workload"] = {"requests": [{"prompt_tokens": BILLION, "output_tokens": 1}]}
    assert peak_of(document, why) < 2 * 10**6


def test_row_52_a_large_pool_is_listed_as_far_as_it_is_used() -> None:
    document = two({"blocks": 10**5, "prefix_cache": True})  # 13 MB; a billion blocks would be 130 GB
    assert peak_of(document, None) < 2 * 10**6


def peak_of(document: Document, why: str | None) -> int:
    """Bytes that a run took at most. Its first request is rejected with the reason ``why``, or finishes."""
    scenario = sim.load(document)
    tracemalloc.start()
    try:
        result = sim.simulate(scenario)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    request = result.to_dict()["runs"][0]["requests"][0]
    assert (request["status"], request["reason"]) == ("finished" if why is None else "rejected", why)
    return peak
