"""The one-parameter proof: every wrong aggregate is convicted, no right one can be (docs/protocol.md section 8)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfl.codec import merkle
from chainfl.codec.vector import Vector
from chainfl.protocol import shares as sharing
from chainfl.protocol.combine import combine, combine_ranks
from chainfl.protocol.errors import BadPositionError, BadProofError
from chainfl.protocol.proof import ZERO, Claim, Evidence, Leaf, check_evidence, gather, parts_of
from chainfl.types import TOTAL, WAD, Digest, Rule
from tests.protocol.scene import config

D = 200
DEPTH = merkle.depth(D)
POSITIONS = 64 << DEPTH
NOWHERE = Digest(b"\x66" * 32)
"""A root whose bytes nobody has."""


class Case:
    """A round's models under one rule, its claim, and the trees to prove from."""

    def __init__(self, rule: Rule, models: Sequence[Vector], alpha: int = 88 * WAD // 100) -> None:
        """Combine all but the first model, the head, as the rule says."""
        head, *updates = models
        terms = config(rule, alpha=alpha, keep=WAD // 2)
        self.trees = {tree.root: tree for tree in map(merkle.build, models)}
        roots = [merkle.root(update) for update in updates]
        shares = _shares(rule, updates, terms.alpha)
        p_0 = TOTAL - sum(shares)
        ranks = tuple(shares) if rule.is_on_ranks else None
        combined = combine_ranks if rule.is_on_ranks else combine
        self.right = combined(head, updates, (p_0, *shares))
        parts = parts_of(roots, shares, [True] * len(updates), rule.is_on_ranks)
        self.claim = Claim(merkle.root(self.right), merkle.root(head), p_0, parts, ranks, D, DEPTH)
        self.trees[self.claim.root] = merkle.build(self.right)

    def proposing(self, model: Vector) -> Claim:
        """The claim of a proposer who posts this model instead."""
        tree = merkle.build(model)
        self.trees[tree.root] = tree
        return replace(self.claim, root=tree.root)

    def check(self, claim: Claim, position: int) -> tuple[int, int]:
        """What re-execution expects and finds at a position."""
        evidence = gather(claim, position, lambda root, leaf: merkle.prove(self.trees[root], leaf))
        return check_evidence(claim, position, evidence)


def _shares(rule: Rule, updates: Sequence[Vector], alpha: int) -> list[int]:
    count = len(updates)
    if rule.is_attested:
        wanted = 1 if rule is Rule.KRUM else 2
        return sharing.equal([i < wanted for i in range(count)], TOTAL - sharing.head_share(alpha))
    statistics = [WAD * (1 + i % 3) for i in range(count)]
    return sharing.shares_of(statistics, [10 + i for i in range(count)], config(rule, alpha=alpha))


def random_models(count: int, seed: int = 5) -> list[Vector]:
    """A head and updates with values over the whole range."""
    return list(np.random.default_rng(seed).integers(0, 2**32, (count, D), dtype=np.uint32))


CASES = {rule: Case(rule, random_models(7)) for rule in Rule}
BITS = [(position, bit) for position in range(D) for bit in range(32)]
SAMPLED = [BITS[i] for i in np.random.default_rng(1).choice(len(BITS), 256, replace=False)]


def assert_every_flip_is_convicted(case: Case, bits: Sequence[tuple[int, int]]) -> None:
    for position, bit in bits:
        lie = case.right.copy()
        lie[position] ^= np.uint32(1 << bit)

        expected, found = case.check(case.proposing(lie), position)

        assert expected == case.right[position]
        assert found == lie[position] != expected


@pytest.mark.parametrize("rule", Rule)
def test_every_sampled_bit_that_is_flipped_convicts(rule: Rule) -> None:
    assert_every_flip_is_convicted(CASES[rule], SAMPLED)


@pytest.mark.deep
@pytest.mark.parametrize("rule", Rule)
def test_every_bit_that_is_flipped_convicts(rule: Rule) -> None:
    assert_every_flip_is_convicted(CASES[rule], BITS)


@pytest.mark.parametrize("rule", Rule)
def test_a_right_aggregate_cannot_be_convicted_anywhere(rule: Rule) -> None:
    case = CASES[rule]

    for position in range(POSITIONS):
        expected, found = case.check(case.claim, position)
        assert expected == found


@pytest.mark.parametrize(
    ("low", "high", "middle"), [(0, 1, 1), (1, 2, 2), (2**31 - 1, 2**31, 2**31), (4, 6, 5)]
)
def test_half_a_step_is_rounded_up_as_in_combining(low: int, high: int, middle: int) -> None:
    models = [np.full(D, value, np.uint32) for value in (9, low, high)]

    case = Case(Rule.MEAN, models, alpha=WAD)

    assert case.check(case.claim, 0) == (middle, middle)


extremes = st.lists(
    st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1]), min_size=5, max_size=5
)


