"""`chainfl node run`: take part in a task with one key and one's own data."""

import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from chainfl.cli.chain_options import joined
from chainfl.node.settings import NodeSettings

F = TypeVar("F", bound=Callable[..., Any])

DUTIES = ("all", "worker", "validator", "miner")


def setting_options(command: F) -> F:
    """One flag per setting, with its description; a flag wins over CHAINFL_… and the settings file."""
    for name, field in reversed(NodeSettings.model_fields.items()):
        flag = f"--{name.replace('_', '-')}"
        default = "" if field.is_required() or field.default is None else f" [{field.default}]"
        text = f"{field.description}{default}"

        kind: Any = str
        if field.annotation in (int, int | None):
            kind = int
        elif field.annotation is float:
            kind = float
        elif field.annotation in (Path, Path | None):
            kind = click.Path(path_type=Path)

        # No flag has a default of its own: what is not given must not win over environment and file.
        if name == "rpc_url":
            command = click.option(flag, name, multiple=True, callback=joined, help=text)(command)
        elif field.annotation is bool:
            command = click.option(flag, name, is_flag=True, default=None, help=text)(command)
        else:
            command = click.option(flag, name, type=kind, default=None, help=text)(command)
    return command


@click.group(epilog="Example: chainfl node run --task 0x… --keystore key.json --store dir:./store")
def node() -> None:
    """Take part in a task."""


@node.command(
    short_help="Play whatever role a round gives this key.",
    epilog="Example: chainfl node run --rpc-url http://127.0.0.1:8545 --task 0x… --keystore key.json "
    "--password-file pass --store dir:./store --dataset npz:mine.npz; add --role worker, validator or miner "
    "to play one part in a process of its own, with a home of its own",
)
@click.option("--settings", type=click.Path(path_type=Path), help="TOML file with settings.")
@click.option(
    "--role",
    type=click.Choice(DUTIES),
    default="all",
    show_default=True,
    help="Play this role only; where no other process plays the others for this key, missed deadlines cost stake.",
)
@setting_options
def run(settings: Path | None, role: str, **flags: Any) -> int:
    """Play whatever role the round gives this key, until the task ends or the process is stopped (Ctrl-C).

    Settings are flags over environment (CHAINFL_RPC_URL for --rpc-url, …) over the file of --settings.
    """
    from chainfl.logs import set_up_logs
    from chainfl.node.loop import persist, serve
    from chainfl.node.settings import load_settings
    from chainfl.node.status import Status, serve_status
    from chainfl.node.tracks import kept_going, named
    from chainfl.node.wiring import build_node, connect, open_key
    from chainfl.roles.turn import Duty
    from chainfl.tools import require_package
    from chainfl.tracking import check_tracker, tracked

    chosen = load_settings(flags, settings)
    require_package("torch", "train")
    check_tracker(chosen.track)
    set_up_logs(as_json=chosen.json_logs, level=chosen.log_level)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: _end(stop))
    duty = {"all": Duty.ALL, "worker": Duty.WORK, "validator": Duty.VALIDATE, "miner": Duty.MINE}[
        role
    ] | Duty.KEEP
    status = Status()
    if chosen.status_port is not None:
        serve_status(status, chosen.status_port)
    signer = open_key(chosen)

    # Chain and store may be away or wrong at the start too: the node waits for them and does not end.
    connections = persist(lambda: connect(chosen, signer), stop, status)
    node = (
        persist(lambda: build_node(chosen, connections, status), stop, status)
        if connections is not None
        else None
    )
    if node is not None:
        with tracked(chosen.track, *named(chosen, node)) as record:
            serve(
                replace(node, record=kept_going(record)),
                duty,
                stop,
                poll_seconds=chosen.poll_seconds,
                status=status,
            )
    return 0


def _end(stop: threading.Event) -> None:
    """The step under way is finished first; a second signal ends it at once, for nothing can be lost."""
    if stop.is_set():
        raise KeyboardInterrupt
    stop.set()
