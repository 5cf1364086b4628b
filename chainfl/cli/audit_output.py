"""What the audit commands answer: plain values for machines, tables for people."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chainfl.cli.output import print_table
from chainfl.codec.text import ETHER, hex_of
from chainfl.report import Report

if TYPE_CHECKING:
    from chainfl.workflows.audit import AuditedRound
    from chainfl.workflows.bundle import BundleAudit
    from chainfl.workflows.challenge import ChallengePlan

# For machines


def plain_rounds(audited: "Sequence[AuditedRound]") -> list[dict[str, object]]:
    """Rounds with their findings."""
    return [
        {
            "round": one.played.number,
            "outcome": one.played.outcome.name.lower(),
            "verdict": one.verdict.value,
            "findings": [asdict(finding) | {"verdict": finding.verdict.value} for finding in one.findings],
        }
        for one in audited
    ]


def plain_bundle(path: Path, done: "BundleAudit") -> dict[str, object]:
    """What a bundle rests on, and the contracts that it proves."""
    subject = done.subject
    return {
        "file": str(path),
        "chain": subject.chain,
        "block": {"number": subject.block, "hash": hex_of(subject.hash)},
        "created": subject.created,
        "contracts": {name: hex_of(at) for name, at in done.contracts.addresses.items()},
    }


def plain_plan(plan: "ChallengePlan | None") -> dict[str, object] | None:
    """A challenge; amounts are text, for they do not fit the numbers of JSON."""
    if plan is None:
        return None

    lie = plan.lie
    return {
        "round": lie.round,
        "attempt": lie.attempt,
        "position": lie.position,
        "expected": lie.expected,
        "found": lie.found,
        "transaction": hex_of(plan.transaction),
        "note_gas": plan.note_gas,
        "proof_gas": plan.proof_gas,
        "cost_wei": str(plan.cost),
        "reward_wei": str(plan.reward),
        "to_escrow_wei": str(plan.to_escrow),
        "burned_wei": str(plan.burned),
        "guilty": [
            {
                "id": one.id,
                "address": hex_of(one.address),
                "stake_wei": str(one.stake),
                "slashed_wei": str(one.slashed),
            }
            for one in plan.guilty
        ],
    }


# For people


def show_audit(answer: Report) -> None:
    """One line a round with the checks that failed, after what a bundle proves and before what a challenge would do."""
    metrics: Any = answer.metrics
    if "bundle" in metrics:
        _show_bundle(metrics["bundle"])

    for one in metrics["rounds"]:
        click.echo(
            f"round {one['round']} ({one['outcome']}): {one['verdict']}, {len(one['findings'])} checks"
        )
        _show_failures(one["findings"])
    if metrics["rounds"] or "challenge" not in metrics:
        click.echo(_total(metrics["rounds"]))
    if "challenge" in metrics:
        _show_challenge(metrics["challenge"])


def _show_failures(findings: list[dict[str, Any]]) -> None:
    """The checks that did not pass, with what was expected and what was found."""
    bad = [f for f in findings if f["verdict"] != "ok"]
    if bad:
        rows = [
            (str(f["number"]), f["check"], f["verdict"], _short(f["expected"]), _short(f["found"]))
            for f in bad
        ]
        print_table(("", "check", "verdict", "expected", "found"), rows)


def _total(rounds: list[dict[str, Any]]) -> str:
    """One line for all rounds; without a round nothing was shown, which is no success."""
    if not rounds:
        return "no round of this task is settled yet: nothing was audited; chainfl task show says where it stands"
    counted = Counter(one["verdict"] for one in rounds)
    by_verdict = ", ".join(
        f"{count} {verdict}" for verdict, count in sorted(counted.items(), key=lambda c: c[0] != "ok")
    )
    checks = sum(len(one["findings"]) for one in rounds)
    noun = "round" if len(rounds) == 1 else "rounds"
    return f"total: {len(rounds)} {noun}, {checks} checks: {by_verdict}"


def _show_bundle(bundle: dict[str, Any]) -> None:
    """Which contracts were proven: a reader who trusts the block still has to check that these are the ones meant."""
    block = bundle["block"]
    click.echo(f"chain {bundle['chain']}, block {block['number']} {block['hash']}")
    rows = [
        (name, at)
        for name, at in bundle["contracts"].items()
        if name in ("task", "TaskFactory", "StakeRegistry")
    ]
    print_table(("contract", "address"), rows)


def _show_challenge(challenge: dict[str, Any]) -> None:
    plan = challenge["plan"]
    if plan is not None:
        rows = [
            (str(g["id"]), g["address"], _ether(g["stake_wei"]), _ether(g["slashed_wei"]))
            for g in plan["guilty"]
        ]
        print_table(("id", "convicted", "stake", "slashed"), rows)
        click.echo(
            f"gas: note {plan['note_gas']:,}, proof {plan['proof_gas']:,}; cost about {_ether(plan['cost_wei'])}"
        )
        click.echo(
            f"finder's part {_ether(plan['reward_wei'])}, to the task {_ether(plan['to_escrow_wei'])}, "
            f"burned {_ether(plan['burned_wei'])}"
        )

    click.echo(challenge["message"])
    if challenge["state"] == "dry-run":
        click.echo("send it with: --challenge --send --keystore key.json")


def show_export(answer: Report) -> None:
    """What a bundle holds, and how to check it."""
    m: Any = answer.metrics
    click.echo(f"{m['file']}: {m['bytes']:,} bytes, rounds {', '.join(map(str, m['rounds'])) or 'none'}")
    click.echo(f"{m['headers']} headers, receipts of {m['receipts']} blocks, {m['blobs']} blobs")
    if m["missing"]:
        click.echo(
            f"{len(m['missing'])} blobs were not found; the audit names what cannot be checked without them"
        )
    click.echo(f"rests on block {m['block']['number']} {m['block']['hash']}")
    click.echo(
        f"check it with: chainfl audit verify --bundle {m['file']} --block-hash <that hash, from a source you trust>"
    )


def _short(text: str) -> str:
    return text if len(text) <= 120 else text[:117] + "…"


def _ether(wei: str) -> str:
    whole, rest = divmod(int(wei), ETHER)
    digits = f"{rest:018d}".rstrip("0")
    return f"{whole}.{digits} ETH" if digits else f"{whole} ETH"
