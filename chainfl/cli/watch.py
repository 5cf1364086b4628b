"""`chainfl watch`: follow a task, redo each proposal, convict liars."""

import signal
import threading
from pathlib import Path

import click

from chainfl.cli.chain_options import (
    TaskOnChain,
    chosen_caps,
    key_options,
    limit_options,
    open_signer,
    parse_address,
    store_option,
    task_options,
)
from chainfl.limits import Limits


@click.command(
    short_help="Follow a task and convict liars.",
    epilog="Example: chainfl watch --task 0x… --store dir:./store --keystore key.json",
)
@task_options
@store_option
@key_options
@limit_options
@click.option("--poll-seconds", default=1.0, show_default=True, help="Pause between reads of the chain.")
@click.option("--json-logs", is_flag=True, help="One JSON object per log line.")
def watch(
    task: TaskOnChain,
    store: str,
    keystore: Path,
    password_file: Path | None,
    limits: Limits,
    poll_seconds: float,
    json_logs: bool,
) -> int:
    """Follow a task, redo each proposal as it appears, note and prove lies; no stake and no data are needed."""
    from chainfl.chain.ledger import ChainLedger
    from chainfl.chain.send import Sender, SendSettings
    from chainfl.limits import check_size
    from chainfl.logs import set_up_logs
    from chainfl.node.loop import persist
    from chainfl.node.status import Status
    from chainfl.node.watcher import Watcher, watch_task
    from chainfl.store.address import open_store

    set_up_logs(as_json=json_logs)
    signer = open_signer(keystore, password_file)
    address = parse_address(task.address)
    blobs = open_store(store)
    stop = threading.Event()
    costs = SendSettings(caps=chosen_caps())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

    def meet() -> ChainLedger:
        connection = task.connect()
        reader = task.open_reader(connection)
        check_size(reader.refresh().config, limits)
        sender = Sender(connection.w3, signer, connection.chain_id, costs, connection.endpoints.others)
        return ChainLedger(connection.w3, sender, reader, address)

    ledger = persist(meet, stop, Status())
    if ledger is not None:
        watch_task(Watcher(ledger, blobs), ledger, stop, poll_seconds)
    return 0
