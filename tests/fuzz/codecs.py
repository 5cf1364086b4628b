"""Targets: the encodings of records, blocks, proofs and scores. What is read has one encoding only."""

from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import Final

from chainfl.audit.bundle import BundleNode, Page
from chainfl.codec import car, cbor, merkle, rlp, trie
from chainfl.codec.cid import Cid
from chainfl.codec.commitments import keccak256
from chainfl.codec.records import BlockNode, Manifest, ModelNode, Record
from chainfl.codec.scores import ScoreKind, decode_scores, encode_scores
from chainfl.errors import BundleError, CidError, ProofError, RecordError, RlpError, ScoresError
from tests.fuzz.seal import MOST_PARTS, sealed
from tests.fuzz.target import Target

CID_HEADS: Final = (
    b"\x01\x71\x12\x20",
    b"\x01\x55\x12\x20",
    b"\x12\x20",
    b"\x01\x70\x12\x20",
    b"\x01\x55\x00\x05",
)
CBOR_WORDS: Final = (
    *(b"\xd8\x2a\x58\x25\x00" + head for head in CID_HEADS),
    *(
        b"\x9f\xff",
        b"\xbf\xff",
        b"\x5f\xff",
        b"\x7f\xff",
        b"\xf9\x7e\x00",
        b"\xfb" + bytes(8),
        b"\xf7",
        b"\xe0",
    ),
    *(b"\x1b" + b"\xff" * 8, b"\x3b" + b"\xff" * 8, b"\x5b" + b"\xff" * 8, b"\x9a\xff\xff\xff\xff", b"\x81"),
    *(b"\xa1\x61a", b"\xa2\x61a\x00\x61a\x00", b"\x18\x17", b"\x19\x00\xff", b"\xd8\x2b", b"\xc2\x41\x01"),
)
RLP_WORDS: Final = (
    *(
        b"\x81\x00",
        b"\x81\x7f",
        b"\xb8\x37",
        b"\xb8\x38",
        b"\xb9\x00\x38",
        b"\xbf" + b"\xff" * 8,
        b"\xf8\x37",
    ),
    *(
        b"\xff" + b"\xff" * 8,
        b"\xc0",
        b"\xc1\xc0",
        b"\x80",
        b"\xa0",
        b"\xf9\x01\x00",
        b"\xc1",
        b"\xd1" + b"\x80" * 17,
    ),
)


def read_cbor(data: bytes) -> None:
    """dag-cbor."""
    value = cbor.decode(data)
    assert cbor.encode(value) == data
    for link in cbor.links(value):
        assert bytes(link) in data


def read_cid_bytes(data: bytes) -> None:
    """A CID in bytes."""
    assert bytes(Cid.from_bytes(data)) == data


def read_cid_text(data: bytes) -> None:
    """A CID as text."""
    text = data.decode("utf-8", "surrogateescape")
    assert str(Cid.parse(text)) == text


def read_car(data: bytes) -> None:
    """A file of blocks."""
    file = BytesIO(data)
    root = car.read_header(file)
    blocks = [car.section(found.cid, block) for found, block in car.sections(file)]
    assert car.header(root) + b"".join(blocks) == data


def read_rlp(data: bytes) -> None:
    """RLP."""
    assert rlp.encode(rlp.decode(data)) == data


def read_rlp_number(data: bytes) -> None:
    """A number in RLP."""
    value = rlp.decode(data)
    assert rlp.encode(rlp.encode_int(rlp.decode_int(value))) == data


def read_rlp_strings(data: bytes) -> None:
    """A list of byte strings; the first byte says how many are read at the most."""
    found = rlp.decode_strings(data[1:], most=data[0] if data else 0)
    assert rlp.encode(found) == data[1:]


