import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from chainfl.errors import InputError, LengthError
from chainfl.learning import models
from chainfl.learning.dataset import Dataset
from chainfl.learning.evaluate import score, score_many


def test_a_score_is_the_mean_loss_and_the_correct_answers(digits: Dataset) -> None:
    flat, samples = models.initial_flat("mnist-cnn", 3), digits.rows(np.arange(50, 280))
    model = models.build("mnist-cnn", 3)
    x = torch.from_numpy(samples.x[samples.rows].astype(np.float32) / 255).unsqueeze(1)
    y = torch.from_numpy(samples.y[samples.rows])

    found = score("mnist-cnn", [flat], samples)[0]

    with torch.no_grad():
        answers = model(x).double()
    assert found.loss == pytest.approx(float(functional.cross_entropy(answers, y)), abs=1e-6)
    assert found.correct == int((answers.argmax(1) == y).sum())
    assert found.samples == 230
    assert found.accuracy == found.correct / 230


def test_bits_do_not_depend_on_threads_company_or_order(digits: Dataset) -> None:
    flats = [models.initial_flat("mnist-cnn", seed) for seed in range(3)]
    judges = [digits.rows(np.arange(start, start + 130)) for start in (0, 500)]

    together = score_many("mnist-cnn", flats, judges, threads=2)

    assert together == score_many("mnist-cnn", flats, judges, threads=1)
    assert together[2][1] == score("mnist-cnn", [flats[2]], judges[1], threads=1)[0]
    assert [scores[0] for scores in together] == list(score("mnist-cnn", flats, judges[0], threads=3))
    assert together[0] == score_many("mnist-cnn", flats[::-1], judges)[2]


@pytest.mark.parametrize("name", ["mnist-mlp-small", "varsel-logistic", "varsel-2nn"])
def test_many_dense_networks_have_the_bits_of_each_by_itself(digits: Dataset, name: str) -> None:
    flats = [models.initial_flat(name, seed) for seed in range(70)]
    judges = [digits.rows(np.arange(start, start + count)) for start, count in ((0, 5), (40, 301), (500, 64))]

    found = score_many(name, flats, judges, threads=1)

    assert found == score_many(name, flats, judges, threads=3)
    for seed in (0, 33, 69):
        network = models.build(name, seed).eval()
        for judge, one in zip(judges, found[seed], strict=True):
            loss, correct = 0.0, 0
            for rows in (judge.rows[:300], judge.rows[300:]):
                x = torch.from_numpy(judge.x[rows].astype(np.float32) / 255).unsqueeze(1)
                y = torch.from_numpy(judge.y[rows])
                with torch.inference_mode():
                    answers = network(x).double()
                    loss += float(functional.cross_entropy(answers, y, reduction="none").sum())
                correct += int((answers.argmax(1) == y).sum())
            assert (one.loss, one.correct) == (loss / len(judge), correct)


def test_only_the_first_samples_are_scored_when_asked(digits: Dataset) -> None:
    flat = models.initial_flat("mnist-mlp-small", 3)

    assert score("mnist-mlp-small", [flat], digits.test().first(250))[0].samples == 250
    assert score("mnist-mlp-small", [flat], digits.test().first(10_000))[0].samples == 2000


def test_a_model_of_nan_has_no_loss_and_nothing_correct(digits: Dataset) -> None:
    flat = np.full(7850, np.nan, np.float32)

    found = score("varsel-logistic", [flat], digits.test())[0]

    assert math.isnan(found.loss)
    assert found.correct == 0


def test_no_models_have_no_scores(digits: Dataset) -> None:
    assert score("varsel-logistic", [], digits.test()) == ()


def test_bad_vectors_and_missing_judges_are_refused(digits: Dataset) -> None:
    with pytest.raises(LengthError):
        score("varsel-logistic", [np.zeros(3, np.float32)], digits.test())
    with pytest.raises(InputError, match="no samples to score"):
        score_many("varsel-logistic", [np.zeros(7850, np.float32)], [])
