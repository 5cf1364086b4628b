"""The protocol as a story: one round from the draw to the checked block. Services each run one of these steps."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from chainfl.audit.challenge import find_lie
from chainfl.audit.history import PlayedRound
from chainfl.audit.verify import verify_round
from chainfl.errors import ParameterRangeError
from chainfl.ports import BlobStore, LoggedEvent
from chainfl.protocol.events import RoundEnded
from chainfl.protocol.state import Task
from chainfl.protocol.views import is_over, may_score, revealed_vectors, trains, voters
from chainfl.roles.miner import Alter, propose
from chainfl.roles.participant import Participant
from chainfl.roles.validator import commit_scores, reveal_scores, vote
from chainfl.roles.worker import commit_update, reveal_update
from chainfl.sim.memory import Chain, MemoryLedger
from chainfl.types import Address, Id, Phase


@dataclass(slots=True)
class Network:
    """A task in memory and everybody who takes part in it. `ledger` is anyone who moves the round on."""

    chain: Chain
    ledger: MemoryLedger
    store: BlobStore
    participants: dict[Address, Participant]
    liars: dict[Address, Alter]
    threads: int = 1

    @property
    def task(self) -> Task:
        """The task as it stands."""
        return self.ledger.task()

    # What participants do, with the real roles

    def commit_updates(self, ids: Sequence[Id]) -> None:
        """Workers train on the head and commit; what cannot be encoded (NaN, out of range) is never submitted."""
        self.each(_commit_if_valid, ids)

    def reveal_updates(self, ids: Sequence[Id]) -> None:
        """Workers publish their bytes and show their roots."""
        self.each(reveal_update, ids)

    def commit_scores(self, ids: Sequence[Id]) -> None:
        """Validators judge and commit."""
        self.each(commit_scores, ids)

    def reveal_scores(self, ids: Sequence[Id]) -> None:
        """Validators show their scores."""
        self.each(reveal_scores, ids)

    def propose(self, ids: Sequence[Id]) -> None:
        """The proposer combines and posts the next model."""
        for proposer in (self.task.by_id(id_).address for id_ in ids):
            propose(self.participants[proposer], self.liars.get(proposer))

    def prove_lie(self) -> bool:
        """What any watcher does: redo the proposal, and convict the proposer and attesters of a wrong one."""
        lie = find_lie(self.store, self.task)
        if lie is None:
            return False
        self.ledger.prove(lie.round, lie.attempt, lie.position, lie.evidence, bytes(32))
        return True

    def vote(self, ids: Sequence[Id]) -> None:
        """Validators attest what they can redo, else object."""
        self.each(vote, ids)

    def check(self, played: PlayedRound) -> None:
        """Redo the whole round from events and blobs alone."""
        verify_round(played, self.store, self.chain.mix_hash)

    # How a round moves on

    def play(self, phase: Phase, step: Callable[[Sequence[Id]], None], ids: Iterable[Id]) -> None:
        """Let these act if the round is in this phase, then leave it; for who is silent the deadline is waited for."""
        if self.task.round.phase is not phase:
            return
        attempt = self.task.round.attempt
        step(list(ids))
        while (self.task.round.phase, self.task.round.attempt) == (phase, attempt):
            self.leave()

    def leave(self) -> None:
        """Move the round on, once the phase is over."""
        number = self.task.round.number
        if not is_over(self.task, self.chain.now):
            self.wait()
        if self.task.round.phase is Phase.TALLY:
            self.ledger.tally(number, revealed_vectors(self.task))
        else:
            self.ledger.advance(number)

    def wait(self) -> None:
        """Let the phase's deadline pass."""
        self.chain.now = max(self.chain.now, self.task.round.deadline)

    def each(self, step: Callable[[Participant], None], ids: Sequence[Id]) -> None:
        """Let these participants take a step, side by side; what they do does not depend on the order."""
        acting = [self.participants[self.task.by_id(id_).address] for id_ in ids]
        if self.threads == 1:
            for participant in acting:
                step(participant)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            list(pool.map(step, acting))

    def played(self, before: Task, first: int) -> PlayedRound:
        """The round that began with this state, from the ledger's events since then."""
        log = self.chain.world.log[first:]
        kept = tuple(LoggedEvent(event, 0) for emitter, event in log if self._concerns(emitter))
        ended = next((e.event for e in reversed(kept) if isinstance(e.event, RoundEnded)), None)
        return PlayedRound(before.round.number, before, kept, ended)

    def _concerns(self, emitter: Address) -> bool:
        return emitter in (self.ledger.address, self.chain.world.registry_address)


def play_round(net: Network) -> PlayedRound:
    """One round, from the draw to the checked block. Whoever is silent, the round goes on."""
    before = net.task
    first = len(net.chain.world.log)

    # Draw: the ledger picks committee, miner, backups and workers by stake.
    net.ledger.draw()

    # Train, Reveal: every worker trains on the head, commits, then publishes its bytes and shows their root.
    net.play(Phase.TRAIN, net.commit_updates, training(net.task))
    net.play(Phase.REVEAL, net.reveal_updates, sorted(net.task.round.updates))

    # Score, Tally: the committee scores every update, commits, reveals; the ledger forms the shares.
    net.play(Phase.SCORE, net.commit_scores, scoring(net.task))
    net.play(Phase.TALLY, net.reveal_scores, sorted(net.task.round.scores))

    # Propose, Challenge: the proposer combines with those shares; validators attest or object; anyone may prove a lie.
    while net.task.round.phase is Phase.PROPOSE:
        net.play(Phase.PROPOSE, net.propose, [net.task.round.proposer])
        if not net.prove_lie():
            net.play(Phase.CHALLENGE, net.vote, voters(net.task.round, net.task.round.proposer))

    # Final: anyone can now do the round again and compare.
    played = net.played(before, first)
    net.check(played)
    return played


def training(task: Task) -> list[Id]:
    """Who trains in the round, by id. Where workers were drawn, nobody else is looked at."""
    drawn = task.round.drawn
    assert drawn is not None
    everybody = range(1, len(task.addresses) + 1)
    named = (
        everybody if drawn.workers is None else sorted({*drawn.committee, *drawn.proposers, *drawn.workers})
    )
    return [account.id for id_ in named if trains(task, account := task.by_id(Id(id_)))]


def scoring(task: Task) -> list[Id]:
    """Who may score in the round, in committee order."""
    return [id_ for id_ in task.round.committee if may_score(task, id_)]


def _commit_if_valid(me: Participant) -> None:
    try:
        commit_update(me)
    except ParameterRangeError:
        return
