"""`chainfl stake`: put stake behind oneself, pull what was earned, and take the stake out again."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from chainfl.cli.chain_options import (
    Connection,
    connect,
    key_options,
    open_reader,
    open_sender,
    parse_address,
    parse_ether,
    rpc_options,
    task_options,
)
from chainfl.cli.output import finish, in_ether, in_utc, json_option, print_table
from chainfl.errors import InputError
from chainfl.report import Report, report

if TYPE_CHECKING:
    from chainfl.chain.contracts import Unbonding
    from chainfl.chain.send import Sender
    from chainfl.types import Address

F = TypeVar("F", bound=Callable[..., Any])
MOST_ROUNDS = 200
"""Rounds claimed in one transaction; more might not fit into a block."""


@dataclass(frozen=True, slots=True)
class Staker:
    """An account, the task it stakes on, and the registry that holds the stake."""

    connection: Connection
    sender: "Sender"
    task: "Address"
    registry: "Address"

    def bonded(self) -> int:
        """The account's stake in the task."""
        from chainfl.chain.contracts import bonded_stake

        return bonded_stake(self.connection.w3, self.registry, self.task, self.sender.address)

    def requests(self) -> list["Unbonding"]:
        """The account's stake on its way out."""
        from chainfl.chain.contracts import unbonding

        return unbonding(self.connection.w3, self.registry, self.task, self.sender.address)

    def now(self) -> int:
        """The time the next block will have, as far as can be told."""
        from chainfl.chain.rpc import outside

        with outside("reading the chain's head"):
            newest = self.connection.w3.eth.get_block("latest")
        return max(int(newest["timestamp"]), int(time.time()))


def staker_options(command: F) -> F:
    """The options of every command that changes stake."""
    option = click.option("--task", required=True, envvar="CHAINFL_TASK", help="Address of the task.")
    return option(rpc_options(key_options(json_option(command))))


def open_staker(
    task: str, rpc_url: str, chain_id: int | None, keystore: Path, password_file: Path | None
) -> Staker:
    """Connect, unlock, and find the task's registry."""
    connection = connect(rpc_url, chain_id)
    address = parse_address(task)
    registry = registry_of(connection, address)
    return Staker(connection, open_sender(connection, keystore, password_file), address, registry)


def registry_of(connection: Connection, task: "Address") -> "Address":
    """Where the stakes of a task are."""
    from chainfl.chain.abi import as_address
    from chainfl.chain.reader import read_call

    return as_address(read_call(connection.w3, "TrainingTask", task, "registry")[0])


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

    wei = parse_ether(amount)
    me = open_staker(**where)
    allocate(me.sender, me.registry, me.task, wei)
    if enrol:
        me.sender.send(me.task, functions("TrainingTask")["enrol"].call_data())
    return finish(
        report("stake-add", {"task": where["task"], "bonded_wei": str(me.bonded())}), as_json, _show
    )


@stake.command(
    short_help="Show what an account has in a task.",
    epilog="Example: chainfl stake show --task 0x… --keystore key.json",
)
@click.option(
    "--keystore",
    type=click.Path(path_type=Path),
    envvar="CHAINFL_KEYSTORE",
    help="Encrypted key file; it is not opened.",
)
@click.option("--account", help="Address of the account, in place of a keystore.")
@rpc_options
@task_options
@json_option
def show(
    rpc_url: str,
    chain_id: int | None,
    task: str,
    from_block: int,
    keystore: Path | None,
    account: str | None,
    as_json: bool,
) -> int:
    """Show an account's part in a task: stake, place, what it earned, what is on its way out. Needs no password."""
    from chainfl.chain.contracts import bonded_stake, free_stake, unbonding
    from chainfl.chain.rpc import outside
    from chainfl.chain.send import checksum
    from chainfl.protocol.views import earnings

    who = _whose(keystore, account)
    connection = connect(rpc_url, chain_id)
    now = open_reader(connection, task, from_block).refresh()
    registry = registry_of(connection, now.address)
    with outside("reading the balance"):
        balance = connection.w3.eth.get_balance(checksum(who))
    known = now.accounts.get(who)
    waiting = unbonding(connection.w3, registry, now.address, who)
    metrics: dict[str, object] = {
        "account": checksum(who),
        "balance_wei": str(balance),
        "enrolled": known is not None and known.is_enrolled,
        "id": known.id if known is not None else None,
        "draws_from_round": known.active_from if known is not None and known.weight else None,
        "bonded_wei": str(bonded_stake(connection.w3, registry, now.address, who)),
        "min_stake_wei": str(now.config.min_stake),
        "earned_wei": str(earnings(now, who)),
        "free_wei": str(free_stake(connection.w3, registry, who)),
        "requests": [_plain(each) for each in waiting],
    }
    return finish(report("stake-show", metrics), as_json, lambda answer: _show_part(answer, waiting))


