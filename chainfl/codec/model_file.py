"""A model as a safetensors file that gives back the very integers of its vector (docs/models.md).

A tensor is float32 where that holds every parameter exactly, float64 where it does not. The bytes of a file are a
function of vector, scale, layout and `about`: a file that differs from what its own content would be written as is
refused, so that no byte of it can be changed unseen.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import safetensors
from numpy.typing import NDArray
from safetensors.numpy import save

from chainfl.codec.records import Layout, Tensor
from chainfl.codec.shapes import ROOT_BYTES
from chainfl.codec.text import hex_of, parse_hex
from chainfl.codec.vector import MAX_SCALE, Vector, decode, encode
from chainfl.errors import InputError, ModelFileError, ParameterRangeError, RecordError

KIND: Final = "chainfl/model-file/1"
_KEY: Final = "chainfl"
_DTYPES: Final[dict[str, np.dtype[Any]]] = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8")}
_NAMES: Final[dict[np.dtype[Any], str]] = {np.dtype("<f4"): "float32", np.dtype("<f8"): "float64"}
_LENGTH_BYTES: Final = 8
_MAX_HEADER_BYTES: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class About:
    """What a file says of itself: which model of which task it is. A claim, until a chain or a bundle proves it."""

    chain: int
    task: bytes
    round: int
    root: bytes
    s: int

    def plain(self) -> dict[str, object]:
        """As it stands in the file and in its statement."""
        return {
            "kind": KIND,
            "chain": self.chain,
            "task": hex_of(self.task),
            "round": self.round,
            "root": hex_of(self.root),
            "s": self.s,
        }


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file that is written as its content would be written; its root is not rebuilt yet."""

    vector: Vector
    layout: Layout
    about: About

    def spans(self) -> Iterator[tuple[Tensor, slice]]:
        """Each tensor and where it lies in the vector."""
        return spans(self.layout)


def spans(layout: Layout) -> Iterator[tuple[Tensor, slice]]:
    """Each tensor of a layout and where it lies in the vector."""
    at = 0
    for tensor in layout.tensors:
        yield tensor, slice(at, at + tensor.size)
        at += tensor.size


def write_model_file(u_D: Vector, layout: Layout, about: About) -> bytes:
    """The file of a vector; the same vector gives the same bytes.

    Raises:
        InputError: the vector has another length than the layout.
    """
    if len(u_D) != layout.d:
        raise InputError(f"model: the vector has {len(u_D)} parameters, its layout {layout.d}")
    tensors = {
        tensor.name: _values(u_D[span], about.s).reshape(tensor.shape) for tensor, span in spans(layout)
    }
    return _written(tensors, about)


def _written(tensors: dict[str, NDArray[Any]], about: About) -> bytes:
    # One entry of metadata only: the library keeps several in no particular order.
    metadata = {_KEY: json.dumps(about.plain(), sort_keys=True, separators=(",", ":"))}
    return save(tensors, metadata)


def read_model_file(data: bytes) -> ModelFile:
    """The vector, layout and claims of a file.

    Raises:
        ModelFileError: it is damaged, changed, or was not written by `chainfl model export`; says where.
    """
    try:
        found = safetensors.deserialize(data)  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError as error:
        raise ModelFileError(f"header: {error}") from None
    about = _read_about(data)
    stored = sorted(found, key=lambda item: item[0])

    layout = Layout(tuple(Tensor(name, tuple(each["shape"])) for name, each in stored))
    try:
        layout.check("")
        layout.read(layout.plain(), "")
    except RecordError as error:
        raise ModelFileError(f"header: layout{error}") from None

    u_D = np.empty(layout.d, np.uint32)
    tensors: dict[str, NDArray[Any]] = {}
    for (name, each), (tensor, span) in zip(stored, spans(layout), strict=True):
        u_D[span], values = _read_tensor(name, each, about.s)
        tensors[name] = values.reshape(tensor.shape)

    # What is left: bytes of the header that no tensor and no claim depends on.
    if _written(tensors, about) != data:
        raise ModelFileError("header: not as `chainfl model export` writes it: the file was changed")
    return ModelFile(u_D, layout, about)


def _values(u_D: Vector, s: int) -> NDArray[Any]:
    """A tensor's parameters in the shorter of the two types that hold them exactly."""
    exact = decode(u_D, s, np.float64)
    short = exact.astype("<f4")
    return short if np.array_equal(short, exact) else exact.astype("<f8")


def _read_tensor(name: str, stored: dict[str, Any], s: int) -> tuple[Vector, NDArray[Any]]:
    """The integers behind a stored tensor, if they are exactly what is stored, and the values as they are written."""
    dtype = _DTYPES.get(stored["dtype"])
    if dtype is None:
        raise ModelFileError(f"tensor {name!r}: {stored['dtype']}, not F32 or F64")
    values = np.frombuffer(stored["data"], dtype)
    try:
        u_D = encode(values.astype(dtype.newbyteorder("=")), s)
    except ParameterRangeError as error:
        raise ModelFileError(f"tensor {name!r}: {error}") from None

    # Bit for bit: a value between two steps of the scale, or a negative zero, is no parameter.
    back = _values(u_D, s)
    if back.dtype != dtype:
        raise ModelFileError(
            f"tensor {name!r}: stored as {_NAMES[dtype]}, its parameters fit {_NAMES[back.dtype]}"
        )
    bits = f"<u{dtype.itemsize}"
    wrong = np.flatnonzero(back.view(bits) != values.view(bits))
    if wrong.size:
        at = int(wrong[0])
        raise ModelFileError(f"tensor {name!r}: value {at} is {values[at]!r}, no step of 2^-{s}")
    return u_D, back


def _read_about(data: bytes) -> About:
    """The claims in the header, which the library has found to be a header."""
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    if length > _MAX_HEADER_BYTES:
        raise ModelFileError(f"header: {length} bytes, more than the {_MAX_HEADER_BYTES} allowed")
    header = json.loads(data[_LENGTH_BYTES : _LENGTH_BYTES + length])
    try:
        told = json.loads((header.get("__metadata__") or {})[_KEY])
        return read_about(told)
    except (KeyError, ValueError, RecursionError):
        raise ModelFileError(
            "header: it does not say which model it is: export it with `chainfl model`"
        ) from None


def read_about(told: object) -> About:
    """The claims as plain values.

    Raises:
        ModelFileError: a field is missing or has another form.
    """
    fields = {"kind", "chain", "task", "round", "root", "s"}
    if not isinstance(told, dict) or set(told) != fields or told["kind"] != KIND:
        raise ModelFileError(f"its claims are not {', '.join(sorted(fields))} of {KIND}")
    for name, most in (("chain", 1 << 64), ("round", 1 << 64), ("s", MAX_SCALE + 1)):
        value = told[name]
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < most:
            raise ModelFileError(f"{name}: {value!r:.80} is no such number")
    try:
        task = parse_hex(str(told["task"]), 20, "an address", "task")
        root = parse_hex(str(told["root"]), ROOT_BYTES, "a root", "root")
    except InputError as error:
        raise ModelFileError(str(error)) from None
    return About(told["chain"], task, told["round"], root, told["s"])
