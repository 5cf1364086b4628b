"""Options that commands on a chain share, and what they open."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from chainfl.errors import InputError
from chainfl.report import narrate

if TYPE_CHECKING:
    from web3 import Web3

    from chainfl.chain.keys import LocalSigner
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
        default="http://127.0.0.1:8545",
        show_default=True,
        help="JSON-RPC endpoint, http(s) or ws(s).",
    )(command)


def key_options(command: F) -> F:
    """`--keystore` and `--password-file`."""
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


def task_options(command: F) -> F:
    """`--task` and `--from-block`."""
    command = _from_block_option(command)
    return click.option("--task", required=True, envvar="CHAINFL_TASK", help="Address of the task.")(command)


def task_argument(command: Callable[..., int]) -> Callable[..., int]:
    """The task by its address alone, or by `--task` as elsewhere; and `--from-block`."""

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
        help="A block not after the task's creation [0].",
    )(command)


def store_option(command: F) -> F:
    """`--store`."""
    return click.option(
        "--store",
        required=True,
        envvar="CHAINFL_STORE",
        help="dir:/path, ipfs:/ip4/127.0.0.1/tcp/5001 or http://127.0.0.1:5001.",
    )(command)


@dataclass(frozen=True, slots=True)
class Connection:
    """An endpoint whose chain was checked."""

    w3: "Web3"
    chain_id: int


def connect(rpc_url: str, chain_id: int | None) -> Connection:
    """Open the endpoint and refuse the wrong chain."""
    from chainfl.chain.rpc import check_chain, open_rpc

    w3 = open_rpc(rpc_url)
    return Connection(w3, check_chain(w3, chain_id))


def open_signer(keystore: Path, password_file: Path | None) -> "LocalSigner":
    """Unlock a key."""
    from chainfl.chain.keys import unlock
    from services.node.wiring import read_password

    return unlock(keystore, read_password(password_file))


def open_sender(
    connection: Connection, keystore: Path, password_file: Path | None, confirmations: int = 0
) -> "Sender":
    """A key on a chain."""
    from chainfl.chain.send import Sender, SendSettings

    signer = open_signer(keystore, password_file)
    return Sender(connection.w3, signer, connection.chain_id, SendSettings(confirmations=confirmations))


def open_reader(connection: Connection, task: str, from_block: int) -> "TaskReader":
    """A task to read."""
    from chainfl.chain.reader import TaskReader

    return TaskReader(connection.w3, parse_address(task), connection.chain_id, from_block, tell=narrate)


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
        return whole


def parse_ether(text: str) -> int:
    """An amount of ether in wei: `1.5`, `1.5eth` or `100wei`.

    Raises:
        InputError: it is not a positive amount.
    """
    from decimal import Decimal, InvalidOperation

    unit = 1 if text.endswith("wei") else 10**18
    try:
        amount = Decimal(text.removesuffix("wei").removesuffix("eth").strip()) * unit
    except InvalidOperation:
        raise InputError(f"{text!r} is not an amount: give ether such as 1.5, or 100wei") from None
    if amount <= 0 or amount != int(amount):
        raise InputError(f"{text!r} is not a positive whole number of wei")
    return int(amount)
