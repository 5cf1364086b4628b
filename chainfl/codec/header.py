"""A block's header in the RLP bytes that hash to the block's hash: the randomness that seeds a draw is in it."""

from chainfl.codec import rlp
from chainfl.errors import RlpError

_MIX_HASH = 13
"""Its place among the fields. Forks append fields; those up to this one have kept their places."""


def mix_hash(header: bytes) -> bytes:
    """The beacon chain's randomness of the block (EIP-4399).

    Raises:
        RlpError: these bytes are no header.
    """
    fields = rlp.decode_list(header)
    if len(fields) <= _MIX_HASH:
        raise RlpError(f"a header has {len(fields)} fields, more than {_MIX_HASH} are expected")
    found = rlp.as_bytes(fields[_MIX_HASH])
    if len(found) != 32:
        raise RlpError(f"mixHash has {len(found)} bytes, 32 are expected")
    return found


def encode_header(number: int, mix_hash: bytes) -> bytes:
    """A header in which only number and randomness say something: what a chain in memory has."""
    word = bytes(32)
    empty = b""
    before = [word, word, bytes(20), word, word, word, bytes(256), empty, rlp.encode_int(number)]
    return rlp.encode([*before, empty, empty, empty, empty, mix_hash, bytes(8)])
