"""Between floats and biased fixed point, compiled by numba; one pass each, no temporary arrays.

Loops run from 0 over a slice, for LLVM does not vectorise them where an index might be negative.
"""

import numpy as np

from chainfl.codec._backend import READ_FLOAT32, READ_FLOAT64, READ_UINT32, READ_UINT64, compiled

BIAS = np.uint32(1 << 31)


@compiled(
    f"boolean({READ_FLOAT32}, float32, float32, int64, int64)",
    f"boolean({READ_FLOAT64}, float64, float64, int64, int64)",
)
def fits(x, scale, limit, start, stop):  # type: ignore[no-untyped-def]
    """Whether round(x * scale) lies in -limit..limit-1 everywhere; NaN does not."""
    part = x[start:stop]
    misfits = np.uint32(0)  # numba widens sums to 64 bits, half the lanes, unless told
    for i in range(part.size):
        rounded = np.rint(part[i] * scale)
        misfits = np.uint32(misfits + np.uint32(1 - ((rounded >= -limit) & (rounded < limit))))
    return misfits == 0


@compiled(
    f"void({READ_FLOAT32}, float32, int64, int64, uint32[::1])",
    f"void({READ_FLOAT64}, float64, int64, int64, uint32[::1])",
)
def encode(x, scale, start, stop, out):  # type: ignore[no-untyped-def]
    """Half-even rounding, then the bias; values were found to fit before."""
    part = x[start:stop]
    encoded = out[start:stop]
    for i in range(part.size):
        encoded[i] = np.uint32(np.int32(np.rint(part[i] * scale))) ^ BIAS


@compiled(
    f"void({READ_UINT32}, float32, int64, int64, float32[::1])",
    f"void({READ_UINT32}, float64, int64, int64, float64[::1])",
)
def decode(u, step, start, stop, out):  # type: ignore[no-untyped-def]
    """The value w * step; the product with a power of two is exact."""
    part = u[start:stop]
    decoded = out[start:stop]
    for i in range(part.size):
        decoded[i] = decoded.dtype.type(np.int32(part[i] ^ BIAS)) * step


@compiled(
    f"boolean({READ_FLOAT32}, {READ_UINT32}, float32, float32, int64, int64, uint32[::1])",
    f"boolean({READ_FLOAT64}, {READ_UINT64}, float64, float64, int64, int64, uint32[::1])",
)
def read_steps(x, bits, scale, limit, start, stop, out):  # type: ignore[no-untyped-def]
    """`encode` in the same pass as a check: whether each value is just what `decode` gives; no negative zero is."""
    part = x[start:stop]
    patterns = bits[start:stop]
    encoded = out[start:stop]
    negative_zero = patterns.dtype.type(1) << patterns.dtype.type(8 * patterns.itemsize - 1)
    wrong = np.uint32(0)
    for i in range(part.size):
        scaled = part[i] * scale
        rounded = np.rint(scaled)
        is_step = (rounded == scaled) & (rounded >= -limit) & (rounded < limit)
        wrong = np.uint32(wrong + np.uint32(1 - (is_step & (patterns[i] != negative_zero))))
        encoded[i] = np.uint32(np.int32(rounded)) ^ BIAS
    return wrong == 0
