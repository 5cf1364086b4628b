"""A run: round after round of an experiment, with what each showed; it can stop, and go on where it stopped."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import isfinite
from typing import Final

from chainfl.audit.history import PlayedRound
from chainfl.codec.vector import Vector
from chainfl.execution import head_model
from chainfl.learning.evaluate import score_many
from chainfl.protocol.state import Task
from chainfl.sim.network import play_round
from chainfl.sim.population import Adversary
from chainfl.sim.quick import Decoded, QuickNetwork
from chainfl.sim.simulation import Simulation
from chainfl.types import TOTAL, Id, Outcome, Phase

WINDOW: Final = 30
"""Rounds that SABFL's stopping rule looks back on."""
LAST: Final = 5
"""Rounds whose mean accuracy a run is summed up by."""


@dataclass(frozen=True, slots=True)
class RoundMetrics:
    """What one round showed. A loss that is no number is None.

    Shares are parts of one; on ranks they are counted by who is included.
    """

    round: int
    outcome: str
    model_root: str
    accuracy: float
    loss: float | None
    committee: int
    hostile_in_committee: int
    acting_hostile: int
    captured: bool
    workers: int
    hostile_workers: int
    included: int
    share_honest: float
    share_hostile: float
    share_head: float
    invalid_updates: int
    seconds: float

    def as_plain(self) -> dict[str, object]:
        """The facts as JSON holds them."""
        return asdict(self)


def play(simulation: Simulation, facts: list[RoundMetrics]) -> Iterator[RoundMetrics]:
    """Play the rounds that are left; each one's facts are also added to `facts`, which holds those of earlier ones."""
    net = simulation.net
    while net.task.round.phase is not Phase.ENDED and not is_finished(simulation, facts):
        started = time.perf_counter()
        played = play_round(net)
        accuracy, loss = test_head(simulation)
        one = facts_of(played, simulation.population.adversary, accuracy, loss, time.perf_counter() - started)
        net.chain.world.log.clear()
        facts.append(one)
        yield one


def is_finished(simulation: Simulation, facts: Sequence[RoundMetrics]) -> bool:
    """Whether the run's stopping rule ends it before its last round."""
    return simulation.experiment.stop == "sabfl" and has_settled([one.accuracy for one in facts])


def has_settled(accuracies: Sequence[float], window: int = WINDOW) -> bool:
    """SABFL's rule: k_i, the lowest by the highest accuracy of the last rounds, has fallen for the first time."""
    steadiness = [
        min(part) / max(part)
        for end in range(window, len(accuracies) + 1)
        if max(part := accuracies[end - window : end]) > 0
    ]
    return any(later < earlier for earlier, later in pairwise(steadiness))


def test_head(simulation: Simulation) -> tuple[float, float]:
    """Accuracy and loss of the head on the data set's test samples."""
    flats = Decoded([head_of(simulation)], simulation.net.task.config.scale)
    found = score_many(simulation.population.model, flats, [simulation.test])[0][0]
    return found.accuracy, found.loss


def head_of(simulation: Simulation) -> Vector:
    """The head's model."""
    net = simulation.net
    return net.head if isinstance(net, QuickNetwork) else head_model(net.store, net.task)


def facts_of(
    played: PlayedRound, adversary: Adversary, accuracy: float, loss: float, seconds: float
) -> RoundMetrics:
    """Who took part, what the rule gave to whom, and how good the head is now."""
    standing = played.standing()
    round_ = standing.round
    trained = [id_ for id_ in round_.updates if id_ not in round_.committee]
    hostile = set(adversary.trainers(standing, sorted(round_.updates))) & set(trained)
    members = () if adversary.workers_a_round else adversary.members(round_.committee)
    acting = () if adversary.workers_a_round else adversary.active_members(round_.committee)
    parts = parts_of(standing, played.outcome)
    hostile_part = sum(part for id_, part in parts.items() if id_ in hostile)
    ended = played.ended
    assert ended is not None
    return RoundMetrics(
        round=played.number,
        outcome=played.outcome.name.lower(),
        model_root=ended.head_root.hex(),
        accuracy=accuracy,
        loss=loss if isfinite(loss) else None,
        committee=len(round_.committee),
        hostile_in_committee=len(members),
        acting_hostile=len(acting),
        captured=len(acting) > len(round_.committee) // 2,
        workers=len(trained),
        hostile_workers=len(hostile),
        included=sum(round_.tally.included) if round_.tally else 0,
        share_honest=sum(parts.values()) - hostile_part,
        share_hostile=hostile_part,
        share_head=1 - sum(parts.values()),
        invalid_updates=round_.expected - len(round_.updates),
        seconds=seconds,
    )


def parts_of(standing: Task, outcome: Outcome) -> dict[Id, float]:
    """The part of the new model that each update has; on ranks, equal parts for all that are included."""
    round_ = standing.round
    if round_.tally is None or outcome is not Outcome.FINAL or round_.proposal is None:
        return {}
    shares = round_.proposal.shares or round_.tally.shares
    if standing.config.rule.is_on_ranks:
        counted = [id_ for id_, counts in zip(round_.order, round_.tally.included, strict=True) if counts]
        return dict.fromkeys(counted, (TOTAL - shares[0]) / TOTAL / len(counted))
    return {id_: share / TOTAL for id_, share in zip(round_.order, shares[1:], strict=True)}


def summary(facts: Sequence[RoundMetrics]) -> dict[str, object]:
    """What the whole run showed."""
    accuracies = [one.accuracy for one in facts]
    last = accuracies[-LAST:]
    return {
        "rounds_played": len(facts),
        "final_rounds": sum(one.outcome == "final" for one in facts),
        "accuracy": accuracies[-1] if facts else None,
        "best_accuracy": max(accuracies, default=None),
        "mean_accuracy_last_five": sum(last) / len(last) if last else None,
        "loss": facts[-1].loss if facts else None,
        "model_root": facts[-1].model_root if facts else None,
        "mean_share_hostile": sum(one.share_hostile for one in facts) / len(facts) if facts else None,
        "captured_rounds": sum(one.captured for one in facts),
        "rounds_with_hostile_majority": sum(one.hostile_in_committee > one.committee // 2 for one in facts),
        "invalid_updates": sum(one.invalid_updates for one in facts),
    }
