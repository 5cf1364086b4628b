"""Written-out steps of dense networks: the bits of autograd, for any sizes, batches and learning rates."""

import numpy as np
import pytest
from torch import Tensor, nn

from chainfl.learning.dataset import Samples
from chainfl.learning.models import MODELS, DenseNet, ModelSpec, initial_flat
from chainfl.learning.recipe import Recipe
from chainfl.learning.train import train


class ByAutograd(nn.Module):
    """The same layers under the same names, in a network that is not known to have no others."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.dense = DenseNet(*widths).dense

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.dense(x.flatten(1))
        return scores


SHAPES = [(784, 10), (784, 32, 10), (784, 200, 200, 10), (54, 1000, 500, 7), (5, 3, 2)]


@pytest.mark.parametrize("widths", SHAPES, ids=str)
@pytest.mark.parametrize(("batch", "count"), [(10, 45), (32, 300), (7, 6), (1, 5)])
def test_written_out_steps_give_the_bits_of_autograd(
    widths: tuple[int, ...], batch: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = f"ours {widths}", f"theirs {widths}"
    for name, kind in ((one, DenseNet), (other, ByAutograd)):
        spec = ModelSpec(name, lambda kind=kind: kind(*widths), "features", widths[:1], widths[-1])  # type: ignore[misc]
        monkeypatch.setitem(MODELS, name, spec)
    rng = np.random.default_rng(sum(widths) + batch)
    x = rng.standard_normal((count + 3, widths[0])).astype(np.float32)
    samples = Samples(x, rng.integers(0, widths[-1], count + 3), rng.permutation(count + 3)[:count])
    recipe = Recipe(learning_rate=0.3, batch=batch, local_epochs=2)

    ours = train(one, initial_flat(one, 1), samples, recipe, seed=5)
    theirs = train(other, initial_flat(other, 1), samples, recipe, seed=5)

    assert not np.array_equal(ours, initial_flat(one, 1))
    assert np.array_equal(ours.view(np.uint32), theirs.view(np.uint32))


def test_pictures_are_fetched_together_and_give_the_bits_of_autograd(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ModelSpec("theirs", lambda: ByAutograd(784, 32, 10), "image", (28, 28), 10)
    monkeypatch.setitem(MODELS, "theirs", spec)
    rng = np.random.default_rng(3)
    x = rng.integers(0, 256, (5_000, 28, 28), dtype=np.uint8)
    samples = Samples(x, rng.integers(0, 10, 5_000), np.arange(5_000))
    recipe = Recipe(learning_rate=0.1, batch=50)

    ours = train("mnist-mlp-small", initial_flat("mnist-mlp-small", 1), samples, recipe, seed=5)
    theirs = train("theirs", initial_flat("theirs", 1), samples, recipe, seed=5)

    assert np.array_equal(ours.view(np.uint32), theirs.view(np.uint32))
