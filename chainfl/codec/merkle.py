"""The Merkle tree over a model vector (docs/protocol.md, "Tree"): 32 bytes that bind every parameter.

A leaf is 64 parameters. Leaves hash as SHA-256(0x00 | leaf), nodes as SHA-256(0x01 | left | right), so that
neither can pass for the other. The depth is fixed by d: ceil(log2(ceil(d / 64))); positions from d on hold
2^31, the value zero.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from chainfl.codec import _plain
from chainfl.codec._backend import has_numba, in_parallel
from chainfl.codec.vector import BIAS, BYTES, Buffer, Vector, check_bytes, check_vector, view_bytes
from chainfl.errors import InputError, LengthError, ProofError

LEAF_PARAMETERS = 64
LEAF_BYTES = BYTES * LEAF_PARAMETERS
DIGEST_BYTES = 32
PADDING_LEAF = BIAS.to_bytes(BYTES, "big") * LEAF_PARAMETERS

_LEAF_PREFIX, _NODE_PREFIX = 0, 1
_DIGEST_WORDS = 8
_GRAIN = 256


@dataclass(frozen=True, slots=True)
class Proof:
    """One leaf and the digests beside its path, lowest first."""

    index: int
    leaf: bytes
    siblings: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """All digests of a vector's tree: many proofs for one build; the vector must not change meanwhile."""

    parameters: Vector
    levels: tuple[NDArray[np.uint32], ...]

    @property
    def depth(self) -> int:
        """How many digests a proof carries."""
        return len(self.levels) - 1

    @property
    def root(self) -> bytes:
        """The digest at the top."""
        return _to_digest(self.levels[-1][0])


def depth(d: int) -> int:
    """The depth of the tree of d parameters; 0 up to 64, where the root is the leaf's digest."""
    return (_leaf_count(d) - 1).bit_length()


def leaf_of(position: int) -> int:
    """The leaf that holds a parameter."""
    return position // LEAF_PARAMETERS


def build(u: Vector, *, threads: int | None = None) -> Tree:
    """The tree of a vector, in native or big-endian order."""
    return Tree(u, _levels(_leaf_digests(u, threads), threads))


def root(u: Vector, *, threads: int | None = None) -> bytes:
    """The root of a vector, in native or big-endian order."""
    return build(u, threads=threads).root


def root_from_bytes(data: Buffer, d: int, *, threads: int | None = None) -> bytes:
    """The root of canonical bytes, read in place.

    Raises:
        LengthError: the bytes are truncated or oversized.
    """
    return root(view_bytes(data, d), threads=threads)


