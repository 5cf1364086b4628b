"""Does an app do what a round will ask of it? What would go wrong is said before anything is at stake."""

import math
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from chainfl.codec.vector import decode, encode
from chainfl.errors import AppError, ParameterRangeError
from chainfl.learning import defaults
from chainfl.learning.app import App, flatten, load, misfit
from chainfl.learning.calls import Context, guarded, seeded, time_limit, warm_up
from chainfl.learning.learner import Flat, Job
from chainfl.learning.rehearsal import encoded, tensor_at
from chainfl.learning.samples import Partition, count, first, take

OK: Final = "ok"
NOTE: Final = "note"
WRONG: Final = "wrong"
RUN: Final = "run"
"""The finding that ends a rehearsal: the app's code failed, or the next step would make no sense."""
LOOKED_AT: Final = 8
"""Samples that are compared before and after training."""
_SEED: Final = 1
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what, how it is, and in a line why."""

    check: str
    verdict: str
    text: str


@dataclass(frozen=True, slots=True)
class Trial:
    """How an app is tried: on how many samples, for how long at most, in which encoding, with how many threads."""

    where: str | None = None
    samples: int = 256
    seconds: float = 60.0
    scale: int = 20
    threads: int = 1


def check_app(app: App, trial: Trial) -> Iterator[Finding]:
    """Rehearse the app on a few of its samples; each finding comes as it is made, one that ends it all is the last."""
    warm_up()
    try:
        yield from _check(app, trial)
    except AppError as error:
        yield Finding(RUN, WRONG, str(error))


def _check(app: App, trial: Trial) -> Iterator[Finding]:
    with time_limit(trial.seconds, f"{app.source.main}: model()"):
        first_D = app.initial()
    yield Finding("model", OK, _model_text(app))
    fits = _range(app, first_D, trial.scale)
    yield fits
    if fits.verdict == WRONG:
        return  # there is no head to train
    yield _aliased(app, first_D)

    with time_limit(trial.seconds, f"{app.source.main}: data()"):
        train_on, held_out = app.data(trial.where)
    yield _data(app, train_on, held_out)
    small = first(train_on, trial.samples)
    job = Job(small, _SEED, trial.threads)
    head_D = decode(encode(first_D, trial.scale), trial.scale)

    before = _seen(app, small), _seen(app, small)
    update_D, seconds = yield from _train(app, head_D, job, trial, train_on)
    yield _untouched(before, _seen(app, small))
    yield _outside(app, head_D, job)
    with time_limit(trial.seconds, f"{app.source.main}: train(), the second time,"):
        again_D = app.train(head_D, job, 1)
    yield _same_training(app, update_D, again_D)

    judging = Job(first(held_out, trial.samples), _SEED, trial.threads)
    yield from _score(app, [head_D, update_D], judging, trial)
    yield _gradients(app, judging)
    yield _learns(app, head_D, update_D, seconds)


def _model_text(app: App) -> str:
    layout = app.layout
    network = app.build()
    frozen = sum(each.numel() for each in network.parameters()) - layout.d
    kept = f", {frozen} more are frozen and stay here" if frozen > 0 else ""
    return f"{layout.d} trained values in {len(layout.tensors)} tensors, {4 * layout.d} bytes a model{kept}"


def _range(app: App, first_D: Flat, scale: int) -> Finding:
    """Whether the first model's values have a place in the encoding, and enough of its steps."""
    step, highest = 2.0**-scale, 2.0 ** (31 - scale)
    try:
        encode(first_D, scale)
    except ParameterRangeError as error:
        bad = int(np.argmax(~(np.abs(first_D) < highest)))
        hint = ": give a smaller --scale" if math.isfinite(first_D[bad]) else ""
        return Finding("range", WRONG, f"{tensor_at(app, bad)}: {error}{hint}")
    lost = float(np.mean((first_D != 0) & (np.abs(first_D) < step / 2)))
    largest = float(np.abs(first_D).max())
    text = f"values up to {largest:.3g}; with scale {scale} steps of {step:.2g} up to {highest:.3g}"
    if lost > 0.01:
        return Finding("range", NOTE, f"{text}: {lost:.0%} of the values become 0: give a larger --scale")
    return Finding("range", OK, text)


