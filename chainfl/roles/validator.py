"""The validator: score every update, commit, reveal; then attest what it can redo (docs/protocol.md 5)."""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from chainfl.blobs import within
from chainfl.codec.cid import Cid
from chainfl.codec.commitments import validator_payload
from chainfl.codec.scores import (
    UNAVAILABLE,
    ScoreKind,
    Scores,
    accuracy_score,
    encode_scores,
    loss_score,
    unavailable,
)
from chainfl.codec.vector import Vector
from chainfl.errors import (
    BlobNotFoundError,
    ChainflError,
    ProtocolError,
    StoreError,
    StoreTimeoutError,
    VerificationError,
)
from chainfl.execution import (
    Budget,
    Kept,
    check_proposal,
    fetch,
    floats,
    keep_head,
    keep_update,
    side_by_side,
)
from chainfl.ports import Floats, SealedScores
from chainfl.protocol.actions import seal
from chainfl.protocol.combine import squared_distances
from chainfl.protocol.state import Proposal, Task
from chainfl.protocol.tally import score_kind
from chainfl.protocol.views import ordered_roots
from chainfl.roles.budget import has_time, io_budget
from chainfl.roles.participant import Participant
from chainfl.types import Digest, Phase, Rule

_SCORED_AT_ONCE = 32
_log = logging.getLogger(__name__)


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
    _expect_same_updates(me, sealed)
    me.ledger.commit_scores(number, sealed.digest)


def _expect_same_updates(me: Participant, sealed: SealedScores) -> None:
    """Judging takes time, and a reorg may change meanwhile what there is to judge: such scores are not committed."""
    task = me.ledger.task()
    if task.round.phase is not Phase.SCORE or sealed.digest != _digest(me, task, sealed.scores, sealed.salt):
        raise ProtocolError(
            f"round {task.round.number}: the updates changed while they were judged: judging those that are there now"
        )


def reveal_scores(me: Participant) -> None:
    """Open the commitment to the scores that stands on the ledger."""
    task = me.ledger.task()
    number = task.round.number
    account = task.accounts.get(me.ledger.me)
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

    # No trust in the miner: the sum is made again from the same bytes and shares.
    attests = _redoes(me, task)
    me.ledger.vote(
        task.round.number,
        task.round.attempt,
        proposal.model_root,
        proposal.block,
        proposal.shares_digest,
        attests,
    )
    if attests:
        _keep_block(me, task, proposal)


def _redoes(me: Participant, task: Task) -> bool:
    """Whether redoing gives what is proposed; whatever cannot be had when time runs out makes it a no."""
    try:
        check_proposal(me.store, task, io_budget(me, task))
        return True
    except VerificationError as error:
        why: ChainflError = error
    except StoreError as error:
        if has_time(me, task):
            raise
        why = error
    _log.warning("round %d.%d: objecting: %s", task.round.number, task.round.attempt, why)
    return False


def _keep_block(me: Participant, task: Task, proposal: Proposal) -> None:
    """Serve the record that was attested, once the vote is cast: without it nobody finds the next head."""
    with suppress(StoreError):
        store = within(me.store, io_budget(me, task).read)
        store.pin(Cid.dag_cbor(proposal.block), with_links=False)


def seal_scores(me: Participant, task: Task, judged: Scores) -> SealedScores:
    """Encode, and seal under a fresh salt, bound to the roots that were judged."""
    scores = encode_scores(score_kind(task.config.rule), judged)
    salt = me.journal.salt(task.round.number, Phase.SCORE)
    return SealedScores(_digest(me, task, scores, salt), salt, scores)


def _digest(me: Participant, task: Task, scores: bytes, salt: Digest) -> Digest:
    """The commitment to these scores of the updates that are revealed now."""
    payload = validator_payload(ordered_roots(task), scores)
    return seal(task, Phase.SCORE, me.ledger.key, payload, salt)


