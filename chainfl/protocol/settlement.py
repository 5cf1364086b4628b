"""The money of a task: who is credited, who is slashed, who pulls what (docs/protocol.md 9)."""

from collections.abc import Sequence

from chainfl.protocol import errors, events, rewards
from chainfl.protocol import shares as sharing
from chainfl.protocol.enrolment import apply_weight
from chainfl.protocol.operators import acts_for
from chainfl.protocol.state import Call, Pay, Stakes, Tally, Task
from chainfl.protocol.views import internal_updates
from chainfl.types import TOTAL, Address, Id, Outcome, Phase, Rule, Slash


def settle(task: Task, outcome: Outcome) -> tuple[int, int, int]:
    """Credit committee and miner, note how workers are paid; answers what each group gets."""
    round_ = task.round
    config = task.config
    tallied = round_.tally
    if tallied is None:
        return 0, 0, 0

    # The budget is a part of what was funded, not of what is left: every round pays the same.
    budget = rewards.round_budget(task.funded, config)
    task.pays[round_.number] = pay = worker_pay(task, tallied, outcome)
    workers = sum(budget.workers * part // pay.whole for part in pay.workers.values())

    committee = 0
    for id_, amount in _committee_pay(task, tallied, budget.committee).items():
        _credit(task, task.by_id(id_).address, amount)
        committee += amount

    # A Void round pays for work that was done, never for a model that was not made.
    miner = budget.miner if outcome is Outcome.FINAL else 0
    if miner:
        _credit(task, task.by_id(round_.proposer).address, miner)

    # Workers are paid when they claim: from here on their part is owed and the sponsor cannot take it back.
    task.escrow -= workers
    task.owed += workers
    return workers, committee, miner


def worker_pay(task: Task, tallied: Tally, outcome: Outcome) -> Pay:
    """By shares where the rule gives them to updates, else equal parts over the included.

    The convicted get nothing, nor does a committee that trains: the sponsor's own earn nothing by what they judge.

    Where too few are included to form shares, each gets what it would have got among the fewest that are enough.
    Of VaRSeL's outsiders most are worth little or nothing: without weights that a majority attested nobody is paid, or
    a round that they void would pay them better than one that counts.
    """
    round_ = task.round
    if task.config.rule is Rule.VARSEL and outcome is not Outcome.FINAL:
        return Pay({}, 1)
    posted = round_.proposal.shares if round_.proposal is not None and outcome is Outcome.FINAL else ()
    shares = posted or tallied.shares

    # A share on a rank belongs to no update: those who count are paid alike.
    if shares and not task.config.rule.is_on_ranks:
        parts = shares[1:]
        whole = TOTAL - shares[0]
    else:
        parts = tuple(int(counts) for counts in tallied.included)
        whole = max(sum(parts), task.config.min_updates)

    paid = {
        id_: part
        for id_, part in zip(round_.order, parts, strict=True)
        if part and id_ not in round_.convicted and id_ not in round_.committee
    }
    return Pay(paid, whole)


def _committee_pay(task: Task, tallied: Tally, amount: int) -> dict[Id, int]:
    """What each validator gets: by closeness where shares were formed, else the plain part of one seat."""
    round_ = task.round
    config = task.config
    is_enough = sharing.is_enough(tallied.included, internal_updates(round_), config)
    if not is_enough or len(tallied.deviations) < sharing.majority(len(round_.committee)):
        return dict.fromkeys(tallied.deviations, amount // len(round_.committee))
    paid = [id_ for id_ in tallied.deviations if id_ not in round_.convicted | round_.absent]
    parts = rewards.committee_pay([tallied.deviations[id_] for id_ in paid], amount)
    return dict(zip(paid, parts, strict=True))


def claim(task: Task, call: Call, rounds: Sequence[int]) -> int:
    """Pull what the sender earned: its credit, and its part as a worker of the rounds named."""
    account = task.accounts.get(call.sender)
    workers = rewards.round_budget(task.funded, task.config).workers
    amount = task.credits.pop(call.sender, 0)
    for number in rounds:
        if number not in task.pays:
            raise errors.RoundNotSettledError(number)
        pay = task.pays[number]
        part = pay.workers.get(account.id, 0) if account else 0

        # A round without a part is no error, so that one call can name any settled rounds.
        if account is None or not part:
            continue
        if (number, account.id) in task.claimed:
            raise errors.AlreadyClaimedError(number)
        task.claimed.add((number, account.id))
        amount += workers * part // pay.whole
    if amount == 0:
        raise errors.NothingToClaimError()

    task.owed -= amount
    task.events.append(events.Claimed(call.sender, amount, tuple(rounds)))
    return amount


def refund(task: Task, call: Call) -> int:
    """The sponsor pulls what was not earned."""
    if call.sender != task.sponsor:
        raise errors.NotSponsorError()
    if task.round.phase is not Phase.ENDED:
        raise errors.TaskNotEndedError()
    if task.escrow == 0:
        raise errors.NothingToClaimError()

    amount, task.escrow = task.escrow, 0
    task.events.append(events.Refunded(amount))
    return amount


def pay_caller(task: Task, call: Call) -> None:
    """Whoever moves the round on earns the caller's fee; an operator earns it for its owner."""
    _credit(task, acts_for(task, call.sender), task.config.caller_fee)


def punish(task: Task, call: Call, stakes: Stakes, id_: Id, kind: Slash) -> None:
    """Slash for silence, or for bytes that a majority could not get; the weight follows at once."""
    address = task.by_id(id_).address
    slashed = stakes.slash(address, task.address, kind, None)
    task.events.append(events.Silent(task.round.number, task.round.phase, id_, slashed.amount))
    if slashed.amount:
        apply_weight(task, call, address, stakes)


def _credit(task: Task, account: Address, amount: int) -> None:
    """Owe an account more, out of escrow."""
    if amount == 0:
        return
    task.escrow -= amount
    task.owed += amount
    task.credits[account] = task.credits.get(account, 0) + amount
    task.events.append(events.Credited(account, amount))
