"""A history with everything in it, in memory: a lie, a Void, slashes, an update without bytes; and an app over it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fastapi.testclient import TestClient

from chainfl.api.app import create_app
from chainfl.api.follower import Follower
from chainfl.api.settings import ApiSettings
from chainfl.api.source import EventSource
from chainfl.audit.challenge import find_lie, note_lie
from chainfl.codec.cid import Cid
from chainfl.codec.vector import Vector
from chainfl.protocol.events import Drawn, UpdateRevealed
from chainfl.protocol.views import is_over, revealed_vectors, trains, voters
from chainfl.roles.miner import propose
from chainfl.roles.validator import commit_scores, reveal_scores, vote
from chainfl.roles.worker import commit_update, reveal_update
from chainfl.sim.memory import MemoryStore
from chainfl.sim.network import Network
from chainfl.types import Address, Id, Phase, Rule
from tests.api.memory import MemorySource
from tests.sim.network import network

LIE_AT = 123


def tampered(model_D: Vector) -> Vector:
    """The right model with one parameter a step too high."""
    wrong = model_D.copy()
    wrong[LIE_AT] += 1
    return wrong


@dataclass(slots=True)
class Scene:
    """A network, its source, and the app over both."""

    net: Network
    source: EventSource

    @property
    def task(self) -> str:
        """The task's address as the API writes it."""
        return "0x" + self.net.ledger.address.hex()


def scene(rule: Rule = Rule.SOFTMAX, participants: int = 12, rounds: int = 6, internals: int = 0) -> Scene:
    """A fresh task, everybody enrolled; the first so many are an appointed committee that trains."""
    net = network(rule, participants, rounds, internals=internals)
    return Scene(net, MemorySource(net.chain))


def play_plain(net: Network) -> None:
    """A round in which everybody does the right thing."""
    _play_to_proposal(net)
    _finish(net)


def play_lie(net: Network, finder: Address | None = None) -> None:
    """A round whose first proposer lies, is attested by one validator, proven wrong and replaced.

    Without a finder a stranger proves it without a note, and the finder's part is burned.
    """
    _play_to_proposal(net)
    proposer = net.task.by_id(net.task.round.proposer).address
    propose(net.participants[proposer], tampered)
    liar = voters(net.task.round, net.task.round.proposer)[0]
    _attest_blindly(net, net.task.by_id(liar).address)
    lie = find_lie(net.store, net.task)
    assert lie is not None
    ledger = net.ledger if finder is None else net.participants[finder].ledger
    if finder is not None:
        note_lie(ledger, net.task, lie, bytes(32))
    ledger.prove(lie.round, lie.attempt, lie.position, lie.evidence, bytes(32))
    _finish(net)


def play_void(net: Network) -> None:
    """A round in which too few commit: it ends without a model, after training was extended once."""
    _draw(net)
    net.each(commit_update, _workers(net)[:1])
    _leave(net)
    _leave(net)


def play_silence(net: Network) -> None:
    """A round in which one worker does not reveal and one validator does not vote: both lose stake."""
    _draw(net)
    net.each(commit_update, _workers(net))
    _leave(net)
    net.each(reveal_update, sorted(net.task.round.updates)[:-1])
    _leave(net)
    _score(net)
    proposer = net.task.by_id(net.task.round.proposer).address
    propose(net.participants[proposer])
    net.each(vote, voters(net.task.round, net.task.round.proposer)[1:])
    _leave(net)


def play_open(net: Network, until: Phase) -> None:
    """The first half of a round, left open in Train or Challenge."""
    if until is Phase.CHALLENGE:
        _play_to_proposal(net)
        proposer = net.task.by_id(net.task.round.proposer).address
        propose(net.participants[proposer])
        return
    _draw(net)
    net.each(commit_update, _workers(net)[:2])


def lose_update(net: Network, round_: int) -> str:
    """Make the bytes of an update that counts in a round vanish from the store; answers its CID."""
    shown = (event for _, event in net.chain.world.log if isinstance(event, UpdateRevealed))
    cid = Cid.dag_cbor(next(event.cid for event in shown if event.round == round_))
    assert isinstance(net.store, MemoryStore)
    del net.store._blobs[cid]
    return str(cid)


def history() -> Scene:
    """Six rounds: two plain, a lie, a Void, one with silence, and one that is still open."""
    made = scene()
    play_plain(made.net)
    play_plain(made.net)
    play_lie(made.net)
    play_void(made.net)
    play_silence(made.net)
    play_open(made.net, Phase.TRAIN)
    return made


@contextmanager
def client_of(made: Scene, folder: Path, **settings: object) -> Iterator[TestClient]:
    """The app over a scene, read once; tests step on when they need to."""
    values: dict[str, object] = {"index": folder / "index.sqlite", "poll_seconds": 3600} | settings
    app = create_app(made.source, made.net.store, ApiSettings.model_validate(values))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def follower_of(client: TestClient) -> Follower:
    """What follows the chain behind a client."""
    found = client.app.state.services.follower  # type: ignore[attr-defined]
    assert isinstance(found, Follower)
    return found


def first_miner(net: Network) -> Address:
    """Who was drawn first to propose in round 1."""
    drawn = next(event for _, event in net.chain.world.log if isinstance(event, Drawn))
    return net.task.by_id(drawn.proposers[0]).address


def _draw(net: Network) -> None:
    """Draw, then apply what was queued meanwhile, so that late comers take part from the next round on."""
    net.ledger.draw()
    for account in net.task.addresses:
        net.ledger.apply_change(account)


def _leave(net: Network) -> None:
    """Leave the phase, once its deadline has passed where somebody was silent."""
    if not is_over(net.task, net.chain.now):
        net.chain.now = net.task.round.deadline
    net.ledger.advance(net.task.round.number)


def _workers(net: Network) -> list[Id]:
    return [account.id for account in net.task.accounts.values() if trains(net.task, account)]


def _score(net: Network) -> None:
    net.each(commit_scores, net.task.round.committee)
    _leave(net)
    net.each(reveal_scores, sorted(net.task.round.scores))
    net.ledger.tally(net.task.round.number, revealed_vectors(net.task))


def _play_to_proposal(net: Network) -> None:
    _draw(net)
    net.each(commit_update, _workers(net))
    _leave(net)
    net.each(reveal_update, sorted(net.task.round.updates))
    _leave(net)
    _score(net)


def _attest_blindly(net: Network, account: Address) -> None:
    proposal, round_ = net.task.round.proposal, net.task.round
    assert proposal is not None
    net.participants[account].ledger.vote(
        round_.number, round_.attempt, proposal.model_root, proposal.block, proposal.shares_digest, True
    )


def _finish(net: Network) -> None:
    while net.task.round.phase is Phase.PROPOSE:
        proposer = net.task.by_id(net.task.round.proposer).address
        propose(net.participants[proposer])
        net.each(vote, voters(net.task.round, net.task.round.proposer))
        _leave(net)
