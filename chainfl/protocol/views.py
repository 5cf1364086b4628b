"""What can be read off a task: who may act, when a phase is over, what stands (docs/protocol.md 5)."""

from dataclasses import replace

from chainfl.protocol.draw import Drawn
from chainfl.protocol.proof import Claim, parts_of
from chainfl.protocol.rewards import round_budget
from chainfl.protocol.state import Account, Round, Task
from chainfl.protocol.terms import needed_accounts
from chainfl.types import TOTAL, Address, Digest, Id, Outcome, Phase, Role, TaskConfig

# Who


def trains(task: Task, account: Account) -> bool:
    """Whether the account trains in this round: a training member, a backup, or a worker not shut out by the draw."""
    round_ = task.round
    assert round_.drawn is not None
    if account.id in round_.committee:
        return task.config.rule.is_elected or task.config.internals_train
    if account.weight == 0 or account.active_from > round_.number:
        return False
    if not task.config.rule.is_elected and account.id in round_.drawn.proposers:
        return account.id != round_.drawn.proposers[0]
    return round_.drawn.workers is None or account.id in round_.drawn.workers


def may_score(task: Task, id_: Id) -> bool:
    """Whether a member may commit scores: where the committee trains too, only with an update of its own."""
    update = task.round.updates.get(id_)
    return not task.config.rule.is_elected or (update is not None and update.revealed is not None)


def voters(round_: Round, proposer: Id) -> list[Id]:
    """E: the committee without the proposer and the convicted."""
    return [id_ for id_ in round_.committee if id_ != proposer and id_ not in round_.convicted]


def expected_updates(task: Task, roles: Drawn) -> int:
    """How many can commit: the phase ends early when they all have."""
    config = task.config
    members = len(roles.committee)
    if config.rule.is_elected:
        staked_members = sum(task.by_id(id_).weight > 0 for id_ in roles.committee)
        return members + min(config.max_updates, task.eligible - staked_members)
    own = members if config.internals_train else 0
    return own + min(config.max_updates - own, task.eligible - members - 1)


def internals(task: Task) -> list[Id]:
    """Whom an appointed committee is made of: all internals that ever enrolled, in id order."""
    return [task.accounts[a].id for a in task.addresses if task.roles.get(a) is Role.INTERNAL]


def staked_internals(task: Task) -> list[Id]:
    """The appointed committee, as a draw would find it now."""
    return [id_ for id_ in internals(task) if task.by_id(id_).weight > 0]


def internal_updates(round_: Round) -> list[bool]:
    """Which revealed updates are the committee's own; those of an electing committee are not among them."""
    return [id_ in round_.committee for id_ in round_.order]


def has_enough(task: Task) -> bool:
    """Whether so many are enrolled and staked that a draw can open."""
    config = task.config
    members = len(staked_internals(task)) if config.is_appointed else 0
    return members >= config.min_internals and task.eligible >= needed_accounts(config, members)


def terms_of_round(task: Task) -> TaskConfig:
    """The terms with the size of this round's committee: an appointed one has as many as were staked."""
    if not task.config.is_appointed:
        return task.config
    return replace(task.config, committee_size=len(task.round.committee))


# When


def is_over(task: Task, now: int) -> bool:
    """Whether the phase can be left: its deadline has passed, or everyone expected has acted."""
    return now >= task.round.deadline or has_everyone_acted(task)


def has_everyone_acted(task: Task) -> bool:
    """Whether everybody expected has acted, so that the phase may end before its deadline."""
    round_ = task.round
    if round_.phase is Phase.TRAIN:
        return len(round_.updates) >= round_.expected
    if round_.phase is Phase.REVEAL:
        return all(update.revealed is not None for update in round_.updates.values())
    if round_.phase is Phase.SCORE:
        return all(id_ in round_.scores for id_ in round_.committee if may_score(task, id_))
    if round_.phase is Phase.TALLY:
        return all(scores.revealed is not None for scores in round_.scores.values())
    return False


# What


def revealed_by(round_: Round, id_: Id) -> bytes | None:
    """The scores that a member has opened."""
    scores = round_.scores.get(id_)
    return scores.revealed if scores else None


def revealed_vectors(task: Task) -> list[bytes]:
    """All revealed scores in committee order: what a tally is called with."""
    shown = (revealed_by(task.round, id_) for id_ in task.round.committee)
    return [scores for scores in shown if scores is not None]


def ordered_roots(task: Task) -> list[Digest]:
    """The roots of the revealed updates in index order: what score commitments are bound to."""
    return [task.round.revealed(id_).root for id_ in task.round.order]


def claim_of(task: Task) -> Claim:
    """What the standing proposal claims: its root is what the shares make of head and updates."""
    config = task.config
    proposal = task.round.posted
    tally = task.round.decided

    shares = proposal.shares or tally.shares
    on_ranks = config.rule.is_on_ranks
    parts = parts_of(ordered_roots(task), shares[1:], tally.included, on_ranks)
    ranks = shares[1:] if on_ranks else None
    return Claim(proposal.model_root, task.head_root, shares[0], parts, ranks, config.dimension, config.depth)


def update_parts(task: Task, outcome: Outcome) -> dict[Id, float]:
    """The part that each update has of the round's new model; on ranks, equal parts for all that are included.

    The task is as it stood before the round was settled. A round without a new model has no parts.
    """
    round_ = task.round
    if round_.tally is None or outcome is not Outcome.FINAL or round_.proposal is None:
        return {}
    shares = round_.proposal.shares or round_.tally.shares

    # On ranks the owner of a share differs from parameter to parameter, so all included updates count alike here.
    if task.config.rule.is_on_ranks:
        counted = [id_ for id_, counts in zip(round_.order, round_.tally.included, strict=True) if counts]
        return dict.fromkeys(counted, (TOTAL - shares[0]) / TOTAL / len(counted))
    return {id_: share / TOTAL for id_, share in zip(round_.order, shares[1:], strict=True)}


def unclaimed_rounds(task: Task, who: Address) -> list[int]:
    """The rounds whose pay as a worker the account has not pulled yet."""
    account = task.accounts.get(who)
    if account is None:
        return []
    worked = (number for number, pay in task.pays.items() if pay.workers.get(account.id, 0))
    return [number for number in worked if (number, account.id) not in task.claimed]


def earnings(task: Task, who: Address) -> int:
    """What the account may claim: its credit, and its part as a worker of rounds it has not claimed."""
    budget = round_budget(task.funded, task.config).workers
    account = task.accounts.get(who)
    pays = [task.pays[number] for number in unclaimed_rounds(task, who)]
    parts = [budget * pay.workers[account.id] // pay.whole for pay in pays] if account is not None else []
    return task.credits.get(who, 0) + sum(parts)
