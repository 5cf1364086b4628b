"""The format of bundles as docs/auditing.md fixes it: published ones are read and written byte for byte."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import requests

from chainfl.audit.bundle import (
    EVIDENCE,
    MAX_PAGES,
    PAGE_ITEMS,
    BundleNode,
    Page,
    Subject,
    begin_bundle,
    open_bundle,
)
from chainfl.codec import car, rlp
from chainfl.codec.cid import CID_BYTES, Cid, Codec
from chainfl.errors import BlobNotFoundError, BlobTooLargeError, BundleError, StoreError, WrongBytesError
from chainfl.types import Address
from tests.store.ipfs_node import ipfs_node

VECTORS = Path(__file__).resolve().parents[1] / "vectors" / "bundle.json"
COLUMNS: dict[str, list[str]] = json.loads(VECTORS.read_text())
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
SUBJECT = Subject(1, Address(bytes(20)), Address(bytes(20)), Address(bytes(20)), 1, 2, bytes(32), None)
SMALL = {name: [rlp.encode([name.encode()])] for name in EVIDENCE}


def data_of(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def subject_of(row: dict[str, str]) -> Subject:
    task, factory, registry = (Address(data_of(row[key])) for key in ("task", "factory", "registry"))
    chain, created, block = (int(row[key]) for key in ("chain", "created", "block"))
    round_ = None if row["round"] == "None" else int(row["round"])
    return Subject(chain, task, factory, registry, created, block, data_of(row["hash"]), round_)


def write(
    out: Path,
    subject: Subject,
    items: dict[str, list[bytes]],
    blobs: Iterable[bytes] = (),
    missing: Iterable[Cid] = (),
    check: Callable[[Path], None] = lambda _: None,
) -> int:
    with begin_bundle(out) as writer:
        for name in EVIDENCE:
            assert list(writer.keep(name, items[name])) == items[name]
        for blob in blobs:
            writer.add_blob(Cid.of(blob, Codec.RAW), blob)
        for cid in missing:
            writer.add_blob(cid, None)
        return writer.finish(subject, check)


@pytest.mark.parametrize("row", ROWS)
def test_published_bundles_are_written_byte_for_byte(row: dict[str, str], tmp_path: Path) -> None:
    items = {name: list(rlp.items([data_of(row[name])], 1 << 16)) for name in EVIDENCE}
    missing = [Cid.from_bytes(data) for data in cut(data_of(row["missing"]), CID_BYTES)]

    size = write(tmp_path / "b.car", subject_of(row), items, cut(data_of(row["blobs"]), 50), missing)

    assert (tmp_path / "b.car").read_bytes() == data_of(row["car"])
    assert size == len(data_of(row["car"]))


@pytest.mark.parametrize("row", ROWS)
def test_published_bundles_are_read(row: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "b.car").write_bytes(data_of(row["car"]))

    with open_bundle(tmp_path / "b.car") as bundle:
        assert bundle.subject == subject_of(row)
        for name in EVIDENCE:
            assert b"".join(bundle.items(name, 1 << 16)) == data_of(row[name])
        store = bundle.store()
        for blob in cut(data_of(row["blobs"]), 50):
            assert store.get(Cid.of(blob, Codec.RAW), 50) == blob


def test_the_published_bundles_are_what_their_generator_writes() -> None:
    from tests.vectors import generate_bundle

    assert VECTORS.read_text() == generate_bundle.text()


def test_long_evidence_fills_blocks_and_comes_back_as_it_was(tmp_path: Path) -> None:
    long = [rlp.encode(bytes([number]) * 100_000) for number in range(30)]

    write(tmp_path / "b.car", SUBJECT, SMALL | {"receipts": long})

    with open_bundle(tmp_path / "b.car") as bundle:
        sizes = [block.size for block in bundle.blocks["receipts"]]
        assert sizes == [1 << 20, 1 << 20, sum(map(len, long)) - (2 << 20)]
        assert list(bundle.items("receipts", 1 << 20)) == long
        with pytest.raises(
            BundleError, match="receipts: byte 0: a value of 100004 bytes; at most 1000 are read"
        ):
            list(bundle.items("receipts", 1000))


def test_blobs_are_read_as_a_store_gives_them_and_nothing_is_put(tmp_path: Path) -> None:
    blob, gone, unknown = b"blob", Cid.of(b"gone", Codec.RAW), Cid.of(b"unknown", Codec.RAW)
    write(tmp_path / "b.car", SUBJECT, SMALL, [blob, blob], [gone, gone])

    with open_bundle(tmp_path / "b.car") as bundle:
        store, cid = bundle.store(), Cid.of(blob, Codec.RAW)
        assert list(store.get_many([cid, cid], 4)) == [blob, blob]
        assert [store.has(each) for each in (cid, gone, unknown)] == [True, False, False]
        with pytest.raises(BlobTooLargeError, match="larger than the 3 bytes"):
            store.get(cid, 3)
        with pytest.raises(BlobNotFoundError, match="was not found when the bundle was written"):
            store.get(gone, 4)
        with pytest.raises(BlobNotFoundError, match="is not in the bundle"):
            store.get(unknown, 4)
        with pytest.raises(StoreError, match="a bundle is only read"):
            store.put(blob, Codec.RAW)


def test_a_bundle_changed_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    write(tmp_path / "b.car", SUBJECT, SMALL, [b"blob"])

    with open_bundle(tmp_path / "b.car") as bundle:
        with (tmp_path / "b.car").open("r+b") as file:
            file.seek(-1, 2)
            file.write(b"!")
        with pytest.raises(WrongBytesError, match="was changed while it was read"):
            bundle.store().get(Cid.of(b"blob", Codec.RAW), 4)


def test_a_refused_bundle_leaves_nothing_behind_and_an_old_one_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "b.car"
    out.write_bytes(b"old")

    def refuse(_: Path) -> None:
        raise BundleError("not this one")

    with pytest.raises(BundleError, match="not this one"):
        write(out, SUBJECT, SMALL, check=refuse)

    assert list(tmp_path.iterdir()) == [out]
    assert out.read_bytes() == b"old"


def test_an_ipfs_daemon_imports_a_bundle(tmp_path: Path, require: Callable[[str], Path]) -> None:
    row, program = ROWS[0], require("ipfs")
    file = {"file": ("b.car", data_of(row["car"]), "application/octet-stream")}

    with ipfs_node(program, tmp_path) as node:
        url = f"http://127.0.0.1:{node.address.rsplit('/', 1)[1]}/api/v0/dag/import?pin-roots=false"
        assert requests.post(url, files=file, timeout=30).status_code == 200

        for blob in cut(data_of(row["blobs"]), 50):
            assert node.store.get(Cid.of(blob, Codec.RAW), 50) == blob


# Contents that are well-named but not in the one right form


def raw_bundle(tmp_path: Path, lists: dict[str, list[list[Cid]]], blocks: list[bytes]) -> Path:
    """A file with these pages and raw blocks, whatever they are."""
    pages = {
        name: [Page(tuple(items)) for items in lists.get(name, [])]
        for name in (*EVIDENCE, "blobs", "missing")
    }
    links = [tuple(page.cid for page in pages[name]) for name in pages]
    node = BundleNode(SUBJECT, *links)  # type: ignore[arg-type]
    records = [node, *(page for listed in pages.values() for page in listed)]
    parts = [car.header(node.cid), *(car.section(record.cid, record.encode()) for record in records)]
    parts += [car.section(Cid.of(block, Codec.RAW), block) for block in blocks]
    (tmp_path / "raw.car").write_bytes(b"".join(parts))
    return tmp_path / "raw.car"


def test_lists_in_another_form_are_refused(tmp_path: Path) -> None:
    blocks = [b"h", b"a", b"r", b"x", b"y"]
    h, a, r, x, y = (Cid.of(block, Codec.RAW) for block in blocks)
    plain = {"headers": [[h]], "accounts": [[a]], "receipts": [[r]]}

    for lists, given, why in (
        (plain | {"blobs": [[x, x]]}, [*blocks[:4], b"x"], "blobs: 1 of the blocks are listed twice"),
        (plain | {"blobs": [[x], [y]]}, blocks, "page 0 of blobs: it is not full, yet not the last"),
        (plain | {"headers": [[h, x]]}, [b"h", b"x", b"a", b"r"], "block 0 of headers: it is not full"),
        (plain | {"blobs": [[x]], "missing": [[x]]}, blocks[:4], "listed as missing, yet it is there"),
        (plain | {"blobs": [[x]]}, blocks[:3], "block 0 of blobs .*the file ends before it"),
        (plain, blocks[:4], "goes on with it after the last block"),
        (
            {"headers": [[h]], "accounts": [[a]], "receipts": [[r]], "blobs": [[x], [x]]},
            blocks,
            "page 1 of blobs|not full",
        ),
    ):
        with pytest.raises(BundleError, match=why), open_bundle(raw_bundle(tmp_path, lists, given)):
            pass


def test_a_full_page_fits_a_block_and_a_root_names_a_million_blocks() -> None:
    cids = tuple(Cid.raw(number.to_bytes(32, "big")) for number in range(PAGE_ITEMS))
    nodes = tuple(Cid.dag_cbor(number.to_bytes(32, "big")) for number in range(MAX_PAGES))

    assert len(Page(cids).encode()) <= car.MAX_BLOCK_BYTES
    assert len(BundleNode(SUBJECT, nodes, nodes, nodes, nodes, nodes).encode()) <= car.MAX_BLOCK_BYTES
    assert PAGE_ITEMS * MAX_PAGES == 1 << 20
