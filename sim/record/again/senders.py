"""The clients, once more: what the end of a request sets off, and whose patience has ended."""

from collections.abc import Iterator

import numpy as np

from sim.request import NEVER, Ints, Workload


class Senders:
    """Of a workload as a run met it: its arrivals and the ends of patience are worked out anew."""

    def __init__(self, workload: Workload) -> None:
        sending = workload.sending
        if sending is None:
            raise TypeError("a workload without clients")
        self._patience_ns = sending.patience_ns.tolist()
        self._pause_ns = sending.pause_ns.tolist()
        self._attempt = sending.attempt.tolist()
        self._stated = cancel_times(workload)
        self._first_ns: dict[int, int] = {}
        self._left: set[int] = set()
        self._following = {after: row for row, after in enumerate(sending.after.tolist())
                           if after != NEVER and not self._attempt[row]}  # fmt: skip

    def patience_ends(self, row: int, arrival_ns: int) -> int | None:
        """When, for one that comes at that time."""
        ns, cancel_ns = arrival_ns + self._patience_ns[row], self._stated[row]
        return None if self._patience_ns[row] == NEVER or (cancel_ns != NEVER and cancel_ns <= ns) else ns

    def emitted(self, row: int, at_ns: int) -> None:
        self._first_ns.setdefault(row, at_ns)

    def leaves(self, row: int, at_ns: int) -> bool:
        """Whether its client, whose patience has ended, has seen no token by then."""
        if self._first_ns.get(row, at_ns + 1) <= at_ns:
            return False
        self._left.add(row)
        return True

    def ended(self, row: int, at_ns: int, *, cancelled: bool) -> Iterator[tuple[int, int]]:
        """What its end sets off: ``(when, which)``; after a decision that ended it, a ns later at the earliest."""
        attempt, least_ns = self._attempt[row], int(cancelled)
        again = row + 1 < len(self._attempt) and self._attempt[row + 1] == attempt + 1
        if cancelled and row in self._left and again:
            yield at_ns + max(self._pause_ns[row + 1], least_ns), row + 1
        elif (following := self._following.get(row - attempt)) is not None:
            yield at_ns + max(self._pause_ns[following], least_ns), following


def cancel_times(workload: Workload) -> list[int]:
    """When each client gives up in any case: what the record has, unless that is when its patience ended."""
    cancel_ns: Ints = workload.cancel_ns
    if workload.sending is not None:
        patience_ns = workload.sending.patience_ns
        cancel_ns = np.where(
            (patience_ns != NEVER) & (cancel_ns == workload.arrival_ns + patience_ns), NEVER, cancel_ns
        )
    times: list[int] = cancel_ns.tolist()
    return times
