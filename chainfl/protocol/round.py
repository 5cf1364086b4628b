"""The round on one page: what ends each phase and what follows (docs/protocol.md 5). `TrainingTask` in Python.

    Draw       draw     anyone, from the randomness of a block named before  -> Train
    Train      advance  enough commitments, or Train again, once             -> Reveal | Void
    Reveal     advance  who hides is slashed; updates get their index        -> Score
    Score      advance  who is silent is slashed                             -> Tally
    Tally      tally    every revealed score becomes inclusion and shares    -> Propose | Void
    Propose    propose  the proposer posts the next model                    -> Challenge
               advance  a silent proposer is slashed, the next in line       -> Propose | Void
    Challenge  advance  a majority attests at the end                        -> Final | Propose | Void
               prove    one wrong parameter convicts, the next in line       -> Propose | Void

What participants do within the phases is in `actions`, what must hold before an action counts in `guards`, who proposes
and how a round ends in `proposers`, who takes part in `enrolment`, the decision in `tally`, the money in `settlement`,
the nouns in `state`, what can be asked in `views`.
"""

from collections.abc import Sequence

from chainfl.codec.commitments import draw_seed, keccak256
from chainfl.codec.header import mix_hash
from chainfl.errors import RlpError
from chainfl.protocol import draw as drawing
from chainfl.protocol import errors, events
from chainfl.protocol import shares as sharing
from chainfl.protocol.enrolment import open_draw
from chainfl.protocol.guards import enter, expect_over, expect_phase, expect_round
from chainfl.protocol.proposers import drop_head, end_round, end_void, loses_head, next_proposer
from chainfl.protocol.settlement import pay_caller, punish
from chainfl.protocol.state import Call, Stakes, Task
from chainfl.protocol.tally import as_set, is_target_reached, tally_of
from chainfl.protocol.views import (
    expected_updates,
    internal_updates,
    revealed_by,
    revealed_vectors,
    staked_internals,
    voters,
)
from chainfl.types import Digest, Outcome, Phase, Slash

# Draw


def draw(task: Task, call: Call, header: bytes, block_hash: Digest | None) -> None:
    """Draw the roles of the round from the header of the block that the opening named.

    `block_hash` is the chain's hash of that block; None (it is out of reach) opens the draw again.
    """
    _expect_drawable(task, call)
    if block_hash is None:
        open_draw(task, call)
        return

    draw_seeded(task, call, _seed(task, header, block_hash))


def _expect_drawable(task: Task, call: Call) -> None:
    round_ = task.round
    expect_phase(task, Phase.DRAW)
    if round_.draw_block == 0:
        raise errors.DrawNotOpenError(round_.number)
    if call.block_number <= round_.draw_block:
        raise errors.DrawTooEarlyError(round_.draw_block)


def _seed(task: Task, header: bytes, block_hash: Digest) -> Digest:
    """From the block's randomness, not from its hash: who builds a block could try hashes until one suits."""
    round_ = task.round
    if keccak256(header) != block_hash:
        raise errors.BadHeaderError(round_.draw_block)
    try:
        randomness = mix_hash(header)
    except RlpError:
        raise errors.BadHeaderError(round_.draw_block) from None
    return draw_seed(task.chain_id, task.address, round_.number, randomness)


def draw_seeded(task: Task, call: Call, seed: Digest) -> None:
    """Draw the roles of the round from a seed that is known."""
    _expect_drawable(task, call)

    round_ = task.round
    roles = draw_for(task, seed)
    round_.drawn = roles
    round_.seed = seed
    round_.expected = expected_updates(task, roles)

    # An election counts for one draw.
    task.elected = None

    workers = roles.workers or ()
    task.events.append(
        events.Drawn(
            round_.number,
            round_.draw_block,
            seed,
            roles.committee,
            roles.proposers,
            roles.workers is not None,
            workers,
            round_.expected,
        )
    )
    pay_caller(task, call)
    enter(task, call, Phase.TRAIN)


def draw_for(task: Task, seed: Digest) -> drawing.Drawn:
    """The roles that this seed gives: by stake, and for rules that elect, with the committee that was elected."""
    config = task.config
    size = config.committee_size
    weights = task.accounts.weights
    if config.is_appointed:
        members = staked_internals(task)
        room = config.max_updates - (len(members) if config.internals_train else 0)
        return drawing.draw_roles(seed, weights, size, room, members, trains=False)

    elects = config.rule.is_elected
    elected = task.elected if elects else None
    return drawing.draw_roles(seed, weights, size, config.max_updates, elected, elects)


# Train to Score, and whatever else ends without data of its own


