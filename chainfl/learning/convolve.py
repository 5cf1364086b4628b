"""Convolutions on CPUs, of "same" size and stride 1, with fewer multiplications than direct ones (docs/adr/0011).

They follow Toom and Cook, and Winograd (minimal filtering): a tile of TILE by TILE results comes from R² products,
R = TILE + k - 1, instead of TILE² · k², which is a sixth (5x5) or a quarter (3x3). The products are one batch of
matrix products; small compiled loops bring the input there and the result back. A convolution over few channels is
one matrix product of the input's patches. Gradients take the same ways back. The results are those of `conv2d` up to
rounding, and have the same bits on one machine whatever runs beside them.

Shapes: B samples, H by W pixels, C channels in, O channels out, k side of a kernel, K = k², R points, S = R²,
I rows or columns of a tile, N tiles; for patches: P places of a patch, N pixels of all samples.
"""

import threading
from dataclasses import dataclass
from functools import cache
from math import isqrt, prod
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import Function, once_differentiable
from torch.nn import functional

from chainfl.codec._backend import has_numba

TILE: Final = 4
"""Rows of the result that are computed together."""
TERMS: Final = 8
"""Terms of every sum in the kernels; shorter sums are filled up with zeros."""
TILED_AT_ONCE: Final = 4
PATCHED_AT_ONCE: Final = 16
"""Samples that go through a layer together: few enough for what lies between to stay in the cache."""
FEW: Final = 4
"""Up to so many channels, patches are the fastest way."""
POINTS: Final = {3: (0.0, 1.0, -1.0, 2.0, -2.0), 5: (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5)}
"""By kernel side: where polynomials are evaluated, besides infinity."""

Floats: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class _Matrices:
    """A row of a tile is leave_IR · ((kernel_Rk · g_k) * (enter_RI · d_I)), g a kernel's row and d the input's.

    `kernel`, SxK, does both directions of a kernel at once. Those for compiled loops are there both ways round, each
    row filled up to TERMS.
    """

    kernel: Tensor
    enter: Floats
    enter_back: Floats
    leave: Floats
    leave_back: Floats


def conv_pool_relu(conv: nn.Conv2d, x_BCHW: Tensor) -> Tensor:
    """Convolution, 2x2 maximum, ReLU. The maximum comes first: the same values, a quarter of the work."""
    if not is_fast(conv, x_BCHW):
        return functional.relu(functional.max_pool2d(conv(x_BCHW), 2))
    return _apply(conv, x_BCHW, 2)


def conv_relu(conv: nn.Conv2d, x_BCHW: Tensor) -> Tensor:
    """Convolution, then ReLU."""
    if not is_fast(conv, x_BCHW):
        return functional.relu(conv(x_BCHW))
    return _apply(conv, x_BCHW, 1)


