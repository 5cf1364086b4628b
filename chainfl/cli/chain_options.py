"""Options that commands on a chain share, and what they open."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from chainfl.codec.text import ETHER
from chainfl.errors import InputError
from chainfl.limits import DEFAULT_LIMITS, Limits
from chainfl.report import narrate

if TYPE_CHECKING:
    from web3 import Web3

    from chainfl.chain.fees import FeeCaps
    from chainfl.chain.keys import LocalSigner
    from chainfl.chain.quorum import Endpoints
    from chainfl.chain.reader import TaskReader
    from chainfl.chain.send import Sender
    from chainfl.types import Address

F = TypeVar("F", bound=Callable[..., Any])


def rpc_options(command: F) -> F:
    """`--rpc-url` and `--chain-id`."""
    command = click.option(
        "--chain-id", type=int, envvar="CHAINFL_CHAIN_ID", help="Refuse an endpoint of another chain."
    )(command)
    return click.option(
        "--rpc-url",
        envvar="CHAINFL_RPC_URL",
        default=("http://127.0.0.1:8545",),
        show_default=True,
        multiple=True,
        callback=joined,
        help="JSON-RPC endpoint, http(s) or ws(s); given several times, most must agree.",
    )(command)


def joined(_: click.Context, __: click.Parameter, urls: tuple[str, ...]) -> str | None:
    """Several addresses as one text, commas between them, as the environment has them; None where none is given."""
    return ",".join(urls) or None


def key_options(command: F) -> F:
    """`--keystore` and `--password-file`, and what its transactions may cost."""
    command = fee_options(command)
    command = click.option(
        "--password-file",
        type=click.Path(path_type=Path),
        envvar="CHAINFL_PASSWORD_FILE",
        help="File whose first line opens the keystore; asked for when not given.",
    )(command)
    return click.option(
        "--keystore",
        type=click.Path(path_type=Path),
        envvar="CHAINFL_KEYSTORE",
        required=True,
        help="Encrypted key file (chainfl keys new).",
    )(command)


def fee_options(command: F) -> F:
    """`--max-fee` and `--max-priority-fee`, for commands that send; `chosen_caps` has them."""
    for name, what in (
        ("max_priority_fee", "Most gwei of that to the block's producer [10]."),
        ("max_fee", "Most gwei that a unit of gas may cost; a transaction above it waits [300]."),
    ):
        command = click.option(
            f"--{name.replace('_', '-')}",
            name,
            type=click.FloatRange(min=0, min_open=True),
            envvar=f"CHAINFL_{name.upper()}",
            expose_value=False,
            callback=_remember,
            help=what,
        )(command)
    return command


def _remember(context: click.Context, option: click.Parameter, value: float | None) -> None:
    context.meta[f"chainfl.{option.name}"] = value


def chosen_caps() -> "FeeCaps":
    """The caps on fees that the running command was given."""
    from chainfl.chain.fees import FeeCaps

    meta = click.get_current_context().meta
    return FeeCaps.of_gwei(meta.get("chainfl.max_fee"), meta.get("chainfl.max_priority_fee"))


@dataclass(frozen=True, slots=True)
class TaskOnChain:
    """The task that a command is about and the endpoint that serves its chain, both as typed."""

    rpc_url: str
    chain_id: int | None
    address: str
    from_block: int

    def connect(self) -> "Connection":
        """Open the endpoint, and refuse the wrong chain."""
        return connect(self.rpc_url, self.chain_id)

    def open_reader(self, connection: "Connection | None" = None) -> "TaskReader":
        """The task, read over this connection, or over a new one."""
        return open_reader(connection or self.connect(), self.address, self.from_block)


def task_options(command: Callable[..., int]) -> Callable[..., int]:
    """`rpc_options`, `--task` and `--from-block`; the command gets them as `task`, a `TaskOnChain`."""
    command = _from_block_option(_with_task_on_chain(command))
    option = click.option("--task", required=True, envvar="CHAINFL_TASK", help="Address of the task.")
    return rpc_options(option(command))


def _with_task_on_chain(command: Callable[..., int]) -> Callable[..., int]:
    @wraps(command)
    def with_task(rpc_url: str, chain_id: int | None, task: str, from_block: int, **others: Any) -> int:
        return command(task=TaskOnChain(rpc_url, chain_id, task, from_block), **others)

    return with_task


def task_argument(command: Callable[..., int]) -> Callable[..., int]:
    """As `task_options`, with the task by its address alone, or by `--task` as elsewhere."""
    command = _with_task_on_chain(command)

    @rpc_options
    @_from_block_option
    @click.option("--task", envvar="CHAINFL_TASK", help="Address of the task, in place of TASK.")
    @click.argument("address", metavar="[TASK]", required=False)
    @wraps(command)
    def with_task(address: str | None, task: str | None, **others: Any) -> int:
        chosen = address or task
        if chosen is None:
            raise InputError("which task? Give its address, or set CHAINFL_TASK")
        return command(task=chosen, **others)

    return with_task


def _from_block_option(command: F) -> F:
    return click.option(
        "--from-block",
        type=int,
        default=0,
        envvar="CHAINFL_FROM_BLOCK",
        help="Start reading here: the creation block or earlier [0].",
    )(command)


def store_option(command: F) -> F:
    """`--store`."""
    return click.option(
        "--store",
        required=True,
        envvar="CHAINFL_STORE",
        help="dir:/path, ipfs:/ip4/127.0.0.1/tcp/5001 or http://127.0.0.1:5001.",
    )(command)


def account_options(command: Callable[..., int]) -> Callable[..., int]:
    """`--keystore`, `--account`: whose stake is shown; a keystore says its address without a password.

    The command gets it as `who`.
    """

    @wraps(command)
    def with_account(keystore: Path | None, account: str | None, **others: Any) -> int:
        return command(who=_whose(keystore, account), **others)

    account = click.option("--account", help="Address of the account, in place of a keystore.")
    keystore = click.option(
        "--keystore",
        type=click.Path(path_type=Path),
        envvar="CHAINFL_KEYSTORE",
        help="Encrypted key file; it is not opened.",
    )
    return keystore(account(with_account))


def _whose(keystore: Path | None, account: str | None) -> "Address":
    from chainfl.chain.keys import address_of

    if account is not None:
        return parse_address(account)
    if keystore is None:
        raise InputError("whose stake? Give --account, --keystore or CHAINFL_KEYSTORE")
    return address_of(keystore)


def limit_options(command: Callable[..., int]) -> Callable[..., int]:
    """`--max-parameters`, `--max-memory-mib`: refuse a task that is too large before a byte of it is fetched.

    The command gets them as `limits`.
    """

    @wraps(command)
    def with_limits(max_parameters: int, max_memory_mib: int, **others: Any) -> int:
        return command(limits=Limits(max_parameters, max_memory_mib << 20), **others)

    memory = click.option(
        "--max-memory-mib",
        type=int,
        default=DEFAULT_LIMITS.memory >> 20,
        show_default=True,
        envvar="CHAINFL_MAX_MEMORY_MIB",
        help="Refuse a round whose models take more MiB of memory.",
    )
    parameters = click.option(
        "--max-parameters",
        type=int,
        default=DEFAULT_LIMITS.parameters,
        show_default=True,
        envvar="CHAINFL_MAX_PARAMETERS",
        help="Refuse a task whose models have more parameters.",
    )

    # What is added last stands first in the help.
    return parameters(memory(with_limits))


@dataclass(frozen=True, slots=True)
class Connection:
    """Endpoints whose chain was checked."""

    w3: "Web3"
    chain_id: int
    endpoints: "Endpoints"


def connect(rpc_url: str, chain_id: int | None) -> Connection:
    """Open the endpoint, or those between commas, and refuse the wrong chain."""
    from chainfl.chain.quorum import open_endpoints

    endpoints = open_endpoints(rpc_url, chain_id)
    return Connection(endpoints.w3, endpoints.chain_id, endpoints)


def check_keystore(keystore: Path) -> None:
    """Refuse a file that is no keystore before a chain is asked for anything."""
    from chainfl.chain.keys import check_keystore

    check_keystore(keystore)


def open_signer(keystore: Path, password_file: Path | None) -> "LocalSigner":
    """Unlock a key."""
    from chainfl.chain.keys import exposed, open_keystore

    signer = open_keystore(keystore, password_file)
    warning = exposed(password_file, keystore)
    if warning is not None:
        narrate(f"warning: {warning}")
    return signer


def open_sender(
    connection: Connection, keystore: Path, password_file: Path | None, confirmations: int = 0
) -> "Sender":
    """A key on a chain."""
    from chainfl.chain.send import Sender, SendSettings

    signer = open_signer(keystore, password_file)
    settings = SendSettings(confirmations=confirmations, caps=chosen_caps())
    return Sender(connection.w3, signer, connection.chain_id, settings, connection.endpoints.others)


def open_reader(connection: Connection, task: str, from_block: int) -> "TaskReader":
    """A task to read."""
    from chainfl.chain.quorum import open_reader

    return open_reader(connection.endpoints, parse_address(task), from_block, on_progress=narrate)


@dataclass(frozen=True, slots=True)
class OwnTask:
    """A task and a key that acts on it."""

    connection: Connection
    address: "Address"
    sender: "Sender"
    reader: "TaskReader"


def open_own_task(task: TaskOnChain, keystore: Path, password_file: Path | None) -> OwnTask:
    """Connect, unlock the key, and open the task."""
    connection = task.connect()
    sender = open_sender(connection, keystore, password_file)
    return OwnTask(connection, parse_address(task.address), sender, task.open_reader(connection))


def parse_address(text: str) -> "Address":
    """Twenty bytes of hex.

    Raises:
        InputError: it is something else.
    """
    from chainfl.chain.abi import as_address

    return as_address(text)


class Exact(click.ParamType[int]):
    """A decimal number such as 0.05, as an integer of 10^18ths; nothing is rounded."""

    name = "decimal"

    def __init__(self, low: int = 0, high: int | None = None) -> None:
        self.low = low
        self.high = high

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The integer that is meant."""
        from decimal import Decimal, InvalidOperation

        from chainfl.types import WAD

        try:
            scaled = Decimal(str(value)) * WAD
            whole = int(scaled)
        except (InvalidOperation, OverflowError, ValueError):
            self.fail(f"{value!r} is not a number such as 0.05", param, ctx)
        if whole < 0 or whole != scaled:
            self.fail(f"{value!r} is not a positive number of at most 18 decimals", param, ctx)

        if whole < self.low:
            self.fail(f"{value} is too small: give at least {self.low / WAD:g}", param, ctx)
        if self.high is not None and whole > self.high:
            self.fail(f"{value} is too large: give at most {self.high / WAD:g}", param, ctx)
        return whole


class Ether(click.ParamType[int]):
    """An amount such as 1.5, 1.5eth or 100wei, in wei."""

    name = "ether"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The amount in wei."""
        try:
            return parse_ether(str(value))
        except InputError as error:
            self.fail(str(error), param, ctx)


def parse_ether(text: str) -> int:
    """An amount of ether in wei: `1.5`, `1.5eth` or `100wei`.

    Raises:
        InputError: it is not a positive amount.
    """
    from decimal import Decimal, InvalidOperation

    unit = 1 if text.endswith("wei") else ETHER
    try:
        amount = Decimal(text.removesuffix("wei").removesuffix("eth").strip()) * unit
    except InvalidOperation:
        raise InputError(f"{text!r} is not an amount: give ether such as 1.5, or 100wei") from None

    # Decimal, never float: 0.1 ether has to be 10^17 wei exactly.
    if amount <= 0 or amount != int(amount):
        raise InputError(f"{text!r} is not a positive whole number of wei")
    return int(amount)
