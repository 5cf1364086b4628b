"""The few pieces of Solidity's `abi.encode` that commitments and seeds need: words and one `bytes` tail.

`eth_abi` does the same and takes 0.3 s and more to import; the tests compare with it.
"""

from chainfl.errors import AbiError

WORD_BYTES = 32


def uint(value: int, bits: int, what: str) -> bytes:
    """An unsigned integer of at most `bits` bits as a word."""
    if not 0 <= value < 1 << bits:
        raise AbiError(f"{what}: {value!r:.80} is not a uint{bits}")
    return int(value).to_bytes(WORD_BYTES, "big")


def address(value: bytes, what: str) -> bytes:
    """A 20-byte address as a word, on the right."""
    if len(value) != 20:
        raise AbiError(f"{what}: an address is 20 bytes, not {len(value)}")
    return bytes(12) + bytes(value)


def bytes32(value: bytes, what: str) -> bytes:
    """32 bytes as they are."""
    if len(value) != WORD_BYTES:
        raise AbiError(f"{what}: expected 32 bytes, found {len(value)}")
    return bytes(value)


def short_text(value: str, what: str) -> bytes:
    """Up to 31 ASCII characters as a `bytes32` literal in Solidity: on the left, zeros after."""
    if not value.isascii() or not 1 <= len(value) < WORD_BYTES or "\0" in value:
        raise AbiError(f"{what}: {value!r:.80} is not 1 to 31 ASCII characters")
    return value.encode().ljust(WORD_BYTES, b"\0")


def dynamic_bytes(value: bytes) -> bytes:
    """A `bytes` tail: its length, then the bytes filled up to whole words."""
    return uint(len(value), 256, "length") + value + bytes(-len(value) % WORD_BYTES)
