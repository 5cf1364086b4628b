"""A run on a chain as data: what the simulator needs to play it again (docs/protocol.md section 10)."""

from collections.abc import Iterable

from chainfl.audit.history import PlayedRound
from chainfl.codec.json_codec import pack
from chainfl.codec.manifest import AnyManifest
from chainfl.codec.scores import UNAVAILABLE, decode_scores, vouches
from chainfl.protocol import events
from chainfl.protocol.state import Task
from chainfl.protocol.tally import score_kind
from chainfl.types import TaskConfig


def trace_of(
    config: TaskConfig, manifest: AnyManifest | None, played: Iterable[PlayedRound]
) -> dict[str, object]:
    """A trace of these rounds: what the simulator needs to play them again."""
    rounds = list(played)
    last = rounds[-1].standing()

    return {
        "task": "0x" + last.address.hex(),
        "chain_id": last.chain_id,
        "accounts": {str(account.id): account.address.hex() for account in last.accounts.values()},
        "roles": {
            str(account.id): int(last.roles[who])
            for who, account in last.accounts.items()
            if who in last.roles
        },
        "config": pack(config),
        "manifest": manifest.encode().hex() if manifest is not None else None,
        "rounds": [trace_round(one) for one in rounds],
    }


def trace_round(played: PlayedRound) -> dict[str, object]:
    """One round: seed, stakes, who acted in each phase, every vouch, each attempt's outcome, the model's root."""
    standing = played.standing()
    round_ = standing.round
    log = [logged.event for logged in played.events]
    drawn = next((e for e in log if isinstance(e, events.Drawn)), None)

    return {
        "round": played.number,
        "outcome": played.outcome.name.lower(),
        "draw_block": drawn.block_number if drawn else None,
        "seed": drawn.seed.hex() if drawn else None,
        "changes": [
            {
                "id": e.id,
                "weight": e.weight,
                "active_from": e.active_from,
                "before_draw": drawn is None or index < log.index(drawn),
            }
            for index, e in enumerate(log)
            if isinstance(e, events.WeightSet)
        ],
        "committed": sorted(round_.updates),
        "revealed": sorted(id_ for id_, update in round_.updates.items() if update.revealed is not None),
        "scored": sorted(round_.scores),
        "scores_revealed": sorted(i for i, scores in round_.scores.items() if scores.revealed is not None),
        "vouches": _vouches(standing),
        "without_head": _without_head(standing),
        "attempts": _attempts(log),
        "model_root": played.ended.head_root.hex() if played.ended else None,
        "included": list(standing.round.tally.included) if standing.round.tally else None,
    }


def _vouches(standing: Task) -> dict[str, list[bool]]:
    """For every validator that revealed: which of the updates it vouched for, in index order."""
    kind = score_kind(standing.config.rule)
    count = len(standing.round.order)
    return {
        str(id_): [vouches(kind, entry) for entry in decode_scores(kind, scores.revealed, count).entries]
        for id_, scores in standing.round.scores.items()
        if scores.revealed is not None
    }


def _without_head(standing: Task) -> list[int]:
    """The validators that said they could not get the head; if they are a majority, the one before is head again."""
    round_ = standing.round
    kind = score_kind(standing.config.rule)
    shown = {id_: scores.revealed for id_, scores in round_.scores.items() if scores.revealed is not None}
    return sorted(
        id_ for id_, data in shown.items() if decode_scores(kind, data, len(round_.order)).head == UNAVAILABLE
    )


def _attempts(log: Iterable[events.Event]) -> list[dict[str, object]]:
    attempts: list[dict[str, object]] = []

    for event in log:
        if isinstance(event, events.Proposed):
            attempts.append(
                {
                    "attempt": event.attempt,
                    "proposer": event.id,
                    "model_root": event.model_root.hex(),
                    "votes": {},
                    "convicted": [],
                }
            )
        elif isinstance(event, events.Voted):
            votes = attempts[-1]["votes"]
            assert isinstance(votes, dict)
            votes[str(event.id)] = event.attests
        elif isinstance(event, events.Convicted):
            convicted = attempts[-1]["convicted"]
            assert isinstance(convicted, list)
            convicted.append(event.id)

    return attempts
