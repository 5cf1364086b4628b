"""`chainfl stake`: put stake behind oneself, and take it out again."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from chainfl.cli.chain_options import (
    connect,
    key_options,
    open_sender,
    parse_address,
    parse_ether,
    rpc_options,
)
from chainfl.cli.output import finish, json_option
from chainfl.report import Report, report

if TYPE_CHECKING:
    from web3 import Web3

    from chainfl.chain.send import Sender
    from chainfl.types import Address

F = TypeVar("F", bound=Callable[..., Any])
ETHER = 10**18


@dataclass(frozen=True, slots=True)
class Staker:
    """An account, the task it stakes on, and the registry that holds the stake."""

    w3: "Web3"
    sender: "Sender"
    task: "Address"
    registry: "Address"

    def bonded(self) -> int:
        """The account's stake in the task."""
        from chainfl.chain.contracts import bonded_stake

        return bonded_stake(self.w3, self.registry, self.task, self.sender.address)


def staker_options(command: F) -> F:
    """The options of every command here."""
    option = click.option("--task", required=True, envvar="CHAINFL_TASK", help="Address of the task.")
    return option(rpc_options(key_options(json_option(command))))


def open_staker(
    task: str, rpc_url: str, chain_id: int | None, keystore: Path, password_file: Path | None
) -> Staker:
    """Connect, unlock, and find the task's registry."""
    from chainfl.chain.reader import as_address, read_call

    connection = connect(rpc_url, chain_id)
    sender, address = open_sender(connection, keystore, password_file), parse_address(task)
    registry = as_address(read_call(connection.w3, "TrainingTask", address, "registry")[0])
    return Staker(connection.w3, sender, address, registry)


@click.group(epilog="Example: chainfl stake add 10 --task 0x… --keystore key.json")
def stake() -> None:
    """Put stake behind an account, and take it out."""


@stake.command(epilog="Example: chainfl stake add 10 --task 0x… --keystore key.json --enrol")
@click.argument("amount")
@click.option("--enrol", is_flag=True, help="Enrol in the task too.")
@staker_options
def add(amount: str, enrol: bool, as_json: bool, **where: Any) -> int:
    """Deposit AMOUNT ether and bond it to a task."""
    from chainfl.chain.abi import functions
    from chainfl.chain.contracts import allocate

    me = open_staker(**where)
    allocate(me.sender, me.registry, me.task, parse_ether(amount))
    if enrol:
        me.sender.send(me.task, functions("TrainingTask")["enrol"].call_data())
    return finish(
        report("stake-add", {"task": where["task"], "bonded_wei": str(me.bonded())}), as_json, _show
    )


@stake.command(epilog="Example: chainfl stake remove 5 --task 0x… --keystore key.json")
@click.argument("amount")
@staker_options
def remove(amount: str, as_json: bool, **where: Any) -> int:
    """Start to take AMOUNT ether out of a task; it stays at risk until it is released."""
    from chainfl.chain.contracts import deallocate

    me = open_staker(**where)
    deallocate(me.sender, me.registry, me.task, parse_ether(amount))
    return finish(
        report("stake-remove", {"task": where["task"], "bonded_wei": str(me.bonded())}), as_json, _show
    )


@stake.command(epilog="Example: chainfl stake release 0 --task 0x… --keystore key.json")
@click.argument("request", type=int)
@staker_options
def release(request: int, as_json: bool, **where: Any) -> int:
    """Free what REQUEST (counted from 0) took out, once it has waited long enough, and withdraw it."""
    from chainfl.chain.contracts import free_stake, withdraw
    from chainfl.chain.contracts import release as free

    me = open_staker(**where)
    free(me.sender, me.registry, me.task, request)
    amount = free_stake(me.w3, me.registry, me.sender.address)
    if amount:
        withdraw(me.sender, me.registry, amount, me.sender.address)
    return finish(
        report("stake-release", {"task": where["task"], "withdrawn_wei": str(amount)}), as_json, _show
    )


def _show(answer: Report) -> None:
    for name, value in answer.metrics.items():
        if name.endswith("_wei"):
            click.echo(f"{name.removesuffix('_wei')}: {int(str(value)) / ETHER:.6f} ETH")
