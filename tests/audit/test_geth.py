"""Bundles of a chain that geth keeps: its headers, receipts and proofs hash as anvil's do."""

from collections.abc import Callable
from pathlib import Path

import pytest

from chainfl.blobs import name_model, put_model
from chainfl.chain.contracts import allocate, create_task
from chainfl.chain.deploy import deploy
from chainfl.chain.ledger import ChainLedger
from chainfl.chain.reader import TaskReader
from chainfl.chain.rpc import open_rpc
from chainfl.chain.send import checksum
from chainfl.codec import merkle
from chainfl.codec.vector import encode
from chainfl.sim.memory import MemoryStore
from chainfl.types import Rule
from chainfl.workflows.bundle import export_bundle, verify_bundle
from tests.integration.chain import geth
from tests.integration.test_deploy import sender_of
from tests.protocol.scene import ETHER, config
from tests.sim.network import LAYOUT


@pytest.mark.slow
def test_a_bundle_of_a_task_on_geth_is_proven(tmp_path: Path, require: Callable[[str], Path]) -> None:
    program = require("geth")
    with geth(program, tmp_path) as url:
        w3 = open_rpc(url)
        chain_id, sender, store = w3.eth.chain_id, sender_of(w3, w3.eth.chain_id), MemoryStore()
        paid = w3.eth.send_transaction(
            {"from": w3.eth.accounts[0], "to": checksum(sender.address), "value": w3.to_wei(50, "ether")}
        )
        w3.eth.wait_for_transaction_receipt(paid, timeout=30)
        done = deploy(w3, sender, tmp_path / "geth.json", 1, chain_id, list[str]().append)
        head = encode([0.0] * LAYOUT.d, 20)
        first = name_model(head, 20, LAYOUT)
        put_model(store, first)
        terms = config(Rule.SOFTMAX, first_root=merkle.root(head), first_model=first.cid.digest)
        made = create_task(sender, done.factory_address, terms, ETHER // 2)
        allocate(sender, done.registry_address, made.address, ETHER)
        reader = TaskReader(w3, made.address, chain_id, made.block)
        ChainLedger(w3, sender, reader, made.address).enrol()

        exported = export_bundle(w3, chain_id, made.address, store, tmp_path / "geth.car")

    proven = verify_bundle(tmp_path / "geth.car", exported.subject.hash, made.address)
    assert proven.contracts.factory == done.factory_address
    assert proven.contracts.made.config == terms
    assert (exported.subject.created, exported.headers) == (
        made.block,
        exported.subject.block - made.block + 1,
    )
    assert exported.receipts >= 2
    assert proven.rounds == ()
