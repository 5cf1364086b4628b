"""`chainfl task`: create tasks, look at them, give one up."""

import time
from pathlib import Path
from typing import Any

import click

from chainfl.cli.chain_options import (
    connect,
    key_options,
    open_reader,
    open_sender,
    parse_address,
    rpc_options,
    store_option,
    task_argument,
)
from chainfl.cli.generated import field_options
from chainfl.cli.output import finish, in_ether, in_utc, json_option, print_table
from chainfl.report import Report, report
from chainfl.workflows.sponsor_terms import Terms, with_changes


@click.group(epilog="Example: chainfl task show 0x…")
def task() -> None:
    """Create tasks and look at them."""


@task.command(
    epilog="Example: chainfl task create --factory 0x… --escrow 1 --store dir:./store --keystore key.json"
)
@rpc_options
@key_options
@store_option
@click.option(
    "--factory", required=True, envvar="CHAINFL_FACTORY", help="Address of the factory (chainfl deploy)."
)
@field_options(Terms)
@json_option
def create(
    rpc_url: str,
    chain_id: int | None,
    keystore: Path,
    password_file: Path | None,
    store: str,
    factory: str,
    as_json: bool,
    **changes: Any,
) -> int:
    """Store manifest and first model, and create a task with its escrow."""
    from chainfl.chain.contracts import create_task
    from chainfl.chain.reader import read_call
    from chainfl.chain.send import checksum
    from chainfl.store.address import open_store
    from chainfl.workflows.sponsor import check_terms, prepare_task

    connection = connect(rpc_url, chain_id)
    sender = open_sender(connection, keystore, password_file)
    terms = with_changes(Terms(), changes)
    at = parse_address(factory)
    (floor,) = read_call(connection.w3, "TaskFactory", at, "phaseFloor")
    config = prepare_task(open_store(store), terms)
    check_terms(config, terms.escrow, floor)
    made = create_task(sender, at, config, terms.escrow)
    metrics = {"task_id": made.task_id, "task": checksum(made.address), "block": made.block, "gas": made.gas}
    return finish(report("task-create", metrics), as_json, _show_pairs)


@task.command("list", epilog="Example: chainfl task list --factory 0x…")
@rpc_options
@click.option("--factory", required=True, envvar="CHAINFL_FACTORY", help="Address of the factory.")
@json_option
def list_tasks(rpc_url: str, chain_id: int | None, factory: str, as_json: bool) -> int:
    """List the tasks of a factory."""
    from chainfl.chain.contracts import task_at, task_count
    from chainfl.chain.reader import read_config
    from chainfl.chain.send import checksum

    connection = connect(rpc_url, chain_id)
    address = parse_address(factory)
    tasks = []
    for number in range(1, task_count(connection.w3, address) + 1):
        at = task_at(connection.w3, address, number)
        config = read_config(connection.w3, at)
        tasks.append(
            {"task_id": number, "task": checksum(at), "rule": config.rule.name_text, "rounds": config.rounds}
        )
    answer = report("task-list", {"tasks": tasks})
    return finish(
        answer,
        as_json,
        lambda _: print_table(
            ("id", "task", "rule", "rounds"), [tuple(str(v) for v in t.values()) for t in tasks]
        ),
    )


@task.command(epilog="Example: chainfl task show 0x…")
@rpc_options
@task_argument
@json_option
def show(rpc_url: str, chain_id: int | None, task: str, from_block: int, as_json: bool) -> int:
    """Show where a task stands."""
    reader = open_reader(connect(rpc_url, chain_id), task, from_block)
    now = reader.refresh()
    metrics: dict[str, object] = {
        "task": task,
        "rule": now.config.rule.name_text,
        "round": now.round.number,
        "rounds": now.config.rounds,
        "attempt": now.round.attempt,
        "phase": now.round.phase.name.title(),
        "deadline": now.round.deadline,
        "enrolled": sum(account.weight > 0 for account in now.accounts.values()),
        "head_root": now.head_root.hex(),
        "escrow_wei": str(now.escrow),
        "owed_wei": str(now.owed),
    }
    return finish(report("task-show", metrics), as_json, _show_pairs)


@task.command(
    short_help="Tell a task's rounds as data.", epilog="Example: chainfl task trace 0x… --json > trace.json"
)
@rpc_options
@task_argument
@click.option(
    "--store",
    envvar="CHAINFL_STORE",
    help="Where the manifest lies; a trace with it can be played again alone.",
)
@json_option
def trace(
    rpc_url: str, chain_id: int | None, task: str, from_block: int, store: str | None, as_json: bool
) -> int:
    """Tell a task's rounds as data: terms, seeds, stakes, who acted, each attempt's outcome, model roots."""
    from chainfl.store.address import open_store
    from chainfl.workflows.audit import trace_task

    started = time.perf_counter()
    reader = open_reader(connect(rpc_url, chain_id), task, from_block)
    metrics = trace_task(reader, open_store(store) if store else None)
    answer = report("task-trace", metrics, seconds=time.perf_counter() - started)
    rounds = metrics["rounds"]
    assert isinstance(rounds, list)
    rows = [(str(r["round"]), str(r["outcome"]), str(r["model_root"])) for r in rounds]
    return finish(answer, as_json, lambda _: print_table(("round", "outcome", "model root"), rows))


@task.command(
    short_help="End a task; its sponsor only.", epilog="Example: chainfl task abandon 0x… --keystore key.json"
)
@rpc_options
@task_argument
@key_options
@json_option
def abandon(
    rpc_url: str,
    chain_id: int | None,
    task: str,
    from_block: int,
    keystore: Path,
    password_file: Path | None,
    as_json: bool,
) -> int:
    """End a task with its current round; the sponsor only. Run again once it has ended to take back the escrow."""
    from chainfl.chain.abi import functions
    from chainfl.types import Phase

    connection = connect(rpc_url, chain_id)
    sender = open_sender(connection, keystore, password_file)
    at = parse_address(task)
    reader = open_reader(connection, task, from_block)
    now = reader.refresh()
    if now.round.phase is not Phase.ENDED and not now.ending:
        sender.send(at, functions("TrainingTask")["abandon"].call_data())
    now = reader.refresh()
    refunded = 0
    if now.round.phase is Phase.ENDED and now.escrow:
        refunded = now.escrow
        sender.send(at, functions("TrainingTask")["refund"].call_data())
    metrics = {"task": task, "phase": now.round.phase.name.title(), "refunded_wei": str(refunded)}
    return finish(report("task-abandon", metrics), as_json, _show_abandoned)


def _show_abandoned(answer: Report) -> None:
    _show_pairs(answer)
    if answer.metrics["phase"] != "Ended":
        click.echo("the task ends with its current round; run this again then to take back the escrow")


def _show_pairs(answer: Report) -> None:
    for name, value in answer.metrics.items():
        click.echo(f"{name.removesuffix('_wei').replace('_', ' '):<10} {_shown(name, value)}")


def _shown(name: str, value: object) -> str:
    if name.endswith("_wei"):
        return in_ether(value)
    if name == "deadline" and value:
        left = int(str(value)) - int(time.time())
        return f"{in_utc(int(str(value)))} ({f'in {left} s' if left > 0 else 'passed'})"
    return str(value)
