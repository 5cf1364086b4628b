"""What `chainfl task show` and `task create --dry-run` print: the terms, what is trained, who is waited for."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from chainfl.cli.output import in_ether, in_utc, print_table
from chainfl.codec.text import hex_of
from chainfl.errors import ChainflError
from chainfl.protocol.term_table import TERMS, Term, Unit
from chainfl.report import Report
from chainfl.types import WAD, Id, Phase, TaskConfig

if TYPE_CHECKING:
    from chainfl.codec.manifest import AnyManifest
    from chainfl.ports import BlobStore
    from chainfl.protocol.state import Task

_TRAINED = ("model", "dataset", "learning_rate", "batch", "local_epochs", "seed", "score_samples")

# For machines


def plain_terms(config: TaskConfig) -> dict[str, object]:
    """Every term by its name; names and digests as text, amounts and fractions too, for JSON numbers are too small."""
    return {term.name: _plain(term, getattr(config, term.name)) for term in TERMS}


def _plain(term: Term, value: Any) -> object:
    if term.unit is Unit.DIGEST:
        return hex_of(value)
    if term.unit is Unit.NAME:
        return getattr(value, "name_text", None) or value.name.lower()
    if term.unit is Unit.FLAG:
        return bool(value)
    return str(value) if term.unit in (Unit.WEI, Unit.WAD) else int(value)


def plain_manifest(manifest: "AnyManifest") -> dict[str, object]:
    """What is trained and how: an app by name and digest, or names that everybody has installed.

    The learning rate is a fraction of 10^18, as text.
    """
    plain = asdict(manifest)
    if "app" in plain:
        return {name: plain[name] for name in ("app", "digest", "seed", "score_samples")}
    return {name: str(plain[name]) if name == "learning_rate" else plain[name] for name in _TRAINED}


def read_manifest(store: "BlobStore", config: TaskConfig) -> dict[str, object] | str:
    """The task's manifest, or in words why it cannot be had."""
    from chainfl.blobs import get_manifest

    try:
        return plain_manifest(get_manifest(store, config.manifest))
    except ChainflError as error:
        return f"unknown: {error}"


def waited_for(task: "Task") -> list[Id]:
    """Ids of those whose act would move the round on: where nobody in particular is meant, the list is empty."""
    from chainfl.protocol.views import may_score, voters

    round_ = task.round
    if round_.phase is Phase.REVEAL:
        return [id_ for id_, update in round_.updates.items() if update.revealed is None]
    if round_.phase is Phase.SCORE:
        return [id_ for id_ in round_.committee if may_score(task, id_) and id_ not in round_.scores]
    if round_.phase is Phase.TALLY:
        return [id_ for id_, scores in round_.scores.items() if scores.revealed is None]
    if round_.phase is Phase.PROPOSE:
        return [round_.proposer]
    if round_.phase is Phase.CHALLENGE:
        return [id_ for id_ in voters(round_, round_.proposer) if id_ not in round_.votes]
    return []


def next_step(task: "Task") -> str:
    """One sentence: what the task waits for, and what to do about it."""
    from chainfl.protocol.terms import needed_accounts
    from chainfl.protocol.views import staked_internals

    round_ = task.round
    if round_.phase is Phase.ENDED:
        return (
            "the task has ended: pull what was earned with chainfl stake claim; its sponsor takes back the rest "
            "with chainfl task abandon"
        )

    members = len(staked_internals(task))
    absent = task.config.min_internals - members
    if round_.phase is Phase.DRAW and absent > 0:
        return f"{absent} more of the internals on its list must enrol: chainfl node run --enrol"
    missing = needed_accounts(task.config, members) - task.eligible
    if round_.phase is Phase.DRAW and missing > 0:
        least = in_ether(task.config.min_stake)
        return (
            f"{missing} more must enrol with {least} or more each: chainfl stake add AMOUNT, "
            "then chainfl node run --enrol"
        )
    ids = ", ".join(map(str, waited_for(task)))
    return {
        Phase.DRAW: "the draw is seeded by a block to come; nodes open and close it by themselves",
        Phase.TRAIN: f"workers train: {len(round_.updates)} of {round_.expected} have committed",
        Phase.REVEAL: f"workers open their commitments; still closed: {ids or 'none'}",
        Phase.SCORE: f"validators score; still to commit: {ids or 'none'}",
        Phase.TALLY: f"validators open their scores; still closed: {ids or 'none'}",
        Phase.PROPOSE: f"account {ids} proposes the next model",
        Phase.CHALLENGE: f"anybody can prove a lie: chainfl audit verify --challenge; still to vote: {ids or 'none'}",
    }[round_.phase]


