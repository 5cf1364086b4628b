"""CIDs: the names of bytes in IPFS. Here always version 1, SHA-256, raw bytes or dag-cbor, base32 text.

Chains hold the 32-byte digest alone; the codec follows from the place (`Cid.dag_cbor(digest)`).
"""

import base64
import binascii
import hashlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from chainfl.errors import CidError

DIGEST_BYTES = 32
CID_BYTES = 4 + DIGEST_BYTES
CID_CHARACTERS = 1 + (CID_BYTES * 8 + 4) // 5

_VERSION = 1
_SHA2_256 = 0x12
_BASE32 = "b"
_PADDING = "=" * (-(CID_CHARACTERS - 1) % 8)

Octets = bytes | bytearray | memoryview


class Codec(IntEnum):
    """How the bytes behind a CID are to be read."""

    RAW = 0x55
    DAG_CBOR = 0x71


@dataclass(frozen=True, slots=True, order=True)
class Cid:
    """The name of some bytes: how to read them, and their SHA-256."""

    codec: Codec
    digest: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.codec, Codec):
            raise CidError(f"codec {self.codec!r} is not raw (0x55) or dag-cbor (0x71)")
        if len(self.digest) != DIGEST_BYTES:
            raise CidError(f"a CID's digest is {DIGEST_BYTES} bytes, not {len(self.digest)}")

    @classmethod
    def of(cls, data: Octets, codec: Codec) -> Self:
        """The name of these bytes."""
        return cls(codec, hashlib.sha256(data).digest())

    @classmethod
    def raw(cls, digest: bytes) -> Self:
        """The raw block with this digest."""
        return cls(Codec.RAW, digest)

    @classmethod
    def dag_cbor(cls, digest: bytes) -> Self:
        """The record with this digest, as a chain names it."""
        return cls(Codec.DAG_CBOR, digest)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form `bafkrei…`, `bafyrei…`.

        Raises:
            CidError: the text is anything else; says what it seems to be.
        """
        if text.startswith("Qm") and len(text) == 46:
            raise CidError(f"{text} is a CIDv0; only CIDv1 in base32 is used here")
        if not text.startswith(_BASE32):
            raise CidError(f"{text!r:.80} is not base32 text of a CIDv1, which starts with 'b'")
        if len(text) != CID_CHARACTERS:
            raise CidError(f"{text!r:.80} has {len(text)} characters; a CID here has {CID_CHARACTERS}")
        if text != text.lower() or not text.isascii():
            raise CidError(f"{text!r:.80} is not lower-case base32")

        try:
            data = base64.b32decode(text[1:].upper() + _PADDING)
        except binascii.Error as error:
            raise CidError(f"{text!r:.80} has a character that base32 does not") from error
        cid = cls.from_bytes(data)

        # The last character has bits to spare, so that several texts decode to the same bytes.
        if str(cid) != text:
            raise CidError(f"{text!r:.80} is not the canonical text of {cid}: spare bits are not 0")
        return cid

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read the binary form: version, codec, hash, length, digest.

        Raises:
            CidError: another version, codec, hash or length.
        """
        if data[:2] == bytes((_SHA2_256, DIGEST_BYTES)):
            raise CidError("binary CIDv0; only CIDv1 is used here")
        if len(data) < 4:
            raise CidError(f"a binary CID is {CID_BYTES} bytes, not {len(data)}")
        version, codec, function, length = data[:4]
        if version != _VERSION:
            raise CidError(f"CID version {version}; only 1 is used here")
        if codec not in (Codec.RAW, Codec.DAG_CBOR):
            raise CidError(f"CID codec {codec:#x}; only raw (0x55) and dag-cbor (0x71) are used here")
        if function != _SHA2_256 or length != DIGEST_BYTES:
            raise CidError(f"CID hash {function:#x} of {length} bytes; only sha2-256 (0x12) of 32 is used")
        if len(data) != CID_BYTES:
            raise CidError(f"a binary CID is {CID_BYTES} bytes, not {len(data)}: truncated or trailing bytes")
        return cls(Codec(codec), bytes(data[4:]))

    def __bytes__(self) -> bytes:
        return bytes((_VERSION, self.codec, _SHA2_256, DIGEST_BYTES)) + self.digest

    def __str__(self) -> str:
        return _BASE32 + base64.b32encode(bytes(self)).decode().rstrip("=").lower()

    def matches(self, data: Octets) -> bool:
        """Whether these are the bytes that this CID names."""
        return hashlib.sha256(data).digest() == self.digest
