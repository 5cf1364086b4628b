"""What participants do in a round, in the order of its phases (docs/protocol.md 5.2 to 5.7)."""

from collections.abc import Sequence
from dataclasses import replace

from chainfl.codec.commitments import commitment, finder_note, validator_payload, worker_payload
from chainfl.protocol import errors, events
from chainfl.protocol import shares as sharing
from chainfl.protocol.enrolment import apply_weight
from chainfl.protocol.guards import acting, enter, expect_attempt, expect_digest, expect_phase, expect_round
from chainfl.protocol.operators import acts_for
from chainfl.protocol.proof import Evidence, check_evidence
from chainfl.protocol.proposers import next_proposer
from chainfl.protocol.state import (
    Account,
    Call,
    Proposal,
    RevealedUpdate,
    Scores,
    Stakes,
    Task,
    Update,
)
from chainfl.protocol.tally import decoded_scores
from chainfl.protocol.views import claim_of, internal_updates, may_score, ordered_roots, trains
from chainfl.types import Address, Digest, Phase, Slash

# Train, Reveal


def commit_update(task: Task, call: Call, round_number: int, digest: Digest) -> None:
    """A worker, or a member of a training committee, commits to its update. Once."""
    account = acting(task, call, round_number, Phase.TRAIN)
    if not trains(task, account):
        raise errors.NotWorkerError(round_number)
    if account.id in task.round.updates:
        raise errors.AlreadyCommittedError(round_number)
    expect_digest(digest)

    task.round.updates[account.id] = Update(digest)
    forget_absence(task, account)
    task.events.append(events.UpdateCommitted(round_number, account.id, digest))


def forget_absence(task: Task, account: Account) -> None:
    """A commitment ends a row of absences: only those in a row count."""
    if account.missed:
        task.accounts[account.address] = replace(account, missed=0)


def reveal_update(
    task: Task, call: Call, round_number: int, root: Digest, cid: Digest, samples: int, salt: Digest
) -> None:
    """Open the commitment: root and CID of the update, and the number of samples behind it."""
    account = acting(task, call, round_number, Phase.REVEAL)
    update = task.round.updates.get(account.id)
    if update is None:
        raise errors.NotCommittedError(round_number)
    if update.revealed is not None:
        raise errors.AlreadyRevealedError(round_number)
    if not 1 <= samples <= task.config.max_samples:
        raise errors.BadSamplesError(samples, task.config.max_samples)
    if update.commitment != seal(task, Phase.TRAIN, call.sender, worker_payload(root, cid, samples), salt):
        raise errors.WrongRevealError()

    task.round.updates[account.id] = replace(update, revealed=RevealedUpdate(root, cid, samples))
    task.events.append(events.UpdateRevealed(round_number, account.id, root, cid, samples, salt))


# Score, Tally


def commit_scores(task: Task, call: Call, round_number: int, digest: Digest) -> None:
    """A validator commits to its scores of the head and of every revealed update. Once."""
    account = acting(task, call, round_number, Phase.SCORE)
    if account.id not in task.round.committee:
        raise errors.NotValidatorError(round_number)
    if not may_score(task, account.id):
        raise errors.NoOwnUpdateError(round_number)
    if account.id in task.round.scores:
        raise errors.AlreadyCommittedError(round_number)
    expect_digest(digest)

    task.round.scores[account.id] = Scores(digest)
    task.events.append(events.ScoresCommitted(round_number, account.id, digest))


def reveal_scores(task: Task, call: Call, round_number: int, scores: bytes, salt: Digest) -> None:
    """Open the scores. They are bound to the roots they judge, in order."""
    account = acting(task, call, round_number, Phase.TALLY)
    mine = task.round.scores.get(account.id)
    if mine is None:
        raise errors.NotCommittedError(round_number)
    if mine.revealed is not None:
        raise errors.AlreadyRevealedError(round_number)
    decoded_scores(task, scores)
    payload = validator_payload(ordered_roots(task), scores)
    if mine.commitment != seal(task, Phase.SCORE, call.sender, payload, salt):
        raise errors.WrongRevealError()

    task.round.scores[account.id] = replace(mine, revealed=scores)
    task.events.append(events.ScoresRevealed(round_number, account.id, scores, salt))


