# ruff: noqa: RUF001 -- full-width punctuation is what Chinese is written with
"""Chinese, in the words of the lesson that this project implements: 首 token, 最长停顿, 全批结束, 提交, 策略."""

from collections.abc import Sequence
from typing import ClassVar

from sim.capacity import Ledger
from sim.engine.plan import Blocked
from sim.report.texts import FIRST, LAST, NB, STALL, Texts
from sim.request import Status


class Chinese(Texts):
    """No plurals, no articles; full-width punctuation."""

    label: ClassVar = {
        "claim": "主张", "device": "设备", "request": "请求", "status": "状态", "metric": "指标",
        "ttft": "TTFT", "max_itl": "最大 ITL", "e2e": "E2E", "queue": "排队", "itl": "ITL", "tpot": "TPOT",
        "mean": "平均", "max": "最大", "gained": "改善", "lost": "变差", "unchanged": "不变",
        "finished": "完成", "overall": "整批",
        "memory": "内存", "pool": "块池", "queue_head": "准入", "work": "工作", "swap": "换出", "cache": "缓存",
        "tenant": "租户",
        "result": "结论", "theory": "理论", "simulated": "仿真", "standard_error": "标准误差",
        "error": "偏差", "verdict": "判定", "does_not_apply": "不适用的及原因",
    }  # fmt: skip
    metric: ClassVar = {FIRST: f"首{NB}token", STALL: "最长停顿", LAST: f"末{NB}token"}
    status: ClassVar = {
        Status.FINISHED: "完成", Status.REJECTED: "拒绝", Status.CANCELLED: "取消", Status.UNFINISHED: "未完成",
    }  # fmt: skip
    reason: ClassVar = {"running": "执行中", "waiting": "等待中", "not arrived": "尚未到达"}
    kept_out_by: ClassVar = {
        Blocked.BLOCKS: "块不够", Blocked.HOLES: "没有够大的连续空间", Blocked.SLOTS: "名额已满",
        Blocked.BUDGET: "预算用完", Blocked.SWAPPED: "换出的先回来",
    }  # fmt: skip
    legend_of_requests: ClassVar = (
        "TTFT、E2E、排队分别是从到达到首 token、末 token、第一次执行的时间；最大 ITL 是两个 token 之间的最长停顿；"
        "全批结束从最早的到达算起。"
    )
    legend_of_quantiles: ClassVar = (
        "只统计完成的请求。TTFT、E2E、排队分别是从到达到首 token、末 token、第一次执行的时间；"
        "ITL 是每两个相邻 token 的间隔；TPOT 是一条请求的平均间隔；全批结束从最早的到达算起。"
    )
    legend_of_pool: ClassVar = (
        "使用中的块按提交的时长加权。重算：抢占丢掉的 tokens；"
        "浪费：安排过的 tokens 里，不是任何完成的请求第一次所需的；两者都给出占全部安排的比例。"
    )
    caveat: ClassVar = "以上结论限定到当前 trace 和这台设备。"
    semicolon: ClassVar = "；"
    comma: ClassVar = "，"
    colon: ClassVar = "："
    nobody_to_compare: ClassVar = "两次运行都没有请求完成，无从比较。"
    other_requests: ClassVar = "两次运行的请求不同，不能逐条比较。"
    other_loads: ClassVar = "两次运行的负载不同，只按名称逐条比较。"

    def sentences(self, *sentences: str) -> str:
        return "".join(sentences)

    def in_brackets(self, text: str) -> str:
        return f"（{text}）"

    def names(self, names: Sequence[str]) -> str:
        return "、".join(names)

    def workload(self, requests: int, prompt_tokens: int, output_tokens: int) -> str:
        return f"{self.requests(requests)}，输入 {prompt_tokens:,} tokens，输出 {output_tokens:,} tokens"

    def totals(self, makespan: str, jobs: int) -> str:
        return f"全批结束{NB}{makespan}，提交 {jobs:,} 次"

    def totals_changed(self, makespan: str, jobs: str) -> str:
        return f"全批结束 {makespan}，提交 {jobs} 次"

    def finished(self, finished: int, requests: int) -> str:
        if finished < requests:
            return f"{self.requests(requests)}中 {finished:,} 条完成"
        return "请求已完成" if requests == 1 else f"{self.requests(requests)}全部完成"

    def load(self, arrival: str | None, saturation: str | None, load: str | None, *, too_much: bool) -> str:
        comes = f"到达{NB}λ{NB}{arrival}/s" if arrival else "全部同时到达"
        most = f"饱和{NB}λ*{NB}{saturation}/s" if saturation else "批再大也不更慢"
        where = "达到或超过饱和" if too_much else "低于饱和"
        return f"{comes}，{most}" + (f"：负载{NB}{load}，{where}" if load else "")

    def preempted(self, times: int, recomputed_tokens: int) -> str:
        return f"抢占 {times:,} 次，重算 {recomputed_tokens:,} tokens"

    def ledger(self, ledger: Ledger) -> str:
        return (
            f"{ledger.memory_gib.normalize():f}{NB}GiB = {ledger.memory_bytes:,}{NB}B；"
            f"每块 {ledger.block_tokens:,} tokens 占 {ledger.block_tokens:,} * {ledger.kv_bytes_per_token:,} = "
            f"{ledger.block_bytes:,}{NB}B；放得下 {ledger.blocks:,} 块"
        )

    def water_level(self, blocks: int, lowest: int, mean: str, p99: int, highest: int) -> str:
        return f"共 {blocks:,} 块，使用中最少 {lowest:,}，平均 {mean}，p99 {p99:,}，最多 {highest:,}"

    def admitted(self, times: int) -> str:
        return f"准入 {times:,} 次"

    def kept_out(self, jobs: int, reasons: Sequence[tuple[Blocked, int]], behind: str | None) -> str:
        why = "，".join(f"{self.kept_out_by[reason]} {count:,}" for reason, count in reasons)
        others = f"，身后平均有 {behind} 条请求" if behind else ""
        return f"队首在 {jobs:,} 次提交中进不来（{why}）{others}"

    def work(self, scheduled: int, recomputed: tuple[int, str], wasted: tuple[int, str]) -> str:
        (lost, of_lost), (waste, of_waste) = recomputed, wasted
        return f"安排 {scheduled:,} tokens；重算 {lost:,}（{of_lost}），浪费 {waste:,}（{of_waste}）"

    def swapped(self, times: int, blocks_out: int, blocks_in: int) -> str:
        return f"抢占到主机 {times:,} 次；换出 {blocks_out:,} 块，换回 {blocks_in:,} 块"

    def cached(self, at_first: int, on_resume: int) -> str:
        return f"首次准入命中 {at_first:,} tokens，恢复时命中 {on_resume:,} tokens"

    def tenant(self, name: str, counts: tuple[int, int], ttft: Sequence[str], e2e: Sequence[str]) -> str:
        finished, requests = counts
        of_all = f"{finished:,} 条" if finished == requests else f"{requests:,} 条中 {finished:,} 条"
        return (f"{name}：{of_all}完成；首 token p50 {ttft[0]}、p99 {ttft[1]} ms；"
                f"末 token p50 {e2e[0]}、p99 {e2e[1]} ms")  # fmt: skip

    def more(self, count: int) -> str:
        return f"另外 {count:,} 条"

    def against(self, new: str, old: str) -> str:
        return f"{new} 对照 {old}"

    def whose(self, metric: str, figures: Sequence[tuple[str, str]]) -> str:
        (name, first), *rest = figures
        return "，".join(
            [f"{name} 的{self.metric[metric]} {first}", *(f"{name}{NB}的{NB}{text}" for name, text in rest)]
        )

    def how_many(self, metric: str, count: int, of: int) -> str:
        return f"{self.requests(of)}中 {count:,} 条的{self.metric[metric]}"

    def what_share(self, metric: str, count: int, share: str) -> str:
        return f"{self.requests(count)}（{share}）的{self.metric[metric]}"

    def most(self, name: str, figures: str) -> str:
        return f"，变化最大的是 {name}：{figures}"

    def only_under(self, who: str, run: str) -> str:
        return f"{who} 只在 {run} 下完成"

    def under_neither(self, who: str) -> str:
        return f"{who} 两次都没有完成"

    def requests(self, count: int) -> str:
        return f"{count:,} 条请求"

    def nobody_notices(self, *, makespan_differs: bool) -> str:
        return f"没有人会察觉差别{'，只有全批结束不同' if makespan_differs else ''}。"

    def all_in_everything(self, run: str, names: Sequence[str], count: int, *, better: bool) -> str:
        return f"换成 {run}，{self._all(names, count)}各项都{self._better(better)}。"

    def all_in_something(self, run: str, names: Sequence[str], count: int, *, better: bool) -> str:
        return (
            f"换成 {run}，{self._all(names, count)}都有{self._better(better)}的一项，没有{self._better(not better)}的。"
        )

    def some(self, run: str, names: Sequence[str], count: int, of: int, *, better: bool) -> str:
        whom = self.names(names) if names else f"{self.requests(of)}中 {count:,} 条"
        return f"换成 {run}，{whom} {self._better(better)}，没有请求{self._better(not better)}。"

    def gain_and_lose(self, names: Sequence[str], count: int) -> str:
        return f"{self._who(names, count)}有得有失"

    def only_gain(self, names: Sequence[str], count: int) -> str:
        return f"{self._who(names, count)}只改善"

    def only_lose(self, names: Sequence[str], count: int) -> str:
        return f"{self._who(names, count)}只变差"

    def no_winner(self, names: Sequence[str], count: int, kind: str) -> str:
        which = {"policy": "没有哪种策略", "setting": "没有哪种设置", "run": "没有一方"}[kind]
        return f"{which}对 {self._all(names, count)}{'各项' if count == 1 else ''}都更好。"

    def best_of_all(self, runs: Sequence[str], of: int, names: Sequence[str], count: int) -> str:
        if len(runs) == of:
            return f"{of:,} 次运行对所有请求都一样。"
        whom = self._all(names, count)
        if not runs:
            return f"{of:,} 次运行中，没有一次在各项上对 {whom}都最好。"
        return f"{self.names(runs)} 对 {whom}各项都不比其他任何一次差。"

    def replications(self, runs: int, requests: int | None, seed: int) -> str:
        each = "" if requests is None else f"，每次 {self.requests(requests)}"
        return f"独立运行 {runs:,} 次{each}，种子 {seed}" + (f"–{seed + runs - 1}" if runs > 1 else "")

    def verdict(self, verdict: str) -> str:
        known = {"agrees": "一致", "differs": "不一致", "not judged: one replication": "未判定：只运行一次"}
        short = verdict.replace("not judged: too short; it takes", "未判定：太短，需要").replace("requests", "条请求")
        return known.get(verdict) or short.replace("approximation within", "近似，误差不超过")

    def progress(self, run: str, ended: int, total: int | None, seconds: str) -> str:
        done = f"已结束 {self.requests(ended)}" if total is None else f"{self.requests(total)}中 {ended:,} 条已结束"
        return f"{run}：{done}，模拟到 {seconds} s"

    def _better(self, better: bool) -> str:  # noqa: FBT001
        return "改善" if better else "变差"

    def _who(self, names: Sequence[str], count: int) -> str:
        return f"{self.names(names)} " if names else f"{count:,} 条"

    def _all(self, names: Sequence[str], count: int) -> str:
        return f"{names[0]} " if count == 1 and names else f"{count:,} 条请求"
