"""How well the chain is followed."""

from typing import Literal

from pydantic import Field

from chainfl.api.schemas.values import Account, HealthStatus, Schema


class UnreadTask(Schema):
    """A task that cannot be read now; what is served of it is what was known before."""

    task: Account
    reason: str
    since: float = Field(description="seconds since 1970")
    attempts: int
    retry_seconds: float = Field(description="until it is read anew from its creation")


class Health(Schema):
    """Whether the API follows the chain: answered with status 503 where it is `failing`."""

    status: HealthStatus
    detail: str = Field(description="what is wrong, and what to do; empty where nothing is")
    chain_id: int
    block_number: int = Field(description="up to which everything was read")
    newest_block: int = Field(description="the newest block that counts, when the chain was last asked")
    newest_time: int = Field(description="its time, in seconds since 1970; 0 where it is not known")
    blocks_behind: int
    seconds_behind: float = Field(description="since the index last agreed with the chain's head")
    follower: Literal["running", "dead"] = Field(description="the thread that follows the chain")
    tasks: int
    unreadable: int = Field(description="how many tasks cannot be read now")
    unreadable_tasks: list[UnreadTask] = Field(description="the first of them")
    skipped_tasks: int = Field(description="tasks beyond the limit of how many are followed")
    revision: int
    version: str
