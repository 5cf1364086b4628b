"""Bytes and amounts as people read and write them."""

from chainfl.errors import InputError

ETHER = 10**18
"""Wei in one ether."""
GWEI = 10**9
"""Wei in one gwei."""


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


def hex_of(raw: bytes) -> str:
    """Bytes as 0x and lower-case hex."""
    return "0x" + raw.hex()


def short_hex(raw: bytes) -> str:
    """The first bytes of something long, enough to distinguish it from others."""
    return f"0x{raw.hex()[:12]}…"


def ether(wei: int, digits: int | None = None) -> str:
    """An amount for people: so many digits of ether; without a number four, or more where it is tiny."""
    value = wei / ETHER
    if digits is not None:
        return f"{value:.{digits}f} ETH"
    return f"{value:.4f} ETH" if value == 0 or value >= 0.0001 else f"{value:.2e} ETH"


def gwei(wei: float) -> str:
    """A price of gas for people."""
    return f"{wei / GWEI:g} gwei"
