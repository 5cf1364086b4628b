"""docs/million.md: what a million participants would cost, computed from what fewer were measured to cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from chainfl.protocol.term_table import UNITS_PER_MIN_STAKE
from chainfl.protocol.terms import MAX_WEIGHT
from scripts.pages.costs import CONTRACTS, read_gas

LANES: Final = 8
"""Accounts, or words below, in a word of the tree of stakes."""
TRANSACTION_GAS: Final = 21_000
WORD_GAS: Final = 5_000
"""Reading a word of storage for the first time in a transaction, 2,100, and changing it, 2,900."""
BLOCK_GAS: Final = 60_000_000
BLOCK_SECONDS: Final = 12

SEEN: Final = 10_000
MANY: Final = 1_000_000
FEW: Final = 26
"""Participants among whom a change of stake was measured."""
DRAWN: Final = 8


@dataclass(frozen=True, slots=True)
class Simulated:
    """What `scripts/bench sim` saw of the simulator's set-up."""

    day: str
    participants: int
    seconds: float
    megabytes: float


SIMULATED: Final = Simulated("2026-11-19", 100_000, 4.2, 660)


def words(accounts: int) -> int:
    """Words of the tree between an account and the root, both counted."""
    count, levels = accounts, 1
    while count > LANES:
        count, levels = -(-count // LANES), levels + 1
    return levels


def draw_gas(each_seen: int, accounts: int) -> int:
    """A draw of committee, miner and backups: each account drawn walks from the root to its word."""
    return TRANSACTION_GAS + DRAWN * each_seen * words(accounts) // words(SEEN)


def stake_gas(seen: int, accounts: int) -> int:
    """Paying in and allocating: a word more is read and changed for each level more."""
    return seen + (words(accounts) - words(FEW)) * WORD_GAS


def page(gas: Mapping[str, Mapping[str, int]] | None = None, simulated: Simulated = SIMULATED) -> str:
    """The whole page."""
    lines = ["| what | seen | computed for a million | how |", "|---|---|---|---|"]
    found = read_gas(CONTRACTS.read_text()) if gas is None else gas
    lines += [f"| {' | '.join(row)} |" for row in (*_on_chain(found), *_simulated(simulated))]
    return "\n".join([_ABOUT, *lines, _SO])


def _on_chain(gas: Mapping[str, Mapping[str, int]]) -> list[tuple[str, str, str, str]]:
    each = gas["draw out of 10,000, each account drawn"]["found"]
    stake = gas["change of stake: pay in and allocate"]["found"]
    joining = MANY * stake_gas(stake, MANY)
    hours = joining / BLOCK_GAS * BLOCK_SECONDS / 3600
    average = MAX_WEIGHT / UNITS_PER_MIN_STAKE / MANY

    return [
        (
            "words of the tree on an account's path",
            f"{words(SEEN)} of {SEEN:,}",
            f"{words(MANY)}",
            "eight lanes a word",
        ),
        (
            f"gas of a draw, {DRAWN} drawn",
            f"{draw_gas(each, SEEN):,} of {SEEN:,}",
            f"{draw_gas(each, MANY):,}",
            f"{each:,} for each account drawn, by the words on its path",
        ),
        (
            "gas of a change of stake",
            f"{stake:,} of {FEW}",
            f"{stake_gas(stake, MANY):,}",
            f"{WORD_GAS:,} for each word more that is read and changed",
        ),
        (
            "gas for all to put in stake",
            "-",
            f"{joining / 1e9:,.0f} billion",
            f"{hours:.1f} hours of every block of Ethereum, at an assumed {BLOCK_GAS // 10**6} million gas each",
        ),
        ("gas of the rest of a round", "by its updates", "the same", "nothing else reads who is enrolled"),
        (
            "average stake, at most",
            "-",
            f"{average:.2f} times the least one",
            "all weights together fit 32 bits; what does not fit is cut",
        ),
    ]


def _simulated(seen: Simulated) -> list[tuple[str, str, str, str]]:
    times = MANY // seen.participants

    return [
        (
            "setting up in the simulator",
            f"{seen.seconds:.1f} s of CPU, {seen.megabytes:,.0f} MB for {seen.participants:,}",
            f"{seen.seconds * times:,.0f} s, {seen.megabytes * times / 1000:.1f} GB at most",
            f"grows with who takes part ({seen.day})",
        ),
        (
            "a round in the simulator",
            f"1,000 and {seen.participants:,} alike",
            "the same",
            "it looks at who is drawn",
        ),
    ]


_ABOUT: Final = """\
# A million participants

**Computed, not run.** From the gas in [contracts](contracts.md) and the measurements in [scaling](scaling.md); made by
`python -m scripts.make_docs`, and a test compares. What L2s would charge is in [costs](costs.md), computed too.
"""
_SO: Final = """
A round does not mind; joining does. A million would come over weeks, or on an L2, and the least stake has to be chosen
for so many.
"""
