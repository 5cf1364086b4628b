"""Questions that others wrote as JSON: pydantic models, and the one place where a refusal becomes a line.

Numbers may be text (decimal or 0x), bytes are hexadecimal text. Nothing else is converted; unknown keys are refused.
"""

import base64
from collections.abc import Mapping
from typing import Annotated, Any, BinaryIO, Final, Self, TypeVar

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    ValidationError,
    model_validator,
)

from chainfl.codec import plain_json, vector
from chainfl.codec.cbor import Value
from chainfl.codec.cid import Cid
from chainfl.codec.plain_json import Json as Json
from chainfl.codec.vector import Vector
from chainfl.errors import InputError

T = TypeVar("T")
Q = TypeVar("Q", bound="Question")

_MAX_DIGITS = 80
_VECTOR_FORMS = "values (with s), w, u or bytes"
_EXPECTED: Final[Mapping[str, str]] = {
    "int_type": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "an array",
    "tuple_type": "[id, weight]",
    "model_type": "an object",
}


class WrongError(ValueError):
    """What a validator raises; `field` names one of a model's fields where the model as a whole is checked."""

    def __init__(self, what: str, field: str = "") -> None:
        super().__init__(what)
        self.field = field


class Question(BaseModel):
    """A JSON object whose every field is checked."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _has_known_keys(cls, value: Any) -> Any:
        """Refuse unknown keys: they are usually misspelt."""
        if isinstance(value, dict):
            known = [field.alias or name for name, field in cls.model_fields.items()]
            unknown = sorted(set(value) - set(known))
            if unknown:
                raise WrongError(f"unknown key {unknown[0]!r}; known: {', '.join(known)}")
        return value

    def has(self, name: str) -> bool:
        """Whether the caller gave this field."""
        return name in self.model_fields_set


def read_object(stream: BinaryIO) -> dict[str, Json]:
    """One JSON object."""
    value = plain_json.loads(stream.read(), "input")
    if not isinstance(value, dict):
        raise InputError(f"input: expected an object, found {kind(value)}")
    return value


def ask(question: type[Q], given: Mapping[str, Json]) -> Q:
    """The question that this JSON object asks.

    Raises:
        InputError: a field is unknown, missing or wrong; names it by its path and says what fits.
    """
    try:
        return question.model_validate(given)
    except ValidationError as error:
        first: Mapping[str, Any] = error.errors(include_url=False)[0]
        raise InputError(f"{_path(first)}: {_complaint(first)}") from None


def kind(value: object) -> str:
    """What JSON calls this value."""
    names = {type(None): "null", bool: "a boolean", int: "an integer", float: "a float", str: "text"}
    return names.get(type(value), "an array" if isinstance(value, list) else "an object")


def _path(error: Mapping[str, Any]) -> str:
    """Where it is wrong, such as input.scores[0][1]; tags in angle brackets are ours, not the caller's."""
    field = getattr(error.get("ctx", {}).get("error"), "field", "")
    places = (*error["loc"], field) if field else error["loc"]
    steps = (f"[{place}]" if isinstance(place, int) else f".{place}" for place in places if place not in TAGS)
    return "input" + "".join(steps)


def _complaint(error: Mapping[str, Any]) -> str:
    """What is wrong, and what fits."""
    sort = error["type"]
    value = error["input"]
    context = error.get("ctx", {})

    if sort == "value_error":
        return str(context["error"])
    if sort == "missing":
        return "this value is missing, and needed"

    if sort == "greater_than_equal":
        return f"{value!r:.80} is too small: give at least {context['ge']}"
    if sort == "less_than_equal":
        return f"{value!r:.80} is too large: give at most {context['le']}"
    if sort == "too_long":
        return f"{context['actual_length']} values, where there are at most {context['max_length']}"

    # Pydantic calls an integer beyond 2^1024 no float.
    if sort == "float_type" and kind(value) == "an integer":
        return "an integer is too large for a float64"

    if sort in _EXPECTED:
        return f"expected {_EXPECTED[sort]}, found {kind(value)}"
    return str(error["msg"])


# What fields hold. Tags name the branches of a union, which pydantic writes into the path of an error.

TEXT_TAG: Final = "<text>"
ARRAY_TAG: Final = "<array>"
PAIR_TAG: Final = "<pair>"
NUMBER_TAG: Final = "<number>"
TAGS: Final = (TEXT_TAG, ARRAY_TAG, PAIR_TAG, NUMBER_TAG)


