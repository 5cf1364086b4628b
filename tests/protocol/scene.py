"""Scenes for tests of the rules: a world with funded accounts, and a driver that takes a round to any phase."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any

import numpy as np

from chainfl.codec import merkle
from chainfl.codec.admission import ANYONE, Entry
from chainfl.codec.commitments import commitment, keccak256, validator_payload, worker_payload
from chainfl.codec.header import encode_header
from chainfl.codec.scores import Scores, encode_scores
from chainfl.codec.vector import Vector
from chainfl.execution import attested_shares
from chainfl.protocol.admission import admit, list_root
from chainfl.protocol.combine import combine, combine_ranks
from chainfl.protocol.proof import gather
from chainfl.protocol.state import Call, Task
from chainfl.protocol.tally import score_kind
from chainfl.protocol.term_table import TERMS, Unit
from chainfl.protocol.terms import Floors, default_terms
from chainfl.protocol.views import claim_of, ordered_roots, trains
from chainfl.protocol.world import World
from chainfl.types import WAD, Address, Digest, Id, Phase, Role, Rule, TaskConfig

ETHER = 10**18
D = 200
SALT = bytes(31) + b"\x07"
SPONSOR = Address(b"\x51" * 20)
STRANGER = Address(b"\x99" * 20)
REACH = 8191
"""How many blocks back a chain knows hashes (EIP-2935)."""


def header_of(block_number: int) -> bytes:
    """The header of a block on the chain that tests play on."""
    return encode_header(block_number, keccak256(block_number.to_bytes(32, "big")))


def address(number: int) -> Address:
    """The address of participant `number`."""
    return Address(number.to_bytes(20, "big"))


def vector(seed: int, d: int = D) -> Vector:
    """A small random model around zero."""
    return np.random.default_rng(seed).integers(2**31 - 2**20, 2**31 + 2**20, d, dtype=np.uint32)


HEAD = vector(0)
_PHASES: dict[str, Any] = {term.name: 60 for term in TERMS if term.unit is Unit.SECONDS}


INTERNALS: list[Entry] = [
    (ANYONE, Role.PARTICIPANT),
    *((address(number), Role.INTERNAL) for number in range(1, 4)),
]
"""Who is internal where the rule asks for internals: the first three participants."""
_WITH_INTERNALS: dict[str, object] = {
    "admission_root": list_root(INTERNALS),
    "min_internals": 2,
    "internals_train": True,
}


def config(rule: Rule = Rule.SOFTMAX, **changes: object) -> TaskConfig:
    """Terms of a small task."""
    usual = default_terms("multi-krum:m=2" if rule is Rule.MULTI_KRUM else rule.name_text, D, 3, 3)
    base = replace(
        usual,
        manifest=b"\x01" * 32,
        first_root=merkle.root(HEAD),
        first_model=b"\x02" * 32,
        beta=WAD,
        max_updates=8,
        max_samples=10_000,
        rounds=4,
        min_stake=9 * ETHER // 10,
        caller_fee=10**12,
        **_PHASES,
    )
    needed = _WITH_INTERNALS if rule is Rule.VARSEL else {}
    return replace(base, **needed | changes)  # type: ignore[arg-type]


@dataclass(slots=True)
class Scene:
    """A world with one task whose participants are addresses 1 to N, with stakes of their own."""

    world: World
    task_address: Address
    now: int = 1_000
    block: int = 10
    models: dict[Digest, Vector] = field(default_factory=dict)

    @property
    def task(self) -> Task:
        """The task as it stands."""
        return self.world.tasks[self.task_address]

    @property
    def number(self) -> int:
        """The running round."""
        return self.task.round.number

    def call(self, sender: Address) -> Call:
        """A call by this sender now; every call gets a block of its own."""
        self.block += 1
        return Call(sender, self.now, self.block)

    def ids(self, addresses: Sequence[Address]) -> list[Id]:
        """Enrolment ids of addresses."""
        return [self.task.accounts[a].id for a in addresses]

    def who(self, id_: Id) -> Address:
        """The address behind an enrolment id."""
        return self.task.by_id(id_).address

    def workers(self) -> list[Address]:
        """Everybody who may commit an update now."""
        return [a for a in self.task.addresses if trains(self.task, self.task.accounts[a])]

    def run_out(self) -> None:
        """Let the phase's deadline pass."""
        self.now = self.task.round.deadline

    def draw(self, header: bytes | None = None) -> None:
        """Draw the round, once the block that seeds it is there."""
        at = self.task.round.draw_block
        self.block = max(self.block, at)
        right = header_of(at)
        self.world.draw(
            self.call(STRANGER), self.task_address, right if header is None else header, keccak256(right)
        )

    def draw_too_late(self) -> None:
        """Call for a draw whose seed is out of reach."""
        self.block = self.task.round.draw_block + REACH
        self.world.draw(self.call(STRANGER), self.task_address, b"", None)

    def apply_queued(self) -> None:
        """Bring every account's weight in line, as anyone may once the draw is done."""
        for account in self.task.addresses:
            self.world.apply_change(self.call(STRANGER), self.task_address, account)

    def update_of(self, sender: Address) -> Vector:
        """The update that a participant trains in this round."""
        return vector(1 + self.number * 1000 + int.from_bytes(sender, "big"))

    def commit(self, sender: Address, root: Digest | None = None) -> None:
        """Commit to an update."""
        model = self.update_of(sender)
        self.models[merkle.root(model)] = model
        payload = worker_payload(root or merkle.root(model), b"\x0c" * 32, 100)
        self.world.commit_update(
            self.call(sender), self.task_address, self.number, self.seal(sender, Phase.TRAIN, payload)
        )

    def reveal(self, sender: Address, root: Digest | None = None) -> None:
        """Open the commitment to an update."""
        root = root or merkle.root(self.update_of(sender))
        self.world.reveal_update(
            self.call(sender), self.task_address, self.number, root, b"\x0c" * 32, 100, SALT
        )

    def seal(self, sender: Address, phase: Phase, payload: Digest) -> Digest:
        """A commitment of this sender."""
        task = self.task
        return commitment(
            task.chain_id, task.address, task.task_id, self.number, phase, sender, payload, SALT
        )

    def scores_of(self, sender: Address) -> bytes:
        """What a validator posts: losses, distances or vouches, a little different for each."""
        kind, order = score_kind(self.task.config.rule), self.task.round.order
        jitter = int.from_bytes(sender[-2:], "big")
        if self.task.config.rule.is_softmax:
            entries = [10**11 * (1 + id_) + jitter for id_ in order]
        elif self.task.config.rule.is_elected:
            entries = [10**20 * (1 + id_) + jitter for id_ in order]
        else:
            entries = [1 for _ in order]
        return encode_scores(kind, Scores(10**12 + jitter, tuple(entries)))

    def commit_scores(self, sender: Address, scores: bytes | None = None) -> None:
        """Commit to scores."""
        payload = validator_payload(ordered_roots(self.task), scores or self.scores_of(sender))
        self.world.commit_scores(
            self.call(sender), self.task_address, self.number, self.seal(sender, Phase.SCORE, payload)
        )

    def reveal_scores(self, sender: Address, scores: bytes | None = None) -> None:
        """Open the commitment to scores."""
        self.world.reveal_scores(
            self.call(sender), self.task_address, self.number, scores or self.scores_of(sender), SALT
        )

    def committee(self) -> list[Address]:
        """The validators of the round."""
        return [self.who(id_) for id_ in self.task.round.committee]

    def advance(self, sender: Address = STRANGER) -> None:
        """Leave a phase that is over."""
        self.world.advance(self.call(sender), self.task_address, self.number)

    def tally(self) -> None:
        """Turn the revealed scores into shares."""
        round_ = self.task.round
        vectors = [
            s.revealed
            for id_ in round_.committee
            if (s := round_.scores.get(id_)) is not None and s.revealed is not None
        ]
        self.world.tally(self.call(STRANGER), self.task_address, self.number, vectors)

    def posted_shares(self) -> tuple[int, ...]:
        """What the proposer of an attested rule posts: equal parts over the first included updates, or VaRSeL's own."""
        task = self.task
        assert task.round.tally is not None
        if not task.config.rule.is_attested:
            return ()
        if task.config.rule is Rule.VARSEL:
            kept = compress(ordered_roots(task), task.round.tally.included)
            return attested_shares(task, [self.models[root] for root in kept])
        from chainfl.protocol.shares import equal, head_share
        from chainfl.types import TOTAL

        wanted = 1 if task.config.rule is Rule.KRUM else task.config.selected
        chosen = [False] * len(task.round.order)
        for i in [i for i, counts in enumerate(task.round.tally.included) if counts][:wanted]:
            chosen[i] = True
        p_0 = head_share(task.config.alpha)
        return (p_0, *equal(chosen, TOTAL - p_0))

    def aggregate(self) -> Vector:
        """The right next model."""
        task = self.task
        tallied = task.round.tally
        assert tallied is not None
        head = self.models[task.head_root]
        shares = self.posted_shares() or tallied.shares
        updates = [self.models[root] for root in ordered_roots(task)]
        if task.config.rule.is_on_ranks:
            kept = [u for u, counts in zip(updates, tallied.included, strict=True) if counts]
            return combine_ranks(head, kept, shares)
        return combine(head, updates, shares)

    def propose(self, model: Vector | None = None, sender: Address | None = None) -> Digest:
        """The proposer posts a model, the right one unless told otherwise."""
        model = self.aggregate() if model is None else model
        root = merkle.root(model)
        self.models[root] = model
        sender = sender or self.who(self.task.round.proposer)
        self.world.propose(
            self.call(sender),
            self.task_address,
            self.number,
            self.task.round.attempt,
            root,
            b"\x0b" * 32,
            self.posted_shares(),
        )
        return root

    def vote(self, sender: Address, attests: bool = True) -> None:
        """A validator votes on the standing proposal."""
        round_ = self.task.round
        assert round_.proposal is not None
        named = (round_.proposal.model_root, round_.proposal.block, round_.proposal.shares_digest)
        self.world.vote(self.call(sender), self.task_address, self.number, round_.attempt, *named, attests)

    def prove(self, sender: Address, position: int, salt: Digest = SALT) -> None:
        """Show that the standing proposal lies at a position."""
        claim = claim_of(self.task)
        evidence = gather(claim, position, lambda root, leaf: merkle.prove(self.models[root], leaf))
        self.world.prove(
            self.call(sender),
            self.task_address,
            self.number,
            self.task.round.attempt,
            position,
            evidence,
            salt,
        )

    def voters(self) -> list[Address]:
        """Members whose vote counts now."""
        round_ = self.task.round
        out = {round_.proposer, *round_.convicted}
        return [self.who(id_) for id_ in round_.committee if id_ not in out]

    def to(self, phase: Phase) -> None:
        """Play honestly until the running round stands in this phase (or the next round's draw is open)."""
        steps: dict[Phase, Callable[[], None]] = {
            Phase.DRAW: self.draw,
            Phase.TRAIN: lambda: self._all(self.commit, self.workers()),
            Phase.REVEAL: lambda: self._all(self.reveal, [self.who(i) for i in self.task.round.updates]),
            Phase.SCORE: lambda: self._all(self.commit_scores, self.committee()),
            Phase.TALLY: self._play_tally,
            Phase.PROPOSE: lambda: (self.propose(), None)[1],
            Phase.CHALLENGE: self._play_challenge,
        }
        for _ in range(8):
            if self.task.round.phase is phase:
                return
            steps[self.task.round.phase]()

    def play_round(self) -> None:
        """One honest round, to the end."""
        number = self.number
        self.to(Phase.CHALLENGE)
        self._play_challenge()
        assert self.number == number + 1 or self.task.round.phase is Phase.ENDED

    def _all(self, act: Callable[[Address], None], senders: Sequence[Address]) -> None:
        for sender in senders:
            act(sender)
        self.advance()

    def _play_tally(self) -> None:
        for sender in self.committee():
            self.reveal_scores(sender)
        self.tally()

    def _play_challenge(self) -> None:
        for sender in self.voters():
            self.vote(sender)
        self.run_out()
        self.advance()


def scene(
    terms: TaskConfig | None = None, stakes: Sequence[int] = (1,) * 8, escrow: int = ETHER // 2
) -> Scene:
    """A task whose participants have enrolled; its first draw is open when they are enough."""
    terms = terms or config()
    world = World(31337, Address(b"\xaa" * 20), Floors(1))
    task_address = Address(b"\x7a" * 20)
    built = Scene(world, task_address, models={merkle.root(HEAD): HEAD})
    world.create_task(built.call(SPONSOR), task_address, terms, escrow)
    for number, amount in enumerate(stakes, 1):
        enrol(built, address(number), amount * usual_stake(terms))
    return built


def usual_stake(terms: TaskConfig) -> int:
    """What participants put in: so much above the minimum that who is slashed for silence still takes part."""
    return terms.min_stake * 10 // 9


def enrol(built: Scene, sender: Address, stake: int) -> None:
    """Stake and enrol one more account."""
    built.world.allocate(built.call(sender), built.task_address, stake, stake)
    if built.task.config.admission_root != list_root(INTERNALS):
        built.world.enrol(built.call(sender), built.task_address)
        return
    shown = admit(INTERNALS, sender)
    assert shown is not None
    built.world.enrol_admitted(built.call(sender), built.task_address, sender, shown)
