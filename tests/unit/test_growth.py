"""Who needs a new block when, counted by place in the block, against asking each one each time."""

import random

import pytest

from sim.engine.growth import LONGEST, Growth
from sim.request import NEVER


class Slowly:
    """The same, one by one: by index, how many tokens of room each still has."""

    def __init__(self, period: int) -> None:
        self.period, self.room, self.took = period, dict[int, int](), dict[int, int]()

    def step(self) -> int:
        blocks = 0
        for index, room in self.room.items():
            if room == 0:
                self.room[index] = self.period
                self.took[index] += 1
                blocks += 1
            self.room[index] -= 1
        return blocks


def test_one_takes_a_block_whenever_the_last_is_full() -> None:
    """Two tokens of room, four in a block: blocks are taken for jobs 2, 6, 10."""
    growth = Growth(4)
    assert growth.add(7, spare=2, jobs=12) == 2
    assert [growth.step(1) for _ in range(12)] == [0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0]
    assert growth.taken(7) == growth.remove(7) == 3


def test_who_has_room_for_all_takes_none() -> None:
    growth = Growth(4)
    assert growth.add(0, spare=5, jobs=5) == NEVER
    assert growth.step(5) == growth.remove(0) == 0


def test_who_has_more_than_a_block_of_room_but_not_enough_takes_no_part() -> None:
    growth = Growth(4)
    assert growth.add(0, spare=4, jobs=5) is None
    assert growth.taken(0) == growth.needed(9) == 0


def test_blocks_of_very_many_tokens_are_not_counted() -> None:
    assert Growth(LONGEST + 1).add(0, spare=1, jobs=5) is None
    assert Growth(LONGEST).add(0, spare=1, jobs=5) == 1


@pytest.mark.parametrize("seed", range(40))
def test_any_crowd_needs_what_its_members_need(seed: int) -> None:
    rng = random.Random(seed)
    period = rng.choice([1, 2, 3, 16])
    growth, slowly = Growth(period), Slowly(period)
    for _ in range(60):
        move = rng.choice(["add", "remove", "step"])
        if move == "add":
            index, spare = len(slowly.took), rng.randrange(period)
            assert growth.add(index, spare, jobs=10**6) == spare
            slowly.room[index], slowly.took[index] = spare, 0
        elif move == "remove" and slowly.room:
            index = rng.choice(list(slowly.room))
            assert growth.taken(index) == growth.remove(index) == slowly.took[index]
            del slowly.room[index]
        else:
            jobs, blocks, most = rng.randint(1, 3 * period), rng.randint(0, 40), rng.randint(1, 50)
            ahead = Slowly(period)
            ahead.room, ahead.took = dict(slowly.room), dict(slowly.took)
            needs = [ahead.step() for _ in range(max(jobs, most))]
            assert growth.needed(jobs) == sum(needs[:jobs])
            assert growth.next == needs[0]
            covered = max(count for count in range(most + 1) if sum(needs[:count]) <= blocks)
            assert growth.covered(blocks, most) == covered
            assert growth.step(jobs) == sum(slowly.step() for _ in range(jobs))
