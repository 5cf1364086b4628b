"""Models whose numbers stand in their name: for data of any shape and any number of classes."""

from pathlib import Path

import numpy as np
import pytest
import torch

from chainfl.errors import InputError, UnknownNameError
from chainfl.learning import models
from chainfl.learning.compute import batch_of
from chainfl.learning.dataset import Samples
from chainfl.learning.datasets import load
from chainfl.learning.families import MOST_PARAMETERS, check_dataset, fitting
from chainfl.learning.recipe import Recipe
from chainfl.sim.experiment import Experiment
from chainfl.sim.run import play
from chainfl.sim.simulation import set_up


@pytest.mark.parametrize(
    ("name", "shape", "classes", "size"),
    [
        ("dense:inputs=7,classes=3", (7,), 3, 8 * 64 + 65 * 3),
        ("dense:inputs=7,hidden=0,classes=3", (7,), 3, 8 * 3),
        ("dense:height=9,width=14,hidden=5", (9, 14), 10, 127 * 5 + 6 * 10),
        ("dense:height=4,width=6,channels=3,hidden=0,classes=2", (4, 6, 3), 2, 73 * 2),
        ("conv:side=9,channels=3,hidden=8,classes=5", (9, 9, 3), 5, 2_432 + 51_264 + 257 * 8 + 9 * 5),
        ("conv:", (28, 28), 10, 832 + 51_264 + 3137 * 128 + 129 * 10),
        (
            "lstm:length=20,words=30,embedding=4,hidden=8",
            (20,),
            2,
            30 * 4 + 32 * (4 + 8 + 2) + 32 * (8 + 8 + 2) + 9 * 2,
        ),
        ("bag:length=20,words=30,hidden=8,classes=3", (20,), 3, 31 * 8 + 9 * 3),
        ("bag:length=20,words=30,hidden=0", (20,), 2, 31 * 2),
    ],
)
def test_a_name_with_numbers_is_a_model(name: str, shape: tuple[int, ...], classes: int, size: int) -> None:
    spec, model = models.spec_of(name), models.build(name)
    samples = blank_samples(spec)

    x, _ = batch_of(spec, samples, samples.rows, torch.device("cpu"))

    assert (spec.shape, spec.classes, models.size(model)) == (shape, classes, size)
    assert model(x).shape == (3, classes)
    assert np.array_equal(models.initial_flat(name, 4), models.initial_flat(name, 4))


def blank_samples(spec: models.ModelSpec) -> Samples:
    kind = np.int64 if spec.kind == "tokens" else np.uint8
    return Samples(np.zeros((3, *spec.shape), kind), np.zeros(3, np.int64), np.arange(3))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("dense:inputs=7,hiddn=3", r"no parameter of model dense is called 'hiddn'; there are: .*'hidden'"),
        ("dens:inputs=7", "no model is called 'dens:inputs=7'; there are: .*bag, .*conv, .*dense, .*lstm"),
        ("dense", "give either inputs, or height and width"),
        ("dense:inputs=7,height=3,width=2", "give either inputs, or height and width"),
        ("dense:height=3", "give either inputs, or height and width"),
        ("dense:inputs=7.5", "inputs must be a whole number"),
        ("dense:inputs=-7", "inputs must be a whole number"),
        ("dense:inputs=7,classes=0", "classes must be a whole number, 1"),
        ("dense:inputs=nan", "inputs must be a finite number"),
        ("dense:inputs=16777216,hidden=16777216", "parameters, at most 16,777,216 are built"),
        ("conv:side=3", "side must be at least 4"),
        ("conv:side=4000", "parameters, at most"),
        ("lstm:words=16777216,embedding=16777216", "parameters, at most"),
        ("bag:words=16777216,hidden=16", "parameters, at most"),
        ("bag:words=0", "words must be a whole number, 1"),
    ],
)
def test_numbers_that_describe_no_network_are_refused_before_anything_is_built(name: str, says: str) -> None:
    with pytest.raises((InputError, UnknownNameError), match=says):
        models.spec_of(name)


