"""Who waits, in which order: by (arrival, place in the file), and whoever comes back goes before everybody else.

With a key, the smallest first, and whoever comes back takes the place of its key.
"""

import pytest

from sim.engine.queue import FcfsQueue, KeyedQueue, Queue
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


def names(queue: Queue) -> list[str]:
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
    queue = queue_of(first := request(0, 0), second := request(1, 1))
    assert queue.head is first
    queue.remove(first)
    assert (queue.head, names(queue), len(queue)) == (second, ["1@1"], 1)


def test_anyone_can_leave() -> None:
    queue = queue_of(*(waiting := [request(n, n) for n in range(3)]))
    queue.remove(waiting[1])
    assert names(queue) == ["0@0", "2@2"]


# --- by a key --------------------------------------------------------------------------------------------------------


def parity() -> KeyedQueue:
    """The even before the odd."""
    return KeyedQueue(lambda request: (request.index % 2,))


def test_an_empty_keyed_queue_has_no_head() -> None:
    queue = parity()
    assert (queue.head, len(queue), names(queue)) == (None, 0, [])


def test_the_smallest_key_is_first_and_ties_go_by_arrival_and_place() -> None:
    queue = parity()
    for index, arrival in [(1, 0), (3, 0), (6, 5), (4, 5), (2, 7)]:
        queue.add(request(index, arrival))
    assert names(queue) == ["4@5", "6@5", "2@7", "1@0", "3@0"]
    assert queue.head is not None
    assert queue.head.id == "4@5"


def test_who_comes_back_takes_the_place_of_its_key() -> None:
    queue = parity()
    queue.add(request(2, 0))
    queue.put_back(request(1, 0, back=True))
    queue.put_back(request(4, 0, back=True))
    assert names(queue) == ["2@0", "4@0", "1@0"]


def test_anyone_can_leave_a_keyed_queue_and_come_back() -> None:
    queue = parity()
    waiting = [request(n, n) for n in range(4)]
    for each in waiting:
        queue.add(each)
    for gone in (waiting[2], waiting[0]):  # from the middle, then the head
        queue.remove(gone)
    assert (queue.head, names(queue), len(queue)) == (waiting[1], ["1@1", "3@3"], 2)
    queue.put_back(waiting[2])
    assert (queue.head, names(queue), len(queue)) == (waiting[2], ["2@2", "1@1", "3@3"], 3)
