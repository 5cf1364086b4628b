"""Make hashes right after a mutation, or every changed byte would be refused at the first hash.

Parts name each other by placeholders; each is filled with what the part it stands for hashes to, last part first.
"""

from collections.abc import Callable, Sequence

from chainfl.codec.cid import Cid, Codec
from chainfl.codec.commitments import keccak256

MOST_PARTS = 64


def digest_mark(place: int) -> bytes:
    """Stands for the hash of the part at this place."""
    return b"\xfd" * 31 + bytes((place,))


def cid_mark(place: int, codec: Codec) -> Cid:
    """Stands for the name of the part at this place."""
    return Cid(codec, digest_mark(place))


def sealed(parts: Sequence[bytes], digest: Callable[[bytes], bytes] = keccak256) -> list[bytes]:
    """The parts with every placeholder of a later part filled in; one of an earlier part stays as it is."""
    filled = list(parts)
    for place in range(len(filled) - 1, 0, -1):
        found = digest(filled[place])
        for earlier in range(place):
            filled[earlier] = filled[earlier].replace(digest_mark(place), found)
    return filled
