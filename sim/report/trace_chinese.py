"""The texts of ``headway trace`` in Chinese."""
# ruff: noqa: RUF001 (full-width punctuation)

from collections.abc import Mapping

CHINESE_TEXTS: Mapping[str, str] = {
    "head": "{path}：{rows:,} 个请求，格式 {format}",
    "span": "跨度", "seconds": "{seconds:,.3f} s", "rate": "速率", "per_s": "{rate:.4g}/s",
    "gaps": "间隔变异系数", "dispersion": "方差均值比", "ties": "时刻",
    "tied": "{distinct:,} 个不同时刻；{tied:,} 个请求与别的同时到达，最多一次 {most} 个",
    "tick": "；均为 {tick:,} ns 的倍数",
    "prompt": "提示词元", "output": "输出词元",
    "lengths": "均值 {mean:,.1f}，p50 {p50:,.0f}，p90 {p90:,.0f}，p99 {p99:,.0f}，最小 {min:,}，最大 {max:,}",
    "correlation": "相关", "of_ranks": "秩相关 {ranks}，Pearson {pearson}",
    "sharing": "共享",
    "shared": "{ids:,} 个不同的块；无限大的前缀缓存可命中提示词元的 {share:.1%}",
    "arrivals": "到达，每格 {bin} s，最多 {most:,}",
    "note": "说明", "warning": "注意",
    "slow": "每秒 {ratePerS:.3g} 个请求：毫秒是否被读成了秒？（unit）",
    "fast": "每秒 {ratePerS:,.0f} 个请求：秒是否被读成了毫秒？（unit）",
    "ticks": "时刻按节拍记录：只有 {distinctTimes:,} 个不同时刻，最多同时 {mostAtOnce:,} 个；"
             "突发可能来自记录方式，同时到达的按文件顺序",
    "unsorted": "{rows:,} 行排在更晚的行之后；已按到达时间排序",
    "zero": '{rows:,} 行没有提示或输出词元：除非 zero_tokens = "skip"，运行会拒绝',
    "covered": "块只覆盖提示词元的 {share:.1%}：块的大小对吗？（hash_block_tokens）",
    "untimed": "没有到达时间：运行时须在轨迹旁给出 workload.arrivals",
}  # fmt: skip
