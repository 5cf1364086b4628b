"""The protocol as a story: one round from the draw to the checked block. Services each run one of these steps."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from chainfl.audit.challenge import find_lie
from chainfl.audit.history import LoggedEvent, PlayedRound
from chainfl.audit.verify import verify_round
from chainfl.ports import BlobStore
from chainfl.protocol.events import RoundEnded
from chainfl.protocol.round import Task, revealed_vectors, trains, voters
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

    def advance(self) -> None:
        """Leave a phase in which all have acted."""
        self.ledger.advance(self.task.round.number)

    def wait(self) -> None:
        """Let the phase's deadline pass."""
        self.chain.now = max(self.chain.now, self.task.round.deadline)


def play_round(net: Network) -> PlayedRound:
    """One round, from the draw to the checked block."""
    before, first = net.task, len(net.chain.world.log)

    # Draw: the ledger picks committee, miner, backups and workers by stake.
    net.ledger.draw()

    # Train, Reveal: every worker trains on the head, commits, then publishes its bytes and shows their root.
    net.each(
        commit_update, [account.id for account in net.task.accounts.values() if trains(net.task, account)]
    )
    net.advance()
    net.each(reveal_update, sorted(net.task.round.updates))
    net.advance()

    # Score, Tally: the committee scores every update, commits, reveals; the ledger forms the shares.
    net.each(commit_scores, net.task.round.committee)
    net.advance()
    net.each(reveal_scores, sorted(net.task.round.scores))
    net.ledger.tally(net.task.round.number, revealed_vectors(net.task))

    # Propose, Challenge: the proposer combines with those shares; validators attest or object; anyone may prove a lie.
    while net.task.round.phase is Phase.PROPOSE:
        proposer = net.task.by_id(net.task.round.proposer).address
        propose(net.participants[proposer], net.liars.get(proposer))
        if prove_lie(net):
            continue
        net.each(vote, voters(net.task.round, net.task.round.proposer))
        net.wait()
        net.advance()

    # Final: anyone can now do the round again and compare.
    played = net.played(before, first)
    verify_round(played, net.store, net.chain.block_hash)
    return played


def prove_lie(net: Network) -> bool:
    """What any watcher does: redo the proposal, and convict whoever stands behind a wrong one."""
    lie = find_lie(net.store, net.task)
    if lie is None:
        return False
    net.ledger.prove(lie.round, lie.attempt, lie.position, lie.evidence, bytes(32))
    return True
