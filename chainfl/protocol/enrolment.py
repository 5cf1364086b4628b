"""Enrolment: who takes part, with which weight, from when, and when a draw opens (docs/protocol.md 3, 5.1)."""

from collections.abc import Sequence
from dataclasses import replace

from chainfl.protocol import errors, events, operators
from chainfl.protocol.admission import NO_LIST, Admission, is_listed
from chainfl.protocol.guards import expect_round, expect_running
from chainfl.protocol.state import Account, Call, Stakes, Task
from chainfl.protocol.terms import MAX_WEIGHT, weight_of
from chainfl.protocol.views import has_enough, internals, trains
from chainfl.types import Address, Id, Phase, Role

MOST_MISSED = 3
"""Noted as absent this often in a row, an account is out of the draw until it enrols again."""


def enrol(task: Task, call: Call, stakes: Stakes) -> None:
    """Take part from the next draw on."""
    enrol_as(task, call, stakes, Role.NONE)


def enrol_as(task: Task, call: Call, stakes: Stakes, role: Role) -> None:
    """Take part in this role, which was shown to be the list's; none: it needs no showing."""
    _enrol(task, call, call.sender, stakes, role)


def enrol_for(task: Task, call: Call, stakes: Stakes, owner: Address, role: Role = Role.NONE) -> None:
    """Accept to act for an owner who named the sender, from the next draw on; the owner takes part, if not yet."""
    expect_running(task)

    is_new = operators.accept(task, call.sender, owner, stakes.operator_of(owner, task.address))
    account = task.accounts.get(owner)
    if not is_new or account is None or not account.is_enrolled:
        _enrol(task, call, owner, stakes, role)


def enrol_admitted(task: Task, call: Call, stakes: Stakes, owner: Address, admission: Admission) -> None:
    """Take part, or accept to act for an owner, in a task that has a list of who may join."""
    if not is_listed(task.config.admission_root, owner, admission):
        raise errors.NotAdmittedError(owner)

    if owner == call.sender:
        enrol_as(task, call, stakes, admission.role)
    else:
        enrol_for(task, call, stakes, owner, admission.role)


def operator_named(task: Task, owner: Address, operator: Address) -> None:
    """Called by the registry when an owner of stake has named an operator, or none."""
    operators.dismiss(task, owner, operator)


def _enrol(task: Task, call: Call, who: Address, stakes: Stakes, role: Role) -> None:
    """`role`: as what the list admits it, if that was shown in this call."""
    _take_part(task, who, stakes, role)
    _apply_or_queue(task, call, who, stakes)


def enrol_all(task: Task, calls: Sequence[Call], stakes: Stakes) -> None:
    """Enrol many before the first draw opens, which waits for the last of them. Only simulations do this."""
    for call in calls:
        _take_part(task, call.sender, stakes)
        set_weight(task, call.sender, stakes)
    open_if_enough(task, calls[-1])


def _take_part(task: Task, who: Address, stakes: Stakes, role: Role = Role.NONE) -> None:
    expect_running(task)
    account = task.accounts.get(who)
    if account is not None and account.is_enrolled:
        raise errors.AlreadyEnrolledError()
    if account is None:
        # A key that acts for another owner cannot take part for itself: whose action would it be?
        operators.expect_free(task, who, who)
        if role is Role.NONE and task.config.admission_root != NO_LIST:
            raise errors.NotAdmittedError(who)
    stake = stakes.stake_of(who, task.address)
    if stake < task.config.min_stake:
        raise errors.StakeTooLowError(stake, task.config.min_stake)

    if account is None:
        if role is Role.INTERNAL:
            _expect_seat(task)
        task.addresses.append(who)
        if role is not Role.NONE:
            task.roles[who] = role
            task.events.append(events.Admitted(who, role))
        account = Account(Id(len(task.addresses)), who, True, 0, 0)
    task.accounts[who] = replace(account, is_enrolled=True)
    task.events.append(events.Enrolled(account.id, who))


def _expect_seat(task: Task) -> None:
    """An appointed committee has room for one more, or a round could not be tallied."""
    limit = task.config.committee_size
    if task.config.is_appointed and len(internals(task)) >= limit:
        raise errors.TooManyInternalsError(limit)


def leave(task: Task, call: Call, stakes: Stakes) -> None:
    """Take no part in later draws. The stake stays locked while a round needs it."""
    who = operators.acts_for(task, call.sender)
    account = _enrolled(task, who)

    task.accounts[who] = replace(account, is_enrolled=False)
    task.events.append(events.Left(account.id, who))
    _apply_or_queue(task, call, who, stakes)


def apply_change(task: Task, call: Call, stakes: Stakes, address: Address) -> None:
    """Bring an account's weight in line with its stake and wish. Anyone may, unless a draw is open."""
    if address not in task.accounts:
        raise errors.NotEnrolledError()
    if _draw_is_open(task):
        raise errors.DrawOpenError(task.round.number)

    apply_weight(task, call, address, stakes)


def note_absent(task: Task, call: Call, stakes: Stakes, round_number: int, ids: Sequence[Id]) -> None:
    """Note who was drawn to train and did not commit in Train's first length; the third time in a row puts it out."""
    round_ = task.round
    expect_round(task, round_number)
    is_late = round_.extended if round_.phase is Phase.TRAIN else Phase.TRAIN < round_.phase < Phase.ENDED
    if not is_late:
        raise errors.WrongPhaseError(round_.number, round_.phase)

    for id_ in ids:
        _note_absent(task, call, stakes, id_)


