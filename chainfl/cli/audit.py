"""`chainfl audit`: redo rounds from chain and blobs alone."""

import time
from dataclasses import asdict

import click

from chainfl.cli.chain_options import connect, open_reader, rpc_options, store_option, task_options
from chainfl.cli.output import finish, json_option, print_table
from chainfl.errors import InputError
from chainfl.report import Report, report


@click.group(epilog="Example: chainfl audit verify --task 0x… --store dir:./store --all")
def audit() -> None:
    """Redo rounds from chain and blobs alone."""


@audit.command(epilog="Example: chainfl audit verify --task 0x… --store dir:./store --round 3")
@rpc_options
@task_options
@store_option
@click.option("--round", "number", type=int, help="Only this round.")
@click.option("--all", "every", is_flag=True, help="Every settled round (the default).")
@json_option
def verify(
    rpc_url: str,
    chain_id: int | None,
    task: str,
    from_block: int,
    store: str,
    number: int | None,
    every: bool,
    as_json: bool,
) -> int:
    """Redo settled rounds: draw, commitments, roots, inclusion, scores, shares, model, record, rewards."""
    from chainfl.store.address import open_store
    from services.auditing import audit as redo

    if number is not None and every:
        raise InputError("--round and --all: give one of them")
    started = time.perf_counter()
    reader = open_reader(connect(rpc_url, chain_id), task, from_block)
    audited = list(redo(reader, open_store(store), number))
    if number is not None and not audited:
        raise InputError(f"round {number} of this task is not settled; {reader.task.round.number} is running")
    rounds = [
        {
            "round": one.played.number,
            "outcome": one.played.outcome.name.lower(),
            "verdict": one.verdict.value,
            "findings": [asdict(finding) | {"verdict": finding.verdict.value} for finding in one.findings],
        }
        for one in audited
    ]
    ok = all(one.verdict.value == "ok" for one in audited)
    answer = report(
        "audit-verify", {"task": task, "rounds": rounds}, ok=ok, seconds=time.perf_counter() - started
    )
    return finish(answer, as_json, _show)


def _show(answer: Report) -> None:
    rounds = answer.metrics["rounds"]
    assert isinstance(rounds, list)
    for one in rounds:
        click.echo(f"round {one['round']} ({one['outcome']}): {one['verdict']}")
        rows = [
            (
                str(f["number"]),
                f["check"],
                f["verdict"],
                _short(f["expected"]),
                "" if f["verdict"] == "ok" else _short(f["found"]),
            )
            for f in one["findings"]
        ]
        print_table(("", "check", "verdict", "expected", "found"), rows)


def _short(text: str) -> str:
    return text if len(text) <= 120 else text[:117] + "…"
