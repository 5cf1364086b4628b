"""`chainfl stake`: bond stake to a task, claim what was earned, and take the stake out again."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from chainfl.cli.chain_options import (
    Connection,
    TaskOnChain,
    account_options,
    check_keystore,
    connect,
    key_options,
    open_own_task,
    open_sender,
    parse_address,
    parse_ether,
    rpc_options,
    task_options,
)
from chainfl.cli.output import finish, in_ether, in_utc, json_option, print_table
from chainfl.errors import InputError, ProtocolError
from chainfl.report import Report, narrate, report

if TYPE_CHECKING:
    from chainfl.chain.contracts import Unbonding
    from chainfl.chain.send import Sender
    from chainfl.node.privacy import Spent
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
        """The time the next block will have, as far as it can be known."""
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
    """Connect, unlock, and find the task's registry; what is wrong without asking a chain is refused first."""
    address = parse_address(task)
    check_keystore(keystore)
    connection = connect(rpc_url, chain_id)
    registry = registry_of(connection, address)
    return Staker(connection, open_sender(connection, keystore, password_file), address, registry)


def registry_of(connection: Connection, task: "Address") -> "Address":
    """Where the stakes of a task are."""
    from chainfl.chain.abi import as_address
    from chainfl.chain.reader import read_call

    return as_address(read_call(connection.w3, "TrainingTask", task, "registry")[0])


@click.group(epilog="Example: chainfl stake add 10 --task 0x… --keystore key.json")
def stake() -> None:
    """Bond stake to a task, and take it out."""


@stake.command(epilog="Example: chainfl stake add 10 --task 0x… --keystore key.json --enrol")
@click.argument("amount")
@click.option("--enrol", is_flag=True, help="Enrol in the task too.")
@click.option(
    "--admission",
    type=click.Path(path_type=Path),
    help="The list of who may join, where the task has one (for --enrol).",
)
@staker_options
def add(amount: str, enrol: bool, admission: Path | None, as_json: bool, **where: Any) -> int:
    """Deposit AMOUNT ether and bond it to a task."""
    from chainfl.chain.contracts import allocate
    from chainfl.chain.reader import phase_of, read_config
    from chainfl.types import Phase
    from chainfl.workflows.admission import enrolment_call

    wei = parse_ether(amount)
    me = open_staker(**where)
    if phase_of(me.connection.w3, me.task) is Phase.ENDED:
        raise ProtocolError("this task has ended: no round follows in which stake could earn anything")
    least = read_config(me.connection.w3, me.task).min_stake
    if enrol and me.bonded() + wei < least:
        raise InputError(
            f"{in_ether(me.bonded() + wei)} would be bonded, less than this task's minimum of {in_ether(least)}: "
            f"add {in_ether(least - me.bonded())} or more, or leave --enrol out"
        )
    enrolment = enrolment_call(me.connection.w3, me.task, me.sender.address, admission) if enrol else b""
    allocate(me.sender, me.registry, me.task, wei)
    if enrol:
        me.sender.send(me.task, enrolment)

    bonded = me.bonded()
    if bonded < least:
        narrate(
            f"warning: below the task's minimum stake of {in_ether(least)} an account is in no draw: "
            f"add {in_ether(least - bonded)} more"
        )
    metrics = {"task": where["task"], "bonded_wei": str(bonded), "min_stake_wei": str(least)}
    return finish(report("stake-add", metrics), as_json, _show)


