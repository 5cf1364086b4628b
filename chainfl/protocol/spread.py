"""Softmax whose steepness follows the spread of the losses, with validators weighed by their record.

Rule `softmax-spread`, in whole numbers as a contract would compute it; today only the simulator plays it.
C validators of the committee, K updates. Losses count in 10^-12 as validators post them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from chainfl.protocol.shares import exp_wad
from chainfl.types import WAD

LARGEST: Final = 2**64
"""What a missing loss counts as: more than any that can be posted."""
REACH: Final = 4
"""Deviations count up to so many spreads: one absurd number costs no more than a wrong one."""
MEMORY: Final = 4
"""A round counts for a quarter of a record."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Shares of the K updates, and the agreement (WAD) of each validator with the committee in this round."""

    shares: tuple[int, ...]
    agreements: tuple[int, ...]


def spread_shares(
    losses_CK: Sequence[Sequence[int | None]], records: Sequence[int], sharpness: int, amount: int
) -> Spread:
    """Shares of `amount` by softmax of -sharpness · max(0, statistic - median) / spread.

    Each validator's losses are taken from its own median, so that hard and easy samples count alike. An update's
    statistic is the median of these over the validators, each with the weight record². The spread is the distance of
    the median statistic from the best: it has the unit of the losses, so the shares have none.
    """
    centred_CK = [_from_own_median(losses_K) for losses_K in losses_CK]
    weights = [max(1, record * record // WAD) for record in records]
    statistics_K = [weighted_median(column, weights) for column in zip(*centred_CK, strict=True)]
    best = min(range(len(statistics_K)), key=lambda k: (statistics_K[k], k))
    middle = sorted(statistics_K)[len(statistics_K) // 2]
    spread = max(1, middle - statistics_K[best])

    # The better half counts alike: among honest updates a lower loss is mostly luck of the samples.
    exps = [exp_wad(-(max(0, value - middle) * sharpness // spread)) for value in statistics_K]
    shares = [each * amount // sum(exps) for each in exps]
    shares[best] += amount - sum(shares)
    return Spread(tuple(shares), tuple(_agreement(row, statistics_K, spread) for row in centred_CK))


def next_record(record: int, agreement: int) -> int:
    """A validator's record after a round; it starts at one (WAD)."""
    return (record * (MEMORY - 1) + agreement) // MEMORY


def weighted_median(values: Sequence[int], weights: Sequence[int]) -> int:
    """The lowest value that, with all below it, has more than half of the weight."""
    below = 0
    total = sum(weights)
    for value, weight in sorted(zip(values, weights, strict=True)):
        below += weight
        if 2 * below > total:
            return value
    raise AssertionError("weights are positive")


def _from_own_median(losses_K: Sequence[int | None]) -> list[int]:
    """Losses minus their lower median; a missing one counts as the largest."""
    numbers = [LARGEST if loss is None else loss for loss in losses_K]
    middle = sorted(numbers)[(len(numbers) - 1) // 2]
    return [number - middle for number in numbers]


def _agreement(own_K: Sequence[int], statistics_K: Sequence[int], spread: int) -> int:
    """One (WAD) for a validator that agrees with the committee, 0 for one that is REACH spreads away everywhere."""
    most = REACH * spread
    away = sum(min(abs(own - said), most) for own, said in zip(own_K, statistics_K, strict=True))
    return WAD - away * WAD // (most * len(own_K))
