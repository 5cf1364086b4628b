"""Convolutions by tiles and patches: what torch's own give in double precision, forwards and back."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from chainfl.learning import convolve, models
from chainfl.learning.convolve import conv_pool_relu, conv_relu, is_fast
from chainfl.learning.dataset import Dataset
from chainfl.learning.evaluate import score
from chainfl.learning.train import Recipe, train

Layer = Callable[[nn.Conv2d, Tensor], Tensor]
FORMS = [
    (1, 32, 5, 28, 28),
    (3, 8, 5, 9, 7),
    (3, 32, 3, 24, 24),
    (32, 64, 5, 14, 14),
    (8, 16, 5, 16, 16),
    (6, 7, 5, 11, 6),
    (32, 32, 3, 24, 24),
    (5, 5, 3, 3, 2),
]


def layer(channels: int, outputs: int, side: int) -> nn.Conv2d:
    torch.manual_seed(1)
    return nn.Conv2d(channels, outputs, side, padding=side // 2)


def slopes(use: Layer, conv: nn.Conv2d, x: Tensor, seed: int = 3) -> list[Tensor]:
    """The answer and its slopes: of the input where there are enough channels, of weight and bias."""
    x = x.clone().requires_grad_(conv.in_channels > 4)
    y = use(conv, x)
    push = torch.randn(y.shape, generator=torch.Generator().manual_seed(seed)).to(y.dtype)
    wanted = [*([x] if x.requires_grad else []), conv.weight, *([conv.bias] if conv.bias is not None else [])]
    return [y.detach(), *torch.autograd.grad(y, wanted, push)]


@pytest.mark.parametrize("use", [conv_relu, conv_pool_relu])
@pytest.mark.parametrize("form", FORMS)
def test_answers_and_slopes_are_those_of_torch_in_double_precision(
    use: Layer, form: tuple[int, int, int, int, int]
) -> None:
    channels, outputs, side, height, width = form
    conv = layer(channels, outputs, side)
    x = torch.randn(6, channels, height, width, generator=torch.Generator().manual_seed(2))
    assert is_fast(conv, x)

    found = slopes(use, conv, x)

    for one, true in zip(found, slopes(use, copy.deepcopy(conv).double(), x.double()), strict=True):
        assert one.shape == true.shape
        assert (one - true).abs().max() <= 2e-5 * true.abs().max()


def test_a_sample_has_the_same_bits_alone_and_in_any_company() -> None:
    conv = layer(32, 64, 5)
    x = torch.randn(9, 32, 14, 14, generator=torch.Generator().manual_seed(2))

    together, alone = conv_pool_relu(conv, x[3:8]), conv_pool_relu(conv, x[3:8].clone())

    assert torch.equal(together, alone)


def test_what_is_not_a_number_stays_visible() -> None:
    conv = layer(8, 8, 3)
    x = torch.zeros(1, 8, 8, 8)
    x[0, 0, 5, 5] = torch.nan

    assert conv_pool_relu(conv, x).isnan().any()
    assert conv_relu(conv, x).isnan().any()


def test_slopes_of_few_channels_and_other_layers_are_left_to_torch() -> None:
    x = torch.zeros(1, 1, 8, 8)

    assert is_fast(layer(1, 4, 5), x)
    assert not is_fast(layer(1, 4, 5), x.clone().requires_grad_())
    assert not is_fast(layer(1, 4, 5).double(), x.double())
    assert not is_fast(nn.Conv2d(1, 4, 5, padding=2, bias=False), x)
    assert not is_fast(nn.Conv2d(1, 4, 5), x)
    assert not is_fast(nn.Conv2d(1, 4, 7, padding=3), x)
    assert not is_fast(nn.Conv2d(1, 4, 5, padding=2, stride=2), x)
    assert conv_pool_relu(nn.Conv2d(1, 4, 7, padding=3), x).shape == (1, 4, 4, 4)


def test_without_compiled_loops_training_and_scores_are_the_same_up_to_rounding(
    digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, samples = models.initial_flat("mnist-cnn", 1), digits.rows(np.arange(64))
    update = train("mnist-cnn", head, samples, Recipe(), 5)
    found = score("mnist-cnn", [update], samples)[0]

    monkeypatch.setenv("CHAINFL_NO_NUMBA", "1")
    plain = train("mnist-cnn", head, samples, Recipe(), 5)
    told = score("mnist-cnn", [update], samples)[0]

    assert update == pytest.approx(plain, abs=2e-6)
    assert not np.array_equal(update, head)
    assert found.loss == pytest.approx(told.loss, rel=1e-5)


def test_products_of_whole_vectors_are_those_of_double_precision() -> None:
    rng = np.random.default_rng(4)
    lanes, rows = convolve._kernels().LANES, convolve._kernels().ROWS
    left = rng.standard_normal((3, 5 * rows + 1, 2 * lanes)).astype(np.float32)
    right = rng.standard_normal((3, 2 * lanes, 4 * lanes)).astype(np.float32)
    out, turned = (
        np.empty((3, 5 * rows + 1, 4 * lanes), np.float32),
        np.ones((3, 4 * lanes, 2 * lanes), np.float32),
    )

    convolve._kernels().multiply(left, right, out)
    convolve._kernels().add_over_rows(out, left, 5 * rows, turned)

    product = left[:, :-1].astype(np.float64) @ right
    assert np.abs(out[:, :-1] - product).max() <= 2e-6 * np.abs(product).max()
    whole = 1 + out[:, :-1].astype(np.float64).transpose(0, 2, 1) @ left[:, :-1]
    assert np.abs(turned - whole).max() <= 2e-6 * np.abs(whole).max()
