"""`chainfl deploy`: put the contracts on a chain."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chainfl.cli.chain_options import connect, key_options, open_sender, rpc_options
from chainfl.cli.output import finish, json_option
from chainfl.errors import LedgerError, ToolMissingError
from chainfl.report import Report, narrate, report

if TYPE_CHECKING:
    from chainfl.chain.deploy import Deployment

ETHER = 10**18


@click.command(
    short_help="Put the contracts on a chain.",
    epilog="Example: chainfl deploy --rpc-url https://… --chain-id 11155111 --keystore key.json",
)
@rpc_options
@key_options
@click.option("--phase-floor", default=60, show_default=True, help="Shortest phase of any task, in seconds.")
@click.option("--confirmations", default=1, show_default=True, help="Blocks to wait after each transaction.")
@click.option(
    "--deployments", type=click.Path(path_type=Path), default=Path("deployments"), show_default=True
)
@click.option("--dry-run", is_flag=True, help="Say what it would cost and send nothing.")
@json_option
def deploy(
    rpc_url: str,
    chain_id: int | None,
    keystore: Path,
    password_file: Path | None,
    phase_floor: int,
    confirmations: int,
    deployments: Path,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Deploy libraries, factory and registry; a run that died is taken up where it stopped."""
    from chainfl.chain.deploy import cost_of_deployment
    from chainfl.chain.deploy import deploy as put

    started = time.perf_counter()
    connection = connect(rpc_url, chain_id)
    sender = open_sender(connection, keystore, password_file, confirmations)
    cost = cost_of_deployment(connection.w3)
    balance = sender.balance()
    price = f"about {cost.gas:,} gas, {cost.wei / ETHER:.6f} ETH"
    narrate(f"chain {connection.chain_id}: {price}; the account has {balance / ETHER:.6f} ETH")
    metrics: dict[str, object] = {
        "chain_id": connection.chain_id,
        "gas_estimate": cost.gas,
        "wei_estimate": str(cost.wei),
    }
    if not dry_run:
        if balance < cost.wei:
            raise LedgerError(
                f"the account has {balance} wei, deploying takes about {cost.wei}: fund it first"
            )
        path = deployments / f"{connection.chain_id}.json"
        done = put(connection.w3, sender, path, phase_floor, chain_id, narrate)
        metrics |= {
            "factory": done.factory,
            "registry": done.registry,
            "block": done.block,
            "file": str(path),
            "verification": _write_verification(done, deployments / f"{connection.chain_id}-sources"),
        }
    return finish(report("deploy", metrics, seconds=time.perf_counter() - started), as_json, _show)


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
        click.echo(f"{name:<14} {value}")
