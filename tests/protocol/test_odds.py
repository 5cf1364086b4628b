"""The odds of a hostile committee: exact, the same as counting all draws, and what the real draw does."""

from fractions import Fraction
from itertools import permutations
from math import sqrt

import pytest

from chainfl.codec.commitments import keccak256
from chainfl.errors import InputError
from chainfl.protocol.draw import draw_roles
from chainfl.protocol.odds import Odds, at_least_once, hostile_accounts, limit_odds, round_odds
from chainfl.types import Id
from scripts.odds import COMMITTEES, PARTS, main, markdown, odds, shown

DRAWS = 6_000
SIGMAS = 4.0


def counted(hostile: int, accounts: int, committee_size: int) -> Odds:
    """The same by going through every order in which accounts can be drawn."""
    majority = with_miner = total = 0
    for order in permutations(range(accounts), committee_size + 1):
        total += 1
        has_majority = 2 * sum(each < hostile for each in order[:committee_size]) > committee_size
        majority += has_majority
        with_miner += has_majority and order[committee_size] < hostile
    return Odds(Fraction(majority, total), Fraction(with_miner, total))


@pytest.mark.parametrize(("accounts", "committee_size"), [(4, 3), (6, 3), (7, 4), (7, 5), (8, 1), (8, 2)])
def test_odds_are_those_of_counting_every_draw(accounts: int, committee_size: int) -> None:
    for hostile in range(accounts + 1):
        found = round_odds(hostile, accounts, committee_size)

        assert found == counted(hostile, accounts, committee_size)


@pytest.mark.parametrize(
    ("hostile", "accounts", "committee_size"), [(6, 20, 5), (4, 12, 3), (10, 30, 7), (33, 100, 11)]
)
def test_odds_are_those_of_the_real_draw(hostile: int, accounts: int, committee_size: int) -> None:
    weights = [(Id(number), 1_000) for number in range(1, accounts + 1)]
    majority = with_miner = 0
    for number in range(DRAWS):
        seed = keccak256(number.to_bytes(32, "big"))
        drawn = draw_roles(seed, weights, committee_size, 128, None, trains=False)
        has_majority = 2 * sum(id_ <= hostile for id_ in drawn.committee) > committee_size
        majority += has_majority
        with_miner += has_majority and drawn.proposers[0] <= hostile

    expected = round_odds(hostile, accounts, committee_size)

    for seen, chance in ((majority, expected.majority), (with_miner, expected.majority_and_miner)):
        spread = sqrt(DRAWS * chance * (1 - chance))
        assert abs(seen - DRAWS * chance) < SIGMAS * spread


def test_many_accounts_come_close_to_the_limit_and_never_beyond_for_a_minority() -> None:
    for part in PARTS:
        for size in COMMITTEES:
            limit = limit_odds(part, size)
            few = round_odds(hostile_accounts(part, 100), 100, size)
            many = round_odds(hostile_accounts(part, 10**6), 10**6, size)

            assert few.majority <= many.majority <= limit.majority
            assert many.majority == pytest.approx(float(limit.majority), rel=1e-2)
            assert many.majority_and_miner == pytest.approx(float(limit.majority_and_miner), rel=1e-2)


def test_a_larger_committee_is_safer_and_the_miner_makes_it_rarer() -> None:
    for part in PARTS:
        found = [limit_odds(part, size) for size in COMMITTEES]

        assert [each.majority for each in found] == sorted((each.majority for each in found), reverse=True)
        assert all(each.majority_and_miner < each.majority for each in found)


def test_known_values() -> None:
    # Three of three and two of three, by hand: 0.1^3 + 3 * 0.1^2 * 0.9.
    assert limit_odds(Fraction(1, 10), 3) == Odds(Fraction(28, 1000), Fraction(28, 10_000))
    # Of four accounts two are hostile: 2 of the 4 committees have both, and none of them leaves one to be the miner.
    assert round_odds(2, 4, 3) == Odds(Fraction(1, 2), Fraction(0))
    assert at_least_once(Fraction(1, 2), 3) == Fraction(7, 8)
    assert round_odds(10, 10, 9) == Odds(Fraction(1), Fraction(1))
    assert round_odds(0, 10, 9) == Odds(Fraction(0), Fraction(0))
    assert hostile_accounts(Fraction(33, 100), 100) == 33
    assert hostile_accounts(Fraction(33, 100), 10) == 3


def test_odds_stay_exact_over_the_life_of_a_task() -> None:
    tiny = Odds(Fraction(1, 10**30), Fraction(1, 10**40)).in_rounds(100)

    assert tiny.majority == 1 - (1 - Fraction(1, 10**30)) ** 100
    assert float(tiny.majority) == pytest.approx(1e-28)


@pytest.mark.parametrize(
    ("hostile", "accounts", "committee_size"), [(1, 5, 5), (6, 5, 3), (-1, 5, 3), (1, 5, 0), (1, 5, -3)]
)
def test_what_cannot_be_is_refused(hostile: int, accounts: int, committee_size: int) -> None:
    with pytest.raises(InputError):
        round_odds(hostile, accounts, committee_size)


@pytest.mark.parametrize("part", [Fraction(-1, 10), Fraction(11, 10)])
def test_a_part_beyond_the_whole_is_refused(part: Fraction) -> None:
    with pytest.raises(InputError, match="part"):
        limit_odds(part, 3)


def test_the_program_prints_both_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0

    printed = capsys.readouterr().out
    rows = [line for line in printed.splitlines() if line.startswith("| ") and line[2].isdigit()]
    assert [int(row.split("|")[1]) for row in rows] == list(COMMITTEES) * 2
    assert {row.count("|") for row in rows} == {8}
    assert printed.strip() == markdown(odds(100, 100, COMMITTEES))


def test_the_program_answers_in_json_and_refuses_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "--accounts", "50", "--committee", "5", "--rounds", "10"]) == 0
    assert '"accounts": 50' in capsys.readouterr().out

    assert main(["--accounts", "5", "--committee", "5"]) == 2
    refused = capsys.readouterr()
    assert refused.out == ""
    assert refused.err.strip() == (
        "odds: accounts: 5 are too few for a committee of 5 and a miner; give at least 6"
    )
    assert main(["--rounds", "0"]) == 2


@pytest.mark.parametrize(
    ("chance", "text"),
    [
        (0.0, "0"),
        (1.0, "> 99.9 %"),
        (0.5, "50 %"),
        (0.9961, "99.6 %"),
        (0.9893, "99 %"),
        (0.0271, "2.7 %"),
        (0.00012, "0.012 %"),
        (3.21e-9, "3.2e-09"),
    ],
)
def test_probabilities_are_short(chance: float, text: str) -> None:
    assert shown(chance) == text