def read_rlp_stream(data: bytes) -> None:
    """A stream of RLP, in one piece and in pieces of the first byte's length: both give the same values."""
    size, stream = 1 + (data[0] if data else 0), data[1:]
    whole = _until_refused(partial(rlp.items, [stream], 1 << 12))
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert _until_refused(partial(rlp.items, pieces, 1 << 12))[0] == whole[0]
    assert stream.startswith(b"".join(whole[0]))
    if whole[1] is not None:
        raise whole[1]
    assert b"".join(whole[0]) == stream


def _until_refused(items: Callable[[], object]) -> tuple[list[bytes], RlpError | None]:
    found: list[bytes] = []
    try:
        for item in items():  # type: ignore[attr-defined]
            found.append(item)
    except RlpError as error:
        return found, error
    return found, None


def read_trie_proof(data: bytes) -> None:
    """A key, and the nodes of a proof; their hashes are made right first."""
    key, *nodes = rlp.decode_strings(data, MOST_PARTS) or [b""]
    nodes = sealed(nodes)
    value = trie.look_up(keccak256(nodes[0]) if nodes else trie.EMPTY_ROOT, key, nodes)
    assert isinstance(value, bytes)


def read_merkle_proof(data: bytes) -> None:
    """A leaf of a model and its path: depth, index in two bytes, leaf, digests."""
    depth, index = data[0] if data else 0, int.from_bytes(data[1:3], "big")
    leaf, path = data[3 : 3 + merkle.LEAF_BYTES], data[3 + merkle.LEAF_BYTES :]
    siblings = [path[at : at + 32] for at in range(0, len(path), 32)]
    fits = (
        len(leaf) == merkle.LEAF_BYTES
        and len(siblings) == depth
        and all(len(each) == 32 for each in siblings)
    )
    merkle.verify(merkle.fold(index, leaf, siblings), depth, index, leaf, siblings)
    assert fits


def read_record(kind: type[Record], data: bytes) -> None:
    """A record of one kind."""
    record = kind.decode(data)
    assert record.encode() == data
    assert record.cid.matches(data)


def read_scores(data: bytes) -> None:
    """What a validator reveals: kind, number of updates, the bytes."""
    kind = list(ScoreKind)[(data[0] if data else 0) % len(ScoreKind)]
    updates = data[1] if len(data) > 1 else 0
    scores = decode_scores(kind, data[2:], updates)
    assert len(scores.entries) == updates
    assert encode_scores(kind, scores) == data[2:]


RECORDS: Final = {
    "model-node": ModelNode,
    "block-node": BlockNode,
    "manifest": Manifest,
    "bundle-node": BundleNode,
    "bundle-page": Page,
}

TARGETS: Final = (
    Target("cbor", read_cbor, (RecordError,), 40_000, 700_000, words=CBOR_WORDS),
    Target("cid-bytes", read_cid_bytes, (CidError,), 40_000, 500_000, words=CID_HEADS, max_bytes=256),
    Target(
        "cid-text",
        read_cid_text,
        (CidError,),
        40_000,
        500_000,
        words=(b"bafkrei", b"Qm", b"B"),
        max_bytes=256,
    ),
    Target("car", read_car, (BundleError,), 40_000, 500_000, words=CID_HEADS),
    Target("rlp", read_rlp, (RlpError,), 60_000, 700_000, words=RLP_WORDS),
    Target("rlp-number", read_rlp_number, (RlpError,), 20_000, 300_000, words=RLP_WORDS, max_bytes=256),
    Target("rlp-strings", read_rlp_strings, (RlpError,), 30_000, 400_000, words=RLP_WORDS),
    Target("rlp-stream", read_rlp_stream, (RlpError,), 10_000, 300_000, words=RLP_WORDS, max_bytes=2048),
    Target("trie-proof", read_trie_proof, (ProofError, RlpError), 30_000, 500_000, words=RLP_WORDS),
    Target("merkle-proof", read_merkle_proof, (ProofError,), 20_000, 300_000),
    Target("scores", read_scores, (ScoresError,), 40_000, 600_000),
    *(
        Target(name, partial(read_record, kind), (RecordError,), 30_000, 400_000, words=CBOR_WORDS)
        for name, kind in RECORDS.items()
    ),
)
