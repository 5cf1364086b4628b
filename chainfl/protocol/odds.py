"""How likely a hostile coalition is to get the roles that decide a round, exactly (docs/protocol.md 5.1).

Every round draws its committee and then its miner by stake, without replacement, from a seed that is not chosen. With
N accounts of equal stake, m of them hostile, the number of hostile members is hypergeometric; the miner is drawn from
those who are left. With ever more accounts and the same part of the stake it becomes binomial, which is the worst case
for a minority: with few accounts, each hostile one that is drawn leaves fewer to be drawn.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import comb

from chainfl.errors import InputError


@dataclass(frozen=True, slots=True)
class Odds:
    """Probabilities in one round: a majority of the committee, and such a majority together with the miner."""

    majority: Fraction
    majority_and_miner: Fraction

    def in_rounds(self, rounds: int) -> "Odds":
        """At least once in so many rounds, each with a draw of its own."""
        return Odds(at_least_once(self.majority, rounds), at_least_once(self.majority_and_miner, rounds))


def round_odds(hostile: int, accounts: int, committee_size: int) -> Odds:
    """The odds with this many accounts of equal stake, of which these are hostile.

    Raises:
        InputError: there are too few accounts for a committee and a miner, or more hostile ones than accounts.
    """
    _check_committee(committee_size)
    if accounts <= committee_size:
        raise InputError(
            f"accounts: {accounts} are too few for a committee of {committee_size} and a miner; give at least "
            f"{committee_size + 1}"
        )
    if not 0 <= hostile <= accounts:
        raise InputError(f"hostile: expected 0 to {accounts} accounts, found {hostile}")

    honest = accounts - hostile
    ways = comb(accounts, committee_size)
    left = accounts - committee_size
    majority = with_miner = Fraction(0)
    for members in _majorities(committee_size):
        chance = Fraction(comb(hostile, members) * comb(honest, committee_size - members), ways)
        majority += chance
        with_miner += chance * Fraction(max(0, hostile - members), left)
    return Odds(majority, with_miner)


def limit_odds(part: Fraction, committee_size: int) -> Odds:
    """The odds with ever more accounts, where this part of the stake is hostile.

    Raises:
        InputError: the part is not between 0 and 1.
    """
    _check_committee(committee_size)
    if not 0 <= part <= 1:
        raise InputError(f"part: expected 0 to 1 of the stake, found {part}")

    majority = sum(
        (
            comb(committee_size, members) * part**members * (1 - part) ** (committee_size - members)
            for members in _majorities(committee_size)
        ),
        Fraction(0),
    )
    return Odds(majority, majority * part)


def at_least_once(chance: Fraction, rounds: int) -> Fraction:
    """The probability that something of this probability happens in at least one of so many independent rounds."""
    return 1 - (1 - chance) ** rounds


def hostile_accounts(part: Fraction, accounts: int) -> int:
    """How many of the accounts hold at most this part of the stake, where all hold the same."""
    return int(part * accounts)


def _majorities(committee_size: int) -> Iterator[int]:
    """How many hostile members are a majority: more than half."""
    return iter(range(committee_size // 2 + 1, committee_size + 1))


def _check_committee(committee_size: int) -> None:
    if committee_size < 1:
        raise InputError(f"committee_size: expected at least 1, found {committee_size}")
