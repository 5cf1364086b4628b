"""Pins are listed before they are made and let go of when no round needs them; what others pinned stays."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from chainfl.blobs import get_record, name_model, put_model
from chainfl.codec import cbor
from chainfl.codec.cid import Cid, Codec
from chainfl.codec.records import BlockNode
from chainfl.codec.vector import encode
from chainfl.errors import BlobNotFoundError, StoreError
from chainfl.protocol.state import ZERO_DIGEST, Task
from chainfl.sim.memory import MemoryStore
from chainfl.sim.network import Network, play_round
from chainfl.store import DirectoryStore
from chainfl.store.pin_book import SqlitePinBook
from chainfl.store.pins import RecordingStore
from chainfl.types import Address, Rule
from tests.sim.network import LAYOUT, D, network
from tests.store.hostile_daemon import hidden, hostile_daemon

TASK, OTHER_TASK, ME = (Address(bytes([number]) * 20) for number in (7, 8, 1))


class Keeper:
    """A store with its list in a folder, in a round of the test's choice."""

    def __init__(self, home: Path, task: Address = TASK, keep_rounds: int | None = 2) -> None:
        self.round = 1
        self.files = DirectoryStore(home / "store")
        book = SqlitePinBook(home / "pins.sqlite", 1, task, ME)
        self.store = RecordingStore(self.files, book, lambda: self.round, keep_rounds)

    def put(self, text: str) -> Cid:
        """A blob of its own."""
        return self.files.put(text.encode(), Codec.RAW)

    def let_go(self) -> int:
        """As a node does in the running round of a task that still has its first model."""
        return self.store.let_go(standing(self.round))


def standing(number: int) -> Task:
    """A task without a block yet, in this round."""
    task = network(Rule.SOFTMAX).task
    assert task.head_block == ZERO_DIGEST
    return replace(task, round=replace(task.round, number=number))


def test_a_pin_goes_so_many_rounds_after_the_last_that_needed_it(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    once, again = keeper.put("once"), keeper.put("again")
    keeper.store.pin(once)
    keeper.store.pin(again)
    keeper.round = 2
    keeper.store.pin(again)

    keeper.round = 3
    assert keeper.let_go() == 0
    keeper.round = 4
    assert keeper.let_go() == 1
    assert keeper.files.pins() == [again]
    keeper.round = 5
    assert keeper.let_go() == 1
    assert keeper.files.pins() == []
    assert keeper.let_go() == 0


def test_a_restart_leaks_no_pins(tmp_path: Path) -> None:
    before = Keeper(tmp_path)
    before.store.pin(before.put("kept"))
    after = Keeper(tmp_path)
    after.round = 9

    assert after.let_go() == 1

    assert after.files.pins() == []


def test_everything_is_kept_where_that_is_wanted(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path, keep_rounds=None)
    kept = keeper.put("kept")
    keeper.store.pin(kept)
    keeper.round = 1_000_000

    assert keeper.let_go() == 0

    assert keeper.files.pins() == [kept]


def test_what_somebody_else_pinned_before_us_is_never_unpinned(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    theirs, unknown = keeper.put("theirs"), keeper.put("we never heard of it")
    keeper.files.pin(theirs)
    keeper.files.pin(unknown)
    keeper.store.pin(theirs)
    keeper.round = 9

    keeper.let_go()
    keeper.store.unpin(unknown)

    assert keeper.files.pins() == sorted([theirs, unknown])


def test_the_head_and_the_first_model_of_a_task_without_blocks_stay(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    first = name_model(encode([0.0] * D, 20), 20, LAYOUT)
    put_model(keeper.files, first)
    keeper.store.pin(first.cid)
    keeper.round = 9

    assert keeper.let_go() == 0

    assert keeper.files.pins() == [first.cid]


def test_another_task_in_the_same_file_that_needs_a_pin_inherits_it(tmp_path: Path) -> None:
    one, other = Keeper(tmp_path), Keeper(tmp_path, OTHER_TASK)
    shared = one.put("shared")
    one.store.pin(shared)
    other.round = 8
    other.store.pin(shared)

    one.round = 9
    one.let_go()
    assert one.files.pins() == [shared]

    other.round = 20
    other.let_go()
    assert one.files.pins() == []


def test_a_pin_that_failed_is_undone_a_round_later_however_it_ended_at_the_daemon(tmp_path: Path) -> None:
    blobs = MemoryStore()
    chunk = blobs.put(b"a chunk that comes late", Codec.RAW)
    node = blobs.put(cbor.encode({"chunk": chunk}), Codec.DAG_CBOR)
    running = [1]
    with hostile_daemon(blobs, {chunk: hidden}) as (ipfs, daemon):
        book = SqlitePinBook(tmp_path / "pins.sqlite", 1, TASK, ME)
        store = RecordingStore(ipfs, book, lambda: running[0], 2)
        with pytest.raises(StoreError):
            store.within(time.monotonic() + 0.4).pin(node)
        daemon.spells.clear()
        ipfs.pin(node)  # the daemon went on and ended it after we had given up

        assert store.let_go(standing(1)) == 0
        running[0] = 2
        assert store.let_go(standing(2)) == 1

        assert daemon.pinned == set()


def test_a_store_that_fails_keeps_its_pins_on_the_list(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    kept = keeper.put("kept")
    keeper.store.pin(kept)
    keeper.round = 9
    block = Cid.of(b"a head that nobody has", Codec.DAG_CBOR)
    task = replace(standing(9), head_block=block.digest)

    assert keeper.store.let_go(task) == 0
    assert keeper.files.pins() == [kept]
    assert keeper.let_go() == 1


def test_a_file_that_is_no_list_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "pins.sqlite").write_bytes(b"not a database, and long enough to look like one" * 100)

    with pytest.raises(StoreError, match=r"list of pins .*pins\.sqlite: .*; remove this file"):
        SqlitePinBook(tmp_path / "pins.sqlite", 1, TASK, ME)


@pytest.mark.slow
def test_a_task_of_many_rounds_leaves_few_pins_and_goes_on_without_the_rest(tmp_path: Path) -> None:
    net, files = network(Rule.SOFTMAX, rounds=9), DirectoryStore(tmp_path / "store")
    first = name_model(encode([0.0] * D, 20), 20, LAYOUT)
    put_model(files, first)
    keepers = at_one_directory(net, files, tmp_path)
    counts = []

    for _ in range(7):
        play_round(net)
        for store in keepers:
            store.let_go(net.task)
        files.collect(before=time.time() + 60)
        counts.append(len(files.pins()))

    assert counts[-1] == counts[-2] == counts[-3]
    newest = Cid.dag_cbor(net.task.head_block)
    block = get_record(files, newest, BlockNode)
    assert block.prev is not None
    assert {newest, block.prev, block.model, block.head} <= set(files.pins())
    with pytest.raises(BlobNotFoundError):
        files.get(first.cid, 2**20)


def at_one_directory(net: Network, files: DirectoryStore, home: Path) -> list[RecordingStore]:
    """Everybody lists pins of its own at one store, and keeps those of one round."""
    stores = []
    for account, me in net.participants.items():
        book = SqlitePinBook(home / account.hex() / "pins.sqlite", 1, net.task.address, account)
        stores.append(RecordingStore(files, book, lambda: net.task.round.number, 1))
        net.participants[account] = replace(me, store=stores[-1])
    net.store = files
    return stores
