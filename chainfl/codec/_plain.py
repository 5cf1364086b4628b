"""The same kernels in plain numpy and hashlib, for machines without numba; slower, same results."""

import hashlib
import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from chainfl.codec._backend import blocks

_BLOCK = 1 << 15  # small enough that temporary arrays stay in the cache
_BIAS = np.uint32(1 << 31)


def fits(x: NDArray[np.floating], scale: float, limit: float, start: int, stop: int) -> bool:
    """Whether round(x * scale) lies in -limit..limit-1 everywhere; NaN does not."""
    return all(
        bool(np.all((rounded >= -limit) & (rounded < limit)))
        for _, rounded in _rounded(x, scale, start, stop)
    )


def encode(x: NDArray[np.floating], scale: float, start: int, stop: int, out: NDArray[np.uint32]) -> None:
    """Half-even rounding, then the bias; values were found to fit before."""
    for where, rounded in _rounded(x, scale, start, stop):
        np.bitwise_xor(rounded.astype(np.int32).view(np.uint32), _BIAS, out=out[where])


def decode(u: NDArray[np.uint32], step: float, start: int, stop: int, out: NDArray[np.floating]) -> None:
    """The value w * step; the product with a power of two is exact."""
    for where in blocks(start, stop, _BLOCK):
        np.multiply((u[where] ^ _BIAS).view(np.int32).astype(out.dtype), out.dtype.type(step), out=out[where])


def read_steps(
    x: NDArray[np.floating],
    bits: NDArray[np.unsignedinteger],
    scale: float,
    limit: float,
    start: int,
    stop: int,
    out: NDArray[np.uint32],
) -> bool:
    """`encode`, if each value is just what `decode` gives; no negative zero is."""
    negative_zero = bits.dtype.type(1 << (8 * bits.itemsize - 1))
    for where, rounded in _rounded(x, scale, start, stop):
        # A product with a power of two is exact, so the rounded one has to give the value back.
        is_step = (rounded * x.dtype.type(1 / scale) == x[where]) & (rounded >= -limit) & (rounded < limit)
        if not np.all(is_step & (bits[where] != negative_zero)):
            return False
        np.bitwise_xor(rounded.astype(np.int32).view(np.uint32), _BIAS, out=out[where])
    return True


def hash_messages(
    source: NDArray[np.uint32],
    length: int,
    prefix: int,
    swap: bool,
    start: int,
    stop: int,
    digests: NDArray[np.uint32],
) -> None:
    """Digests of messages start..stop: message i is the byte `prefix`, then words i*length..(i+1)*length."""
    words = source[start * length : stop * length]
    is_big_endian = swap == (sys.byteorder == "little")
    data = (words if is_big_endian else words.byteswap()).tobytes()
    head = bytes([prefix])
    size = 4 * length
    joined = b"".join(
        hashlib.sha256(head + data[at : at + size]).digest() for at in range(0, len(data), size)
    )
    digests[start:stop] = np.frombuffer(joined, ">u4").reshape(-1, 8)


def _rounded(
    x: NDArray[np.floating], scale: float, start: int, stop: int
) -> Iterator[tuple[slice, NDArray[np.floating]]]:
    with np.errstate(over="ignore"):  # infinity does not fit, and is refused
        for where in blocks(start, stop, _BLOCK):
            scaled = x[where] * x.dtype.type(scale)
            yield where, np.rint(scaled, out=scaled)
