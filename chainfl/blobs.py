"""Models and records in and out of any BlobStore: stored under the name of their content, checked when read.

A model is its canonical bytes in raw chunks of 2^20 bytes and a node that lists them. `name_model` gives the
node and its CID before anything is stored, for a worker commits to both while its bytes are still secret.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import numpy as np

from chainfl.codec import cbor, merkle, vector
from chainfl.codec.admission import AdmissionList, Entry, decode_entries, encode_entries
from chainfl.codec.cid import Cid, Codec
from chainfl.codec.manifest import AnyManifest, decode_manifest
from chainfl.codec.records import CHUNK_BYTES, Layout, ModelNode, Record, chunk_sizes
from chainfl.codec.vector import Vector
from chainfl.errors import InputError, ModelMismatchError, RecordError
from chainfl.ports import BlobStore, WaitingStore
from chainfl.protocol.admission import list_root

AnyRecord = TypeVar("AnyRecord", bound=Record)


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model ready to be stored: its node, the node's CID, and its canonical bytes."""

    cid: Cid
    node: ModelNode
    data: bytes


def within(store: BlobStore, until: float) -> BlobStore:
    """The same blobs, for a caller whose time ends then (`time.monotonic()`).

    A store that never waits for anybody else's bytes, such as a directory, is used as it is.
    """
    return store.within(until) if isinstance(store, WaitingStore) else store


def name_model(u_D: Vector, s: int, layout: Layout, root: bytes | None = None) -> NamedModel:
    """The node and CID of a vector, without storing it; a root that is already known is not computed again.

    Raises:
        InputError: the vector has another length than the layout.
    """
    if len(u_D) != layout.d:
        raise InputError(f"model: the vector has {len(u_D)} parameters, its layout {layout.d}")
    data = vector.to_bytes(u_D)
    if root is None:
        root = merkle.root_from_bytes(data, layout.d)

    # Chunks are named by the hash of their bytes, so equal parts of two models are stored once.
    chunks = tuple(Cid.of(chunk, Codec.RAW) for chunk in _chunks(data))
    node = ModelNode(s, layout.d, root, layout, chunks)
    return NamedModel(node.cid, node, data)


def put_model(store: BlobStore, model: NamedModel) -> Cid:
    """Store a model's chunks, then its node: whoever finds the node finds the rest."""
    for expected, cid in zip(
        model.node.chunks,
        store.put_many((chunk, Codec.RAW) for chunk in _chunks(model.data)),
        strict=True,
    ):
        if cid != expected:
            raise ModelMismatchError(f"model {model.cid}: a chunk was stored as {cid}, not {expected}")
    return put_record(store, model.node)


def get_model_node(
    store: BlobStore, cid: Cid, d: int, *, s: int | None = None, root: bytes | None = None
) -> ModelNode:
    """A model's node, if it is the one that the task and the ledger promise.

    Raises:
        ModelMismatchError: another length, scale or root; nothing more is fetched then.
    """
    node = get_record(store, cid, ModelNode)
    for what, expected, found in (("d", d, node.d), ("s", s, node.s), ("root", root, node.root)):
        if expected is not None and expected != found:
            raise ModelMismatchError(f"model {cid}: {what} is {_show(found)}, expected {_show(expected)}")
    return node


def keep_model(store: BlobStore, cid: Cid, d: int, *, s: int | None = None, root: bytes | None = None) -> Cid:
    """Have the store fetch and keep the whole of a model, its node checked first; nothing is read into memory.

    Raises:
        StoreError: a part cannot be had now.
        VerificationError: the node is not the promised model's.
    """
    get_model_node(store, cid, d, s=s, root=root)
    store.pin(cid)
    return cid


def get_model(
    store: BlobStore, cid: Cid, d: int, *, s: int | None = None, root: bytes | None = None
) -> Vector:
    """The vector behind a model node, its root rebuilt from the bytes.

    Raises:
        StoreError: a part cannot be had now.
        VerificationError: a part is wrong, too large, or the whole is not the promised model.
    """
    return vector.to_native(get_canonical_model(store, cid, d, s=s, root=root))


