"""The settings of the audit API: flags over environment (`CHAINFL_API_…`), with limits that keep it alive."""

from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from chainfl.api.clients import IpNetwork, read_networks
from chainfl.errors import InputError
from chainfl.limits import DEFAULT_LIMITS, Limits


class ApiSettings(BaseSettings):
    """The settings of `chainfl audit-api serve`."""

    model_config = SettingsConfigDict(env_prefix="CHAINFL_API_", extra="forbid", frozen=True)

    index: Path = Field(
        default=Path(".chainfl/audit-index.sqlite"), description="file of the index; can be deleted"
    )
    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8080, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    poll_seconds: float = Field(default=1.0, gt=0, description="pause between reads of the chain")
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
    stale_seconds: float = Field(
        default=300.0, gt=0, description="how long the chain may be out of reach before /health says failing"
    )
    streams_per_client: int = Field(default=8, ge=1, description="live streams of one client")
    jobs_per_client: int = Field(
        default=4, ge=1, description="audits, proofs and index checks of one client under way or waiting"
    )
    requests_per_client: int = Field(default=32, ge=1, description="requests of one client under way")
    connections_per_client: int = Field(default=64, ge=1, description="connections of one client")
    trusted_proxies: str = Field(
        default="",
        description="addresses or networks, by commas, whose X-Forwarded-For says who the client is; none without it",
    )
    max_parameters: int = Field(
        default=DEFAULT_LIMITS.parameters,
        ge=1,
        description="parameters of a model that is audited; larger ones are listed only",
    )
    max_memory_mib: int = Field(
        default=DEFAULT_LIMITS.memory >> 20, ge=1, description="MiB of models that one audit may hold"
    )
    explorer: str = Field(
        default="",
        pattern=r"^(https?://[^\s]+)?$",
        max_length=200,
        description="address of a block explorer; the dashboard links accounts and transactions there",
    )
    max_tasks: int = Field(default=10_000, ge=1, description="tasks of the factory that are followed")
    max_events: int = Field(default=500_000, ge=1, description="events of one task that are kept")

    @field_validator("trusted_proxies")
    @classmethod
    def _check_proxies(cls, text: str) -> str:
        try:
            read_networks(text)
        except InputError as error:
            raise ValueError(str(error)) from None
        return text

    @property
    def limits(self) -> Limits:
        """How large a task may be to be audited here."""
        return Limits(self.max_parameters, self.max_memory_mib << 20)

    @property
    def proxies(self) -> tuple[IpNetwork, ...]:
        """The proxies whose word on who the client is counts."""
        return read_networks(self.trusted_proxies)


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
