"""Reading numbers and bytes that others wrote as JSON; what does not fit is refused by its path."""

import base64
from collections.abc import Mapping, Sequence
from typing import BinaryIO

import numpy as np

from chainfl.codec import plain_json, vector
from chainfl.codec.cbor import Value
from chainfl.codec.cid import Cid
from chainfl.codec.plain_json import Json as Json
from chainfl.codec.vector import Vector
from chainfl.errors import InputError

_MAX_DIGITS = 80
_VECTOR_FORMS = "values (with s), w, u or bytes"


def read_object(stream: BinaryIO) -> dict[str, Json]:
    """One JSON object."""
    return mapping(plain_json.loads(stream.read(), "input"), "input")


def mapping(value: Json, path: str) -> dict[str, Json]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected an object, found {kind(value)}")
    return value


def items(value: Json, path: str) -> list[Json]:
    """A JSON array."""
    if not isinstance(value, list):
        raise InputError(f"{path}: expected an array, found {kind(value)}")
    return value


def only(value: Mapping[str, Json], allowed: Sequence[str], path: str) -> None:
    """Refuse keys that nobody reads: they are usually misspelt."""
    unknown = sorted(set(value) - set(allowed))
    if unknown:
        raise InputError(f"{path}: unknown key {unknown[0]!r}; known: {', '.join(allowed)}")


def integer(value: Json, path: str, low: int, high: int) -> int:
    """An integer, or its decimal or 0x text, which holds more than some JSON readers can."""
    if isinstance(value, str):
        if len(value) > _MAX_DIGITS:
            raise InputError(f"{path}: {value!r:.80} has more digits than any number here")
        try:
            value = int(value, 16 if value.startswith("0x") else 10)
        except ValueError:
            raise InputError(f"{path}: {value!r:.80} is not an integer") from None
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{path}: expected an integer, found {kind(value)}")
    if not low <= value <= high:
        raise InputError(f"{path}: {value} is not within {low} to {high}")
    return value


def integers(value: Json, path: str, low: int, high: int) -> list[int]:
    """An array of integers."""
    return [integer(each, f"{path}[{at}]", low, high) for at, each in enumerate(items(value, path))]


def octets(value: Json, path: str) -> bytes:
    """Bytes as hexadecimal text, with or without 0x."""
    if not isinstance(value, str):
        raise InputError(f"{path}: expected hexadecimal text, found {kind(value)}")
    try:
        return bytes.fromhex(value.removeprefix("0x"))
    except ValueError:
        raise InputError(f"{path}: {value!r:.80} is not hexadecimal text of whole bytes") from None


def read_vector(value: Json, path: str) -> Vector:
    """A model vector: an array of u, the canonical bytes, or an object that says which form it has."""
    if isinstance(value, str):
        return _from_octets(octets(value, path), path)
    if isinstance(value, list):
        return _from_u(value, path)
    form = mapping(value, path)
    only(form, ("values", "s", "w", "u", "bytes"), path)
    names = [name for name in ("values", "w", "u", "bytes") if name in form]
    if len(names) != 1:
        raise InputError(f"{path}: give exactly one of {_VECTOR_FORMS}, found {', '.join(names) or 'none'}")
    if "values" in form:
        return _from_values(form, path)
    if "w" in form:
        w = integers(form["w"], f"{path}.w", -vector.BIAS, vector.BIAS - 1)
        return vector.from_signed(np.array(w, np.int64))
    if "u" in form:
        return _from_u(form["u"], f"{path}.u")
    return _from_octets(octets(form["bytes"], f"{path}.bytes"), f"{path}.bytes")


def from_dag_json(value: Json, path: str) -> Value:
    """A record written as DAG-JSON: {"/": cid} is a link, {"/": {"bytes": base64}} is bytes."""
    if isinstance(value, float):
        raise InputError(f"{path}: {value} is a float, which records do not hold")
    if isinstance(value, list):
        return [from_dag_json(each, f"{path}[{at}]") for at, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if "/" not in value:
        return {key: from_dag_json(each, f"{path}.{key}") for key, each in value.items()}
    inner = value["/"]
    if len(value) == 1 and isinstance(inner, str):
        return Cid.parse(inner)
    if len(value) == 1 and isinstance(inner, dict) and list(inner) == ["bytes"]:
        return _base64(inner["bytes"], path)
    raise InputError(f'{path}: the key "/" is only for links and bytes, as DAG-JSON writes them')


def kind(value: Json) -> str:
    """What JSON calls this value."""
    names = {type(None): "null", bool: "a boolean", int: "an integer", float: "a float", str: "text"}
    return names.get(type(value), "an array" if isinstance(value, list) else "an object")


def _from_values(form: Mapping[str, Json], path: str) -> Vector:
    s = integer(form.get("s", 20), f"{path}.s", 0, vector.MAX_SCALE)
    values = items(form["values"], f"{path}.values")
    for at, each in enumerate(values):
        if isinstance(each, bool) or not isinstance(each, int | float):
            raise InputError(f"{path}.values[{at}]: expected a number, found {kind(each)}")
    try:
        x_D = np.array(values, np.float64)
    except OverflowError:
        raise InputError(f"{path}.values: an integer is too large for a float64") from None
    return vector.encode(x_D, s)


def _from_u(value: Json, path: str) -> Vector:
    return np.array(integers(value, path, 0, 2**32 - 1), np.uint32)


def _from_octets(data: bytes, path: str) -> Vector:
    if len(data) % vector.BYTES:
        raise InputError(f"{path}: {len(data)} bytes are no whole number of parameters of {vector.BYTES}")
    return vector.from_bytes(data, len(data) // vector.BYTES)


def _base64(value: Json, path: str) -> bytes:
    if not isinstance(value, str):
        raise InputError(f"{path}: bytes are base64 text, found {kind(value)}")
    try:
        return base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except ValueError:  # another alphabet, or letters that are not ASCII at all
        raise InputError(f"{path}: {value!r:.80} is not base64") from None
