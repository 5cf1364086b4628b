"""Deployment: resumes after a crash at any step, refuses the wrong chain, works on a testnet's terms and on geth."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from eth_abi.abi import decode as abi_decode
from eth_account import Account
from hexbytes import HexBytes
from web3 import Web3
from web3.types import RPCEndpoint, TxReceipt

from chainfl.artifacts import load
from chainfl.chain.deploy import (
    FACTORY,
    cost_of_deployment,
    deploy,
    plan,
    read_deployment,
    still_to_deploy,
)
from chainfl.chain.keys import LocalSigner, new_key
from chainfl.chain.reader import read_call
from chainfl.chain.rpc import open_rpc
from chainfl.chain.send import Sender, SendSettings, checksum
from chainfl.chain.verification import write_verification
from chainfl.cli import run
from chainfl.codec.commitments import keccak256
from chainfl.devnet.processes import fund, start_anvil
from chainfl.errors import InputError, LedgerError
from tests.protocol.scene import ETHER

Require = Callable[[str], Path]
SEPOLIA = 11155111
ROOT = Path(__file__).resolve().parents[2]
PUSH20 = 0x73


@contextmanager
def anvil(home: Path, *extra: str, chain_id: int = 31337) -> Iterator[str]:
    """An anvil of this test."""
    process, url = start_anvil(home, 1, extra, chain_id)
    try:
        yield url
    finally:
        process.terminate()
        process.wait(10)


def sender_of(w3: Web3, chain_id: int, confirmations: int = 0) -> Sender:
    signer = LocalSigner(Account.from_key(keccak256(b"deployer")))
    return Sender(w3, signer, chain_id, SendSettings(confirmations, replace_after=5))


@contextmanager
def funded(home: Path) -> Iterator[tuple[Web3, Sender]]:
    """An anvil of this test and an account with 100 ETH on it."""
    with anvil(home) as url:
        w3 = open_rpc(url)
        sender = sender_of(w3, 31337)
        fund(w3, sender.address, 100 * ETHER)
        yield w3, sender


class Dying(Sender):
    """A sender whose process dies before or after one of its transactions."""

    dies_at: int = 0
    after: bool = False
    sent: int = 0

    def send(self, *values: Any, **named: Any) -> TxReceipt:
        if self.sent == self.dies_at and not self.after:
            raise KeyboardInterrupt
        receipt = super().send(*values, **named)
        self.sent += 1
        if self.sent - 1 == self.dies_at and self.after:
            raise KeyboardInterrupt
        return receipt


def test_a_deployment_that_died_is_taken_up_where_it_stopped(tmp_path: Path, require: Require) -> None:
    require("anvil")
    file, told = tmp_path / "31337.json", list[str]()
    with anvil(tmp_path) as url:
        w3 = open_rpc(url)
        fund(w3, sender_of(w3, 31337).address, 100 * ETHER)
        signer = LocalSigner(Account.from_key(keccak256(b"deployer")))
        for step in range(len(plan())):
            for after in (False, True):
                dying = Dying(w3, signer, 31337)
                dying.dies_at, dying.after = 0, after
                if step < len(plan()) - 1 or not after:
                    with pytest.raises(KeyboardInterrupt):
                        deploy(w3, dying, file, 1, 31337, told.append)

        done = deploy(w3, sender_of(w3, 31337), file, 1, 31337, told.append)
        again = deploy(w3, sender_of(w3, 31337), file, 1, 31337, told.append)

        assert again == done == read_deployment(file)
        assert w3.eth.get_transaction_count(checksum(signer.address)) == len(plan())
        assert all(w3.eth.get_code(w3.to_checksum_address(step.address)) for step in done.steps.values())


class DyingUnheard(Sender):
    """A sender whose process dies once a transaction is out, before it is mined."""

    def _broadcast(self, *values: Any, **named: Any) -> HexBytes:
        super()._broadcast(*values, **named)
        raise KeyboardInterrupt


def test_a_transaction_that_a_dead_run_has_sent_is_waited_for_and_not_sent_again(
    tmp_path: Path, require: Require
) -> None:
    require("anvil")
    file, told = tmp_path / "31337.json", list[str]()
    with anvil(tmp_path, "--block-time", "2") as url:
        w3 = open_rpc(url)
        signer = LocalSigner(Account.from_key(keccak256(b"deployer")))
        fund(w3, signer.address, 100 * ETHER)
        for _ in plan():
            with pytest.raises(KeyboardInterrupt):
                deploy(w3, DyingUnheard(w3, signer, 31337), file, 1, 31337, told.append)

        done = deploy(w3, sender_of(w3, 31337), file, 1, 31337, told.append)

        assert w3.eth.get_transaction_count(checksum(signer.address)) == len(plan())
        assert [line for line in told if "sent by an earlier run, not mined yet" in line]
        for name, step in done.steps.items():
            assert not w3.eth.get_code(w3.to_checksum_address(step.address), max(step.block - 1, 0)), name
        assert 0 < done.block <= w3.eth.block_number


def test_another_transaction_of_the_deployer_that_is_on_its_way_is_no_obstacle(
    tmp_path: Path, require: Require
) -> None:
    require("anvil")
    with anvil(tmp_path, "--block-time", "1") as url:
        w3 = open_rpc(url)
        signer = LocalSigner(Account.from_key(keccak256(b"deployer")))
        fund(w3, signer.address, 100 * ETHER)
        with pytest.raises(KeyboardInterrupt):
            DyingUnheard(w3, signer, 31337).send(signer.address, b"")

        done = deploy(w3, sender_of(w3, 31337), tmp_path / "31337.json", 1, 31337, list[str]().append)

        assert w3.eth.get_transaction_count(checksum(signer.address)) == len(plan()) + 1
        assert still_to_deploy(w3, done) == []


def test_what_a_deep_reorg_takes_away_is_deployed_anew_with_all_that_links_to_it(
    tmp_path: Path, require: Require
) -> None:
    require("anvil")
    file, told = tmp_path / "31337.json", list[str]()
    with funded(tmp_path) as (w3, sender):

        def on_progress(line: str) -> None:
            told.append(line)
            if len(told) == len(plan()) - 1:  # the last library: it and the one before are gone
                reorg(w3, 2)

        with pytest.raises(LedgerError, match="is gone: the chain has reorganised; run again"):
            deploy(w3, sender, file, 1, 31337, on_progress)
        done = deploy(w3, sender, file, 1, 31337, told.append)

        lengths = {name: len(load(name).deployed_bytecode) for name in plan()}
        assert len(set(lengths.values())) == len(plan())
        assert still_to_deploy(w3, done) == []
        code = bytes(w3.eth.get_code(w3.to_checksum_address(done.implementation)))
        assert all(bytes.fromhex(done.steps[name].address[2:]) in code for name in load("TrainingTask").links)


def reorg(w3: Web3, depth: int) -> None:
    """The newest blocks are replaced by empty ones."""
    answer = w3.provider.make_request("anvil_reorg", [depth, []])  # type: ignore[arg-type]
    assert "error" not in answer, answer


def test_a_file_of_another_chain_and_an_endpoint_of_another_chain_are_refused(
    tmp_path: Path, require: Require
) -> None:
    require("anvil")
    with funded(tmp_path) as (w3, sender):
        with pytest.raises(LedgerError, match="serves chain 31337, but chain 1 is meant"):
            deploy(w3, sender, tmp_path / "x.json", 1, 1, list[str]().append)
        deploy(w3, sender, tmp_path / "x.json", 1, 31337, list[str]().append)
        with pytest.raises(InputError, match="name another folder with --deployments"):
            deploy(w3, sender, tmp_path / "x.json", 60, 31337, list[str]().append)


TESTNET = ("--block-time", "2", "--base-fee", str(3 * 10**9), "--enable-tx-gas-limit")


@pytest.mark.slow
def test_a_testnet_with_slow_blocks_fees_reorgs_and_confirmations(tmp_path: Path, require: Require) -> None:
    require("anvil")
    with anvil(tmp_path, *TESTNET, chain_id=SEPOLIA) as url:
        w3 = open_rpc(url)
        sender = sender_of(w3, SEPOLIA, confirmations=1)
        fund(w3, sender.address, 100 * ETHER)
        cost, before, told = cost_of_deployment(w3), sender.balance(), list[str]()
        # A public chain has a past, in which its randomness moved.
        w3.provider.make_request(RPCEndpoint("anvil_mine"), [hex(8)])

        def on_progress(line: str) -> None:
            told.append(line)
            reorg(w3, 1)

        done = deploy(w3, sender, tmp_path / f"{SEPOLIA}.json", 60, SEPOLIA, on_progress)

        spent_gas = sum(step.gas for step in done.steps.values())
        assert len(told) == len(plan())
        assert still_to_deploy(w3, done) == []
        assert 0 < before - sender.balance() <= cost.wei
        assert 0.8 * spent_gas <= cost.gas <= 1.3 * spent_gas
        assert read_call(w3, FACTORY, done.factory_address, "phaseFloor") == (60,)


def test_a_chain_that_makes_blocks_on_demand_only_is_named_as_such(tmp_path: Path, require: Require) -> None:
    require("anvil")
    with anvil(tmp_path) as url:
        w3 = open_rpc(url)
        signer = LocalSigner(Account.from_key(keccak256(b"deployer")))
        fund(w3, signer.address, ETHER)
        sender = Sender(w3, signer, 31337, SendSettings(1, replace_after=0.2, give_up_after=0.5))

        with pytest.raises(
            LedgerError, match="was mined, but 1 blocks did not follow within 0 s: is this chain"
        ):
            sender.send(signer.address, b"")


def test_the_command_says_what_it_costs_refuses_another_chain_and_sends_only_what_is_missing(
    tmp_path: Path, require: Require, capsys: pytest.CaptureFixture[str]
) -> None:
    require("anvil")
    key, password = tmp_path / "key.json", tmp_path / "password"
    password.write_text("secret\n")
    account = new_key(key, "secret", iterations=2)
    with anvil(tmp_path) as url:
        w3 = open_rpc(url)
        arguments = ["deploy", "--rpc-url", url, "--keystore", str(key), "--phase-floor", "1", "--json"]
        arguments += ["--deployments", str(tmp_path / "deployments")]
        opened = [*arguments, "--password-file", str(password)]

        def answer(words: list[str], code: int) -> dict[str, Any]:
            assert run(words) == code
            found: dict[str, Any] = json.loads(capsys.readouterr().out)
            return found

        poor = answer([*arguments, "--dry-run"], 1)
        refused = answer([*opened], 5)
        fund(w3, account, ETHER)
        planned = answer([*arguments, "--dry-run"], 0)
        wrong = answer([*opened, "--chain-id", "1"], 5)
        nothing_yet = w3.eth.get_transaction_count(checksum(account))
        done = answer([*opened, "--chain-id", "31337"], 0)
        spent = ETHER - w3.eth.get_balance(checksum(account))
        fund(w3, account, 1)
        again = answer([*opened, "--chain-id", "31337"], 0)
        other = [word if word != "1" else "60" for word in arguments]
        tried = answer([*other, "--dry-run"], 2)

        assert poor["ok"] is False
        assert "0.000000 ETH" in refused["error"]["message"]
        assert "serves chain 31337, but chain 1 is meant" in wrong["error"]["message"]
        assert nothing_yet == 0
        assert planned["metrics"]["transactions"] == len(plan())
        assert 0 < spent <= int(planned["metrics"]["estimate_wei"])
        assert Path(done["metrics"]["file"]) == tmp_path / "deployments" / "31337.json"
        assert again["metrics"]["factory"] == done["metrics"]["factory"]
        assert "floor 1 s" in tried["error"]["message"]
        assert "this is chain 31337" in tried["error"]["message"]
        assert (again["metrics"]["transactions"], again["metrics"]["estimate_wei"]) == (0, "0")


def test_the_input_for_explorers_names_every_contract_its_libraries_and_arguments(
    tmp_path: Path, require: Require
) -> None:
    require("anvil")
    with funded(tmp_path) as (w3, sender):
        done = deploy(w3, sender, tmp_path / "31337.json", 7, 31337, list[str]().append)

        told = json.loads(write_verification(done, tmp_path / "sources").read_text())

        assert told["chain_id"] == 31337
        assert sorted(told["contracts"]) == sorted([*plan(), "StakeRegistry", "TrainingTask"])
        assert all(w3.eth.get_code(one["address"]) for one in told["contracts"].values())
        factory = told["contracts"][FACTORY]
        assert abi_decode(["uint32"], bytes.fromhex(factory["constructor_arguments"])) == (7,)
        assert factory["libraries"] == {name: done.steps[name].address for name in plan()[:-1]}
        for name, one in told["contracts"].items():
            source = json.loads((tmp_path / "sources" / one["input"]).read_text())
            path, _, contract = one["contract"].partition(":")
            assert contract == name
            assert source["sources"][path]["content"] == (ROOT / "contracts" / path).read_text()
            assert not [each for each in source["sources"] if each.startswith("test/")]


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_what_the_input_compiles_to_is_the_code_on_the_chain(tmp_path: Path, require: Require) -> None:
    require("anvil")
    compiler = require("solc")
    with funded(tmp_path) as (w3, sender):
        done = deploy(w3, sender, tmp_path / "31337.json", 7, 31337, list[str]().append)
        told = json.loads(write_verification(done, tmp_path / "sources").read_text())

        for name, one in told["contracts"].items():
            text = (tmp_path / "sources" / one["input"]).read_text()
            output = subprocess.run(
                [compiler, "--standard-json"], input=text, capture_output=True, text=True, check=True
            )
            path, _, _ = one["contract"].partition(":")
            compiled = json.loads(output.stdout)["contracts"][path][name]["evm"]["deployedBytecode"]
            found = w3.eth.get_code(one["address"])
            assert masked(found, compiled) == masked(bytes.fromhex(compiled["object"]), compiled), name


def masked(code: bytes, compiled: dict[str, Any]) -> bytes:
    """Runtime code without immutables, and without the address that a library's code begins with."""
    plain = bytearray(code)
    for places in compiled["immutableReferences"].values():
        for place in places:
            plain[place["start"] : place["start"] + place["length"]] = bytes(place["length"])
    if plain[0] == PUSH20 and plain[21:23] == b"\x30\x14":
        plain[1:21] = bytes(20)
    return bytes(plain)
