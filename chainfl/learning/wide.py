"""Wide dense layers, forwards, on CPUs: BLAS does not use all that newer processors can.

B samples, I inputs, O outputs.
"""

from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from chainfl.codec._backend import has_numba

LEAST: Final = 2**24
"""Multiplications below which BLAS is left alone."""
FEWEST: Final = 32
"""Samples below which most of a vector would stay empty."""


def is_wide(x: Tensor, weight_OI: Tensor) -> bool:
    """Whether `wide_dense` takes this layer."""
    if torch.is_grad_enabled() or x.ndim != 2 or len(x) < FEWEST or len(x) * weight_OI.numel() < LEAST:
        return False
    is_float = x.dtype == weight_OI.dtype == torch.float32 and x.device.type == weight_OI.device.type == "cpu"
    return is_float and has_numba() and len(weight_OI) % _kernels().ROWS == 0


def wide_dense(x_BI: Tensor, weight_OI: Tensor, bias_O: Tensor) -> Tensor:
    """x · weightᵀ + bias; a sample has the same bits beside any others."""
    samples, inputs = x_BI.shape
    whole = -(-samples // _kernels().LANES) * _kernels().LANES
    x_IB = torch.zeros(inputs, whole)
    x_IB[:, :samples] = x_BI.t()
    out_OB = bias_O.detach().unsqueeze(1).repeat(1, whole)
    weight = np.ascontiguousarray(weight_OI.detach().numpy())
    _kernels().add_product(weight, x_IB.numpy(), out_OB.numpy())
    return out_OB[:, :samples].t().contiguous()


def _kernels() -> Any:
    """Compiled code, loaded when it is first needed."""
    from chainfl.learning import _kernels

    return _kernels
