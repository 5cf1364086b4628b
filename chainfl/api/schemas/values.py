"""What all documents of the API are made of. Wei, scores and distances are text, for JSON numbers round."""

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

_ACCOUNT = "0x00000000000000000000000000000000000000a1"
_HASH = "0x" + "5d" * 32
_CID = "bafyreigbtj4x7ip5legnfznufuopl4sg4knzc2cof6duas4b3q2fy6swua"

Account = Annotated[str, Field(pattern=r"^0x[0-9a-f]{40}$", examples=[_ACCOUNT])]
Hash = Annotated[str, Field(pattern=r"^0x[0-9a-f]{64}$", examples=[_HASH])]
Hex = Annotated[str, Field(pattern=r"^0x([0-9a-f]{2})*$", examples=["0x80000000"])]
CidText = Annotated[str, Field(pattern=r"^b[a-z2-7]{58}$", examples=[_CID])]
Wei = Annotated[
    str, Field(pattern=r"^-?[0-9]+$", examples=["1000000000000000000"], description="wei, as text")
]
Integer = Annotated[
    str, Field(pattern=r"^[0-9]+$", examples=["318000000000"], description="an integer, as text")
]
Outcome = Literal["open", "final", "void"]
PhaseName = Literal["draw", "train", "reveal", "score", "tally", "propose", "challenge", "ended"]
RewardKind = Literal["worker", "validator", "miner", "caller", "finder"]
SlashKind = Literal["liveness", "no-reveal", "lie"]
RoleName = Literal["validator", "miner", "backup", "worker", "finder"]
StakeMove = Literal["allocated", "deallocated", "released", "slashed", "pool-closed"]
VerdictName = Literal["ok", "mismatch", "data unavailable"]
HealthStatus = Literal["ok", "starting", "degraded", "failing"]


class Schema(BaseModel):
    """A value of the API."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Problem(Schema):
    """An error as problem+json (RFC 9457)."""

    type: str = Field(examples=["urn:chainfl:not-found"])
    title: str = Field(examples=["Not found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["task 7 is not known here; GET /tasks lists those that are"])
    instance: str = Field(examples=["/tasks/7"])


class Who(Schema):
    """A participant: its enrolment id in the task and its account."""

    id: int = Field(ge=1, examples=[3])
    account: Account


class Place(Schema):
    """Where on the chain something happened."""

    block_number: int = Field(examples=[128])
    transaction: Hash
    time: int = Field(description="seconds since 1970, of the block", examples=[1_700_000_000])


Row = TypeVar("Row", bound=Schema)


class Page(Schema, Generic[Row]):
    """A page of rows; `next` is the `after` of the next page, null on the last."""

    items: list[Row]
    next: int | None = Field(examples=[100])
