"""Model vectors: D parameters as biased fixed-point integers (docs/protocol.md, "Model vector").

A parameter x is w = round_half_even(x * 2^s), held as u = w + 2^31 in a uint32; as bytes, u is big-endian.
Integers cannot be NaN and sum to the same value in any order, which floats do not.
"""

from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from chainfl.codec import _plain
from chainfl.codec._backend import has_numba, in_parallel
from chainfl.errors import InputError, LengthError, ParameterRangeError

Vector: TypeAlias = NDArray[np.uint32]
Floats: TypeAlias = NDArray[np.float32] | NDArray[np.float64]
Buffer: TypeAlias = bytes | bytearray | memoryview

BIAS = 1 << 31
BYTES = 4
MAX_SCALE = 31
_GRAIN = 1 << 21  # parameters; for fewer, one core keeps up with the memory and a second one has to be woken


def encode(x: ArrayLike, s: int, *, out: Vector | None = None, threads: int | None = None) -> Vector:
    """The vector of float32 or float64 values, rounded half to even; `out` is written only if all fit.

    Raises:
        ParameterRangeError: a value is NaN, infinite, or rounds outside -2^31 .. 2^31 - 1.
    """
    x_D = _as_floats(x)
    scale = 2.0 ** check_scale(s)
    u_D = _output(out, x_D.size, np.dtype(np.uint32))
    kernels = _kernels()
    fit = list[bool]()
    in_parallel(
        lambda a, b: fit.append(kernels.fits(x_D, scale, float(BIAS), a, b)), x_D.size, _GRAIN, threads
    )
    # The fit is checked before anything is written: `out` may be the model in use.
    if not all(fit):
        raise _first_misfit(x_D, s)

    in_parallel(lambda a, b: kernels.encode(x_D, scale, a, b, u_D), x_D.size, _GRAIN, threads)
    return u_D


def decode(
    u: Vector,
    s: int,
    dtype: DTypeLike = np.float32,
    *,
    out: NDArray[Any] | None = None,
    threads: int | None = None,
) -> NDArray[Any]:
    """The values of a vector; exact in float64, and in float32 where |w| <= 2^24, else rounded once."""
    kind = np.dtype(dtype) if out is None else out.dtype
    if kind not in (np.float32, np.float64):
        raise InputError(f"cannot decode to {kind}: take float32 or float64")
    u_D = as_vector(u)
    step = 2.0 ** -check_scale(s)
    x_D = _output(out, u_D.size, kind)
    kernels = _kernels()
    in_parallel(lambda a, b: kernels.decode(u_D, step, a, b, x_D), u_D.size, _GRAIN, threads)
    return x_D


def read_steps(x: Floats, s: int, out: Vector) -> bool:
    """Whether the values are just what `decode` gives of a vector, which is written to `out` (undefined if not)."""
    x_D = _as_floats(x)
    bits = x_D.view(f"u{x_D.itemsize}")
    scale = 2.0 ** check_scale(s)
    u_D = _output(out, x_D.size, np.dtype(np.uint32))
    kernels = _kernels()
    found = list[bool]()
    in_parallel(
        lambda a, b: found.append(kernels.read_steps(x_D, bits, scale, float(BIAS), a, b, u_D)),
        x_D.size,
        _GRAIN,
    )

    return all(found)


def to_bytes(u: Vector) -> bytes:
    """The canonical bytes, four per parameter, big-endian."""
    return as_vector(u).astype(">u4").tobytes()


def from_bytes(data: Buffer, d: int, *, out: Vector | None = None) -> Vector:
    """The vector of d parameters in canonical bytes.

    Raises:
        LengthError: the bytes are truncated or oversized.
    """
    u_D = _output(out, d, np.dtype(np.uint32))
    u_D[:] = view_bytes(data, d)
    return u_D


def to_native(u: Vector) -> Vector:
    """The same parameters in this machine's byte order, written over the old ones: no second copy is made."""
    if u.dtype.isnative:
        return u
    return u.byteswap(inplace=True).view(np.uint32)