def root_from_chunks(chunks: Iterable[Buffer], d: int, *, threads: int | None = None) -> bytes:
    """The root of canonical bytes that arrive in order, in whole leaves but for the last chunk.

    Raises:
        LengthError: a chunk ends inside a leaf, or together they are truncated or oversized.
    """
    digests, at = np.empty((_leaf_count(d), _DIGEST_WORDS), np.uint32), 0
    for chunk in chunks:
        size = memoryview(chunk).nbytes
        if at + size > BYTES * d or (size % LEAF_BYTES and at + size < BYTES * d):
            raise LengthError(
                f"chunk at byte {at} has {size} bytes: d = {d} takes {BYTES * d}, in leaves of {LEAF_BYTES}"
            )
        if size:
            part = _leaf_digests(np.frombuffer(chunk, ">u4"), threads)
            digests[at // LEAF_BYTES : at // LEAF_BYTES + len(part)] = part
        at += size
    check_bytes(at, d)
    return _to_digest(_levels(digests, threads)[-1][0])


def prove(tree: Tree | Vector, index: int) -> Proof:
    """The proof of one leaf, padding leaves included; give a Tree when more than one is needed."""
    tree = tree if isinstance(tree, Tree) else build(tree)
    if not 0 <= index < 1 << tree.depth:
        raise InputError(
            f"leaf {index} is not in a tree of depth {tree.depth}: give 0 to {(1 << tree.depth) - 1}"
        )
    siblings = (_digest_at(tree, level, index >> level ^ 1) for level in range(tree.depth))
    return Proof(index, leaf_bytes(tree.parameters, index), tuple(siblings))


def verify(root: bytes, depth: int, index: int, leaf: bytes, siblings: Sequence[bytes]) -> None:
    """Check that `leaf` is leaf `index` under `root`.

    Raises:
        ProofError: it is not, or the proof has not the shape of one.
    """
    if not 0 <= index < 1 << depth:
        raise ProofError(f"leaf {index} is not in a tree of depth {depth}")
    if (
        len(leaf) != LEAF_BYTES
        or len(siblings) != depth
        or any(len(each) != DIGEST_BYTES for each in siblings)
    ):
        raise ProofError(f"leaf {index}: a proof is {LEAF_BYTES} bytes and {depth} digests of {DIGEST_BYTES}")
    found = fold(index, leaf, siblings)
    if found != root:
        raise ProofError(f"leaf {index} leads to root {found.hex()}, not to {root.hex()}")


def fold(index: int, leaf: bytes, siblings: Sequence[bytes]) -> bytes:
    """The root that a leaf and the digests beside its path lead to."""
    digest = hash_leaf(leaf)
    for level, sibling in enumerate(siblings):
        digest = hash_node(sibling, digest) if index >> level & 1 else hash_node(digest, sibling)
    return digest


def hash_leaf(leaf: bytes) -> bytes:
    """SHA-256(0x00 | leaf)."""
    return hashlib.sha256(bytes([_LEAF_PREFIX]) + leaf).digest()


def hash_node(left: bytes, right: bytes) -> bytes:
    """SHA-256(0x01 | left | right)."""
    return hashlib.sha256(bytes([_NODE_PREFIX]) + left + right).digest()


def leaf_bytes(u: Vector, index: int) -> bytes:
    """The 256 bytes of one leaf, padded where the vector ends."""
    part = u[index * LEAF_PARAMETERS : (index + 1) * LEAF_PARAMETERS].astype(">u4").tobytes()
    return part + PADDING_LEAF[len(part) :]


@cache
def padding_digest(level: int) -> bytes:
    """The digest of a subtree that holds nothing but padding leaves."""
    if level == 0:
        return hash_leaf(PADDING_LEAF)
    below = padding_digest(level - 1)
    return hash_node(below, below)


def _leaf_count(d: int) -> int:
    if d < 1:
        raise InputError(f"d is {d}: a model has at least one parameter")
    return -(-d // LEAF_PARAMETERS)


def _leaf_digests(u: Vector, threads: int | None) -> NDArray[np.uint32]:
    is_foreign = check_vector(u).dtype != np.uint32
    words = np.require(u.view(np.uint32), requirements=["C", "A"])
    digests = np.empty((_leaf_count(u.size), _DIGEST_WORDS), np.uint32)
    whole = u.size // LEAF_PARAMETERS
    _hash_messages(words, LEAF_PARAMETERS, _LEAF_PREFIX, is_foreign, whole, digests, threads)
    if whole < len(digests):
        digests[whole] = _to_words(hash_leaf(leaf_bytes(u, whole)))
    return digests


def _levels(leaves: NDArray[np.uint32], threads: int | None) -> tuple[NDArray[np.uint32], ...]:
    levels = [leaves]
    while len(levels[-1]) > 1:
        levels.append(_parents(levels[-1], padding_digest(len(levels) - 1), threads))
    return tuple(levels)


def _parents(children: NDArray[np.uint32], padding: bytes, threads: int | None) -> NDArray[np.uint32]:
    pairs, is_odd = divmod(len(children), 2)
    parents = np.empty((pairs + is_odd, _DIGEST_WORDS), np.uint32)
    _hash_messages(children.reshape(-1), 2 * _DIGEST_WORDS, _NODE_PREFIX, False, pairs, parents, threads)
    if is_odd:
        parents[pairs] = _to_words(hash_node(_to_digest(children[-1]), padding))
    return parents


def _hash_messages(
    words: NDArray[np.uint32],
    length: int,
    prefix: int,
    swap: bool,
    count: int,
    digests: NDArray[np.uint32],
    threads: int | None,
) -> None:
    kernels = _kernels()
    in_parallel(
        lambda a, b: kernels.hash_messages(words, length, prefix, swap, a, b, digests), count, _GRAIN, threads
    )


def _digest_at(tree: Tree, level: int, node: int) -> bytes:
    digests = tree.levels[level]
    return _to_digest(digests[node]) if node < len(digests) else padding_digest(level)


def _to_digest(words: NDArray[np.uint32]) -> bytes:
    return words.astype(">u4").tobytes()


def _to_words(digest: bytes) -> NDArray[np.uint32]:
    return np.frombuffer(digest, ">u4")


def _kernels() -> ModuleType:
    if not has_numba():
        return _plain
    from chainfl.codec import _lanes

    return _lanes
