"""`chainfl devnet`: a chain of one's own with participants, for trying things out."""

from pathlib import Path

import click

from chainfl.cli.output import finish, json_option, print_table
from chainfl.errors import InputError
from chainfl.report import Report, narrate, report

HOME = Path(".chainfl") / "devnet"


@click.group(epilog="Example: chainfl devnet up --participants 8")
def devnet() -> None:
    """Run a chain, a task and participants on this machine."""


@devnet.command(epilog="Example: chainfl devnet up --participants 8 --rule median")
@click.option("--participants", default=8, show_default=True, help="How many node processes to start.")
@click.option("--rule", default="softmax", show_default=True, help="Aggregation rule of the task.")
@click.option("--rounds", default=100, show_default=True, help="Rounds of the task.")
@click.option("--home", type=click.Path(path_type=Path), default=HOME, show_default=True)
@json_option
def up(participants: int, rule: str, rounds: int, home: Path, as_json: bool) -> int:
    """Start anvil, deploy, fund, make keys, and start a process for each participant."""
    from chainfl.chain.keys import address_of
    from chainfl.chain.rpc import open_rpc
    from services.devnet import (
        Devnet,
        Person,
        enrol,
        fund,
        is_running,
        load_devnet,
        make_keys,
        open_task,
        start_anvil,
        start_api,
        start_node,
        stop,
        write_guest,
    )
    from services.sponsor import ETHER, Terms

    if (home / "devnet.json").exists():
        old = load_devnet(home)
        if any(is_running(pid) for pid in old.processes.values()):
            raise InputError(f"a devnet runs in {home}: end it first with: chainfl devnet down --home {home}")
    folder = home.resolve()
    process, url = start_anvil(folder, 1)
    net = Devnet(str(folder), url, processes={"anvil": process.pid})
    net.save()
    try:
        people = [Person(f"p{number:02}") for number in range(1, participants + 1)]
        keys = make_keys(folder, ["sponsor", "guest", *(person.name for person in people)])
        terms = Terms(rule=rule, rounds=rounds, escrow=rounds * ETHER // 5)
        open_task(net, open_rpc(url), keys, people, terms, narrate)
        for number, person in enumerate(people):
            start_node(net, person, number, len(people), "iid", 7)
        fund(open_rpc(url), address_of(keys["guest"]), 100 * ETHER)
        narrate("waiting for the nodes")
        enrol(net, open_rpc(url), keys, people)
        dashboard, guest = start_api(net), write_guest(net)
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
    from services.devnet import is_running, load_devnet

    net = load_devnet(home)
    running = {name: is_running(pid) for name, pid in net.processes.items()}
    answer = report(
        "devnet-status",
        {"rpc_url": net.rpc_url, "task": net.task, "running": running},
        ok=all(running.values()),
    )
    rows = [
        (name, str(net.processes[name]), "running" if alive else "ended") for name, alive in running.items()
    ]
    return finish(answer, as_json, lambda _: print_table(("process", "pid", "state"), rows))


@devnet.command(epilog="Example: chainfl devnet down")
@click.option("--home", type=click.Path(path_type=Path), default=HOME, show_default=True)
@json_option
def down(home: Path, as_json: bool) -> int:
    """End exactly what `up` started; files stay."""
    from services.devnet import load_devnet, stop

    ended = stop(load_devnet(home))
    return finish(
        report("devnet-down", {"ended": ended}),
        as_json,
        lambda _: click.echo(f"ended {len(ended)} processes"),
    )


def _show(answer: Report) -> None:
    for name, value in answer.metrics.items():
        click.echo(f"{name.replace('_', ' '):<8} {value}")
    click.echo("\nto take part yourself, as the guest with 100 ETH and data of your own:")
    click.echo(f". {answer.metrics['guest']}")
    click.echo("chainfl stake add 5 --enrol")
    click.echo("chainfl node run --dataset npz:mine.npz")
