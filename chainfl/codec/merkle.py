"""The Merkle tree over a model vector (docs/protocol.md, "Tree"): 32 bytes that bind every parameter.

A leaf is 64 parameters. Leaves hash as SHA-256(0x00 | leaf), nodes as SHA-256(0x01 | left | right), so that
neither can pass for the other. The depth is fixed by d: ceil(log2(ceil(d / 64))); positions from d on hold
2^31, the value zero.
"""

import hashlib
import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import TypeAlias

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
_GRAIN = 1 << 10  # leaves; a power of two, so that slices are whole subtrees

Levels: TypeAlias = tuple[NDArray[np.uint32], ...]


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
    levels: Levels

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
    levels = _empty_levels(u.size)
    _climb(levels, _leaf_hasher(u, levels[0]), threads)
    return Tree(u, levels)


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
    levels = _empty_levels(d)
    at = 0

    for chunk in chunks:
        # Only the last chunk may end inside a leaf: the next one would begin in the middle of it.
        size = memoryview(chunk).nbytes
        if at + size > BYTES * d or (size % LEAF_BYTES and at + size < BYTES * d):
            raise LengthError(
                f"chunk at byte {at} has {size} bytes: d = {d} takes {BYTES * d}, in leaves of {LEAF_BYTES}"
            )

        if size:
            digests = levels[0][at // LEAF_BYTES : -(-(at + size) // LEAF_BYTES)]
            in_parallel(_leaf_hasher(np.frombuffer(chunk, ">u4"), digests), len(digests), _GRAIN, threads)
        at += size

    check_bytes(at, d)
    _climb(levels, lambda _start, _stop: None, threads)
    return _to_digest(levels[-1][0])


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

    # Lengths were checked first, so that no other split of the same bytes hashes to the same root.
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


def _empty_levels(d: int) -> Levels:
    counts = [_leaf_count(d)]
    while counts[-1] > 1:
        counts.append(-(-counts[-1] // 2))
    return tuple(np.empty((count, _DIGEST_WORDS), np.uint32) for count in counts)


def _climb(levels: Levels, hash_leaves: Callable[[int, int], None], threads: int | None) -> None:
    """Fill all levels: subtrees of _GRAIN leaves side by side, each from the leaves up, then the levels above them.

    Threads meet once and not on every level, which would cost more than the hashing where cores are busy.
    """

    def hash_subtrees(start: int, stop: int) -> None:
        hash_leaves(start, stop)
        for level in range(1, min(_GRAIN.bit_length(), len(levels))):
            start, stop = start // 2, -(-stop // 2)
            _hash_nodes(levels, level, start, stop)

    # Above the subtrees there are too few nodes to share out.
    in_parallel(hash_subtrees, len(levels[0]), _GRAIN, threads)
    for level in range(_GRAIN.bit_length(), len(levels)):
        _hash_nodes(levels, level, 0, len(levels[level]))


def _leaf_hasher(u: Vector, digests: NDArray[np.uint32]) -> Callable[[int, int], None]:
    """What writes the digests of leaves start..stop of u, the last one padded."""
    is_foreign = check_vector(u).dtype != np.uint32
    words = np.require(u.view(np.uint32), requirements=["C", "A"])
    kernels = _kernels()
    whole = u.size // LEAF_PARAMETERS

    def hash_leaves(start: int, stop: int) -> None:
        kernels.hash_messages(
            words, LEAF_PARAMETERS, _LEAF_PREFIX, is_foreign, start, min(stop, whole), digests
        )

        # The last leaf may be short: it is padded by the one definition of `leaf_bytes`.
        if stop > whole:
            digests[whole] = _to_words(hash_leaf(leaf_bytes(u, whole)))

    return hash_leaves


def _hash_nodes(levels: Levels, level: int, start: int, stop: int) -> None:
    """Write nodes start..stop of a level from the level below, which may end without a sibling."""
    children = levels[level - 1]
    nodes = levels[level]
    pairs = len(children) // 2
    _kernels().hash_messages(
        children.reshape(-1), 2 * _DIGEST_WORDS, _NODE_PREFIX, False, start, min(stop, pairs), nodes
    )
    if stop > pairs:
        nodes[pairs] = _to_words(hash_node(_to_digest(children[-1]), padding_digest(level - 1)))


def _digest_at(tree: Tree, level: int, node: int) -> bytes:
    digests = tree.levels[level]
    return _to_digest(digests[node]) if node < len(digests) else padding_digest(level)


def _to_digest(words: NDArray[np.uint32]) -> bytes:
    return words.astype(">u4").tobytes()


def _to_words(digest: bytes) -> NDArray[np.uint32]:
    return np.frombuffer(digest, ">u4")


@cache
def _compiled_kernels() -> ModuleType:
    from chainfl.codec._words import has_sha_instructions

    return importlib.import_module(f"chainfl.codec.{'_sha_ni' if has_sha_instructions() else '_lanes'}")


def _kernels() -> ModuleType:
    return _compiled_kernels() if has_numba() else _plain
