"""The settings of a node: flags over environment (`CHAINFL_…`) over a TOML file."""

from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from chainfl.limits import DEFAULT_LIMITS, Limits


class NodeSettings(BaseSettings):
    """The settings of `chainfl node run`, `worker`, `validator` and `miner`."""

    model_config = SettingsConfigDict(env_prefix="CHAINFL_", extra="forbid")
    settings_file: ClassVar[Path | None] = None

    rpc_url: str = Field(
        "http://127.0.0.1:8545",
        description="JSON-RPC endpoint, http(s) or ws(s); of several, with commas between, most must agree",
    )
    chain_id: int | None = Field(None, description="refuse to work with an endpoint of another chain")
    task: str = Field(description="address of the task")
    from_block: int = Field(0, description="a block not after the task's creation, to read its events from")
    keystore: Path = Field(description="encrypted key file")
    password_file: Path | None = Field(None, description="file whose first line opens the keystore")
    owner: str | None = Field(
        None,
        description="address whose stake this key acts for, as its operator (chainfl stake operator set)",
    )
    admission: Path | None = Field(
        None, description="the list of who may join, as a file, in place of the one that the manifest names"
    )
    store: str = Field(description="dir:/path, ipfs:/ip4/127.0.0.1/tcp/5001 or http://127.0.0.1:5001")
    home: Path = Field(Path(".chainfl"), description="where the journal is kept")
    app: str | None = Field(
        None, description="the task's app, installed by you: a Python file, or package.module"
    )
    accept_app: str | None = Field(
        None, description="run --app though the task names another: the digest of your own source"
    )
    dataset: str | None = Field(
        None,
        description="data set in place of the manifest's, such as npz:/file; what an app's data() is given",
    )
    data: Path | None = Field(None, description="folder with data sets")
    partition: str = Field("iid", description="how the data set is dealt to participants")
    client: int = Field(0, description="which part of the data is this participant's, from 0")
    clients: int = Field(1, description="into how many parts the data is dealt")
    partition_seed: int = Field(0, description="seed of the partition")
    master_seed: int = Field(0, description="seed of this participant's training")
    device: str = Field("auto", description="auto, cuda, mps or cpu")
    threads: int | None = Field(
        None,
        ge=1,
        description="threads of torch for an app; it changes bits, and is in the journal [all cores]",
    )
    dp: str | None = Field(
        None,
        description="clip each update's difference from the head and add Gaussian noise: clip=1.0,noise=1.1,delta=1e-5",
    )
    trainer: str = Field(
        "torch", description="torch; or none: updates that learn nothing, for measuring the rest"
    )
    attack: str | None = Field(None, description="misbehave, for demonstrations: label-flip")
    lie_in_round: int | None = Field(
        None,
        description="as first proposer of this round propose a wrong model (varsel: wrong weights), for demonstrations",
    )
    max_parameters: int = Field(
        DEFAULT_LIMITS.parameters, description="take no part in a task whose models have more parameters"
    )
    max_memory_mib: int = Field(
        DEFAULT_LIMITS.memory >> 20, description="take no part where one step may hold more MiB of models"
    )
    keep_rounds: str = Field(
        "3", description="unpin what is older than so many rounds; all: serve the whole history for ever"
    )
    enrol: bool = Field(
        False, description="enrol in the task, once a rehearsal has shown that this node can take part"
    )
    max_fee: float = Field(
        300, gt=0, description="most gwei that a unit of gas may cost; what is above waits"
    )
    max_priority_fee: float = Field(10, gt=0, description="most gwei of that to the block's producer")
    confirmations: int = Field(0, description="blocks to wait before anything counts")
    poll_seconds: float = Field(
        0.5, description="longest pause between reads of the chain; shorter while events come often"
    )
    log_level: str = Field("info", description="how much to log: debug, info, warning")
    json_logs: bool = Field(False, description="one JSON object per log line")
    track: str | None = Field(
        None, description="show each settled round to tensorboard:DIR or mlflow:URI (extras of that name)"
    )
    status_port: int | None = Field(None, description="serve /health and /metrics on this loopback port")

    @field_validator("keep_rounds")
    @classmethod
    def _is_count_or_all(cls, value: str) -> str:
        if value != "all" and not value.isdecimal():
            raise ValueError(f"{value!r} is neither a number of rounds nor all")
        return value

    @property
    def rounds_kept(self) -> int | None:
        """For how many rounds pins stay after theirs; None: for ever."""
        return None if self.keep_rounds == "all" else int(self.keep_rounds)

    @property
    def limits(self) -> Limits:
        """How large a task may be."""
        return Limits(self.max_parameters, self.max_memory_mib << 20)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags first, then the environment, then the file."""
        del dotenv_settings, file_secret_settings
        if cls.settings_file is None:
            return init_settings, env_settings
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, cls.settings_file)


def load_settings(flags: dict[str, Any], file: Path | None = None) -> NodeSettings:
    """Put flags, environment and file together; a flag that was not given (None) does not count.

    Raises:
        InputError: a setting is missing, unknown or malformed; names it and where it can be set.
    """
    from pydantic import ValidationError

    from chainfl.errors import InputError

    class WithFile(NodeSettings):
        """The same settings, read from this file too."""

        settings_file = file

    if file is not None and not file.is_file():
        raise InputError(f"{file}: no such settings file")
    try:
        return WithFile(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InputError(
            f"setting {name}: {first['msg'].lower()}; give --{name.replace('_', '-')} or CHAINFL_{name.upper()}"
        ) from None
    except ValueError as error:
        raise InputError(f"{file}: {error}") from None
