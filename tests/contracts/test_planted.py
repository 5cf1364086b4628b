"""Tests of the tests: each planted bug is found by forge's random play, and by play against the rules or an attack."""

import pytest

from scripts import planted


@pytest.mark.deep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", planted.names())
def test_a_planted_bug_is_found(name: str) -> None:
    found = planted.finders(name)

    assert planted.is_caught(found), f"found by {found or 'none'}"


def test_a_bug_is_caught_from_both_sides_only() -> None:
    assert planted.is_caught(["rules", "invariants"])
    assert planted.is_caught(["attacks", "invariants"])
    assert not planted.is_caught(["rules", "attacks"])
    assert not planted.is_caught(["invariants"])


def test_ten_bugs_and_more_are_planted() -> None:
    assert len(planted.names()) >= 10
