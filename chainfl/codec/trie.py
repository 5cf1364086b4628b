"""Ethereum's Merkle Patricia trie: the root of a list of receipts, and proofs of single keys.

Yellow paper, appendix D. Nothing is stored: a trie is built to be hashed once, a proof is read once.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from chainfl.codec import rlp
from chainfl.codec.commitments import keccak256
from chainfl.errors import ProofError, RlpError

EMPTY_ROOT = keccak256(rlp.encode(b""))

Entry = tuple[bytes, bytes]
"""A key as nibbles, and its value."""


def ordered_root(values: Sequence[bytes]) -> bytes:
    """The root of a list, each value under the RLP of its index: how a block names its receipts."""
    return root({rlp.encode(rlp.encode_int(index)): value for index, value in enumerate(values)})


def root(entries: Mapping[bytes, bytes]) -> bytes:
    """The root of a map; values are not empty."""
    if not entries:
        return EMPTY_ROOT
    return keccak256(rlp.encode(_build(sorted((_nibbles(key), value) for key, value in entries.items()), 0)))


def look_up(expected_root: bytes, key: bytes, proof: Sequence[bytes]) -> bytes:
    """The value that a trie holds under a key.

    Raises:
        ProofError: a node is missing, changed, not needed or of a form that no trie has, or nothing is there.
    """
    try:
        return _look_up(expected_root, key, proof)
    except RlpError as error:
        raise ProofError(f"a node of the proof cannot be read: {error}") from error


def _look_up(expected_root: bytes, key: bytes, proof: Sequence[bytes]) -> bytes:
    nodes = iter(proof)
    path = _nibbles(key)
    reference: rlp.Value = expected_root
    while True:
        node = _node(reference, nodes)
        shared, is_last = (b"", not path) if len(node) == 17 else _unpack(rlp.as_bytes(node[0]))
        if path[: len(shared)] != shared or (is_last and path != shared):
            raise ProofError("the trie holds nothing under the key")

        path = path[len(shared) :]
        if is_last:
            break
        # A branch takes one nibble of the path; an extension took the ones that it shares.
        reference, path = (node[path[0]], path[1:]) if len(node) == 17 else (node[1], path)

    # A proof with spare nodes could have many forms; one is enough.
    if next(nodes, None) is not None:
        raise ProofError("the proof has more nodes than lead to its key")
    value = rlp.as_bytes(node[-1])
    if not value:
        raise ProofError("the trie holds nothing under the key")
    return value


def _node(reference: rlp.Value, nodes: Iterator[bytes]) -> Sequence[rlp.Value]:
    """The node behind a reference: the next of the proof, or written out in its parent."""
    if reference == b"":
        raise ProofError("the trie holds nothing under the key")
    if isinstance(reference, bytes):
        data = next(nodes, None)
        if data is None:
            raise ProofError("the proof ends before its key")
        if keccak256(data) != reference:
            raise ProofError(f"a node of the proof does not hash to {reference.hex()}")
        reference = rlp.decode_list(data)
    elif len(rlp.encode(reference)) >= 32:
        raise ProofError("a node of the proof holds another that belongs behind its hash")
    if len(reference) not in (2, 17):
        raise ProofError(f"a node of the proof has {len(reference)} parts, not 2 or 17")
    return reference


def _build(entries: Sequence[Entry], depth: int) -> rlp.Value:
    """The node that holds these entries, which agree in their first `depth` nibbles."""
    first = entries[0][0]
    last = entries[-1][0]

    if len(entries) == 1:
        return [_pack(first[depth:], True), entries[0][1]]

    # Entries are sorted: what the first and the last share, all share.
    shared = depth
    while shared < len(first) and first[shared] == last[shared]:
        shared += 1
    if shared > depth:
        return [_pack(first[depth:shared], False), _refer(_build(entries, shared))]

    # A key that ends here sorts first; its value is the branch's own.
    value = b""
    if len(first) == depth:
        value, entries = entries[0][1], entries[1:]

    below: list[rlp.Value] = [b""] * 16
    for nibble, group in groupby(entries, lambda entry: entry[0][depth]):
        below[nibble] = _refer(_build(list(group), depth + 1))
    return [*below, value]


def _refer(node: rlp.Value) -> rlp.Value:
    """How a parent names a node: by hash, or written out where that is shorter."""
    data = rlp.encode(node)
    return node if len(data) < 32 else keccak256(data)


def _nibbles(key: bytes) -> bytes:
    return bytes(nibble for byte in key for nibble in (byte >> 4, byte & 15))


def _pack(path: bytes, is_leaf: bool) -> bytes:
    """Nibbles as bytes; the first nibble marks a leaf and an odd count."""
    flags = 2 * is_leaf + len(path) % 2

    padded = bytes((flags,)) + (b"" if len(path) % 2 else b"\x00") + path
    return bytes(high << 4 | low for high, low in zip(padded[::2], padded[1::2], strict=True))


def _unpack(data: bytes) -> tuple[bytes, bool]:
    nibbles = _nibbles(data)
    if not nibbles or nibbles[0] > 3:
        raise ProofError("a path in the proof is malformed")
    path = nibbles[1 if nibbles[0] & 1 else 2 :]
    is_leaf = nibbles[0] >= 2
    if _pack(path, is_leaf) != data or not (path or is_leaf):
        raise ProofError("a path in the proof is malformed")
    return path, is_leaf
