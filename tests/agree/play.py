"""Random play: honest, silent, lying, premature, repeated and foreign actions, from one seed, on a `Twin`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import compress
from random import Random
from typing import Final

import numpy as np

from chainfl.codec import merkle
from chainfl.codec.admission import ANYONE, Entry
from chainfl.codec.commitments import commitment, finder_note, validator_payload, worker_payload
from chainfl.codec.scores import Scores, encode_scores, unavailable
from chainfl.codec.vector import Vector
from chainfl.protocol.admission import NO_LIST, Admission, admit, list_root
from chainfl.protocol.combine import combine, combine_ranks
from chainfl.protocol.enrolment import MOST_MISSED, is_absent, unbonding_seconds
from chainfl.protocol.events import Absent, OperatorSet, Silent
from chainfl.protocol.operators import acts_for, senders_of
from chainfl.protocol.proof import Evidence, Leaf, gather
from chainfl.protocol.shares import equal, head_share
from chainfl.protocol.state import Task
from chainfl.protocol.tally import score_kind
from chainfl.protocol.terms import needed_accounts
from chainfl.protocol.varsel import WHOLE, varsel_shares
from chainfl.protocol.views import claim_of, internal_updates, ordered_roots, revealed_vectors, trains
from chainfl.types import TOTAL, WAD, Address, Digest, Id, Outcome, Phase, Role, Rule, Statistic, TaskConfig
from tests.agree.twin import CHAIN_ID, Twin
from tests.protocol.scene import HEAD, REACH, SPONSOR, STRANGER, D, address, config, header_of, vector

STEPS: Final = 200
"""How long one sequence may get."""
FIRST: Final = 0x1000
"""Participants live above the precompiled contracts, which refuse ether."""
_POOL: Final = 24
_Moment = tuple[Address, int, Address]
"""A task, a round and a sender."""


@cache
def pool() -> tuple[Vector, ...]:
    """Updates to choose from; few, so that roots repeat."""
    return tuple(vector(seed) for seed in range(1, _POOL + 1))


@cache
def trees() -> dict[Digest, Vector]:
    """The vectors behind the roots that everybody knows."""
    return {merkle.root(each): each for each in (HEAD, *pool())}


@dataclass(slots=True)
class Sealed:
    """What a commitment hides."""

    values: tuple[Digest, Digest, int]
    salt: Digest


@dataclass(slots=True)
class Play:
    """A random sequence of actions on one or two tasks."""

    twin: Twin
    random: Random
    people: list[Address]
    tasks: list[Address] = field(default_factory=list)
    models: dict[Digest, Vector] = field(default_factory=lambda: dict(trees()))
    updates: dict[tuple[Address, int, Address], Sealed] = field(default_factory=dict)
    scores: dict[tuple[Address, int, Address], tuple[bytes, Digest]] = field(default_factory=dict)
    lies: dict[Digest, int] = field(default_factory=dict)
    lazy: frozenset[Address] = frozenset()
    """Who never commits an update."""
    lists: dict[Address, list[Entry]] = field(default_factory=dict)
    """Who may join a task; empty: everybody."""
    keys: list[Address] = field(default_factory=list)
    """Operators' keys: fewer than people, so that some are wanted by two."""

    # Scene

    def start(self) -> None:
        """Create the tasks and enrol (nearly) everybody."""
        self.lazy = frozenset(self.random.sample(self.people, self.random.choice([0, 2, 3])))
        for _ in range(2 if self.random.random() < 0.1 else 1):
            entries = random_list(self.random, self.people)
            terms = random_terms(self.random, entries)
            escrow = self.random.choice([terms.rounds * terms.caller_fee * 12, 10**17, 3 * 10**17 + 7])
            task = self.twin.create_task(SPONSOR, terms, escrow)
            if task is None:
                continue
            self.tasks.append(task)
            self.lists[task] = entries
            if self.random.random() < 0.1:
                self.twin.draw(STRANGER, task)
            needed = needed_accounts(terms, terms.committee_size)
            for who in self.people[: needed + self.random.choice([0, 1, 2, 4])]:
                stake = terms.min_stake * self.random.choice([1, 1, 2, 7]) + self.random.choice([0, 1, 12345])
                self.twin.allocate(who, task, stake, stake)
                if self.random.random() < 0.15:
                    self.hire(task, who)
                else:
                    self.enrol(task, who)

    # Admission

    def enrol(self, task: Address, who: Address) -> None:
        """Take part with what the list asks for; sometimes with nothing, or with what is somebody else's."""
        if not self._is_admitted(task, who, who):
            self._count_admission("nothing", self.twin.enrol(who, task))

    def _is_admitted(self, task: Address, sender: Address, who: Address) -> bool:
        """Enrol with a proof where there is a list; answers whether that was taken."""
        entries = self.lists.get(task, [])
        if self.random.random() < (0.1 if entries else 0.9):
            return False
        kind, shown = self._proof(entries, who)
        if shown is None:
            return False
        refusal = self.twin.enrol_admitted(sender, task, who, shown)
        self._count_admission(f"{kind} by operator" if sender != who else kind, refusal)
        return refusal is None

    def _proof(self, entries: list[Entry], who: Address) -> tuple[str, Admission | None]:
        """What somebody shows: mostly its own proof, else somebody else's, another list's or another role's."""
        choice = self.random.random()
        if not entries or choice < 0.06:
            other = [(each, Role.PARTICIPANT) for each in self.people]
            return "a proof to another list" if entries else "a proof to an open task", admit(other, who)
        if choice < 0.14:
            other_one = self.random.choice([each for each, _ in entries if each != who])
            return "somebody else's proof", admit(entries, other_one)
        shown = admit(entries, who)
        if shown is not None and choice > 0.95:
            return "a proof of another role", Admission(Role(3 - shown.role), shown.proof)
        return "its own proof", shown

    def _count_admission(self, kind: str, refusal: str | None) -> None:
        self.twin.seen[f"{refusal or 'admitted'} after {kind}"] += 1

    # Operators

    def hire(self, task: Address, who: Address) -> None:
        """Name an operator, who accepts."""
        key = self.random.choice(self.keys)
        self.twin.set_operator(who, task, key)
        if self._is_admitted(task, key, who):
            return
        refusal = self.twin.enrol_for(key, task, who)
        self._count_admission("nothing by operator", refusal)
        if refusal is not None:
            self.enrol(task, who)

    def change_operator(self, task: Address) -> None:
        """Somebody names another operator, none, or one that is not free; somebody accepts who may or may not."""
        owners = list(self.task(task).operator_of)
        who = self.random.choice(
            owners if owners and self.random.random() < 0.3 else [*self.people, STRANGER]
        )
        bound = self.task(task).operator_of.get(who)
        choice = self.random.random()
        key = self.random.choice(self.keys)
        if choice < 0.3 and bound is not None:
            self.twin.set_operator(who, task, Address(bytes(20)))
            key = bound if self.random.random() < 0.3 else key
        elif choice < 0.4:
            key = self.random.choice(self.people)
        elif choice < 0.45:
            self.twin.set_operator(who, Address(b"\x33" * 20), key)
        if self.random.random() < 0.9:
            self.twin.set_operator(who, task, key)
        if self.random.random() < 0.9:
            self._is_admitted(task, key, who)
            self._count_admission("nothing by operator", self.twin.enrol_for(key, task, who))

    def hand(self, task: Address, who: Address) -> Address:
        """Who acts for a participant: mostly its operator, if it has one."""
        senders = senders_of(self.task(task), who)
        return senders[-1] if self.random.random() < 0.9 else senders[0]

    def run(self) -> None:
        """Play until the steps are used up or all tasks have ended."""
        self.start()
        while self.twin.steps < STEPS:
            running = self.running()
            if not running:
                break
            task = self.random.choice(running)
            self.play_phase(task)
            self.twin.check(task)
        self.finish()

    def running(self) -> list[Address]:
        """The tasks that have not ended."""
        return [task for task in self.tasks if self.task(task).round.phase is not Phase.ENDED]

    def finish(self) -> None:
        """Everybody takes what is due."""
        for task in self.tasks:
            self._finish(task)
            self.twin.check(task)

    def _note(self, task: Address) -> None:
        round_ = self.task(task).round
        config = self.task(task).config
        self.twin.seen[f"phase {round_.phase.name}"] += 1
        if config.is_appointed:
            self.twin.seen[f"appointed in {round_.phase.name}"] += 1
        if config.internals_train:
            self.twin.seen[f"internals train in {round_.phase.name}"] += 1
        self.twin.seen[f"rule {self.task(task).config.rule.name} in {round_.phase.name}"] += 1
        if round_.attempt > 1:
            self.twin.seen[f"attempt {round_.attempt}"] += 1

    def _finish(self, task: Address) -> None:
        """Everybody claims everything; the sponsor takes the rest of an ended task."""
        ours = self.task(task)
        for who in [*ours.addresses, STRANGER]:
            self.twin.check_credit(task, who)
            self.twin.claim(who, task, sorted(ours.pays))
            self.twin.check_credit(task, who)
        if ours.round.phase is Phase.ENDED:
            self.twin.seen["phase ENDED"] += 1
            self.twin.refund(SPONSOR, task)
            self._join_what_has_ended(task)
            for who in ours.addresses:
                self.twin.leave(who, task)
        if self.random.random() < 0.5:
            self._take_out(task)

    def _join_what_has_ended(self, task: Address) -> None:
        """Nobody enrols in an ended task; operators are still dismissed, and none is accepted any more."""
        log = len(self.twin.world.log)
        self.enrol(task, self.random.choice(self.people))
        self.change_operator(task)
        self._count_operators(log, Phase.ENDED)

    def _take_out(self, task: Address) -> None:
        """Everybody takes all stake out, as far as unbonding and the round let it."""
        registry = self.twin.world.registry
        for who in self.task(task).addresses:
            self.twin.deallocate(who, task, registry.allocation(task, who).bonded)
        if self.random.random() < 0.3:
            self._release_all(task)
        self.twin.now += unbonding_seconds(self.task(task)) + self.random.choice([0, 1, 10_000])
        self._release_all(task)
        for who in self.task(task).addresses:
            self.twin.withdraw(who, self.twin.world.registry.free.get(who, 0))

    def _hurry(self, task: Address, who: Address) -> None:
        """Ask for stake and want it at once."""
        if self.twin.deallocate(who, task, 1) is None:
            self.twin.release(who, task, self.twin.world.registry.allocation(task, who).requests - 1)

    def _release_all(self, task: Address) -> None:
        for who in self.task(task).addresses:
            for number in range(self.twin.world.registry.allocation(task, who).requests):
                self.twin.release(who, task, number)

    def task(self, task: Address) -> Task:
        """The rules' side of a task."""
        return self.twin.world.tasks[task]

    def who(self, task: Address, id_: Id) -> Address:
        """The address behind an id."""
        return self.task(task).by_id(id_).address

    # Phases

    def play_phase(self, task: Address) -> None:
        """Play one phase with a zeal of its own, wild actions between."""
        self._note(task)
        round_ = self.task(task).round
        zeal = self.random.choice([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.9, 0.5, 0.0])
        steps: dict[Phase, Callable[[Address, float], None]] = {
            Phase.DRAW: self._draw,
            Phase.TRAIN: self._train,
            Phase.REVEAL: self._reveal,
            Phase.SCORE: self._score,
            Phase.TALLY: self._tally,
            Phase.PROPOSE: self._propose,
            Phase.CHALLENGE: self._challenge,
        }
        before = (round_.number, round_.attempt, round_.phase)
        log = len(self.twin.world.log)
        if self.random.random() < 0.25:
            self.change_operator(task)
        steps[round_.phase](task, zeal)
        after = self.task(task).round
        assert (after.number, after.attempt, after.phase) >= before
        self._count_operators(log, before[2])
        for _, event in self.twin.world.log[log:]:
            self.twin.seen[f"event {type(event).__name__}"] += 1
            if isinstance(event, Absent) and event.times == MOST_MISSED:
                self.twin.seen["put out"] += 1
            if isinstance(event, Silent) and event.phase is Phase.TALLY and event.id in round_.order:
                self.twin.seen["withheld update"] += 1
            if getattr(event, "outcome", None) is Outcome.VOID:
                self.twin.seen[f"void in {before[2].name}"] += 1
                self.twin.seen["void"] += 1
            elif getattr(event, "outcome", None) is Outcome.FINAL:
                self.twin.seen["final"] += 1

    def _count_operators(self, log: int, phase: Phase) -> None:
        for _, event in self.twin.world.log[log:]:
            if isinstance(event, OperatorSet):
                what = "set" if any(event.operator) else "dismissed"
                self.twin.seen[f"operator {what} in {phase.name}"] += 1

    def _each(
        self, task: Address, zeal: float, actors: Sequence[Address], act: Callable[[Address], None]
    ) -> None:
        for who in actors:
            if self.random.random() < 0.12:
                self.wild(task)
            if self.random.random() < zeal:
                act(self.hand(task, who))

    def _leave(self, task: Address) -> None:
        """Advance, early if that is possible, else when the deadline has passed."""
        number = self.task(task).round.number
        caller = self.random.choice([STRANGER, *self.people, *self.keys])
        if self.random.random() < 0.3:
            self.wild(task)
        if self.task(task).round.number != number:
            return
        if self.twin.advance(caller, task, number) == "PhaseStillOpen":
            self.twin.now = self.task(task).round.deadline + self.random.choice([0, 0, 1, 100])
            self.twin.advance(caller, task, number)

    def _draw(self, task: Address, zeal: float) -> None:
        round_ = self.task(task).round
        if round_.draw_block == 0:
            self.twin.draw(STRANGER, task)
            if self.random.random() < (0.8 if self.task(task).elected else 0.3):
                self.twin.now += unbonding_seconds(self.task(task)) - self.random.choice([0, 1])
            self._each(task, 0.9, self.people, lambda who: self._rejoin(task, who))
            if self.task(task).round.draw_block == 0 and self.random.random() < 0.3:
                self.twin.abandon(SPONSOR, task)
            return
        if self.twin.block <= round_.draw_block and self.random.random() < 0.3:
            self.twin.draw(STRANGER, task)
        self.twin.block = max(self.twin.block, round_.draw_block)
        if self.random.random() < 0.05:
            self.twin.block += self.random.choice([300, REACH - 1, REACH, REACH + 1])
        if self.random.random() < 0.05:
            self.twin.draw(STRANGER, task, header_of(round_.draw_block + 1))
        if self.random.random() < 0.1 and zeal:
            self.wild(task)
        self.twin.draw(self.random.choice([STRANGER, *self.people]), task)

    def _rejoin(self, task: Address, who: Address) -> None:
        ours, least = self.task(task), self.task(task).config.min_stake
        if self.twin.world.registry.allocation(task, who).bonded < least:
            self.twin.allocate(who, task, 2 * least, 2 * least)
        account = ours.accounts.get(who)
        if account is None or not account.is_enrolled:
            self.enrol(task, who)
        else:
            self.twin.apply_change(STRANGER, task, who)

    def _train(self, task: Address, zeal: float) -> None:
        ours = self.task(task)
        if self.random.random() < 0.7:
            self.note_absent(task)
        workers = [a for a in ours.addresses if trains(ours, ours.accounts[a]) and a not in self.lazy]
        self.random.shuffle(workers)
        self._each(task, zeal, workers, lambda who: self.commit(task, who))
        self._leave(task)

    def note_absent(self, task: Address) -> None:
        """Note those who did not commit, mostly all of them, sometimes somebody who did or does not train."""
        ours = self.task(task)
        if ours.round.drawn is None:
            return
        ids = [ours.accounts[a].id for a in ours.addresses if is_absent(ours, ours.accounts[a])]
        if self.random.random() < 0.1:
            ids.append(Id(self.random.randrange(len(ours.addresses) + 3)))
        self.twin.note_absent(self.random.choice([STRANGER, *self.people]), task, ours.round.number, ids)

    def commit(self, task: Address, who: Address) -> None:
        """Commit to an update: mostly one of its own, sometimes a copy, the head or a root without bytes."""
        ours = self.task(task)
        choice = self.random.random()
        own = self.people.index(who) if who in self.people else 0
        root = list(trees())[1 + own]
        if choice < 0.04:
            root = ours.head_root
        elif choice < 0.07:
            root = self.random.randbytes(32)
        elif choice < 0.15:
            root = self.random.choice(list(trees()))
        samples = self.random.choice([1, 7, 100, 10_000, 10_000, 10_001, 0]) if choice > 0.9 else 100 + own
        sealed = Sealed((root, self.random.randbytes(32), samples), self.random.randbytes(32))
        digest = self.seal(task, who, Phase.TRAIN, worker_payload(*sealed.values), sealed.salt)
        if self.twin.commit_update(who, task, ours.round.number, digest) is None:
            self.updates[task, ours.round.number, who] = sealed

    def seal(self, task: Address, who: Address, phase: Phase, payload: Digest, salt: Digest) -> Digest:
        """A commitment of this sender in this round."""
        ours = self.task(task)
        return commitment(CHAIN_ID, task, ours.task_id, ours.round.number, phase, who, payload, salt)

    def _reveal(self, task: Address, zeal: float) -> None:
        ours = self.task(task)
        if self.random.random() < 0.9:
            self.note_absent(task)
        actors = [self.who(task, id_) for id_ in ours.round.updates]
        self._each(
            task, zeal, actors, lambda who: self.reveal(task, self._committer(task, who, self.updates))
        )
        self._leave(task)

    def _committer(self, task: Address, sender: Address, kept: Mapping[_Moment, object]) -> Address:
        """Whoever committed for the sender's account: mostly the same key must open."""
        ours = self.task(task)
        senders = senders_of(ours, acts_for(ours, sender))
        known = [each for each in senders if (task, ours.round.number, each) in kept]
        return known[0] if known and self.random.random() < 0.95 else sender

    def reveal(self, task: Address, who: Address) -> None:
        """Open an update."""
        number = self.task(task).round.number
        sealed = self.updates.get((task, number, who), Sealed((bytes(32), bytes(32), 1), bytes(32)))
        self.twin.reveal_update(who, task, number, *sealed.values, sealed.salt)

    def _score(self, task: Address, zeal: float) -> None:
        committee = [self.who(task, id_) for id_ in self.task(task).round.committee]
        self._each(task, zeal, committee, lambda who: self.commit_scores(task, who))
        self._leave(task)

    def commit_scores(self, task: Address, who: Address) -> None:
        """Commit to scores: losses, distances or bits, some absurd, some unavailable."""
        ours = self.task(task)
        scores = self.random_scores(ours)
        salt = self.random.randbytes(32)
        payload = validator_payload(ordered_roots(ours), scores)
        digest = self.seal(task, who, Phase.SCORE, payload, salt)
        if self.twin.commit_scores(who, task, ours.round.number, digest) is None:
            self.scores[task, ours.round.number, who] = scores, salt

    def random_scores(self, ours: Task) -> bytes:
        """Score bytes of the right form. In some rounds an update, or the head, is kept from nearly everybody."""
        kind = score_kind(ours.config.rule)
        width = kind.value
        entries = []
        fate = Random(f"{ours.address.hex()} {ours.round.number} {ours.round.seed.hex()}")
        hidden = fate.randrange(20)
        is_head_hidden = ours.older_head is not None and fate.random() < 0.4
        for index, _ in enumerate(ours.round.order):
            choice = self.random.random()
            if choice < (0.85 if index == hidden else 0.05):
                entries.append(unavailable(kind))
            elif width == 1:
                entries.append(1)
            elif choice < 0.12:
                entries.append(self.random.getrandbits(width))
            else:
                entries.append(
                    self.random.choice([10**11, 10**12, 3 * 10**12]) + self.random.randrange(10**11)
                )
        head = self.random.choice([10**12, 10**12 + 5, 2**64 - 1, self.random.getrandbits(64)])
        if is_head_hidden and self.random.random() < 0.9:
            head = 2**64 - 1
        return encode_scores(kind, Scores(head, tuple(entries)))

    def _tally(self, task: Address, zeal: float) -> None:
        committee = [self.who(task, id_) for id_ in self.task(task).round.committee]
        number = self.task(task).round.number
        self._each(
            task,
            max(zeal, 0.5),
            committee,
            lambda who: self.reveal_scores(task, self._committer(task, who, self.scores)),
        )
        caller = self.random.choice([STRANGER, *self.people])
        vectors = revealed_vectors(self.task(task))
        if self.random.random() < 0.1 and vectors:
            self.twin.tally(
                caller, task, number, self.random.choice([vectors[1:], vectors[::-1], [*vectors, b""]])
            )
        if self.task(task).round.phase is not Phase.TALLY:
            return
        if self.twin.tally(caller, task, number, vectors) == "PhaseStillOpen":
            self.twin.now = self.task(task).round.deadline
            self.twin.tally(caller, task, number, vectors)

    def reveal_scores(self, task: Address, who: Address) -> None:
        """Open scores."""
        number = self.task(task).round.number
        scores, salt = self.scores.get((task, number, who), (b"\0" * 8, bytes(32)))
        choice = self.random.random()
        if choice < 0.03:
            scores = scores + b"\0"
        elif choice < 0.06:
            scores = scores[:-1] + bytes([scores[-1] ^ 0x80])
        self.twin.reveal_scores(who, task, number, scores, salt)

    def _propose(self, task: Address, zeal: float) -> None:
        round_ = self.task(task).round
        if self.random.random() < 0.1:
            self.wild(task)
        if self.random.random() < zeal:
            self.propose(task, self.hand(task, self.who(task, round_.proposer)))
        if self.task(task).round.phase is Phase.PROPOSE:
            self._leave(task)

    def propose(self, task: Address, who: Address) -> None:
        """Post the right model, or one with a wrong parameter, perhaps behind the last."""
        ours = self.task(task)
        shares = self.posted_shares(ours)
        model = self.aggregate(ours, shares)
        root = merkle.root(model) if model is not None else self.random.randbytes(32)
        if model is not None and self.random.random() < 0.45:
            position = self.random.randrange(D)
            model = model.copy()
            model[position] ^= np.uint32(1 << self.random.randrange(32))
            root = merkle.root(model)
            self.lies[root] = position
        if model is not None:
            self.models[root] = model
        if shares and self.random.random() < 0.1:
            shares = tuple(self.random.sample(shares, len(shares)))
        self.twin.propose(
            who, task, ours.round.number, ours.round.attempt, root, self.random.randbytes(32), shares
        )

    def posted_shares(self, ours: Task) -> tuple[int, ...]:
        """What the proposer of an attested rule posts."""
        rule, tallied = ours.config.rule, ours.round.tally
        if not rule.is_attested or tallied is None:
            return ()
        if rule is Rule.VARSEL:
            return self._weighed_shares(ours)
        kept = [i for i, counts in enumerate(tallied.included) if counts]
        wanted = min(len(kept), 1 if rule is Rule.KRUM else ours.config.selected)
        picked = set(self.random.sample(kept, wanted))
        p_0 = head_share(ours.config.alpha)
        return (p_0, *equal([i in picked for i in range(len(tallied.included))], TOTAL - p_0))

    def _weighed_shares(self, ours: Task) -> tuple[int, ...]:
        """VaRSeL's shares by weights of anybody's liking, mostly within the budget; none without an internal update."""
        included = ours.round.decided.included
        internals_K = list(compress(internal_updates(ours.round), included))
        left = WHOLE * (ours.config.budget if internals_K.count(True) > 1 else 0)
        left += WHOLE if self.random.random() < 0.05 else 0
        weights_K = [WHOLE] * len(internals_K)
        for k in (k for k, is_internal in enumerate(internals_K) if not is_internal):
            wanted = self.random.choice([0, 1, WHOLE // 3, WHOLE, self.random.randrange(WHOLE)])
            weights_K[k] = min(left, wanted)
            left -= weights_K[k]
        parts = iter(varsel_shares(weights_K, internals_K))
        return (0, *(next(parts) if counts else 0 for counts in included))

    def aggregate(self, ours: Task, posted: Sequence[int]) -> Vector | None:
        """The right next model; None when bytes behind a root are missing."""
        tallied = ours.round.tally
        assert tallied is not None
        head = self.models.get(ours.head_root)
        shares = posted or tallied.shares
        updates = [self.models.get(root) for root in ordered_roots(ours)]
        if ours.config.rule.is_on_ranks:
            kept = [u for u, counts in zip(updates, tallied.included, strict=True) if counts]
            if head is None or any(u is None for u in kept):
                return None
            return combine_ranks(head, [u for u in kept if u is not None], shares)
        if head is None or any(u is None and share for u, share in zip(updates, shares[1:], strict=True)):
            return None
        return combine(head, [HEAD if u is None else u for u in updates], shares)

    def _challenge(self, task: Address, zeal: float) -> None:
        round_ = self.task(task).round
        attempt = round_.attempt
        voters = [self.who(task, id_) for id_ in round_.committee]
        lean = self.random.choice([1.0, 0.8, 0.3])
        self._each(task, zeal, voters, lambda who: self.vote(task, who, self.random.random() < lean))
        if self.task(task).elected and self.random.random() < 0.7:
            self._each(task, 0.6, self.people, lambda who: self._go(task, who))
        if self.random.random() < 0.75:
            self.prove(task, self.random.choice([STRANGER, *self.people, *self.keys]))
        if self.task(task).round.phase is Phase.CHALLENGE and self.task(task).round.attempt == attempt:
            self._leave(task)

    def _go(self, task: Address, who: Address) -> None:
        """Leave a round that has elected, so that the next draw has to wait."""
        self.twin.leave(who, task)

    def vote(self, task: Address, who: Address, attests: bool) -> None:
        """Attest or object."""
        round_ = self.task(task).round
        proposal = round_.proposal
        if proposal is None:
            return
        named = [proposal.model_root, proposal.block, proposal.shares_digest]
        if self.random.random() < 0.05:
            named[self.random.randrange(3)] = self.random.randbytes(32)
        self.twin.vote(who, task, round_.number, round_.attempt, named[0], named[1], named[2], attests)

    def prove(self, task: Address, who: Address) -> None:
        """Show the lie where there is one, or try to."""
        ours, round_ = self.task(task), self.task(task).round
        proposal = round_.proposal
        if proposal is None:
            return
        claim = claim_of(ours)
        position = self.lies.get(proposal.model_root, self.random.randrange(64 << ours.config.depth))
        if self.random.random() < 0.1:
            position = self.random.randrange(64 << ours.config.depth)
        known = {proposal.model_root, *(root for root, _ in claim.parts)}
        if claim.head_share:
            known.add(claim.head_root)
        if not known <= self.models.keys():
            return
        evidence = gather(claim, position, lambda root, index: merkle.prove(self.models[root], index))
        if self.random.random() < 0.1:
            evidence = self._spoil(evidence)
        if self.random.random() < 0.04:
            position += 64 << ours.config.depth
        salt = self.random.randbytes(32)
        if self.random.random() < 0.6:
            note = finder_note(CHAIN_ID, task, round_.number, round_.attempt, position, who, salt)
            self.twin.note_finding(who, task, note)
            if self.random.random() < 0.2:
                self.twin.note_finding(who, task, note)
        if self.twin.prove(who, task, round_.number, round_.attempt, position, evidence, salt) is None:
            self.twin.seen["conviction"] += 1

    def _spoil(self, evidence: Evidence) -> Evidence:
        leaf = evidence.aggregate
        data = bytearray(leaf.data)
        data[self.random.randrange(256)] ^= 1
        choice = self.random.randrange(3)
        if choice == 0:
            return Evidence(Leaf(bytes(data), leaf.siblings), evidence.head, evidence.updates)
        if choice == 1:
            return Evidence(leaf, evidence.head, evidence.updates[1:])
        return Evidence(leaf, evidence.head, (*evidence.updates, leaf))

    # Whatever comes to mind

    def wild(self, task: Address) -> None:
        """One action at a wrong time, by a wrong sender or with wrong values; some happen to be right."""
        twin, random, ours = self.twin, self.random, self.task(task)
        who = random.choice([STRANGER, SPONSOR, *self.people, *self.people, *self.keys])
        least = ours.config.min_stake
        number = ours.round.number + random.choice([0, 0, 0, 0, 1, -1])
        attempt = max(0, ours.round.attempt + random.choice([0, 0, 0, 1, -1]))
        digest = random.choice([bytes(32), random.randbytes(32)])
        allocation = twin.world.registry.allocation(task, who)
        settled = list(ours.pays)
        acts: list[Callable[[], object]] = [
            lambda: twin.deposit(who, random.choice([0, 5, least])),
            lambda: twin.allocate(who, task, random.choice([0, 1, least]), random.choice([0, 1, least])),
            lambda: twin.allocate(who, Address(b"\x33" * 20), 1, 1),
            lambda: twin.deallocate(
                who, task, random.choice([0, 1, allocation.bonded, allocation.bonded // 2, least])
            ),
            lambda: self._hurry(task, who),
            lambda: twin.release(who, task, random.randrange(max(1, allocation.requests + 1))),
            lambda: twin.withdraw(who, random.choice([0, 1, twin.world.registry.free.get(who, 0)])),
            lambda: twin.enrol(who, task),
            lambda: self.enrol(task, who),
            lambda: self.change_operator(task),
            lambda: twin.enrol_for(who, task, random.choice(self.people)),
            lambda: twin.leave(who, task),
            lambda: twin.apply_change(STRANGER, task, who),
            lambda: twin.apply_change(STRANGER, task, who),
            lambda: twin.draw(who, task),
            lambda: twin.draw(who, task, random.choice([b"", b"\xf9", header_of(7)])),
            lambda: self.note_absent(task),
            lambda: twin.note_absent(who, task, max(0, number), [Id(random.randrange(9))]),
            lambda: twin.commit_update(who, task, max(0, number), digest),
            lambda: self.commit(task, who) if ours.round.drawn else None,
            lambda: self.reveal(task, who),
            lambda: twin.commit_scores(who, task, max(0, number), digest),
            lambda: self.reveal_scores(task, who),
            lambda: twin.tally(who, task, max(0, number), revealed_vectors(ours)),
            lambda: twin.propose(
                who, task, max(0, number), attempt, digest, digest, random.choice([(), (1, 2)])
            ),
            lambda: twin.vote(who, task, max(0, number), attempt, digest, digest, bytes(32), True),
            lambda: self.vote(task, who, False),
            lambda: self.prove(task, who),
            lambda: twin.advance(who, task, max(0, number)),
            lambda: twin.claim(who, task, random.choice([[], settled, settled * 2, [number + 7]])),
            lambda: twin.refund(random.choice([who, SPONSOR]), task),
            lambda: twin.abandon(who if random.random() < 0.8 else SPONSOR, task),
            lambda: setattr(twin, "now", twin.now + random.choice([1, 30, 600])),
        ]
        random.choice(acts)()


def random_list(random: Random, people: Sequence[Address]) -> list[Entry]:
    """Mostly nobody, so that everybody may join; else nearly everybody in some role, sometimes everybody at once."""
    if random.random() < 0.6:
        return []
    named = [who for who in people if random.random() < 0.95] or list(people)
    first = random.choice([0, 2, 2, 3, 3, 4, 5])
    entries = [(who, Role.INTERNAL if who in people[:first] else Role.PARTICIPANT) for who in named]
    return [*entries, (ANYONE, Role.PARTICIPANT)] if random.random() < 0.2 else entries


def random_terms(random: Random, entries: Sequence[Entry] = ()) -> TaskConfig:
    """Terms of a small task: every rule, both statistics, limits that bind, committees drawn and appointed."""
    terms = _random_terms(random, entries)
    internals = sum(role is Role.INTERNAL for _, role in entries)
    if internals < 2 or terms.rule.is_elected or (random.random() < 0.15 and terms.rule is not Rule.VARSEL):
        return terms

    size = max(2, internals - random.choice([0, 1]))
    trains = random.random() < 0.6 or terms.rule is Rule.VARSEL
    return replace(
        terms,
        committee_size=size,
        min_internals=random.choice([2, size]),
        internals_train=trains,
        max_updates=max(terms.max_updates, size + random.choice([1, 3])) if trains else terms.max_updates,
    )


def _random_terms(random: Random, entries: Sequence[Entry]) -> TaskConfig:
    internals = sum(role is Role.INTERNAL for _, role in entries)
    rules = [rule for rule in Rule if rule is not Rule.VARSEL or internals > 1]
    rule = random.choice([*rules, Rule.VARSEL] if internals > 1 else rules)
    size = 5 if random.random() < 0.2 else 3
    least = {Rule.FEDROB: 3, Rule.KRUM: 5, Rule.MULTI_KRUM: 5}.get(rule, size if rule.is_elected else 2)
    return config(
        rule,
        statistic=random.choice(list(Statistic)),
        alpha=WAD if rule is Rule.VARSEL else random.choice([WAD, WAD, WAD // 2, WAD // 3]),
        budget=random.choice([0, 1, 1, 10, 255]),
        beta=random.choice([0, WAD, 10**21]),
        keep=random.choice([WAD // 10, WAD // 2, WAD]),
        by_samples=random.random() < 0.5,
        unique_roots=random.random() < 0.5,
        committee_size=size,
        min_updates=least,
        max_updates=least + random.choice([0, 1, 3]),
        redraw_every=random.choice([1, 2, 10, 10]),
        rounds=random.choice([1, 2, 3, 6, 6]),
        target=random.choice([0] * 18 + [10**18, 2**128 - 2]),
        caller_fee=random.choice([0, 10**12]),
        dev_cap=random.choice([0, 10**15, WAD, 2**128 - 1]),
        committee_part=random.choice([0, 3 * WAD // 10]),
        finder_part=random.choice([0, WAD // 5]),
        admission_root=list_root(entries) if entries else NO_LIST,
    )


def new_play(twin: Twin, seed: int) -> Play:
    """Sixteen people before anything has happened."""
    people = [address(FIRST + number) for number in range(16)]
    keys = [address(2 * FIRST + number) for number in range(5)]
    return Play(twin, Random(seed), people, keys=keys)


def play(twin: Twin, seed: int) -> None:
    """One sequence."""
    new_play(twin, seed).run()