def judge(me: Participant, task: Task) -> Scores:
    """The head's score, then one entry per update: loss, squared distance to the own update, or a vouch.

    Whatever is not there in time, or not what was promised, is unavailable.

    Raises:
        StoreError: the head or the own store is missing, and there is time to ask again.
        ProtocolError: the own update, from which distances are measured, is lost.
    """
    kind = score_kind(task.config.rule)
    own = me.journal.update(task.round.number) if kind is ScoreKind.DISTANCE else None
    if kind is ScoreKind.DISTANCE and own is None:
        raise ProtocolError(f"round {task.round.number}: the journal holds no update to measure from")

    # Head and updates are fetched at the same time, within one limit that leaves time to judge and to commit.
    scored = 1 + len(task.round.order) if kind is ScoreKind.LOSS else 1
    budget = io_budget(me, task, me.pace.score * scored)
    head, *updates = _keep_all(me, task, budget)
    models = _Models(me, task, budget)

    if kind is ScoreKind.LOSS:
        head_score, *entries = _losses(me, task, models, [head, *updates])
        return Scores(head_score, tuple(entries))

    # Distances and vouches have no loss in them; the head's loss is still needed to end a task at its target.
    head_score = _losses(me, task, models, [head])[0]
    if own is None:
        return Scores(head_score, tuple(int(models.read(each) is not None) for each in updates))
    entries = [
        unavailable(kind)
        if (update_D := models.read(each)) is None
        else squared_distances(own.update, [update_D])[0]
        for each in updates
    ]
    return Scores(head_score, tuple(entries))


@dataclass(frozen=True, slots=True)
class _Named:
    """The head's model or an update: what logs call it, its root, and whether the store has it."""

    name: str
    root: Digest
    kept: Kept


def _keep_all(me: Participant, task: Task, budget: Budget) -> list[_Named]:
    """The head, then the updates in index order, once the store has fetched whatever it can."""
    store = within(me.store, budget.fetch)
    order = task.round.order
    jobs = [partial(keep_head, store, task), *(partial(keep_update, store, task, id_) for id_ in order)]
    kept = side_by_side(jobs, budget.fetch)

    head, *updates = kept
    names = ["the head's model", *(f"the update of participant {id_}" for id_ in order)]
    roots = [task.head_root, *ordered_roots(task)]

    # No worker is to blame for a store of our own that fails, and the whole round hangs on the head.
    failures = (each for each in updates if isinstance(each, StoreError))
    ours = [each for each in failures if not isinstance(each, BlobNotFoundError)]
    if isinstance(head, StoreError):
        ours.append(head)
    if ours and has_time(me, task):
        raise ours[-1]
    return [_Named(*each) for each in zip(names, roots, kept, strict=True)]


@dataclass(frozen=True, slots=True)
class _Models:
    """Reads what the store has fetched, and says of everything else why it counts as unavailable."""

    me: Participant
    task: Task
    budget: Budget

    def read(self, model: _Named) -> Vector | None:
        """The model's vector, its root rebuilt; None where it is not there or not what was promised."""
        kept = model.kept
        if isinstance(kept, Cid):
            try:
                return fetch(within(self.me.store, self.budget.read), self.task, kept, model.root)
            except (StoreError, VerificationError) as error:
                kept = error
        number = self.task.round.number
        _log.warning("round %d: %s is unavailable: %s: %s", number, model.name, _reason(kept), kept)
        return None


def _reason(failure: StoreError | VerificationError) -> str:
    """Whose fault it seems to be: a majority that says "unavailable" costs a worker stake."""
    if isinstance(failure, VerificationError):
        return "wrong bytes"
    is_missing = isinstance(failure, BlobNotFoundError | StoreTimeoutError)
    return "not found in time" if is_missing else "our own store fails"


def _losses(me: Participant, task: Task, models: _Models, wanted: Sequence[_Named]) -> list[int]:
    """The scores of models by this validator's own data, a few at a time so that memory stays bounded."""

    # What cannot be read keeps this entry, which counts as the largest loss.
    scores = [UNAVAILABLE] * len(wanted)
    for batch in _batches(models, wanted):
        judged = _scored(me, task, [model_D for _, model_D in batch])
        for (index, _), score in zip(batch, judged, strict=True):
            scores[index] = score
    return scores


def _batches(models: _Models, wanted: Sequence[_Named]) -> Iterator[list[tuple[int, Floats]]]:
    """Those that can be read, with their places."""
    batch = list[tuple[int, Floats]]()
    for index, each in enumerate(wanted):
        if (model_D := models.read(each)) is not None:
            batch.append((index, floats(model_D, models.task)))
        if len(batch) == _SCORED_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _scored(me: Participant, task: Task, models: Sequence[Floats]) -> list[int]:
    started = time.monotonic()
    judged = me.trainer.score(models)
    me.pace.score = (time.monotonic() - started) / len(models)

    if task.config.rule is Rule.SOFTMAX_ACCURACY:
        return [accuracy_score(each.correct, each.samples) for each in judged]
    return [loss_score(each.loss) for each in judged]
