"""`chainfl demo`: everything at work on this machine, in a few minutes."""

from pathlib import Path

import click

from chainfl.cli.output import finish, json_option, print_table
from chainfl.codec.text import ETHER
from chainfl.report import Report, narrate, report

HOME = Path(".chainfl") / "demo"


@click.command(
    short_help="See everything at work on this machine.",
    epilog="Example: chainfl demo --rule fedrob:b=1 --rounds 2",
)
@click.option(
    "--story",
    type=click.Choice(["open", "selfish"]),
    default="open",
    show_default=True,
    help="Anybody may judge, or three internals of a stakeholder do (docs/selfish.md).",
)
@click.option(
    "--rule",
    help="Aggregation rule, such as fedrob:b=1,alpha=0.9.",
    show_default="softmax; softmax:beta=20 in the selfish story, which also takes varsel",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Rounds before the one in which the miner lies.",
)
@click.option("--home", type=click.Path(path_type=Path), help="Leave logs, keys and blobs in this folder.")
@click.option(
    "--keep",
    is_flag=True,
    help=f"Leave the chain running afterwards, with a dashboard to look at [folder: {HOME}].",
)
@json_option
def demo(story: str, rule: str | None, rounds: int, home: Path | None, keep: bool, as_json: bool) -> int:
    """Train with 12 participants on a chain of this machine, catch a lying miner, audit every round."""
    import time

    from chainfl.devnet.demo import run_demo
    from chainfl.protocol.terms import parse_rule

    if rule is not None:
        parse_rule(rule)  # refused before anything is started
    started = time.perf_counter()
    folder = HOME if keep and home is None else home
    result = run_demo(rule, rounds, narrate, story=story, home=folder, keep=keep)
    metrics: dict[str, object] = {
        "story": story,
        "rule": result.rule,
        "rounds": result.rounds,
        "gas": {str(number): gas for number, gas in result.gas.items()},
        "earned_wei": {name: str(wei) for name, wei in result.earned.items()},
        "stake_wei": {name: str(wei) for name, wei in result.stake.items()},
        "audit": {str(number): verdict for number, verdict in result.audit.items()},
        "convicted": result.convicted,
        "refused": result.refused,
        "test_accuracy": result.accuracy,
        "comparison": result.comparison,
        "dashboard": result.dashboard or None,
    }
    answer = report("demo", metrics, ok=result.ok, seconds=time.perf_counter() - started)
    return finish(answer, as_json, lambda done: _show(done, result.earned, result.stake, folder))


def _show(answer: Report, earned: dict[str, int], stake: dict[str, int], home: Path | None) -> None:
    rows = [
        (name, f"{earned[name] / ETHER:.4f}", f"{stake[name] / ETHER:.3f}")
        for name in sorted(earned, key=lambda n: -earned[n])
    ]
    print_table(("participant", "earned (ETH)", "stake left (ETH)"), rows)

    # Gas of all participants together: the sum that an experiment on a real chain would pay.
    gas = answer.metrics["gas"]
    assert isinstance(gas, dict)
    whole = sum(gas.values())
    click.echo(
        f"cost: {whole:,} gas in {len(gas)} rounds, {whole // len(gas):,} a round, fees of all together"
    )

    click.echo(f"took {answer.seconds:.0f} s; {'all verified' if answer.ok else 'NOT everything verified'}")

    if home is None:
        click.echo("next: chainfl demo --keep leaves the chain running, with a dashboard, logs and blobs")
        return
    dashboard = answer.metrics["dashboard"]
    if dashboard is not None:
        click.echo(f"dashboard: {dashboard}; end it with: chainfl devnet down --home {home}")
        click.echo(
            f"ask the chain yourself: . {home}/guest.env, then chainfl audit verify or chainfl task show"
        )
    click.echo(f"node logs in {home}/logs, blobs in {home}/store; play it again in memory:")
    click.echo(f"  chainfl simulate --replay {home}/trace.json --participants {home}/participants.json")
