"""What attackers who know the rule can work out beforehand: the round's result if all of them send this update.

Rules by losses are tried on the attackers' own held-out samples, for nobody knows the committee's.
"""

from collections.abc import Callable, Sequence

import numpy as np

from chainfl.codec.scores import loss_score
from chainfl.codec.vector import Vector, decode, encode
from chainfl.errors import ParameterRangeError
from chainfl.learning.attacks import Flat, Flats
from chainfl.learning.score import Score
from chainfl.protocol.combine import combine
from chainfl.protocol.shares import SCORE_TO_WAD, softmax
from chainfl.protocol.spread import spread_shares
from chainfl.protocol.state import Task
from chainfl.protocol.terms import parse_rule
from chainfl.sim.population import Population
from chainfl.sim.robust.geometry import Updates
from chainfl.sim.robust.play import aggregate
from chainfl.sim.robust.table import BEHIND, Pipeline, Stage, pipeline_of
from chainfl.types import TOTAL, WAD

Preview = Callable[[Task, Flat, Flats, int], Callable[[Flat], Flat] | None]

_JUDGES = 3
"""Attackers whose samples are tried; more would cost time and change little."""


def preview_of(rule: str, population: Population) -> Preview:
    """The preview of a rule, for the attackers of this population."""
    if rule.partition(":")[0] in ("softmax", "softmax-accuracy", "softmax-spread"):
        return _ByLosses(rule, population)
    return _ByVectors(_on_vectors(rule))


def _on_vectors(rule: str) -> Pipeline | None:
    """The pipeline that does to vectors what the rule does; None where it needs what attackers do not have."""
    pipeline = pipeline_of(rule)
    if pipeline is not None:
        return None if pipeline.last.entry.name in ("fltrust", "foolsgold") else pipeline
    known, values = parse_rule(rule)
    entry = BEHIND.get(known.name_text, BEHIND["mean"])
    return Pipeline(rule, (), Stage(entry, {key: values[key] for key in entry.values}))


class _ByVectors:
    """What a rule over whole updates makes of a forged one: the rule itself, on what the attackers hold."""

    def __init__(self, pipeline: Pipeline | None) -> None:
        self._pipeline = pipeline

    def __call__(
        self, task: Task, head_D: Flat, others_ND: Flats, hostile: int
    ) -> Callable[[Flat], Flat] | None:
        pipeline = self._pipeline
        if pipeline is None or len(others_ND) + hostile < pipeline.least:
            return None
        scale = task.config.scale
        head = encode(head_D, scale)
        others = [encode(row_D, scale) for row_D in others_ND]

        def result(forged_D: Flat) -> Flat:
            forged = _encoded(forged_D, scale)
            if forged is None:
                return head_D
            made = aggregate(pipeline, Updates(head, [*others, *[forged] * hostile], scale))
            return decode(made.model, scale)

        return result


class _ByLosses:
    """What a rule by losses makes of a forged one, with attackers as judges of their own held-out samples."""

    def __init__(self, rule: str, population: Population) -> None:
        self._rule = rule
        self._population = population

    def __call__(
        self, task: Task, head_D: Flat, others_ND: Flats, hostile: int
    ) -> Callable[[Flat], Flat] | None:
        population = self._population
        friends = sorted(population.adversary.ids)[:_JUDGES]
        if not friends:
            return None
        scale = task.config.scale
        trainers = [population.trainers[id_] for id_ in friends]
        judges = [each.score_job(each.held_out) for each in trainers]
        others = [encode(row_D, scale) for row_D in others_ND]
        known = _losses(population.scores(list(others_ND), judges))

        def result(forged_D: Flat) -> Flat:
            forged = _encoded(forged_D, scale)
            if forged is None:
                return head_D
            (own,) = _losses(population.scores([forged_D], judges))
            shares = self._shares([*known, *[own] * hostile])
            return decode(combine(None, [*others, *[forged] * hostile], (0, *shares)), scale)

        return result

    def _shares(self, losses_KC: Sequence[Sequence[int]]) -> Sequence[int]:
        pipeline = pipeline_of(self._rule)
        if pipeline is not None:
            by_judge = list(zip(*losses_KC, strict=True))
            sharpness = int(pipeline.last.values["sharpness"] * WAD)
            return spread_shares(by_judge, [WAD] * len(by_judge), sharpness, TOTAL).shares
        _, values = parse_rule(self._rule)
        statistics = [sum(column) * SCORE_TO_WAD // len(column) for column in losses_KC]
        return softmax(statistics, int(values["beta"] * WAD), TOTAL)


def _losses(scores: Sequence[Sequence[Score]]) -> list[list[int]]:
    return [[loss_score(each.loss) for each in row] for row in scores]


def _encoded(forged_D: Flat, scale: int) -> Vector | None:
    """As it would be sent; None where it cannot be."""
    try:
        return encode(np.asarray(forged_D), scale)
    except ParameterRangeError:
        return None
