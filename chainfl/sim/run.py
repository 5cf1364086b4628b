"""A run: round after round of an experiment, with what each showed; it can stop, and go on where it stopped."""

import gc
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from math import isfinite
from typing import Final

from chainfl.audit.history import PlayedRound
from chainfl.codec.vector import Vector
from chainfl.execution import head_model
from chainfl.learning.attacks.backdoor import Trigger, triggered
from chainfl.learning.learner import Job
from chainfl.learning.samples import count
from chainfl.learning.score import Score
from chainfl.protocol.views import update_parts
from chainfl.sim.experiment import LAST
from chainfl.sim.network import play_round
from chainfl.sim.population import Adversary
from chainfl.sim.quick import Decoded, QuickNetwork
from chainfl.sim.simulation import Simulation
from chainfl.sim.traffic import Traffic, layout_bytes, round_traffic
from chainfl.types import Phase

WINDOW: Final = 30
"""Rounds that SABFL's stopping rule looks back on."""


@dataclass(frozen=True, slots=True)
class RoundMetrics:
    """What one round showed. A loss that is no number is None.

    Shares are parts of one; on ranks they are counted by who is included. `selected` are the ids whose updates have a
    share, `selected_shares` what each has. `training_loss` and `client_accuracy` (in the order of ids) are there where
    the experiment asks for them, `metrics` where the app's `score` names any. `training` is what `train` returned, such
    as its loss: each number is the mean over the honest workers.
    """

    round: int
    outcome: str
    model_root: str
    accuracy: float | None
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
    hostile_selected: int = 0
    selected: list[int] = field(default_factory=list)
    committee_ids: list[int] = field(default_factory=list)
    training_loss: float | None = None
    client_accuracy: list[float | None] | None = None
    bytes_up: int = 0
    bytes_down: int = 0
    attack_success: float | None = None
    selected_shares: list[float] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    training: dict[str, float] = field(default_factory=dict)

    @property
    def shares(self) -> dict[int, float]:
        """The part of the new model that each participant's update has, by id; those without one are left out."""
        return dict(zip(self.selected, self.selected_shares, strict=False))

    def as_plain(self) -> dict[str, object]:
        """The facts as JSON holds them."""
        return asdict(self)


def play(simulation: Simulation, facts: list[RoundMetrics]) -> Iterator[RoundMetrics]:
    """Play the rounds that are left; each one's facts are also added to `facts`, which holds those of earlier ones."""
    net = simulation.net
    with _settled_heap():
        while net.task.round.phase is not Phase.ENDED and not is_finished(simulation, facts):
            one = _play_one(simulation)
            facts.append(one)
            yield one


@contextmanager
def _settled_heap() -> Iterator[None]:
    """What is in memory now is not looked through for garbage until the rounds are over: torch alone is a long look."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _play_one(simulation: Simulation) -> RoundMetrics:
    """One round and what it showed."""
    net = simulation.net
    started = time.perf_counter()
    simulation.population.training = {}
    played = play_round(net)
    moved = _moved(simulation, played)
    one = replace(
        facts_of(played, simulation.population.adversary, test_head(simulation)),
        bytes_up=moved.up,
        bytes_down=moved.down,
        attack_success=attack_success(simulation),
        training=dict(simulation.population.training),
        seconds=time.perf_counter() - started,
    )

    net.chain.world.log.clear()
    return with_robust_parts(simulation, one)


def is_finished(simulation: Simulation, facts: Sequence[RoundMetrics]) -> bool:
    """Whether the run's stopping rule ends it before its last round."""
    return simulation.experiment.stop == "sabfl" and has_settled(
        [one.accuracy for one in facts if one.accuracy is not None]
    )


def has_settled(accuracies: Sequence[float], window: int = WINDOW) -> bool:
    """SABFL's rule: k_i, the lowest by the highest accuracy of the last rounds, has fallen for the first time."""
    steadiness = [
        min(part) / max(part)
        for end in range(window, len(accuracies) + 1)
        if max(part := accuracies[end - window : end]) > 0
    ]
    return any(later < earlier for earlier, later in pairwise(steadiness))


@dataclass(frozen=True, slots=True)
class Tested:
    """How good a head is: on test samples, on training samples, and for each participant by itself.

    There is no accuracy where an app counts no correct answers.
    """

    accuracy: float | None
    loss: float
    training_loss: float | None = None
    client_accuracy: list[float | None] | None = None
    metrics: dict[str, float] = field(default_factory=dict)


def test_head(simulation: Simulation) -> Tested:
    """The head on the test samples, and on what else the experiment asks for in this round.

    Where there are several sets of test samples, each counts by its number of samples.
    """
    judge = simulation.population.scores
    flats = Decoded([head_of(simulation)], simulation.net.task.config.scale)
    tests = simulation.tests
    scores = judge(flats, tests)[0]
    weights = [count(job.samples) or 1 for job in tests] if len(scores) > 1 else [1]
    loss = sum(w * score.loss for w, score in zip(weights, scores, strict=True)) / sum(weights)

    # Measured on samples that were drawn once, so that rounds can be compared with each other.
    training_loss = None
    if simulation.seen is not None:
        training_loss = _finite(judge(flats, [simulation.seen])[0][0].loss)

    by_client = None
    every = simulation.experiment.clients_every
    if every and played_rounds(simulation) % every == 0:
        judges = [Job(each.held_out, 0, 1) for each in simulation.population.trainers.values()]
        by_client = [_accuracy([score]) for score in judge(flats, judges)[0]]
    return Tested(_accuracy(scores), loss, training_loss, by_client, _metrics(scores, weights))


