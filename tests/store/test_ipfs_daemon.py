"""Two real IPFS daemons on loopback, started for these tests alone."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from chainfl import blobs
from chainfl.codec.cid import Cid, Codec
from chainfl.codec.records import TOTAL_SHARES, BlockNode, Layout, Member, Tensor, Update
from chainfl.errors import BlobNotFoundError, BlobTooLargeError, StoreError
from chainfl.store import DirectoryStore, IpfsSettings, open_store
from tests.store.ipfs_node import Node, ipfs_node

MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def program(require: Callable[[str], Path]) -> Path:
    return require("ipfs")


@pytest.fixture(scope="module")
def pair(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Node]]:
    folder = tmp_path_factory.mktemp("ipfs")
    with ipfs_node(program, folder / "one") as one, ipfs_node(program, folder / "two") as two:
        two.connect(one)
        yield one, two


def model(d: int, seed: int) -> blobs.NamedModel:
    u_D = np.random.default_rng(seed).integers(0, 1 << 32, d, dtype=np.uint32)
    return blobs.name_model(u_D, 20, Layout((Tensor("weights", (d,)),)))


def block(updates: list[Cid], head: Cid, prev: Cid | None = None) -> BlockNode:
    shares = (TOTAL_SHARES, *(0 for _ in updates))
    return BlockNode(
        chain=31337,
        task=bytes(20),
        round=2 if prev else 1,
        rule="softmax",
        prev=prev,
        head=head,
        committee=(Member(b"\1" * 20),),
        miner=bytes(20),
        updates=tuple(Update(bytes([n]) * 20, bytes(32), cid) for n, cid in enumerate(updates)),
        scores=(None,),
        shares=shares,
        model=head,
        attempt=0,
    )


def test_the_daemon_and_the_directory_give_the_same_names(pair: tuple[Node, Node], tmp_path: Path) -> None:
    files = DirectoryStore(tmp_path)

    for data, codec in (
        (b"", Codec.RAW),
        (b"hello", Codec.RAW),
        (bytes(MEBIBYTE), Codec.RAW),
        (b"\xa0", Codec.DAG_CBOR),
    ):
        assert pair[0].store.put(data, codec) == files.put(data, codec)
        assert pair[0].store.get(Cid.of(data, codec), MEBIBYTE) == data


def test_what_one_put_the_other_gets(pair: tuple[Node, Node]) -> None:
    cid = pair[0].store.put(b"across", Codec.RAW)

    assert pair[0].store.has(cid)
    assert pair[1].store.get(cid, 10) == b"across"
    with pytest.raises(BlobTooLargeError):
        pair[1].store.get(cid, 5)


def test_a_model_crosses_by_pin_and_comes_back_bit_for_bit(pair: tuple[Node, Node]) -> None:
    named = model(700_000, 1)
    cid = blobs.put_model(pair[0].store, named)

    blobs.keep_model(pair[1].store, cid, 700_000, root=named.node.root)
    got_D = blobs.get_model(pair[1].store, cid, 700_000, root=named.node.root)

    assert np.array_equal(got_D, np.frombuffer(named.data, ">u4"))
    assert cid in pair[1].store.pins()


def test_a_model_crosses_without_a_pin_side_by_side(pair: tuple[Node, Node]) -> None:
    named = model(600_000, 2)
    cid = blobs.put_model(pair[0].store, named)

    got_D = blobs.get_model(pair[1].store, cid, 600_000)

    assert np.array_equal(got_D, np.frombuffer(named.data, ">u4"))
    assert cid not in pair[1].store.pins()


def test_a_pin_holds_the_history_against_the_collector(pair: tuple[Node, Node]) -> None:
    one, two = pair
    loose = two.store.put(b"loose", Codec.RAW)
    first, second = model(1000, 3), model(1000, 4)
    head = blobs.put_model(one.store, first)
    update = blobs.put_model(one.store, second)
    genesis = blobs.put_record(one.store, block([update], head))
    newest = blobs.put_record(one.store, block([update], update, genesis))

    two.store.pin(newest)
    collected = {line["Key"]["/"] for line in two.rpc("repo/gc")}

    kept = (newest, genesis, head, update, *first.node.chunks, *second.node.chunks)
    assert str(Cid.raw(loose.digest)) in collected
    assert collected.isdisjoint(str(Cid.raw(cid.digest)) for cid in kept)
    assert collected.isdisjoint(map(str, kept))
    two.store.unpin(newest)
    two.store.unpin(newest)
    assert newest not in two.store.pins()


def test_a_pin_without_links_keeps_a_record_whose_history_nobody_has(pair: tuple[Node, Node]) -> None:
    store = pair[0].store
    gone = Cid.of(b"nobody has this history", Codec.DAG_CBOR)
    head = blobs.put_model(store, model(1000, 9))
    record = blobs.put_record(store, block([head], head, gone))
    hurried = store.within(time.monotonic() + 1)

    with pytest.raises(StoreError):
        hurried.pin(record)
    assert not store.is_pinned(record)
    store.pin(record, with_links=False)

    assert store.is_pinned(record)
    assert not store.is_pinned(head)
    store.unpin(record)
    assert not store.is_pinned(record)
    store.pin(head)
    store.pin(head, with_links=False)
    assert store.is_pinned(head)
    store.unpin(head)
    assert not store.is_pinned(head)


def test_a_path_walks_a_block(pair: tuple[Node, Node]) -> None:
    models = [model(100, seed) for seed in range(5, 9)]
    updates = [blobs.put_model(pair[0].store, named) for named in models]
    cid = blobs.put_record(pair[0].store, block(updates, updates[0]))

    [update] = pair[1].rpc("dag/get", arg=f"{cid}/updates/3")

    assert update["cid"] == {"/": str(updates[3])}
    assert pair[1].rpc("dag/get", arg=f"{cid}/updates/3/cid/d") == [100]


def test_what_nobody_has_is_not_found_in_time(pair: tuple[Node, Node]) -> None:
    impatient = open_store(pair[0].address, IpfsSettings(fetch_seconds=0.5, pin_seconds=0.5))
    missing = Cid.of(b"nobody has this", Codec.RAW)

    with pytest.raises(BlobNotFoundError, match=str(missing)):
        impatient.get(missing, 100)
    with pytest.raises(BlobNotFoundError, match=str(missing)):
        impatient.pin(missing)
    assert not impatient.has(missing)


def test_blocks_and_pins_survive_a_restart_and_a_stopped_daemon_is_one_clear_error(
    program: Path, tmp_path: Path
) -> None:
    with ipfs_node(program, tmp_path) as before:
        cid = before.store.put(b"kept", Codec.RAW)
        before.store.pin(cid)
        stale = before.store
    with pytest.raises(StoreError, match="cannot be reached"):
        stale.get(cid, 10)

    with ipfs_node(program, tmp_path) as after:
        assert after.store.get(cid, 10) == b"kept"
        assert after.store.pins() == [cid]
