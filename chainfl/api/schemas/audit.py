"""Rounds done again, and what they are done again with."""

from typing import Literal

from pydantic import Field

from chainfl.api.schemas.values import Account, CidText, Hash, Hex, Outcome, Schema, VerdictName, Who


class Finding(Schema):
    """One check of a round."""

    number: int = Field(ge=1, examples=[8])
    check: str = Field(examples=["model root"])
    verdict: VerdictName
    expected: str
    found: str


class Challenge(Schema):
    """What to call `prove` with, to convict those who proposed or attested a wrong model."""

    attempt: int
    position: int
    expected: int
    found: int
    evidence: Hex


class Audit(Schema):
    """A round done again from chain and blobs alone."""

    task: Account
    round: int
    outcome: Outcome
    state: Literal["done", "running"]
    verdict: VerdictName | None = Field(description="the worst finding; null while it runs")
    findings: list[Finding]
    challenge: Challenge | None = Field(description="ready to send, where a standing proposal is wrong")
    fingerprint: Hash = Field(description="of the events that were audited: others, and it is run again")
    seconds: float = Field(description="how long it took")


class AuditLine(Schema):
    """The verdict on a round that was audited before."""

    task: Account
    round: int
    verdict: VerdictName
    checks: int
    fingerprint: Hash


class Difference(Schema):
    """A value of the index that is not what the chain's events give."""

    where: str = Field(examples=["round 2: paid"])
    expected: str
    found: str


class IndexCheck(Schema):
    """The whole index compared with the chain."""

    verdict: Literal["ok", "mismatch"]
    block_number: int = Field(description="up to which the chain was read")
    changed: int = Field(description="how many values differ")
    differences: list[Difference] = Field(description="the first of them")
    unreadable: int = Field(description="tasks that cannot be read now and were not compared; see /health")


class MerklePath(Schema):
    """A leaf and the digests beside its path, lowest first: hashed together they give the root."""

    what: Literal["model", "head", "update"]
    worker: Who | None
    share: int | None
    root: Hash
    cid: CidText
    leaf: Hex = Field(description="64 parameters, big-endian uint32")
    siblings: list[Hash]


class WrongParameter(Schema):
    """A parameter that re-execution does not confirm."""

    position: int
    expected: int
    found: int


class Evidence(Schema):
    """Everything needed to redo 64 parameters of a proposed model by hand."""

    task: Account
    round: int
    attempt: int
    leaf: int
    first_position: int
    depth: int
    on_ranks: bool
    rank_shares: list[int] | None
    paths: list[MerklePath]
    wrong: list[WrongParameter]
