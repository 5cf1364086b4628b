"""What a round's events say of money: who lost stake, who earned what, what the transactions used."""

from collections import Counter
from collections.abc import Sequence

from chainfl.api import schemas
from chainfl.api.convert import phase_name, place, who
from chainfl.api.source import PlacedEvent, in_phases
from chainfl.audit.history import PlayedRound
from chainfl.codec.text import hex_of
from chainfl.protocol import events, rewards
from chainfl.protocol.settlement import settle, worker_pay
from chainfl.protocol.state import Task
from chainfl.types import Address, Phase
from chainfl.types import Slash as SlashReason

# Slashes


def slash_rows(task: Task, log: Sequence[PlacedEvent]) -> list[schemas.Slash]:
    """Every slash, with the registry's event of where the stake went."""
    splits = [logged for logged in log if isinstance(logged.event, events.Slashed)]
    found = []
    for phase, logged in in_phases(log):
        event = logged.event
        if isinstance(event, events.Silent):
            taken = _take_split(splits, logged, task.by_id(event.id).address)
            found.append(_silence(task, logged, event, _kind(taken, phase), taken))
        elif isinstance(event, events.Convicted):
            taken = _take_split(splits, logged, task.by_id(event.id).address)
            found.append(_conviction(task, logged, event, taken))
    return found


def _take_split(splits: list[PlacedEvent], logged: PlacedEvent, account: Address) -> events.Slashed | None:
    """The registry's event of this slash: the first of its transaction and account that is not yet taken."""
    for at, split in enumerate(splits):
        event = split.event
        assert isinstance(event, events.Slashed)
        if split.transaction == logged.transaction and event.account == account:
            del splits[at]
            return event
    return None


def _silence(
    task: Task,
    logged: PlacedEvent,
    event: events.Silent,
    kind: schemas.SlashKind,
    taken: events.Slashed | None,
) -> schemas.Slash:
    return schemas.Slash(
        task=hex_of(task.address),
        round=event.round,
        phase=phase_name(event.phase),
        kind=kind,
        account=who(task, event.id),
        amount=str(event.slashed),
        to_escrow="0",
        to_finder=str(taken.to_finder if taken else 0),
        burned=str(taken.burned if taken else event.slashed),
        place=place(logged),
    )


def _conviction(
    task: Task, logged: PlacedEvent, event: events.Convicted, taken: events.Slashed | None
) -> schemas.Slash:
    return schemas.Slash(
        task=hex_of(task.address),
        round=event.round,
        phase="challenge",
        kind="lie",
        account=who(task, event.id),
        amount=str(event.slashed),
        to_escrow=str(event.to_escrow),
        to_finder=str(taken.to_finder if taken else 0),
        burned=str(taken.burned if taken else event.slashed),
        place=place(logged),
    )


def _kind(taken: events.Slashed | None, phase: Phase) -> schemas.SlashKind:
    if taken is not None:
        return "no-reveal" if taken.kind is SlashReason.NO_REVEAL else "liveness"
    return "no-reveal" if phase in (Phase.REVEAL, Phase.TALLY) else "liveness"


# Rewards


def reward_rows(played: PlayedRound, standing: Task, log: Sequence[PlacedEvent]) -> list[schemas.Reward]:
    """Who earned what: callers and finders as they act; committee, miner and workers when the round ends."""
    credited = [logged for logged in log if isinstance(logged.event, events.Credited)]
    # The settlement credits committee and miner last; what was credited before is for calls.
    calls = len(credited) - min(len(credited), _credits_due(played, standing))
    settled = credited[calls:]
    has_miner = played.ended is not None and played.ended.miner_paid > 0

    found = [_credit(standing, played, logged, "caller") for logged in credited[:calls]]
    for position, logged in enumerate(settled, 1):
        kind: schemas.RewardKind = "miner" if has_miner and position == len(settled) else "validator"
        found.append(_credit(standing, played, logged, kind))
    return found + _finder_rewards(played, standing, log) + _worker_rewards(played, standing, log)


def _credits_due(played: PlayedRound, standing: Task) -> int:
    """How many credits the round's settlement makes, by the rules."""
    if played.ended is None:
        return 0
    redone = standing.draft()
    settle(redone, played.ended.outcome)
    return sum(isinstance(event, events.Credited) for event in redone.events)


def _credit(task: Task, played: PlayedRound, logged: PlacedEvent, kind: schemas.RewardKind) -> schemas.Reward:
    event = logged.event
    assert isinstance(event, events.Credited)
    return _reward(task, played, kind, event.account, event.amount, logged)


def _reward(
    task: Task,
    played: PlayedRound,
    kind: schemas.RewardKind,
    account: Address,
    amount: int,
    logged: PlacedEvent,
) -> schemas.Reward:
    """What an event gave to an account, which may have never enrolled: anybody can call, or find a lie."""
    enrolled = task.accounts.get(account)

    return schemas.Reward(
        task=hex_of(task.address),
        round=played.number,
        kind=kind,
        account=hex_of(account),
        id=enrolled.id if enrolled else None,
        amount=str(amount),
        place=place(logged),
    )


def _finder_rewards(played: PlayedRound, standing: Task, log: Sequence[PlacedEvent]) -> list[schemas.Reward]:
    """The finder's part of each proven lie; the registry makes it free stake of the finder."""
    return [
        _reward(standing, played, "finder", logged.event.finder, logged.event.to_finder, logged)
        for logged in log
        if isinstance(logged.event, events.Slashed) and logged.event.to_finder
    ]


def _worker_rewards(played: PlayedRound, standing: Task, log: Sequence[PlacedEvent]) -> list[schemas.Reward]:
    """What workers may claim once the round has ended; no event holds it, the shares do."""
    end = next((logged for logged in log if isinstance(logged.event, events.RoundEnded)), None)
    if played.ended is None or end is None or standing.round.tally is None:
        return []

    budget = rewards.round_budget(standing.funded, standing.config).workers
    pay = worker_pay(standing, standing.round.tally, played.ended.outcome)
    return [
        _reward(standing, played, "worker", standing.by_id(id_).address, budget * part // pay.whole, end)
        for id_, part in pay.workers.items()
    ]


# Gas


def gas_lines(gas: Sequence[schemas.Gas]) -> list[schemas.GasLine]:
    """What each kind of transaction used, the largest first."""
    counts = Counter[str]()
    used = Counter[str]()
    for one in gas:
        counts[one.action] += 1
        used[one.action] += one.gas
    return [
        schemas.GasLine(action=action, transactions=counts[action], gas=total)
        for action, total in used.most_common()
    ]
