"""Frozen values and drafts as JSON and back, by their declared types: how a checkpoint keeps a task."""

import types
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import fields, is_dataclass
from enum import IntEnum
from functools import cache
from typing import Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from chainfl.errors import InputError

T = TypeVar("T")


def pack(value: Any) -> Any:
    """A value of dataclasses, integers, bytes and collections as JSON holds it."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: pack(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, IntEnum):
        return int(value)
    if isinstance(value, Mapping):
        return [[pack(key), pack(each)] for key, each in value.items()]
    if isinstance(value, set | frozenset):
        return [pack(each) for each in sorted(value)]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [pack(each) for each in value]
    return value


def unpack(kind: type[T], value: Any) -> T:
    """The value of this type again.

    Raises:
        InputError: what is there is not of this type.
    """
    try:
        unpacked: T = _unpack(kind, value)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"this is no {kind.__name__}: {error}") from None
    return unpacked


def _unpack(kind: Any, value: Any) -> Any:
    kind = getattr(kind, "__supertype__", kind)
    declared = _declared(kind)
    origin = get_origin(declared)
    inner = get_args(declared)

    if origin in (Union, types.UnionType):
        given = next(each for each in inner if each is not type(None))
        return None if value is None else _unpack(given, value)
    if origin is tuple and inner[-1] is not Ellipsis:
        return tuple(_unpack(each, part) for each, part in zip(inner, value, strict=True))
    if isinstance(origin, type) and issubclass(origin, MutableMapping):
        made = kind if isinstance(kind, type) and kind is not declared else origin
        return made((_unpack(inner[0], key), _unpack(inner[1], each)) for key, each in value)

    if isinstance(origin, type) and issubclass(origin, (Sequence, set, frozenset)):
        collect: Any = origin
        return collect(_unpack(inner[0], each) for each in value)

    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{each.name: _unpack(hints[each.name], value[each.name]) for each in fields(kind)})
    if kind is bytes:
        return bytes.fromhex(value)

    # Only what JSON holds is left: it must have the very type, for bool("no") is True.
    if not isinstance(value, int if issubclass(kind, IntEnum) else kind):
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return kind(value)


def _declared(kind: Any) -> Any:
    """The type with what it holds: `Accounts` is declared as a `SharedMap[Address, Account]`."""
    bases = getattr(kind, "__orig_bases__", ()) if get_origin(kind) is None else ()
    return next((base for base in bases if get_origin(base) is not Generic), kind)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
