"""`chainfl serve`: the audit API and its dashboard."""

from pathlib import Path
from typing import Any

import click

from chainfl import tools
from chainfl.cli.chain_options import connect, parse_address, rpc_options
from chainfl.errors import InputError
from chainfl.report import narrate


@click.command(epilog="Example: chainfl serve --devnet .chainfl/devnet, then open http://127.0.0.1:8080/")
@rpc_options
@click.option("--factory", envvar="CHAINFL_FACTORY", help="Address of the factory whose tasks are shown.")
@click.option("--task", "tasks", multiple=True, help="Only this task; can be given again. All without it.")
@click.option(
    "--from-block", type=int, envvar="CHAINFL_FROM_BLOCK", help="A block not after the factory's [0]."
)
@click.option(
    "--store",
    envvar="CHAINFL_STORE",
    help="dir:/path, ipfs:/ip4/127.0.0.1/tcp/5001 or http://127.0.0.1:5001.",
)
@click.option(
    "--devnet",
    type=click.Path(path_type=Path),
    help="Folder of a devnet or demo: its chain, factory and store.",
)
@click.option(
    "--index", type=click.Path(path_type=Path), help="File of the index; it can be deleted at any time."
)
@click.option("--host", help="Address to listen on [127.0.0.1].")
@click.option("--port", type=int, help="Port to listen on; 0 takes a free one [8080].")
@click.option(
    "--confirmations", default=0, show_default=True, help="Blocks to wait before anything is shown."
)
@click.option("--poll-seconds", type=float, help="Pause between reads of the chain [1].")
@click.option(
    "--max-parameters", type=int, help="Audit no task whose models have more parameters [134217728]."
)
@click.option(
    "--max-memory-mib", type=int, help="Audit no round whose models take more MiB of memory [8192]."
)
@click.option(
    "--explorer", help="Block explorer that the dashboard links to, such as https://sepolia.etherscan.io."
)
@click.option("--json-logs", is_flag=True, help="One JSON object per log line.")
def serve(
    rpc_url: str,
    chain_id: int | None,
    factory: str | None,
    tasks: tuple[str, ...],
    from_block: int | None,
    store: str | None,
    devnet: Path | None,
    confirmations: int,
    json_logs: bool,
    **flags: Any,
) -> int:
    """Serve the audit API and its dashboard.

    What the chain says of its tasks, and whether it is true: JSON for machines, pages for people; read-only.
    """
    try:
        from chainfl.api.app import create_app
        from chainfl.api.server import address_of, listen, make_server
    except ImportError as error:
        from chainfl.errors import ToolMissingError

        raise ToolMissingError(f"{error.name} is not installed: {tools.pip_install('api')}") from None
    from chainfl.api.chain import ChainSource
    from chainfl.api.settings import load_settings
    from chainfl.logs import set_up_logs
    from chainfl.store.address import open_store

    # A devnet's folder stands for four options; those that are given win.
    if devnet is not None:
        from chainfl.devnet.processes import load_devnet

        net = load_devnet(devnet)
        rpc_url = net.rpc_url
        chain_id = net.chain_id
        factory = factory or net.factory
        store = store or net.store
        from_block = net.from_block if from_block is None else from_block
        flags["index"] = flags["index"] or devnet / "audit-index.sqlite"
    if not factory or not store:
        raise InputError("give --factory and --store, or --devnet with the folder of a devnet")
    settings = load_settings(flags)
    set_up_logs(as_json=json_logs)
    connection = connect(rpc_url, chain_id)
    source = ChainSource(
        connection.w3,
        connection.chain_id,
        parse_address(factory),
        only=[parse_address(task) for task in tasks],
        from_block=from_block or 0,
        confirmations=confirmations,
        max_tasks=settings.max_tasks,
        max_events=settings.max_events,
    )
    app = create_app(source, open_store(store), settings)

    # The port is taken before the first line is printed, so that a script may connect as soon as it reads it.
    with listen(settings) as listener:
        narrate(f"serving chain {connection.chain_id} at {address_of(listener)}")
        make_server(app, settings).run(sockets=[listener])
    return 0
