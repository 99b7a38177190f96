"""What each tenant got of a run, where there are several of them."""

from collections.abc import Iterator

import numpy as np

from sim.record.quantiles import distribution
from sim.record.result import Result
from sim.report.layout import NOTHING, Row
from sim.report.names import ms, visible, whole_ns
from sim.report.texts import Texts
from sim.request import Status

MOST_SHOWN = 12
"""Of more tenants than this none is shown: the result has them all."""

SHOWN = ("ttft_ns", "e2e_ns")
QUANTILES = (50, 99)


def tenants(texts: Texts, result: Result) -> Iterator[Row]:
    """A line for each tenant: its finished requests, and how long they took."""
    named = result.record.workload.tenants
    names = list(dict.fromkeys(named or ()))
    if named is None or not 1 < len(names) <= MOST_SHOWN:
        return
    owner = np.array([names.index(name) for name in named])
    finished = result.requests["status"] == Status.FINISHED
    for place, name in enumerate(names):
        mine = owner == place
        figures = [distribution(result.requests[column][mine & finished]).percentiles for column in SHOWN]
        times = [[NOTHING if (ns := values[q]) is None else ms(whole_ns(ns)) for q in QUANTILES] for values in figures]
        counts = int(np.count_nonzero(mine & finished)), int(np.count_nonzero(mine))
        label = texts.label["tenant"] if not place else ""
        yield Row(label, [texts.tenant(visible(name) or NOTHING, counts, times[0], times[1])])
