import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfl.codec import cbor
from chainfl.codec.cid import Cid, Codec
from chainfl.errors import (
    BlobNotFoundError,
    BlobTooLargeError,
    RecordError,
    StoreError,
    StoreFullError,
    WrongBytesError,
)
from chainfl.store import DirectoryStore, directory

MEBIBYTE = 1 << 20

WRITER = """
import sys
from chainfl.codec.cid import Codec
from chainfl.store import DirectoryStore
store = DirectoryStore(sys.argv[1])
for n in range(int(sys.argv[2]), int(sys.argv[3])):
    store.put(n.to_bytes(4, "big") * (1 << 18), Codec.RAW)
    print(n, flush=True)
"""


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "store")


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def block_path(folder: Path, cid: Cid) -> Path:
    return next(folder.rglob(str(cid)))


def writer(folder: Path, first: int, last: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", WRITER, str(folder), str(first), str(last)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def test_what_was_put_is_got_under_its_ipfs_name(store: DirectoryStore) -> None:
    cid = store.put(b"hello", Codec.RAW)

    assert str(cid) == "bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq"
    assert store.get(cid, 5) == b"hello"
    assert store.has(cid)


@given(blobs=st.lists(st.tuples(st.binary(max_size=300), st.sampled_from(Codec)), max_size=20))
def test_many_come_back_in_the_order_asked(
    tmp_path_factory: pytest.TempPathFactory, blobs: list[tuple[bytes, Codec]]
) -> None:
    store = DirectoryStore(tmp_path_factory.mktemp("store"))

    cids = list(store.put_many(blobs))

    assert cids == [Cid.of(data, codec) for data, codec in blobs]
    assert list(store.get_many(cids, 300)) == [data for data, _ in blobs]


def test_a_second_store_on_the_same_directory_sees_the_same_blocks(
    store: DirectoryStore, tmp_path: Path
) -> None:
    cid = store.put(b"shared", Codec.RAW)

    assert DirectoryStore(tmp_path / "store").get(cid, 10) == b"shared"


def test_what_is_not_here_is_not_found(store: DirectoryStore) -> None:
    cid = Cid.of(b"elsewhere", Codec.RAW)

    assert not store.has(cid)
    with pytest.raises(BlobNotFoundError, match=f"{cid} is not in"):
        store.get(cid, 10)


def test_a_blob_above_the_limit_is_refused_and_one_at_it_is_not(store: DirectoryStore) -> None:
    cid = store.put(bytes(100), Codec.RAW)

    assert len(store.get(cid, 100)) == 100
    with pytest.raises(BlobTooLargeError, match="99 bytes allowed"):
        store.get(cid, 99)


@pytest.mark.parametrize("at", [0, 1, 50, 99])
def test_any_changed_byte_on_the_disk_is_found_and_putting_again_heals_it(
    store: DirectoryStore, tmp_path: Path, at: int
) -> None:
    data = bytes(range(100))
    cid = store.put(data, Codec.RAW)
    path = block_path(tmp_path, cid)
    damaged = bytearray(data)
    damaged[at] ^= 1
    path.write_bytes(damaged)

    with pytest.raises(WrongBytesError, match=f"{cid} in .* is damaged"):
        store.get(cid, 100)
    store.put(data, Codec.RAW)

    assert store.get(cid, 100) == data


def test_a_failure_in_many_is_raised_in_its_turn(store: DirectoryStore) -> None:
    here, missing = store.put(b"a", Codec.RAW), Cid.of(b"b", Codec.RAW)
    blobs = store.get_many([here, missing, here], 10)

    assert next(blobs) == b"a"
    with pytest.raises(BlobNotFoundError):
        next(blobs)


def test_many_takes_its_input_only_as_there_is_room(store: DirectoryStore) -> None:
    taken = 0

    def endless() -> object:
        nonlocal taken
        while True:
            taken += 1
            yield taken.to_bytes(4, "big"), Codec.RAW

    names = store.put_many(endless())  # type: ignore[arg-type]
    for _ in range(5):
        next(names)

    assert taken <= 5 + directory.SIDE_BY_SIDE


def test_a_pin_asks_for_everything_that_is_linked(store: DirectoryStore) -> None:
    leaf, missing = store.put(b"leaf", Codec.RAW), Cid.of(b"missing", Codec.RAW)
    whole = store.put(cbor.encode({"leaf": leaf, "again": [leaf]}), Codec.DAG_CBOR)
    root = store.put(cbor.encode([whole, whole]), Codec.DAG_CBOR)
    broken = store.put(cbor.encode({"part": [missing]}), Codec.DAG_CBOR)

    store.pin(root)
    with pytest.raises(BlobNotFoundError, match=f"{missing}, which {broken} needs"):
        store.pin(broken)

    assert store.pins() == [root]
    store.unpin(root)
    store.unpin(root)
    assert store.pins() == []


def test_a_pin_without_links_keeps_one_block_and_asks_for_no_other(store: DirectoryStore) -> None:
    leaf = store.put(b"leaf", Codec.RAW)
    record = store.put(
        cbor.encode({"leaf": leaf, "gone": Cid.of(b"nobody has this", Codec.RAW)}), Codec.DAG_CBOR
    )

    store.pin(record, with_links=False)
    with pytest.raises(BlobNotFoundError):
        store.pin(record)
    with pytest.raises(BlobNotFoundError, match=str(Cid.of(b"absent", Codec.RAW))):
        store.pin(Cid.of(b"absent", Codec.RAW), with_links=False)

    assert store.pins() == [record]
    assert store.collect(before=time.time() + 60) == len(b"leaf")
    assert store.has(record)


def test_a_pin_without_links_becomes_one_with_links_and_never_less(store: DirectoryStore) -> None:
    leaf = store.put(b"leaf", Codec.RAW)
    record = store.put(cbor.encode({"leaf": leaf}), Codec.DAG_CBOR)
    store.pin(record, with_links=False)

    store.pin(record)
    store.pin(record, with_links=False)

    assert store.collect(before=time.time() + 60) == 0
    store.unpin(record)
    assert store.pins() == []


def test_collecting_removes_what_no_pin_reaches_and_nobody_put_lately(store: DirectoryStore) -> None:
    leaf = store.put(b"leaf", Codec.RAW)
    first = store.put(cbor.encode({"leaf": leaf}), Codec.DAG_CBOR)
    newest = store.put(cbor.encode({"prev": first}), Codec.DAG_CBOR)
    loose = store.put(b"loose", Codec.RAW)
    store.pin(first)
    store.pin(newest)

    assert store.collect(before=0) == 0
    assert store.has(loose)
    assert store.collect(before=time.time() + 60) == len(b"loose")
    assert not store.has(loose)
    assert all(store.has(cid) for cid in (leaf, first, newest))

    store.unpin(first)
    store.unpin(newest)
    store.collect(before=time.time() + 60)
    assert not any(store.has(cid) for cid in (leaf, first, newest))


def test_a_block_that_was_put_again_counts_as_new(store: DirectoryStore, tmp_path: Path) -> None:
    cid = store.put(b"again", Codec.RAW)
    os.utime(block_path(tmp_path, cid), (0, 0))

    store.put(b"again", Codec.RAW)

    assert store.collect(before=1000) == 0


def test_files_of_others_in_the_directory_are_left_alone(store: DirectoryStore, tmp_path: Path) -> None:
    cid = store.put(b"mine", Codec.RAW)
    (tmp_path / "store/pins/README").write_text("not a pin")

    store.pin(cid)

    assert store.pins() == [cid]


def test_a_pin_of_a_record_that_is_not_canonical_is_refused_by_name(store: DirectoryStore) -> None:
    cid = store.put(b"\x18\x01", Codec.DAG_CBOR)

    with pytest.raises(RecordError, match=str(cid)):
        store.pin(cid)


def test_processes_that_write_the_same_blocks_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    writers = [writer(tmp_path, 0, 12), writer(tmp_path, 0, 12)]

    codes = [process.wait(60) for process in writers]
    for process in writers:
        process.communicate()

    store = DirectoryStore(tmp_path)
    assert codes == [0, 0]
    for n in range(12):
        data = n.to_bytes(4, "big") * (1 << 18)
        assert store.get(Cid.of(data, Codec.RAW), MEBIBYTE) == data
    assert files(tmp_path / "tmp") == []


@pytest.mark.parametrize("after", [1, 2, 3, 5, 8])
def test_a_writer_that_is_killed_leaves_no_half_block(tmp_path: Path, after: int) -> None:
    process = writer(tmp_path, 0, 100_000)
    assert process.stdout is not None
    for _ in range(after):
        process.stdout.readline()

    process.send_signal(signal.SIGKILL)
    process.communicate()

    store = DirectoryStore(tmp_path)
    blocks = [Cid.parse(path.name) for path in files(tmp_path / "blocks")]
    assert len(blocks) >= after
    for data in store.get_many(blocks, MEBIBYTE):
        assert len(data) == MEBIBYTE


def test_leftovers_of_dead_writers_are_cleared_when_they_are_old(tmp_path: Path) -> None:
    DirectoryStore(tmp_path / "store")
    old, fresh = tmp_path / "store/tmp/old", tmp_path / "store/tmp/fresh"
    old.write_bytes(b"half")
    fresh.write_bytes(b"half")
    os.utime(old, (0, 0))

    DirectoryStore(tmp_path / "store")

    assert files(tmp_path / "store/tmp") == [fresh]


def test_a_full_disk_is_one_clear_error_and_nothing_is_half_written(
    store: DirectoryStore, tmp_path: Path
) -> None:
    small = store.put(b"small", Codec.RAW)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    try:
        with pytest.raises(StoreFullError, match=r"no room left .*; nothing was written"):
            store.put(bytes(MEBIBYTE), Codec.RAW)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert files(tmp_path / "store") == [block_path(tmp_path, small)]
    assert store.get(store.put(bytes(MEBIBYTE), Codec.RAW), MEBIBYTE) == bytes(MEBIBYTE)


def test_a_directory_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(StoreError, match=r"opening store .*: Not a directory"):
        DirectoryStore(tmp_path / "file" / "store")