def _aliased(app: App, first_D: Flat) -> Finding:
    """Whether what `parameters` yields are the model's own tensors: a copy would never change the model."""
    network = app.build()
    wanted_D = first_D + np.float32(1)
    load(app.tensors(network), wanted_D)
    found_D = flatten(app.tensors(network), np.empty_like(first_D))
    if not np.allclose(found_D, wanted_D, rtol=1e-2, atol=1e-2):
        return Finding("parameters", WRONG, "parameters() yields copies: yield the model's own tensors")
    return Finding("parameters", OK, "what is yielded are the model's own tensors")


def _data(app: App, train_on: Any, held_out: Any) -> Finding:
    if isinstance(train_on, Partition):
        return Finding("data", OK, f"{app.name} loads its own partition, by number")
    numbers = count(train_on), count(held_out)
    if None in numbers:
        return Finding(
            "data", NOTE, "samples without a length: they cannot be dealt, and one is declared on chain"
        )
    try:
        take(train_on, np.arange(1))
        take(held_out, np.arange(1))
    except AppError as error:
        return Finding("data", NOTE, f"{error}; simulate and devnet need that")
    return Finding("data", OK, f"{app.name}: {numbers[0]} samples to train on, {numbers[1]} held out")


def _train(app: App, head_D: Flat, job: Job, trial: Trial, train_on: Any) -> Any:
    before = _peak()
    started = time.perf_counter()
    with time_limit(trial.seconds, f"{app.source.main}: train() on {trial.samples} samples"):
        update_D = app.train(head_D, job, 1)
    seconds = time.perf_counter() - started

    # Refused here if a parameter leaves the range that the chain's numbers have.
    encoded(app, update_D, trial.scale)

    text = f"{seconds:.2f} s on {count(job.samples)} samples"
    part = count(job.samples)
    whole = count(train_on)
    if part and whole and whole > part:
        text += f", about {seconds * whole / part:.3g} s on all {whole}"
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in app.metrics.items())

    yield Finding("train", OK, f"{text}{'; ' + metrics if metrics else ''}{_default(app, 'train')}")
    yield Finding(
        "memory",
        OK,
        f"training took {max(0, _peak() - before) / _MIB:.0f} MiB more, {_peak() / _MIB:.0f} in all",
    )
    return update_D, seconds


def _default(app: App, name: str) -> str:
    return (
        f"; by the default {name}() of a classifier, the app has none"
        if app.functions[name] is getattr(defaults, name)
        else ""
    )


def _untouched(before: tuple[bytes, bytes], after: bytes) -> Finding:
    if before[0] != before[1]:
        text = (
            "reading a sample again gives another, whatever the seed: a replay will not give the same roots"
        )
        return Finding("samples", NOTE, f"{text}; draw from torch, numpy or random")
    if before[1] != after:
        return Finding(
            "samples", WRONG, "train() writes into its samples in place: the next round trains on others"
        )
    return Finding("samples", OK, "training leaves the samples as they were")


def _outside(app: App, head_D: Flat, job: Job) -> Finding:
    """Whether training changes tensors that are not in the vector: what it learns there is lost."""
    network = app.build()
    # A tensor that several names share, such as tied weights, is in the vector under the first of them.
    places = {tensor.data_ptr() for _, tensor in app.tensors(network)}
    load(app.tensors(network), head_D)

    before = {
        name: each.detach().clone()
        for name, each in network.state_dict().items()
        if isinstance(each, torch.Tensor)
        and each.is_floating_point()
        and each.layout is torch.strided
        and each.data_ptr() not in places
    }
    network.train()
    place = torch.device("cpu")
    context = Context.seeded(place, job.seed, 1, app.config, lambda _: None)
    with guarded(app.source, "train()"), seeded(job.seed, place, job.threads or 1):
        app.functions["train"](network, first(job.samples, 32), context)
    after = network.state_dict()
    moved = [name for name, each in before.items() if name in after and not torch.equal(after[name], each)]
    if moved:
        return Finding(
            "frozen", WRONG, f"train() changes {moved[0]}, which is not among parameters(): it is lost"
        )
    return Finding("frozen", OK, "nothing beside the trained values changes")


