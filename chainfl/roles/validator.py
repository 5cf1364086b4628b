"""The validator: score every update, commit, reveal; then attest what it can redo (docs/protocol.md 5)."""

from collections.abc import Iterator, Sequence

from chainfl.codec.commitments import commitment, validator_payload
from chainfl.codec.scores import (
    ScoreKind,
    Scores,
    accuracy_score,
    encode_scores,
    loss_score,
    unavailable,
)
from chainfl.codec.vector import Vector
from chainfl.errors import ProtocolError, StoreError, VerificationError
from chainfl.ports import Floats, SealedScores
from chainfl.protocol.combine import squared_distances
from chainfl.protocol.config import phase_seconds
from chainfl.protocol.state import Task
from chainfl.protocol.tally import score_kind
from chainfl.protocol.views import ordered_roots
from chainfl.redo import check_proposal, floats, head_model, revealed_updates
from chainfl.roles.participant import Participant
from chainfl.types import Digest, Phase, Rule

_SCORED_AT_ONCE = 32
_SECONDS_TO_TRY_AGAIN = 15
"""A little more than the longest pause of a node between two tries."""


def commit_scores(me: Participant) -> None:
    """Judge head and updates, write the scores down, and commit to them."""
    task = me.ledger.task()
    number = task.round.number
    # A reorg can change which updates were revealed; scores of others could not be opened, and that costs stake.
    fitting = (s for s in me.journal.scores(number) if s.digest == _digest(me, task, s.scores, s.salt))
    sealed = next(fitting, None)
    if sealed is None:
        sealed = seal_scores(me, task, judge(me, task))
        me.journal.keep_scores(number, sealed)
    me.ledger.commit_scores(number, sealed.digest)


def reveal_scores(me: Participant) -> None:
    """Open the commitment to the scores that stands on the ledger."""
    task = me.ledger.task()
    number, account = task.round.number, task.accounts.get(me.ledger.me)
    mine = task.round.scores.get(account.id) if account is not None else None
    kept = me.journal.scores(number)
    sealed = next((s for s in kept if mine is not None and s.digest == mine.commitment), None)
    if sealed is None:
        raise ProtocolError(f"round {number}: the journal holds no scores to reveal")
    me.ledger.reveal_scores(number, sealed.scores, sealed.salt)


def vote(me: Participant) -> None:
    """Attest the proposal when redoing it gives the same model and record, else object.

    Raises:
        StoreError: what redoing takes cannot be had yet. The window runs its full length: waiting costs nothing.
    """
    task = me.ledger.task()
    proposal = task.round.proposal
    if proposal is None:
        raise ProtocolError(f"round {task.round.number}: nothing is proposed")
    try:
        check_proposal(me.store, task)
        attests = True
    except VerificationError:
        attests = False
    except StoreError:
        if has_time(me, task):
            raise
        attests = False
    me.ledger.vote(
        task.round.number,
        task.round.attempt,
        proposal.model_root,
        proposal.block,
        proposal.shares_digest,
        attests,
    )


def has_time(me: Participant, task: Task) -> bool:
    """Whether what failed may be tried again before the phase ends: silence costs stake, an opinion never does."""
    left = task.round.deadline - me.ledger.now()
    return left > max(phase_seconds(task.config, task.round.phase) // 2, _SECONDS_TO_TRY_AGAIN)


def seal_scores(me: Participant, task: Task, judged: Scores) -> SealedScores:
    """Encode, and seal under a fresh salt, bound to the roots that were judged."""
    scores = encode_scores(score_kind(task.config.rule), judged)
    salt = me.journal.salt(task.round.number, Phase.SCORE)
    return SealedScores(_digest(me, task, scores, salt), salt, scores)


def _digest(me: Participant, task: Task, scores: bytes, salt: Digest) -> Digest:
    """The commitment to these scores of the updates that are revealed now."""
    payload = validator_payload(ordered_roots(task), scores)
    return commitment(
        task.chain_id,
        task.address,
        task.task_id,
        task.round.number,
        Phase.SCORE,
        me.ledger.me,
        payload,
        salt,
    )


def judge(me: Participant, task: Task) -> Scores:
    """The head's score, then one entry per update: loss, squared distance to the own update, or a vouch."""
    kind = score_kind(task.config.rule)
    if kind is ScoreKind.LOSS:
        return _judge_by_loss(me, task)
    head = _scored(me, task, [floats(head_model(me.store, task), task)])[0]
    if kind is ScoreKind.VOUCH:
        return Scores(head, tuple(int(update is not None) for update in _updates(me, task)))
    own = me.journal.update(task.round.number)
    if own is None:
        raise ProtocolError(f"round {task.round.number}: the journal holds no update to measure from")
    entries = (
        unavailable(kind) if update is None else squared_distances(own.update, [update])[0]
        for update in _updates(me, task)
    )
    return Scores(head, tuple(entries))


def _judge_by_loss(me: Participant, task: Task) -> Scores:
    """Head and updates are scored a few at a time, so that memory stays bounded; the missing ones are noted."""
    scores, batch = list[int](), [floats(head_model(me.store, task), task)]
    missing: set[int] = set()
    for index, update in enumerate(_updates(me, task)):
        if update is None:
            missing.add(index)
        else:
            batch.append(floats(update, task))
        if len(batch) >= _SCORED_AT_ONCE:
            scores += _scored(me, task, batch)
            batch = []
    scores += _scored(me, task, batch) if batch else []
    head, rest = scores[0], iter(scores[1:])
    absent = unavailable(ScoreKind.LOSS)
    return Scores(head, tuple(absent if i in missing else next(rest) for i in range(len(task.round.order))))


def _updates(me: Participant, task: Task) -> Iterator[Vector | None]:
    return revealed_updates(me.store, task, is_patient=has_time(me, task))


def _scored(me: Participant, task: Task, models: Sequence[Floats]) -> list[int]:
    judged = me.trainer.score(models)
    if task.config.rule is Rule.SOFTMAX_ACCURACY:
        return [accuracy_score(each.correct, each.samples) for each in judged]
    return [loss_score(each.loss) for each in judged]
