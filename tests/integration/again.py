"""A chain's run of nodes that learn the quadratic, played again in memory."""

import json

from chainfl.audit.trace import trace_of
from chainfl.blobs import name_model, put_model
from chainfl.chain.reader import TaskReader
from chainfl.codec.commitments import keccak256
from chainfl.codec.vector import encode
from chainfl.protocol import events
from chainfl.protocol.fold import take
from chainfl.protocol.terms import Floors
from chainfl.protocol.world import World
from chainfl.roles.participant import Participant
from chainfl.sim.memory import Chain, MemoryJournal, MemoryLedger, MemoryStore
from chainfl.sim.network import play_round
from chainfl.sim.population import Adversary, Population
from chainfl.sim.replay import ReplayNetwork
from chainfl.types import Address
from chainfl.workflows.audit import played_rounds
from tests.protocol.scene import ETHER, SPONSOR, STRANGER
from tests.sim.network import LAYOUT, Quadratic


def expect_the_same_roots_again(reader: TaskReader) -> None:
    """The simulator, given the seeds and who acted, computes every model anew and gets the chain's."""
    trace = json.loads(json.dumps(trace_of(reader.created.config, None, played_rounds(reader))))
    net = _simulated(reader)
    for record in trace["rounds"]:
        net.record = record
        net.begin()
        again = play_round(net)
        assert again.ended is not None
        assert (again.outcome.name.lower(), again.ended.head_root.hex()) == (
            record["outcome"],
            record["model_root"],
        ), f"round {record['round']}"
        net.chain.world.log.clear()


def _simulated(reader: TaskReader) -> ReplayNetwork:
    """The task in memory with everybody's own view of the truth, as the nodes have it."""
    created = reader.created
    chain = Chain(World(created.chain_id, STRANGER, Floors(1)), bytes(32))
    store, config = MemoryStore(), created.config
    put_model(store, name_model(encode([0.0] * LAYOUT.d, 20), 20, LAYOUT))
    chain.world.create_task(chain.call(SPONSOR), created.address, config, config.rounds * ETHER // 8)

    # Everybody has its id and role as on the chain; whoever acts for it there, it acts itself here.
    task, people = chain.world.tasks[created.address], dict[Address, Participant]()
    for event in (logged.event for logged in reader.log):
        if isinstance(event, events.Admitted | events.Enrolled):
            take(task, event, 0)
    for account in task.accounts.values():
        ledger = MemoryLedger(chain, created.address, account.address)
        journal = MemoryJournal(keccak256(account.address))
        people[account.address] = Participant(ledger, store, Quadratic(account.id), journal)
    keeper = MemoryLedger(chain, created.address, STRANGER)
    return ReplayNetwork(chain, keeper, store, people, {}, population=Population({}, 0, Adversary()))
