"""A round and everything that is known of it."""

from typing import Literal

from pydantic import Field

from chainfl.api.schemas.attempts import Attempt
from chainfl.api.schemas.money import GasLine, Reward, Slash
from chainfl.api.schemas.values import (
    Account,
    CidText,
    Hash,
    Integer,
    Outcome,
    PhaseName,
    Place,
    Schema,
    Wei,
    Who,
)


class Share(Schema):
    """One part of the next model."""

    owner: Literal["head", "update", "rank"]
    index: int = Field(description="0 for the head")
    worker: Who | None
    share: int = Field(ge=0, le=2**31)
    fraction: float


class RoundSummary(Schema):
    """A round in one line."""

    task: Account
    task_id: int
    round: int = Field(ge=1, examples=[3])
    outcome: Outcome
    phase: PhaseName
    attempts: int
    lies: int
    head_loss: float | None = Field(description="the committee's loss of the model this round started from")
    committed: int
    revealed: int
    included: int
    outside: list[Share] | None = Field(
        description="shares of those who are not of the appointed committee; null where there is none, or no shares"
    )
    paid: Wei
    slashed: Wei
    gas: int
    opened: Place | None
    ended: Place | None


class Draw(Schema):
    """Who was drawn, and from what."""

    block_number: int = Field(description="its hash seeds the draw")
    seed: Hash
    committee: list[Who]
    proposers: list[Who] = Field(description="the miner, then its backups")
    workers: list[Who] | None = Field(description="null where everybody else may work")
    expected: int
    place: Place


class Update(Schema):
    """A worker's update."""

    worker: Who
    index: int | None = Field(description="1 … R among the revealed; null before, and for a committee's own")
    member: bool = Field(description="an elected committee's own update, which is not combined")
    commitment: Hash
    root: Hash | None
    cid: CidText | None
    samples: int | None
    included: bool | None = Field(description="null before the tally")
    vouches: int | None = Field(description="how many validators, itself aside, had its bytes")
    share: int | None = Field(description="of 2^31; null where shares belong to ranks, or none were formed")


class Scores(Schema):
    """One validator's revealed scores."""

    validator: Who
    committed: bool
    revealed: bool
    head: Integer | None = Field(description="its loss of the head in 10^-12; null: not given")
    entries: list[Integer | None] = Field(description="per update by index; null: not available or invalid")
    deviation: Integer | None = Field(
        description="distance from the committee's statistic, which pay depends on"
    )


class ScoreTable(Schema):
    """All scores of a round: validators by updates."""

    kind: Literal["loss", "distance", "vouch"]
    unit: str
    workers: list[Who]
    validators: list[Scores]
    head_score: Integer | None = Field(description="the committee's statistic of the head, in 10^-18")


class ShareTable(Schema):
    """What the next model is made of; all shares together are 2^31."""

    decided_by: Literal["contract", "proposer", "nobody"]
    shares: list[Share]


class Step(Schema):
    """One thing that happened, in a sentence."""

    phase: PhaseName
    event: str
    text: str
    tone: Literal["plain", "good", "warn", "bad"]
    place: Place


class Block(RoundSummary):
    """A round and everything that is known of it; when final, its block."""

    rule: str
    deadline: int
    head_root: Hash = Field(description="of the model the round started from")
    head_block: CidText | None
    model_root: Hash | None = Field(description="of the model it ended with; null until it is final")
    block: CidText | None
    draw: Draw | None
    updates: list[Update]
    scores: ScoreTable | None
    shares: ShareTable | None
    next_committee: list[Who]
    attempt_list: list[Attempt]
    slashes: list[Slash]
    rewards: list[Reward]
    gas_by_action: list[GasLine]
    steps: list[Step]
