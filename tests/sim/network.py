"""A small network in memory whose participants learn a quadratic: quick, exact to repeat, and it really converges."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from chainfl.blobs import name_model, put_model, put_record
from chainfl.codec import merkle
from chainfl.codec.admission import ANYONE
from chainfl.codec.commitments import keccak256
from chainfl.codec.records import Layout, Manifest, Tensor
from chainfl.codec.vector import encode
from chainfl.ports import Floats
from chainfl.protocol.admission import admit, list_root
from chainfl.protocol.terms import Floors
from chainfl.protocol.world import World
from chainfl.roles.participant import Participant
from chainfl.sim.memory import Chain, MemoryJournal, MemoryLedger, MemoryStore
from chainfl.sim.network import Network
from chainfl.types import WAD, Address, Role, Rule
from tests.protocol.scene import ETHER, SPONSOR, STRANGER, address, config

D = 200
LAYOUT = Layout((Tensor("w", (D,)),))
MANIFEST = Manifest(
    model="quadratic",
    dataset="points",
    loss="squared-distance",
    optimiser="half-step",
    learning_rate=WAD // 2,
    batch=1,
    local_epochs=1,
    seed=1,
    score_samples=D,
    s=20,
    layout=LAYOUT,
)


@dataclass(frozen=True, slots=True)
class Quadratic:
    """Learns the point that all participants are near: half a step towards its own noisy view of it."""

    seed: int
    layout: Layout = LAYOUT
    samples: int = 100

    def _view(self) -> Floats:
        truth = np.linspace(-1, 1, D)
        return (truth + 0.01 * np.random.default_rng(self.seed).standard_normal(D)).astype(np.float32)

    def train(self, head_D: Floats, round_: int) -> Floats:
        """Half a step towards the own view."""
        assert round_ > 0
        return (head_D + (self._view() - head_D) / 2).astype(np.float32)

    def score(self, models_KD: Sequence[Floats]) -> list["Judged"]:
        """Mean squared distance from the own view, and how many coordinates are near it."""
        gaps = [np.abs(model - self._view()) for model in models_KD]
        return [Judged(float(np.mean(gap**2)), int(np.sum(gap < 0.1)), D) for gap in gaps]


@dataclass(frozen=True, slots=True)
class Judged:
    """How near a model is."""

    loss: float
    correct: int
    samples: int


def network(rule: Rule, participants: int = 10, rounds: int = 4, internals: int = 0) -> Network:
    """A task with everybody enrolled and its first draw open; internals, if any, are its committee and train.

    VaRSeL has three if nobody says how many.
    """
    internals = internals or 3 * (rule is Rule.VARSEL)
    store = MemoryStore()
    head = encode(np.zeros(D, np.float32), 20)
    first = name_model(head, 20, LAYOUT)
    put_model(store, first)
    manifest = put_record(store, MANIFEST)
    terms = config(
        rule,
        first_root=merkle.root(head),
        first_model=first.cid.digest,
        manifest=manifest.digest,
        rounds=rounds,
    )
    entries = [(address(number), Role.INTERNAL) for number in range(1, internals + 1)]
    if entries:
        entries.append((ANYONE, Role.PARTICIPANT))
        terms = replace(
            terms,
            admission_root=list_root(entries),
            committee_size=internals,
            min_internals=internals,
            internals_train=True,
            max_updates=10,
        )
    chain = Chain(World(31337, Address(b"\xaa" * 20), Floors(1)), keccak256(b"a chain of its own"))
    task = Address(b"\x7a" * 20)
    chain.world.create_task(chain.call(SPONSOR), task, terms, ETHER // 3)
    people = {}
    for number in range(1, participants + 1):
        account = address(number)
        ledger = MemoryLedger(chain, task, account)
        chain.world.allocate(chain.call(account), task, ETHER, ETHER)
        ledger.enrol(admit(entries, account))
        people[account] = Participant(ledger, store, Quadratic(number), MemoryJournal(keccak256(account)))
    return Network(chain, MemoryLedger(chain, task, STRANGER), store, people, {})
