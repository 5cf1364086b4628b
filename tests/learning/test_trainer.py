import numpy as np
import pytest

from chainfl import ports
from chainfl.codec.commitments import training_seed
from chainfl.codec.records import Layout, Tensor
from chainfl.errors import InputError, UnknownNameError
from chainfl.learning import models
from chainfl.learning.dataset import Dataset
from chainfl.learning.train import Recipe, train
from chainfl.learning.trainer import LearningSpec, Trainer, record_layout

SPEC = LearningSpec("mnist-mlp-small", "mnist-embedded", Recipe(batch=16), initial_seed=3, score_samples=20)


def trainer_of(digits: Dataset, id_: int = 4) -> Trainer:
    return Trainer.of_rows(SPEC, digits, np.arange(300), master_seed=77, id_=id_)


def test_a_trainer_holds_out_a_tenth_and_scores_its_first_samples(digits: Dataset) -> None:
    trainer = trainer_of(digits)

    scores = trainer.score([trainer.initial()])

    assert trainer.samples == 270
    assert not set(trainer.train_on.rows) & set(trainer.held_out.rows)
    assert scores[0].samples == 20


def test_its_update_is_the_one_training_function_with_the_rounds_seed(digits: Dataset) -> None:
    trainer = trainer_of(digits)

    update = trainer.train(trainer.initial(), round_=5)

    seed = training_seed(77, "train", 4, 5)
    head = models.initial_flat("mnist-mlp-small", 3)
    assert np.array_equal(
        update, train("mnist-mlp-small", head, trainer.train_on, SPEC.recipe, seed, round_=5)
    )


def test_rounds_and_participants_train_with_different_seeds(digits: Dataset) -> None:
    seeds = {trainer_of(digits, id_).seed(round_) for id_ in range(3) for round_ in range(3)}

    assert len(seeds) == 9


def test_a_trainer_is_what_roles_ask_for(digits: Dataset) -> None:
    port: ports.Trainer = trainer_of(digits)

    assert port.layout.d == 25450
    assert port.layout.tensors[0] == Tensor("dense.0.bias", (32,))


def test_a_models_layout_is_that_of_its_records() -> None:
    tensors = (Tensor("dense.0.bias", (10,)), Tensor("dense.0.weight", (10, 784)))

    assert record_layout("varsel-logistic") == Layout(tensors, ())


def test_the_same_participant_can_hold_other_samples(digits: Dataset) -> None:
    trainer = trainer_of(digits)

    other = trainer.on(digits.rows(np.arange(50)), trainer.held_out)

    assert other.samples == 50
    assert other.seed(3) == trainer.seed(3)


def test_specs_that_name_what_is_not_here_are_refused(digits: Dataset) -> None:
    with pytest.raises(InputError, match="no loss is called 'hinge'"):
        LearningSpec("mnist-cnn", "mnist", loss="hinge")
    with pytest.raises(InputError, match="no optimiser is called 'adam'"):
        LearningSpec("mnist-cnn", "mnist", optimiser="adam")
    with pytest.raises(InputError, match="score_samples"):
        LearningSpec("mnist-cnn", "mnist", score_samples=0)
    with pytest.raises(UnknownNameError, match="mnist-cnn"):
        Trainer.of_rows(LearningSpec("resnet", "mnist"), digits, np.arange(30), master_seed=1)