def view_bytes(data: Buffer, d: int) -> NDArray[np.uint32]:
    """The parameters in canonical bytes, not copied: a big-endian array that `root` and `combine` accept."""
    check_bytes(memoryview(data).nbytes, d)
    return np.frombuffer(data, ">u4")


def to_signed(u: Vector) -> NDArray[np.int32]:
    """w = u - 2^31."""
    # The top bit is the sign's bias: flipping it is the subtraction of 2^31, without a wider type.
    return (as_vector(u) ^ np.uint32(BIAS)).view(np.int32)


def from_signed(w: ArrayLike) -> Vector:
    """u = w + 2^31, refused where w is no 32-bit integer."""
    w_D = np.asarray(w)
    if w_D.dtype.kind not in "iu" or w_D.ndim != 1:
        raise InputError(f"w is {w_D.dtype} of {w_D.ndim} dimensions: give one dimension of integers")
    misfits = np.flatnonzero((w_D < -BIAS) | (w_D >= BIAS)) if w_D.dtype != np.int32 else w_D[:0]
    if misfits.size:
        at = int(misfits[0])
        raise ParameterRangeError(f"parameter {at} is {w_D[at]}: w must lie in -2^31 .. 2^31 - 1")
    return w_D.astype(np.int32).view(np.uint32) ^ np.uint32(BIAS)


def as_vector(u: Vector) -> Vector:
    """u itself, or its copy in native order without gaps; anything but one dimension of uint32 is refused."""
    return np.require(check_vector(u), np.uint32, ["C", "A"])


def check_vector(u: Vector) -> Vector:
    """u itself, refused unless it is one dimension of uint32, in either byte order."""
    if u.dtype.newbyteorder("=") != np.uint32 or u.ndim != 1:
        raise InputError(f"a vector is one dimension of uint32, not {u.dtype} of shape {u.shape}")
    return u


def check_scale(s: int) -> int:
    """The number of fractional bits, refused outside 0..31."""
    if not 0 <= s <= MAX_SCALE:
        raise InputError(f"scale s is {s}: give 0 to {MAX_SCALE} fractional bits")
    return s


def check_bytes(length: int, d: int) -> None:
    """Refuse bytes that do not hold exactly d parameters."""
    if length != BYTES * d:
        fault = "truncated" if length < BYTES * d else "oversized"
        raise LengthError(f"vector bytes are {fault}: {length} bytes for d = {d}, which takes {BYTES * d}")


def _as_floats(x: ArrayLike) -> Floats:
    x_D = np.asarray(x)
    if x_D.ndim != 1:
        raise InputError(f"values have shape {x_D.shape}: flatten them to one dimension")
    kind = x_D.dtype.newbyteorder("=")
    if kind not in (np.float32, np.float64):
        raise InputError(f"values are {kind}: give float32 or float64")
    return np.require(x_D, kind, ["C", "A"])


def _output(out: NDArray[Any] | None, d: int, kind: np.dtype[Any]) -> NDArray[Any]:
    if out is None:
        return np.empty(d, kind)
    if out.shape != (d,):
        raise LengthError(f"out has shape {out.shape}: {d} parameters are to be written")
    if out.dtype != kind or not (out.flags.c_contiguous and out.flags.aligned and out.flags.writeable):
        raise InputError(f"out must be a writable, contiguous array of {kind}, not {out.dtype}")
    return out


def _first_misfit(x_D: Floats, s: int) -> ParameterRangeError:
    # Only for the message: the kernels say whether all fit, not which one does not.
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.rint(x_D * x_D.dtype.type(2.0**s))
        at = int(np.flatnonzero(~((rounded >= -BIAS) & (rounded < BIAS)))[0])
    limit = 2.0 ** (MAX_SCALE - s)
    return ParameterRangeError(
        f"parameter {at} is {float(x_D[at])!r}: with s = {s} values must be finite and within ±{limit:g}"
    )


def _kernels() -> ModuleType:
    if not has_numba():
        return _plain
    from chainfl.codec import _floats

    return _floats
