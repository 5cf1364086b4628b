"""The loops of `convolve`, compiled; every inner loop runs over channels or pixels that lie side by side."""

from typing import Any

import numba
import numpy as np

from chainfl.codec._backend import compiled
from chainfl.learning._vectors import (
    LANES,
    ROWS,
    add_eight,
    add_one,
    add_six,
    add_two,
    combine_eight,
    combine_six,
    multiply_one,
    multiply_two,
)

_READ_1, _READ_2, _READ_3, _READ_4 = (f"Array(float32, {n}, 'C', readonly=True)" for n in (1, 2, 3, 4))
DEPTH = 192
"""Terms that are summed up before they are added to what there is; part of what fixes the bits."""
_READ_PICKS = "Array(uint8, 4, 'C', readonly=True)"


@numba.njit(inline="always")
def _address(array: Any, at: int) -> Any:
    return np.uint64(array.ctypes.data) + np.uint64(4 * at)


@numba.njit
def _copy(from_WC: Any, into_WC: Any) -> None:
    """The channels that both have, of the pixels that both have."""
    width = min(len(from_WC), len(into_WC))
    channels = min(from_WC.shape[1], into_WC.shape[1])
    if from_WC.shape[1] == into_WC.shape[1]:
        source = from_WC.reshape(-1)
        target = into_WC.reshape(-1)
        for k in range(width * channels):
            target[k] = source[k]
        return
    for w in range(width):
        for c in range(channels):
            into_WC[w, c] = from_WC[w, c]


@compiled(
    f"void({_READ_4}, {_READ_2}, int64, int64, float32[:,:,::1], float32[:,:,::1], float32[:,:,:,::1], int64)"
)
def to_tiles(
    x_BHWC: Any,
    matrix_RI: Any,
    step: int,
    first: int,
    room_HWC: Any,
    strip_RWC: Any,
    out_RRNC: Any,
    across: int,
) -> None:
    """Each tile's products: `matrix_RI` times its rows, then times its columns; zeros beyond the edges.

    Tile (t, u) of a sample starts at row step*t + first and column step*u + first. `room` holds a sample and its edges.
    """
    samples, height, width, _ = x_BHWC.shape
    points = len(matrix_RI)
    columns = room_HWC.shape[1]
    channels = room_HWC.shape[2]
    down = (len(room_HWC) - 8) // step + 1
    apart = out_RRNC.shape[2] * channels
    matrix = _address(matrix_RI, 0)
    room_HWC[:] = 0

    for b in range(samples):
        for h in range(height):
            _copy(x_BHWC[b, h], room_HWC[h - first, -first : width - first])
        for t in range(down):
            combine_eight(
                matrix, points,
                _address(room_HWC, step * t * columns * channels), columns * channels,
                _address(strip_RWC, 0), columns * channels,
                columns * channels,
            )  # fmt: skip
            for u in range(across):
                n = (b * down + t) * across + u
                for r in range(points):
                    combine_eight(
                        matrix, points,
                        _address(strip_RWC, (r * columns + step * u) * channels), channels,
                        _address(out_RRNC, r * points * apart + n * channels), apart,
                        channels,
                    )  # fmt: skip


@compiled(
    f"void({_READ_4}, {_READ_2}, int64, int64, float32[:,:,::1], float32[:,:,::1], float32[:,:,:,::1], int64)"
)
def from_tiles(
    tiles_RRNC: Any,
    matrix_IR: Any,
    step: int,
    first: int,
    room_HWC: Any,
    half_RIC: Any,
    out_BHWC: Any,
    across: int,
) -> None:
    """Each tile, `matrix_IR` times its products both ways, where it lies; where tiles overlap, their sum."""
    samples, height, width, _ = out_BHWC.shape
    points = len(tiles_RRNC)
    rows = len(matrix_IR)
    channels = room_HWC.shape[2]
    columns = room_HWC.shape[1]
    down = (len(room_HWC) - rows) // step + 1
    apart = tiles_RRNC.shape[2] * channels
    matrix = _address(matrix_IR, 0)

    for b in range(samples):
        room_HWC[:] = 0
        for t in range(down):
            for u in range(across):
                n = (b * down + t) * across + u
                target = _address(room_HWC, (t * columns + u) * step * channels)
                for r in range(points):
                    source = _address(tiles_RRNC, r * points * apart + n * channels)
                    half = _address(half_RIC, r * rows * channels)
                    if points == 6:
                        combine_six(matrix, rows, source, apart, half, channels, channels)
                    else:
                        combine_eight(matrix, rows, source, apart, half, channels, channels)

                wide = rows * channels
                if points == 6:
                    add_six(matrix, rows, _address(half_RIC, 0), wide, target, columns * channels, wide)
                else:
                    add_eight(matrix, rows, _address(half_RIC, 0), wide, target, columns * channels, wide)
        for h in range(height):
            _copy(room_HWC[h - first, -first : width - first], out_BHWC[b, h])


