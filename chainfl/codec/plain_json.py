"""JSON that others wrote, read so that no text can exhaust the stack or raise anything but an InputError."""

import json
import re

from chainfl.errors import InputError

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

MAX_DEPTH = 64

# A text that never ends is taken to its end: searched again from each of its quotes, it would take quadratic time.
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")


def loads(data: bytes, what: str) -> Json:
    """The value that this JSON text holds; `what` names it in a refusal.

    Raises:
        InputError: it is no JSON in UTF-8, nested too deep, or a number in it has thousands of digits.
    """
    _check_depth(data, what)
    try:
        value: Json = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what} is not JSON: {error}") from error
    return value


def _check_depth(data: bytes, what: str) -> None:
    """Refuse nesting that would exhaust the stack of a JSON reader, whatever its own limit is."""
    depth = 0
    for bracket in _BRACKET.findall(_TEXT.sub(b"", data)):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            raise InputError(f"{what} is not JSON: nested more than {MAX_DEPTH} deep")
