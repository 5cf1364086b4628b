"""Rounds whose participants sit at two IPFS daemons: what one puts, the other gets; pins hold the history."""

from collections.abc import Callable
from pathlib import Path

from chainfl.audit.verify import Verdict
from chainfl.codec.cid import Cid
from chainfl.roles.participant import Participant
from chainfl.types import Rule
from chainfl.workflows.audit import audit
from tests.integration.chain import devchain, open_task
from tests.store.ipfs_node import ipfs_node


def test_rounds_across_two_daemons_are_audited_from_either(
    tmp_path: Path, require: Callable[[str], Path]
) -> None:
    require("anvil")
    program = require("ipfs")
    with (
        devchain(tmp_path) as chain,
        ipfs_node(program, tmp_path / "one") as one,
        ipfs_node(program, tmp_path / "two") as two,
    ):
        one.connect(two)
        task = open_task(chain, Rule.SOFTMAX, participants=7, store=one.store)
        for number, (account, me) in enumerate(task.people.items()):
            store = (one, two)[number % 2].store
            task.people[account] = Participant(me.ledger, store, me.trainer, me.journal)

        reader, history = task.reader(), list[str]()
        for number in (2, 3):
            task.live(number)
            history.append(str(Cid.dag_cbor(reader.refresh().head_block)))

        for node in (one, two):
            assert [each.verdict for each in audit(reader, node.store)] == [Verdict.OK, Verdict.OK]
        pinned = {key for node in (one, two) for line in node.rpc("pin/ls") for key in line["Keys"]}
        assert set(history) <= pinned
        (first,) = one.rpc("dag/get", arg=f"{history[-1]}/updates/0/worker")
        (before,) = two.rpc("dag/get", arg=f"{history[-1]}/prev/round")
        assert first["/"]["bytes"]
        assert before == 1
