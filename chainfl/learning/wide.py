"""Wide dense layers on CPUs, forwards and back: BLAS does not use all that newer processors can.

B samples, I inputs, O outputs.
"""

from typing import Any, Final

import torch
from torch import Tensor

from chainfl.codec._backend import has_numba

LEAST: Final = 2**19
"""Numbers in a weight below which BLAS is left alone."""
FEWEST: Final = 8
"""Samples below which most of a vector would stay empty."""


def is_wide(x: Tensor, weight_OI: Tensor) -> bool:
    """Whether this module takes this layer."""
    if x.ndim != 2 or len(x) < FEWEST or weight_OI.numel() < LEAST or not weight_OI.is_contiguous():
        return False
    is_float = x.dtype == weight_OI.dtype == torch.float32 and x.device.type == weight_OI.device.type == "cpu"
    if not is_float or not has_numba():
        return False
    # BLAS cuts sums of such a length in halves, not at DEPTH: they are left to it, so that bits stay as they were.
    depth = _kernels().DEPTH
    if any(depth < length < 2 * depth for length in weight_OI.shape):
        return False
    outputs, inputs = weight_OI.shape
    return bool(outputs % _kernels().ROWS == 0 and inputs % _kernels().LANES == 0)


def wide_dense(x_BI: Tensor, weight_OI: Tensor, bias_O: Tensor) -> Tensor:
    """x · weightᵀ + bias; a sample has the same bits beside any others."""
    samples, inputs = x_BI.shape
    whole = _whole(samples, _kernels().LANES)
    x_IB = torch.zeros(inputs, whole)
    x_IB[:, :samples] = x_BI.detach().t()
    out_OB = bias_O.detach().unsqueeze(1).repeat(1, whole)
    _kernels().add_product(weight_OI.detach().numpy(), x_IB.numpy(), out_OB.numpy())
    return out_OB[:, :samples].t().contiguous()


def wide_slopes(slopes_BO: Tensor, weight_OI: Tensor) -> Tensor:
    """slopes · weight: the slopes of what came into the layer."""
    samples, outputs = slopes_BO.shape
    slopes = torch.zeros(_whole(samples, _kernels().ROWS), outputs)
    slopes[:samples] = slopes_BO.detach()
    out_BI = torch.zeros(len(slopes), weight_OI.shape[1])
    _kernels().add_slopes(slopes.numpy(), weight_OI.detach().numpy(), out_BI.numpy())
    return out_BI[:samples]


def _whole(count: int, of: int) -> int:
    return -(-count // of) * of


def _kernels() -> Any:
    """Compiled code, loaded when it is first needed."""
    from chainfl.learning import _kernels

    return _kernels