def _metrics(scores: Sequence[Score], weights: Sequence[int]) -> dict[str, float]:
    """The app's own numbers that all sets of test samples have, each set by its number of samples."""
    shared = sorted(set.intersection(*(set(score.metrics) for score in scores)))
    means = {
        name: sum(w * score.metrics[name] for w, score in zip(weights, scores, strict=True)) / sum(weights)
        for name in shared
    }
    return {name: mean for name, mean in means.items() if isfinite(mean)}


def played_rounds(simulation: Simulation) -> int:
    """How many rounds lie behind."""
    round_ = simulation.net.task.round
    return round_.number if round_.phase is Phase.ENDED else round_.number - 1


def _accuracy(scores: Sequence[Score]) -> float | None:
    samples = sum(score.samples for score in scores)
    return sum(score.correct for score in scores) / samples if samples else None


def attack_success(simulation: Simulation) -> float | None:
    """The part of triggered test samples that the head takes for the attackers' label; None without a backdoor."""
    adversary = simulation.population.adversary
    if adversary.worker is None or adversary.worker.trigger is None:
        return None
    trigger = Trigger(int(adversary.values["target"]))
    flats = Decoded([head_of(simulation)], simulation.net.task.config.scale)
    stamped = triggered(simulation.tests[0].samples, trigger)
    return simulation.population.scores(flats, [Job(stamped, 0)])[0][0].accuracy


def head_of(simulation: Simulation) -> Vector:
    """The head's model."""
    net = simulation.net
    return net.head if isinstance(net, QuickNetwork) else head_model(net.store, net.task)


def facts_of(played: PlayedRound, adversary: Adversary, tested: Tested) -> RoundMetrics:
    """Who took part, what the rule gave to whom, and how good the head is now."""
    standing = played.standing()
    round_ = standing.round

    # An electing committee trains too, but its updates are measured from and not combined.
    trained = [id_ for id_ in round_.updates if id_ not in round_.committee]
    hostile = set(adversary.trainers(standing, sorted(round_.updates))) & set(trained)

    # Where an experiment poisons single workers of a round, no validator is hostile.
    members = () if adversary.workers_a_round else adversary.members(round_.committee)
    acting = () if adversary.workers_a_round else adversary.active_members(round_.committee)

    parts = update_parts(standing, played.outcome)
    hostile_part = sum(part for id_, part in parts.items() if id_ in hostile)
    ended = played.ended
    assert ended is not None

    return RoundMetrics(
        round=played.number,
        outcome=played.outcome.name.lower(),
        model_root=ended.head_root.hex(),
        accuracy=tested.accuracy,
        loss=_finite(tested.loss),
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
        seconds=0.0,
        hostile_selected=sum(part > 0 and id_ in hostile for id_, part in parts.items()),
        selected=[int(id_) for id_, part in parts.items() if part > 0],
        selected_shares=[part for part in parts.values() if part > 0],
        committee_ids=[int(id_) for id_ in round_.committee],
        training_loss=tested.training_loss,
        client_accuracy=tested.client_accuracy,
        metrics=tested.metrics,
    )


def _moved(simulation: Simulation, played: PlayedRound) -> Traffic:
    size = layout_bytes(simulation.population.learner.layout, simulation.experiment.scale)
    return round_traffic(played.standing(), size)


def _finite(loss: float) -> float | None:
    return loss if isfinite(loss) else None


def with_robust_parts(simulation: Simulation, one: RoundMetrics) -> RoundMetrics:
    """The parts that a rule of the simulator's own gave, in place of those in the ledger."""
    net = simulation.net
    if not isinstance(net, QuickNetwork) or net.robust is None or one.outcome != "final":
        return one

    parts = net.robust.parts
    hostile = sum(part for id_, part in parts.items() if id_ in net.hostile)
    every = sum(parts.values())

    return replace(
        one,
        share_honest=every - hostile,
        share_hostile=hostile,
        share_head=1 - every,
        hostile_selected=sum(part > 0 and id_ in net.hostile for id_, part in parts.items()),
        selected=[int(id_) for id_, part in parts.items() if part > 0],
        selected_shares=[part for part in parts.values() if part > 0],
    )


def summary(facts: Sequence[RoundMetrics]) -> dict[str, object]:
    """What the whole run showed."""
    accuracies = [one.accuracy for one in facts if one.accuracy is not None]

    # One round's accuracy varies with its draw: the last few are averaged too.
    last = accuracies[-LAST:]

    return {
        "rounds_played": len(facts),
        "final_rounds": sum(one.outcome == "final" for one in facts),
        "accuracy": accuracies[-1] if accuracies else None,
        "best_accuracy": max(accuracies, default=None),
        "mean_accuracy_last_five": sum(last) / len(last) if last else None,
        "loss": facts[-1].loss if facts else None,
        "model_root": facts[-1].model_root if facts else None,
        "mean_share_hostile": sum(one.share_hostile for one in facts) / len(facts) if facts else None,
        "attack_success": facts[-1].attack_success if facts else None,
        "captured_rounds": sum(one.captured for one in facts),
        "rounds_with_hostile_majority": sum(one.hostile_in_committee > one.committee // 2 for one in facts),
        "invalid_updates": sum(one.invalid_updates for one in facts),
        "hostile_selected": sum(one.hostile_selected for one in facts),
        "training_loss": facts[-1].training_loss if facts else None,
        "bytes_up": sum(one.bytes_up for one in facts),
        "bytes_down": sum(one.bytes_down for one in facts),
        "times_selected": _counts(id_ for one in facts for id_ in one.selected),
        "times_in_committee": _counts(id_ for one in facts for id_ in one.committee_ids),
    }


def _counts(ids: Iterable[int]) -> dict[str, int]:
    """How often each participant's id occurs."""
    return {str(id_): times for id_, times in sorted(Counter(ids).items())}
