"""Exact results for one path: integer ns in, integer ns out, no probability in it."""

import heapq
from typing import NamedTuple

import numpy as np

from sim.request import Ints


def lindley(arrival_ns: Ints, service_ns: Ints) -> Ints:
    """The wait of each customer of a single server, first come, first served; arrivals ascend.

    W(0) = 0 and W(i + 1) = max(0, W(i) + S(i) - (a(i + 1) - a(i))), solved without a loop: a walk less its own lowest
    point so far. Source: Lindley (1952), "The theory of queues with a single server".
    """
    if not len(arrival_ns):
        return np.zeros(0, dtype=np.int64)
    walk = np.concatenate([[0], np.cumsum(service_ns[:-1] - np.diff(arrival_ns))])
    return np.asarray(walk - np.minimum.accumulate(walk), dtype=np.int64)


def by_key(arrival_ns: Ints, service_ns: Ints, key: Ints) -> Ints:
    """The wait of each customer of a single server who, when free, takes the smallest key; arrivals ascend.

    Nobody is interrupted; ties of the key go by arrival, then by place. Who arrives as a service ends is there in time.
    """
    wait_ns = np.zeros(len(arrival_ns), dtype=np.int64)
    customers = list(zip(arrival_ns.tolist(), service_ns.tolist(), key.tolist(), strict=True))
    present: list[tuple[int, int]] = []
    now = coming = 0
    while present or coming < len(customers):
        if not present:
            now = max(now, customers[coming][0])
        while coming < len(customers) and customers[coming][0] <= now:
            heapq.heappush(present, (customers[coming][2], coming))
            coming += 1
        _, place = heapq.heappop(present)
        wait_ns[place] = now - customers[place][0]
        now += customers[place][1]
    return wait_ns


class BusyPeriods(NamedTuple):
    """From an arrival at an idle server to the next instant at which it has nothing left; one row each."""

    start_ns: Ints
    end_ns: Ints
    served: Ints


def busy_periods(arrival_ns: Ints, finish_ns: Ints) -> BusyPeriods:
    """The busy periods of a work-conserving server, of arrivals (ascending) and the ends of the same customers.

    Who arrives at the very end of a busy period begins the next one.
    """
    ends = np.sort(finish_ns)
    # In any order of service, the k-th end closes a busy period just if everybody of the first k arrivals is gone.
    begins = np.flatnonzero(np.concatenate([[True], arrival_ns[1:] >= ends[:-1]])) if len(ends) else np.zeros(0, int)
    last = np.append(begins[1:], len(ends)) - 1
    return BusyPeriods(arrival_ns[begins], ends[last], last - begins + 1)


def number_in_system_ns(arrival_ns: Ints, finish_ns: Ints) -> int:
    """The integral over time of the number of customers present: the sum of their stays (Little, on a closed path)."""
    return int((finish_ns - arrival_ns).sum())
