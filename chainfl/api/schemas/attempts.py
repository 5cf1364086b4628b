"""Proposals of a round, the votes on them, and lies that were proven."""

from typing import Literal

from pydantic import Field

from chainfl.api.schemas.values import Account, CidText, Hash, Place, Schema, Wei, Who


class Vote(Schema):
    """A validator's vote on a proposal."""

    validator: Who
    vote: Literal["attests", "objects", "silent", "open"]


class Conviction(Schema):
    """Stake lost to a proven lie."""

    account: Who
    part: Literal["proposed", "attested"]
    slashed: Wei
    to_escrow: Wei
    to_finder: Wei
    burned: Wei


class Lie(Schema):
    """A wrong parameter, re-executed on chain."""

    position: int
    leaf: int
    expected: int = Field(description="what head and updates give, as stored (biased by 2^31)")
    found: int = Field(description="what the proposal holds")
    expected_value: float
    found_value: float
    finder: Account
    place: Place
    convictions: list[Conviction]


class Attempt(Schema):
    """One proposer's turn."""

    attempt: int
    proposer: Who
    outcome: Literal["waiting", "standing", "final", "lie proven", "no quorum", "silent"]
    model_root: Hash | None
    block: CidText | None
    votes: list[Vote]
    quorum: int
    lie: Lie | None
    place: Place | None
