"""A miner who hides or writes a wrong record: the shipped validator objects, whichever field it is."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TypeVar

import numpy as np
import pytest

from chainfl.blobs import NamedModel, name_model, put_model, put_record
from chainfl.codec.cid import Cid, Codec
from chainfl.codec.records import BlockNode, Member, ModelNode
from chainfl.execution import block_record, next_model
from chainfl.protocol.views import voters
from chainfl.roles.validator import vote
from chainfl.sim.memory import MemoryStore
from chainfl.sim.network import Network, play_round, scoring, training
from chainfl.types import Digest, Id, Phase, Rule
from tests.sim.network import LAYOUT, network

OTHER = Cid.of(b"something else", Codec.DAG_CBOR)
SOMEBODY = b"\x5b" * 20

T = TypeVar("T")
Change = Callable[[BlockNode], BlockNode]


def before_proposal(rule: Rule) -> Network:
    """The second round of a task, tallied: its record has a predecessor with attestations."""
    net = network(rule, participants=12)
    play_round(net)
    net.ledger.draw()
    net.play(Phase.TRAIN, net.commit_updates, training(net.task))
    net.play(Phase.REVEAL, net.reveal_updates, sorted(net.task.round.updates))
    net.play(Phase.SCORE, net.commit_scores, scoring(net.task))
    net.play(Phase.TALLY, net.reveal_scores, sorted(net.task.round.scores))
    return net


def right(net: Network) -> tuple[NamedModel, BlockNode]:
    """What an honest miner would store."""
    shares, model_D = next_model(net.store, net.task)
    named = name_model(model_D, net.task.config.scale, LAYOUT)
    miner = net.task.by_id(net.task.round.proposer).address
    return named, block_record(net.store, net.task, miner, named.cid, shares)


def votes_on(net: Network, named: NamedModel, record: Cid, *, shares: tuple[int, ...]) -> dict[Id, bool]:
    """Propose this, and let the committee vote when it is too late to ask again."""
    round_ = net.task.round
    miner = net.participants[net.task.by_id(round_.proposer).address]
    posted = shares if net.task.config.rule.is_attested else ()
    root = Digest(named.node.root)
    miner.ledger.propose(round_.number, round_.attempt, root, Digest(record.digest), posted)
    net.chain.now = net.task.round.deadline - 5
    for id_ in voters(net.task.round, round_.proposer):
        vote(net.participants[net.task.by_id(id_).address])
    return dict(net.task.round.votes)


def all_object(votes: dict[Id, bool]) -> bool:
    return len(votes) >= 2 and not any(votes.values())


def forget(net: Network, *cids: Cid) -> None:
    """Nobody has these bytes."""
    assert isinstance(net.store, MemoryStore)
    for cid in cids:
        del net.store._blobs[cid]


@pytest.mark.parametrize("rule", [Rule.SOFTMAX, Rule.COMMITTEE_NEAR, Rule.MEDIAN, Rule.KRUM, Rule.VARSEL])
def test_the_right_record_with_the_right_model_is_attested(rule: Rule) -> None:
    net = before_proposal(rule)
    named, record = right(net)
    put_model(net.store, named)

    votes = votes_on(net, named, put_record(net.store, record), shares=record.shares)

    assert len(votes) >= 2
    assert all(votes.values())


def _first_two_swapped(values: tuple[T, ...]) -> tuple[T, ...]:
    return (values[1], values[0], *values[2:])


def _moved_share(block: BlockNode) -> BlockNode:
    shares = list(block.shares)
    most = max(range(1, len(shares)), key=shares.__getitem__)
    shares[most] -= 1
    shares[most - 1] += 1
    return replace(block, shares=tuple(shares))


def _first_update(block: BlockNode, **changes: object) -> BlockNode:
    first, *rest = block.updates
    return replace(block, updates=(replace(first, **changes), *rest))  # type: ignore[arg-type]


def _first_score(block: BlockNode, scores: bytes | None) -> BlockNode:
    return replace(block, scores=(scores, *block.scores[1:]))


def _first_attestation(block: BlockNode, **changes: object) -> BlockNode:
    first, *rest = block.attestations
    return replace(block, attestations=(replace(first, **changes), *rest))  # type: ignore[arg-type]


def _first_member(block: BlockNode, member: Member) -> BlockNode:
    return replace(block, committee=(member, *block.committee[1:]))


CHANGES: dict[str, Change] = {
    "chain: another": lambda block: replace(block, chain=block.chain + 1),
    "task: another": lambda block: replace(block, task=SOMEBODY),
    "round: the one before": lambda block: replace(block, round=block.round - 1),
    "round: a later one": lambda block: replace(block, round=block.round + 1),
    "rule: another": lambda block: replace(block, rule="mean"),
    "prev: another": lambda block: replace(block, prev=OTHER),
    "prev: none": lambda block: replace(block, prev=None, attestations=()),
    "head: another": lambda block: replace(block, head=OTHER),
    "committee: another order": lambda block: replace(block, committee=_first_two_swapped(block.committee)),
    "committee: somebody else": lambda block: _first_member(block, Member(SOMEBODY)),
    "committee: a root": lambda block: _first_member(
        block, Member(block.committee[0].validator, b"\x01" * 32)
    ),
    "committee: one less": lambda block: replace(
        block, committee=block.committee[1:], scores=block.scores[1:]
    ),
    "miner: somebody else": lambda block: replace(block, miner=SOMEBODY),
    "updates: another order": lambda block: replace(block, updates=_first_two_swapped(block.updates)),
    "updates: another worker": lambda block: _first_update(block, worker=SOMEBODY),
    "updates: another root": lambda block: _first_update(block, root=b"\x01" * 32),
    "updates: another name": lambda block: _first_update(block, cid=OTHER),
    "updates: not included": lambda block: _first_update(block, cid=None),
    "scores: another": lambda block: _first_score(block, bytes(len(block.scores[0] or b""))),
    "scores: not revealed": lambda block: _first_score(block, None),
    "shares: one unit moved": _moved_share,
    "model: another": lambda block: replace(block, model=block.updates[0].cid or OTHER),
    "attempt: another": lambda block: replace(block, attempt=block.attempt + 1),
    "attestations: none": lambda block: replace(block, attestations=()),
    "attestations: turned around": lambda block: _first_attestation(block, attest=False),
    "attestations: somebody else's": lambda block: _first_attestation(block, validator=SOMEBODY),
    "voids: one more": lambda block: replace(block, voids=(1,)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_record_with_one_wrong_field_is_objected_to(name: str) -> None:
    net = before_proposal(Rule.SOFTMAX)
    named, record = right(net)
    put_model(net.store, named)
    wrong = CHANGES[name](record)
    assert wrong != record

    assert all_object(votes_on(net, named, put_record(net.store, wrong), shares=record.shares))


def test_every_field_of_a_record_is_tried() -> None:
    tried = {name.split(":")[0] for name in CHANGES}

    assert tried == {field.name for field in fields(BlockNode)} - {"kind"}


@pytest.mark.parametrize("name", ["shares: one unit moved", "committee: a root"])
@pytest.mark.parametrize("rule", [Rule.COMMITTEE_NEAR, Rule.MULTI_KRUM, Rule.VARSEL])
def test_other_rules_compare_the_record_as_well(rule: Rule, name: str) -> None:
    net = before_proposal(rule)
    named, record = right(net)
    put_model(net.store, named)

    assert all_object(
        votes_on(net, named, put_record(net.store, CHANGES[name](record)), shares=record.shares)
    )


def test_a_record_that_nobody_has_is_objected_to() -> None:
    net = before_proposal(Rule.SOFTMAX)
    named, record = right(net)
    put_model(net.store, named)

    assert all_object(votes_on(net, named, record.cid, shares=record.shares))


@pytest.mark.parametrize("part", ["node", "bytes"])
def test_a_right_record_over_a_model_that_nobody_has_is_objected_to(part: str) -> None:
    net = before_proposal(Rule.SOFTMAX)
    named, record = right(net)
    put_model(net.store, named)
    forget(net, named.cid if part == "node" else named.node.chunks[0])

    assert all_object(votes_on(net, named, put_record(net.store, record), shares=record.shares))


def test_a_right_record_whose_model_node_names_other_bytes_is_objected_to() -> None:
    net = before_proposal(Rule.SOFTMAX)
    named, record = right(net)
    other = name_model(np.zeros(LAYOUT.d, np.uint32), net.task.config.scale, LAYOUT)
    put_model(net.store, other)
    node: ModelNode = replace(named.node, chunks=other.node.chunks)
    swapped = replace(record, model=put_record(net.store, node))

    assert all_object(votes_on(net, named, put_record(net.store, swapped), shares=record.shares))


def test_a_wrong_model_with_a_record_that_fits_it_is_objected_to() -> None:
    net = before_proposal(Rule.SOFTMAX)
    named, record = right(net)
    wrong_D = np.frombuffer(named.data, ">u4").astype(np.uint32)
    wrong_D[7] += 1
    wrong = name_model(wrong_D, net.task.config.scale, LAYOUT)
    put_model(net.store, wrong)
    fitting = replace(record, model=wrong.cid)

    assert all_object(votes_on(net, wrong, put_record(net.store, fitting), shares=record.shares))
