"""English, in the words of the glossary."""

from collections.abc import Sequence
from typing import ClassVar

from sim.capacity import Ledger
from sim.engine.plan import Blocked
from sim.report.texts import FIRST, LAST, NB, STALL, Texts
from sim.request import Status


def _some(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


class English(Texts):
    """In the words of the glossary."""

    label: ClassVar = {
        "claim": "Claim", "device": "Device", "request": "request", "status": "status", "metric": "metric",
        "ttft": "TTFT", "max_itl": "max ITL", "e2e": "E2E", "queue": "queue", "itl": "ITL", "tpot": "TPOT",
        "mean": "mean", "max": "max", "gained": "gained", "lost": "lost", "unchanged": "unchanged",
        "finished": "finished", "overall": "overall",
        "memory": "memory", "pool": "pool", "queue_head": "admission", "work": "work", "swap": "swap", "cache": "cache",
        "tenant": "tenants",
        "result": "result", "theory": "theory", "simulated": "simulated", "standard_error": "std. error",
        "error": "error", "verdict": "verdict", "does_not_apply": "What does not apply, and why",
    }  # fmt: skip
    metric: ClassVar = {FIRST: "first token", STALL: "longest stall", LAST: "last token"}
    status: ClassVar = {
        Status.FINISHED: "finished", Status.REJECTED: "rejected",
        Status.CANCELLED: "cancelled", Status.UNFINISHED: "unfinished",
    }  # fmt: skip
    reason: ClassVar = {"running": "running", "waiting": "waiting", "not arrived": "not arrived"}
    kept_out_by: ClassVar = {
        Blocked.BLOCKS: "blocks", Blocked.HOLES: "holes", Blocked.SLOTS: "slots", Blocked.BUDGET: "budget",
        Blocked.SWAPPED: "swapped requests first",
    }  # fmt: skip
    legend_of_requests: ClassVar = (
        "From its arrival, a request waits for its first token (TTFT), its last (E2E) and its first job (queue); "
        "max ITL is its longest stall between two tokens. Makespan: first arrival to last token."
    )
    legend_of_quantiles: ClassVar = (
        "Over finished requests: from arrival to the first token (TTFT), the last (E2E) and the first job (queue); "
        "ITL, each gap between two tokens of a request; TPOT, their mean in a request. "
        "Makespan: first arrival to last token."
    )
    legend_of_pool: ClassVar = (
        "Blocks in use are weighted by the time of jobs. Recomputed: tokens lost by preemption; wasted: scheduled "
        "tokens that no finished request needed for the first time; both as shares of what was scheduled."
    )
    caveat: ClassVar = "All this holds for this trace on this device only."
    semicolon: ClassVar = "; "
    comma: ClassVar = ", "
    colon: ClassVar = ": "
    nobody_to_compare: ClassVar = "No request finished under either: there is nobody to compare."
    other_requests: ClassVar = "The two runs serve different requests: nobody can be compared with themselves."
    other_loads: ClassVar = "The two runs do not serve the same load: requests of the same name are compared."

    _NUMBERS = (
        "none",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
    )

    def names(self, names: Sequence[str]) -> str:
        return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

    def workload(self, requests: int, prompt_tokens: int, output_tokens: int) -> str:
        return f"{self.requests(requests)}, {prompt_tokens:,} prompt and {output_tokens:,} output tokens"

    def totals(self, makespan: str, jobs: int) -> str:
        return f"makespan{NB}{makespan}, {_some(jobs, 'job')}"

    def totals_changed(self, makespan: str, jobs: str) -> str:
        return f"makespan {makespan}, jobs {jobs}"

    def finished(self, finished: int, requests: int) -> str:
        if finished < requests:
            return f"{finished:,} of {self.requests(requests)} finished"
        return "finished" if requests == 1 else f"all {self.requests(requests)} finished"

    def load(self, arrival: str | None, saturation: str | None, load: str | None, *, too_much: bool) -> str:
        comes = f"λ{NB}{arrival}/s arrive" if arrival else "all arrive at one instant"
        most = f"λ*{NB}{saturation}/s can be served" if saturation else "a larger batch takes no longer"
        where = "at or above saturation" if too_much else "below saturation"
        return f"{comes}, {most}" + (f": load{NB}{load}, {where}" if load else "")

    def preempted(self, times: int, recomputed_tokens: int) -> str:
        return f"{_some(times, 'preemption')}, {_some(recomputed_tokens, 'token')} recomputed"

    def ledger(self, ledger: Ledger) -> str:
        blocks = f"{ledger.blocks:,} {'block fits' if ledger.blocks == 1 else 'blocks fit'}"
        return (
            f"{ledger.memory_gib.normalize():f}{NB}GiB = {ledger.memory_bytes:,}{NB}B; "
            f"one block of {_some(ledger.block_tokens, 'token')} takes {ledger.block_tokens:,} * "
            f"{ledger.kv_bytes_per_token:,} = {ledger.block_bytes:,}{NB}B; {blocks}"
        )

    def water_level(self, blocks: int, lowest: int, mean: str, p99: int, highest: int) -> str:
        return f"of {_some(blocks, 'block')} in use: min {lowest:,}, mean {mean}, p99 {p99:,}, max {highest:,}"

    def admitted(self, times: int) -> str:
        return _some(times, "admission")

    def kept_out(self, jobs: int, reasons: Sequence[tuple[Blocked, int]], behind: str | None) -> str:
        why = ", ".join(f"{self.kept_out_by[reason]} {count:,}" for reason, count in reasons)
        others = f", with a mean of {behind} requests behind it" if behind else ""
        return f"head of the queue kept out in {_some(jobs, 'job')} ({why}){others}"

    def work(self, scheduled: int, recomputed: tuple[int, str], wasted: tuple[int, str]) -> str:
        (lost, of_lost), (waste, of_waste) = recomputed, wasted
        return f"{_some(scheduled, 'token')} scheduled; {lost:,} ({of_lost}) recomputed, {waste:,} ({of_waste}) wasted"

    def swapped(self, times: int, blocks_out: int, blocks_in: int) -> str:
        return f"{_some(times, 'preemption')} to the host; {_some(blocks_out, 'block')} out, {blocks_in:,} in"

    def cached(self, at_first: int, on_resume: int) -> str:
        return f"{_some(at_first, 'token')} found at first admission, {on_resume:,} on resume"

    def tenant(self, name: str, counts: tuple[int, int], ttft: Sequence[str], e2e: Sequence[str]) -> str:
        finished, requests = counts
        of_all = f"{finished:,}" if finished == requests else f"{finished:,} of {requests:,}"
        return (f"{name}: {of_all} finished; first token p50 {ttft[0]}, p99 {ttft[1]} ms; "
                f"last token p50 {e2e[0]}, p99 {e2e[1]} ms")  # fmt: skip

    def more(self, count: int) -> str:
        return f"{count:,} more"

    def against(self, new: str, old: str) -> str:
        return f"{new} against {old}"

    def whose(self, metric: str, figures: Sequence[tuple[str, str]]) -> str:
        (name, first), *rest = figures
        return ", ".join([f"{name}'s {self.metric[metric]} {first}", *(f"{name}'s{NB}{text}" for name, text in rest)])

    def how_many(self, metric: str, count: int, of: int) -> str:
        return f"{self.metric[metric]} of {count:,} of {self.requests(of)}"

    def what_share(self, metric: str, count: int, share: str) -> str:
        return f"{self.metric[metric]} of {self.requests(count)} ({share})"

    def most(self, name: str, figures: str) -> str:
        return f", most of all {name}'s, {figures}"

    def only_under(self, who: str, run: str) -> str:
        return f"{who} under {run} only"

    def under_neither(self, who: str) -> str:
        return f"{who} under neither"

    def requests(self, count: int) -> str:
        return _some(count, "request")

    def nobody_notices(self, *, makespan_differs: bool) -> str:
        return f"Nobody notices a difference{'; only the makespan differs' if makespan_differs else ''}."

    def all_in_everything(self, run: str, names: Sequence[str], count: int, *, better: bool) -> str:
        return f"{run} is {self._better(better)} for {self._all(names, count)}, in everything."

    def all_in_something(self, run: str, names: Sequence[str], count: int, *, better: bool) -> str:
        whom, opposite = self._all(names, count), self._better(not better)
        return f"{run} is {self._better(better)} for {whom} in something, and {opposite} for nobody in anything."

    def some(self, run: str, names: Sequence[str], count: int, of: int, *, better: bool) -> str:
        whom = self.names(names) if names else f"{count:,} of {of:,}"
        return f"{run} is {self._better(better)} for {whom}, and {self._better(not better)} for nobody."

    def gain_and_lose(self, names: Sequence[str], count: int) -> str:
        return f"{self._who(names, count)} {'gains and loses' if count == 1 else 'gain and lose'}"

    def only_gain(self, names: Sequence[str], count: int) -> str:
        return f"{self._who(names, count)} only {'gains' if count == 1 else 'gain'}"

    def only_lose(self, names: Sequence[str], count: int) -> str:
        return f"{self._who(names, count)} only {'loses' if count == 1 else 'lose'}"

    def no_winner(self, names: Sequence[str], count: int, kind: str) -> str:
        which = "neither" if kind == "run" else f"no {kind}"
        return f"{which} is better {'in everything' if count == 1 else f'for {self._all(names, count)}'}."

    def best_of_all(self, runs: Sequence[str], of: int, names: Sequence[str], count: int) -> str:
        if len(runs) == of:
            return f"All {self._number(of)} runs are the same to everybody."
        whom = self._all(names, count)
        if not runs:
            return f"None of the {self._number(of)} runs is the best for {whom} in everything."
        verb, others = ("is", "any other run") if len(runs) == 1 else ("are alike, and", "any other run")
        return f"{self.names(runs)} {verb} as good as {others} or better, for {whom} in everything."

    def replications(self, runs: int, requests: int | None, seed: int) -> str:
        each = "" if requests is None else f" of {self.requests(requests)}"
        if runs == 1:
            return f"one run{each}, seed {seed}"
        return f"{runs:,} replications{each}, seeds {seed} to {seed + runs - 1}"

    def verdict(self, verdict: str) -> str:
        return verdict

    def progress(self, run: str, ended: int, total: int | None, seconds: str) -> str:
        done = self.requests(ended) if total is None else f"{ended:,} of {self.requests(total)}"
        return f"{run}: {done} done, {seconds} s simulated"

    def _better(self, better: bool) -> str:  # noqa: FBT001
        return "better" if better else "worse"

    def _who(self, names: Sequence[str], count: int) -> str:
        return self.names(names) if names else f"{count:,}"

    def _all(self, names: Sequence[str], count: int) -> str:
        if count == 1 and names:
            return names[0]
        return "both" if count == 2 else f"all {self._number(count)}"

    def _number(self, count: int) -> str:
        return self._NUMBERS[count] if count < len(self._NUMBERS) else f"{count:,}"
