"""What a sponsor does by command: create a task on terms of its own, look at it, end it, take back what is left."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from chainfl.chain.abi import as_address
from chainfl.chain.reader import read_config
from chainfl.chain.send import checksum
from chainfl.cli import run
from chainfl.codec.commitments import keccak256
from chainfl.types import WAD, Phase, Rule, Statistic
from tests.integration.chain import Devchain, open_task
from tests.protocol.scene import ETHER


@dataclass(slots=True)
class Sponsor:
    """An account that acts by command."""

    chain: Devchain
    folder: Path
    capsys: pytest.CaptureFixture[str]

    def does(self, *words: str, key: str = "sponsor", code: int = 0) -> dict[str, Any]:
        """Run `chainfl task …` with a key; its JSON."""
        named = ["--rpc-url", self.chain.url, "--json"]
        if words[0] in ("create", "list"):
            named += ["--factory", self.chain.deployment.factory]
        if words[0] in ("create", "abandon"):
            named += ["--keystore", str(self.folder / f"{key}.json")]
            named += ["--password-file", str(self.folder / "password")]
        if words[0] == "create":
            named += ["--store", f"dir:{self.folder / 'store'}"]
        self.capsys.readouterr()
        assert run(["task", *words, *named]) == code
        answer: dict[str, dict[str, Any]] = json.loads(self.capsys.readouterr().out)
        return answer["metrics"] if code == 0 else answer["error"]


@pytest.fixture
def sponsor(chain: Devchain, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Sponsor:
    (tmp_path / "password").write_text("secret\n")
    for name in ("sponsor", "stranger"):
        locked = Account.encrypt(keccak256(name.encode()), "secret", kdf="pbkdf2", iterations=2)
        (tmp_path / f"{name}.json").write_text(json.dumps(locked))
        chain.give(chain.sender(name).address)
    return Sponsor(chain, tmp_path, capsys)


def test_terms_given_by_command_are_the_tasks(sponsor: Sponsor) -> None:
    made = sponsor.does(
        *("create", "--escrow", "1.5", "--rule", "softmax:beta=4,mean=1,unique=0", "--rounds", "10"),
        *("--committee-size", "5", "--target", "0.05", "--workers-part", "0.5", "--committee-part", "0.25"),
        *("--caller-fee", "1000wei", "--max-samples", "500", "--burn-part", "0.625", "--dev-cap", "2"),
    )
    config = read_config(sponsor.chain.w3, as_address(made["task"]))

    assert (config.rule, config.statistic, config.beta) == (Rule.SOFTMAX, Statistic.MEAN, 4 * WAD)
    assert (config.rounds, config.committee_size, config.unique_roots) == (10, 5, False)
    assert (config.target, config.max_samples, config.dev_cap) == (WAD // 20, 500, 2 * WAD)
    assert (config.workers_part, config.committee_part) == (WAD // 2, WAD // 4)
    assert (config.caller_fee, config.burn_part, config.finder_part) == (1000, WAD * 5 // 8, WAD // 5)
    listed = sponsor.does("list")["tasks"]
    assert [one["rule"] for one in listed if one["task"] == made["task"]] == ["softmax"]


def test_a_dry_run_tells_costs_and_terms_and_neither_stores_nor_sends(sponsor: Sponsor) -> None:
    before = sponsor.does("list")["tasks"]
    balance = sponsor.chain.w3.eth.get_balance(checksum(sponsor.chain.sender("sponsor").address))

    told = sponsor.does("create", "--escrow", "1", "--rounds", "7", "--rule", "krum:f=1", "--dry-run")
    made = sponsor.does("create", "--escrow", "1", "--rounds", "7", "--rule", "krum:f=1")
    shown = sponsor.does("show", made["task"], "--store", f"dir:{sponsor.folder / 'store'}")

    assert told["terms"] == shown["terms"]
    assert (told["terms"]["rule"], told["terms"]["rounds"]) == ("krum", 7)
    assert told["manifest"] == shown["manifest"]
    assert told["manifest"]["model"] == "mnist-mlp-small"
    assert int(told["balance_wei"]) == balance
    assert abs(told["gas_estimate"] - made["gas"]) < made["gas"] // 10
    assert len(sponsor.does("list")["tasks"]) == len(before) + 1


def test_a_dry_run_of_an_account_that_cannot_pay_says_so(sponsor: Sponsor) -> None:
    named = ["--factory", sponsor.chain.deployment.factory, "--rpc-url", sponsor.chain.url, "--dry-run"]
    named += [
        "--keystore",
        str(sponsor.folder / "sponsor.json"),
        "--store",
        f"dir:{sponsor.folder / 'store'}",
    ]

    sponsor.capsys.readouterr()
    assert run(["task", "create", "--escrow", "99999999", "--rounds", "999999999", *named]) == 1

    said = sponsor.capsys.readouterr().out
    assert said.endswith("the account cannot pay for it: fund it first\n")
    assert not (sponsor.folder / "store").exists() or not list((sponsor.folder / "store").rglob("*.bin"))


def test_a_task_says_what_it_trains_and_who_must_enrol(sponsor: Sponsor) -> None:
    made = sponsor.does("create", "--escrow", "1")
    shown = sponsor.does("show", made["task"])

    assert (shown["enrolled"], shown["needed"]) == (0, 7)
    assert shown["next_step"].startswith(
        "7 more must enrol with 1.000000 ETH or more each: chainfl stake add"
    )
    assert shown["manifest"] == "unknown: give --store, where the manifest is stored"

    sponsor.capsys.readouterr()
    run(
        [
            "task",
            "show",
            made["task"],
            "--rpc-url",
            sponsor.chain.url,
            "--store",
            f"dir:{sponsor.folder / 'store'}",
        ]
    )
    said = sponsor.capsys.readouterr().out
    assert "mnist-mlp-small on mnist-embedded, learning rate 0.1" in said
    assert "burn part" in said
    assert shown["terms"]["manifest"] in said  # no name is broken, however narrow the terminal


def test_numbers_that_are_none_are_refused_by_their_option(sponsor: Sponsor) -> None:
    for text in ("much", "-0.1", "0.0000000000000000001", "nan", "inf"):
        refused = sponsor.does("create", "--escrow", "1", f"--target={text}", code=2)

        assert "--target" in refused["message"]


def test_a_task_is_ended_by_its_sponsor_alone_who_gets_back_what_nobody_earned(sponsor: Sponsor) -> None:
    made = sponsor.does("create", "--escrow", "1")
    shown = sponsor.does("show", made["task"])

    refused = sponsor.does("abandon", made["task"], key="stranger", code=3)
    ended = sponsor.does("abandon", made["task"])
    again = sponsor.does("abandon", made["task"])

    assert (shown["round"], shown["phase"]) == (1, "Draw")
    assert "sponsor" in refused["message"]
    assert (ended["phase"], ended["refunded_wei"]) == ("Ended", str(ETHER))
    assert again["refunded_wei"] == "0"


def test_a_task_in_a_round_ends_with_it_and_the_work_is_paid_first(sponsor: Sponsor) -> None:
    task = open_task(sponsor.chain, Rule.MEAN, rounds=3)
    next(iter(task.people.values())).ledger.draw()
    named = checksum(task.address)

    asked = sponsor.does("abandon", named)
    twice = sponsor.does("abandon", named)
    task.live(2)
    left = task.reader().refresh().escrow
    ended = sponsor.does("abandon", named)

    assert [(one["phase"], one["refunded_wei"]) for one in (asked, twice)] == [("Train", "0")] * 2
    assert (ended["phase"], ended["refunded_wei"]) == ("Ended", str(left))
    assert 0 < left < ETHER // 2
    assert task.reader().refresh().round.phase is Phase.ENDED
