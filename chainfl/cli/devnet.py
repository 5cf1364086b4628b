"""`chainfl devnet`: a chain of one's own with participants, for trying things out."""

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chainfl.cli.output import finish, json_option, print_table
from chainfl.errors import InputError
from chainfl.report import Report, narrate, report
from chainfl.workflows.sponsor_terms import Terms

if TYPE_CHECKING:
    from chainfl.devnet.processes import Devnet

HOME = Path(".chainfl") / "devnet"
THREADS = 1
"""Of torch, for each node: they share one machine."""


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
@click.option(
    "--committee", type=click.IntRange(min=3), default=Terms().committee_size, show_default=True,
    help="Validators of a round, an odd number.",
)  # fmt: skip
@click.option("--app", help="Your own learning: a Python file, package.module or flower:… (docs/apps.md).")
@click.option("--app-config", help="Values of the app's config, such as rate=0.01,batch=16.")
@click.option("--dataset", help="With --app: what its data() is given; each node takes its part.")
@click.option("--home", type=click.Path(path_type=Path), default=HOME, show_default=True)
@json_option
def up(
    participants: int,
    rule: str,
    rounds: int,
    committee: int,
    app: str | None,
    app_config: str | None,
    dataset: str | None,
    home: Path,
    as_json: bool,
) -> int:
    """Start anvil, deploy, fund, make keys, and start a process for each participant."""
    from chainfl.chain.abi import as_address
    from chainfl.chain.keys import address_of
    from chainfl.chain.reader import read_config
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
    from chainfl.learning.source import absolute
    from chainfl.protocol.terms import needed_accounts, parse_rule
    from chainfl.sim.replay import DEVNET_SEED, participants_of

    parse_rule(rule)  # refused before anything is started
    folder = home.resolve()
    clear(folder)
    if app is None and dataset is not None:
        raise InputError("--dataset is for an app: give --app FILE too")
    app = absolute(app) if app is not None else None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # end what was started, also when told to stop
    process, url = start_anvil(folder, 1)
    narrate(f"anvil at {url}; deploying the contracts")
    net = Devnet(str(folder), url)
    net.started("anvil", process.pid)
    try:
        people = [Person(f"p{number:02}") for number in range(1, participants + 1)]
        keys = make_keys(folder, ["sponsor", "guest", *(person.name for person in people)])
        terms = Terms(
            rule=rule,
            rounds=rounds,
            escrow=rounds * ETHER // 5,
            committee_size=committee,
            app=app,
            app_config=app_config,
        )
        open_task(net, open_rpc(url), keys, people, terms, narrate)
        for number, person in enumerate(people):
            more = {"app": app, "dataset": dataset, "threads": THREADS}
            start_node(net, person, number, len(people), "iid", DEVNET_SEED, more)
        described = json.dumps(participants_of([person.name for person in people], {}, dataset))
        (folder / "participants.json").write_text(described + "\n", encoding="utf-8")
        fund(open_rpc(url), address_of(keys["guest"]), 100 * ETHER)
        narrate(f"a process for each of {len(people)} participants is starting")
        enrol(net, open_rpc(url), keys, people, narrate)
        narrate("all are enrolled; starting the dashboard")
        dashboard = start_api(net, narrate)
        guest = write_guest(net)
        config = read_config(open_rpc(url), as_address(net.task))

    # Nothing that was started may outlive a command that failed or was interrupted.
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
        "missing": max(0, needed_accounts(config) - participants),
    }
    return finish(report("devnet-up", metrics), as_json, lambda answer: _show(answer, app))


@devnet.command(
    short_help="Let guests take part.", epilog="Example: chainfl devnet join --app digits/app.py --guests 2"
)
@click.option(
    "--guests", type=click.IntRange(min=1), default=1, show_default=True, help="How many more take part."
)
@click.option("--app", help="The task's app, where it runs one: a Python file, or package.module.")
@click.option("--dataset", help="Data of the guests: what the app's data() is given, or npz:mine.npz.")
@click.option("--home", type=click.Path(path_type=Path), default=HOME, show_default=True)
@json_option
def join(guests: int, app: str | None, dataset: str | None, home: Path, as_json: bool) -> int:
    """Start guests beside the nodes of `up`: keys, stake, a process each, enrolled once each has rehearsed."""
    from chainfl.devnet.guests import add_guests
    from chainfl.devnet.processes import load_devnet

    net = load_devnet(home.resolve())
    app = str(Path(app).resolve()) if app is not None and Path(app).exists() else app
    joined = add_guests(net, guests, {"app": app, "dataset": dataset, "threads": THREADS}, narrate)
    answer = report("devnet-join", {"guests": joined, "task": net.task})
    names = ", ".join(f"{name} as participant {id_}" for name, id_ in joined.items())
    return finish(answer, as_json, lambda _: click.echo(f"{names}: taking part from the next round on"))


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
        {"rpc_url": net.rpc_url, "task": net.task, "dashboard": net.dashboard, "running": running},
        ok=all(running.values()),
    )
    rows = [
        (name, str(net.processes[name]), "running" if alive else "ended") for name, alive in running.items()
    ]
    return finish(answer, as_json, lambda _: _show_status(net, rows))


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


def _show_status(net: "Devnet", rows: list[tuple[str, str, str]]) -> None:
    if not rows:
        click.echo("nothing runs; start with: chainfl devnet up")
        return
    print_table(("process", "pid", "state"), rows)
    for name, value in (("rpc url", net.rpc_url), ("task", net.task), ("dashboard", net.dashboard or "none")):
        click.echo(f"{name:<9} {value}")


def _show(answer: Report, app: str | None) -> None:
    metrics = dict(answer.metrics)
    missing = metrics.pop("missing")
    for name, value in metrics.items():
        click.echo(f"{name.replace('_', ' '):<9} {value or 'none'}")
    if missing:
        click.echo(
            f"\nno round is drawn before {missing} more take part: chainfl devnet join --guests {missing}"
        )
    click.echo("\nto take part yourself, as the guest with 100 ETH and data of your own:")
    click.echo(f". {answer.metrics['guest']}")
    click.echo("chainfl stake add 5")
    click.echo(f"chainfl node run {f'--app {app}' if app else '--dataset npz:mine.npz'} --enrol")
