"""A real anvil with the real contracts, and participants who act on it from this process."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from eth_abi.abi import encode as abi_encode
from eth_account import Account
from eth_hash.auto import keccak as eth_keccak
from web3 import Web3

from chainfl.blobs import name_model, put_model
from chainfl.chain.contracts import allocate, create_task
from chainfl.chain.deploy import Deployment, deploy
from chainfl.chain.keys import LocalSigner
from chainfl.chain.ledger import ChainLedger
from chainfl.chain.reader import TaskReader
from chainfl.chain.rpc import open_rpc
from chainfl.chain.send import Sender
from chainfl.codec import merkle
from chainfl.codec.commitments import keccak256
from chainfl.codec.vector import encode
from chainfl.devnet.processes import CHAIN_ID, free_port, fund, start_anvil
from chainfl.ports import BlobStore
from chainfl.protocol.events import Drawn
from chainfl.roles.participant import Participant
from chainfl.roles.turn import Duty, next_step
from chainfl.sim.memory import MemoryJournal, MemoryStore
from chainfl.types import Address, Phase, Rule, TaskConfig
from tests.processes import await_that
from tests.protocol.scene import ETHER, config
from tests.sim.network import LAYOUT, Quadratic


@dataclass(slots=True)
class Devchain:
    """A chain with the contracts deployed."""

    w3: Web3
    url: str
    deployment: Deployment
    store: MemoryStore
    pid: int
    chain_id: int = CHAIN_ID

    def sender(self, name: str) -> Sender:
        """An account with ether, by name."""
        signer = LocalSigner(Account.from_key(keccak256(name.encode())))
        self.give(signer.address)
        return Sender(self.w3, signer, self.chain_id)

    def give(self, account: Address) -> None:
        """Plenty of ether."""
        fund(self.w3, account, 1_000 * ETHER)

    def skip(self, seconds: int) -> None:
        """Let the chain's clock run."""
        self.rpc("evm_increaseTime", [seconds])
        self.rpc("evm_mine", [])

    def rpc(self, method: str, params: list[object]) -> object:
        """A call that web3 has no name for, or changes the answer of."""
        answer = self.w3.provider.make_request(method, params)  # type: ignore[arg-type]
        assert "error" not in answer, answer
        return answer.get("result")


@dataclass(slots=True)
class ChainTask:
    """A task on that chain with its participants."""

    chain: Devchain
    address: Address
    block: int
    people: dict[Address, Participant]

    def reader(self) -> TaskReader:
        """The task, read by a stranger."""
        return TaskReader(self.chain.w3, self.address, self.chain.chain_id, self.block)

    def live(self, until_round: int, asleep: frozenset[Address] = frozenset()) -> None:
        """Everybody awake takes steps in turn until this round has come or the task has ended."""
        watch = self.reader()
        while (task := watch.refresh()).round.number < until_round and task.round.phase is not Phase.ENDED:
            self.turn(watch, asleep)

    def turn(self, watch: TaskReader, asleep: frozenset[Address] = frozenset()) -> None:
        """Everybody awake takes a step; the clock runs when nobody can."""
        acted = False
        for account, me in self.people.items():
            step = next_step(me, me.ledger.task(), self._now(), Duty.ALL) if account not in asleep else None
            if step is not None:
                step.take(me)
                acted = True
        if not acted:
            self.chain.skip(max(1, watch.refresh().round.deadline - self._now()))

    def _now(self) -> int:
        return int(self.chain.w3.eth.get_block("latest")["timestamp"])


def expect_seed_of_the_header(task: ChainTask) -> None:
    """Draw, and compare the seed that the contract tells with one from the client's header by libraries of others."""
    next(iter(task.people.values())).ledger.draw()
    reader = task.reader()
    reader.refresh()
    (drawn,) = (logged.event for logged in reader.log if isinstance(logged.event, Drawn))

    block = task.chain.rpc("eth_getBlockByNumber", [hex(drawn.block_number), False])
    assert isinstance(block, dict)
    randomness = bytes.fromhex(block["mixHash"][2:])
    fields = (task.chain.chain_id, "0x" + task.address.hex(), drawn.round, randomness)

    assert any(randomness)
    assert drawn.seed == eth_keccak(abi_encode(["uint256", "address", "uint64", "bytes32"], fields))


@contextmanager
def devchain(home: Path) -> Iterator[Devchain]:
    """Start anvil, deploy, and end it again."""
    process, url = start_anvil(home, 1)
    try:
        w3 = open_rpc(url)
        chain = Devchain(w3, url, Deployment(CHAIN_ID, "", 1), MemoryStore(), process.pid)
        told: list[str] = []
        chain.deployment = deploy(w3, chain.sender("deployer"), home / "chain.json", 1, CHAIN_ID, told.append)
        yield chain
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def geth(program: Path, home: Path, *, websocket: bool = False) -> Iterator[str]:
    """A private geth in dev mode on loopback, with a block a second; its address."""
    port, socket, authrpc = free_port(), free_port(), free_port()
    arguments = [str(program), "--dev", "--dev.period", "1", "--datadir", str(home), "--ipcdisable"]
    arguments += ["--http", "--http.addr", "127.0.0.1", "--http.port", str(port)]
    arguments += ["--ws", "--ws.addr", "127.0.0.1", "--ws.port", str(socket)]
    arguments += ["--authrpc.addr", "127.0.0.1", "--authrpc.port", str(authrpc)]
    arguments += ["--nodiscover", "--maxpeers", "0", "--port", "0"]
    with (home / "geth.log").open("wb") as log:
        process = subprocess.Popen(arguments, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        w3 = open_rpc(url, timeout=2)
        await_that(lambda: process.poll() is not None or w3.is_connected(), 60, "an answer of geth")
        assert process.poll() is None, (home / "geth.log").read_text()[-2000:]
        yield f"ws://127.0.0.1:{socket}" if websocket else url
    finally:
        process.terminate()
        process.wait(20)


def open_task(
    chain: Devchain,
    rule: Rule,
    participants: int = 10,
    escrow: int = ETHER // 3,
    store: BlobStore | None = None,
    **changes: object,
) -> ChainTask:
    """A task that learns the quadratic, with everybody enrolled."""
    head = encode([0.0] * LAYOUT.d, 20)
    first = name_model(head, 20, LAYOUT)
    blobs = store or chain.store
    put_model(blobs, first)
    terms: TaskConfig = config(rule, first_root=merkle.root(head), first_model=first.cid.digest, **changes)
    made = create_task(chain.sender("sponsor"), chain.deployment.factory_address, terms, escrow)
    task = ChainTask(chain, made.address, made.block, {})
    for number in range(1, participants + 1):
        sender = chain.sender(f"{rule.name} participant {number}")
        allocate(sender, chain.deployment.registry_address, made.address, ETHER)
        ledger = ChainLedger(chain.w3, sender, task.reader(), made.address)
        ledger.enrol()
        journal = MemoryJournal(keccak256(sender.address))
        task.people[sender.address] = Participant(ledger, blobs, Quadratic(number), journal)
    return task
