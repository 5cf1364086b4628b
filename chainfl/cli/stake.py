"""`chainfl stake`: put stake behind oneself, and take it out again."""

from pathlib import Path

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

ETHER = 10**18


@click.group(epilog="Example: chainfl stake add 10 --task 0x… --keystore key.json")
def stake() -> None:
    """Put stake behind an account, and take it out."""


@stake.command(epilog="Example: chainfl stake add 10 --task 0x… --keystore key.json --enrol")
@click.argument("amount")
@click.option("--task", required=True, envvar="CHAINFL_TASK", help="Address of the task.")
@click.option("--enrol", is_flag=True, help="Enrol in the task too.")
@rpc_options
@key_options
@json_option
def add(
    amount: str,
    task: str,
    enrol: bool,
    rpc_url: str,
    chain_id: int | None,
    keystore: Path,
    password_file: Path | None,
    as_json: bool,
) -> int:
    """Deposit AMOUNT ether and bond it to a task."""
    from chainfl.chain.abi import functions
    from chainfl.chain.contracts import allocate, bonded_stake
    from chainfl.chain.reader import as_address, read_call

    connection = connect(rpc_url, chain_id)
    sender, address = open_sender(connection, keystore, password_file), parse_address(task)
    registry = as_address(read_call(connection.w3, "TrainingTask", address, "registry")[0])
    allocate(sender, registry, address, parse_ether(amount))
    if enrol:
        sender.send(address, functions("TrainingTask")["enrol"].call_data())
    bonded = bonded_stake(connection.w3, registry, address, sender.address)
    return finish(report("stake-add", {"task": task, "bonded_wei": str(bonded)}), as_json, _show)


@stake.command(epilog="Example: chainfl stake remove 5 --task 0x… --keystore key.json")
@click.argument("amount")
@click.option("--task", required=True, envvar="CHAINFL_TASK", help="Address of the task.")
@rpc_options
@key_options
@json_option
def remove(
    amount: str,
    task: str,
    rpc_url: str,
    chain_id: int | None,
    keystore: Path,
    password_file: Path | None,
    as_json: bool,
) -> int:
    """Start to take AMOUNT ether out of a task; it stays at risk until it is released."""
    from chainfl.chain.contracts import bonded_stake, deallocate
    from chainfl.chain.reader import as_address, read_call

    connection = connect(rpc_url, chain_id)
    sender, address = open_sender(connection, keystore, password_file), parse_address(task)
    registry = as_address(read_call(connection.w3, "TrainingTask", address, "registry")[0])
    deallocate(sender, registry, address, parse_ether(amount))
    bonded = bonded_stake(connection.w3, registry, address, sender.address)
    return finish(report("stake-remove", {"task": task, "bonded_wei": str(bonded)}), as_json, _show)


@stake.command(epilog="Example: chainfl stake release 0 --task 0x… --keystore key.json")
@click.argument("request", type=int)
@click.option("--task", required=True, envvar="CHAINFL_TASK", help="Address of the task.")
@rpc_options
@key_options
@json_option
def release(
    request: int,
    task: str,
    rpc_url: str,
    chain_id: int | None,
    keystore: Path,
    password_file: Path | None,
    as_json: bool,
) -> int:
    """Free what REQUEST (counted from 0) took out, once it has waited long enough, and withdraw it."""
    from chainfl.chain.contracts import free_stake, withdraw
    from chainfl.chain.contracts import release as free
    from chainfl.chain.reader import as_address, read_call

    connection = connect(rpc_url, chain_id)
    sender, address = open_sender(connection, keystore, password_file), parse_address(task)
    registry = as_address(read_call(connection.w3, "TrainingTask", address, "registry")[0])
    free(sender, registry, address, request)
    amount = free_stake(connection.w3, registry, sender.address)
    if amount:
        withdraw(sender, registry, amount, sender.address)
    return finish(report("stake-release", {"task": task, "withdrawn_wei": str(amount)}), as_json, _show)


def _show(answer: Report) -> None:
    for name, value in answer.metrics.items():
        if name.endswith("_wei"):
            click.echo(f"{name.removesuffix('_wei')}: {int(str(value)) / ETHER:.6f} ETH")
