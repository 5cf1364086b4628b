"""The proposers' turns of a round: what each proposed, who voted how, and which lie was proven."""

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Literal

from chainfl.api import schemas
from chainfl.api.convert import cid_of, place, who
from chainfl.api.money import slash_rows
from chainfl.api.source import PlacedEvent
from chainfl.codec.merkle import LEAF_PARAMETERS
from chainfl.codec.text import hex_of
from chainfl.protocol import events
from chainfl.protocol.proof import ZERO
from chainfl.protocol.shares import majority
from chainfl.protocol.state import Task
from chainfl.types import Id, Outcome, Phase


def attempts_of(task: Task, log: Sequence[PlacedEvent], outcome: Outcome) -> list[schemas.Attempt]:
    """One entry per proposer's turn: cut the events at each entry into Propose."""
    starts = [
        at
        for at, logged in enumerate(log)
        if isinstance(logged.event, events.PhaseEntered) and logged.event.phase is Phase.PROPOSE
    ]
    turns = [log[start:end] for start, end in pairwise([*starts, len(log)])]

    found = []
    convicted = set[Id]()
    for number, (turn, proposer) in enumerate(zip(turns, task.round.turns, strict=False), 1):
        is_last = number == len(turns)
        # Who proposes does not vote, nor does who was convicted in a turn before.
        expected = [id_ for id_ in task.round.committee if id_ != proposer and id_ not in convicted]
        found.append(_attempt(task, number, proposer, turn, outcome if is_last else None, expected))
        convicted |= {e.event.id for e in turn if isinstance(e.event, events.Convicted)}
    return found


def _attempt(
    task: Task,
    number: int,
    proposer: Id,
    turn: Sequence[PlacedEvent],
    outcome: Outcome | None,
    expected: Sequence[Id],
) -> schemas.Attempt:
    """One turn; `outcome` is the round's where the turn is the last, None where another followed."""
    proposed = next((logged for logged in turn if isinstance(logged.event, events.Proposed)), None)
    proposal = proposed.event if proposed else None
    assert proposal is None or isinstance(proposal, events.Proposed)

    # A proven lie ends the turn, not the vote: who had not voted by then was not silent.
    lie = _lie(task, turn, proposer)
    is_closed = outcome is not Outcome.OPEN and lie is None

    return schemas.Attempt(
        attempt=number,
        proposer=who(task, proposer),
        outcome=_outcome(proposal is not None, lie is not None, outcome),
        model_root=hex_of(proposal.model_root) if proposal else None,
        block=cid_of(proposal.block) if proposal else None,
        votes=_votes(task, turn, expected, is_closed) if proposal else [],
        quorum=majority(len(expected)),
        lie=lie,
        place=place(proposed) if proposed else None,
    )


def _outcome(
    has_proposal: bool, has_lie: bool, outcome: Outcome | None
) -> Literal["waiting", "standing", "final", "lie proven", "no quorum", "silent"]:
    if has_lie:
        return "lie proven"
    if outcome is Outcome.OPEN:
        return "standing" if has_proposal else "waiting"
    if not has_proposal:
        return "silent"
    return "final" if outcome is Outcome.FINAL else "no quorum"


def _votes(
    task: Task, turn: Sequence[PlacedEvent], expected: Collection[Id], is_closed: bool
) -> list[schemas.Vote]:
    """Everybody's word; who gave none was silent once voting is closed. A proven lie closes it before its time."""
    cast = {e.event.id: e.event.attests for e in turn if isinstance(e.event, events.Voted)}

    def vote(id_: Id) -> Literal["attests", "objects", "silent", "open"]:
        if id_ in cast:
            return "attests" if cast[id_] else "objects"
        return "silent" if is_closed else "open"

    return [schemas.Vote(validator=who(task, id_), vote=vote(id_)) for id_ in expected]


def _lie(task: Task, turn: Sequence[PlacedEvent], proposer: Id) -> schemas.Lie | None:
    for logged in turn:
        lie = logged.event
        if not isinstance(lie, events.LieProven):
            continue

        # Parameters are stored as unsigned integers around ZERO, in steps of 2 to the minus scale.
        unit = 1 << task.config.scale
        return schemas.Lie(
            position=lie.position,
            leaf=lie.position // LEAF_PARAMETERS,
            expected=lie.expected,
            found=lie.found,
            expected_value=(lie.expected - ZERO) / unit,
            found_value=(lie.found - ZERO) / unit,
            finder=hex_of(lie.finder),
            place=place(logged),
            convictions=_convictions(task, turn, proposer),
        )
    return None


def _convictions(task: Task, turn: Sequence[PlacedEvent], proposer: Id) -> list[schemas.Conviction]:
    return [
        schemas.Conviction(
            account=row.account,
            part="proposed" if row.account.id == proposer else "attested",
            slashed=row.amount,
            to_escrow=row.to_escrow,
            to_finder=row.to_finder,
            burned=row.burned,
        )
        for row in slash_rows(task, turn)
        if row.kind == "lie"
    ]
