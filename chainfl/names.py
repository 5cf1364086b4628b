"""Things with names: our own and those that installed packages add by entry point."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib.metadata import entry_points
from math import isfinite
from typing import TypeVar

from chainfl.errors import InputError, UnknownNameError

T = TypeVar("T")


def known_names(own: Iterable[str], group: str) -> tuple[str, ...]:
    """Every name there is, sorted: ours and the entry points of `group`."""
    return tuple(sorted({*own, *(entry.name for entry in entry_points(group=group))}))


def find(kind: str, name: str, own: Mapping[str, T], group: str) -> T:
    """The thing called `name`; our own names come first, so that no package can change their meaning.

    Raises:
        UnknownNameError: that name is not registered.
        InputError: the package that registered it cannot be imported.
    """
    if name in own:
        return own[name]
    for entry in entry_points(group=group, name=name):
        try:
            found: T = entry.load()
        except Exception as problem:
            raise InputError(
                f"{kind} {name!r}: its package {entry.value} does not load: {problem}"
            ) from problem
        return found
    raise unknown(kind, name, known_names(own, group))


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """The refusal of an unknown name, which lists the known ones and points to the nearest."""
    names = sorted(set(known))
    there = f"there are: {', '.join(names)}" if names else "there are none"
    # Of `name:key=number` only the name can be misspelt here.
    return UnknownNameError(f"no {kind} is called {name!r}; {there}{nearest(name.partition(':')[0], names)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint at the known name that was probably meant, to put behind a refusal; empty where none is near."""
    close = get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def parse_call(
    kind: str, text: str, defaults: Mapping[str, Mapping[str, float]]
) -> tuple[str, dict[str, float]]:
    """Read `name:key=number,key=number` against the known names and their parameters' defaults.

    Raises:
        UnknownNameError: the name, or a parameter of it, is not known.
        InputError: a value is not a number.
    """
    name, _, rest = text.partition(":")
    if name not in defaults:
        raise unknown(kind, name, defaults)

    values = dict(defaults[name])
    for item in filter(None, rest.split(",")):
        key, _, value = item.strip().partition("=")
        if key not in values:
            raise unknown(f"parameter of {kind} {name}", key, values)

        try:
            values[key] = float(value)
        except ValueError:
            raise InputError(f"{kind} {text!r}: {key} must be a number, not {value!r}") from None
        if not isfinite(values[key]):
            raise InputError(f"{kind} {text!r}: {key} must be a finite number, not {value!r}")
    return name, values
