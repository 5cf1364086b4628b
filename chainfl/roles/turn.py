"""What the round asks of one participant now. A node takes this step, reads the ledger again, and so on for ever."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto

from chainfl.protocol.enrolment import is_absent
from chainfl.protocol.operators import acts_for
from chainfl.protocol.state import Account, Task
from chainfl.protocol.views import is_over, may_score, revealed_vectors, trains, voters
from chainfl.roles.miner import Alter, propose
from chainfl.roles.participant import Participant
from chainfl.roles.validator import commit_scores, reveal_scores, vote
from chainfl.roles.worker import commit_update, reveal_update
from chainfl.types import Id, Phase


class Duty(Flag):
    """What a process takes on for its account."""

    WORK = auto()
    VALIDATE = auto()
    MINE = auto()
    KEEP = auto()
    ALL = WORK | VALIDATE | MINE | KEEP


@dataclass(frozen=True, slots=True)
class Step:
    """One action. A shared step may be taken by anyone, so that it pays to let another go first."""

    name: str
    take: Callable[[Participant], None]
    is_shared: bool = False


def next_step(me: Participant, task: Task, now: int, duty: Duty, alter: Alter | None = None) -> Step | None:
    """The step to take now; None while others act."""
    # An operator that was named or dismissed in mid-round acts from, or until, the next draw.
    is_acting = acts_for(task, me.ledger.key) == me.ledger.me
    account = task.accounts.get(me.ledger.me) if is_acting else None
    own = _own_step(task, account, duty, alter) if account is not None else None

    # A call after the deadline is refused and still costs gas: from then on only what anyone may do is left.
    if own is not None and now < task.round.deadline:
        return own
    return _shared_step(me, task, now) if Duty.KEEP in duty else None


def _own_step(task: Task, account: Account, duty: Duty, alter: Alter | None) -> Step | None:
    round_ = task.round
    id_ = account.id
    update = round_.updates.get(id_)
    scores = round_.scores.get(id_)
    is_trainer = Duty.VALIDATE in duty if id_ in round_.committee else Duty.WORK in duty

    # A committee that trains too does so as validators: `work` alone does not commit for it.
    if round_.phase is Phase.TRAIN and is_trainer and update is None and trains(task, account):
        return Step("commit update", commit_update)

    # Only what was committed: a reveal without a commitment is refused.
    if round_.phase is Phase.REVEAL and is_trainer and update is not None and update.revealed is None:
        return Step("reveal update", reveal_update)

    if Duty.VALIDATE in duty and id_ in round_.committee:
        if round_.phase is Phase.SCORE and scores is None and may_score(task, id_):
            return Step("commit scores", commit_scores)
        if round_.phase is Phase.TALLY and scores is not None and scores.revealed is None:
            return Step("reveal scores", reveal_scores)
        if (
            round_.phase is Phase.CHALLENGE
            and id_ in voters(round_, round_.proposer)
            and id_ not in round_.votes
        ):
            return Step("vote", vote)

    # The proposer changes with each attempt, so a backup finds its turn here too.
    if Duty.MINE in duty and round_.phase is Phase.PROPOSE and round_.proposer == id_:
        return Step("propose", lambda me: propose(me, alter))
    return None


def _shared_step(me: Participant, task: Task, now: int) -> Step | None:
    round_ = task.round
    if round_.phase is Phase.ENDED:
        return None
    if round_.phase is Phase.DRAW:
        is_due = round_.draw_block and me.ledger.can_draw()
        return Step("draw", lambda me: me.ledger.draw(), is_shared=True) if is_due else None

    absent = absent_workers(task)
    if absent:
        return Step(
            "note absent workers", lambda me: me.ledger.note_absent(round_.number, absent), is_shared=True
        )

    if not is_over(task, now):
        return None

    # Leaving Tally needs the revealed vectors as arguments: the contract keeps their hashes only.
    if round_.phase is Phase.TALLY:
        return Step("tally", tally, is_shared=True)
    return Step(
        f"leave {round_.phase.name.title()}", lambda me: me.ledger.advance(round_.number), is_shared=True
    )


def absent_workers(task: Task) -> list[Id]:
    """Who keeps a round waiting that has too few commitments; noted three times in a row they are out of the draw."""
    if task.round.phase is not Phase.TRAIN or not task.round.extended:
        return []
    return [account.id for account in task.accounts.values() if is_absent(task, account)]


def tally(me: Participant) -> None:
    """Hand all revealed scores to the ledger."""
    task = me.ledger.task()
    me.ledger.tally(task.round.number, revealed_vectors(task))