@compiled(f"void({_READ_3}, {_READ_3}, float32[:,:,::1])")
def multiply(left_SNX: Any, right_SXY: Any, out_SNY: Any) -> None:
    """A product of matrices for each point; rows are a multiple of ROWS and one more, which is not filled.

    The row more keeps points from lying a power of two apart, where they would push each other out of the cache.
    """
    points, rows, depth = left_SNX.shape
    wide = right_SXY.shape[2]
    vectors = 2 if wide % (2 * LANES) == 0 else 1

    for s in range(points):
        for y in range(0, wide, vectors * LANES):
            right = _address(right_SXY, s * depth * wide + y)
            for n in range(0, rows - 1, ROWS):
                left = _address(left_SNX, (s * rows + n) * depth)
                out = _address(out_SNY, (s * rows + n) * wide + y)
                if vectors == 2:
                    multiply_two(left, depth, 1, right, wide, out, wide, depth)
                else:
                    multiply_one(left, depth, 1, right, wide, out, wide, depth)


@compiled(f"void({_READ_3}, {_READ_3}, int64, float32[:,:,::1])")
def add_over_rows(left_SNX: Any, right_SNY: Any, count: int, out_SXY: Any) -> None:
    """For each point add the product of the left matrix, turned over, and the right one: a sum over so many rows."""
    points, rows, x_wide = left_SNX.shape
    y_wide = right_SNY.shape[2]
    vectors = 2 if y_wide % (2 * LANES) == 0 else 1

    for s in range(points):
        for first in range(0, count, DEPTH):
            deep = min(DEPTH, count - first)
            row = s * rows + first
            for y in range(0, y_wide, vectors * LANES):
                right = _address(right_SNY, row * y_wide + y)
                for x in range(0, x_wide, ROWS):
                    left = _address(left_SNX, row * x_wide + x)
                    out = _address(out_SXY, (s * x_wide + x) * y_wide + y)
                    if vectors == 2:
                        add_two(left, 1, x_wide, right, y_wide, out, y_wide, deep)
                    else:
                        add_one(left, 1, x_wide, right, y_wide, out, y_wide, deep)


@compiled(f"void({_READ_2}, {_READ_2}, float32[:,::1])")
def add_product(weight_OI: Any, x_IB: Any, out_OB: Any) -> None:
    """Add `weight` times `x` to `out`, DEPTH inputs at a time: whole vectors of samples, whole ROWS of outputs."""
    outputs, inputs = weight_OI.shape
    samples = x_IB.shape[1]

    for first in range(0, inputs, DEPTH):
        deep = min(DEPTH, inputs - first)
        b = 0
        while b < samples:
            wide = 2 * LANES if b + 2 * LANES <= samples else LANES
            x = _address(x_IB, first * samples + b)
            for o in range(0, outputs, ROWS):
                weight = _address(weight_OI, o * inputs + first)
                out = _address(out_OB, o * samples + b)
                if wide > LANES:
                    add_two(weight, inputs, 1, x, samples, out, samples, deep)
                else:
                    add_one(weight, inputs, 1, x, samples, out, samples, deep)
            b += wide


@compiled(f"void({_READ_2}, {_READ_2}, float32[:,::1])")
def add_slopes(slopes_BO: Any, weight_OI: Any, out_BI: Any) -> None:
    """Add `slopes` times `weight` to `out`, DEPTH outputs at a time: whole ROWS of samples, whole vectors of inputs."""
    outputs, inputs = weight_OI.shape
    samples = len(slopes_BO)

    for first in range(0, outputs, DEPTH):
        deep = min(DEPTH, outputs - first)
        i = 0
        while i < inputs:
            wide = 2 * LANES if i + 2 * LANES <= inputs else LANES
            weight = _address(weight_OI, first * inputs + i)
            for b in range(0, samples, ROWS):
                slopes = _address(slopes_BO, b * outputs + first)
                out = _address(out_BI, b * inputs + i)
                if wide > LANES:
                    add_two(slopes, outputs, 1, weight, inputs, out, inputs, deep)
                else:
                    add_one(slopes, outputs, 1, weight, inputs, out, inputs, deep)
            i += wide