def is_absent(task: Task, account: Account) -> bool:
    """Whether the account trains in this round, outside the committee, has not committed and was not noted yet."""
    round_ = task.round
    if account.id in round_.committee or account.id in round_.updates:
        return False
    return account.absent_in != round_.number and trains(task, account)


def _note_absent(task: Task, call: Call, stakes: Stakes, id_: Id) -> None:
    account = task.by_id(id_) if 1 <= id_ <= len(task.addresses) else None
    if account is None or not is_absent(task, account):
        raise errors.NotAbsentError(id_)

    missed = account.missed + 1
    number = task.round.number
    task.accounts[account.address] = replace(account, missed=missed, absent_in=number)
    task.events.append(events.Absent(number, id_, missed))

    # Out of the draw and no slash: not to commit costs others their time, and may be nobody's fault.
    if missed == MOST_MISSED:
        out = replace(account, is_enrolled=False, missed=0, absent_in=number)
        task.accounts[account.address] = out
        task.events.append(events.Left(id_, account.address))
        apply_weight(task, call, account.address, stakes)


def stake_changed(task: Task, call: Call, stakes: Stakes, address: Address) -> None:
    """Called by the registry when an account's stake in this task has changed."""
    if address in task.accounts:
        _apply_or_queue(task, call, address, stakes)


def unbonding_seconds(task: Task) -> int:
    """How long stake stays slashable after it is deallocated: the longest round; nothing when the task has ended."""
    return 0 if task.round.phase is Phase.ENDED else task.config.longest_round()


def is_locked(task: Task, stakes: Stakes, address: Address) -> bool:
    """Whether the account's stake must stay: a round holds it (role, update, election), or the draw counts it."""
    account = task.accounts.get(address)
    round_ = task.round
    if account is None or round_.phase is Phase.ENDED:
        return False
    # The draw still counts a weight that the stake no longer backs: it stays until the weight is applied.
    if account.weight > _due_weight(task, account, stakes):
        return True
    # An election alone locks nobody, or those elected were held for ever when the others leave. Before Draw opens their
    # stake is held by the update that they were elected for, after it by this.
    if round_.drawn is None:
        return _draw_is_open(task) and account.id in (task.elected or ())
    return account.id in (*round_.committee, *round_.drawn.proposers) or account.id in round_.updates


def _enrolled(task: Task, address: Address) -> Account:
    account = task.accounts.get(address)
    if account is None or not account.is_enrolled:
        raise errors.NotEnrolledError()
    return account


def _due_weight(task: Task, account: Account, stakes: Stakes) -> int:
    stake = stakes.stake_of(account.address, task.address) if account.is_enrolled else 0
    return weight_of(stake, task.config)


def _apply_or_queue(task: Task, call: Call, address: Address, stakes: Stakes) -> None:
    if _draw_is_open(task):
        task.events.append(events.ChangeQueued(task.accounts[address].id, address))
    else:
        apply_weight(task, call, address, stakes)


def apply_weight(task: Task, call: Call, address: Address, stakes: Stakes) -> None:
    """Set the weight that stake and wish ask for. A waiting draw opens when this makes enough."""
    is_changed = set_weight(task, address, stakes)
    if is_changed and task.round.phase is Phase.DRAW:
        open_if_enough(task, call)


def set_weight(task: Task, address: Address, stakes: Stakes) -> bool:
    """Set the weight that stake and wish ask for; answers whether that changed it.

    A full tree takes what still fits instead of refusing, or a queued top-up could block a conviction.
    """
    account = task.accounts[address]
    weight = min(_due_weight(task, account, stakes), MAX_WEIGHT - (task.total_weight - account.weight))
    if weight == account.weight:
        return False

    active_from = account.active_from

    # New among those who can be drawn: in this round's draw if it is still to come, else in the next one.
    if account.weight == 0:
        is_waiting = task.round.phase is Phase.DRAW
        active_from = task.round.number if is_waiting else task.round.number + 1
    task.eligible += (weight > 0) - (account.weight > 0)
    task.total_weight += weight - account.weight
    task.accounts[address] = replace(account, weight=weight, active_from=active_from)
    task.events.append(events.WeightSet(account.id, weight, active_from))
    return True


def _draw_is_open(task: Task) -> bool:
    return task.round.phase is Phase.DRAW and task.round.draw_block != 0


def open_draw(task: Task, call: Call) -> None:
    """Fix the block whose header will seed the draw; from here on changes queue and elected members are locked."""
    _drop_old_election(task, call)
    draw_block = call.block_number + task.seed_delay
    task.round.draw_block = draw_block
    task.events.append(events.DrawOpened(task.round.number, draw_block))


def _drop_old_election(task: Task, call: Call) -> None:
    """A member could have asked for its stake since it was elected: it may have it by now, with nothing at risk."""
    if task.elected is None or call.now < task.elected_at + task.config.longest_round():
        return
    task.elected = None
    task.events.append(events.ElectionDropped(task.round.number))


def open_if_enough(task: Task, call: Call) -> None:
    """Open the draw of a round that has enough staked accounts."""
    if has_enough(task):
        open_draw(task, call)
