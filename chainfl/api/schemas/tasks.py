"""Tasks and the accounts in them."""

from typing import Literal

from pydantic import Field

from chainfl.api.schemas.values import (
    Account,
    CidText,
    Hash,
    Integer,
    Outcome,
    PhaseName,
    Place,
    RoleName,
    Schema,
    StakeMove,
    Wei,
    Who,
)


class Terms(Schema):
    """The frozen terms of a task."""

    rule: str = Field(examples=["softmax"])
    statistic: str = Field(examples=["median"])
    beta: Integer
    alpha: Integer
    tolerated: int
    selected: int
    keep: Integer
    by_samples: bool
    unique_roots: bool
    committee_size: int
    redraw_every: int
    min_updates: int
    max_updates: int
    max_samples: int
    rounds: int
    target: Integer
    min_stake: Wei
    caller_fee: Wei
    seconds: dict[str, int] = Field(description="length of each phase")
    parts: dict[str, float] = Field(description="how a round's budget is split")
    slashes: dict[str, float] = Field(description="what part of a stake a slash takes")
    dev_cap: Integer
    finder_part: Integer
    burn_part: Integer
    admission_root: Hash = Field(description="of the list of who may join; zero: everybody may")
    min_internals: int = Field(
        description="fewest internals of an appointed committee; 0: it is drawn or elected"
    )
    internals_train: bool = Field(description="an appointed committee trains too")
    budget: int = Field(
        description="varsel: what external updates count for at most, in internal ones", examples=[10]
    )
    dimension: int = Field(description="parameters of the model")
    depth: int = Field(description="of the Merkle tree")
    scale: int = Field(description="a parameter is its integer divided by 2 to this")
    manifest: CidText
    first_root: Hash
    first_model: CidText


class Task(Schema):
    """A training task as it stands."""

    task: Account
    task_id: int = Field(examples=[1])
    chain_id: int = Field(examples=[31337])
    sponsor: Account
    phase: PhaseName
    round: int = Field(description="the running round, or the last one")
    rounds: int = Field(description="how many there will be at most")
    rounds_final: int
    rounds_void: int
    lies: int = Field(description="lies proven so far")
    attempt: int
    deadline: int = Field(description="when the phase ends at the latest; 0 where none runs")
    funded: Wei
    escrow: Wei
    owed: Wei
    paid: Wei = Field(description="credited to workers, committees and miners so far")
    slashed: Wei = Field(description="taken from stakes so far")
    gas: int
    participants: int
    eligible: int
    head_root: Hash
    head_block: CidText | None
    head_loss: float | None = Field(
        description="the committee's newest loss of the head (or missed accuracy)"
    )
    created_block: int
    terms: Terms


class Participant(Schema):
    """An account in a task."""

    task: Account
    task_id: int
    id: int
    account: Account
    enrolled: bool
    role: str | None = Field(
        examples=["internal"],
        description="as what the list of who may join names it; null where there is no list",
    )
    weight: int = Field(description="in the draw: thousandths of the minimum stake")
    active_from: int
    bonded: Wei
    unbonding: Wei
    earned: Wei = Field(description="rewards, fees of calls, and the finder's part of proven lies")
    claimed: Wei
    slashed: Wei
    rounds: int = Field(description="in how many rounds it had a part")


class Part(Schema):
    """What a participant did in a round."""

    task: Account
    task_id: int
    round: int
    outcome: Outcome
    account: Who
    roles: list[RoleName]
    committed: bool
    revealed: bool
    included: bool | None
    share: int | None
    scored: bool
    proposed: bool
    vote: Literal["attests", "objects", "silent"] | None
    convicted: bool
    earned: Wei
    slashed: Wei


class StakeChange(Schema):
    """A movement of stake behind a task."""

    task: Account
    account: Account
    change: StakeMove
    amount: Wei
    bonded: Wei = Field(description="afterwards")
    unbonding: Wei
    place: Place


class EventRow(Schema):
    """An event as the contracts emitted it."""

    task: Account
    number: int = Field(description="its place among the task's events")
    event: str = Field(examples=["UpdateRevealed"])
    round: int | None
    account: Account | None
    values: dict[str, object]
    block_hash: Hash
    log_index: int
    gas: int
    place: Place