@stake.command(
    short_help="Show what an account has in a task.",
    epilog="Example: chainfl stake show --task 0x… --keystore key.json",
)
@account_options
@click.option(
    "--home",
    type=click.Path(path_type=Path),
    envvar="CHAINFL_HOME",
    default=Path(".chainfl"),
    show_default=True,
    help="Home of its node, where the privacy that --dp has spent is written down.",
)
@task_options
@json_option
def show(
    task: TaskOnChain,
    who: "Address",
    home: Path,
    as_json: bool,
) -> int:
    """Show an account's part in a task: stake, place, what it earned, what is on its way out. Needs no password."""
    from chainfl.chain.contracts import bonded_stake, free_stake, unbonding
    from chainfl.chain.rpc import outside
    from chainfl.chain.send import checksum
    from chainfl.node.privacy import spent_in
    from chainfl.protocol.views import earnings

    connection = task.connect()
    now = task.open_reader(connection).refresh()
    registry = registry_of(connection, now.address)
    with outside("reading the balance"):
        balance = connection.w3.eth.get_balance(checksum(who))
    known = now.accounts.get(who)
    waiting = unbonding(connection.w3, registry, now.address, who)
    keys = [each for each in (who, now.operator_of.get(who)) if each is not None]
    spent = spent_in(home, now.chain_id, now.address, keys)
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
        "privacy": spent.plain() if spent is not None else None,
    }
    return finish(report("stake-show", metrics), as_json, lambda answer: _show_part(answer, waiting, spent))


@stake.command(epilog="Example: chainfl stake claim --task 0x… --keystore key.json")
@task_options
@key_options
@json_option
def claim(task: TaskOnChain, keystore: Path, password_file: Path | None, as_json: bool) -> int:
    """Pull all that the account has earned in a task."""
    from chainfl.chain.ledger import ChainLedger
    from chainfl.protocol.views import unclaimed_rounds

    own = open_own_task(task, keystore, password_file)
    rounds = unclaimed_rounds(own.reader.refresh(), own.sender.address)
    ledger = ChainLedger(own.connection.w3, own.sender, own.reader, own.address)

    # With no round left the call is made all the same: what was credited before is paid out by it.
    parts = [rounds[first : first + MOST_ROUNDS] for first in range(0, len(rounds), MOST_ROUNDS)]
    claimed = sum(ledger.claim(part) for part in parts or [[]])

    metrics = {"task": task.address, "rounds": rounds, "claimed_wei": str(claimed)}
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
    waiting = me.requests()
    released = _ripe(waiting, now) if request is None else [_expect_ripe(waiting, request, now)]
    for number in released:
        free(me.sender, me.registry, me.task, number)
    amount = free_stake(me.connection.w3, me.registry, me.sender.address)
    if amount:
        withdraw(me.sender, me.registry, amount, me.sender.address)
    metrics: dict[str, object] = {"task": where["task"], "released": released, "withdrawn_wei": str(amount)}
    left = [each for each in waiting if each.request not in released]
    if left:
        metrics["next_release_at"] = min(each.release_at for each in left)
    return finish(report("stake-release", metrics), as_json, _show)


@stake.group(
    short_help="Let another key act for your stake.",
    epilog="Example: chainfl stake operator set 0x… --task 0x… --keystore cold.json",
)
def operator() -> None:
    """Let another key act in rounds: it can neither claim nor take out anything."""


@operator.command(
    "set",
    short_help="Name the key that acts for your stake.",
    epilog="Example: chainfl stake operator set 0x… --task 0x… --keystore cold.json",
)
@click.argument("address")
@staker_options
def set_operator_(address: str, as_json: bool, **where: Any) -> int:
    """Let the key of ADDRESS enrol and act in rounds of a task for your stake; none: nobody but you.

    The operator accepts with: chainfl node run --owner YOUR-ADDRESS --enrol. It acts from the next draw on, and the one
    before it until then. What it earns is yours; it cannot claim, deallocate, release or withdraw. It can get your
    stake slashed, by lies and by silence.
    """
    from chainfl.chain.contracts import set_operator
    from chainfl.codec.text import hex_of
    from chainfl.protocol.state import NO_ADDRESS

    key = NO_ADDRESS if address == "none" else parse_address(address)
    me = open_staker(**where)
    if key == me.sender.address:
        raise InputError("you act for your own stake already; name another key, or none")
    set_operator(me.sender, me.registry, me.task, key)
    metrics = {"task": where["task"], "owner": hex_of(me.sender.address), "operator": _key_text(key)}
    return finish(report("stake-operator", metrics), as_json, _show_operator)


