import hashlib
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from chainfl.errors import InputError, LengthError, UnknownNameError
from chainfl.learning import models
from chainfl.learning.compute import batch_of
from chainfl.learning.dataset import Samples

SIZES = {
    "mnist-cnn": 1_663_370,
    "mnist-mlp-small": 784 * 32 + 32 + 32 * 10 + 10,
    "fashion-cnn": 832 + 51_264 + 3136 * 600 + 600 + 600 * 120 + 120 + 120 * 10 + 10,
    "covtype-mlp": 54 * 1000 + 1000 + 1000 * 500 + 500 + 500 * 7 + 7,
    "imdb-lstm": 10_000 * 64 + 4 * 256 * (64 + 256 + 2) + 4 * 256 * (256 + 256 + 2) + 256 * 2 + 2,
    "shakespeare-lstm-100": 80 * 8 + 400 * (8 + 100 + 2) + 400 * (100 + 100 + 2) + 100 * 80 + 80,
    "shakespeare-lstm-256": 90 * 8 + 1024 * (8 + 256 + 2) + 1024 * (256 + 256 + 2) + 256 * 90 + 90,
    "cifar-cnn": 896 + 9_248 + 18_496 + 36_928 + 64 * 36 * 10 + 10,
    "varsel-logistic": 784 * 10 + 10,
    "varsel-2nn": 784 * 200 + 200 + 200 * 200 + 200 + 200 * 10 + 10,
    "varsel-cnn": 2_432 + 51_264 + 4096 * 512 + 512 + 512 * 10 + 10,
}


class WithRunningMean(nn.Module):
    """A model with floating and integer buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(2, 3)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.norm(self.dense(x))
        return scores


@pytest.mark.parametrize("name", models.MODELS)
def test_each_model_has_the_size_of_its_paper_and_answers_a_batch(name: str) -> None:
    spec, model = models.spec_of(name), models.build(name)
    samples = Samples(np.zeros((3, *spec.shape), np.uint8), np.zeros(3, np.int64), np.arange(3))

    x, _ = batch_of(spec, samples, samples.rows, torch.device("cpu"))

    assert models.size(model) == SIZES[name]
    assert model(x).shape == (3, spec.classes)
    assert models.integer_buffers(model) == ()


def test_every_model_is_in_the_table_of_sizes() -> None:
    assert set(SIZES) | set(models.FAMILY_NAMES) == set(models.known_models())


def test_the_model_vector_is_the_sorted_tensors_in_c_order() -> None:
    model = models.build("varsel-logistic", 3)

    flat_D = models.flatten(model)

    assert models.layout(model) == (("dense.0.bias", (10,)), ("dense.0.weight", (10, 784)))
    state = model.state_dict()
    assert np.array_equal(flat_D[:10], state["dense.0.bias"].numpy())
    assert np.array_equal(flat_D[10:], state["dense.0.weight"].numpy().ravel())


def test_a_loaded_vector_comes_back_unchanged_also_from_read_only_memory() -> None:
    flat_D = np.random.default_rng(0).standard_normal(SIZES["mnist-cnn"]).astype(np.float32)
    flat_D.flags.writeable = False
    model = models.build("mnist-cnn")

    models.load_flat(model, flat_D)

    assert np.array_equal(models.flatten(model), flat_D)


def test_a_vector_of_another_length_is_refused() -> None:
    with pytest.raises(LengthError, match="7850"):
        models.load_flat(models.build("varsel-logistic"), np.zeros(7849, np.float32))


def test_initial_parameters_depend_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    first = models.initial_flat("shakespeare-lstm-100", 5)
    torch.manual_seed(2)
    before = torch.random.get_rng_state()

    second = models.initial_flat("shakespeare-lstm-100", 5)

    assert np.array_equal(first, second)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not np.array_equal(first, models.initial_flat("shakespeare-lstm-100", 6))


def test_initial_parameters_have_these_very_bits_on_every_machine() -> None:
    flat_D = models.initial_flat("mnist-mlp-small", 1)

    assert hashlib.sha256(flat_D.tobytes()).hexdigest()[:16] == "7df00aa7c7649b07"


def test_floating_buffers_are_aggregated_and_integer_ones_listed() -> None:
    model = WithRunningMean()

    names = [name for name, _ in models.layout(model)]

    assert "norm.running_mean" in names
    assert models.integer_buffers(model) == ("norm.num_batches_tracked",)
    assert models.size(model) == 6 + 3 + 4 * 3


def test_an_unknown_model_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"'resnet'.*mnist-cnn"):
        models.spec_of("resnet")


def test_a_model_that_draws_random_numbers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = models.ModelSpec("noisy", lambda: nn.Sequential(nn.Dropout()), "features", (2,), 2)
    monkeypatch.setitem(models.MODELS, "noisy", spec)

    with pytest.raises(InputError, match="dropout"):
        models.build("noisy")


def test_data_partitions_and_attacks_do_not_import_torch() -> None:
    code = (
        "import sys, chainfl.learning.datasets, chainfl.learning.partition, chainfl.learning.attacks;"
        "sys.exit('torch' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