def _same_training(app: App, update_D: Flat, again_D: Flat) -> Finding:
    if np.array_equal(update_D, again_D):
        return Finding("train again", OK, "the same seed gives the same update, bit for bit")
    differing = int(np.argmax(update_D != again_D))
    return Finding(
        "train again",
        NOTE,
        f"the same seed gives another update (in {tensor_at(app, differing)}): a replay will not give the same roots; "
        "take random numbers from torch, numpy, random or ctx.generator, and keep no state between calls",
    )


def _score(app: App, models: list[Flat], job: Job, trial: Trial) -> Iterator[Finding]:
    started = time.perf_counter()
    with time_limit(trial.seconds, f"{app.source.main}: score()"):
        scores = app.score(models, job)
        seconds = (time.perf_counter() - started) / len(models)
        again = app.score(models[:1], job)[0]

    losses = [score.loss for score in scores]
    if not all(map(math.isfinite, losses)):
        yield Finding(
            "score", WRONG, f"the loss is {losses[0]} before and {losses[1]} after training: no number"
        )
        return

    for number, loss in enumerate(losses):
        if (number == 0 or loss < 0) and (why := misfit(loss)) is not None:
            yield Finding("score", WRONG, f"the loss {why}; as it is, validators would post the worst")
            return

    shown = f"loss {losses[0]:.4g} before and {losses[1]:.4g} after training, {seconds:.2f} s a model"
    counted = f", {scores[1].correct} of {scores[1].samples} correct" if scores[1].samples else ""
    yield Finding("score", OK, shown + counted + _default(app, "score"))

    # Validators judge the same model on the same samples: a score that moves would look like a lie.
    if again.loss != losses[0]:
        text = f"score() says {losses[0]} and then {again.loss} of the same model: it must depend on nothing else"
        yield Finding("score again", WRONG, text)
    else:
        yield Finding("score again", OK, "the same model gives the same loss")


def _gradients(app: App, job: Job) -> Finding:
    """Whether `score` would keep gradients if it were left to itself; chainfl turns them off."""
    network = app.build().eval()
    place = torch.device("cpu")
    context = Context.seeded(place, job.seed, 0, app.config, lambda _: None)
    with guarded(app.source, "score()"), seeded(job.seed, place, job.threads or 1), torch.enable_grad():
        answer = app.functions["score"](network, job.samples, context)
    if isinstance(answer, torch.Tensor) and answer.requires_grad:
        return Finding(
            "gradients", NOTE, "score() has gradients on: chainfl turns them off, loops of your own may not"
        )
    return Finding("gradients", OK, "chainfl scores without gradients")


def _learns(app: App, head_D: Flat, update_D: Flat, seconds: float) -> Finding:
    if np.array_equal(head_D, update_D):
        return Finding("update", WRONG, f"{app.source.main}: train() changed nothing in {seconds:.2f} s")
    return Finding(
        "update", OK, f"training moves values by up to {float(np.abs(update_D - head_D).max()):.3g}"
    )


def _seen(app: App, samples: Any) -> bytes:
    """The first samples as bytes; what a data set draws as it is read comes from the same seed each time."""
    with guarded(app.source, "reading its samples"), seeded(_SEED, torch.device("cpu"), 1):
        return _look(samples)


def _look(samples: Any) -> bytes:
    """The bytes of the first samples, as far as they are numbers."""
    seen = min(count(samples) or 0, LOOKED_AT)
    held = samples.dataset if hasattr(samples, "batch_sampler") else samples
    if isinstance(held, Mapping):
        held = tuple(held.values())
    if isinstance(held, tuple):
        return b"".join(_look(each) for each in held)
    try:
        return b"".join(_bytes(held[row]) for row in range(seen))
    except (TypeError, KeyError, IndexError):
        return b""


def _bytes(sample: Any) -> bytes:
    if isinstance(sample, torch.Tensor):
        return bytes(sample.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    if isinstance(sample, np.ndarray):
        return sample.tobytes()
    if isinstance(sample, tuple | list):
        return b"".join(map(_bytes, sample))
    if isinstance(sample, dict):
        return b"".join(_bytes(sample[key]) for key in sorted(sample, key=str))
    return repr(sample).encode() if isinstance(sample, int | float | str) else b""


def _peak() -> int:
    """The most memory that this process has had, in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
