"""Deployment: resumes after a crash at any step, refuses the wrong chain, works on a testnet's terms and on geth."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from eth_abi.abi import decode as abi_decode
from eth_account import Account
from web3 import Web3

from chainfl.chain.deploy import FACTORY, cost_of_deployment, deploy, plan, read_deployment
from chainfl.chain.keys import LocalSigner
from chainfl.chain.reader import read_call
from chainfl.chain.rpc import open_rpc
from chainfl.chain.send import Sender, SendSettings, checksum
from chainfl.chain.verification import write_verification
from chainfl.codec.commitments import keccak256
from chainfl.errors import InputError, LedgerError
from chainfl.types import Address
from services.devnet import free_port, fund, start_anvil
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


class Dying(Sender):
    """A sender whose process dies before or after one of its transactions."""

    dies_at: int = 0
    after: bool = False
    sent: int = 0

    def send(self, to: Address | None, data: bytes, value: int = 0, gas: int | None = None):  # type: ignore[no-untyped-def]
        if self.sent == self.dies_at and not self.after:
            raise KeyboardInterrupt
        receipt = super().send(to, data, value, gas)
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


def test_a_file_of_another_chain_and_an_endpoint_of_another_chain_are_refused(
    tmp_path: Path, require: Require
) -> None:
    require("anvil")
    with anvil(tmp_path) as url:
        w3 = open_rpc(url)
        sender = sender_of(w3, 31337)
        fund(w3, sender.address, 100 * ETHER)
        with pytest.raises(LedgerError, match="serves chain 31337, but chain 1 is meant"):
            deploy(w3, sender, tmp_path / "x.json", 1, 1, list[str]().append)
        deploy(w3, sender, tmp_path / "x.json", 1, 31337, list[str]().append)
        with pytest.raises(InputError, match="name another file"):
            deploy(w3, sender, tmp_path / "x.json", 60, 31337, list[str]().append)


def test_a_testnet_with_slow_blocks_fees_and_confirmations(tmp_path: Path, require: Require) -> None:
    require("anvil")
    extra = (
        "--block-time",
        "1",
        "--base-fee",
        str(3 * 10**9),
        "--enable-tx-gas-limit",
    )
    with anvil(tmp_path, *extra, chain_id=SEPOLIA) as url:
        w3 = open_rpc(url)
        sender = sender_of(w3, SEPOLIA, confirmations=1)
        fund(w3, sender.address, 100 * ETHER)
        cost, before = cost_of_deployment(w3), sender.balance()

        done = deploy(w3, sender, tmp_path / f"{SEPOLIA}.json", 60, SEPOLIA, list[str]().append)

        spent_gas = sum(step.gas for step in done.steps.values())
        assert 0 < before - sender.balance() <= cost.wei
        assert 0.8 * spent_gas <= cost.gas <= 1.3 * spent_gas
        assert read_call(w3, FACTORY, done.factory_address, "phaseFloor") == (60,)


@contextmanager
def geth(program: Path, home: Path) -> Iterator[str]:
    """A private geth in dev mode on loopback."""
    port, authrpc = free_port(), free_port()
    arguments = [str(program), "--dev", "--dev.period", "1", "--http", "--http.addr", "127.0.0.1"]
    arguments += ["--http.port", str(port), "--nodiscover", "--maxpeers", "0", "--port", "0", "--ipcdisable"]
    arguments += ["--authrpc.addr", "127.0.0.1", "--authrpc.port", str(authrpc), "--datadir", str(home)]
    with (home / "geth.log").open("wb") as log:
        process = subprocess.Popen(arguments, stdout=log, stderr=log)
    url, until = f"http://127.0.0.1:{port}", time.monotonic() + 60
    try:
        w3 = open_rpc(url, timeout=2)
        while not w3.is_connected():
            assert process.poll() is None, (home / "geth.log").read_text()[-2000:]
            assert time.monotonic() < until, "geth does not answer"
        yield url
    finally:
        process.terminate()
        process.wait(20)


def test_geth_takes_the_contracts_too(tmp_path: Path, require: Require) -> None:
    program = require("geth")
    with geth(program, tmp_path) as url:
        w3 = open_rpc(url)
        chain_id, sender = w3.eth.chain_id, sender_of(w3, w3.eth.chain_id)
        rich = w3.eth.accounts[0]
        paid = w3.eth.send_transaction(
            {"from": rich, "to": checksum(sender.address), "value": w3.to_wei(50, "ether")}
        )
        w3.eth.wait_for_transaction_receipt(paid, timeout=30)

        done = deploy(w3, sender, tmp_path / "geth.json", 1, chain_id, list[str]().append)

        assert read_call(w3, FACTORY, done.factory_address, "taskCount") == (0,)


def test_the_input_for_explorers_names_every_contract_its_libraries_and_arguments(
    tmp_path: Path, require: Require
) -> None:
    require("anvil")
    with anvil(tmp_path) as url:
        w3 = open_rpc(url)
        sender = sender_of(w3, 31337)
        fund(w3, sender.address, 100 * ETHER)
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
    with anvil(tmp_path) as url:
        w3 = open_rpc(url)
        sender = sender_of(w3, 31337)
        fund(w3, sender.address, 100 * ETHER)
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
