"""`chainfl deploy`: put the contracts on a chain."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chainfl.cli.chain_options import connect, key_options, open_sender, rpc_options
from chainfl.cli.output import finish, in_ether, json_option
from chainfl.errors import LowBalanceError, ToolMissingError
from chainfl.protocol.term_table import TERM
from chainfl.report import Report, narrate, report

if TYPE_CHECKING:
    from chainfl.chain.deploy import Deployment


@click.command(
    short_help="Put the contracts on a chain.",
    epilog="Example: chainfl deploy --rpc-url https://… --chain-id 11155111 --keystore key.json",
)
@rpc_options
@key_options
@click.option(
    "--phase-floor",
    type=click.IntRange(1, TERM["train_seconds"].high),
    default=60,
    show_default=True,
    help="Shortest phase of any task, in seconds.",
)
@click.option(
    "--seed-delay",
    type=click.IntRange(1, 64),
    help="Blocks from the opening of a draw to the one that seeds it [2; 1 on a development chain: 31337, 1337].",
)
@click.option(
    "--confirmations",
    type=int,
    help="Blocks to wait after each transaction [1; 0 on a development chain: 31337, 1337].",
)
@click.option(
    "--deployments", type=click.Path(path_type=Path), default=Path("deployments"), show_default=True
)
@click.option("--dry-run", is_flag=True, help="Say what it would cost and send nothing; needs no password.")
@json_option
def deploy(
    rpc_url: str,
    chain_id: int | None,
    keystore: Path,
    password_file: Path | None,
    phase_floor: int,
    seed_delay: int | None,
    confirmations: int | None,
    deployments: Path,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Deploy libraries, factory and registry; an interrupted run is continued where it stopped."""
    from chainfl.chain.deploy import begun, cost_of_deployment, still_to_deploy
    from chainfl.chain.deploy import deploy as put
    from chainfl.chain.development import is_development
    from chainfl.chain.keys import address_of
    from chainfl.chain.rpc import outside
    from chainfl.chain.send import checksum

    started = time.perf_counter()
    deployer = address_of(keystore)
    connection = connect(rpc_url, chain_id)
    path = deployments / f"{connection.chain_id}.json"

    # Only what is not on the chain yet: an interrupted deployment is continued.
    state = begun(path, connection.chain_id, deployer, phase_floor, seed_delay)
    missing = still_to_deploy(connection.w3, state)
    cost = cost_of_deployment(connection.w3, missing)
    with outside("reading the balance"):
        balance = connection.w3.eth.get_balance(checksum(deployer))
    narrate(
        f"chain {connection.chain_id}: {len(missing)} transactions, about {cost.gas:,} gas, at most "
        f"{in_ether(cost.wei)}; {checksum(deployer)} has {in_ether(balance)}"
    )
    metrics: dict[str, object] = {
        "chain_id": connection.chain_id,
        "deployer": checksum(deployer),
        "transactions": len(missing),
        "gas_estimate": cost.gas,
        "estimate_wei": str(cost.wei),
        "balance_wei": str(balance),
    }
    if not dry_run:
        # Before the first transaction: half a deployment has cost gas and is of no use.
        if balance < cost.wei:
            raise LowBalanceError(
                f"account {checksum(deployer)} has {in_ether(balance)}, deploying may take "
                f"{in_ether(cost.wei)}: fund it first"
            )
        if confirmations is None:
            confirmations = 0 if is_development(connection.chain_id) else 1
        sender = open_sender(connection, keystore, password_file, confirmations)
        done = put(connection.w3, sender, path, phase_floor, chain_id, narrate, seed_delay)
        metrics |= {
            "factory": done.factory,
            "registry": done.registry,
            "block": done.block,
            "file": str(path),
            "verification": _write_verification(done, deployments / f"{connection.chain_id}-sources"),
        }
    answer = report(
        "deploy", metrics, ok=not dry_run or balance >= cost.wei, seconds=time.perf_counter() - started
    )
    return finish(answer, as_json, _show)


def _write_verification(done: "Deployment", folder: Path) -> str | None:
    """What explorers take to verify the source; a wheel without sources deploys all the same."""
    from chainfl.chain.verification import write_verification

    try:
        return str(write_verification(done, folder))
    except ToolMissingError as error:
        narrate(f"no source verification input: {error}")
        return None


def _show(answer: Report) -> None:
    for name, value in answer.metrics.items():
        shown = in_ether(value) if name.endswith("_wei") else f"{value}"
        click.echo(f"{name.removesuffix('_wei').replace('_', ' '):<12} {shown}")
    if not answer.ok:
        click.echo("the account cannot pay for it: fund it first")
