"""The contract convicts each flipped bit of an aggregate, and no right aggregate anywhere, for every rule."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from chainfl.codec import merkle
from chainfl.codec.commitments import keccak256
from chainfl.protocol.proof import Claim, gather
from chainfl.types import Rule
from tests.contracts.evm import Deployed
from tests.protocol.test_proof import BITS, CASES, POSITIONS, SAMPLED, Case

NO_LIE = keccak256(b"NoLie(uint256)")[:4].hex()


def refute(libraries: Deployed, case: Case, claim: Claim, position: int) -> tuple[int, int]:
    """What the contract finds and expects at a position; it reverts where the two are the same."""
    evidence = gather(claim, position, lambda root, leaf: merkle.prove(case.trees[root], leaf))
    shares = claim.rank_shares or [share for _, share in claim.parts]
    named = (
        claim.root,
        claim.head_root,
        [root for root, _ in claim.parts],
        [claim.head_share, *shares],
        claim.rank_shares is not None,
        claim.dimension,
        claim.depth,
    )
    found, expected = libraries.call("refute", named, position, evidence.to_bytes())
    return found, expected


def assert_every_flip_is_convicted(libraries: Deployed, case: Case, bits: Sequence[tuple[int, int]]) -> None:
    for position, bit in bits:
        lie = case.right.copy()
        lie[position] ^= np.uint32(1 << bit)
        tree = merkle.build(lie)
        case.trees[tree.root] = tree

        found, expected = refute(libraries, case, replace(case.claim, root=tree.root), position)

        del case.trees[tree.root]
        assert (found, expected) == (lie[position], case.right[position])


@pytest.mark.parametrize("rule", Rule)
def test_every_sampled_bit_that_is_flipped_convicts_on_chain(libraries: Deployed, rule: Rule) -> None:
    assert_every_flip_is_convicted(libraries, CASES[rule], SAMPLED)


@pytest.mark.deep
@pytest.mark.parametrize("rule", Rule)
def test_every_bit_that_is_flipped_convicts_on_chain(libraries: Deployed, rule: Rule) -> None:
    assert_every_flip_is_convicted(libraries, CASES[rule], BITS)


@pytest.mark.parametrize("rule", Rule)
def test_a_right_aggregate_cannot_be_convicted_anywhere_on_chain(libraries: Deployed, rule: Rule) -> None:
    case = CASES[rule]

    for position in range(POSITIONS):
        with pytest.raises(RuntimeError, match=NO_LIE):
            refute(libraries, case, case.claim, position)
