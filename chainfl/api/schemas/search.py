"""What an address or a hash names, and the facts about its server that the dashboard needs."""

from typing import Literal

from pydantic import Field

from chainfl.api.schemas.values import Account, Schema


class Hit(Schema):
    """One thing that has the name."""

    what: Literal["task", "sponsor", "participant", "transaction", "record"]
    text: str = Field(description="what it is, in words", examples=["root of an update in round 3"])
    task: Account
    task_id: int
    round: int | None = Field(description="null for what belongs to no round")


class About(Schema):
    """This server."""

    chain_id: int
    explorer: str | None = Field(
        description="where addresses and transactions can be looked up; null: nowhere"
    )
    version: str
