"""Tests of the tests: each bug planted in the contracts is found."""

import pytest

from scripts import planted


@pytest.mark.deep
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", planted.names())
def test_a_planted_bug_is_found(name: str) -> None:
    assert planted.is_found(name)


def test_ten_bugs_are_planted() -> None:
    assert len(planted.names()) == 10