# For people


def show_task(answer: Report) -> None:
    """Where the task stands, what it trains, its terms, and what it waits for."""
    metrics: Any = answer.metrics
    for name in ("task", "sponsor"):
        click.echo(f"{name:<12} {metrics[name]}")
    click.echo(f"{'trains':<12} {_trained(metrics['manifest'])}")

    # A task that has ended waits for nothing, and only proposals have attempts.
    is_open = metrics["phase"] != Phase.ENDED.name.title()
    until = _until(metrics["deadline"]) if is_open else ""
    click.echo(f"{'round':<12} {metrics['round']} of {metrics['rounds']}: {metrics['phase']}{until}")
    if metrics["attempt"] and is_open:
        click.echo(f"{'attempt':<12} {attempt_text(metrics['attempt'])}")
    click.echo(f"{'enrolled':<12} {metrics['enrolled']} with enough stake; a draw needs {metrics['needed']}")

    click.echo(f"{'head root':<12} 0x{metrics['head_root']}")
    click.echo(
        f"{'escrow':<12} {in_ether(metrics['escrow_wei'])}, and {in_ether(metrics['owed_wei'])} earned but not pulled"
    )
    show_terms(metrics["terms"])

    click.echo(f"next: {metrics['next_step']}")


def attempt_text(attempt: int) -> str:
    """Whose turn it is to propose, counted from 1, and why it is not the first proposer's."""
    before = "proposer was" if attempt == 1 else f"{attempt} proposers were"
    return f"{attempt + 1}: the first {before} silent, outvoted or convicted, so the next one proposes"


def show_terms(terms: Mapping[str, object]) -> None:
    """Every term: digests in a line each, for they are as wide as a terminal, and a table of the others."""
    digests = [term for term in TERMS if term.unit is Unit.DIGEST]
    for term in digests:
        click.echo(f"{_spaced(term):<15} {terms[term.name]}")
        click.echo(f"{'':<15} {term.help}")

    others = [term for term in TERMS if term not in digests]
    rows = [(_spaced(term), _shown(term, terms[term.name]), term.help) for term in others]
    print_table(("term", "value", "what it is"), rows)


def _spaced(term: Term) -> str:
    return term.name.replace("_", " ")


def _shown(term: Term, value: object) -> str:
    if term.unit is Unit.WEI:
        return in_ether(value)
    if term.unit is Unit.WAD:
        return f"{int(str(value)) / WAD:g}" if value != "0" or not term.usual else term.usual
    if term.unit is Unit.SECONDS:
        return f"{value} s"
    if term.unit is Unit.FLAG:
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _trained(manifest: Any) -> str:
    """What is trained in one line."""
    if isinstance(manifest, str):
        return manifest
    if "app" in manifest:
        return f"app {manifest['app']} ({manifest['digest']}), scored on {manifest['score_samples']} samples"
    rate = int(manifest["learning_rate"]) / WAD
    return (
        f"{manifest['model']} on {manifest['dataset']}, learning rate {rate:g}, batches of {manifest['batch']}, "
        f"passes {manifest['local_epochs']}, scored on {manifest['score_samples']} samples"
    )


def _until(deadline: int) -> str:
    if not deadline:
        return ""
    left = deadline - int(time.time())
    return f" until {in_utc(deadline)} ({f'in {left} s' if left > 0 else 'passed'})"
