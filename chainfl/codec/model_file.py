"""A model as a safetensors file that gives back the very integers of its vector (docs/models.md).

A tensor is float32 where that holds every parameter exactly, float64 where it does not. The bytes of a file are a
function of vector, scale, layout and `about`: a file that differs from what its own content would be written as is
refused, so that no byte of it can be changed unseen. The bytes are those that the format's own library writes.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chainfl.codec import plain_json
from chainfl.codec.records import Layout, Tensor
from chainfl.codec.shapes import ROOT_BYTES
from chainfl.codec.text import hex_of, parse_hex
from chainfl.codec.vector import MAX_SCALE, Vector, decode, encode, read_steps
from chainfl.errors import InputError, ModelFileError, ParameterRangeError, RecordError

KIND: Final = "chainfl/model-file/1"
_KEY: Final = "chainfl"
_METADATA: Final = "__metadata__"
_DTYPES: Final[dict[str, np.dtype[Any]]] = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4")}
"""The types of a tensor, in the order in which their tensors lie in a file."""

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
        InputError: the vector has another length than the layout, or a tensor a name that the format keeps for itself.
    """
    if len(u_D) != layout.d:
        raise InputError(f"model: the vector has {len(u_D)} parameters, its layout {layout.d}")
    if any(tensor.name == _METADATA for tensor in layout.tensors):
        raise InputError(f"model: no tensor of a safetensors file can have the name {_METADATA}")

    values = {tensor.name: _values(u_D[span], about.s) for tensor, span in spans(layout)}
    kinds = {name: "F32" if each.dtype == _DTYPES["F32"] else "F64" for name, each in values.items()}
    ordered = [values[tensor.name].tobytes() for tensor in _in_file(layout, kinds)]
    return b"".join([_header(layout, kinds, about), *ordered])


def read_model_file(data: bytes) -> ModelFile:
    """The vector, layout and claims of a file.

    Raises:
        ModelFileError: it is damaged, changed, or was not written by `chainfl model export`; says where.
    """
    header = _header_of(data)
    layout, kinds = _read_layout(header)
    about = _read_claims(header)

    # Every byte before the tensors is a function of what was read from them.
    expected = _header(layout, kinds, about)
    if not data.startswith(expected):
        raise ModelFileError("header: not as `chainfl model export` writes it: the file was changed")
    size = len(expected) + sum(_bytes_of(tensor, kinds) for tensor in layout.tensors)
    if len(data) != size:
        raise ModelFileError(f"file: {len(data)} bytes, its header describes {size}")

    u_D = np.empty(layout.d, np.uint32)
    where = {tensor.name: span for tensor, span in spans(layout)}
    at = len(expected)
    for tensor in _in_file(layout, kinds):
        values = np.frombuffer(data, _DTYPES[kinds[tensor.name]], tensor.size, at)
        _read_tensor(tensor.name, values, about.s, u_D[where[tensor.name]])
        at += values.nbytes
    return ModelFile(u_D, layout, about)


# Tensors


def _values(u_D: Vector, s: int) -> NDArray[Any]:
    """A tensor's parameters in the shorter of the two types that hold them exactly."""
    exact = decode(u_D, s, np.float64)
    short = exact.astype("<f4")
    return short if np.array_equal(short, exact) else exact.astype("<f8")


def _read_tensor(name: str, values: NDArray[Any], s: int, out: Vector) -> None:
    """Write the integers behind a stored tensor to `out`, if they are exactly what is stored."""
    # A value between two steps of the scale, or a negative zero, is no parameter.
    if not read_steps(values, s, out):
        raise ModelFileError(f"tensor {name!r}: {_why_no_steps(values, s)}")
    is_long = values.dtype == _DTYPES["F64"]
    if is_long and np.array_equal(values.astype("<f4"), values):
        raise ModelFileError(f"tensor {name!r}: stored as float64, its parameters fit float32")


def _why_no_steps(values: NDArray[Any], s: int) -> str:
    """The first value that is no parameter, and why."""
    try:
        u_D = encode(values, s)
    except ParameterRangeError as error:
        return str(error)
    bits = f"<u{values.dtype.itemsize}"
    back = decode(u_D, s, np.float64).astype(values.dtype)
    at = int(np.flatnonzero(back.view(bits) != values.view(bits))[0])
    return f"value {at} is {values[at]!r}, no step of 2^-{s}"