def _number(value: object) -> object:
    """Decimal or 0x text as the integer it names: text holds more than some JSON readers can."""
    if not isinstance(value, str):
        return value
    if len(value) > _MAX_DIGITS:
        raise WrongError(f"{value!r:.80} has more digits than any number here")
    try:
        return int(value, 16 if value.startswith("0x") else 10)
    except ValueError:
        raise WrongError(f"{value!r:.80} is not an integer") from None


def _octets(value: object) -> bytes:
    if not isinstance(value, str):
        raise WrongError(f"expected hexadecimal text, found {kind(value)}")
    try:
        return bytes.fromhex(value.removeprefix("0x"))
    except ValueError:
        raise WrongError(f"{value!r:.80} is not hexadecimal text of whole bytes") from None


def _word(data: bytes) -> bytes:
    if len(data) != 32:
        raise WrongError(f"expected 32 bytes, found {len(data)}")
    return data


def _parameters(data: bytes) -> bytes:
    if len(data) % vector.BYTES:
        raise WrongError(f"{len(data)} bytes are no whole number of parameters of {vector.BYTES}")
    return data


def one_of(table: Mapping[str, Any]) -> BeforeValidator:
    """A validator of one of the names in a table; the field holds what the name stands for."""

    def chosen(value: object) -> Any:
        if not isinstance(value, str) or value not in table:
            raise WrongError(f"expected one of {', '.join(table)}, found {value!r:.80}")
        return table[value]

    return BeforeValidator(chosen)


class _FirstError(FailFast):
    """Read no further than the first wrong entry; hashable, so that an array can be part of a union."""

    def __hash__(self) -> int:
        return hash(self.fail_fast)


Array = Annotated[list[T], _FirstError()]
Integer = Annotated[int, BeforeValidator(_number)]
Uint32 = Annotated[int, Field(ge=0, le=2**32 - 1), BeforeValidator(_number)]
Uint128 = Annotated[int, Field(ge=0, le=2**128 - 1), BeforeValidator(_number)]
Signed32 = Annotated[int, Field(ge=-vector.BIAS, le=vector.BIAS - 1), BeforeValidator(_number)]
Octets = Annotated[bytes, BeforeValidator(_octets)]
Word = Annotated[Octets, AfterValidator(_word)]


class VectorQuestion(Question):
    """A model vector in exactly one of its four forms."""

    values: Array[float] = Field(default_factory=list)
    s: Integer = Field(20, ge=0, le=vector.MAX_SCALE)
    w: Array[Signed32] = Field(default_factory=list)
    u: Array[Uint32] = Field(default_factory=list)
    octets: Annotated[Octets, AfterValidator(_parameters)] = Field(b"", alias="bytes")

    @model_validator(mode="after")
    def _has_one_form(self) -> Self:
        forms = {"values": "values", "w": "w", "u": "u", "octets": "bytes"}
        found = [name for field, name in forms.items() if self.has(field)]
        if len(found) != 1:
            raise WrongError(f"give exactly one of {_VECTOR_FORMS}, found {', '.join(found) or 'none'}")
        return self

    def vector(self) -> Vector:
        """The vector, whatever its form."""
        if self.has("values"):
            return vector.encode(np.array(self.values, np.float64), self.s)
        if self.has("w"):
            return vector.from_signed(np.array(self.w, np.int64))
        if self.has("u"):
            return np.array(self.u, np.uint32)
        return vector.from_bytes(self.octets, len(self.octets) // vector.BYTES)


def _named_form(value: object) -> object:
    """An array is one of u, text the canonical bytes."""
    if isinstance(value, list):
        return {"u": value}
    return {"bytes": value} if isinstance(value, str) else value


AnyVector = Annotated[VectorQuestion, BeforeValidator(_named_form)]


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

    # The key "/" is reserved by DAG-JSON: a map with it is a link or bytes, never a map.
    inner = value["/"]
    if len(value) == 1 and isinstance(inner, str):
        return Cid.parse(inner)
    if len(value) == 1 and isinstance(inner, dict) and list(inner) == ["bytes"]:
        return _base64(inner["bytes"], path)
    raise InputError(f'{path}: the key "/" is only for links and bytes, as DAG-JSON writes them')


def _base64(value: Json, path: str) -> bytes:
    if not isinstance(value, str):
        raise InputError(f"{path}: bytes are base64 text, found {kind(value)}")
    try:
        return base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except ValueError:  # another alphabet, or letters that are not ASCII at all
        raise InputError(f"{path}: {value!r:.80} is not base64") from None