# Propose, Challenge


def propose(
    task: Task,
    call: Call,
    round_number: int,
    attempt: int,
    model_root: Digest,
    block: Digest,
    shares: Sequence[int],
) -> None:
    """The proposer of this attempt posts the next model. Once."""
    account = acting(task, call, round_number, Phase.PROPOSE)
    round_ = task.round
    expect_attempt(task, attempt)
    if account.id != round_.proposer:
        raise errors.NotProposerError()
    if task.config.rule.is_attested:
        sharing.check_attested(shares, round_.decided.included, internal_updates(round_), task.config)
    elif shares:
        raise errors.BadSharesError()

    round_.proposal = Proposal(account.id, model_root, block, tuple(shares))
    task.events.append(events.Proposed(round_number, attempt, account.id, model_root, block, tuple(shares)))
    enter(task, call, Phase.CHALLENGE)


def vote(
    task: Task,
    call: Call,
    round_number: int,
    attempt: int,
    model_root: Digest,
    block: Digest,
    shares_digest: Digest,
    attests: bool,
) -> None:
    """A validator attests this very proposal or objects to it."""
    account = acting(task, call, round_number, Phase.CHALLENGE)
    round_ = task.round
    expect_attempt(task, attempt)
    if account.id not in round_.committee or account.id in round_.convicted:
        raise errors.NotValidatorError(round_number)
    if account.id == round_.proposer:
        raise errors.ProposerVotesError()
    proposal = round_.posted
    if (model_root, block, shares_digest) != (proposal.model_root, proposal.block, proposal.shares_digest):
        raise errors.OtherProposalError()
    if account.id in round_.votes:
        raise errors.AlreadyVotedError()

    round_.votes[account.id] = attests
    task.events.append(events.Voted(round_number, attempt, account.id, attests))


def note_finding(task: Task, call: Call, note: Digest) -> None:
    """Seal a finding before showing it, so that a copy of the proof does not earn the finder's part.

    A note names its finder and not its sender, so posting it a second time changes nothing.
    """
    if note in task.notes:
        return

    task.notes[note] = call.block_number
    task.events.append(events.FindingNoted(call.sender, note))


def prove(
    task: Task,
    call: Call,
    stakes: Stakes,
    round_number: int,
    attempt: int,
    position: int,
    evidence: Evidence,
    salt: Digest,
) -> None:
    """Show one wrong parameter of the proposal: proposer and attesters are slashed, the next in line proposes."""
    round_ = task.round
    expect_round(task, round_number)
    expect_phase(task, Phase.CHALLENGE)
    expect_attempt(task, attempt)
    expected, found = check_evidence(claim_of(task), position, evidence)
    if expected == found:
        raise errors.NoLieError(expected)

    note = finder_note(task.chain_id, task.address, round_number, attempt, position, call.sender, salt)
    is_noted = task.notes.get(note, call.block_number) < call.block_number
    finder = acts_for(task, call.sender) if is_noted else None
    task.events.append(events.LieProven(round_number, attempt, position, expected, found, call.sender))
    guilty = [round_.proposer, *(id_ for id_ in round_.committee if round_.votes.get(id_, False))]
    for id_ in guilty:
        slashed = stakes.slash(task.by_id(id_).address, task.address, Slash.LIE, finder)
        task.escrow += slashed.to_escrow
        task.events.append(events.Convicted(round_number, attempt, id_, slashed.amount, slashed.to_escrow))
    round_.convicted |= set(guilty)
    for id_ in guilty:
        apply_weight(task, call, task.by_id(id_).address, stakes)
    next_proposer(task, call)


# Commitments


def seal(task: Task, phase: Phase, sender: Address, payload: Digest, salt: Digest) -> Digest:
    """The commitment of a sender to a payload in this phase of the running round."""
    return commitment(
        task.chain_id, task.address, task.task_id, task.round.number, phase, sender, payload, salt
    )