def _in_file(layout: Layout, kinds: dict[str, str]) -> list[Tensor]:
    """The tensors in the order of the file: those of the longer type first, each kind by name."""
    return [tensor for kind in _DTYPES for tensor in layout.tensors if kinds[tensor.name] == kind]


def _bytes_of(tensor: Tensor, kinds: dict[str, str]) -> int:
    return tensor.size * _DTYPES[kinds[tensor.name]].itemsize


# The header


def _header(layout: Layout, kinds: dict[str, str], about: About) -> bytes:
    """The bytes before the tensors: a length, and JSON filled up to a multiple of eight."""
    claims = json.dumps(about.plain(), sort_keys=True, separators=(",", ":"))
    header: dict[str, Any] = {_METADATA: {_KEY: claims}}
    at = 0
    for tensor in _in_file(layout, kinds):
        end = at + _bytes_of(tensor, kinds)
        header[tensor.name] = {
            "dtype": kinds[tensor.name],
            "shape": list(tensor.shape),
            "data_offsets": [at, end],
        }
        at = end

    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text


def _header_of(data: bytes) -> dict[str, plain_json.Json]:
    """What the JSON at the beginning of a file says.

    Raises:
        ModelFileError: there is none.
    """
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    if length > _MAX_HEADER_BYTES:
        raise ModelFileError(
            f"not a file of `chainfl model export`: a header of {length} bytes, {_MAX_HEADER_BYTES} are allowed"
        )

    # The length is the file's own word: it is held to a bound before anything of that size is looked at.
    text = data[_LENGTH_BYTES : _LENGTH_BYTES + length]
    if len(text) < length or len(data) < _LENGTH_BYTES:
        raise ModelFileError(f"header: the file ends after {len(data)} bytes, inside its header")

    try:
        header = plain_json.loads(text, "header")
    except InputError as error:
        raise ModelFileError(f"header: {error}") from None
    if not isinstance(header, dict):
        raise ModelFileError("header: not that of a safetensors file")
    return header


def _read_layout(header: dict[str, plain_json.Json]) -> tuple[Layout, dict[str, str]]:
    """Names and shapes of the tensors, and the type of each."""
    stored = {name: entry for name, entry in sorted(header.items()) if name != _METADATA}
    kinds = dict[str, str]()
    pairs = list[Any]()
    for name, entry in stored.items():
        if not isinstance(entry, dict) or entry.get("dtype") not in ("F32", "F64"):
            raise ModelFileError(f"tensor {name!r:.80}: not described as one of F32 or F64")
        if not _is_text(name):
            raise ModelFileError(f"tensor {name!r:.80}: the name is no text")
        kinds[name] = str(entry["dtype"])
        pairs.append([name, entry.get("shape")])
    try:
        return Layout.read({"tensors": pairs, "buffers": []}, ""), kinds
    except RecordError as error:
        raise ModelFileError(f"header: layout{error}") from None


def _is_text(name: str) -> bool:
    """False for half of a surrogate pair, which JSON can name and UTF-8 cannot hold."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def _read_claims(header: dict[str, plain_json.Json]) -> About:
    """The claims in the header's metadata."""
    metadata = header.get(_METADATA)
    claims = metadata.get(_KEY) if isinstance(metadata, dict) else None
    if not isinstance(claims, str):
        raise ModelFileError("header: it does not say which model it is: export it with `chainfl model`")
    try:
        return read_about(plain_json.loads(claims.encode(errors="replace"), "its claims"))
    except ModelFileError:
        raise
    except InputError as error:
        raise ModelFileError(f"header: {error}") from None


def read_about(plain: object) -> About:
    """The claims as plain values.

    Raises:
        ModelFileError: a field is missing or has another form.
    """
    fields = {"kind", "chain", "task", "round", "root", "s"}
    if not isinstance(plain, dict) or set(plain) != fields or plain["kind"] != KIND:
        raise ModelFileError(f"its claims are not {', '.join(sorted(fields))} of {KIND}")
    for name, most in (("chain", 1 << 64), ("round", 1 << 64), ("s", MAX_SCALE + 1)):
        value = plain[name]
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < most:
            raise ModelFileError(f"{name}: {value!r:.80} is no such number")
    try:
        task = parse_hex(str(plain["task"]), 20, "an address", "task")
        root = parse_hex(str(plain["root"]), ROOT_BYTES, "a root", "root")
    except InputError as error:
        raise ModelFileError(str(error)) from None
    return About(plain["chain"], task, plain["round"], root, plain["s"])