@operator.command(
    "show",
    short_help="Show who may act for an account.",
    epilog="Example: chainfl stake operator show --task 0x… --account 0x…",
)
@account_options
@task_options
@json_option
def show_operator(
    task: TaskOnChain,
    who: "Address",
    as_json: bool,
) -> int:
    """Show the key that an owner named, and whether it has accepted and from which round on it acts."""
    from chainfl.chain.contracts import operator_named
    from chainfl.codec.text import hex_of

    connection = task.connect()
    address = parse_address(task.address)
    key = operator_named(connection.w3, registry_of(connection, address), address, who)
    now = task.open_reader(connection).refresh()
    accepted = now.operators[key].since if now.operator_of.get(who) == key else None
    metrics = {
        "task": task.address,
        "owner": hex_of(who),
        "operator": _key_text(key),
        "acts_from_round": accepted,
    }
    return finish(report("stake-operator", metrics), as_json, _show_operator)


def _key_text(key: "Address") -> str | None:
    from chainfl.codec.text import hex_of

    return hex_of(key) if any(key) else None


def _show_operator(answer: Report) -> None:
    metrics = answer.metrics
    if metrics["operator"] is None:
        click.echo("operator: none; the owner acts")
        return
    click.echo(f"operator: {metrics['operator']}")
    since = metrics.get("acts_from_round")
    if since is not None:
        click.echo(f"acts from round {since} on")
    else:
        click.echo(f"it accepts with: chainfl node run --owner {metrics['owner']} --enrol")


def _ripe(waiting: list["Unbonding"], now: int) -> list[int]:
    """The numbers of the requests that have waited long enough."""
    return [each.request for each in waiting if each.release_at <= now]


def _expect_ripe(waiting: list["Unbonding"], number: int, now: int) -> int:
    """The number itself, if it is a request that has waited long enough.

    Raises:
        InputError: there is no such request; ProtocolError: it has to wait longer.
    """
    known = {each.request: each for each in waiting}
    if number not in known:
        there = ", ".join(map(str, sorted(known))) or "none"
        raise InputError(f"request {number} is not waiting (these are: {there}); see chainfl stake show")
    at = known[number].release_at
    if at > now:
        raise ProtocolError(
            f"request {number} can be released from {in_utc(at)} on, in {at - now} s: run this again then"
        )
    return number


def _plain(request: "Unbonding") -> dict[str, object]:
    return {
        "request": request.request,
        "worth_wei": str(request.worth),
        "release_at": request.release_at,
    }


def _show(answer: Report) -> None:
    for name, value in answer.metrics.items():
        if name.endswith("_wei"):
            click.echo(f"{name.removesuffix('_wei').replace('_', ' ')}: {in_ether(value)}")
        elif name == "next_release_at":
            click.echo(f"next release: from {in_utc(int(str(value)))} on")
        elif name == "release_at":
            click.echo(f"release: from {in_utc(int(str(value)))} on, with: chainfl stake release")


def _show_part(answer: Report, waiting: list["Unbonding"], spent: "Spent | None") -> None:
    metrics = answer.metrics
    rows = {
        "account": str(metrics["account"]),
        "balance": in_ether(metrics["balance_wei"]),
        "enrolled": _place(metrics),
        "bonded": in_ether(metrics["bonded_wei"]),
        "earned": in_ether(metrics["earned_wei"]),
        "free": in_ether(metrics["free_wei"]),
        **({"privacy": str(spent)} if spent is not None else {}),
    }

    for name, text in rows.items():
        click.echo(f"{name:<9} {text}")

    if waiting:
        print_table(
            ("request", "worth", "release from"),
            [(str(each.request), in_ether(each.worth), in_utc(each.release_at)) for each in waiting],
        )


def _place(metrics: Mapping[str, object]) -> str:
    """An account's place in the draws, in words."""
    if metrics["id"] is None:
        return "not enrolled"
    if not metrics["enrolled"]:
        return f"as {metrics['id']}, left"
    if metrics["draws_from_round"] is not None:
        return f"as {metrics['id']}, in draws from round {metrics['draws_from_round']} on"
    if int(str(metrics["bonded_wei"])) < int(str(metrics["min_stake_wei"])):
        return f"as {metrics['id']}, in no draw: less than {in_ether(metrics['min_stake_wei'])} is bonded"
    return f"as {metrics['id']}, waits for the open draw to be over"
