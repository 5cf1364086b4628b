"""What was earned, taken from stakes, and used as gas."""

from pydantic import Field

from chainfl.api.schemas.values import Account, PhaseName, Place, RewardKind, Schema, SlashKind, Wei, Who


class Slash(Schema):
    """Stake that was taken, and where it went."""

    task: Account
    round: int
    phase: PhaseName
    kind: SlashKind
    account: Who
    amount: Wei
    to_escrow: Wei
    to_finder: Wei
    burned: Wei
    place: Place


class Reward(Schema):
    """What somebody earned: a worker can claim from the end of the round on, a finder's part is free stake at once."""

    task: Account
    round: int
    kind: RewardKind
    account: Account
    id: int | None
    amount: Wei
    place: Place


class Gas(Schema):
    """One transaction of a task and what it used."""

    task: Account
    round: int | None = Field(description="null for what belongs to no round: enrolment, stakes, claims")
    action: str = Field(examples=["UpdateCommitted"], description="the event that says most about it")
    gas: int
    events: list[str]
    place: Place


class GasLine(Schema):
    """Gas of a kind of transaction in a round."""

    action: str
    transactions: int
    gas: int
