"""What people who run or study LLM servers reported, each as an input small enough for a pencil, with its numbers.

One class for each situation, named by its number in the list of reports; the first line says what was seen. A unit of
time is 1 ms here, and where the reports count seconds, 1000 ms. Unless said otherwise a block has 16 tokens, every job
takes one unit, and budget and slots are without end. Where the design decides otherwise than the report would, it
stands, and the test says why.
"""

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import tomli_w
from vllm_runs import Watch, watched

import sim
from sim import cli
from sim.engine.monitor import Monitor
from sim.engine.plan import Job
from sim.engine.scheduler import Switches
from sim.errors import ScenarioError
from sim.policies.presets import resolve
from sim.request import Request
from sim.simulation import Replica
from sim.workload.build import build

ENDLESS = 10**6
UNIT = {"job_ms": 1}

Run = dict[str, Any]
Document = dict[str, Any]


def ask(name: str, at: float, prompt: int, output: int, **more: Any) -> dict[str, Any]:
    return {"id": name, "arrival_ms": at, "prompt_tokens": prompt, "output_tokens": output, **more}


def document(
    requests: Sequence[Mapping[str, Any]], kv: Mapping[str, Any] | None = None, device: Mapping[str, Any] = UNIT,
    **scheduler: Any,
) -> Document:  # fmt: skip
    whole: Document = {
        "schema": 1,
        "name": "reported",
        "workload": {"requests": list(requests)},
        "device": dict(device),
        "scheduler": {"policy": "vllm", "token_budget": ENDLESS, "max_running": ENDLESS, **scheduler},
    }
    return whole if kv is None else whole | {"kv": {"block_tokens": 16, **kv}}


def simulate(whole: Document, watch: Watch | None = None) -> Run:
    """One run, after what has to hold in every one of them."""
    watch = Watch() if watch is None else watch
    run: Run = watched(whole, watch).to_dict()["runs"][0]
    again: Run = sim.simulate(sim.load(whole)).to_dict()["runs"][0]
    assert {**again, "work": None} == {**run, "work": None}  # what it cost may differ, for only one was watched
    summary, requests = run["summary"], run["requests"]
    assert len(requests) == sum(summary[how] for how in ("finished", "rejected", "cancelled", "unfinished"))
    if "kv" in whole:
        assert watch.memory.free == whole["kv"]["blocks"]
    finished = [request for request in requests if request["status"] == "finished"]
    assert [r["emittedTokens"] for r in finished] == [r["outputTokens"] for r in finished]
    if not summary["cancelled"]:
        useful = sum(r["promptTokens"] + r["outputTokens"] - 1 for r in finished)
        hits = sum(r["cachedTokens"] + r["cachedOnResumeTokens"] for r in finished)
        assert summary["scheduledTokens"] == useful + summary["recomputedTokens"] - hits
    return run


def of(run: Run, name: str) -> dict[str, Any]:
    """What became of one request."""
    found: dict[str, Any] = next(request for request in run["requests"] if request["id"] == name)
    return found


def each(run: Run, key: str) -> list[Any]:
    return [request[key] for request in run["requests"]]


Command = Callable[..., tuple[int, str]]


