from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfl import blobs
from chainfl.codec import merkle, vector
from chainfl.codec.cid import Cid, Codec
from chainfl.codec.records import CHUNK_BYTES, Layout, Manifest, ModelNode, Tensor
from chainfl.codec.vector import Vector
from chainfl.errors import (
    BlobNotFoundError,
    BlobTooLargeError,
    InputError,
    ModelMismatchError,
    RecordError,
    VerificationError,
    WrongBytesError,
)
from chainfl.store import DirectoryStore

S = 20
PER_CHUNK = CHUNK_BYTES // 4


def random_vector(d: int, seed: int = 1) -> Vector:
    return np.random.default_rng(seed).integers(0, 1 << 32, d, dtype=np.uint32)


def layout_of(d: int) -> Layout:
    return Layout((Tensor("weights", (d,)),))


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "store")


@pytest.mark.parametrize("d", [1, 63, 64, 65, PER_CHUNK - 1, PER_CHUNK, PER_CHUNK + 1, 3 * PER_CHUNK + 5])
def test_a_model_comes_back_bit_for_bit(store: DirectoryStore, d: int) -> None:
    u_D = random_vector(d)
    model = blobs.name_model(u_D, S, layout_of(d))

    cid = blobs.put_model(store, model)

    assert cid == model.cid == model.node.cid
    assert model.node.root == merkle.root(u_D)
    assert np.array_equal(blobs.get_model(store, cid, d, s=S, root=model.node.root), u_D)
    blobs.check_model(store, cid, d, s=S, root=model.node.root)
    assert store.pins() == []
    assert blobs.keep_model(store, cid, d, s=S, root=model.node.root) == cid
    assert store.pins() == [cid]


@given(st.lists(st.floats(-2000, 2000, width=32), min_size=1, max_size=300))
def test_what_was_encoded_is_what_is_stored(values: list[float]) -> None:
    u_D = vector.encode(np.array(values, np.float32), S)

    model = blobs.name_model(u_D, S, layout_of(len(values)))

    assert model.data == vector.to_bytes(u_D)
    assert model.node.chunks == (Cid.of(model.data, Codec.RAW),)


def test_naming_a_model_stores_nothing(store: DirectoryStore) -> None:
    model = blobs.name_model(random_vector(100), S, layout_of(100))

    assert not store.has(model.cid)
    assert not store.has(model.node.chunks[0])


def test_a_vector_of_another_length_than_its_layout_is_refused() -> None:
    with pytest.raises(InputError, match="the vector has 99 parameters, its layout 100"):
        blobs.name_model(random_vector(99), S, layout_of(100))


@pytest.mark.parametrize(
    ("expected", "why"),
    [
        ({"d": 101}, "d is 100, expected 101"),
        ({"d": 100, "s": 26}, "s is 20, expected 26"),
        ({"d": 100, "root": bytes(32)}, "root is .*, expected 0000"),
    ],
)
def test_a_model_other_than_the_promised_is_refused(
    store: DirectoryStore, expected: dict[str, Any], why: str
) -> None:
    cid = blobs.put_model(store, blobs.name_model(random_vector(100), S, layout_of(100)))

    with pytest.raises(ModelMismatchError, match=why):
        blobs.get_model(store, cid, **expected)


def test_a_node_whose_root_is_not_that_of_its_bytes_is_refused(store: DirectoryStore) -> None:
    model = blobs.name_model(random_vector(100), S, layout_of(100), root=bytes(32))
    cid = blobs.put_model(store, model)

    for read in (blobs.get_model, blobs.check_model):
        with pytest.raises(ModelMismatchError, match="its bytes have root"):
            read(store, cid, 100)


def _swap_chunks(node: ModelNode) -> ModelNode:
    return replace(node, chunks=node.chunks[::-1])


def _repeat_chunk(node: ModelNode) -> ModelNode:
    return replace(node, chunks=node.chunks[:1] * len(node.chunks))


@pytest.mark.parametrize(("forge", "d"), [(_swap_chunks, 2 * PER_CHUNK), (_repeat_chunk, 2 * PER_CHUNK)])
def test_chunks_in_another_order_or_repeated_do_not_pass(
    store: DirectoryStore, forge: Callable[[ModelNode], ModelNode], d: int
) -> None:
    model = blobs.name_model(random_vector(d), S, layout_of(d))
    blobs.put_model(store, model)
    cid = blobs.put_record(store, forge(model.node))

    for read in (blobs.get_model, blobs.check_model):
        with pytest.raises(ModelMismatchError, match="its bytes have root"):
            read(store, cid, d)


@pytest.mark.parametrize(
    ("chunk", "error"),
    [
        (bytes(399), ModelMismatchError),
        (bytes(401), ModelMismatchError),
        (bytes(CHUNK_BYTES + 1), BlobTooLargeError),
    ],
)
def test_a_chunk_of_another_size_is_refused(
    store: DirectoryStore, chunk: bytes, error: type[VerificationError]
) -> None:
    model = blobs.name_model(random_vector(100), S, layout_of(100))
    forged = replace(model.node, chunks=(store.put(chunk, Codec.RAW),))
    cid = blobs.put_record(store, forged)

    for read in (blobs.get_model, blobs.check_model):
        with pytest.raises(error):
            read(store, cid, 100)


def test_a_missing_chunk_is_named(store: DirectoryStore) -> None:
    model = blobs.name_model(random_vector(100), S, layout_of(100))
    cid = blobs.put_record(store, model.node)

    with pytest.raises(BlobNotFoundError, match=str(model.node.chunks[0])):
        blobs.get_model(store, cid, 100)
    with pytest.raises(BlobNotFoundError, match=str(model.node.chunks[0])):
        blobs.keep_model(store, cid, 100)


def test_any_changed_byte_of_any_stored_block_is_found(store: DirectoryStore, tmp_path: Path) -> None:
    d = PER_CHUNK + 50
    cid = blobs.put_model(store, blobs.name_model(random_vector(d), S, layout_of(d)))
    paths = [path for path in (tmp_path / "store/blocks").rglob("*") if path.is_file()]

    for path in paths:
        data = path.read_bytes()
        for at in {0, len(data) // 2, len(data) - 1}:
            path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
            with pytest.raises(WrongBytesError, match=path.name):
                blobs.get_model(store, cid, d)
        path.write_bytes(data)

    assert len(paths) == 3
    assert len(blobs.get_model(store, cid, d)) == d


def test_a_record_comes_back_and_one_of_another_kind_is_refused_by_name(store: DirectoryStore) -> None:
    manifest = Manifest("mnist-cnn", "mnist", "nll", "sgd", 10**16, 32, 1, 7, 300, S, layout_of(100))
    cid = blobs.put_record(store, manifest)

    assert blobs.get_record(store, cid, Manifest) == manifest
    with pytest.raises(RecordError, match=f"^{cid}: ModelNode /"):
        blobs.get_record(store, cid, ModelNode)
    with pytest.raises(RecordError, match="names raw bytes, not a Manifest"):
        blobs.get_record(store, Cid.raw(cid.digest), Manifest)


def test_a_blob_too_large_for_a_record_is_refused(store: DirectoryStore) -> None:
    cid = store.put(bytes(CHUNK_BYTES + 1), Codec.DAG_CBOR)

    with pytest.raises(BlobTooLargeError):
        blobs.get_record(store, cid, Manifest)