@given(st.sampled_from(Rule), st.lists(extremes, min_size=6, max_size=9), st.integers(WAD // 10**6, WAD))
def test_extreme_values_convict_nobody_who_combined_right(
    rule: Rule, values: list[list[int]], alpha: int
) -> None:
    models = [np.resize(np.array(row, np.uint32), D) for row in values]

    case = Case(rule, models, alpha)

    for position in (0, 1, 2, 3, 4, D - 1):
        expected, found = case.check(case.claim, position)
        assert expected == found


def with_padding(model: Vector, junk: int) -> merkle.Tree:
    """The tree of a model whose positions from d on hold junk instead of 2^31."""
    return merkle.build(np.concatenate([model, np.full(POSITIONS - D, junk, np.uint32)]))


@pytest.mark.parametrize("rule", [Rule.SOFTMAX, Rule.FEDROB])
def test_junk_behind_the_last_parameter_of_an_update_convicts_nobody(rule: Rule) -> None:
    models = random_models(7)
    case = Case(rule, models)
    swapped = {merkle.root(model): with_padding(model, 7) for model in models[1:]}
    case.trees |= {tree.root: tree for tree in swapped.values()}
    parts = tuple((swapped[root].root, share) for root, share in case.claim.parts)
    claim = replace(case.claim, parts=parts)

    for position in range(POSITIONS):
        expected, found = case.check(claim, position)
        assert expected == found


def test_junk_behind_the_last_parameter_of_an_aggregate_convicts_its_proposer() -> None:
    case = CASES[Rule.SOFTMAX]
    tree = with_padding(case.right, 7)
    case.trees[tree.root] = tree

    for position in range(D, POSITIONS):
        assert case.check(replace(case.claim, root=tree.root), position) == (ZERO, 7)


@pytest.mark.parametrize("rule", [Rule.SOFTMAX, Rule.KRUM, Rule.COMMITTEE_NEAR])
def test_a_root_without_bytes_and_without_a_part_does_not_block_a_proof(rule: Rule) -> None:
    roots, shares = [NOWHERE, *(b for b, _ in CASES[rule].claim.parts)], [0]
    shares += [share for _, share in CASES[rule].claim.parts]

    parts = parts_of(roots, shares, [True] * len(roots), on_ranks=False)

    assert parts == CASES[rule].claim.parts


def test_on_ranks_every_included_update_is_shown_and_no_other() -> None:
    roots = [bytes([i]) * 32 for i in range(3)]

    parts = parts_of(roots, (0, TOTAL, 0), [True, False, True], on_ranks=True)

    assert [root for root, _ in parts] == [roots[0], roots[2]]


def test_a_head_without_a_share_is_not_shown() -> None:
    case = Case(Rule.MEAN, random_models(5), alpha=WAD)
    evidence = gather(case.claim, 0, lambda root, leaf: merkle.prove(case.trees[root], leaf))
    head = Leaf(merkle.prove(case.trees[case.claim.head_root], 0).leaf, evidence.aggregate.siblings)

    assert evidence.head is None
    with pytest.raises(BadProofError):
        check_evidence(case.claim, 0, replace(evidence, head=head))


def honest_evidence(rule: Rule = Rule.SOFTMAX, position: int = 70) -> tuple[Claim, int, Evidence]:
    case = CASES[rule]
    return (
        case.claim,
        position,
        gather(case.claim, position, lambda root, leaf: merkle.prove(case.trees[root], leaf)),
    )


def without_last(leaf: Leaf) -> Leaf:
    return Leaf(leaf.data, leaf.siblings[:-1])


def flipped(leaf: Leaf) -> Leaf:
    return Leaf(bytes([leaf.data[0] ^ 1]) + leaf.data[1:], leaf.siblings)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda e: replace(e, aggregate=flipped(e.aggregate)),
        lambda e: replace(e, head=flipped(e.head)),
        lambda e: replace(e, head=None),
        lambda e: replace(e, updates=e.updates[:-1]),
        lambda e: replace(e, updates=(*e.updates, e.updates[0])),
        lambda e: replace(e, updates=(flipped(e.updates[0]), *e.updates[1:])),
        lambda e: replace(e, updates=(e.updates[1], e.updates[0], *e.updates[2:])),
        lambda e: replace(e, aggregate=without_last(e.aggregate)),
        lambda e: replace(e, aggregate=Leaf(e.aggregate.data + b"\0", e.aggregate.siblings)),
        lambda e: replace(e, aggregate=Leaf(e.aggregate.data, (*e.aggregate.siblings, bytes(32)))),
    ],
)
def test_evidence_that_does_not_belong_to_the_claim_is_refused(spoil: object) -> None:
    claim, position, evidence = honest_evidence()
    assert callable(spoil)

    with pytest.raises(BadProofError):
        check_evidence(claim, position, spoil(evidence))


def test_the_leaf_of_another_position_is_refused() -> None:
    claim, _, evidence = honest_evidence(position=70)

    with pytest.raises(BadProofError):
        check_evidence(claim, 6, evidence)


@pytest.mark.parametrize("position", [-1, POSITIONS, 2**64])
def test_a_position_beyond_the_tree_is_refused(position: int) -> None:
    claim, _, evidence = honest_evidence()

    with pytest.raises(BadPositionError):
        check_evidence(claim, position, evidence)


def test_behind_the_last_parameter_only_the_aggregate_is_shown() -> None:
    claim, _, evidence = honest_evidence(position=D - 1)

    with pytest.raises(BadProofError):
        check_evidence(claim, D, evidence)
    assert check_evidence(claim, D, Evidence(evidence.aggregate, None, ())) == (ZERO, ZERO)


def test_evidence_travels_as_leaves_and_paths_one_after_the_other() -> None:
    _, _, evidence = honest_evidence()
    leaves = [evidence.aggregate, evidence.head, *evidence.updates]

    data = evidence.to_bytes()

    size = 256 + 32 * DEPTH
    assert len(data) == size * len(leaves)
    for at, leaf in enumerate(leaves):
        assert leaf is not None
        assert data[at * size :][:size] == leaf.data + b"".join(leaf.siblings)