@pytest.fixture
def headway(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """``headway run`` of a document: its exit code, and what it says on stderr."""
    before = signal.getsignal(signal.SIGTERM)

    def call(whole: Document, *options: str) -> tuple[int, str]:
        path = tmp_path / "reported.toml"
        path.write_text(tomli_w.dumps(whole))
        with pytest.raises(SystemExit) as ended:
            cli.main(["run", str(path), *options])
        assert isinstance(ended.value.code, int)
        return ended.value.code, capsys.readouterr().err

    yield call
    signal.signal(signal.SIGTERM, before)


class TestA1:
    """A head that can never fit starves the whole queue: waiting > 0, running = 0, no throughput for anybody."""

    # A: ceil((200 + 1 - 1) / 16) = 13 blocks of 8. B: one prefill job, one decode.
    asked = document([ask("A", 0, 200, 1), ask("B", 0, 16, 2)], {"blocks": 8})

    def test_it_is_rejected_on_arrival_with_the_arithmetic_and_the_rest_is_served(self) -> None:
        run = simulate(self.asked)
        assert of(run, "A")["status"] == "rejected"
        assert of(run, "A")["reason"] == "needs 13 of 8 blocks: 200 + 1 - 1 = 200 tokens, 16 a block"
        assert (of(run, "B")["ttftMs"], of(run, "B")["finishMs"]) == (1, 2)
        assert (run["summary"]["rejected"], run["summary"]["finished"]) == (1, 1)
        assert [event["waiting"] for event in run["events"]] == [[], []]

    def test_the_command_ends_with_0_and_strictly_with_2_before_anything_runs(self, headway: Command) -> None:
        assert headway(self.asked)[0] == 0
        code, said = headway(self.asked, "--strict")
        assert code == 2
        assert 'request "A": needs 13 of 8 blocks' in said


class TestA2:
    """The prompt fits, prompt and output do not: the only running request preempts itself and prefills for ever."""

    # 4 blocks are 64 slots. The design rejects up front what needs more (it knows the output; the other answer, to cut
    # the output at the wall, is for tools that do not).
    def test_it_is_rejected_up_front(self) -> None:
        run = simulate(document([ask("A", 0, 60, 10)], {"blocks": 4}))  # 60 + 10 - 1 = 69 tokens, 5 blocks
        assert of(run, "A")["reason"] == "needs 5 of 4 blocks: 60 + 10 - 1 = 69 tokens, 16 a block"
        assert (run["events"], run["summary"]["preemptions"]) == ([], 0)

    def test_what_ends_exactly_at_the_wall_is_served(self) -> None:
        run = simulate(document([ask("A", 0, 60, 5)], {"blocks": 4}))  # 60 + 5 - 1 = 64
        assert (of(run, "A")["finishMs"], of(run, "A")["preemptions"]) == (5, 0)

    def test_so_is_a_prompt_that_fills_the_pool(self) -> None:
        run = simulate(document([ask("A", 0, 64, 1)], {"blocks": 4}))
        assert (of(run, "A")["finishMs"], run["events"][0]["freeBlocks"]) == (1, 0)


class TestA3:
    """Admission asks for more than the pool, ``>=`` for ``>``: a request that needs exactly the pool waits for ever."""

    @pytest.mark.parametrize(
        ("prompt", "output", "served"),
        [  # the peak is prompt + output - 1 tokens; 64 slots
            (64, 1, True),
            (64, 2, False),
            (49, 16, True),
            (1, 64, True),
            (1, 65, False),
            (63, 1, True),  # 4 * 16 - 1
            (32, 33, True),  # 4 * 16
            (32, 34, False),  # 4 * 16 + 1
        ],
    )
    def test_exactly_full_is_legal(self, prompt: int, output: int, served: bool) -> None:
        run = simulate(document([ask("A", 0, prompt, output)], {"blocks": 4}))
        assert of(run, "A")["status"] == ("finished" if served else "rejected")
        assert of(run, "A")["finishMs"] == (output if served else None)  # one prefill job, output - 1 decodes


class TestA4:
    """Only the next chunk is asked for: a long prompt is admitted, fills the memory, is thrown out, admitted again."""

    asked = (ask("A", 0, 64, 65), ask("B", 0, 112, 4))
    dear: ClassVar = {"job_ms": 10, "prefill_ms_per_token": 1, "decode_ms_per_request": 1}

    def run(self, gate: str, device: Mapping[str, Any] = UNIT) -> Run:
        return simulate(document(self.asked, {"blocks": 10, "gate": gate}, device, token_budget=32))

    def test_the_full_gate_lets_it_wait(self) -> None:
        # A: 2 chunks of 32, 64 decodes: 66. It holds 4 blocks of 10 and comes to hold 8; B's 112 tokens need 7, so it
        # waits. 112 = 32 + 32 + 32 + 16: its first token leaves at 66 + 4 = 70, the fourth at 73.
        run = self.run("full")
        assert run["summary"]["preemptions"] == 0
        assert of(run, "A")["finishMs"] == 66
        assert (of(run, "B")["ttftMs"], of(run, "B")["finishMs"]) == (70, 73)

    def test_the_chunk_gate_thrashes(self) -> None:
        # Useful are 64 + 65 - 1 + 112 + 4 - 1 = 243 tokens; 243 + 1147 = 1390. 1147 / 1390 is 83 %. In units B ends
        # earlier all the same, for a job costs no more when it is full.
        run = self.run("chunk")
        assert (of(run, "A")["preemptions"], of(run, "B")["preemptions"]) == (0, 26)
        assert (run["summary"]["recomputedTokens"], run["summary"]["scheduledTokens"]) == (1147, 1390)
        assert round(100 * run["summary"]["recomputedTokens"] / run["summary"]["scheduledTokens"]) == 83
        assert of(run, "B")["finishMs"] == 72

    def test_and_costs_twice_the_time_where_tokens_cost(self) -> None:
        # Full: 73 jobs, 64 + 112 prompt tokens, 64 + 3 decodes: 730 + 176 + 67 = 973. Chunk: 72 jobs, 1390 tokens, each
        # 1 whichever way it is computed: 720 + 1390 = 2110. A, full: 66 jobs, 64 + 64 tokens: 788. A, chunk: all but
        # the last 6 jobs, in which B alone computes 81 + 3 tokens: 2110 - 60 - 84 = 1966.
        full, chunk = self.run("full", self.dear), self.run("chunk", self.dear)
        assert (full["summary"]["makespanMs"], chunk["summary"]["makespanMs"]) == (973, 2110)
        assert (of(full, "A")["e2eMs"], of(chunk, "A")["e2eMs"]) == (788, 1966)


class Nag(Monitor):
    """A client that gives B up again, whenever anything happens once B has ended."""

    def __init__(self) -> None:
        self.replica: Any = None
        self.request: Request | None = None
        self.times = 0

    def on_arrival(self, request: Request, jobs_begun: int) -> None:
        if request.id == "B":
            self.request = request

    def on_job(self, job: Job) -> None:
        if self.request is not None and self.request.ended:
            self.replica._scheduler.cancel(self.request)
            self.times += 1


class TestA6:
    """An abort or a rollback leaks: the used blocks drift up to the total, and nobody owns them."""

    def asked(self, **b: Any) -> Document:
        requests = [ask("A", 0, 64, 65), ask("B", **({"at": 0, "prompt": 112, "output": 4} | b))]
        return document(requests, {"blocks": 10, "gate": "chunk"}, token_budget=32)

    # A4 under gate chunk: B gets 31 prompt tokens at 2 and at 3 (2 and 4 blocks); A holds 5. At 4 it is preempted.
    @pytest.mark.parametrize(
        ("cancel_ms", "where", "free"),
        [  # free: from the decision at or after cancel_ms, up to the first that would have B again
            (3, "running", 5),  # in the middle of its prefill: its 2 blocks are back in the same step
            (4, "running", 5),  # cancellations come before the decision of the instant, so it was not preempted
            (4.5, "waiting", 5),  # within the job for which it was: seen at 5
            (1, "waiting", 6),  # never admitted; A has only 4 blocks yet
        ],
    )
    def test_its_blocks_are_back_at_once(self, cancel_ms: float, where: str, free: int) -> None:
        run = simulate(self.asked(cancel_ms=cancel_ms))
        assert (of(run, "B")["status"], of(run, "B")["reason"]) == ("cancelled", where)
        ended_ms = of(run, "B")["endedMs"]
        assert ended_ms == -(-cancel_ms // 1)
        after = next(event for event in run["events"] if event["startMs"] == ended_ms)
        assert (after["freeBlocks"], after["running"], after["waiting"]) == (free, ["A"], [])
        assert of(run, "A")["finishMs"] == 66

    def test_nothing_happens_to_one_that_has_ended(self) -> None:
        run, alone = simulate(self.asked(cancel_ms=72)), simulate(self.asked())
        assert of(run, "B")["status"] == "finished"
        assert (run["requests"], run["events"]) == (alone["requests"], alone["events"])

    def test_one_that_is_cancelled_before_it_comes_never_queues(self) -> None:
        run = simulate(self.asked(at=5, cancel_ms=2))
        assert (of(run, "B")["status"], of(run, "B")["reason"]) == ("cancelled", "not arrived")
        assert all(event["waiting"] == [] for event in run["events"])

    def test_a_second_abort_is_none(self) -> None:
        """That of an unknown id can't be written: ``cancel_ms`` belongs to a request."""
        scenario = sim.load(self.asked(cancel_ms=3))
        workload, _ = build(scenario)
        nag = Nag()
        nag.replica = Replica(scenario, resolve(scenario), workload, [nag], Switches(spans=False, check=True))
        nag.replica.run()
        assert nag.times == 63  # jobs that end after 3, when B went: 66 - 3
        record, nagged = sim.simulate(scenario).record, nag.replica.log.record(16)
        for name, table in (("jobs", record.jobs), ("requests", record.requests), ("schedule", record.schedule)):
            for column, values in getattr(nagged, name).items():
                assert values.tolist() == table[column].tolist()


class TestA11:
    """Preemption corrupts the metrics: a second TTFT, an ITL that starts anew, counts that do not agree."""

    # Blocks of 4, 6 of them. A and B: 2 blocks each at first, 3 from the decode at 1 on; the decode at 5 (13 tokens)
    # needs a fourth. B, the last, gives 3 back, having computed 8 + 4 = 12; A ends at 9; B computes 8 + 5 = 13 at once.
    asked = document([ask("A", 0, 8, 9), ask("B", 0, 8, 9)], {"blocks": 6, "block_tokens": 4})

    def test_every_number(self) -> None:
        run = simulate(self.asked)
        a, b = of(run, "A"), of(run, "B")
        assert a["tokenTimesMs"] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
        assert b["tokenTimesMs"] == [1, 2, 3, 4, 5, 10, 11, 12, 13]
        assert (a["ttftMs"], a["finishMs"], b["ttftMs"], b["finishMs"], b["e2eMs"]) == (1, 9, 1, 13, 13)
        assert (b["maxItlMs"], b["preemptions"], b["recomputedTokens"]) == (5, 1, 12)
        assert [event["scheduled"] for event in run["events"]][9] == [{"id": "B", "tokens": 13, "phase": "prefill"}]

    def test_the_counts_agree(self) -> None:
        run = simulate(self.asked)
        summary = run["summary"]
        assert summary["scheduledTokens"] == 32 + 12  # 2 * (8 + 9 - 1), and what was lost
        assert (summary["ttft"]["n"], summary["itl"]["n"]) == (2, 2 * (9 - 1))
        assert summary["e2e"]["mean"] * summary["e2e"]["n"] == 22  # 9 + 13
        block_ms = sum((6 - e["freeBlocks"]) * (e["endMs"] - e["startMs"]) for e in run["events"])
        assert block_ms == 60  # 4 + 4 * 6 + 8 * 4: held together, by both, then by one


class TestA12:
    """Output tokens are counted again when they are computed again, or the first, which the prefill emits, is not."""

    def test_preemption_does_not_touch_the_output(self) -> None:
        summary = simulate(TestA11.asked)["summary"]
        assert summary["outputTokensPerS"] == 18_000 / 13  # 2 * 9 tokens in 13 ms

    def test_one_output_token_is_one_and_decodes_nothing(self) -> None:
        run = simulate(document([ask("A", 0, 10, 1)]))
        assert of(run, "A")["emittedTokens"] == 1
        assert [event["kind"] for event in run["events"]] == ["prefill"]


class TestA15:
    """Jobs that take no time: progress that is measured by the clock stands still, or goes round for ever."""

    def test_progress_is_tokens(self) -> None:
        # 20 prompt tokens at 0.1 s: one job of 2 s. The four decodes (A has 5 tokens, B 3) take nothing.
        asked = [ask("A", 0, 10, 5), ask("B", 0, 10, 3)]
        run = simulate(document(asked, device={"prefill_ms_per_token": 100}))
        assert [(event["startMs"], event["endMs"]) for event in run["events"]] == [(0, 2000)] + 4 * [(2000, 2000)]
        assert each(run, "tokenTimesMs") == [5 * [2000], 3 * [2000]]
        assert each(run, "maxItlMs") == [0, 0]

    def test_a_device_on_which_nothing_takes_time_is_refused(self, headway: Command) -> None:
        code, said = headway(document([ask("A", 0, 10, 5)], device={"job_ms": 0}))
        assert code == 2
        assert "every cost is 0, so that no job takes any time; at least one above 0" in said


class TestA16:
    """Prefill first, strictly: as long as prompts arrive nobody decodes (one decode batch in 24 s)."""

    asked = (ask("D", 0, 16, 8), *(ask(f"P{i}", 100 + 900 * i, 100, 1) for i in range(10)))
    device: ClassVar = {"prefill_ms_per_token": 10, "decode_ms_per_request": 10}

    def run(self, **scheduler: Any) -> Run:
        return simulate(document(self.asked, device=self.device, **scheduler))

    @pytest.mark.parametrize("policy", ["fcfs", "vllm-v0"])
    def test_prefill_first_stalls_the_decode_to_the_end(self, policy: str) -> None:
        # D's prompt: 0.16. P0 has come: ten prompts of 1 s each, and each next one comes before the one before is done
        # (0.9 < 1): until 10.16. Then D decodes: its second token at 10.17, 10.01 after the first, its eighth at 10.23.
        run = self.run(policy=policy)
        assert (of(run, "D")["maxItlMs"], of(run, "D")["finishMs"]) == (10_010, 10_230)
        assert each(run, "ttftMs")[1:] == [1_060 + 100 * i for i in range(10)]  # 0.16 + (i + 1) - (0.1 + 0.9 i)
        assert run["summary"]["makespanMs"] == 10_230

    def test_a_mixed_job_does_not_and_no_work_is_lost(self) -> None:
        # A budget of 20: D and 19 prompt tokens, 0.2 s a job, seven times: 0.16 + 1.4 = 1.56. All together is 16 + 7 +
        # 1000 tokens of 10 ms without a gap: 10.23. P_i is served 0.2 later than above, until the last: 2.06 at P8.
        run = self.run(token_budget=20)
        assert (of(run, "D")["maxItlMs"], of(run, "D")["finishMs"]) == (200, 1_560)
        assert each(run, "ttftMs")[1:] == [*(1_260 + 100 * i for i in range(9)), 2_030]
        assert max(each(run, "ttftMs")) == of(run, "P8")["ttftMs"] == 2_060
        assert run["summary"]["makespanMs"] == 10_230


FOUR = [ask(f"R{i}", 0, 16, 49) for i in range(4)]
"""Each comes to 16 + 49 - 1 = 64 tokens, 4 blocks of 16."""


class TestA18:
    """No evictions, guaranteed, against the most use of memory: one huge ``max_tokens`` blocks all the others."""

    def test_what_is_reserved_runs_two_by_two(self) -> None:
        # 8 blocks: two of 4 each. 49 jobs, and 49 more.
        run = simulate(document(FOUR, {"blocks": 8}, policy="trtllm-no-evict"))
        assert (each(run, "finishMs"), run["summary"]["preemptions"]) == ([49, 49, 98, 98], 0)

    def test_what_is_used_to_the_full_runs_together_and_preempts(self) -> None:
        # Until 17 all four hold 2 blocks (32 tokens, 17 of them emitted). The decode at 17 needs a third for each: R3
        # and R2 give up 2 blocks and 32 tokens each. At 49 they compute 33, which emits token 18 at 50, 33 later; 31
        # more jobs: 81.
        run = simulate(document(FOUR, {"blocks": 8}, policy="trtllm-max-utilization"))
        assert each(run, "finishMs") == [49, 49, 81, 81]
        assert (each(run, "preemptions"), each(run, "recomputedTokens")) == ([0, 0, 1, 1], [0, 0, 32, 32])
        assert each(run, "maxItlMs") == [1, 1, 33, 33]

    def test_a_huge_declared_maximum_is_rejected_not_waited_for(self) -> None:
        # ceil((16 + 100000 - 1) / 16) = 6251 blocks. The others go on: two, then one.
        asked = [ask("R0", 0, 16, 49, max_tokens=100_000), *FOUR[1:]]
        run = simulate(document(asked, {"blocks": 8}, policy="trtllm-no-evict"))
        assert of(run, "R0")["reason"] == (
            "needs 6251 of 8 blocks: 16 + 100000 - 1 = 100015 tokens as declared, 16 a block"
        )
        assert each(run, "finishMs") == [None, 49, 49, 98]

    def test_what_is_reserved_is_what_was_declared_not_what_will_be(self) -> None:
        # 64 declared, 49 emitted: ceil((16 + 64 - 1) / 16) = 5 blocks, and with 4 more the 8 do not do.
        asked = [ask("R0", 0, 16, 49, max_tokens=64), *FOUR[1:]]
        run = simulate(document(asked, {"blocks": 8}, policy="trtllm-no-evict"))
        assert each(run, "finishMs") == [49, 98, 98, 147]


class TestA20:
    """Priority inversion at the slot limit; ping-pong between equals. (Preemptive priority is another order's test.)"""

    @pytest.mark.parametrize("priority", [10, 0])
    def test_without_preemption_the_urgent_one_waits_for_the_slot(self, priority: int) -> None:
        # One slot. A has it until 20: B's first token at 21, 16 after 5; its third at 23. Equal ones: just the same.
        asked = [ask("A", 0, 4, 20, priority=priority), ask("B", 5, 4, 3)]
        run = simulate(document(asked, order="priority", max_running=1))
        assert (of(run, "A")["finishMs"], of(run, "B")["ttftMs"], of(run, "B")["finishMs"]) == (20, 16, 23)
        assert run["summary"]["preemptions"] == 0


class TestA21:
    """Deferred or parked requests eat slots for ever: running 0, cache 0 %, waiting for capacity."""

    def test_slots_and_blocks_of_those_given_up_while_they_wait_return(self) -> None:
        # 2 slots, 5 blocks. H (4 blocks, a fifth from 1 on) leaves no room for X and Y, which are given up at 3. Three
        # normal ones come at 4: from 6 on, when H has ended, two at a time, two jobs each.
        asked = [
            ask("H", 0, 64, 6), ask("X", 1, 64, 2, cancel_ms=3), ask("Y", 1, 64, 2, cancel_ms=3),
            ask("N1", 4, 16, 2), ask("N2", 4, 16, 2), ask("N3", 4, 16, 2),
        ]  # fmt: skip
        run = simulate(document(asked, {"blocks": 5}, max_running=2))
        assert [(of(run, name)["status"], of(run, name)["reason"]) for name in "XY"] == 2 * [("cancelled", "waiting")]
        assert each(run, "finishMs") == [6, None, None, 8, 8, 10]
        assert [event["running"] for event in run["events"]][6:] == [["N1", "N2"], ["N1", "N2"], ["N3"], ["N3"]]

    def test_so_do_those_of_who_is_parked_on_the_host(self) -> None:
        # A18's two victims are copied out at 17, a job of 1, and given up at 20. N comes at 25 and takes their place at
        # once; nobody is copied in, and R0 and R1 end one later than without the copy.
        asked = [*FOUR[:2], *(request | {"cancel_ms": 20} for request in FOUR[2:]), ask("N", 25, 16, 2)]
        kv = {"blocks": 8, "preemption": "swap", "swap_blocks": 4}
        run = simulate(document(asked, kv, policy="trtllm-max-utilization"))
        assert [of(run, name)["reason"] for name in ("R2", "R3")] == ["swapped", "swapped"]
        assert each(run, "endedMs") == [50, 50, 20, 20, 27]
        assert [event["kind"] for event in run["events"]].count("swap") == 1


class TestA22:
    """Swap space runs out: all processing stops, or who was copied out can never come back."""

    def run(self, **kv: Any) -> Run:
        return simulate(document(FOUR, {"blocks": 8, **kv}, policy="trtllm-max-utilization"))

    def swapping(self, blocks: int) -> Run:
        return self.run(preemption="swap", swap_blocks=blocks, swap_ms_per_block=0.25)

    def swaps(self, run: Run) -> list[tuple[float, float, str, list[str]]]:
        return [
            (e["startMs"], e["endMs"], e["swapped"][0]["direction"], [copy["id"] for copy in e["swapped"]])
            for e in run["events"]
            if e["kind"] == "swap"
        ]

    def test_with_room_for_both_victims_both_are_copied(self) -> None:
        # Copying costs 4 blocks of 0.25 and the job's 1: out at 17, in when the others have ended, at 49 + 2 = 51. No
        # token is computed again: 49 - 17 = 32 decodes each from 53 on.
        run = self.swapping(4)
        assert self.swaps(run) == [(17, 19, "out", ["R3", "R2"]), (51, 53, "in", ["R2", "R3"])]
        assert (each(run, "finishMs"), run["summary"]["recomputedTokens"]) == ([51, 51, 85, 85], 0)

    def test_who_comes_back_needs_what_it_left_and_a_block_for_its_next_token(self) -> None:
        # 2 blocks each were copied, 33 tokens need 3: 8 - 2 * 3 = 2 are free with the copy in.
        (back,) = [
            e for e in self.swapping(4)["events"] if e["kind"] == "swap" and e["swapped"][0]["direction"] == "in"
        ]
        assert [copy["blocks"] for copy in back["swapped"]] == [2, 2]
        assert back["freeBlocks"] == 2

    def test_with_room_for_one_the_other_is_computed_again(self) -> None:
        # R3, the first victim, is copied (2 blocks: 1.5); R2 is not and prefills 33 tokens in the job that R3 decodes
        # in, at 50.5 + 1.5 = 52. 32 jobs each from there: 84.
        run = self.swapping(2)
        assert self.swaps(run) == [(17, 18.5, "out", ["R3"]), (50.5, 52, "in", ["R3"])]
        assert (each(run, "finishMs"), each(run, "recomputedTokens")) == ([50.5, 50.5, 84, 84], [0, 0, 32, 0])

    @pytest.mark.parametrize("blocks", [1, 0])
    def test_without_room_for_any_it_is_recomputation_to_the_last_bit(self, blocks: int) -> None:
        swapping, recomputing = self.swapping(blocks), self.run()
        for part in ("requests", "events", "summary", "work"):
            assert swapping[part] == recomputing[part]

    @pytest.mark.parametrize("blocks", [4, 2, 1, 0])
    def test_no_block_is_lost_between_device_and_host(self, blocks: int) -> None:
        out = 0
        for event in self.swapping(blocks)["events"]:
            signs = {"out": 1, "in": -1}
            out += sum(signs[copy["direction"]] * copy["blocks"] for copy in event.get("swapped", ()))
            assert 0 <= out <= blocks
        assert out == 0


class TestA23:
    """A prompt over the budget, and no chunks: it waits for ever, or returns nothing without a word."""

    # The report asks for exit 2; the design rejects such a request, for the others can be served. With --strict: 2.
    asked = document([ask("r7", 0, 2049, 1), ask("other", 0, 2048, 1)], token_budget=2048, chunked_prefill=False)
    reason = "a prefill of 2049 tokens in one job, token_budget is 2048 and chunked_prefill is false"

    def test_it_is_rejected_with_both_numbers(self) -> None:
        run = simulate(self.asked)
        assert (of(run, "r7")["status"], of(run, "r7")["reason"]) == ("rejected", self.reason)
        assert of(run, "other")["finishMs"] == 1

    def test_strictly_nothing_runs(self, headway: Command) -> None:
        assert headway(self.asked)[0] == 0
        code, said = headway(self.asked, "--strict")
        assert code == 2
        assert said.endswith(f'vllm: request "r7": {self.reason}\n')


class TestA25:
    """A group of n samples that is larger than the slots: it hangs."""

    # As for A23: rejected, and 2 with --strict.
    asked = document([ask("G", 0, 16, 4, samples=2), ask("other", 0, 16, 2)], max_running=1)

    def test_it_is_rejected_with_both_numbers(self) -> None:
        run = simulate(self.asked)
        assert (of(run, "G")["status"], of(run, "G")["reason"]) == (
            "rejected",
            "2 samples run at once, max_running is 1",
        )
        assert of(run, "other")["finishMs"] == 2

    def test_strictly_nothing_runs(self, headway: Command) -> None:
        code, said = headway(self.asked, "--strict")
        assert (code, said) == (2, 'vllm: request "G": 2 samples run at once, max_running is 1\n')


class TestA29:
    """A preempted request loses its place, or keeps one that nobody documented."""

    # The rule: under fcfs it goes to the head of the queue, under any other order to the place of its key; ties go by
    # arrival. Blocks of 4, 8 of them; the victim is who holds most. K: 1 block, A: 3, then B, which came at 1: 2.
    #   2  B's ninth token finds no block. A holds 4 (13 tokens): it goes, and has 12 + 2 tokens to compute.
    #  10  B's seventeenth finds none. B and K hold 4 each; of the two B is the last. It loses 16 tokens.
    # Now both wait, of equal priority: A came first, B was preempted last.
    def run(self, order: str) -> Run:
        asked = [ask("K", 0, 4, 16), ask("A", 0, 12, 12), ask("B", 1, 8, 12)]
        return simulate(document(asked, {"blocks": 8, "block_tokens": 4, "victim": "most-blocks"}, order=order))

    def test_first_come_first_served_puts_it_at_the_head(self) -> None:
        run = self.run("fcfs")
        assert run["events"][10]["waiting"] == ["B", "A"]
        assert each(run, "recomputedTokens") == [0, 13, 16]
        assert each(run, "finishMs") == [16, 29, 19]  # B needs 5 blocks (17 tokens): not before K has ended at 16

    def test_priority_puts_it_where_its_arrival_says(self) -> None:
        # A gets in at 11 (14 tokens, 4 free blocks) and has to go again at 13, when K needs a fifth: 15 tokens more.
        run = self.run("priority")
        assert run["events"][10]["waiting"] == ["A", "B"]
        assert each(run, "recomputedTokens") == [0, 13 + 15, 16]
        assert each(run, "finishMs") == [16, 24, 27]


class TestA30:
    """A prompt that is all in the cache: no token is scheduled, and no output comes."""

    @pytest.mark.parametrize(
        ("prompt", "hit"),
        [  # whole blocks, and at least one token is left: floor((prompt - 1) / 16) blocks
            (64, 48),
            (65, 64),
            (63, 48),
            (16, 0),
        ],
    )
    def test_at_least_one_token_is_computed(self, prompt: int, hit: int) -> None:
        group = {"prefix_group": "g", "prefix_tokens": prompt}
        asked = [ask("A", 0, prompt, 2, **group), ask("B", 10, prompt, 2, **group)]
        run = simulate(document(asked, {"blocks": 20, "prefix_cache": True}))
        assert each(run, "cachedTokens") == [0, hit]
        assert run["events"][2]["scheduled"] == [{"id": "B", "tokens": prompt - hit, "phase": "prefill"}]


class Holders(Watch):
    """How many hold each of the pool's first two blocks, as each job ends."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: list[list[int]] = []

    def on_job(self, job: Job) -> None:
        super().on_job(job)
        self.counts.append([self.memory._holders[block] for block in (0, 1)])


class TestA33:
    """Blocks that two share are freed twice: a count of -1, or more free blocks than there are."""

    def test_a_shared_block_is_free_when_the_last_holder_gives_it_back(self) -> None:
        # 32 common tokens: 2 blocks. A has a third one, B from 1 on also one of its own: 8 - 4 = 4 free. A ends at 2,
        # and only its third block is free again: 5. After B's end all 8 are (as in every run here).
        group = {"prefix_group": "g", "prefix_tokens": 32}
        asked = [ask("A", 0, 34, 2, **group), ask("B", 1, 34, 4, **group)]
        watch = Holders()
        run = simulate(document(asked, {"blocks": 8, "prefix_cache": True}), watch)
        assert [event["freeBlocks"] for event in run["events"]] == [5, 4, 5, 5, 5]
        assert watch.counts == [[1, 1], [2, 2], [1, 1], [1, 1], [1, 1]]
        assert not any(watch.memory._holders.values())


class TestA34:
    """Hits are counted when admission fails, or a request's own recomputation counts as reuse (30 % for 0.2 %)."""

    def test_what_a_request_finds_of_its_own_is_counted_apart(self) -> None:
        # A11 with the cache on. B waits from 5 to 9 at the head, looked at each time: nothing is counted. At its return
        # it finds 2 of its 3 blocks: 8 tokens; the third, its tail, A took at 5. Of the other's it finds nothing.
        asked = TestA11.asked | {"kv": TestA11.asked["kv"] | {"prefix_cache": True}}
        run = simulate(asked)
        assert each(run, "cachedTokens") == [0, 0]
        assert each(run, "cachedOnResumeTokens") == [0, 8]
        assert run["summary"]["scheduledTokens"] == 44 - 8


class TestA37:
    """A watermark keeps out for ever what would just fit (1 % of 100 blocks, a prompt of 100)."""

    @pytest.mark.parametrize(("policy", "kv"), [("vllm", {"watermark_blocks": 1}), ("sarathi", {}), ("vllm-v0", {})])
    def test_it_does_not_hold_on_an_idle_server(self, policy: str, kv: Mapping[str, Any]) -> None:
        whole = document([ask("A", 0, 1600, 1)], {"blocks": 100, **kv}, policy=policy)
        assert sim.simulate(sim.load(whole)).settings["kv.watermark_blocks"] == 1
        assert of(simulate(whole), "A")["finishMs"] == 1


class TestA44:
    """Slots share one pool, each thinks that it owns it: one overflow ends all of them."""

    def test_only_the_offender_is_refused(self) -> None:
        # 64 blocks, 4 slots. 1100 + 10 - 1 tokens are 70 blocks. The others need ceil((600 + 20 - 1) / 16) = 39 each,
        # so one at a time: 20 jobs each.
        asked = [ask("big", 0, 1100, 10), *(ask(f"S{i}", 0, 600, 20) for i in range(4))]
        run = simulate(document(asked, {"blocks": 64}, max_running=4))
        assert of(run, "big")["reason"] == "needs 70 of 64 blocks: 1100 + 10 - 1 = 1109 tokens, 16 a block"
        assert each(run, "finishMs") == [None, 20, 40, 60, 80]

    def test_slots_that_outgrow_the_pool_together_are_all_served(self) -> None:
        # 4 slots with 16 blocks of prompt each, all 64. The second token of S0 takes S3's blocks.
        asked = [ask(f"S{i}", 0, 256, 100) for i in range(4)]
        run = simulate(document(asked, {"blocks": 64}, max_running=4))
        assert run["events"][1]["preempted"] == ["S3"]
        assert each(run, "status") == 4 * ["finished"]


class TestA45:
    """An impossible configuration is silently replaced by a default (a million blocks)."""

    @pytest.mark.parametrize(
        ("kv", "complaint"),
        [
            ({"blocks": 0}, "kv.blocks = 0: too small; at least 1"),
            ({"blocks": 8, "block_tokens": 0}, "kv.block_tokens = 0: too small; at least 1"),
            ({}, "kv: neither blocks nor memory_gib; exactly one of them"),
        ],
    )
    def test_it_is_refused(self, headway: Command, kv: Mapping[str, Any], complaint: str) -> None:
        whole = document([ask("A", 0, 16, 2)], kv)
        with pytest.raises(ScenarioError):
            sim.load(whole)
        code, said = headway(whole)
        assert code == 2
        assert complaint in said


class TestA46:
    """An allocation is retried although no capacity was gained; the plan and its execution see different states."""

    @pytest.mark.parametrize(
        "whole",
        [
            document(TestA4.asked, {"blocks": 10, "gate": "chunk"}, token_budget=32),
            TestA11.asked,
            document(FOUR, {"blocks": 8}, policy="trtllm-max-utilization"),
            document([ask(n, 0, p, 5) for n, p in (("A", 4), ("B", 4), ("C", 3))], {"blocks": 3, "block_tokens": 4}),
        ],
        ids=["A4", "A11", "A18", "two in one job"],
    )
    def test_each_preemption_gains_blocks_and_each_job_does_work(self, whole: Document) -> None:
        run = simulate(whole)
        running: list[str] = []
        assert run["summary"]["preemptions"]
        for event in run["events"]:
            assert set(event["preempted"]) <= set(running)
            assert len(event["preempted"]) == len(set(event["preempted"]))
            assert event["scheduled"]
            running = event["running"]
        for request in run["requests"]:  # who has computed tokens holds blocks
            assert request["recomputedTokens"] >= request["preemptions"]


class TestB2:
    """Not a report but a trap: "a larger budget never hurts" is wrong, as Graham's anomalies are for any list."""

    @pytest.mark.parametrize(("budget", "makespan"), [(8, 3), (10, 4)])
    def test_a_larger_budget_may_hurt(self, budget: int, makespan: int) -> None:
        # Blocks of 4, 4 of them. With 8, b's prompt is cut at 3, so b needs its second block a job later: c finds one
        # free at 1, and all end at 3. With 10, b decodes at 1 and takes the last block: c waits for the ends at 2.
        asked = [ask("a", 0, 5, 2), ask("b", 0, 4, 2), ask("c", 1, 4, 2)]
        run = simulate(document(asked, {"blocks": 4, "block_tokens": 4}, token_budget=budget))
        assert run["summary"]["makespanMs"] == makespan
