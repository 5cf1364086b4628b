"""Softmax with internal clients as the committee: they judge every update on their own data (docs/selfish.md).

Shapes: M internal clients, K updates, the first M of them the internal clients' own. The arithmetic is the protocol's.
"""

from collections.abc import Sequence

from chainfl.protocol.shares import SCORE_TO_WAD, softmax, statistic_of
from chainfl.types import TOTAL, Statistic


def judged_shares(scores_KM: Sequence[Sequence[int]], beta: int, statistic: Statistic) -> list[int]:
    """Shares of 2^31 by softmax of minus each update's statistic over those who judge it."""
    statistics_K = [
        statistic_of(seats, statistic, SCORE_TO_WAD, len(seats)) for seats in judges_of(scores_KM)
    ]
    return softmax(statistics_K, beta, TOTAL)


def judges_of(scores_KM: Sequence[Sequence[int]]) -> list[list[int]]:
    """The scores that count for each update: all seats', but for an internal client's own update not its own.

    It was trained on the very data that its owner would judge it by.
    """
    return [[score for seat, score in enumerate(row) if seat != k] for k, row in enumerate(scores_KM)]