def get_canonical_model(
    store: BlobStore,
    cid: Cid,
    d: int,
    *,
    s: int | None = None,
    root: bytes | None = None,
    threads: int | None = None,
) -> Vector:
    """As `get_model`, in the order of the bytes, which trees and combining take as well: nothing is turned around.

    `threads` hash the tree; one is best where several models are got side by side.
    """
    node = get_model_node(store, cid, d, s=s, root=root)

    # The model's memory is taken only once its first bytes are there.
    chunks = _read_chunks(store, cid, node)
    first = next(chunks)
    u_D = np.empty(d, ">u4")
    data = u_D.data.cast("B")
    at = 0
    for chunk in chain((first,), chunks):
        data[at : at + len(chunk)] = chunk
        at += len(chunk)

    _expect_root(cid, node, merkle.root(u_D, threads=threads))
    return u_D


def check_model(
    store: BlobStore, cid: Cid, d: int, *, s: int | None = None, root: bytes | None = None
) -> None:
    """Read a model's bytes and rebuild its root as they come: a few chunks are held, never the whole.

    Raises:
        StoreError: a part cannot be had now.
        VerificationError: a part is wrong, too large, or the whole is not the promised model.
    """
    node = get_model_node(store, cid, d, s=s, root=root)
    _expect_root(cid, node, merkle.root_from_chunks(_read_chunks(store, cid, node), d))


def _read_chunks(store: BlobStore, cid: Cid, node: ModelNode) -> Iterator[bytes]:
    """A model's chunks in order, each of the size that its place asks for."""
    for size, chunk in zip(chunk_sizes(node.d), store.get_many(node.chunks, CHUNK_BYTES), strict=True):
        if len(chunk) != size:
            raise ModelMismatchError(f"model {cid}: a chunk has {len(chunk)} bytes, expected {size}")
        yield chunk


def _expect_root(cid: Cid, node: ModelNode, found: bytes) -> None:
    if found != node.root:
        raise ModelMismatchError(
            f"model {cid}: its bytes have root {found.hex()}, its node says {node.root.hex()}"
        )


def put_record(store: BlobStore, record: Record) -> Cid:
    """Store a record under its name."""
    return store.put(record.encode(), Codec.DAG_CBOR)


def get_record(store: BlobStore, cid: Cid, kind: type[AnyRecord]) -> AnyRecord:
    """The record of this kind behind a CID.

    Raises:
        RecordError: what is there is not such a record; names the CID and the path of the field.
    """
    if cid.codec is not Codec.DAG_CBOR:
        raise RecordError(f"{cid} names raw bytes, not a {kind.__name__}")
    try:
        return kind.decode(store.get(cid, cbor.MAX_BYTES))
    except RecordError as error:
        raise RecordError(f"{cid}: {error}") from error


def put_admission_list(store: BlobStore, entries: Sequence[Entry]) -> Cid:
    """Publish the list of who may join: its bytes, then the record that names them and its root."""
    chunks = tuple(store.put(chunk, Codec.RAW) for chunk in encode_entries(entries))
    return put_record(store, AdmissionList(list_root(entries), len(entries), chunks))


def get_admission_list(store: BlobStore, cid: Cid, root: bytes) -> list[Entry]:
    """A published list, if it has the root that the task names.

    Raises:
        RecordError: what is there is no list, or another one.
    """
    record = get_record(store, cid, AdmissionList)
    entries = decode_entries(store.get_many(record.chunks, CHUNK_BYTES))
    if len(entries) != record.accounts or list_root(entries) != root:
        raise RecordError(f"admission list {cid}: it is not the one whose root the task names")
    return entries


def get_manifest(store: BlobStore, digest: bytes) -> AnyManifest:
    """A task's manifest, of either format, behind the digest that its config names.

    Raises:
        RecordError: what is there is no manifest.
    """
    cid = Cid.dag_cbor(digest)
    try:
        return decode_manifest(store.get(cid, cbor.MAX_BYTES))
    except RecordError as error:
        raise RecordError(f"{cid}: {error}") from error


def _chunks(data: bytes) -> Iterator[memoryview]:
    view = memoryview(data)
    return (view[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES))


def _show(value: int | bytes) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