def test_the_largest_that_is_built_is_as_large_as_it_was_said_to_be() -> None:
    spec = models.spec_of(f"dense:inputs={MOST_PARAMETERS // 2 - 1},hidden=0,classes=2")

    assert sum(each.numel() for each in spec.build().parameters()) == MOST_PARAMETERS


@pytest.mark.parametrize(
    ("x", "classes", "name"),
    [
        (np.zeros((40, 7), np.float32), 3, "dense:inputs=7,classes=3"),
        (np.zeros((40, 9, 14), np.uint8), 13, "dense:height=9,width=14,classes=13"),
        (np.zeros((40, 12, 12, 3), np.uint8), 5, "dense:height=12,width=12,channels=3,classes=5"),
        (np.arange(800).reshape(40, 20) % 50, 4, "lstm:length=20,words=50,classes=4"),
    ],
)
def test_data_that_a_model_does_not_take_is_told_which_would(
    tmp_path: Path, x: np.ndarray[tuple[int, ...], np.dtype[np.generic]], classes: int, name: str
) -> None:
    np.savez(tmp_path / "own.npz", x=x, y=np.arange(len(x)) % classes)
    place = f"npz:{tmp_path / 'own.npz'}"

    assert fitting(load(place)) == name
    check_dataset(name, load(place))
    with pytest.raises(InputError, match=f"{name} would do"):
        set_up(Experiment(dataset=place, participants=8, committee=3))


def test_tokens_that_a_model_does_not_know_are_refused(tmp_path: Path) -> None:
    tokens = np.arange(800).reshape(40, 20) % 50
    np.savez(tmp_path / "own.npz", x=tokens, y=np.arange(40) % 2)

    with pytest.raises(InputError, match=r"takes tokens 0…48, a sample has 49; lstm:length=20,words=50,"):
        check_dataset("lstm:length=20,words=49", load(f"npz:{tmp_path / 'own.npz'}"))


def test_a_bag_of_words_sees_which_words_a_text_has_and_neither_order_nor_padding_nor_number() -> None:
    model = models.build("bag:length=6,words=9,hidden=4,classes=3", seed=5)

    one, other, third = model(torch.tensor([[0, 0, 3, 8, 3, 5], [8, 5, 3, 0, 0, 0], [0, 0, 3, 8, 3, 6]]))

    assert torch.equal(one, other)
    assert not torch.equal(one, third)


def test_a_bag_of_words_adds_up_what_each_word_says() -> None:
    model = models.build("bag:length=4,words=9,hidden=0,classes=2", seed=5)
    layer = model.get_submodule("dense.0")

    scores = model(torch.tensor([[0, 2, 3, 7], [0, 0, 0, 0]]))

    weight = layer.get_parameter("weight")
    bias = layer.get_parameter("bias")
    expected = torch.stack([weight[:, [2, 3, 7]].sum(1) + bias, bias])
    torch.testing.assert_close(scores, expected)


def test_a_bag_of_words_learns_in_a_simulation(tmp_path: Path) -> None:
    rng = np.random.Generator(np.random.Philox(4))
    label = np.arange(240) % 2
    x = rng.integers(4, 30, (240, 10))
    x[:, 0] = 2 + label
    np.savez(tmp_path / "own.npz", x=x, y=label)

    facts = list(
        play(
            set_up(
                Experiment(
                    dataset=f"npz:{tmp_path / 'own.npz'}",
                    model="bag:length=10,words=30,classes=2",
                    recipe=Recipe(learning_rate=0.3, local_epochs=4, batch=8),
                    participants=8,
                    committee=3,
                    rounds=4,
                )
            ),
            [],
        )
    )

    assert facts[-1].accuracy is not None
    assert facts[-1].accuracy > 0.9
