import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfl.codec import merkle
from chainfl.codec.merkle import PADDING_LEAF, Proof
from chainfl.codec.vector import Vector, from_bytes, to_bytes, view_bytes
from chainfl.errors import InputError, LengthError, ProofError

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "merkle.json").read_text())
CASES = [dict(zip(VECTORS, row, strict=True)) for row in zip(*VECTORS.values(), strict=True)]

SURVIVE_FORK = """
import os, sys
import numpy as np
from chainfl.codec import merkle
u = np.arange(200_000, dtype=np.uint32)
before = merkle.root(u, threads=2)
child = os.fork()
if child == 0:
    os._exit(0 if merkle.root(u, threads=2) == before else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.fixture(scope="module", params=["compiled", "plain"], autouse=True)
def backend(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHAINFL_NO_NUMBA", "1" if request.param == "plain" else "0")
        yield


@st.composite
def vectors(draw: st.DrawFn, largest: int = 3000) -> Vector:
    d = draw(st.integers(1, largest) | st.sampled_from([1, 63, 64, 65, 128, 192, 512, 513, 1024, 1025]))
    return np.random.default_rng(draw(st.integers(0, 2**32))).integers(0, 2**32, d, np.uint32)


def root_by_the_book(data: bytes, depth: int) -> bytes:
    """The specification as a recursion: halves of the padded bytes, down to leaves of 256."""
    padded = data + PADDING_LEAF[:4] * (64 * 2**depth - len(data) // 4)
    if depth == 0:
        return hashlib.sha256(b"\x00" + padded).digest()
    half = len(padded) // 2
    parts = root_by_the_book(padded[:half], depth - 1), root_by_the_book(padded[half:], depth - 1)
    return hashlib.sha256(b"\x01" + parts[0] + parts[1]).digest()


@given(vectors(), st.integers(1, 3))
def test_root_is_the_same_from_array_bytes_and_chunks_and_by_the_book(u: Vector, leaves: int) -> None:
    data = to_bytes(u)
    chunks = [data[at : at + 256 * leaves] for at in range(0, len(data), 256 * leaves)]

    root = merkle.root(u)

    assert root == root_by_the_book(data, merkle.depth(u.size))
    assert root == merkle.root(view_bytes(data, u.size))
    assert root == merkle.root_from_bytes(data, u.size)
    assert root == merkle.root_from_bytes(memoryview(b"x" + data)[1:], u.size)
    assert root == merkle.root_from_chunks(chunks, u.size)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_change_nothing(threads: int) -> None:
    u = np.random.default_rng(1).integers(0, 2**32, 150_001, np.uint32)

    assert merkle.root(u, threads=threads) == root_by_the_book(to_bytes(u), merkle.depth(u.size))


@pytest.mark.parametrize(
    ("d", "depth"),
    [(1, 0), (64, 0), (65, 1), (128, 1), (129, 2), (256, 2), (257, 3), (1_663_370, 15), (2**26, 20)],
)
def test_depth_is_fixed_by_d(d: int, depth: int) -> None:
    assert merkle.depth(d) == depth


@given(vectors(), st.data())
def test_any_changed_bit_changes_the_root(u: Vector, data: st.DataObject) -> None:
    root = merkle.root(u)
    position, bit = data.draw(st.integers(0, u.size - 1)), data.draw(st.integers(0, 31))

    u[position] ^= np.uint32(1 << bit)

    assert merkle.root(u) != root


def test_all_bits_of_a_small_model_matter() -> None:
    data = to_bytes(np.arange(70, dtype=np.uint32))
    roots = {merkle.root_from_bytes(data, 70)}

    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        roots.add(merkle.root_from_bytes(changed, 70))

    assert len(roots) == 8 * len(data) + 1


@given(vectors(largest=1200))
def test_every_leaf_verifies_and_no_other_in_its_place(u: Vector) -> None:
    tree = merkle.build(u)
    proofs = [merkle.prove(tree, index) for index in range(1 << tree.depth)]

    for proof in proofs:
        merkle.verify(tree.root, tree.depth, proof.index, proof.leaf, proof.siblings)
        for other in proofs:
            if other.leaf != proof.leaf:
                refused(tree, Proof(proof.index, other.leaf, proof.siblings))
            if other.index != proof.index and other.leaf != proof.leaf:
                refused(tree, Proof(other.index, proof.leaf, proof.siblings))
                refused(tree, Proof(other.index, proof.leaf, other.siblings))


def refused(tree: merkle.Tree, proof: Proof) -> None:
    with pytest.raises(ProofError, match=f"leaf {proof.index} leads to root"):
        merkle.verify(tree.root, tree.depth, proof.index, proof.leaf, proof.siblings)


@given(vectors(largest=400), st.data())
def test_a_changed_bit_in_a_proof_is_found(u: Vector, data: st.DataObject) -> None:
    tree = merkle.build(u)
    proof = merkle.prove(u, data.draw(st.integers(0, (1 << tree.depth) - 1)))
    evidence = bytearray(proof.leaf + b"".join(proof.siblings))
    evidence[data.draw(st.integers(0, len(evidence) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    siblings = tuple(bytes(evidence[at : at + 32]) for at in range(256, len(evidence), 32))

    refused(tree, Proof(proof.index, bytes(evidence[:256]), siblings))


def test_a_leaf_in_the_place_of_a_node_is_refused() -> None:
    u = np.arange(128, dtype=np.uint32)
    tree = merkle.build(u)

    with pytest.raises(ProofError, match="a proof is 256 bytes and 0 digests"):
        merkle.verify(tree.root, 0, 0, b"".join(merkle.prove(tree, 1 - i).siblings[0] for i in (0, 1)), ())


@pytest.mark.parametrize(
    ("index", "leaf", "siblings"),
    [
        (4, 256, [32, 32]),
        (-1, 256, [32, 32]),
        (0, 255, [32, 32]),
        (0, 256, [32]),
        (0, 256, [32, 31]),
        (0, 256, [32] * 3),
    ],
)
def test_what_has_not_the_shape_of_a_proof_is_refused(index: int, leaf: int, siblings: list[int]) -> None:
    with pytest.raises(ProofError, match=f"leaf {index}"):
        merkle.verify(bytes(32), 2, index, bytes(leaf), [bytes(size) for size in siblings])


def test_positions_beyond_the_model_hold_zero() -> None:
    u = np.arange(300, dtype=np.uint32)
    padded = np.concatenate([u, np.full(212, 2**31, np.uint32)])

    assert merkle.root(u) == merkle.root(padded)
    assert merkle.prove(u, 7).leaf == PADDING_LEAF


@pytest.mark.parametrize("index", [-1, 8])
def test_a_leaf_outside_the_tree_has_no_proof(index: int) -> None:
    with pytest.raises(InputError, match=f"leaf {index} is not in a tree of depth 3: give 0 to 7"):
        merkle.prove(np.zeros(300, np.uint32), index)


@pytest.mark.parametrize(
    "sizes", [[256], [256, 256, 256], [255, 257], [512, 4], [], [256, 100, 156], [1024], [256, 252]], ids=str
)
def test_chunks_that_do_not_make_the_model_are_refused(sizes: list[int]) -> None:
    with pytest.raises(LengthError, match="d = 128"):
        merkle.root_from_chunks([bytes(size) for size in sizes], 128)


@pytest.mark.parametrize(("length", "fault"), [(508, "truncated"), (511, "truncated"), (516, "oversized")])
def test_bytes_of_another_length_are_refused(length: int, fault: str) -> None:
    with pytest.raises(LengthError, match=fault):
        merkle.root_from_bytes(bytes(length), 128)


def test_a_model_without_parameters_is_refused() -> None:
    with pytest.raises(InputError, match="at least one parameter"):
        merkle.root(np.zeros(0, np.uint32))


def test_what_is_not_a_vector_has_no_root() -> None:
    for wrong in (
        np.zeros((2, 64), ">u4"),
        np.zeros((2, 64), np.uint32),
        np.zeros(64, np.int32),
        np.zeros(64),
    ):
        with pytest.raises(InputError, match="a vector is one dimension of uint32"):
            merkle.root(wrong)  # type: ignore[arg-type]


def test_many_threads_may_build_trees_at_once() -> None:
    rng = np.random.default_rng(3)
    models = [rng.integers(0, 2**32, 60_000, np.uint32) for _ in range(8)]
    expected = [merkle.root(u, threads=1) for u in models]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(merkle.root, models * 4))

    assert found == expected * 4


def test_a_forked_child_builds_trees_too() -> None:
    command = [sys.executable, "-W", "ignore", "-c", SURVIVE_FORK]

    done = subprocess.run(command, cwd=Path(__file__).parents[2], timeout=120, check=False)

    assert done.returncode == 0


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['d']}-{case['index']}")
def test_published_vectors_hold(case: dict[str, str]) -> None:
    d, index, data = int(case["d"]), int(case["index"]), bytes.fromhex(case["parameters"][2:])
    tree = merkle.build(from_bytes(data, d))

    proof = merkle.prove(tree, index)

    assert tree.depth == merkle.depth(d) == int(case["depth"])
    assert "0x" + tree.root.hex() == case["root"]
    assert "0x" + proof.leaf.hex() == case["leaf"]
    assert "0x" + b"".join(proof.siblings).hex() == case["siblings"]
