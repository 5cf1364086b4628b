"""Bytes and amounts as people read and write them."""

from chainfl.errors import InputError


def from_hex(text: str) -> bytes:
    """Bytes from hex digits, with or without 0x.

    Raises:
        ValueError: there is something else in the text.
    """
    return bytes.fromhex(text.removeprefix("0x"))


def parse_hex(text: str, size: int, what: str, option: str = "") -> bytes:
    """So many bytes from what a person, or an ABI decoder, wrote in hex.

    Raises:
        InputError: it is something else; `option` names where it was given.
    """
    try:
        raw = from_hex(text)
    except ValueError:
        raw = b""
    if len(raw) != size:
        given = f"{option} {text!r:.100}".lstrip()
        raise InputError(f"{given} is not {what}: 0x and {2 * size} hex digits are expected")
    return raw
