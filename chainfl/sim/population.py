"""Everybody's learning at once: who is hostile in a round, what each trains, and how each judges.

K updates, D parameters. Hostile participants are hostile in every role they get and know each other; where the
committee is limited to half, those beyond it behave as honest ones for that round.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from chainfl.codec.commitments import training_seed
from chainfl.codec.scores import ScoreKind, Scores, accuracy_score, loss_score
from chainfl.learning.attacks import (
    ABSURD_LOSS,
    Flats,
    Scene,
    ValidatorAttack,
    Values,
    WorkerAttack,
    backdoor,
    forged_scores,
    forged_update,
)
from chainfl.learning.dataset import Labels, Samples
from chainfl.learning.forked import shared_rows
from chainfl.learning.learner import Flat, Job, Learner, Metrics, score_all
from chainfl.learning.parallel import ParallelTraining
from chainfl.learning.privacy import Privacy, private_update, seeded_normal
from chainfl.learning.score import Score
from chainfl.learning.trainer import Trainer
from chainfl.protocol.state import Task
from chainfl.protocol.tally import score_kind
from chainfl.types import Id, Rule


class Engine(Protocol):
    """Where training runs. The same bits wherever that is."""

    def __call__(
        self, learner: Learner, head_D: Flat, jobs: Sequence[Job], round_: int, out_KD: Flat
    ) -> Sequence[Metrics]:
        """Train every job from the head and write its update to its row; returns what each reported, or nothing."""
        ...


@runtime_checkable
class ScoringEngine(Protocol):
    """An engine that scores too, where it trains."""

    def score(
        self, learner: Learner, flats_KD: Sequence[Flat], judges: Sequence[Job]
    ) -> tuple[tuple[Score, ...], ...]:
        """For each model its scores by every judge."""
        ...


_PARALLEL: Final = ParallelTraining()
"""Processes that were forked for one run serve the next one with the same app."""


def train_here(
    learner: Learner, head_D: Flat, jobs: Sequence[Job], round_: int, out_KD: Flat
) -> Sequence[Metrics]:
    """On the cores of this machine."""
    return _PARALLEL(learner, head_D, jobs, round_, out_KD)


@dataclass(frozen=True, slots=True)
class Adversary:
    """Who is hostile and how."""

    ids: frozenset[Id] = frozenset()
    worker: WorkerAttack | None = None
    values: Values = field(default_factory=dict)
    validator: ValidatorAttack | None = None
    at_most_half: bool = True
    workers_a_round: int = 0
    seed: int = 0

    def members(self, committee: Sequence[Id]) -> tuple[Id, ...]:
        """The hostile members of a committee, all of them, in its order."""
        return tuple(id_ for id_ in committee if id_ in self.ids)

    def active_members(self, committee: Sequence[Id]) -> tuple[Id, ...]:
        """Those that act so: where the committee is limited, at most half of it."""
        members = self.members(committee)
        return members[: len(committee) // 2] if self.at_most_half else members

    def trainers(self, task: Task, ids: Sequence[Id]) -> tuple[Id, ...]:
        """Those of the training participants whose updates are hostile in this round."""
        if self.workers_a_round:
            return self._chosen(task.round.number, [id_ for id_ in ids if id_ not in task.round.committee])
        # The limit on hostile members holds for training too: those beyond it behave as honest ones.
        excused = {*self.members(task.round.committee)} - {*self.active_members(task.round.committee)}
        return tuple(id_ for id_ in ids if id_ in self.ids and id_ not in excused)

    def _chosen(self, round_: int, workers: Sequence[Id]) -> tuple[Id, ...]:
        rng = np.random.Generator(np.random.Philox(training_seed(self.seed, "hostile", 0, round_)))
        places = rng.permutation(len(workers))[: self.workers_a_round]
        return tuple(workers[place] for place in sorted(places))


@dataclass(slots=True)
class Population:
    """All participants' trainers, and what the hostile ones do with them.

    `training` is what the honest workers' last trainings returned, each number their mean.
    """

    trainers: Mapping[Id, Trainer]
    classes: int
    adversary: Adversary
    train_all: Engine = train_here
    _rows: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), np.float32))
    _wrong: dict[str, Labels] = field(default_factory=dict)
    _stamped: dict[Id, Samples] = field(default_factory=dict)
    privacy: Privacy | None = None
    preview: Callable[[Task, Flat, Flats, int], Callable[[Flat], Flat] | None] | None = None
    training: dict[str, float] = field(default_factory=dict)

    @property
    def learner(self) -> Learner:
        """The app that all run."""
        return next(iter(self.trainers.values())).learner

    def updates(self, task: Task, head_D: Flat, ids: Sequence[Id]) -> NDArray[np.float32]:
        """Everybody's update of the round, KxD in the order of the ids; valid until the next call."""
        hostile = self.adversary.trainers(task, ids)
        rows_KD = self._room(len(ids), len(head_D))
        self._mean(self._train(task, head_D, ids, hostile, rows_KD))
        self._forge_updates(task, head_D, ids, hostile, rows_KD)
        return rows_KD

    def updates_in_groups(
        self, task: Task, head_D: Flat, ids: Sequence[Id], at_once: int
    ) -> Iterator[NDArray[np.float32]]:
        """The same updates so many at a time; each group's rows are valid until the next. No attack forges any."""
        assert not self.forges_updates
        hostile = self.adversary.trainers(task, ids)

        # Memory for one group is enough: each is combined before the next is trained.
        room_KD = self._room(min(at_once, len(ids)), len(head_D))
        metrics: list[Metrics] = []
        for start in range(0, len(ids), at_once):
            group = ids[start : start + at_once]
            rows_KD = room_KD[: len(group)]
            metrics += self._train(task, head_D, group, hostile, rows_KD)
            yield rows_KD
        self._mean(metrics)

    @property
    def forges_updates(self) -> bool:
        """Whether attackers make their updates from those that all of them would have sent."""
        return self.adversary.worker is not None and self.adversary.worker.update is not None

    def judge(self, task: Task, flats_KD: Sequence[Flat], ids: Sequence[Id]) -> dict[Id, tuple[int, ...]]:
        """Each validator's scores of these models, as integers."""
        judges = [self.trainers[id_].score_job(self.held_out(task, id_)) for id_ in ids]
        by_model = self.scores(flats_KD, judges)
        return {
            id_: tuple(as_score(scores[v], task.config.rule) for scores in by_model)
            for v, id_ in enumerate(ids)
        }

    def scores(self, flats_KD: Sequence[Flat], judges: Sequence[Job]) -> tuple[tuple[Score, ...], ...]:
        """For each model its scores by every judge, from wherever the engine scores."""
        if isinstance(self.train_all, ScoringEngine):
            return self.train_all.score(self.learner, flats_KD, judges)
        return score_all(self.learner, flats_KD, judges)

    def held_out(self, task: Task, id_: Id) -> Any:
        """What a validator scores with: its held-out samples, under wrong labels if that is its attack."""
        clean = self.trainers[id_].held_out
        attack = self.adversary.validator

        flips = attack is not None and attack.flips and id_ in self.active_validators(task)
        return clean.with_labels(self._wrong_labels("flip", clean)) if flips else clean

    def active_validators(self, task: Task) -> tuple[Id, ...]:
        """The validators that are hostile in this round."""
        return () if self.adversary.workers_a_round else self.adversary.active_members(task.round.committee)

    def posted(self, task: Task, honest: Mapping[Id, Scores]) -> dict[Id, Scores]:
        """What the validators post in place of their honest scores; who stays silent is left out."""
        attack = self.adversary.validator
        active = self.active_validators(task)
        if attack is None:
            return dict(honest)

        # A copying colluder posts the entries of the first one, known to it before it commits.
        first = next((honest[id_].entries for id_ in active if id_ in honest), None)
        answer = dict[Id, Scores]()

        for id_, scores in honest.items():
            entries: tuple[int, ...] | None = scores.entries
            if id_ in active:
                seen = [first] if first is not None else []
                entries = forged_scores(attack, scores.entries, self._friends(task), seen)
            if entries is not None:
                answer[id_] = Scores(
                    scores.head, _as_kind(score_kind(task.config.rule), attack, entries, id_ in active)
                )
        return answer

    def _train(
        self, task: Task, head_D: Flat, ids: Sequence[Id], hostile: Sequence[Id], rows_KD: Flat
    ) -> list[Metrics]:
        """Train these into the rows; returns what the honest ones' trainings reported."""
        jobs = [
            self.trainers[id_].train_job(task.round.number, self._train_on(id_, id_ in hostile))
            for id_ in ids
        ]
        metrics = self.train_all(self.learner, head_D, jobs, task.round.number, rows_KD)
        self._protect(task, head_D, ids, rows_KD)
        return [each for id_, each in zip(ids, metrics, strict=True) if id_ not in hostile] if metrics else []

    def _mean(self, metrics: Sequence[Metrics]) -> None:
        if metrics:
            self.training = means(metrics)

    def _friends(self, task: Task) -> list[int]:
        return [index for index, id_ in enumerate(task.round.order) if id_ in self.adversary.ids]

    def _train_on(self, id_: Id, is_hostile: bool) -> Any:
        clean = self.trainers[id_].train_on
        attack = self.adversary.worker
        if is_hostile and attack is not None and attack.trigger is not None:
            return self._triggered(id_, clean, attack.trigger)
        if not is_hostile or attack is None or attack.labels is None:
            return clean
        return clean.with_labels(self._wrong_labels(attack.name, clean))

    def _triggered(
        self, id_: Id, clean: Samples, trigger: Callable[[int, Values], backdoor.Trigger]
    ) -> Samples:
        """The samples of a colluder with a backdoor, made once."""
        if id_ not in self._stamped:
            # Parts of a distributed trigger go by the colluder's place among all colluders.
            values = self.adversary.values
            colluder = sorted(self.adversary.ids).index(id_) if id_ in self.adversary.ids else 0
            self._stamped[id_] = backdoor.poison_with(clean, trigger(colluder, values), values["part"])
        return self._stamped[id_]

    def _wrong_labels(self, name: str, samples: Samples) -> Labels:
        """The whole data set's labels under an attack, made once and shared."""
        attack = self.adversary.worker
        if name not in self._wrong:
            change = attack.labels if attack is not None and attack.name == name else None
            self._wrong[name] = (
                change(samples.y, self.classes) if change is not None else self.classes - 1 - samples.y
            )
        return self._wrong[name]

    def _protect(self, task: Task, head_D: Flat, ids: Sequence[Id], rows_KD: Flat) -> None:
        """Clip and noise every update, from a seed of its own: a simulation is to give the same bits again."""
        if self.privacy is None:
            return
        for id_, row_D in zip(ids, rows_KD, strict=True):
            seed = training_seed(self.adversary.seed, "privacy", id_, task.round.number)
            row_D[:] = private_update(head_D, row_D, self.privacy, seeded_normal(seed))

    def _forge_updates(
        self, task: Task, head_D: Flat, ids: Sequence[Id], hostile: Sequence[Id], rows_KD: Flat
    ) -> None:
        attack = self.adversary.worker
        if not hostile or attack is None or attack.update is None:
            return
        at = [index for index, id_ in enumerate(ids) if id_ in hostile]

        # Colluders see what all of them would have sent honestly, and nobody else's update.
        honest_HD = rows_KD[at]
        workers = max(len(hostile), sum(id_ not in task.round.committee for id_ in ids))
        others_ND, preview = self._seen_by_all(task, head_D, ids, hostile, rows_KD)

        for own, index in enumerate(at):
            seed = training_seed(self.adversary.seed, "attack", ids[index], task.round.number)
            scene = Scene(head_D, honest_HD, own, workers, seed, others_ND, preview)
            rows_KD[index] = forged_update(attack, self.adversary.values, scene)

    def _seen_by_all(
        self, task: Task, head_D: Flat, ids: Sequence[Id], hostile: Sequence[Id], rows_KD: Flat
    ) -> tuple[Flats, Callable[[Flat], Flat] | None]:
        """What only omniscient attackers see: the honest workers' updates, and what the rule makes of a forged one."""
        attack = self.adversary.worker
        if attack is None or not attack.is_omniscient:
            return np.empty((0, 0), np.float32), None
        members = set(task.round.committee)
        others_ND = rows_KD[[k for k, id_ in enumerate(ids) if id_ not in hostile and id_ not in members]]
        preview = self.preview(task, head_D, others_ND, len(hostile)) if self.preview is not None else None
        return others_ND, preview

    def _room(self, rows: int, size: int) -> NDArray[np.float32]:
        """Rows for this round's updates; the memory is used again from round to round."""
        if self._rows.shape[0] < rows or self._rows.shape[1] != size:
            self._rows = shared_rows(rows, size)
        return self._rows[:rows]


def means(metrics: Sequence[Metrics]) -> dict[str, float]:
    """Each number's mean over those who have it; what is not finite is left out."""
    found: dict[str, list[float]] = {}
    for each in metrics:
        for name, value in each.items():
            if isfinite(value):
                found.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in sorted(found.items())}


def as_score(score: Score, rule: Rule) -> int:
    """A judgement as the integer that the rule's validators post."""
    if rule is Rule.SOFTMAX_ACCURACY:
        return accuracy_score(score.correct, score.samples)
    return loss_score(score.loss)


def _as_kind(
    kind: ScoreKind, attack: ValidatorAttack, entries: tuple[int, ...], is_hostile: bool
) -> tuple[int, ...]:
    """Forged losses in the words of the rule: refused vouches, or distances as large as can be."""
    if not (is_hostile and attack.forges) or kind is ScoreKind.LOSS:
        return entries
    if kind is ScoreKind.VOUCH:
        return tuple(int(entry != ABSURD_LOSS) for entry in entries)
    return tuple((1 << kind.value) - 2 if entry == ABSURD_LOSS else 0 for entry in entries)
