"""An app's config: a dataclass of numbers and words, whose values a sponsor may set. Needs no torch."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from chainfl.codec.manifest import ConfigValue
from chainfl.errors import AppError
from chainfl.learning.source import Source

PLAIN = (bool, int, float, str)


def read_config(source: Source, given: Any, changes: Mapping[str, Any]) -> Any:
    """The config with what a sponsor set; None for an app that has none.

    Raises:
        AppError: it is no dataclass of plain values, or a change does not fit it.
    """
    if given is None:
        if changes:
            raise AppError(
                f"{source.main}: the app has no config, so {', '.join(sorted(changes))} cannot be set"
            )
        return None

    if not is_dataclass(given):
        raise AppError(
            f"{source.main}: config is a {type(given).__name__}; make it a dataclass with defaults"
        )

    # The user's class runs here: whatever it raises is the app's error, in one line.
    try:
        config: Any = given() if isinstance(given, type) else given
        known = {each.name: getattr(config, each.name) for each in fields(config)}
        for name, value in known.items():
            if not isinstance(value, PLAIN):
                raise AppError(
                    f"{source.main}: config.{name} is a {type(value).__name__}; give numbers or words"
                )
        for name in sorted(changes.keys() - known.keys()):
            raise AppError(
                f"{source.main}: config has no {name}; it has: {', '.join(sorted(known)) or 'nothing'}"
            )
        return replace(config, **{name: _fit(source, name, known[name], v) for name, v in changes.items()})
    except (TypeError, ValueError) as error:
        raise AppError(f"{source.main}: config: {error}") from None


def parse_changes(text: str | None) -> dict[str, Any]:
    """`rate=0.01,batch=16` as values.

    Raises:
        AppError: it is written otherwise.
    """
    changes: dict[str, Any] = {}
    for item in filter(None, (text or "").split(",")):
        name, is_pair, value = item.partition("=")
        if not is_pair or not name.strip():
            raise AppError(f"app config {item!r}: write name=value, with commas between")
        changes[name.strip()] = value.strip()
    return changes


def as_values(config: Any) -> tuple[ConfigValue, ...]:
    """The config as a manifest holds it."""
    if config is None:
        return ()
    pairs = sorted((each.name, getattr(config, each.name)) for each in fields(config))
    return tuple(ConfigValue(name, json.dumps(value)) for name, value in pairs)


def of_values(values: Sequence[ConfigValue]) -> dict[str, Any]:
    """What a manifest sets.

    Raises:
        AppError: a value is no JSON.
    """
    try:
        return {each.name: json.loads(each.value) for each in values}
    except ValueError as error:
        raise AppError(f"the manifest's config: {error}") from None


def _fit(source: Source, name: str, usual: Any, value: Any) -> Any:
    """A value of the same kind as the default; text from a command line is read as such."""
    kind = type(usual)
    try:
        if kind is bool:
            return {"true": True, "false": False}[str(value).lower()]
        if kind is int and isinstance(value, float):
            raise ValueError(value)
        return kind(value)
    except (KeyError, TypeError, ValueError):
        raise AppError(f"{source.main}: config.{name} is {value!r}; give a {kind.__name__}") from None
