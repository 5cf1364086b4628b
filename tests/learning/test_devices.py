"""What goes to a device and back: one transfer for a model, however many tensors it has. Tried without a GPU."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from chainfl.errors import InputError
from chainfl.learning import models
from chainfl.learning.compute import batch_of
from chainfl.learning.dataset import Dataset
from chainfl.learning.selfcheck import MODEL, check_device

META = torch.device("meta")


class Transfers(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations whose tensors lie on two devices, and their bytes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sizes: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = func(*args, **(kwargs or {}))
        tensors = [each for each in (*args, answer) if isinstance(each, torch.Tensor)]
        if len({each.device for each in tensors}) > 1:
            self.sizes.append(max(each.nbytes for each in tensors))
        return answer


@contextmanager
def transfers() -> Iterator[list[int]]:
    with Transfers() as seen:
        yield seen.sizes


def test_a_model_goes_to_a_device_in_one_transfer() -> None:
    network, flat_D = models.build(MODEL).to(META), models.initial_flat(MODEL, 3)

    with transfers() as sizes:
        models.load_flat(network, flat_D)

    assert sizes == [flat_D.nbytes]


def test_samples_go_there_as_they_are_stored(digits: Dataset) -> None:
    rows = np.arange(40)

    with transfers() as sizes:
        x, y = batch_of(models.spec_of(MODEL), digits.rows(rows), rows, META)

    assert sizes == [40 * 28 * 28, 40 * 8]
    assert (x.shape, x.dtype, y.device) == ((40, 1, 28, 28), torch.float32, META)


def test_the_check_of_a_device_finds_the_cpu_equal_to_itself() -> None:
    found = check_device("cpu")

    assert found.parameters_come_back
    assert (found.same_parameters, found.largest_difference) == (found.parameters, 0)
    assert (found.same_score, found.score_difference) == (True, 0)
    assert found.trained_a_second > 0
    assert found.scored_a_second > 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="device cuda is not available"):
        check_device("cuda")
