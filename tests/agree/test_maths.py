"""Combining, shares on ranks, election, bits and pay: the libraries give the integers of the rules, case by case."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import compress
from random import Random

import pytest

from chainfl.codec.merkle import fold
from chainfl.codec.scores import (
    UNAVAILABLE,
    ScoreKind,
    Scores,
    decode_scores,
    encode_scores,
    scores_length,
)
from chainfl.errors import ScoresError
from chainfl.protocol import rewards, shares
from chainfl.protocol.errors import BadSharesError
from chainfl.protocol.proof import Claim, Evidence, Leaf, check_evidence
from chainfl.protocol.tally import as_flags, as_set
from chainfl.protocol.varsel import WHOLE, check_varsel_shares, varsel_shares
from chainfl.types import TOTAL, WAD, Rule, Statistic
from tests.contracts.evm import Deployed
from tests.protocol.scene import config
from tests.protocol.test_varsel import numbers, rows

BIT, NO_NUMBER = 2, 2**256 - 1
TERMS = {rule: config(rule) for rule in Rule}
ENDS = [value.to_bytes(4, "big") for value in (0, 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1)]
CASES = {"fast": 200, "default": 2_000, "deep": 100_000}[os.environ.get("CHAINFL_TEST_DEPTH", "default")]


def _cases(name: str) -> Iterator[Random]:
    """One generator per case, so that a failing one can be played alone."""
    return (Random(f"{name} {number}") for number in range(CASES))


def _size(rng: Random) -> int:
    """How many updates: mostly few, for a case with many costs as much as ten with few."""
    return rng.randint(1, rng.choice([4, 12, 12, 128]))


def _leaf(rng: Random, depth: int) -> Leaf:
    """A leaf with values at the ends as often as between."""
    data = b"".join(rng.choices(ENDS, k=64)) if rng.random() < 0.5 else rng.randbytes(256)
    return Leaf(data, tuple(rng.randbytes(32) for _ in range(depth)))


def _shares(rng: Random, count: int) -> list[int]:
    """p_0 and the others: any integers that sum to the whole."""
    cuts = sorted(rng.choice([0, TOTAL, rng.randint(0, TOTAL)]) for _ in range(count))
    return [after - before for before, after in zip([0, *cuts], [*cuts, TOTAL], strict=True)]


def test_the_form_of_weighed_shares_is_judged_alike(libraries: Deployed) -> None:
    judged = Counter[bool]()
    for rng in _cases("weighed shares"):
        count = _size(rng)
        included = [rng.random() < 0.9 for _ in range(count)]
        own = [rng.random() < 0.4 for _ in range(count)]
        budget = rng.choice([0, 1, 2, 10, 255])
        posted = _weighed(rng, included, own, budget)
        try:
            check_varsel_shares(posted, own, included, budget)
        except BadSharesError:
            expected = False
        else:
            expected = True

        # p_0 is checked before, as it is of every rule.
        if posted[0] == 0:
            assert libraries.one("isWeighed", posted, as_set(included), as_set(own), budget) == expected
            judged[expected] += 1
    assert min(judged[True], judged[False]) > CASES // 10


def _weighed(rng: Random, included: Sequence[bool], own: Sequence[bool], budget: int) -> list[int]:
    """Shares by weights within the budget, often spoilt a little; a list of anything where nothing is internal."""
    internals = list(compress(own, included))
    if not any(internals):
        return _shares(rng, len(included))
    left = WHOLE * budget if sum(internals) > 1 or rng.random() < 0.1 else 0
    weights = []
    for is_internal in internals:
        wanted = rng.choice([0, 1, WHOLE, WHOLE + 1, rng.randrange(WHOLE)])
        weights.append(WHOLE if is_internal else min(left, wanted))
        left -= 0 if is_internal else weights[-1]
    parts = iter(varsel_shares(weights, internals))
    shares = [0, *(next(parts) if counts else 0 for counts in included)]
    if rng.random() < 0.4:
        one, other = rng.randrange(len(shares)), rng.randrange(len(shares))
        moved = min(shares[one], rng.choice([1, 2, 20, 1000, 2**20]))
        shares[one] -= moved
        shares[other] += moved * (rng.random() < 0.9)
    return shares


@pytest.mark.parametrize("row", rows())
def test_published_shares_of_weights_have_the_form(libraries: Deployed, row: dict[str, str]) -> None:
    shares = numbers(row["shares"], 4)

    assert libraries.one("isWeighed", shares, int(row["included"]), int(row["internals"]), int(row["budget"]))


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
        count = _size(rng)
        trim = rng.randint(0, (count - 1) // 2)
        terms = replace(TERMS[rule], alpha=rng.randint(10**12, WAD), tolerated=trim)
        amount = TOTAL - shares.head_share(terms.alpha)

        found = libraries.one("onRanks", count, (count - 1) // 2 if rule is Rule.MEDIAN else trim, amount)

        assert list(found) == shares.rank_shares(count, terms)
        assert libraries.one("headShare", terms.alpha) == TOTAL - amount


def test_selection_and_election_are_the_same(libraries: Deployed) -> None:
    for rng in _cases("election"):
        count = _size(rng)
        statistics = [rng.choice([5, 7, rng.getrandbits(rng.randint(1, 128))]) for _ in range(count)]
        rule = rng.choice([Rule.COMMITTEE_NEAR, Rule.COMMITTEE_FAR])
        terms = replace(TERMS[rule], keep=rng.choice([1, WAD // 3, WAD, rng.randint(1, WAD)]))
        size = rng.randint(1, count)
        ranking = shares.rank(statistics)
        middle = (count - size) // 2

        selected = libraries.one("select", ranking, terms.keep, rule is Rule.COMMITTEE_FAR)
        elected = libraries.one("electMiddle", ranking, size)

        assert [bool(selected >> i & 1) for i in range(count)] == shares.select(statistics, terms)
        assert list(elected) == ranking[middle : middle + size]


def test_bits_give_the_same_inclusion_head_and_deviations(libraries: Deployed) -> None:
    for rng in _cases("bits"):
        size, updates, statistic = rng.choice([3, 3, 5, 5, 7, 45]), _size(rng), rng.choice(list(Statistic))
        cap, shyness = rng.choice([0, WAD, 2**128 - 1]), rng.choice([0.1, 0.5, 0.9])
        vouches_RC = [[rng.random() > shyness for _ in range(size)] for _ in range(updates)]
        heads = [rng.choice([UNAVAILABLE, 10**12, rng.getrandbits(64)]) for _ in range(size)]
        reveals = [
            encode_scores(ScoreKind.VOUCH, Scores(head, tuple(int(row[j]) for row in vouches_RC)))
            for j, head in enumerate(heads)
        ]
        terms = replace(TERMS[Rule.MEAN], committee_size=size, unique_roots=False)

        included, withheld, statistics, head, is_head_withheld = libraries.call(
            "judge", reveals, BIT, int(statistic), updates
        )

        expected = shares.included(vouches_RC, [bytes(32)] * updates, bytes(32), terms)
        assert as_flags(included, updates) == tuple(expected)
        assert as_flags(withheld, updates) == tuple(shares.is_withheld(row, size) for row in vouches_RC)
        numbers = [score for score in heads if score != UNAVAILABLE]
        if len(numbers) >= shares.majority(size):
            assert head == shares.statistic_of(numbers, statistic, shares.SCORE_TO_WAD, size)
        else:
            assert head == NO_NUMBER
        assert is_head_withheld == shares.is_withheld([score != UNAVAILABLE for score in heads], size)
        kept = [row[-1] for row, counts in zip(vouches_RC, expected, strict=True) if counts]
        if kept:
            found = libraries.one("deviation", reveals[-1], BIT, included, list(statistics), cap)
            assert found == rewards.deviation([0 if vouched else None for vouched in kept], cap)


def test_scores_of_a_wrong_form_are_refused_by_both(libraries: Deployed) -> None:
    for rng in _cases("form"):
        kind, number = rng.choice([(ScoreKind.LOSS, 0), (ScoreKind.DISTANCE, 1), (ScoreKind.VOUCH, BIT)])
        updates = _size(rng)
        length = scores_length(kind, updates) + rng.choice([0, 0, 0, 0, 1, -1, -rng.randint(0, 8)])
        scores = rng.randbytes(max(0, length))
        if rng.random() < 0.5:
            scores = scores[:-1] + bytes([rng.randrange(1 << (updates - 1) % 8 + 1)])

        try:
            decode_scores(kind, scores, updates)
            well_formed = True
        except ScoresError:
            well_formed = False

        assert libraries.one("isWellFormed", scores, number, updates) == well_formed


def test_of_repeated_roots_the_same_ones_are_dropped(libraries: Deployed) -> None:
    terms = TERMS[Rule.MEAN]
    for rng in _cases("repeats"):
        updates, pool = _size(rng), [rng.randbytes(32) for _ in range(rng.randint(1, 12))]
        roots = [rng.choice(pool) for _ in range(updates)]
        vouched = [rng.random() < 0.8 for _ in range(updates)]

        found = libraries.one(
            "dropRepeats", sum(1 << i for i in range(updates) if vouched[i]), roots, pool[0]
        )

        rows = [[counts] * terms.committee_size for counts in vouched]
        assert [bool(found >> i & 1) for i in range(updates)] == shares.included(rows, roots, pool[0], terms)


def test_workers_are_paid_the_same(libraries: Deployed) -> None:
    for rng in _cases("workers"):
        head = rng.choice([0, rng.randrange(TOTAL)])
        share, pool = rng.choice([0, TOTAL - head, rng.randint(0, TOTAL - head)]), rng.randrange(10**24)

        assert libraries.one("ofWorker", pool, share, head) == pool * share // (TOTAL - head)
