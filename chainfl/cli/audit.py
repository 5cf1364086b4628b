"""`chainfl audit`: redo rounds from chain and blobs, or from one file; export that file; challenge a lie."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chainfl.cli.audit_output import plain_bundle, plain_plan, plain_rounds, show_audit, show_export
from chainfl.cli.chain_options import (
    TaskOnChain,
    fee_options,
    limit_options,
    open_sender,
    parse_address,
    rpc_options,
    store_option,
    task_options,
)
from chainfl.cli.output import finish, json_option
from chainfl.codec.text import hex_of, parse_hex
from chainfl.errors import InputError
from chainfl.limits import Limits
from chainfl.report import narrate, report

if TYPE_CHECKING:
    from chainfl.workflows.audit import AuditedRound


@click.group(epilog="Example: chainfl audit verify --task 0x… --store dir:./store --all")
def audit() -> None:
    """Redo rounds from chain and blobs alone."""


# Export


@audit.command(
    short_help="Write all evidence of a task to one file.",
    epilog="Example: chainfl audit export --task 0x… --store dir:./store --out task.car",
)
@task_options
@store_option
@click.option("--round", "number", type=int, help="Only this round's blobs.")
@click.option("--all", "every", is_flag=True, help="Every settled round (the default).")
@click.option("--block", type=int, help="The block to rest on [the newest]; take one that is final.")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="The file to write, such as task.car."
)
@json_option
def export(
    task: TaskOnChain,
    store: str,
    number: int | None,
    every: bool,
    block: int | None,
    out: Path,
    as_json: bool,
) -> int:
    """Write evidence and blobs of settled rounds to one file, for an audit that needs no network."""
    from chainfl.store.address import open_store
    from chainfl.workflows.bundle import export_bundle

    _one_of(number, every)
    started = time.perf_counter()
    connection = task.connect()
    done = export_bundle(
        connection.w3,
        connection.chain_id,
        parse_address(task.address),
        open_store(store),
        out,
        from_block=task.from_block,
        number=number,
        block=block,
        on_progress=narrate,
    )
    subject = done.subject
    metrics = {
        "file": str(out),
        "bytes": done.size,
        "chain": subject.chain,
        "task": hex_of(subject.task),
        "block": {"number": subject.block, "hash": hex_of(subject.hash)},
        "rounds": list(done.rounds),
        "headers": done.headers,
        "receipts": done.receipts,
        "blobs": done.blobs,
        "missing": [str(cid) for cid in done.missing],
    }
    return finish(
        report("audit-export", metrics, seconds=time.perf_counter() - started), as_json, show_export
    )


# Verify


@audit.command(
    short_help="Redo settled rounds and compare.",
    epilog="Example: chainfl audit verify --task 0x… --store dir:./store --round 3",
)
@rpc_options
@click.option(
    "--task", envvar="CHAINFL_TASK", help="Address of the task; with --bundle, refuse one about another task."
)
@click.option(
    "--from-block",
    type=int,
    default=0,
    envvar="CHAINFL_FROM_BLOCK",
    help="Start reading here: the creation block or earlier [0].",
)
@click.option(
    "--store",
    envvar="CHAINFL_STORE",
    help="dir:/path, ipfs:/ip4/127.0.0.1/tcp/5001 or http://127.0.0.1:5001.",
)
@click.option("--round", "number", type=int, help="Only this round.")
@click.option("--all", "every", is_flag=True, help="Every settled round (the default).")
@click.option("--bundle", type=click.Path(path_type=Path), help="Audit this file; nothing else is asked.")
@click.option(
    "--block-hash", help="With --bundle: the block it has to rest on, from a source that you trust."
)
@click.option(
    "--challenge", is_flag=True, help="Redo the standing proposal; show what proving a lie would do."
)
@click.option("--send", is_flag=True, help="With --challenge: prove the lie, after noting it.")
@click.option(
    "--keystore",
    type=click.Path(path_type=Path),
    envvar="CHAINFL_KEYSTORE",
    help="With --send: encrypted key file (chainfl keys new).",
)
@click.option(
    "--password-file",
    type=click.Path(path_type=Path),
    envvar="CHAINFL_PASSWORD_FILE",
    help="File whose first line opens the keystore; asked for when not given.",
)
@limit_options
@fee_options
@json_option
def verify(
    rpc_url: str,
    chain_id: int | None,
    task: str | None,
    from_block: int,
    store: str | None,
    number: int | None,
    every: bool,
    bundle: Path | None,
    block_hash: str | None,
    challenge: bool,
    send: bool,
    keystore: Path | None,
    password_file: Path | None,
    limits: Limits,
    as_json: bool,
) -> int:
    """Redo settled rounds: draw, commitments, roots, inclusion, scores, shares, model, record, rewards.

    Without a settled round there is nothing to show, which is no success: exit code 1.
    """
    _one_of(number, every)
    _expect_sense(bundle is not None, block_hash is not None, challenge, send, keystore is not None)

    started = time.perf_counter()

    # A bundle is audited without a chain or a store; those options say what it has to be about.
    if bundle is not None:
        metrics, ok = _verify_bundle(bundle, block_hash, task, number, limits)
    else:
        if task is None or store is None:
            raise InputError("--task and --store are needed to audit a chain; --bundle F audits a file")
        _check_places(task, store)
        online = _Online(TaskOnChain(rpc_url, chain_id, task, from_block), store, limits)
        if challenge:
            key = (keystore, password_file) if send and keystore is not None else None
            metrics, ok = _challenge(online, number, key)
        else:
            metrics, ok = _verify_chain(online, number)
    return finish(
        report("audit-verify", metrics, ok=ok, seconds=time.perf_counter() - started), as_json, show_audit
    )


def _check_places(task: str, store: str) -> None:
    """Refuse what is no address of a task or of a store before a chain is asked."""
    from chainfl.store.address import open_store

    parse_address(task)
    open_store(store)


@dataclass(frozen=True, slots=True)
class _Online:
    """Where a chain and its blobs are."""

    task: TaskOnChain
    store: str
    limits: Limits


def _expect_sense(bundle: bool, block_hash: bool, challenge: bool, send: bool, keystore: bool) -> None:
    if block_hash and not bundle:
        raise InputError("--block-hash goes with --bundle")
    if challenge and bundle:
        raise InputError(
            "--challenge needs the chain: give --task, --store and --rpc-url instead of --bundle"
        )
    if send and not challenge:
        raise InputError("--send goes with --challenge")
    if send and not keystore:
        raise InputError("--send needs --keystore, the key that sends the proof and gets the finder's part")


def _verify_chain(online: _Online, number: int | None) -> tuple[dict[str, object], bool]:
    from chainfl.store.address import open_store
    from chainfl.workflows.audit import audit as redo

    reader = online.task.open_reader()
    audited = list(redo(reader, open_store(online.store), number, online.limits))
    if number is not None and not audited:
        raise InputError(f"round {number} of this task is not settled; {reader.task.round.number} is running")
    return {"task": online.task.address, "rounds": plain_rounds(audited)}, bool(audited) and _is_ok(audited)


def _verify_bundle(
    path: Path, block_hash: str | None, task: str | None, number: int | None, limits: Limits
) -> tuple[dict[str, object], bool]:
    from chainfl.workflows.bundle import verify_bundle

    trusted = _parse_hash(path, block_hash)
    about = parse_address(task) if task is not None else None
    done = verify_bundle(path, trusted, about, number, limits)
    metrics: dict[str, object] = {
        "task": hex_of(done.subject.task),
        "rounds": plain_rounds(done.rounds),
        "bundle": plain_bundle(path, done),
    }
    return metrics, bool(done.rounds) and _is_ok(done.rounds)


def _parse_hash(path: Path, text: str | None) -> bytes:
    """The hash that is trusted; without one, where to look it up."""
    from chainfl.audit.bundle import open_bundle

    if text is None:
        with open_bundle(path) as bundle:
            subject = bundle.subject
        raise InputError(
            "--block-hash is missing: a bundle proves nothing by itself; look up the hash of block "
            f"{subject.block} of chain {subject.chain} at a source that you trust"
        )
    return parse_hex(text, 32, "a block's hash", "--block-hash")


def _is_ok(audited: "Sequence[AuditedRound]") -> bool:
    return all(one.verdict.value == "ok" for one in audited)


# Challenge


def _challenge(
    online: _Online, number: int | None, key: tuple[Path, Path | None] | None
) -> tuple[dict[str, object], bool]:
    """Redo the standing proposal, and try or send the proof of a lie; a settled round is past that."""
    from chainfl.chain.ledger import ChainLedger
    from chainfl.store.address import open_store
    from chainfl.types import Phase
    from chainfl.workflows.audit import audit_round, played_rounds
    from chainfl.workflows.challenge import challenge_standing, past_challenge

    connection = online.task.connect()
    reader = online.task.open_reader(connection)
    store = open_store(online.store)
    played = {one.number: one for one in played_rounds(reader)}
    task = reader.task
    wanted = task.round.number if number is None else number
    if wanted > task.round.number:
        raise InputError(f"round {wanted} of this task has not begun; {task.round.number} is running")
    one = played.get(wanted)

    # A settled round is audited all the same: what was wrong is shown, though nothing can be sent any more.
    settled = one is not None and one.ended is not None
    stands = settled or task.round.phase is Phase.CHALLENGE
    audited = [audit_round(one, store, reader.mix_hash, online.limits)] if one is not None and stands else []
    if settled:
        done = past_challenge(audited[0])
    else:
        ledger = None
        if key is not None:
            sender = open_sender(connection, *key)
            ledger = ChainLedger(connection.w3, sender, reader, parse_address(online.task.address))
        done = challenge_standing(connection.w3, task, store, ledger)
    answer = {"state": done.state, "message": done.message, "plan": plain_plan(done.plan)}
    return {
        "task": online.task.address,
        "rounds": plain_rounds(audited),
        "challenge": answer,
    }, _is_ok(audited)


def _one_of(number: int | None, every: bool) -> None:
    if number is not None and every:
        raise InputError("--round and --all: give one of them")
