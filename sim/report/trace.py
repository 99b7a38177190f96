"""What ``headway trace`` prints: the figures of a trace, its arrivals and lengths drawn in the terminal, warnings."""

from collections.abc import Iterator, Mapping, Sequence
from shutil import get_terminal_size

import numpy as np

from sim.analysis.traced import Report, Warned
from sim.clock import NS_PER_S
from sim.report.language import CHINESE
from sim.report.names import encodable, visible
from sim.report.trace_chinese import CHINESE_TEXTS
from sim.request import Ints
from sim.workload.trace_stats import Lengths

BLOCKS, SIGNS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"
BAR, SIGN_BAR = "█", "#"
WIDEST, NARROWEST = 72, 8
LABEL = 16

ENGLISH_TEXTS: Mapping[str, str] = {
    "head": "{path}: {rows:,} requests, format {format}",
    "span": "span", "seconds": "{seconds:,.3f} s", "rate": "rate", "per_s": "{rate:.4g}/s",
    "gaps": "gaps: CV", "dispersion": "variance-to-mean", "ties": "times",
    "tied": "{distinct:,} different; {tied:,} requests share theirs, at most {most} at once",
    "tick": "; all are multiples of {tick:,} ns",
    "prompt": "prompt tokens", "output": "output tokens",
    "lengths": "mean {mean:,.1f}, p50 {p50:,.0f}, p90 {p90:,.0f}, p99 {p99:,.0f}, min {min:,}, max {max:,}",
    "correlation": "correlation", "of_ranks": "of ranks {ranks}, Pearson {pearson}",
    "sharing": "sharing",
    "shared": "{ids:,} different ids; an infinite prefix cache would serve {share:.1%} of the prompt tokens",
    "arrivals": "arrivals, {bin} s each, most {most:,}",
    "note": "note", "warning": "warning",
    "slow": "{ratePerS:.3g} requests per second: are the times ms that are read as s? (unit)",
    "fast": "{ratePerS:,.0f} requests per second: are the times s that are read as ms? (unit)",
    "ticks": "times tick: {distinctTimes:,} different ones, up to {mostAtOnce:,} requests at once; bursts may be the "
             "recorder's, and ties are served in the order of the file",
    "unsorted": "{rows:,} rows stand behind a later one; they are put in order of arrival",
    "zero": '{rows:,} rows without prompt or output tokens: a run refuses them unless zero_tokens = "skip"',
    "covered": "ids stand for only {share:.1%} of the prompt tokens: is the size of their blocks right? "
               "(hash_block_tokens)",
    "untimed": "no times of arrival: a run needs workload.arrivals beside the trace",
}  # fmt: skip


def lines(report: Report, *, lang: str, encoding: str) -> Iterator[str]:
    """The answer for people, line by line; in signs of ASCII where the output can hold no others."""
    texts = CHINESE_TEXTS if lang == CHINESE and encodable(CHINESE_TEXTS["span"], encoding) else ENGLISH_TEXTS
    width = max(min(get_terminal_size(fallback=(100, 0)).columns - LABEL, WIDEST), NARROWEST)
    blocks, bar = (BLOCKS, BAR) if encodable(BLOCKS, encoding) else (SIGNS, SIGN_BAR)
    found, rows = report.stats, report.rows
    yield texts["head"].format(path=visible(report.path), rows=found.arrivals.n, format=rows.format)
    for key, value in _figures(report, texts):
        yield f"  {texts[key]}: {value}"
    if rows.timed and found.arrivals.span_ns:
        counts, seconds = per_bin(report.workload.arrival_ns, found.arrivals.span_ns, width)
        yield f"  {texts['arrivals'].format(bin=f'{seconds:.4g}', most=int(counts.max()))}"
        yield f"    |{''.join(level(count, int(counts.max()), blocks) for count in counts.tolist())}|"
    for key, tokens in (("prompt", report.workload.prompt_tokens), ("output", report.workload.output_tokens)):
        yield f"  {texts[key]}"
        yield from histogram(tokens, max(width - 24, NARROWEST), bar)
    yield from (f"{texts['note']}: {note}" for note in rows.notes)
    yield from (f"{texts['warning']}: {warning(warned, texts)}" for warned in report.warnings)


def warning(warned: Warned, texts: Mapping[str, str] = ENGLISH_TEXTS) -> str:
    return texts[warned.what].format(**warned.figures)


def _figures(report: Report, texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    found = report.stats
    if report.rows.timed:
        yield "span", texts["seconds"].format(seconds=found.arrivals.span_ns / NS_PER_S)
        if found.arrivals.rate_per_s is not None:
            yield "rate", texts["per_s"].format(rate=found.arrivals.rate_per_s)
        yield "gaps", _figure(found.arrivals.gap_cv)
        yield (
            "dispersion",
            ", ".join(f"{_figure(value)} ({seconds} s)" for seconds, value in found.arrivals.dispersion.items()),
        )
        tied = texts["tied"].format(distinct=found.distinct_times, tied=found.tied, most=found.most_at_once)
        yield "ties", tied + (texts["tick"].format(tick=found.tick_ns) if found.tick_ns else "")
    for key, lengths in (("prompt", found.prompt), ("output", found.output)):
        if lengths is not None:
            yield key, _lengths(lengths, texts)
    pair = {"ranks": _figure(found.rank_correlation), "pearson": _figure(found.correlation)}
    yield "correlation", texts["of_ranks"].format(**pair)
    if found.sharing is not None:
        share = found.sharing.served_tokens / max(int(report.workload.prompt_tokens.sum()), 1)
        yield "sharing", texts["shared"].format(ids=found.sharing.ids, share=share)


def _lengths(lengths: Lengths, texts: Mapping[str, str]) -> str:
    return texts["lengths"].format(**lengths._asdict())


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def per_bin(times_ns: Ints, span_ns: int, bins: int) -> tuple[Ints, float]:
    """Arrivals in each of ``bins`` equal parts of the span (the last holds its end), and their length in s."""
    places = np.minimum((times_ns - times_ns.min()) * bins // max(span_ns, 1), bins - 1)
    if span_ns * bins >= 2**62:
        places = np.minimum((times_ns - times_ns.min()) // -(-span_ns // bins), bins - 1)
    return np.bincount(places, minlength=bins).astype(np.int64), span_ns / bins / NS_PER_S


def level(count: int, most: int, signs: Sequence[str]) -> str:
    """None has the first sign, any the second at least, the most the last."""
    return signs[0] if not count else signs[1 + (count * (len(signs) - 2)) // most]


def histogram(tokens: Ints, width: int, bar: str) -> Iterator[str]:
    """A bar for each power of two from the shortest length to the longest."""
    if not len(tokens):
        return
    powers = np.frexp(tokens.astype(float))[1] - 1
    counts = np.bincount(powers)
    most = int(counts.max())
    for power in range(int(powers.min()), len(counts)):
        low, high = 1 << power, (2 << power) - 1
        count = int(counts[power])
        size = -(-count * width // most) if count else 0
        yield f"    {f'{low:,}-{high:,}' if high > low else '1':>15} {count:>8,} {bar * size}".rstrip()
