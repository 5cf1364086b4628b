"""The draw by stake: exact, without replacement, repeatable (docs/protocol.md section 5.1)."""

from collections import Counter
from fractions import Fraction
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfl.codec.commitments import draw_number, keccak256
from chainfl.protocol.draw import Drawn, by_lot, draw_ids, draw_roles
from chainfl.types import Digest, Id

Weights = list[tuple[Id, int]]

seeds = st.binary(min_size=32, max_size=32)
weights = st.lists(st.integers(0, 2000), min_size=1, max_size=40).map(lambda all_: numbered(*all_))


def numbered(*stakes: int) -> Weights:
    """Stakes of the accounts 1, 2, 3 …"""
    return [(Id(id_), stake) for id_, stake in enumerate(stakes, 1)]


def seed(number: int) -> Digest:
    return keccak256(number.to_bytes(32, "big"))


def drawn_by_hand(seed_: Digest, stakes: Weights, count: int) -> list[Id]:
    """The specification in other words: one ticket per unit of stake, drawn accounts' tickets torn up."""
    tickets, drawn = [id_ for id_, stake in stakes for _ in range(stake)], list[Id]()
    for k in range(count):
        if tickets:
            drawn.append(tickets[draw_number(seed_, k) % len(tickets)])
            tickets = [id_ for id_ in tickets if id_ != drawn[-1]]
    return drawn


@given(seeds, weights, st.integers(0, 45))
def test_a_draw_takes_tickets_by_stake_without_replacement(seed_: bytes, stakes: Weights, count: int) -> None:
    drawn = draw_ids(seed_, stakes, count)

    assert drawn == drawn_by_hand(seed_, stakes, count)
    assert len(set(drawn)) == len(drawn) == min(count, sum(stake > 0 for _, stake in stakes))


@given(seeds, weights, st.integers(1, 20), st.integers(0, 20))
def test_a_longer_draw_begins_with_the_shorter_one(
    seed_: bytes, stakes: Weights, count: int, more: int
) -> None:
    assert draw_ids(seed_, stakes, count + more)[:count] == draw_ids(seed_, stakes, count)


@given(seeds, weights, st.integers(1, 20))
def test_accounts_without_stake_change_nothing(seed_: bytes, stakes: Weights, count: int) -> None:
    with_idle = [*stakes, *((Id(1000 + i), 0) for i in range(5))]

    assert draw_ids(seed_, with_idle, count) == draw_ids(seed_, stakes, count)


def test_every_point_of_the_stake_is_as_likely_as_every_other() -> None:
    stakes = numbered(1, 0, 2, 5)

    hit = [draw_ids_at(point, stakes) for point in range(8)]

    assert Counter(hit) == {Id(1): 1, Id(3): 2, Id(4): 5}


def draw_ids_at(point: int, stakes: Weights) -> Id:
    """Who is drawn when the first number falls on this point, by a seed that makes it so."""
    whole = sum(stake for _, stake in stakes)
    fitting = next(seed(n) for n in range(10_000) if draw_number(seed(n), 0) % whole == point)
    return draw_ids(fitting, stakes, 1)[0]


def test_orders_come_as_often_as_stakes_say() -> None:
    stakes, runs = numbered(1, 2, 3), 6000

    seen = Counter(tuple(draw_ids(seed(n), stakes, 3)) for n in range(runs))

    for order in permutations(numbered(1, 2, 3)):
        first, second = order[0][1], order[1][1]
        chance = Fraction(first, 6) * Fraction(second, 6 - first)
        spread = (runs * chance * (1 - chance)) ** Fraction(1, 2)
        assert abs(seen[tuple(id_ for id_, _ in order)] - runs * chance) < 4 * spread


def test_one_draws_the_numbers_that_follow() -> None:
    stakes = numbered(3, 1, 4, 1, 5)
    first, *_ = draw_ids(seed(7), stakes, 1)
    rest = [(id_, stake) for id_, stake in stakes if id_ != first]

    assert [first, *draw_ids(seed(7), rest, 3, 1)] == draw_ids(seed(7), stakes, 4)


# Roles


def test_committee_miner_and_two_backups_are_drawn_in_this_order() -> None:
    stakes = numbered(*[5] * 12)

    roles = draw_roles(seed(1), stakes, 5, 20, None, trains=False)

    drawn = draw_ids(seed(1), stakes, 8)
    assert roles == Drawn(tuple(drawn[:5]), tuple(drawn[5:]), None)


@pytest.mark.parametrize(("max_updates", "backups"), [(1, 1), (2, 2), (8, 2)])
def test_backups_count_in_the_limit_of_updates(max_updates: int, backups: int) -> None:
    roles = draw_roles(seed(2), numbered(*[5] * 30), 3, max_updates, None, trains=False)

    assert len(roles.proposers) == 1 + backups
    assert roles.workers is not None
    assert backups + len(roles.workers) == max_updates


@given(seeds, weights, st.sampled_from([3, 5, 7]), st.integers(1, 12), st.booleans())
def test_roles_never_overlap_and_updates_never_exceed_their_limit(
    seed_: bytes, stakes: Weights, size: int, max_updates: int, trains: bool
) -> None:
    staked = {id_ for id_, stake in stakes if stake}

    roles = draw_roles(seed_, stakes, size, max_updates, None, trains)

    committee, proposers = set(roles.committee), set(roles.proposers)
    others = staked - committee - proposers
    workers = others if roles.workers is None else set(roles.workers)
    assert len(committee) == min(size, len(staked))
    assert committee | proposers | workers <= staked
    if trains:
        assert committee == proposers
        assert len(workers) <= max_updates
    else:
        assert not committee & proposers
        assert len(workers) + max(0, len(proposers) - 1) <= max_updates
    assert not workers & (committee | proposers)


def test_workers_are_drawn_only_when_too_many_are_enrolled() -> None:
    fit = draw_roles(seed(3), numbered(*[5] * 12), 3, 8, None, trains=False)
    crowd = draw_roles(seed(3), numbered(*[5] * 13), 3, 8, None, trains=False)

    assert fit.workers is None
    assert crowd.workers is not None
    assert len(crowd.workers) == 6


def test_workers_continue_the_numbers_of_the_draw() -> None:
    stakes = numbered(*range(1, 31))

    roles = draw_roles(seed(4), stakes, 3, 8, None, trains=False)

    assert (*roles.committee, *roles.proposers, *(roles.workers or ())) == tuple(
        draw_ids(seed(4), stakes, 12)
    )


def test_an_elected_committee_sits_and_proposes_by_lot() -> None:
    elected = [Id(9), Id(2), Id(5)]

    roles = draw_roles(seed(5), numbered(*[5] * 10), 3, 20, elected, trains=True)

    assert roles.committee == tuple(elected)
    assert list(roles.proposers) == sorted(elected, key=lambda id_: draw_number(seed(5), id_))
    assert roles.workers is None


def test_with_an_elected_committee_workers_take_the_first_numbers() -> None:
    elected, stakes = [Id(9), Id(2), Id(5)], numbered(*range(1, 21))

    roles = draw_roles(seed(6), stakes, 3, 4, elected, trains=True)

    others = [(id_, stake) for id_, stake in stakes if id_ not in elected]
    assert roles.workers == tuple(draw_ids(seed(6), others, 4))


@given(seeds, st.lists(st.integers(1, 2**32 - 1).map(Id), unique=True, min_size=3, max_size=45))
def test_the_lot_does_not_depend_on_the_order_of_the_committee(seed_: bytes, ids: list[Id]) -> None:
    assert by_lot(seed_, ids) == by_lot(seed_, ids[::-1])
