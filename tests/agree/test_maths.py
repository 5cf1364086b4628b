"""Combining, shares on ranks, selection and election: the libraries give the integers of the rules, case by case."""

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from chainfl import artifacts
from chainfl.codec.merkle import fold
from chainfl.protocol import shares
from chainfl.protocol.proof import Claim, Evidence, Leaf, check_evidence
from chainfl.types import TOTAL, WAD, Rule
from tests.contracts.evm import Deployed
from tests.protocol.scene import config

HARNESS = Path(__file__).parents[2] / "contracts" / "test" / "artifacts" / "RulesHarness.json"
CASES = {"fast": 200, "default": 2_000, "deep": 100_000}[os.environ.get("CHAINFL_TEST_DEPTH", "default")]


@pytest.fixture(scope="module")
def libraries() -> Deployed:
    """The libraries in an EVM."""
    return Deployed(artifacts.parse(HARNESS.read_text(encoding="utf-8")))


def _cases(name: str) -> Iterator[Random]:
    """One generator per case, so that a failing one can be played alone."""
    return (Random(f"{name} {number}") for number in range(CASES))


def _leaf(rng: Random, depth: int) -> Leaf:
    """A leaf with values at the ends as often as between."""
    values = (rng.choice([0, 2**32 - 1, 2**31, rng.getrandbits(32)]) for _ in range(64))
    data = b"".join(value.to_bytes(4, "big") for value in values)
    return Leaf(data, tuple(rng.randbytes(32) for _ in range(depth)))


def _shares(rng: Random, count: int) -> list[int]:
    """p_0 and the others: any integers that sum to the whole."""
    cuts = sorted(rng.choice([0, TOTAL, rng.randint(0, TOTAL)]) for _ in range(count))
    return [after - before for before, after in zip([0, *cuts], [*cuts, TOTAL], strict=True)]


def test_combining_one_parameter_gives_the_same_value(libraries: Deployed) -> None:
    for rng in _cases("combining"):
        count, depth, by_rank = rng.randint(1, 12), rng.randint(0, 3), rng.random() < 0.5
        dimension = (64 << depth) - rng.randint(0, 63)
        position = rng.randrange(64 << depth)
        root, leaves = _indexed(rng, count + 2, depth, position)
        parts = _shares(rng, count)
        shown = [i for i in range(count) if by_rank or parts[1 + i]]
        claim = Claim(
            root[0],
            root[1],
            parts[0],
            tuple((root[2 + i], 0 if by_rank else parts[1 + i]) for i in shown),
            tuple(parts[1:]) if by_rank else None,
            dimension,
            depth,
        )
        evidence = Evidence(leaves[0], None, ())
        if position < dimension:
            head = leaves[1] if parts[0] else None
            evidence = Evidence(leaves[0], head, tuple(leaves[2 + i] for i in shown))
        named = (root[0], root[1], root[2:], parts, by_rank, dimension, depth)

        expected, found = check_evidence(claim, position, evidence)

        if expected == found:
            with pytest.raises(RuntimeError):
                libraries.call("refute", named, position, evidence.to_bytes())
        else:
            assert libraries.call("refute", named, position, evidence.to_bytes()) == (found, expected)


def _indexed(rng: Random, count: int, depth: int, position: int) -> tuple[list[bytes], list[Leaf]]:
    leaves = [_leaf(rng, depth) for _ in range(count)]
    return [fold(position // 64, leaf.data, leaf.siblings) for leaf in leaves], leaves


def test_shares_on_ranks_are_the_same(libraries: Deployed) -> None:
    for rng in _cases("ranks"):
        rule = rng.choice([Rule.MEDIAN, Rule.FEDROB])
        count = rng.randint(1, 128)
        trim = rng.randint(0, (count - 1) // 2)
        terms = config(rule, alpha=rng.randint(10**12, WAD), tolerated=trim)
        amount = TOTAL - shares.head_share(terms.alpha)

        found = libraries.one("onRanks", count, (count - 1) // 2 if rule is Rule.MEDIAN else trim, amount)

        assert list(found) == shares.rank_shares(count, terms)
        assert libraries.one("headShare", terms.alpha) == TOTAL - amount


def test_selection_and_election_are_the_same(libraries: Deployed) -> None:
    for rng in _cases("election"):
        count = rng.randint(1, 128)
        statistics = [rng.choice([5, 7, rng.getrandbits(rng.randint(1, 128))]) for _ in range(count)]
        rule = rng.choice([Rule.COMMITTEE_NEAR, Rule.COMMITTEE_FAR])
        terms = config(rule, keep=rng.choice([1, WAD // 3, WAD, rng.randint(1, WAD)]))
        size = rng.randint(1, count)
        ranking = shares.rank(statistics)
        middle = (count - size) // 2

        selected = libraries.one("select", ranking, terms.keep, rule is Rule.COMMITTEE_FAR)
        elected = libraries.one("electMiddle", ranking, size)

        assert [bool(selected >> i & 1) for i in range(count)] == shares.select(statistics, terms)
        assert list(elected) == ranking[middle : middle + size]