def is_fast(conv: nn.Conv2d, x_BCHW: Tensor) -> bool:
    """Whether this module's ways apply; in all other cases torch's own convolution does."""
    side = conv.kernel_size[0]
    is_same = conv.kernel_size == (side, side) and conv.padding == (side // 2, side // 2)
    is_simple = is_same and conv.stride == conv.dilation == (1, 1) and conv.groups == 1
    is_float = x_BCHW.dtype == conv.weight.dtype == torch.float32 and x_BCHW.device.type == "cpu"
    needs_input_slopes = x_BCHW.requires_grad and conv.in_channels <= FEW
    is_known = side in POINTS and conv.bias is not None and not needs_input_slopes
    return is_simple and is_float and is_known and has_numba()


class _Convolution(Function):
    """x, weight, bias, window: ReLU of the convolution's maxima over window x window pixels.

    A few samples at a time go all the way, so that what lies between input and output does not leave the cache.
    """

    @staticmethod
    def forward(ctx: Any, x_BCHW: Tensor, weight_OCkk: Tensor, bias_O: Tensor, window: int) -> Tensor:
        way = _way(weight_OCkk)
        samples, _, height, width = x_BCHW.shape
        x = way.arranged(x_BCHW)
        form = (samples, height // window, width // window, len(weight_OCkk))
        out_BHWO = np.empty(form, np.float32)
        picks_BHWO = np.empty(form, np.uint8)
        finish = _kernels().rectify if window == 1 else _kernels().pool

        for block in _blocks(samples, way.at_once):
            finish(way.forward(x[block]), bias_O.detach().numpy(), out_BHWO[block], picks_BHWO[block])
        ctx.save_for_backward(x_BCHW, weight_OCkk)
        ctx.picks = picks_BHWO
        ctx.window = window
        return torch.from_numpy(out_BHWO).permute(0, 3, 1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes_BOHW: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None]:
        x_BCHW, weight_OCkk = ctx.saved_tensors
        way = _way(weight_OCkk)
        samples, _, height, width = x_BCHW.shape

        x = way.arranged(x_BCHW)
        slopes_BHWO = _channels_last(slopes_BOHW)

        of_x = np.empty(x.shape, np.float32)
        of_bias_O = np.zeros(len(weight_OCkk), np.float32)
        undo = _kernels().unrectify if ctx.window == 1 else _kernels().unpool
        for block in _blocks(samples, way.at_once):
            full_BHWO = _scratch.array("full", (len(x[block]), height, width, len(weight_OCkk)))
            # Pixels at the edge that no window covers have no slope, and `undo` does not write them.
            if height % ctx.window or width % ctx.window:
                full_BHWO[:] = 0
            undo(slopes_BHWO[block], ctx.picks[block], full_BHWO, of_bias_O)
            way.backward(x[block], full_BHWO, of_x[block])
        of_input = torch.from_numpy(of_x).permute(0, 3, 1, 2) if ctx.needs_input_grad[0] else None
        return of_input, way.of_weight(), torch.from_numpy(of_bias_O), None


class _Patches:
    """A convolution over few channels: one product with the input's patches; no slopes of the input.

    Over one channel oneDNN is faster still, forwards only, if weights look channels-last: the same memory.
    """

    at_once = PATCHED_AT_ONCE

    def __init__(self, weight_OCkk: Tensor) -> None:
        self.form = weight_OCkk.shape
        self.weight_OP = weight_OCkk.detach().flatten(1)
        self.of_weight_PO = torch.zeros(self.weight_OP.shape[::-1])

    def arranged(self, x_BCHW: Tensor) -> Floats:
        """The input as `forward` and `backward` take it, samples first."""
        found: Floats = x_BCHW.detach().contiguous().numpy()
        return found

    def forward(self, x_BCHW: Floats) -> Floats:
        """The results, BxHxWxO; valid until the next call."""
        samples, channels, height, width = x_BCHW.shape
        if channels == 1:
            return self._over_one_channel(x_BCHW)
        y_BHWO = _scratch.array("full", (samples, height, width, len(self.weight_OP)))
        y_NO = torch.from_numpy(y_BHWO).flatten(0, 2)
        torch.mm(self._patches(x_BCHW).t(), self.weight_OP.t(), out=y_NO)
        return y_BHWO

    def backward(self, x_BCHW: Floats, slopes_BHWO: Floats, of_x: Floats) -> None:  # noqa: ARG002
        """Add up the weight's slopes."""
        slopes_NO = torch.from_numpy(slopes_BHWO).flatten(0, 2)
        self.of_weight_PO.addmm_(self._patches(x_BCHW), slopes_NO)

    def of_weight(self) -> Tensor:
        """The weight's slopes."""
        return self.of_weight_PO.t().reshape(self.form)

    def _over_one_channel(self, x_BCHW: Floats) -> Floats:
        side = self.form[2]
        # Strides of a channels-last tensor over the same numbers: oneDNN chooses its kernel by them.
        weight = self.weight_OP.as_strided(self.form, (side * side, 1, side, 1))
        return _channels_last(torch.conv2d(torch.from_numpy(x_BCHW), weight, padding=side // 2))

    def _patches(self, x_BCHW: Floats) -> Tensor:
        _, channels, side, _ = self.form
        samples, _, height, width = x_BCHW.shape
        patches = _scratch.array("input", (channels, side, side, samples, height, width))
        _kernels().gather(x_BCHW, patches)
        return torch.from_numpy(patches).view(channels * side * side, -1)


class _Tiles:
    """A convolution over many channels: one product for each point, of all tiles' and the kernels' values there.

    What lies between has whole vectors of channels.
    """

    at_once = TILED_AT_ONCE

    def __init__(self, weight_OCkk: Tensor) -> None:
        self.form = weight_OCkk.shape
        self.outputs, self.channels, self.side, _ = self.form
        self.use = _matrices(self.side)
        weight_KX = weight_OCkk.detach().reshape(self.outputs * self.channels, -1).t()
        self.weight_SOC = (self.use.kernel @ weight_KX).view(-1, self.outputs, self.channels)
        self.weight_SCO = _ready(self.weight_SOC.mT)
        self.of_weight_SOC: Tensor | None = None

    def arranged(self, x_BCHW: Tensor) -> Floats:
        """The input as `forward` and `backward` take it, samples first."""
        return _channels_last(x_BCHW)

    def forward(self, x_BHWC: Floats) -> Floats:
        """The results, BxHxWxO; valid until the next call."""
        tiles_SNC = _to_tiles(x_BHWC, self.use.enter, -(self.side // 2), "input")
        products_SNO = _multiply(tiles_SNC, self.weight_SCO, _tiles_of(x_BHWC), "output")
        y_BHWO = _scratch.array("full", (*x_BHWC.shape[:3], self.outputs))
        _from_tiles(products_SNO, self.use.leave, 0, y_BHWO)
        return y_BHWO

    def backward(self, x_BHWC: Floats, slopes_BHWO: Floats, of_x: Floats) -> None:
        """Write the input's slopes, add up the weight's."""
        tiles_SNC = _to_tiles(x_BHWC, self.use.enter, -(self.side // 2), "input")
        slopes_SNO = _to_tiles(slopes_BHWO, self.use.leave_back, 0, "output")
        if self.of_weight_SOC is None:
            self.of_weight_SOC = torch.zeros_like(self.weight_SOC)
        count = _tiles_of(x_BHWC)
        if _is_whole(self.of_weight_SOC):
            _kernels().add_over_rows(slopes_SNO, tiles_SNC, count, self.of_weight_SOC.numpy())
        else:
            self.of_weight_SOC.baddbmm_(
                torch.from_numpy(slopes_SNO)[:, :count, : self.outputs].mT,
                torch.from_numpy(tiles_SNC)[:, :count, : self.channels],
            )
        products_SNC = _multiply(slopes_SNO, self.weight_SOC, count, "input")
        _from_tiles(products_SNC, self.use.enter_back, -(self.side // 2), of_x)

    def of_weight(self) -> Tensor:
        """The weight's slopes."""

        assert self.of_weight_SOC is not None
        of_weight_KX = self.use.kernel.t() @ self.of_weight_SOC.flatten(1)
        return of_weight_KX.t().reshape(self.form)


def _apply(conv: nn.Conv2d, x_BCHW: Tensor, window: int) -> Tensor:
    found: Tensor = _Convolution.apply(x_BCHW, conv.weight, conv.bias, window)  # type: ignore[no-untyped-call]
    return found


def _way(weight_OCkk: Tensor) -> _Patches | _Tiles:
    return _Patches(weight_OCkk) if weight_OCkk.shape[1] <= FEW else _Tiles(weight_OCkk)


def _blocks(samples: int, at_once: int) -> list[slice]:
    return [slice(start, start + at_once) for start in range(0, samples, at_once)]


def _to_tiles(x_BHWC: Floats, matrix_RI: Floats, first: int, name: str) -> Floats:
    """SxNxC: room for whole vectors of channels and whole groups of tiles, and one row more (`_kernels.multiply`)."""
    points = len(matrix_RI)
    channels = _whole(x_BHWC.shape[3], _kernels().LANES)
    down, across = _grid(x_BHWC)
    rows = _whole(_tiles_of(x_BHWC), _kernels().ROWS) + 1
    tiles = _scratch.array(name, (points, points, rows, channels))

    # `room` is the sample with its border of zeros, `strip` its tiles transformed along one axis.
    room = _scratch.array("room", (TILE * (down - 1) + TERMS, TILE * (across - 1) + TERMS, channels))
    strip = _scratch.array("strip", (points, *room.shape[1:]))
    _kernels().to_tiles(x_BHWC, matrix_RI, TILE, first, room, strip, tiles, across)
    return tiles.reshape(points * points, rows, channels)


def _from_tiles(tiles_SNC: Floats, matrix_IR: Floats, first: int, out_BHWC: Floats) -> None:
    points = isqrt(len(tiles_SNC))
    rows = len(matrix_IR)
    channels = tiles_SNC.shape[2]
    down, across = _grid(out_BHWC)
    room = _scratch.array("room", (TILE * (down - 1) + rows, TILE * (across - 1) + rows, channels))
    half = _scratch.array("strip", (points, rows, channels))
    tiles = tiles_SNC.reshape(points, points, *tiles_SNC.shape[1:])
    _kernels().from_tiles(tiles, matrix_IR, TILE, first, room, half, out_BHWC, across)


def _multiply(tiles_SNX: Floats, weight_SXY: Tensor, count: int, name: str) -> Floats:
    """The products of so many tiles with a weight that is ready."""
    depth, wide = weight_SXY.shape[1:]
    found = _scratch.array(name, (*tiles_SNX.shape[:2], _whole(wide, _kernels().LANES)))

    if _is_whole(weight_SXY):
        _kernels().multiply(tiles_SNX, weight_SXY.numpy(), found)
    else:
        found[:, :count, :wide] = torch.bmm(
            torch.from_numpy(tiles_SNX)[:, :count, :depth], weight_SXY
        ).numpy()
    return found


def _ready(weight_SXY: Tensor) -> Tensor:
    """As products take it: layers that are narrower than vectors are left to BLAS, in whatever order they lie."""
    return weight_SXY.contiguous() if _is_whole(weight_SXY) else weight_SXY


def _is_whole(weight_SXY: Tensor) -> bool:
    return all(length % _kernels().LANES == 0 for length in weight_SXY.shape[1:])


def _grid(x_BHWC: Floats) -> tuple[int, int]:
    """Tiles down and across a sample."""
    return -(-x_BHWC.shape[1] // TILE), -(-x_BHWC.shape[2] // TILE)


def _tiles_of(x_BHWC: Floats) -> int:
    return prod(_grid(x_BHWC)) * len(x_BHWC)


def _whole(count: int, of: int) -> int:
    return -(-count // of) * of


class _Scratch(threading.local):
    """Each thread's room for what lies between input and output, used again and again."""

    def __init__(self) -> None:
        self.rooms: dict[str, Floats] = {}

    def array(self, name: str, form: tuple[int, ...]) -> Floats:
        """Room of this form; what was there under this name is overwritten."""
        # Rooms only grow: the last block of a batch is smaller, the next one is not.
        size = prod(form)
        if name not in self.rooms or self.rooms[name].size < size:
            self.rooms[name] = np.empty(size, np.float32)
        return self.rooms[name][:size].reshape(form)


_scratch = _Scratch()


def _channels_last(x_BCHW: Tensor) -> Floats:
    found: Floats = x_BCHW.detach().permute(0, 2, 3, 1).contiguous().numpy()
    return found


@cache
def _matrices(side: int) -> _Matrices:
    """From the Vandermonde matrices of the points: the transpose of Toom and Cook's polynomial product.

    Rows of `enter` are scaled by powers of two, and those of the kernel's matrix the other way: both stay near 1.
    """
    enter_RI, leave_RI = np.linalg.inv(_powers(side, TILE + side - 1)).T, _powers(side, TILE)
    scale_R1 = 2.0 ** np.round(np.log2(np.abs(enter_RI).max(axis=1, keepdims=True)))
    enter_RI = enter_RI / scale_R1
    kernel_Rk = _powers(side, side) * scale_R1
    kernel_SK = torch.from_numpy(np.kron(kernel_Rk, kernel_Rk)).float()
    return _Matrices(
        kernel_SK, _filled(enter_RI), _filled(enter_RI.T), _filled(leave_RI.T), _filled(leave_RI)
    )


def _powers(side: int, count: int) -> NDArray[np.float64]:
    """Each point's powers 0 … count - 1, and infinity's: only the highest."""
    finite = np.vander(np.array(POINTS[side]), count, increasing=True)
    return np.vstack([finite, np.eye(count)[-1]])


def _filled(matrix: NDArray[np.floating[Any]]) -> Floats:
    filled = np.zeros((len(matrix), TERMS), np.float32)
    filled[:, : matrix.shape[1]] = matrix
    return filled


def _kernels() -> Any:
    """Compiled code, loaded when it is first needed."""
    from chainfl.learning import _kernels

    return _kernels