@compiled(f"void({_READ_4}, float32[:,:,:,:,:,::1])")
def gather(x_BCHW: Any, out_CkkBHW: Any) -> None:
    """The input once for each place in the kernel, shifted so that the place lies on the pixel; zeros outside."""
    channels, side, _, samples, height, width = out_CkkBHW.shape
    half = side // 2

    for channel in range(channels):
        for i in range(side):
            for j in range(side):
                shift = j - half
                start, stop = max(0, -shift), min(width, width - shift)
                for b in range(samples):
                    for h in range(height):
                        row = out_CkkBHW[channel, i, j, b, h]
                        if h + i - half < 0 or h + i - half >= height:
                            for w in range(width):
                                row[w] = 0
                            continue

                        for w in range(start):
                            row[w] = 0
                        for w in range(start, stop):
                            row[w] = x_BCHW[b, channel, h + i - half, w + shift]
                        for w in range(stop, width):
                            row[w] = 0


@compiled(f"void({_READ_4}, {_READ_1}, float32[:,:,:,::1], uint8[:,:,:,::1])")
def pool(y_BHWC: Any, bias_C: Any, out_BHWC: Any, picks_BHWC: Any) -> None:
    """The highest of each 2x2 pixels plus bias, zero if negative; `picks` says which it was, 4 if none.

    What is not a number wins over all others, so that it stays visible.
    """
    samples, height, width, channels = out_BHWC.shape

    for b in range(samples):
        for h in range(height):
            for w in range(width):
                for c in range(channels):
                    best, pick = y_BHWC[b, 2 * h, 2 * w, c], np.uint8(0)
                    one, two = y_BHWC[b, 2 * h, 2 * w + 1, c], y_BHWC[b, 2 * h + 1, 2 * w, c]
                    three = y_BHWC[b, 2 * h + 1, 2 * w + 1, c]

                    # "Not at most" in place of "more": NaN compares false and so wins.
                    if not one <= best:
                        best, pick = one, np.uint8(1)
                    if not two <= best:
                        best, pick = two, np.uint8(2)
                    if not three <= best:
                        best, pick = three, np.uint8(3)

                    best += bias_C[c]
                    if best <= 0:
                        best, pick = np.float32(0), np.uint8(4)
                    out_BHWC[b, h, w, c] = best
                    picks_BHWC[b, h, w, c] = pick


@compiled(f"void({_READ_4}, {_READ_PICKS}, float32[:,:,:,::1], float32[::1])")
def unpool(slopes_BHWC: Any, picks_BHWC: Any, out_BHWC: Any, of_bias_C: Any) -> None:
    """Each slope at the pixel that was picked, zeros at the others; those that count are added to the bias's."""
    samples, height, width, channels = slopes_BHWC.shape
    for b in range(samples):
        for h in range(height):
            for w in range(width):
                for k in range(4):
                    row, column = 2 * h + k // 2, 2 * w + k % 2
                    for c in range(channels):
                        is_picked = picks_BHWC[b, h, w, c] == k
                        out_BHWC[b, row, column, c] = slopes_BHWC[b, h, w, c] if is_picked else np.float32(0)
                for c in range(channels):
                    of_bias_C[c] += slopes_BHWC[b, h, w, c] if picks_BHWC[b, h, w, c] < 4 else np.float32(0)


@compiled(f"void({_READ_4}, {_READ_1}, float32[:,:,:,::1], uint8[:,:,:,::1])")
def rectify(y_BHWC: Any, bias_C: Any, out_BHWC: Any, picks_BHWC: Any) -> None:
    """Each pixel plus bias, zero if negative; `picks` is 4 where it is zero."""
    samples, height, width, channels = out_BHWC.shape
    for b in range(samples):
        for h in range(height):
            for w in range(width):
                for c in range(channels):
                    value, pick = y_BHWC[b, h, w, c] + bias_C[c], np.uint8(0)
                    if value <= 0:
                        value, pick = np.float32(0), np.uint8(4)
                    out_BHWC[b, h, w, c] = value
                    picks_BHWC[b, h, w, c] = pick


@compiled(f"void({_READ_4}, {_READ_PICKS}, float32[:,:,:,::1], float32[::1])")
def unrectify(slopes_BHWC: Any, picks_BHWC: Any, out_BHWC: Any, of_bias_C: Any) -> None:
    """Each slope where its pixel was kept, zeros elsewhere; those that count are added to the bias's."""
    samples, height, width, channels = slopes_BHWC.shape
    for b in range(samples):
        for h in range(height):
            for w in range(width):
                for c in range(channels):
                    slope = slopes_BHWC[b, h, w, c] if picks_BHWC[b, h, w, c] < 4 else np.float32(0)
                    out_BHWC[b, h, w, c] = slope
                    of_bias_C[c] += slope
