"""The loops of `convolve`, compiled; every inner loop runs over channels or pixels that lie side by side."""

from typing import Any

import numba
import numpy as np

from chainfl.codec._backend import compiled

_READ_1, _READ_2, _READ_4 = (f"Array(float32, {n}, 'C', readonly=True)" for n in (1, 2, 4))
_READ_PICKS = "Array(uint8, 4, 'C', readonly=True)"


@numba.njit(inline="always")
def _row(x_BHWC: Any, b: int, h: int, w: int, zeros_C: Any) -> Any:
    return x_BHWC[b, h, w] if h >= 0 and h < x_BHWC.shape[1] else zeros_C


@numba.njit(inline="always", fastmath={"contract"})
def _combine(m: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, out: Any) -> None:
    """Eight rows of channels, weighed by `m`."""
    m0, m1, m2, m3, m4, m5, m6, m7 = m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7]
    for k in range(out.size):
        left = (m0 * a[k] + m1 * b[k]) + (m2 * c[k] + m3 * d[k])
        out[k] = left + ((m4 * e[k] + m5 * f[k]) + (m6 * g[k] + m7 * h[k]))


@numba.njit(inline="always", fastmath={"contract"})
def _add(m: Any, rows: Any, out: Any) -> None:
    m0, m1, m2, m3, m4, m5, m6, m7 = m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7]
    for k in range(out.size):
        left = (m0 * rows[0, k] + m1 * rows[1, k]) + (m2 * rows[2, k] + m3 * rows[3, k])
        out[k] += left + ((m4 * rows[4, k] + m5 * rows[5, k]) + (m6 * rows[6, k] + m7 * rows[7, k]))


@compiled(f"void({_READ_4}, {_READ_2}, int64, int64, int64, int64, float32[:,:,:,::1])")
def to_tiles(
    x_BHWC: Any, matrix_RI: Any, step: int, first: int, down: int, across: int, out_RRNC: Any
) -> None:
    """Each tile's products: `matrix_RI` times its rows, then times its columns; zeros beyond the edges.

    Tile (t, u) of a sample starts at row step*t + first and column step*u + first.
    """
    samples, _, width, channels = x_BHWC.shape
    points = len(matrix_RI)
    strip_RWC = np.zeros((points, max(width - first, step * across + 8), channels), np.float32)
    zeros_C = np.zeros(channels, np.float32)

    for b in range(samples):
        for t in range(down):
            top = step * t + first
            for w in range(width):
                x0, x1 = _row(x_BHWC, b, top, w, zeros_C), _row(x_BHWC, b, top + 1, w, zeros_C)
                x2, x3 = _row(x_BHWC, b, top + 2, w, zeros_C), _row(x_BHWC, b, top + 3, w, zeros_C)
                x4, x5 = _row(x_BHWC, b, top + 4, w, zeros_C), _row(x_BHWC, b, top + 5, w, zeros_C)
                x6, x7 = _row(x_BHWC, b, top + 6, w, zeros_C), _row(x_BHWC, b, top + 7, w, zeros_C)
                for r in range(points):
                    _combine(matrix_RI[r], x0, x1, x2, x3, x4, x5, x6, x7, strip_RWC[r, w - first])

            for u in range(across):
                at, n = step * u, (b * down + t) * across + u
                for r in range(points):
                    strip_WC = strip_RWC[r]
                    for s in range(points):
                        _combine(
                            matrix_RI[s],
                            strip_WC[at], strip_WC[at + 1], strip_WC[at + 2], strip_WC[at + 3],
                            strip_WC[at + 4], strip_WC[at + 5], strip_WC[at + 6], strip_WC[at + 7],
                            out_RRNC[r, s, n],
                        )  # fmt: skip


@compiled(f"void({_READ_4}, {_READ_2}, int64, int64, int64, int64, float32[:,:,:,::1])")
def from_tiles(
    tiles_RRNC: Any, matrix_IR: Any, step: int, first: int, down: int, across: int, out_BHWC: Any
) -> None:
    """Each tile, `matrix_IR` times its products both ways, where it lies; where tiles overlap, their sum."""
    samples, height, width, channels = out_BHWC.shape
    points, rows = len(tiles_RRNC), len(matrix_IR)
    half_IRC, zeros_C = np.zeros((rows, 8, channels), np.float32), np.zeros(channels, np.float32)

    for b in range(samples):
        out_BHWC[b] = 0
        for t in range(down):
            for u in range(across):
                n = (b * down + t) * across + u
                for r in range(points):
                    of_RNC = tiles_RRNC[r]
                    six = of_RNC[6, n] if points > 6 else zeros_C
                    seven = of_RNC[7, n] if points > 7 else zeros_C
                    for j in range(rows):
                        _combine(
                            matrix_IR[j],
                            of_RNC[0, n], of_RNC[1, n], of_RNC[2, n], of_RNC[3, n],
                            of_RNC[4, n], of_RNC[5, n], six, seven,
                            half_IRC[j, r],
                        )  # fmt: skip

                for i in range(rows):
                    h = step * t + first + i
                    if h < 0 or h >= height:
                        continue
                    for j in range(rows):
                        w = step * u + first + j
                        if w >= 0 and w < width:
                            _add(matrix_IR[i], half_IRC[j], out_BHWC[b, h, w])


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