def advance(task: Task, call: Call, stakes: Stakes, round_number: int) -> None:
    """Leave a phase that is over. Every transition without data of its own is here, and anyone may call it."""
    round_ = task.round
    expect_round(task, round_number)
    if round_.phase is Phase.TRAIN:
        _leave_train(task, call)
    elif round_.phase is Phase.REVEAL:
        _leave_reveal(task, call, stakes)
    elif round_.phase is Phase.SCORE:
        _leave_score(task, call, stakes)
    elif round_.phase is Phase.PROPOSE:
        _leave_propose(task, call, stakes)
    elif round_.phase is Phase.CHALLENGE:
        _leave_challenge(task, call, stakes)
    else:
        raise errors.WrongPhaseError(round_.number, round_.phase)


def _leave_train(task: Task, call: Call) -> None:
    round_ = task.round
    expect_over(task, call)
    left_out = () if task.config.internals_train else round_.committee
    workers = sum(id_ not in left_out for id_ in round_.updates)
    if workers >= task.config.min_updates:
        pay_caller(task, call)
        enter(task, call, Phase.REVEAL)
    elif not round_.extended:
        round_.extended, round_.deadline = True, call.now + task.config.train_seconds
        task.events.append(events.TrainExtended(round_.number, round_.deadline))
    else:
        pay_caller(task, call)
        end_void(task, call)


def _leave_reveal(task: Task, call: Call, stakes: Stakes) -> None:
    round_ = task.round
    expect_over(task, call)
    hidden = sorted(id_ for id_, update in round_.updates.items() if update.revealed is None)
    for id_ in hidden:
        punish(task, call, stakes, id_, Slash.NO_REVEAL)
    set_order(task)
    pay_caller(task, call)
    enter(task, call, Phase.SCORE)


def set_order(task: Task) -> None:
    """Give the revealed updates their index: by enrolment id, an electing committee's own left out."""
    round_ = task.round
    left_out = () if task.config.internals_train else round_.committee
    shown = (id_ for id_, update in sorted(round_.updates.items()) if update.revealed is not None)
    round_.order = tuple(id_ for id_ in shown if id_ not in left_out)


def _leave_score(task: Task, call: Call, stakes: Stakes) -> None:
    round_ = task.round
    expect_over(task, call)
    for id_ in round_.committee:
        if id_ not in round_.scores:
            punish(task, call, stakes, id_, Slash.LIVENESS)
    pay_caller(task, call)
    enter(task, call, Phase.TALLY)


# Tally


def tally(task: Task, call: Call, stakes: Stakes, round_number: int, vectors: Sequence[bytes]) -> None:
    """Turn all revealed scores, given in committee order, into inclusion, shares and perhaps the next committee."""
    round_ = task.round
    config = task.config
    expect_round(task, round_number)
    expect_phase(task, Phase.TALLY)
    revealed = [id_ for id_ in round_.committee if revealed_by(round_, id_) is not None]
    expect_over(task, call)
    if list(vectors) != revealed_vectors(task):
        raise errors.WrongScoresError()

    for id_ in round_.committee:
        if id_ in round_.scores and id_ not in revealed:
            punish(task, call, stakes, id_, Slash.NO_REVEAL)
    pay_caller(task, call)

    tallied = tally_of(task)
    round_.tally = tallied
    task.elected = tallied.elected
    if tallied.elected is not None:
        task.elected_at = call.now
    included = as_set(tallied.included)
    task.events.append(
        events.Tallied(round_number, included, tallied.shares, tallied.elected or (), tallied.head_score)
    )

    # Who shows a root and keeps its bytes from a majority loses what it would have lost by not revealing.
    for id_, is_withheld in zip(round_.order, tallied.withheld, strict=True):
        if is_withheld:
            punish(task, call, stakes, id_, Slash.NO_REVEAL)

    is_reached = is_target_reached(config, tallied.head_score)
    task.ending = task.ending or is_reached
    is_head_lost = loses_head(task)
    if is_head_lost:
        task.events.append(events.HeadDropped(round_number, task.head_root, task.head_block))
        drop_head(task)
    is_enough = sharing.is_enough(tallied.included, internal_updates(round_), config)
    if is_reached or is_head_lost or not is_enough:
        end_void(task, call)
    else:
        next_proposer(task, call)


# Propose and Challenge


def _leave_propose(task: Task, call: Call, stakes: Stakes) -> None:
    expect_over(task, call)
    punish(task, call, stakes, task.round.proposer, Slash.LIVENESS)
    pay_caller(task, call)
    next_proposer(task, call)


def _leave_challenge(task: Task, call: Call, stakes: Stakes) -> None:
    # INVARIANT: Challenge always runs its full length, or a committee could close it before a watcher acts.
    expect_over(task, call)
    round_ = task.round
    expected = voters(round_, round_.proposer)
    silent = [id_ for id_ in expected if id_ not in round_.votes]
    for id_ in silent:
        punish(task, call, stakes, id_, Slash.LIVENESS)
    round_.absent |= set(silent)
    pay_caller(task, call)
    if sum(round_.votes.values()) >= sharing.majority(len(expected)):
        end_round(task, call, Outcome.FINAL)
    else:
        next_proposer(task, call)
