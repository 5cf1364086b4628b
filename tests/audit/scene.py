"""A short history on a real chain: an honest round, a lie that a careless committee let through, a lie that stands."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from chainfl.chain.keys import new_key
from chainfl.chain.ledger import ChainLedger
from chainfl.codec.vector import Vector
from chainfl.devnet.processes import CHAIN_ID, fund
from chainfl.protocol.views import voters
from chainfl.roles.miner import propose
from chainfl.roles.turn import Duty, next_step
from chainfl.store.directory import DirectoryStore
from chainfl.types import Address, Phase, Rule
from chainfl.workflows.bundle import ExportedBundle, export_bundle
from tests.integration.chain import ChainTask, Devchain, devchain, open_task
from tests.protocol.scene import ETHER

LIE_AT = 123
PASSWORD = "audit"


def tampered(model_D: Vector) -> Vector:
    """The right model with one parameter a step too high."""
    wrong = model_D.copy()
    wrong[LIE_AT] += 1
    return wrong


@dataclass(slots=True)
class History:
    """The task, where its blobs are, and the bundle that was exported when it stood."""

    task: ChainTask
    home: Path
    bundle: Path
    exported: ExportedBundle

    @property
    def chain(self) -> Devchain:
        """The chain it is on."""
        return self.task.chain

    @property
    def store(self) -> str:
        """The store, as commands name it."""
        return f"dir:{self.home / 'store'}"

    @property
    def address(self) -> str:
        """The task, as commands name it."""
        return "0x" + self.task.address.hex()

    @property
    def hash(self) -> bytes:
        """The block that the bundle rests on."""
        return self.exported.subject.hash

    def export(
        self, out: Path, store: DirectoryStore | None = None, number: int | None = None
    ) -> ExportedBundle:
        """Another bundle of the same history."""
        blobs = store or self.blobs()
        block = self.exported.subject.block
        return export_bundle(
            self.chain.w3, CHAIN_ID, self.task.address, blobs, out, number=number, block=block
        )

    def keystore(self, name: str) -> tuple[Path, Path]:
        """A new key with ether, in a file, and its password in another."""
        file, password = self.home / f"{name}.json", self.home / f"{name}.password"
        password.write_text(PASSWORD + "\n")
        fund(self.chain.w3, new_key(file, PASSWORD), 10 * ETHER)
        return file, password

    def blobs(self) -> DirectoryStore:
        """The store."""
        return DirectoryStore(self.home / "store")

    def finder(self) -> ChainLedger:
        """A stranger with ether and an eye on the task."""
        return ChainLedger(self.chain.w3, self.chain.sender("finder"), self.task.reader(), self.task.address)

    def propose_honestly(self) -> None:
        """The next in line proposes what is right."""
        read = self.task.reader().refresh()
        propose(self.task.people[read.by_id(read.round.proposer).address])


@contextmanager
def history(home: Path) -> Iterator[History]:
    """Play it: rounds 1 and 2 are settled, round 3 is in Challenge with a lie that one validator attests."""
    with devchain(home) as chain:
        task = open_task(chain, Rule.SOFTMAX, participants=7, store=DirectoryStore(home / "store"))
        task.live(2)
        _play_to_proposal(task)
        _propose_lie(task)
        _attest_blindly(task, everybody=True)
        _leave(task)
        _play_to_proposal(task)
        _propose_lie(task)
        _attest_blindly(task, everybody=False)
        store = DirectoryStore(home / "store")
        out = home / "task.car"
        yield History(task, home, out, export_bundle(chain.w3, CHAIN_ID, task.address, store, out))


def _play_to_proposal(task: ChainTask) -> None:
    """Everybody takes steps until somebody has to propose."""
    watch = task.reader()
    while watch.refresh().round.phase is not Phase.PROPOSE:
        acted = [
            _step(task, account)
            for account in task.people
            if watch.refresh().round.phase is not Phase.PROPOSE
        ]
        assert any(acted), f"stuck in {watch.refresh().round.phase}"


def _step(task: ChainTask, account: Address) -> bool:
    me = task.people[account]
    now = int(task.chain.w3.eth.get_block("latest")["timestamp"])
    step = next_step(me, me.ledger.task(), now, Duty.ALL)
    if step is not None:
        step.take(me)
    return step is not None


def _propose_lie(task: ChainTask) -> None:
    read = task.reader().refresh()
    propose(task.people[read.by_id(read.round.proposer).address], tampered)


def _attest_blindly(task: ChainTask, everybody: bool) -> None:
    read = task.reader().refresh()
    proposal, round_ = read.round.proposal, read.round
    assert proposal is not None
    careless = voters(round_, round_.proposer)
    for id_ in careless if everybody else careless[:1]:
        task.people[read.by_id(id_).address].ledger.vote(
            round_.number, round_.attempt, proposal.model_root, proposal.block, proposal.shares_digest, True
        )


def _leave(task: ChainTask) -> None:
    """Let Challenge run out, and settle."""
    read = task.reader().refresh()
    task.chain.skip(read.round.deadline - int(task.chain.w3.eth.get_block("latest")["timestamp"]) + 1)
    next(iter(task.people.values())).ledger.advance(read.round.number)
