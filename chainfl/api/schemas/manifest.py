"""What a task trains, as its manifest says."""

from typing import Literal

from pydantic import Field

from chainfl.api.schemas.values import CidText, Schema


class NamedTensor(Schema):
    """A tensor and where it lies in the model's vector."""

    name: str = Field(examples=["fc1.weight"])
    shape: list[int] = Field(examples=[[64, 784]])
    first: int = Field(description="position of its first parameter")


class Manifest(Schema):
    """What a task trains, read from the store; `settings` are words and numbers as the manifest has them."""

    cid: CidText
    format: Literal[1, 2]
    model: str = Field(description="the model, or the name of the app", examples=["lenet5"])
    dataset: str | None = Field(description="null where every participant brings its own", examples=["mnist"])
    digest: str | None = Field(description="of the app's source; null for what comes with chainfl")
    settings: dict[str, str]
    tensors: list[NamedTensor] = Field(description="the first 10,000")
