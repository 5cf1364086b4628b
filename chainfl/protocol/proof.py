"""The one-parameter proof: a wrong aggregate has a wrong parameter, and one is enough (docs/protocol.md section 8)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chainfl.codec.merkle import LEAF_BYTES, LEAF_PARAMETERS, Proof, fold
from chainfl.protocol.errors import BadPositionError, BadProofError
from chainfl.types import TOTAL, Digest

ZERO = 2**31
"""The stored value of the parameter 0, and of every position beyond the model."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a proposal claims: `root` is what these shares make of these roots.

    `parts` pairs the root of every update that a proof must show with its share (on ranks: all included updates, and
    `rank_shares` holds the shares); updates without a part are left out, or an accomplice's root without bytes would
    block every proof.
    """

    root: Digest
    head_root: Digest
    head_share: int
    parts: tuple[tuple[Digest, int], ...]
    rank_shares: tuple[int, ...] | None
    dimension: int
    depth: int


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf and the digests beside its path, lowest first. Its index follows from the position."""

    data: bytes
    siblings: tuple[Digest, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The leaves of one proof: aggregate, head (if it has a share), updates in the claim's order."""

    aggregate: Leaf
    head: Leaf | None
    updates: tuple[Leaf, ...]

    def to_bytes(self) -> bytes:
        """As the contract takes it: leaf and path of one after the other."""
        leaves = (self.aggregate, *((self.head,) if self.head is not None else ()), *self.updates)
        return b"".join(leaf.data + b"".join(leaf.siblings) for leaf in leaves)


def check_evidence(claim: Claim, position: int, evidence: Evidence) -> tuple[int, int]:
    """Re-execute one parameter; answers (expected, found), which differ exactly when the proposal lies there.

    Raises:
        BadPositionError, BadProofError: the evidence does not belong to the claim.
    """
    if not 0 <= position < LEAF_PARAMETERS << claim.depth:
        raise BadPositionError(position)
    found = _value(claim.root, claim, position, evidence.aggregate)

    # Padding beyond the last parameter is zero whatever the updates hold, so it needs no other leaf.
    if position >= claim.dimension:
        if evidence.head is not None or evidence.updates:
            raise BadProofError()
        return ZERO, found
    if (evidence.head is None) != (claim.head_share == 0) or len(evidence.updates) != len(claim.parts):
        raise BadProofError()

    head = _value(claim.head_root, claim, position, evidence.head) if evidence.head is not None else 0
    values = [
        _value(root, claim, position, leaf)
        for (root, _), leaf in zip(claim.parts, evidence.updates, strict=True)
    ]

    if claim.rank_shares is None:
        weighed = sum(share * value for (_, share), value in zip(claim.parts, values, strict=True))
    else:
        weighed = sum(share * value for share, value in zip(claim.rank_shares, sorted(values), strict=True))
    return (claim.head_share * head + weighed + TOTAL // 2) // TOTAL, found


def _value(root: Digest, claim: Claim, position: int, leaf: Leaf) -> int:
    """The parameter at a position, from a leaf that is shown to lie under the root."""
    if len(leaf.data) != LEAF_BYTES or len(leaf.siblings) != claim.depth:
        raise BadProofError()
    if fold(position // LEAF_PARAMETERS, leaf.data, leaf.siblings) != root:
        raise BadProofError()
    at = position % LEAF_PARAMETERS * 4
    return int.from_bytes(leaf.data[at : at + 4], "big")


def gather(claim: Claim, position: int, prove: Callable[[Digest, int], Proof]) -> Evidence:
    """Collect the leaves for a position; `prove(root, leaf index)` gives the proof of a leaf of a known vector."""
    index = position // LEAF_PARAMETERS

    def leaf(root: Digest) -> Leaf:
        found = prove(root, index)
        return Leaf(found.leaf, tuple(found.siblings))

    if position >= claim.dimension:
        return Evidence(leaf(claim.root), None, ())
    head = leaf(claim.head_root) if claim.head_share else None
    return Evidence(leaf(claim.root), head, tuple(leaf(root) for root, _ in claim.parts))


def parts_of(
    roots: Sequence[Digest], shares: Sequence[int], included: Sequence[bool], on_ranks: bool
) -> tuple[tuple[Digest, int], ...]:
    """Which updates a proof must show: those with a share, or on ranks all included ones."""
    if on_ranks:
        return tuple((root, 0) for root, counts in zip(roots, included, strict=True) if counts)
    return tuple((root, share) for root, share in zip(roots, shares, strict=True) if share)
