"""Who waits, in which order: by (arrival, place in the file), and whoever comes back goes before everybody else."""

import pytest

from sim.engine.queue import FcfsQueue
from sim.request import Request, RequestSpec


def request(index: int, arrival_ns: int, *, back: bool = False) -> Request:
    """A request called by its place and arrival; ``back``: it has been admitted before."""
    made = Request(RequestSpec(index, f"{index}@{arrival_ns}", arrival_ns, 1, 1, 1))
    made.admitted_before = back
    return made


def queue_of(*requests: Request) -> FcfsQueue:
    queue = FcfsQueue()
    for each in requests:
        queue.add(each)
    return queue


def names(queue: FcfsQueue) -> list[str]:
    return [each.id for each in queue]


def test_an_empty_queue_has_no_head() -> None:
    queue = FcfsQueue()
    assert (queue.head, len(queue), names(queue)) == (None, 0, [])


@pytest.mark.parametrize(
    ("added", "order"),
    [
        ([(0, 0), (1, 5)], ["0@0", "1@5"]),
        ([(1, 5), (0, 5)], ["0@5", "1@5"]),  # of one instant: by the file, whoever was woken first
        ([(2, 5), (1, 5), (0, 5)], ["0@5", "1@5", "2@5"]),
        ([(0, 9), (1, 5)], ["1@5", "0@9"]),
        ([(3, 5), (1, 5), (2, 5)], ["1@5", "2@5", "3@5"]),
    ],
)
def test_newcomers_stand_by_arrival_and_place(added: list[tuple[int, int]], order: list[str]) -> None:
    assert names(queue_of(*(request(index, arrival) for index, arrival in added))) == order


def test_who_comes_back_goes_before_everybody() -> None:
    queue = queue_of(request(0, 0), request(1, 1))
    queue.put_back(request(7, 9, back=True))
    assert names(queue) == ["7@9", "0@0", "1@1"]


def test_a_newcomer_does_not_pass_who_came_back() -> None:
    queue = queue_of()
    queue.put_back(request(7, 9, back=True))
    queue.add(request(0, 9))
    assert names(queue) == ["7@9", "0@9"]


def test_the_head_is_taken() -> None:
    queue = queue_of(request(0, 0), request(1, 1))
    head = queue.head
    assert queue.take_head() is head
    assert (names(queue), len(queue)) == (["1@1"], 1)


def test_anyone_can_leave() -> None:
    queue = queue_of(*(waiting := [request(n, n) for n in range(3)]))
    queue.remove(waiting[1])
    assert names(queue) == ["0@0", "2@2"]
