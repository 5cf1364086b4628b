"""Wide dense layers forwards: what double precision gives, and the same bits in any company."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from chainfl.learning import models
from chainfl.learning.wide import is_wide, wide_dense


def layer(inputs: int, outputs: int, samples: int) -> tuple[torch.Tensor, nn.Linear]:
    torch.manual_seed(1)
    return torch.randn(samples, inputs), models.Dense(inputs, outputs)


@pytest.mark.parametrize("form", [(3136, 512, 300), (1000, 504, 130), (700, 800, 33), (190, 2048, 65)])
def test_answers_are_those_of_double_precision(form: tuple[int, int, int]) -> None:
    x, dense = layer(*form)

    with torch.no_grad():
        assert is_wide(x, dense.weight)
        found = dense(x)
        true = functional.linear(x.double(), dense.weight.double(), dense.bias.double())

    assert found.shape == true.shape
    assert found.is_contiguous()
    assert (found - true).abs().max() <= 2e-6 * true.abs().max()


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


def test_slopes_narrow_layers_and_few_samples_are_left_to_torch() -> None:
    x, dense = layer(3136, 512, 300)

    assert not is_wide(x, dense.weight)
    with torch.no_grad():
        assert is_wide(x, dense.weight)
        assert not is_wide(x[:20], dense.weight)
        assert not is_wide(x, dense.weight[:10])
        assert not is_wide(x, dense.weight[:509])
        assert not is_wide(x.double(), dense.weight.double())
