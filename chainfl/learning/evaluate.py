"""Scoring: mean loss and correct answers of models on samples, one function for simulator and node.

A score's bits depend on model vector and samples alone: samples go through in fixed chunks with one torch
thread, whatever is scored beside them. Shapes: K models, V sets of samples, B samples in a chunk.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, pairwise
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from chainfl.errors import InputError
from chainfl.learning.compute import (
    batch_of,
    borrowed,
    check_fits,
    cores,
    in_chunks,
    pick_device,
    side_by_side,
)
from chainfl.learning.dataset import Rows, Samples
from chainfl.learning.dense import dense_answers, dense_layers, dense_views
from chainfl.learning.models import Flat, ModelSpec, floating_tensors, load_tensors, spec_of
from chainfl.learning.score import Score as Score

CHUNK: Final = 300
"""Samples that go through a model together; part of what fixes the bits of a score."""


LEAST_SPREAD: Final = 2**26
"""Samples times models times parameters below which one thread is quicker than several that wait for each other."""

MODELS_AT_ONCE: Final = 64
"""Networks of dense layers whose answers are judged together; a larger model is judged by itself."""

MOST_HELD: Final = 2**26
"""Bytes of prepared samples that a thread holds for the next model."""


@dataclass(frozen=True, slots=True, eq=False)
class _Chunk:
    """So many samples of one judge."""

    judge: int
    rows: Rows


@dataclass(frozen=True, slots=True)
class _Piece:
    """One model on one chunk: the unit that threads share out."""

    model: int
    chunk: int


@dataclass(slots=True)
class _Prepared:
    """Chunks of samples as the model takes them: made once for all models, as far as there is room."""

    spec: ModelSpec
    judges: Sequence[Samples]
    chunks: Sequence[_Chunk]
    place: torch.device
    held: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    room: int = MOST_HELD

    def of(self, number: int) -> tuple[Tensor, Tensor]:
        """Samples and labels of a chunk."""
        if number in self.held:
            return self.held[number]

        chunk = self.chunks[number]
        x, y = batch_of(self.spec, self.judges[chunk.judge], chunk.rows, self.place)
        if x.nbytes <= self.room:
            self.held[number] = (x, y)
            self.room -= x.nbytes
        return x, y


def score(
    model: str, flats_KD: Sequence[Flat], samples: Samples, *, threads: int | None = None, device: str = "cpu"
) -> tuple[Score, ...]:
    """Each model's score on the same samples.

    Raises:
        InputError: samples and model do not fit.
        LengthError: a vector does not have the model's length.
    """
    return tuple(
        scores[0] for scores in score_many(model, flats_KD, [samples], threads=threads, device=device)
    )


def score_many(
    model: str,
    flats_KD: Sequence[Flat],
    judges: Sequence[Samples],
    *,
    threads: int | None = None,
    device: str = "cpu",
) -> tuple[tuple[Score, ...], ...]:
    """For each model its scores by every judge: a whole committee at once.

    Raises:
        InputError: there is no judge, or samples and model do not fit.
    """
    spec = _common_spec(model, judges)
    place = pick_device(device)
    chunks = [_Chunk(v, rows) for v, samples in enumerate(judges) for rows in in_chunks(samples.rows, CHUNK)]
    pieces = [_Piece(k, number) for k in range(len(flats_KD)) for number in range(len(chunks))]

    samples = sum(map(len, judges)) * len(flats_KD)
    threads = threads or (1 if pieces and samples * len(flats_KD[0]) < LEAST_SPREAD else cores())
    shares = _even(pieces, threads)
    found = side_by_side(
        [partial(_score_pieces, flats_KD, _Prepared(spec, judges, chunks, place), share) for share in shares],
        threads,
    )

    # Added up in the order of the pieces, not of the threads, so that the sum has the same bits each time.
    totals = {(k, v): (0.0, 0) for k in range(len(flats_KD)) for v in range(len(judges))}
    for piece, (loss, correct) in zip(pieces, (part for parts in found for part in parts), strict=True):
        at = (piece.model, chunks[piece.chunk].judge)
        loss_before, correct_before = totals[at]
        totals[at] = (loss_before + loss, correct_before + correct)

    return tuple(
        tuple(_mean(*totals[k, v], len(samples)) for v, samples in enumerate(judges))
        for k in range(len(flats_KD))
    )


def _common_spec(model: str, judges: Sequence[Samples]) -> ModelSpec:
    if not judges:
        raise InputError("no samples to score models on")
    for samples in judges:
        check_fits(model, samples)
    return spec_of(model)


def _mean(loss: float, correct: int, samples: int) -> Score:
    return Score(loss / samples, correct, samples)


def _even(pieces: list[_Piece], parts: int) -> list[list[_Piece]]:
    """Runs of about the same length, in order, so that a thread rarely has to load another model."""
    bounds = [len(pieces) * part // parts for part in range(parts + 1)]
    return [pieces[start:stop] for start, stop in pairwise(bounds) if stop > start]


def _score_pieces(
    flats_KD: Sequence[Flat], prepared: _Prepared, pieces: Sequence[_Piece]
) -> list[tuple[float, int]]:
    with borrowed(prepared.spec.name, prepared.place) as network, torch.inference_mode():
        layers = dense_layers(network)
        answer = network.eval() if layers is None else partial(dense_answers, dense_views(layers))
        at_once = 1 if layers is None else MODELS_AT_ONCE
        found = []
        for group in _by_models(pieces, at_once):
            found += _judged(group, _answers(network, answer, flats_KD, prepared, group), prepared)
    return found


def _by_models(pieces: Sequence[_Piece], at_once: int) -> Iterator[list[_Piece]]:
    """Runs of pieces of so many models each."""
    for _, run in groupby(pieces, lambda piece: piece.model // at_once):
        yield list(run)


def _answers(
    network: nn.Module,
    answer: Callable[[Tensor], Tensor],
    flats_KD: Sequence[Flat],
    prepared: _Prepared,
    pieces: Sequence[_Piece],
) -> Iterator[Tensor]:
    tensors = floating_tensors(network)
    loaded = -1
    for piece in pieces:
        if piece.model != loaded:
            load_tensors(tensors, flats_KD[piece.model])
            loaded = piece.model
        yield answer(prepared.of(piece.chunk)[0])


def _judged(
    pieces: Sequence[_Piece], answers: Iterable[Tensor], prepared: _Prepared
) -> list[tuple[float, int]]:
    """For each piece the sum of losses in float64, and the correct answers among those whose loss is a number."""
    by_chunk: dict[int, dict[int, Tensor]] = {}
    for place, (piece, each) in enumerate(zip(pieces, answers, strict=True)):
        by_chunk.setdefault(piece.chunk, {})[place] = each

    # The models' answers to a chunk are judged in one go; each row of a table of answers stands by itself.
    found = dict[int, tuple[float, int]]()
    for chunk, by_place in by_chunk.items():
        y = prepared.of(chunk)[1].cpu()
        table = torch.cat(list(by_place.values())).to("cpu", torch.float64)
        labels = y.repeat(len(by_place))
        losses = functional.cross_entropy(table, labels, reduction="none")
        correct = (table.argmax(1) == labels) & losses.isfinite()
        sums = losses.view(-1, len(y)).sum(1).tolist()
        right = correct.view(-1, len(y)).sum(1).tolist()
        found |= dict(zip(by_place, zip(sums, right, strict=True), strict=True))
    return [found[place] for place in range(len(pieces))]