@stake.command(epilog="Example: chainfl stake claim --task 0x… --keystore key.json")
@rpc_options
@task_options
@key_options
@json_option
def claim(
    rpc_url: str,
    chain_id: int | None,
    task: str,
    from_block: int,
    keystore: Path,
    password_file: Path | None,
    as_json: bool,
) -> int:
    """Pull all that the account has earned in a task."""
    from chainfl.chain.ledger import ChainLedger
    from chainfl.protocol.views import unclaimed_rounds

    connection = connect(rpc_url, chain_id)
    sender = open_sender(connection, keystore, password_file)
    reader = open_reader(connection, task, from_block)
    rounds = unclaimed_rounds(reader.refresh(), sender.address)
    ledger = ChainLedger(connection.w3, sender, reader, parse_address(task))
    parts = [rounds[first : first + MOST_ROUNDS] for first in range(0, len(rounds), MOST_ROUNDS)]
    claimed = sum(ledger.claim(part) for part in parts or [[]])
    metrics = {"task": task, "rounds": rounds, "claimed_wei": str(claimed)}
    return finish(report("stake-claim", metrics), as_json, _show)


@stake.command(
    short_help="Start to take stake out.",
    epilog="Example: chainfl stake remove all --task 0x… --keystore key.json",
)
@click.argument("amount")
@staker_options
def remove(amount: str, as_json: bool, **where: Any) -> int:
    """Start to take AMOUNT ether, or `all`, out of a task; it stays at risk until it is released."""
    from chainfl.chain.contracts import deallocate

    wei = None if amount == "all" else parse_ether(amount)
    me = open_staker(**where)
    number = deallocate(me.sender, me.registry, me.task, me.bonded() if wei is None else wei)
    (request,) = (each for each in me.requests() if each.request == number)
    metrics = {"task": where["task"], "bonded_wei": str(me.bonded()), **_plain(request)}
    return finish(report("stake-remove", metrics), as_json, _show)


@stake.command(
    short_help="Withdraw what has waited long enough.",
    epilog="Example: chainfl stake release --task 0x… --keystore key.json",
)
@click.argument("request", type=int, required=False)
@staker_options
def release(request: int | None, as_json: bool, **where: Any) -> int:
    """Free what REQUEST took out, or all that has waited long enough, and withdraw all that is free."""
    from chainfl.chain.contracts import free_stake, withdraw
    from chainfl.chain.contracts import release as free

    me = open_staker(**where)
    now = me.now()
    ripe = [each.request for each in me.requests() if each.release_at <= now]
    released = ripe if request is None else [request]
    for number in released:
        free(me.sender, me.registry, me.task, number)
    amount = free_stake(me.connection.w3, me.registry, me.sender.address)
    if amount:
        withdraw(me.sender, me.registry, amount, me.sender.address)
    metrics = {"task": where["task"], "released": released, "withdrawn_wei": str(amount)}
    return finish(report("stake-release", metrics), as_json, _show)


def _whose(keystore: Path | None, account: str | None) -> "Address":
    from chainfl.chain.keys import address_of

    if account is not None:
        return parse_address(account)
    if keystore is None:
        raise InputError("whose stake? Give --account, --keystore or CHAINFL_KEYSTORE")
    return address_of(keystore)


def _plain(request: "Unbonding") -> dict[str, object]:
    return {
        "request": request.request,
        "worth_wei": str(request.worth),
        "release_at": request.release_at,
    }


def _show(answer: Report) -> None:
    for name, value in answer.metrics.items():
        if name.endswith("_wei"):
            click.echo(f"{name.removesuffix('_wei')}: {in_ether(value)}")
        elif name == "release_at":
            click.echo(f"release: from {in_utc(int(str(value)))} on, with: chainfl stake release")


def _show_part(answer: Report, waiting: list["Unbonding"]) -> None:
    told = answer.metrics
    rows = {
        "account": str(told["account"]),
        "balance": in_ether(told["balance_wei"]),
        "enrolled": _place(told),
        "bonded": in_ether(told["bonded_wei"]),
        "earned": in_ether(told["earned_wei"]),
        "free": in_ether(told["free_wei"]),
    }
    for name, text in rows.items():
        click.echo(f"{name:<9} {text}")
    if waiting:
        print_table(
            ("request", "worth", "release from"),
            [(str(each.request), in_ether(each.worth), in_utc(each.release_at)) for each in waiting],
        )


def _place(told: Mapping[str, object]) -> str:
    """An account's place in the draws, in words."""
    if told["id"] is None:
        return "not enrolled"
    if not told["enrolled"]:
        return f"as {told['id']}, left"
    if told["draws_from_round"] is not None:
        return f"as {told['id']}, in draws from round {told['draws_from_round']} on"
    if int(str(told["bonded_wei"])) < int(str(told["min_stake_wei"])):
        return f"as {told['id']}, in no draw: less than {in_ether(told['min_stake_wei'])} is bonded"
    return f"as {told['id']}, waits for the open draw to be over"
