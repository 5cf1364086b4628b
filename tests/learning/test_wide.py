"""Wide dense layers, forwards and back: what double precision gives, and the same bits in any company."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from chainfl.learning import models
from chainfl.learning.wide import is_wide, wide_dense, wide_slopes


def layer(inputs: int, outputs: int, samples: int) -> tuple[torch.Tensor, models.Dense]:
    torch.manual_seed(1)
    return torch.randn(samples, inputs), models.Dense(inputs, outputs)


@pytest.mark.parametrize("form", [(3136, 512, 300), (1008, 600, 130), (720, 800, 33), (192, 4096, 8)])
def test_answers_and_slopes_are_those_of_double_precision(form: tuple[int, int, int]) -> None:
    x, dense = layer(*form)
    slopes = torch.randn(len(x), form[1])

    with torch.no_grad():
        assert is_wide(x, dense.weight)
        found, of_x = dense(x), wide_slopes(slopes, dense.weight)
        true = functional.linear(x.double(), dense.weight.double(), dense.bias.double())
        true_of_x = slopes.double() @ dense.weight.double()

    assert found.is_contiguous()
    for one, other in ((found, true), (of_x, true_of_x)):
        assert one.shape == other.shape
        assert (one - other).abs().max() <= 2e-6 * other.abs().max()


def test_a_step_in_a_wide_layer_is_that_of_torch() -> None:
    x, dense = layer(1008, 600, 20)
    x.requires_grad_()
    plain = nn.Linear(1008, 600)
    plain.load_state_dict(dense.state_dict())
    push = torch.randn(20, 600)
    expected = torch.autograd.grad(plain(x), [x, plain.weight], push)

    dense.rate = 0.1
    (of_x,) = torch.autograd.grad(dense(x), [x], push)

    assert torch.allclose(of_x, expected[0], rtol=1e-4, atol=1e-5)
    assert torch.allclose(dense.weight, plain.weight - 0.1 * expected[1], rtol=1e-4, atol=1e-5)


def test_a_sample_has_the_same_bits_beside_any_others() -> None:
    x, dense = layer(3136, 512, 300)

    together = wide_dense(x, dense.weight, dense.bias)

    assert torch.equal(together[40:140], wide_dense(x[40:140], dense.weight, dense.bias))
    assert torch.equal(together.flip(0), wide_dense(x.flip(0), dense.weight, dense.bias))


def test_what_is_not_a_number_stays_where_it_is() -> None:
    x, dense = layer(3136, 512, 300)
    x[7, 5] = torch.nan

    found = wide_dense(x, dense.weight, dense.bias)

    assert found[7].isnan().all()
    assert np.isfinite(np.delete(found.detach().numpy(), 7, axis=0)).all()


def test_narrow_layers_few_samples_and_other_numbers_are_left_to_torch() -> None:
    x, dense = layer(3136, 512, 300)
    weight = dense.weight.detach()

    assert is_wide(x, weight)
    assert not is_wide(x[:7], weight)
    assert not is_wide(x, weight[:160])
    assert not is_wide(x, weight[:509])
    assert not is_wide(x, torch.zeros(256, 3136))
    assert not is_wide(x.double(), weight.double())
    assert not is_wide(x, torch.zeros(3136, 512).t())
