"""Operators: keys that act for another account's stake (docs/protocol.md 3.1, docs/adr/0021-operators.md).

The owner names a key in the registry, the key accepts with its first enrolment; either takes effect at the next draw.
One key acts for one owner at a time. The owner itself may act at all times.
"""

from dataclasses import replace

from chainfl.protocol import errors, events
from chainfl.protocol.state import NO_ADDRESS, Operator, Task
from chainfl.types import Address, Phase


def acts_for(task: Task, sender: Address) -> Address:
    """The account that a sender acts for in this round: its own, or that of the owner whose operator it is."""
    operator = task.operators.get(sender)
    if operator is None or not _is_acting(operator, task.round.number):
        return sender
    return operator.owner


def senders_of(task: Task, owner: Address) -> list[Address]:
    """Who may act for an account in this round: itself, and the operator that it has."""
    number = task.round.number
    keys = [key for key, operator in task.operators.items() if operator.owner == owner]
    return [owner, *(key for key in keys if _is_acting(task.operators[key], number))]


def expect_free(task: Task, key: Address, owner: Address) -> None:
    """The key acts for no other account, neither now nor from the next draw on."""
    operator = task.operators.get(key)
    if operator is None or operator.owner == owner:
        return
    if task.round.number < operator.until:
        raise errors.OperatorInUseError(key)


def accept(task: Task, key: Address, owner: Address, named: Address) -> bool:
    """The key accepts to act for an owner who named it; answers whether it did not already."""
    if named != key or owner == key:
        raise errors.NotOperatorError(owner)
    if key in task.accounts:
        raise errors.OperatorInUseError(key)
    expect_free(task, key, owner)
    if task.operator_of.get(owner) == key:
        return False

    # Not before the next draw: commitments of the running round name the key that made them.
    from_round = next_draw(task)
    set_operator(task, owner, key, from_round)
    task.events.append(events.OperatorSet(owner, key, from_round))
    return True


def dismiss(task: Task, owner: Address, named: Address) -> None:
    """The owner named another key, or none: the one it had acts until the next draw."""
    key = task.operator_of.get(owner)
    if key is None or key == named:
        return

    from_round = next_draw(task)
    set_operator(task, owner, NO_ADDRESS, from_round)
    task.events.append(events.OperatorSet(owner, NO_ADDRESS, from_round))


def set_operator(task: Task, owner: Address, key: Address, from_round: int) -> None:
    """Let a key act for the owner from a round on; no address: nobody."""
    if key == NO_ADDRESS:
        old = task.operator_of.pop(owner)
        task.operators[old] = replace(task.operators[old], until=from_round)
        return

    known = task.operators.get(key)
    since = from_round
    # A key that was dismissed and called back before the next draw never stopped.
    if known is not None and known.owner == owner and known.until == from_round:
        since = known.since
    task.operators[key] = Operator(owner, since)
    task.operator_of[owner] = key


def next_draw(task: Task) -> int:
    """The first round whose roles are not drawn yet."""
    is_waiting = task.round.phase is Phase.DRAW
    return task.round.number if is_waiting else task.round.number + 1


def _is_acting(operator: Operator, round_number: int) -> bool:
    return operator.since <= round_number < operator.until
