"""Who is paid what for a round: exact integers, rounded down; the unspent stays in escrow (docs/protocol.md 9)."""

from collections.abc import Sequence
from dataclasses import dataclass

from chainfl.types import WAD, TaskConfig

PAID_CALLS = 12
"""Caller fees set aside per round; a round has at most eight calls that change its phase."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A round's money, split."""

    workers: int
    committee: int
    miner: int


def round_budget(escrow_at_creation: int, config: TaskConfig) -> Budget:
    """Split what a round may spend, after the caller fees are set aside."""
    rest = escrow_at_creation // config.rounds - PAID_CALLS * config.caller_fee
    workers = rest * config.workers_part // WAD
    committee = rest * config.committee_part // WAD
    return Budget(workers, committee, rest - workers - committee)


def deviation(gaps_K: Sequence[int | None], dev_cap: int) -> int:
    """A validator's distance from the committee's statistic, capped; None: an included update it did not vouch for."""
    return sum(dev_cap if gap is None else min(gap, dev_cap) for gap in gaps_K) // len(gaps_K)


def committee_pay(deviations: Sequence[int], amount: int) -> list[int]:
    """The nearer to the statistic, the more: (S - dev) / ((n - 1) S) of the amount, equal when S = 0 or n = 1."""
    n = len(deviations)
    total = sum(deviations)
    if n <= 1 or total == 0:
        return [amount // n for _ in deviations]
    return [amount * (total - dev) // ((n - 1) * total) for dev in deviations]
