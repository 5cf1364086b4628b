"""A rule of the simulator's own in a network: what it is given each round, what it keeps, whom it gave which part."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chainfl.codec.commitments import training_seed
from chainfl.codec.vector import Vector, decode, encode
from chainfl.errors import InputError
from chainfl.learning.builtin import BuiltIn, LearningSpec
from chainfl.learning.datasets import load
from chainfl.learning.trainer import Trainer
from chainfl.protocol.combine import combine
from chainfl.protocol.spread import next_record, spread_shares
from chainfl.protocol.state import Task
from chainfl.protocol.tally import decoded_scores
from chainfl.protocol.views import revealed_by
from chainfl.sim.experiment import Experiment
from chainfl.sim.robust.geometry import Updates
from chainfl.sim.robust.play import Memory, aggregate
from chainfl.sim.robust.table import Pipeline, pipeline_of
from chainfl.types import TOTAL, WAD, Id


@dataclass(slots=True)
class RobustRule:
    """A pipeline, the trainer of the root samples if it has some, its memory, and the newest round's parts."""

    pipeline: Pipeline
    seed: int
    root: Trainer | None = None
    memory: Memory = field(default_factory=Memory)
    parts: dict[Id, float] = field(default_factory=dict)

    def next_model(self, task: Task, head: Vector, updates: Mapping[Id, Vector]) -> Vector:
        """What the rule makes of the round's included updates."""
        round_ = task.round
        counted = zip(round_.order, round_.decided.included, strict=True)
        ids = [id_ for id_, counts in counted if counts]
        if self.pipeline.last.entry.name == "softmax-spread":
            return self._by_spread(task, head, ids, updates)
        combined = aggregate(self.pipeline, self.given(task, head, ids, updates))
        self.parts = dict(zip(ids, combined.parts, strict=True))
        return combined.model

    def _by_spread(self, task: Task, head: Vector, ids: list[Id], updates: Mapping[Id, Vector]) -> Vector:
        """Shares by the committee's losses; then every validator's record is brought up to date."""
        round_ = task.round
        places = [round_.order.index(id_) for id_ in ids]
        shown = {id_: revealed_by(round_, id_) for id_ in round_.committee}
        scores = {id_: decoded_scores(task, given) for id_, given in shown.items() if given is not None}

        losses_CK = [[entries[1 + place] for place in places] for entries in scores.values()]
        records = [self.memory.records.get(id_, WAD) for id_ in scores]
        found = spread_shares(losses_CK, records, int(self.pipeline.last.values["sharpness"] * WAD), TOTAL)
        for id_, record, agreement in zip(scores, records, found.agreements, strict=True):
            self.memory.records[id_] = next_record(record, agreement)

        self.parts = {id_: share / TOTAL for id_, share in zip(ids, found.shares, strict=True)}
        return combine(head, [updates[id_] for id_ in ids], (0, *found.shares))

    def given(self, task: Task, head: Vector, ids: list[Id], updates: Mapping[Id, Vector]) -> Updates:
        """The updates with what this rule needs beside them."""
        number = task.round.number
        scale = task.config.scale
        vectors = [updates[id_] for id_ in ids]
        is_remembering = self.pipeline.last.entry.name == "foolsgold"

        return Updates(
            head,
            vectors,
            scale,
            training_seed(self.seed, "rule", 0, number),
            ids,
            encode(self.root.train(decode(head, scale), number), scale) if self.root is not None else None,
            self.memory.with_steps(head, ids, vectors) if is_remembering else (),
        )


def robust_rule(experiment: Experiment, data: str | Path | None) -> RobustRule | None:
    """The rule as the experiment names it; None where it is the chain's own."""
    pipeline = pipeline_of(experiment.rule)
    if pipeline is None:
        return None
    return RobustRule(pipeline, experiment.seed, _root_trainer(pipeline, experiment, data))


def _root_trainer(pipeline: Pipeline, experiment: Experiment, data: str | Path | None) -> Trainer | None:
    """FLTrust's server: a few clean samples of the training data, each label in its proportion."""
    if pipeline.last.entry.name != "fltrust":
        return None
    if experiment.app:
        raise InputError(
            "rule fltrust draws its root samples from a data set by name, and an app has its own"
        )

    dataset = load(experiment.dataset, data)
    spec = LearningSpec(
        experiment.model, experiment.dataset, experiment.recipe, experiment.seed, experiment.score_samples
    )
    seed = training_seed(experiment.seed, "root", 0, 0)
    samples = dataset.train().sampled(int(pipeline.last.values["samples"]), seed)

    return Trainer(
        BuiltIn(spec),
        samples,
        samples,
        score_samples=1,
        master_seed=experiment.seed,
        id_=experiment.participants,
    )
