"""Softmax by the spread of losses, in whole numbers by hand."""

import pytest

from chainfl.protocol.shares import exp_wad
from chainfl.protocol.spread import next_record, spread_shares, weighted_median
from chainfl.types import TOTAL, WAD

ABSURD = 2**64 - 2


def test_shares_by_hand() -> None:
    # From the median 20: -10, 0, 10. Spread 10: the better half counts alike, the last one with exponent -1.
    found = spread_shares([[10, 20, 30]] * 3, [WAD] * 3, WAD, TOTAL)

    exps = [exp_wad(0), exp_wad(0), exp_wad(-WAD)]
    assert found.shares[1:] == tuple(each * TOTAL // sum(exps) for each in exps[1:])
    assert sum(found.shares) == TOTAL
    assert found.agreements == (WAD,) * 3


def test_the_unit_of_losses_does_not_matter() -> None:
    small = spread_shares([[10, 20, 30, 90]] * 3, [WAD] * 3, 2 * WAD, TOTAL)
    large = spread_shares([[10**9, 2 * 10**9, 3 * 10**9, 9 * 10**9]] * 3, [WAD] * 3, 2 * WAD, TOTAL)

    assert small.shares == large.shares


def test_easy_and_hard_samples_count_alike() -> None:
    plain = spread_shares([[10, 20, 30]] * 3, [WAD] * 3, WAD, TOTAL)
    shifted = spread_shares([[10, 20, 30], [1010, 1020, 1030], [510, 520, 530]], [WAD] * 3, WAD, TOTAL)

    assert plain.shares == shifted.shares


def test_two_absurd_validators_of_five_move_nothing_beyond_honest_numbers_and_lose_their_record() -> None:
    honest = [[10, 20, 30], [11, 20, 31], [9, 20, 29]]
    found = spread_shares([*honest, *[[ABSURD, ABSURD, 0]] * 2], [WAD] * 5, WAD, TOTAL)

    assert found.shares[0] >= found.shares[1] > 2 * found.shares[2]
    assert max(found.agreements[3:]) < min(found.agreements[:3])


def test_a_missing_loss_is_the_worst() -> None:
    found = spread_shares([[10, 20, None]] * 3, [WAD] * 3, WAD, TOTAL)

    assert found.shares[2] == 0


def test_equal_losses_share_alike() -> None:
    found = spread_shares([[5, 5, 5, 5]] * 3, [WAD] * 3, WAD, TOTAL)

    assert found.shares == (TOTAL // 4,) * 4


def test_the_weighted_median_and_records() -> None:
    assert weighted_median([1, 5, 9], [1, 1, 1]) == 5
    assert weighted_median([1, 5, 9], [1, 1, 3]) == 9
    assert next_record(WAD, 0) == 3 * WAD // 4
    assert next_record(WAD, WAD) == pytest.approx(WAD)
