"""`chainfl devnet`: a chain of one's own with participants, for trying things out."""

import json
import signal
import sys
from pathlib import Path

import click

from chainfl.cli.output import finish, json_option, print_table
from chainfl.report import Report, narrate, report

HOME = Path(".chainfl") / "devnet"


@click.group(epilog="Example: chainfl devnet up --participants 8")
def devnet() -> None:
    """Run a chain, a task and participants on this machine."""


@devnet.command(
    short_help="Start it all.", epilog="Example: chainfl devnet up --participants 8 --rule median"
)
@click.option(
    "--participants",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="How many node processes to start.",
)
@click.option("--rule", default="softmax", show_default=True, help="Aggregation rule of the task.")
@click.option(
    "--rounds", type=click.IntRange(min=1), default=100, show_default=True, help="Rounds of the task."
)
@click.option("--home", type=click.Path(path_type=Path), default=HOME, show_default=True)
@json_option
def up(participants: int, rule: str, rounds: int, home: Path, as_json: bool) -> int:
    """Start anvil, deploy, fund, make keys, and start a process for each participant."""
    from chainfl.chain.keys import address_of
    from chainfl.chain.rpc import open_rpc
    from chainfl.codec.text import ETHER
    from chainfl.devnet.processes import (
        Devnet,
        Person,
        clear,
        enrol,
        fund,
        make_keys,
        open_task,
        start_anvil,
        start_api,
        start_node,
        stop,
        write_guest,
    )
    from chainfl.sim.replay import DEVNET_SEED, participants_of
    from chainfl.workflows.sponsor import Terms

    folder = home.resolve()
    clear(folder)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # end what was started, also when told to stop
    process, url = start_anvil(folder, 1)
    net = Devnet(str(folder), url)
    net.started("anvil", process.pid)
    try:
        people = [Person(f"p{number:02}") for number in range(1, participants + 1)]
        keys = make_keys(folder, ["sponsor", "guest", *(person.name for person in people)])
        terms = Terms(rule=rule, rounds=rounds, escrow=rounds * ETHER // 5)
        open_task(net, open_rpc(url), keys, people, terms, narrate)
        for number, person in enumerate(people):
            start_node(net, person, number, len(people), "iid", DEVNET_SEED)
        described = json.dumps(participants_of([person.name for person in people], {}))
        (folder / "participants.json").write_text(described + "\n", encoding="utf-8")
        fund(open_rpc(url), address_of(keys["guest"]), 100 * ETHER)
        narrate(f"a process for each of {len(people)} participants is starting")
        enrol(net, open_rpc(url), keys, people, narrate)
        dashboard = start_api(net, narrate)
        guest = write_guest(net)
    except BaseException:
        stop(net)
        raise
    metrics = {
        "rpc_url": url,
        "task": net.task,
        "factory": net.factory,
        "store": net.store,
        "home": str(folder),
        "dashboard": dashboard,
        "guest": str(guest),
    }
    return finish(report("devnet-up", metrics), as_json, _show)


@devnet.command(epilog="Example: chainfl devnet status")
@click.option("--home", type=click.Path(path_type=Path), default=HOME, show_default=True)
@json_option
def status(home: Path, as_json: bool) -> int:
    """Say what runs."""
    from chainfl.devnet.processes import load_devnet

    net = load_devnet(home)
    running = {name: net.runs(name) for name in net.processes}
    answer = report(
        "devnet-status",
        {"rpc_url": net.rpc_url, "task": net.task, "running": running},
        ok=all(running.values()),
    )
    rows = [
        (name, str(net.processes[name]), "running" if alive else "ended") for name, alive in running.items()
    ]
    return finish(answer, as_json, lambda _: _show_status(rows))


@devnet.command(epilog="Example: chainfl devnet down")
@click.option("--home", type=click.Path(path_type=Path), default=HOME, show_default=True)
@json_option
def down(home: Path, as_json: bool) -> int:
    """End exactly what `up` started; files stay."""
    from chainfl.devnet.processes import load_devnet, stop

    ended = stop(load_devnet(home))
    return finish(
        report("devnet-down", {"ended": ended}),
        as_json,
        lambda _: click.echo(f"ended {len(ended)} processes"),
    )


def _show_status(rows: list[tuple[str, str, str]]) -> None:
    if rows:
        print_table(("process", "pid", "state"), rows)
    else:
        click.echo("nothing runs; start with: chainfl devnet up")


def _show(answer: Report) -> None:
    for name, value in answer.metrics.items():
        click.echo(f"{name.replace('_', ' '):<9} {value}")
    click.echo("\nto take part yourself, as the guest with 100 ETH and data of your own:")
    click.echo(f". {answer.metrics['guest']}")
    click.echo("chainfl stake add 5")
    click.echo("chainfl node run --dataset npz:mine.npz --enrol")
