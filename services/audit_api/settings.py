"""What the audit API is told: flags over environment (`CHAINFL_API_…`), with limits that keep it alive."""

from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from chainfl.errors import InputError


class ApiSettings(BaseSettings):
    """The settings of `chainfl audit-api serve`."""

    model_config = SettingsConfigDict(env_prefix="CHAINFL_API_", extra="forbid", frozen=True)

    index: Path = Field(
        default=Path(".chainfl/audit-index.sqlite"), description="file of the index; can be deleted"
    )
    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8080, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    poll_seconds: float = Field(default=1.0, gt=0, description="pause between looks at the chain")
    audit_threads: int = Field(default=2, ge=1, le=64, description="audits and proofs worked on at once")
    audit_queue: int = Field(
        default=16, ge=1, description="audits and proofs that may wait; more are refused"
    )
    live_clients: int = Field(default=100, ge=0, description="live streams open at once; more are refused")
    request_seconds: float = Field(default=60.0, gt=0, description="longest time a request may take")
    header_seconds: float = Field(
        default=10.0, gt=0, description="longest time a client may take to send its request"
    )
    connections: int = Field(default=500, ge=1, description="connections served at once; more are refused")


def load_settings(flags: dict[str, Any]) -> ApiSettings:
    """Put flags and environment together; a flag that was not given (None) does not count.

    Raises:
        InputError: a setting is unknown or malformed; names it and where it can be set.
    """
    try:
        return ApiSettings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InputError(
            f"setting {name}: {first['msg'].lower()}; give --{name.replace('_', '-')} or CHAINFL_API_{name.upper()}"
        ) from None
