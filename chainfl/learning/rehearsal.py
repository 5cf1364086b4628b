"""A small step of all that a round will ask of an app: what does not fit is found before anything is at stake."""

import logging
import math
import time
from typing import Final

import numpy as np

from chainfl.codec.vector import Vector, decode, encode
from chainfl.errors import AppError, ParameterRangeError
from chainfl.learning.app import App, misfit
from chainfl.learning.calls import time_limit, warm_up
from chainfl.learning.learner import Flat
from chainfl.learning.samples import count, first
from chainfl.learning.score import Score
from chainfl.learning.trainer import Trainer
from chainfl.types import Rule, TaskConfig

SAMPLES: Final = 64
"""How many samples a rehearsal trains and scores on; what cannot be cut is taken whole."""

_log = logging.getLogger(__name__)


def rehearse_app(trainer: Trainer, head_D: Flat, config: TaskConfig) -> None:
    """Train and score on a few samples, as in a round.

    Raises:
        AppError: the app fails, does not end, leaves values that cannot be encoded, or scores one model twice
            differently.
    """
    app = trainer.learner
    assert isinstance(app, App)
    small = trainer.on(first(trainer.train_on, SAMPLES), first(trainer.held_out, SAMPLES))
    what = f"{app.source.main}: a rehearsal of train() on {small.samples} samples"

    warm_up()
    started = time.perf_counter()
    with time_limit(config.train_seconds, what):
        update_D = encoded(app, small.train(head_D, 0), config.scale)
    seconds = time.perf_counter() - started

    with time_limit(config.score_seconds, f"{app.source.main}: a rehearsal of score()"):
        model_D = decode(update_D, config.scale)
        scores = small.score([head_D, model_D])
        again = small.score([model_D])
    check_scores(app, scores, again[0], config.rule)

    expected = seconds * max(1, trainer.samples // max(1, count(small.train_on) or 1))
    if expected > config.train_seconds:
        _log.warning(
            "training on all %d samples may take %.3g s, Train has %d s: it would be ended unfinished",
            trainer.samples,
            expected,
            config.train_seconds,
        )


def encoded(app: App, update_D: Flat, scale: int) -> Vector:
    """The update as it would go on chain.

    Raises:
        AppError: a value is no number or out of range; names its tensor.
    """
    try:
        return encode(update_D, scale)
    except ParameterRangeError as error:
        name = tensor_at(app, int(_first_bad(update_D, scale)))
        raise AppError(
            f"{app.source.main}: train() leaves a value in {name} that cannot be encoded: {error}"
        ) from None


def tensor_at(app: App, position: int) -> str:
    """The name of the tensor that holds this place of the vector."""
    for tensor in app.layout.tensors:
        if position < tensor.size:
            return tensor.name
        position -= tensor.size
    return "no tensor"


def check_scores(app: App, scores: tuple[Score, ...], again: Score, rule: Rule) -> None:
    """Refuse scores that no round could use.

    Raises:
        AppError: a loss is no number, changes from call to call, or the rule needs correct answers.
    """
    file = app.source.main
    if not math.isfinite(scores[0].loss):
        raise AppError(f"{file}: score() of the first model is {scores[0].loss}; it must be a number")

    for number, score in enumerate(scores):
        # What has trained too fast may be far out; the first model has to have its place.
        if (number == 0 or score.loss < 0) and (why := misfit(score.loss)) is not None:
            raise AppError(f"{file}: score() {why}")

    if scores[-1].loss != again.loss and not (math.isnan(again.loss) and math.isnan(scores[-1].loss)):
        raise AppError(
            f"{file}: score() says {scores[-1].loss} and then {again.loss} of the same model: it must not depend on "
            "anything but model and samples (no clock, no state of its own)"
        )
    if rule is Rule.SOFTMAX_ACCURACY and not scores[0].samples:
        raise AppError(
            f"{file}: the task's rule counts correct answers, and score() counts none: return chainfl.Score(loss, "
            "correct, samples)"
        )


def _first_bad(update_D: Flat, scale: int) -> int:
    """Where the first value is that has no place in the encoding."""
    highest = 2.0 ** (31 - scale)
    return int(np.argmax(~(np.abs(update_D) < highest)))
