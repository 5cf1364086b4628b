"""Whatever a hostile minority of a committee does, a statistic is one that honest members could have given."""

import os
from math import inf
from random import Random

from chainfl.protocol.shares import included, majority, rank, statistic_of
from chainfl.types import Statistic
from tests.protocol.scene import config

CASES = {"fast": 500, "default": 3_000, "deep": 100_000}[os.environ.get("CHAINFL_TEST_DEPTH", "default")]
ROUNDS = {"fast": 50, "default": 300, "deep": 100_000}[os.environ.get("CHAINFL_TEST_DEPTH", "default")]
"""Cases with many updates each."""
Entry = int | None
"""A score; None says: not available."""


def hostile_entries(random: Random, count: int) -> list[Entry]:
    """Absurd numbers, plausible ones, "not available", or nothing at all, which is no entry."""
    told = [random.choice([0, 1, 10**12, 2**64 - 2, random.randrange(10**13), None]) for _ in range(count)]
    return [entry for entry in told if random.random() < 0.8]


def honest_entries(random: Random, count: int) -> list[Entry]:
    """What honest members measured, more or less alike; some were not served."""
    middle, spread, served = random.randrange(10**13), random.choice([1, 10**9, 10**12]), random.random()
    return [middle + random.randrange(spread) if random.random() < served else None for _ in range(count)]


def decided(entries: list[Entry], size: int, judges: int | None = None) -> int | None:
    """The median of a committee of this size, where the update counts; `judges` where one of them trained it."""
    vouches = [entry is not None for entry in entries]
    terms = config(committee_size=size, unique_roots=False)
    seats = judges or size
    if not included([vouches], [b"\x01" * 32], b"\x02" * 32, terms, [seats])[0]:
        return None
    return statistic_of([entry for entry in entries if entry is not None], Statistic.MEDIAN, 1, seats)


def test_a_minority_keeps_the_median_within_the_honest_figures() -> None:
    counted = 0
    for case in range(CASES):
        random = Random(case)
        size = random.choice([3, 5, 7, 11, 21, 45])
        hostile = random.randint(0, size - majority(size))
        honest = honest_entries(random, size - hostile)
        value = decided([*honest, *hostile_entries(random, hostile)], size)
        if value is None:
            continue

        counted += 1
        figures = [inf if entry is None else entry for entry in honest]
        assert min(figures) <= value <= max(figures), case
    assert counted > CASES // 4


def test_a_minority_cannot_praise_a_members_own_update() -> None:
    """A member that trains is judged by the other seats; these can be of even number, and then half of them hostile.

    Such a half can put the update last, as by saying that its bytes are missing; it cannot put it first.
    """
    counted = 0
    for case in range(CASES):
        random = Random(f"own update {case}")
        size = random.randint(3, 45)
        hostile = random.randint(0, size - majority(size))
        is_own = hostile > 0 and random.random() < 0.3
        judging = hostile - is_own
        honest = honest_entries(random, size - 1 - judging)
        value = decided([*honest, *hostile_entries(random, judging)], size, size - 1)
        if value is None:
            continue

        counted += 1
        figures = [inf if entry is None else entry for entry in honest]
        assert min(figures) <= value, case
        assert value <= max(figures) or 2 * judging == size - 1, case
    assert counted > CASES // 4


def test_a_minority_changes_no_rank_where_honest_members_agree_on_the_order() -> None:
    for case in range(ROUNDS):
        random = Random(case)
        size = random.choice([3, 5, 11])
        hostile = random.randint(0, size - majority(size))
        places = random.sample(range(1, 1000), random.randint(2, 12))

        # Each honest member's figure lies in a band of the update's own, and the bands do not meet.
        columns = [
            [
                *(place * 10**9 + random.randrange(10**8) for _ in range(size - hostile)),
                *hostile_entries(random, hostile),
            ]
            for place in places
        ]
        values = [decided(list(column), size) for column in columns]

        assert all(value is not None for value in values)
        order = rank([value for value in values if value is not None])
        assert order == sorted(range(len(places)), key=lambda i: places[i]), case


def aimed_column(random: Random, honest: int, hostile: int, aim: int) -> tuple[list[Entry], list[Entry]]:
    """An update far away that is served to few, while hostile members put it where they want it."""
    size = honest + hostile
    served = random.randint(majority(size) - hostile, honest)
    told = [10**14 + random.randrange(10**12) if i < served else None for i in range(honest)]
    return [*told], [aim] * hostile


def test_a_minority_elects_nobody_whom_honest_figures_keep_out() -> None:
    """Whatever is served to whom: who is elected stands where some honest figures for all would have put it."""
    elections = 0
    for case in range(ROUNDS):
        random = Random(f"election {case}")
        size = random.choice([3, 5, 7, 11])
        hostile = random.randint(1, size - majority(size))
        columns = list[tuple[list[Entry], list[Entry]]]()
        for _ in range(random.randint(size, 20)):
            if random.random() < 0.4:
                columns.append(aimed_column(random, size - hostile, hostile, random.randrange(10**13)))
            else:
                told = honest_entries(random, size - hostile)
                columns.append((told, hostile_entries(random, hostile)))
        values = [decided([*honest, *others], size) for honest, others in columns]

        counting = [i for i, value in enumerate(values) if value is not None]
        if len(counting) < size:
            continue
        elections += 1
        figures = [[inf if entry is None else entry for entry in columns[i][0]] for i in counting]
        order = rank([value for value in values if value is not None])
        start = (len(order) - size) // 2
        for elected in order[start : start + size]:
            others_K = figures[:elected] + figures[elected + 1 :]
            best = sum(max(other) < min(figures[elected]) for other in others_K)
            worst = sum(min(other) <= max(figures[elected]) for other in others_K)
            assert best < start + size, case
            assert worst >= start, case
    assert elections > ROUNDS // 10


def test_a_minority_moves_nobody_by_more_than_one_place_where_honest_figures_are_close() -> None:
    """The figures for an update reach into those for the next one and no farther: so does its place."""
    gap = 10**9
    moved = 0
    for case in range(ROUNDS):
        random = Random(f"place {case}")
        size = random.choice([3, 5, 7, 11])
        hostile = random.randint(1, size - majority(size))
        places = random.sample(range(count := random.randint(size, 20)), count)
        columns = [
            [
                *(place * gap + random.randrange(2 * gap) for _ in range(size - hostile)),
                *hostile_entries(random, hostile),
            ]
            for place in places
        ]

        values = [decided(column, size) for column in columns]

        assert all(value is not None for value in values)
        for found, update in enumerate(rank([value for value in values if value is not None])):
            assert abs(found - places[update]) <= 1, case
            moved += found != places[update]
    assert moved > 0
