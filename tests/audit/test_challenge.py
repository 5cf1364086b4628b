"""`chainfl audit verify --challenge`: what proving a lie would do, and doing it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from chainfl.chain.contracts import bonded_stake, free_stake
from chainfl.chain.keys import address_of
from chainfl.cli.app import run
from chainfl.protocol.events import Convicted, LieProven
from chainfl.workflows.challenge import challenge_standing
from tests.audit.scene import LIE_AT, History
from tests.protocol.scene import ETHER

SCHEMA = json.loads(
    (Path(__file__).resolve().parents[2] / "docs" / "schemas" / "audit-verify.json").read_text()
)


def ask(played: History, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, Any]]:
    chain = ["--rpc-url", played.chain.url, "--task", played.address, "--store", played.store]
    code = run(["audit", "verify", *chain, "--challenge", "--json", *more])
    told = json.loads(capsys.readouterr().out)["metrics"]
    Draft202012Validator(SCHEMA).validate(told)
    return code, told


def show(played: History, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    chain = ["--rpc-url", played.chain.url, "--task", played.address, "--store", played.store]
    code = run(["audit", "verify", *chain, "--challenge", *more])
    told = capsys.readouterr()
    return code, " ".join((told.out + told.err).split())


def amounts(plan: dict[str, Any], names: Sequence[str]) -> list[int]:
    return [int(plan[f"{name}_wei"]) for name in names]


def test_a_dry_run_says_what_a_proof_would_do_and_sends_nothing(
    standing: History, capsys: pytest.CaptureFixture[str]
) -> None:
    before = standing.chain.w3.eth.block_number

    code, told = ask(standing, capsys)

    plan = told["challenge"]["plan"]
    assert code == 1
    assert [(one["round"], one["outcome"], one["verdict"]) for one in told["rounds"]] == [
        (3, "open", "mismatch")
    ]
    assert told["challenge"]["state"] == "dry-run"
    assert (plan["round"], plan["attempt"], plan["position"]) == (3, 1, LIE_AT)
    assert plan["found"] == plan["expected"] + 1
    assert len(plan["guilty"]) == 2
    assert {int(one["slashed_wei"]) for one in plan["guilty"]} == {ETHER // 2}
    assert amounts(plan, ("reward", "to_escrow", "burned")) == [2 * ETHER // 10, 3 * ETHER // 10, ETHER // 2]
    assert plan["note_gas"] > 21_000
    assert plan["proof_gas"] > 100_000
    assert int(plan["cost_wei"]) > 0
    assert standing.chain.w3.eth.block_number == before


def test_people_see_gas_cost_reward_and_who_is_slashed(
    standing: History, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = show(standing, capsys)

    assert code == 1
    assert f"round 3, attempt 1: parameter {LIE_AT} is" in told
    assert "nothing was sent" in told
    assert "finder's part 0.2 ETH, to the task 0.3 ETH, burned 0.5 ETH" in told


def test_a_settled_lie_is_too_late_and_a_settled_truth_needs_nothing(
    standing: History, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(standing, capsys, "--round", "2")[1].endswith(
        "round 2 is settled: what is wrong with it can no longer be challenged"
    )
    assert ask(standing, capsys, "--round", "2")[1]["challenge"]["state"] == "too-late"
    code, told = ask(standing, capsys, "--round", "1")
    assert (code, told["challenge"]["state"]) == (0, "nothing-stands")


def test_a_round_that_has_not_begun_and_a_missing_key_are_refused(
    standing: History, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(standing, capsys, "--round", "7") == (
        2,
        "error: round 7 of this task has not begun; 3 is running",
    )
    code, told = show(standing, capsys, "--send")
    assert code == 2
    assert told.startswith("error: --send needs --keystore")


def test_sending_convicts_pays_the_finder_and_leaves_nothing_to_challenge(
    standing: History, capsys: pytest.CaptureFixture[str]
) -> None:
    keystore, password = standing.keystore("finder")
    registry = standing.chain.deployment.registry_address
    key = ["--send", "--keystore", str(keystore), "--password-file", str(password)]

    code, told = ask(standing, capsys, *key)

    plan, reader = told["challenge"]["plan"], standing.task.reader()
    reader.refresh()
    proven = [logged.event for logged in reader.log if isinstance(logged.event, LieProven)]
    convicted = [logged.event for logged in reader.log if isinstance(logged.event, Convicted)]
    finder = address_of(keystore)
    assert (code, told["challenge"]["state"]) == (1, "sent")
    assert [(event.round, event.position, event.finder) for event in proven] == [(3, LIE_AT, finder)]
    assert [event.id for event in convicted] == [one["id"] for one in plan["guilty"]]
    assert sum(event.slashed for event in convicted) == sum(int(one["slashed_wei"]) for one in plan["guilty"])
    assert free_stake(standing.chain.w3, registry, finder) == int(plan["reward_wei"]) == 2 * ETHER // 10
    for one in plan["guilty"]:
        account = reader.task.by_id(one["id"]).address
        left = bonded_stake(standing.chain.w3, registry, standing.task.address, account)
        assert left == int(one["stake_wei"]) - int(one["slashed_wei"])
    assert show(standing, capsys) == (0, "round 3 is in Propose: there is no proposal to challenge")


def test_an_honest_proposal_has_no_lie(standing: History, capsys: pytest.CaptureFixture[str]) -> None:
    sent = challenge_standing(
        standing.chain.w3, standing.task.reader().refresh(), standing.blobs(), standing.finder()
    )
    assert sent.state == "sent"
    standing.propose_honestly()

    code, told = ask(standing, capsys)

    assert (code, told["challenge"]["state"], told["challenge"]["plan"]) == (0, "no-lie", None)


def test_a_model_that_nobody_has_cannot_be_proven_wrong(
    standing: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chain = ["--rpc-url", standing.chain.url, "--task", standing.address, "--store", f"dir:{tmp_path}"]

    code = run(["audit", "verify", *chain, "--challenge", "--json"])

    told = json.loads(capsys.readouterr().out)["metrics"]
    assert code == 1
    assert told["challenge"]["state"] == "not-provable"
    assert "is not in" in told["challenge"]["message"]
