"""A sponsor's terms are refused in a sponsor's words, before anything is sent."""

from typing import Any

import pytest

from chainfl.errors import InputError
from chainfl.sim.memory import MemoryStore
from services.sponsor import ETHER, Terms, check_terms, prepare_task, with_changes

FLOOR = 5


def checked(**changes: Any) -> None:
    """Check the default terms with these changes."""
    terms = with_changes(Terms(), changes)
    check_terms(prepare_task(MemoryStore(), terms), terms.escrow, FLOOR)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"rounds": 2}, "a round pays 0.5 ETH .*: give --min-stake 2 or more, less escrow, or more rounds"),
        ({"committee_size": 4}, "--committee-size 4: give an odd number from 3 to 45"),
        ({"max_updates": 500}, "--max-updates 500: give 1 to 128"),
        ({"challenge_seconds": 4}, "every phase must last at least 5 s at this factory"),
        ({"min_stake": 10}, "--min-stake: give at least 1000 wei"),
        ({"min_stake": ETHER // 10}, "a round pays 0.2 ETH .*: give --min-stake 0.8 or more"),
    ],
)
def test_terms_out_of_bounds_name_the_option_and_what_would_do(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=line):
        checked(**changes)


def test_what_the_refusal_proposes_is_taken() -> None:
    checked()
    checked(rounds=2, min_stake=2 * ETHER)
