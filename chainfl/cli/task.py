"""`chainfl task`: create tasks, show them, abandon one."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from chainfl.cli.chain_options import (
    Connection,
    TaskOnChain,
    check_keystore,
    connect,
    key_options,
    open_own_task,
    open_sender,
    parse_address,
    rpc_options,
    store_option,
    task_argument,
)
from chainfl.cli.generated import field_options
from chainfl.cli.output import finish, in_ether, json_option, print_table
from chainfl.cli.task_show import (
    next_step,
    plain_terms,
    read_manifest,
    show_task,
    show_terms,
    waited_for,
)
from chainfl.report import Report, report
from chainfl.workflows.sponsor_terms import Terms, with_changes

if TYPE_CHECKING:
    from chainfl.types import Address


@click.group(epilog="Example: chainfl task show 0x…")
def task() -> None:
    """Create and show tasks."""


@task.command(
    short_help="Create a task with its escrow.",
    epilog="Example: chainfl task create --factory 0x… --escrow 1 --store dir:./store --keystore key.json",
)
@rpc_options
@key_options
@store_option
@click.option(
    "--factory", required=True, envvar="CHAINFL_FACTORY", help="Address of the factory (chainfl deploy)."
)
@field_options(Terms)
@click.option(
    "--dry-run", is_flag=True, help="Show costs and terms, and store and send nothing; needs no password."
)
@json_option
def create(
    rpc_url: str,
    chain_id: int | None,
    keystore: Path,
    password_file: Path | None,
    store: str,
    factory: str,
    dry_run: bool,
    as_json: bool,
    **changes: Any,
) -> int:
    """Store manifest and first model, and create a task with its escrow. Its terms can never be changed."""
    from chainfl.chain.contracts import create_task
    from chainfl.chain.reader import read_call
    from chainfl.chain.send import checksum
    from chainfl.store.address import open_store
    from chainfl.tools import require_package
    from chainfl.workflows.sponsor import at_least, check_terms, prepare_task

    at = parse_address(factory)
    check_keystore(keystore)
    require_package("torch", "train")  # it builds the first model
    blobs = open_store(store)
    connection = connect(rpc_url, chain_id)
    (floor,) = read_call(connection.w3, "TaskFactory", at, "phaseFloor")
    # Phases that nobody gave a length are as long as this factory asks for.
    terms = with_changes(at_least(Terms(), floor), changes)
    if dry_run:
        return _try_create(connection, keystore, at, terms, floor, as_json)

    sender = open_sender(connection, keystore, password_file)
    config = prepare_task(blobs, terms)
    check_terms(config, terms.escrow, floor)
    made = create_task(sender, at, config, terms.escrow)
    metrics = {"task_id": made.task_id, "task": checksum(made.address), "block": made.block, "gas": made.gas}
    return finish(report("task-create", metrics), as_json, _show_created)


def _try_create(
    connection: Connection, keystore: Path, factory: "Address", terms: Terms, floor: int, as_json: bool
) -> int:
    """What creating the task would cost and freeze; manifest and model are made in a folder that is thrown away."""
    from chainfl.chain.contracts import cost_of_task
    from chainfl.chain.keys import address_of
    from chainfl.chain.rpc import outside
    from chainfl.chain.send import checksum
    from chainfl.protocol.terms import needed_accounts
    from chainfl.store.directory import DirectoryStore
    from chainfl.workflows.sponsor import check_terms, prepare_task

    sponsor = address_of(keystore)
    with TemporaryDirectory() as folder:
        blobs = DirectoryStore(Path(folder))
        config = prepare_task(blobs, terms)
        manifest = read_manifest(blobs, config)
    check_terms(config, terms.escrow, floor)
    with outside("reading the balance"):
        balance = connection.w3.eth.get_balance(checksum(sponsor))
    cost = (
        cost_of_task(connection.w3, sponsor, factory, config, terms.escrow)
        if balance > terms.escrow
        else None
    )
    metrics: dict[str, object] = {
        "sponsor": checksum(sponsor),
        "balance_wei": str(balance),
        "escrow_wei": str(terms.escrow),
        "gas_estimate": cost.gas if cost else None,
        "estimate_wei": str(cost.wei) if cost else None,
        "needed": needed_accounts(config),
        "manifest": manifest,
        "terms": plain_terms(config),
    }
    ok = cost is not None and balance >= terms.escrow + cost.wei
    return finish(report("task-create", metrics, ok=ok), as_json, _show_dry_run)


def _show_created(answer: Report) -> None:
    _show_pairs(answer)
    click.echo(f"next: chainfl task show {answer.metrics['task']} says who has to enrol before a first round")


def _show_dry_run(answer: Report) -> None:
    metrics: Any = answer.metrics
    show_terms(metrics["terms"])
    click.echo(
        "these terms, manifest and first model are frozen with the task; they cannot be changed afterwards"
    )
    click.echo(f"before a first round is drawn {metrics['needed']} accounts must enrol")
    click.echo(
        f"escrow {in_ether(metrics['escrow_wei'])}; {metrics['sponsor']} has {in_ether(metrics['balance_wei'])}"
    )
    if metrics["gas_estimate"] is not None:
        click.echo(f"about {metrics['gas_estimate']:,} gas, at most {in_ether(metrics['estimate_wei'])}")
    click.echo("nothing was sent" if answer.ok else "the account cannot pay for it: fund it first")


@task.command(
    short_help="Make the root of a list of who may join, and proofs.",
    epilog="Example: chainfl task admit members.txt --account 0x…",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--account", help="Show the role and the proof of this account.")
@click.option(
    "--proofs",
    type=click.Path(path_type=Path),
    help="Write everybody's role and proof to this file, as JSON.",
)
@json_option
def admit(file: Path, account: str | None, proofs: Path | None, as_json: bool) -> int:
    """Make the root of the list of who may join that FILE holds: a line for each account.

    A line is `0x… participant`, `0x… internal`, or `anyone` for everybody as participant; without a role it is a
    participant, and # begins a comment. chainfl task create --admission FILE publishes the list and makes its root a
    term; nodes find their own proof.
    """
    from chainfl.codec.text import hex_of
    from chainfl.protocol.admission import list_root
    from chainfl.types import Role
    from chainfl.workflows.admission import admission_of, write_proofs
    from chainfl.workflows.sponsor import read_list

    entries = read_list(file)
    metrics: dict[str, object] = {
        "root": hex_of(list_root(entries)),
        "participants": sum(role is Role.PARTICIPANT for _, role in entries),
        "internals": sum(role is Role.INTERNAL for _, role in entries),
    }
    if account is not None:
        shown = admission_of(entries, parse_address(account))
        metrics |= {
            "account": account,
            "role": shown.role.name.lower(),
            "proof": hex_of(shown.proof),
        }
    if proofs is not None:
        write_proofs(entries, proofs)
        metrics["proofs"] = str(proofs)
    return finish(report("task-admit", metrics), as_json, _show_admitted)


def _show_admitted(answer: Report) -> None:
    for name, value in answer.metrics.items():
        click.echo(f"{name:<13} {value}")


@task.command("list", epilog="Example: chainfl task list --factory 0x…")
@rpc_options
@click.option("--factory", required=True, envvar="CHAINFL_FACTORY", help="Address of the factory.")
@json_option
def list_tasks(rpc_url: str, chain_id: int | None, factory: str, as_json: bool) -> int:
    """List the tasks of a factory."""
    from chainfl.chain.contracts import task_at, task_count
    from chainfl.chain.reader import read_config
    from chainfl.chain.send import checksum

    address = parse_address(factory)
    connection = connect(rpc_url, chain_id)
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


@task.command(short_help="Show where a task stands.", epilog="Example: chainfl task show 0x…")
@task_argument
@click.option(
    "--store", envvar="CHAINFL_STORE", help="Where the manifest is stored: gives model and data set."
)
@json_option
def show(task: TaskOnChain, store: str | None, as_json: bool) -> int:
    """Show where a task stands, what it trains, all its terms, and what it waits for."""
    from chainfl.chain.send import checksum
    from chainfl.protocol.terms import needed_accounts
    from chainfl.protocol.views import staked_internals
    from chainfl.store.address import open_store

    parse_address(task.address)
    blobs = open_store(store) if store else None
    now = task.open_reader().refresh()
    unread = "unknown: give --store, where the manifest is stored"
    metrics: dict[str, object] = {
        "task": task.address,
        "sponsor": checksum(now.sponsor),
        "rule": now.config.rule.name_text,
        "round": now.round.number,
        "rounds": now.config.rounds,
        "attempt": now.round.attempt,
        "phase": now.round.phase.name.title(),
        "deadline": now.round.deadline,
        "enrolled": now.eligible,
        "needed": needed_accounts(now.config, len(staked_internals(now))),
        "head_root": now.head_root.hex(),
        "escrow_wei": str(now.escrow),
        "owed_wei": str(now.owed),
        "manifest": read_manifest(blobs, now.config) if blobs is not None else unread,
        "terms": plain_terms(now.config),
        "waits_for": waited_for(now),
        "next_step": next_step(now),
    }
    return finish(report("task-show", metrics), as_json, show_task)


@task.command(
    short_help="Print a task's rounds as data.", epilog="Example: chainfl task trace 0x… --json > trace.json"
)
@task_argument
@click.option(
    "--store",
    envvar="CHAINFL_STORE",
    help="Where the manifest is stored; a trace with it can be played again alone.",
)
@json_option
def trace(task: TaskOnChain, store: str | None, as_json: bool) -> int:
    """Print a task's rounds as data: terms, seeds, stakes, who acted, each attempt's outcome, model roots."""
    from chainfl.store.address import open_store
    from chainfl.workflows.audit import trace_task

    metrics = trace_task(task.open_reader(), open_store(store) if store else None)
    answer = report("task-trace", metrics)
    rounds = metrics["rounds"]
    assert isinstance(rounds, list)
    rows = [(str(r["round"]), str(r["outcome"]), str(r["model_root"])) for r in rounds]
    return finish(answer, as_json, lambda _: print_table(("round", "outcome", "model root"), rows))


@task.command(
    short_help="End a task; its sponsor only.", epilog="Example: chainfl task abandon 0x… --keystore key.json"
)
@task_argument
@key_options
@json_option
def abandon(task: TaskOnChain, keystore: Path, password_file: Path | None, as_json: bool) -> int:
    """End a task with its current round; the sponsor only. Run again once it has ended to take back the escrow."""
    from chainfl.chain.abi import functions
    from chainfl.types import Phase

    own = open_own_task(task, keystore, password_file)
    now = own.reader.refresh()
    if now.round.phase is not Phase.ENDED and not now.ending:
        own.sender.send(own.address, functions("TrainingTask")["abandon"].call_data())

    # A task between rounds ends at once; its escrow can be taken back in the same run.
    now = own.reader.refresh()
    refunded = 0
    if now.round.phase is Phase.ENDED and now.escrow:
        refunded = now.escrow
        own.sender.send(own.address, functions("TrainingTask")["refund"].call_data())

    metrics = {"task": task.address, "phase": now.round.phase.name.title(), "refunded_wei": str(refunded)}
    return finish(report("task-abandon", metrics), as_json, _show_abandoned)


def _show_abandoned(answer: Report) -> None:
    _show_pairs(answer)
    if answer.metrics["phase"] != "Ended":
        click.echo("the task ends with its current round; run this again then to take back the escrow")


def _show_pairs(answer: Report) -> None:
    for name, value in answer.metrics.items():
        click.echo(f"{name.removesuffix('_wei').replace('_', ' '):<10} {_shown(name, value)}")


def _shown(name: str, value: object) -> str:
    return in_ether(value) if name.endswith("_wei") else str(value)
