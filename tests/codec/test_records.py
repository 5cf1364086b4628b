import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfl.codec import cbor, vector
from chainfl.codec.cid import Cid, Codec
from chainfl.codec.records import (
    CHUNK_BYTES,
    MAX_SCALE,
    TOTAL_SHARES,
    Attestation,
    BlockNode,
    Entry,
    Layout,
    Manifest,
    Member,
    ModelNode,
    Record,
    Tensor,
    Update,
    chunk_sizes,
)
from chainfl.errors import RecordError

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "records.json").read_text())
RECORDS: dict[str, type[Record]] = {
    "chainfl/model/1": ModelNode,
    "chainfl/block/1": BlockNode,
    "chainfl/manifest/1": Manifest,
}

digests = st.binary(min_size=32, max_size=32)
nodes = st.builds(Cid.dag_cbor, digests)
addresses = st.binary(min_size=20, max_size=20)
names = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}(:[a-z]=[0-9.]{1,5})?", fullmatch=True)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    words = draw(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=8, unique=True))
    cut = draw(st.integers(1, len(words)))
    shapes = st.lists(st.integers(1, 9), max_size=4).map(tuple)
    return Layout(
        tuple(Tensor(word, draw(shapes)) for word in sorted(words[:cut])), tuple(sorted(words[cut:]))
    )


@st.composite
def models(draw: st.DrawFn) -> ModelNode:
    layout = draw(layouts())
    chunks = tuple(Cid.raw(draw(digests)) for _ in chunk_sizes(layout.d))
    return ModelNode(draw(st.integers(0, MAX_SCALE)), layout.d, draw(digests), layout, chunks)


@st.composite
def blocks(draw: st.DrawFn) -> BlockNode:
    validators = draw(st.lists(addresses, min_size=1, max_size=7, unique=True))
    workers = draw(st.lists(addresses, min_size=1, max_size=9, unique=True))
    cuts = sorted(draw(st.lists(st.integers(0, TOTAL_SHARES), min_size=len(workers), max_size=len(workers))))
    prev = draw(st.none() | nodes)
    round_ = draw(st.integers(20, (1 << 64) - 1))
    return BlockNode(
        chain=draw(st.integers(0, (1 << 64) - 1)),
        task=draw(addresses),
        round=round_,
        rule=draw(names),
        prev=prev,
        head=draw(nodes),
        committee=tuple(
            Member(v) if draw(st.booleans()) else Member(v, draw(digests), draw(nodes)) for v in validators
        ),
        miner=draw(addresses),
        updates=tuple(Update(w, draw(digests), draw(st.none() | nodes)) for w in workers),
        scores=tuple(draw(st.none() | st.binary(min_size=8, max_size=40)) for _ in validators),
        shares=tuple(b - a for a, b in zip((0, *cuts), (*cuts, TOTAL_SHARES), strict=True)),
        model=draw(nodes),
        attempt=draw(st.integers(0, 2)),
        attestations=() if prev is None else tuple(Attestation(v, draw(st.booleans())) for v in validators),
        voids=tuple(sorted(draw(st.sets(st.integers(1, 19))))),
    )


manifests = st.builds(
    Manifest,
    names,
    names,
    names,
    names,
    st.integers(1, (1 << 64) - 1),
    st.integers(1, 1 << 20),
    st.integers(1, 100),
    st.integers(0, (1 << 63) - 1),
    st.integers(1, 1000),
    st.integers(0, MAX_SCALE),
    layouts(),
)
records = st.one_of(models(), blocks(), manifests)


def block(**changes: Any) -> BlockNode:
    """A small block in good order, but for the changes."""
    node = Cid.dag_cbor(bytes(32))
    first = BlockNode(
        chain=1,
        task=bytes(20),
        round=5,
        rule="softmax",
        prev=node,
        head=node,
        committee=(Member(b"\1" * 20), Member(b"\2" * 20), Member(b"\3" * 20)),
        miner=bytes(20),
        updates=(Update(b"\4" * 20, bytes(32), node), Update(b"\5" * 20, bytes(32), None)),
        scores=(bytes(24), None, bytes(24)),
        shares=(0, TOTAL_SHARES, 0),
        model=node,
        attempt=0,
        attestations=(Attestation(b"\1" * 20, True),),
        voids=(3, 4),
    )
    return replace(first, **changes)


def model(**changes: Any) -> ModelNode:
    """A small model node in good order, but for the changes."""
    layout = Layout((Tensor("a", (2, 3)), Tensor("b", ())), ("steps",))
    return replace(ModelNode(20, 7, bytes(32), layout, (Cid.raw(bytes(32)),)), **changes)


def manifest(**changes: Any) -> Manifest:
    """A small manifest in good order, but for the changes."""
    plain = Manifest("mnist-cnn", "mnist", "nll", "sgd", 10**16, 32, 1, 7, 300, 20, model().layout)
    return replace(plain, **changes)


@given(records)
def test_a_record_comes_back_from_its_bytes(record: Record) -> None:
    data = record.encode()

    assert type(record).decode(data) == record
    assert record.cid == Cid.of(data, Codec.DAG_CBOR)


@given(records, st.data())
def test_a_changed_byte_is_refused_or_gives_another_record_with_another_cid(
    record: Record, draw: st.DataObject
) -> None:
    data = bytearray(record.encode())
    data[draw.draw(st.integers(0, len(data) - 1))] ^= draw.draw(st.integers(1, 255))

    try:
        other = type(record).decode(bytes(data))
    except RecordError:
        return

    assert other != record
    assert other.cid != record.cid
    assert other.encode() == bytes(data)


@given(records, st.data())
def test_truncated_or_longer_bytes_are_refused(record: Record, draw: st.DataObject) -> None:
    data = record.encode()
    cut = draw.draw(st.integers(0, len(data) - 1))

    for wrong in (data[:cut], data + b"\x00"):
        with pytest.raises(RecordError):
            type(record).decode(wrong)


@pytest.mark.parametrize("index", range(len(VECTORS["kind"])))
def test_published_records_are_read_and_written_byte_for_byte(index: int) -> None:
    data = bytes.fromhex(VECTORS["bytes"][index][2:])

    record = RECORDS[VECTORS["kind"][index]].decode(data)

    assert record.encode() == data
    assert str(record.cid) == VECTORS["cid"][index]
    assert "0x" + record.cid.digest.hex() == VECTORS["digest"][index]


def test_the_vector_files_are_what_their_generator_writes() -> None:
    from tests.vectors import generate_records

    for name, vectors in generate_records.generate().items():
        assert (Path(generate_records.__file__).parent / name).read_text() == generate_records.text(vectors)


@pytest.mark.parametrize("record", [block(), model(), manifest()], ids=["block", "model", "manifest"])
def test_each_field_missing_unknown_or_of_another_type_is_named(record: Record) -> None:
    plain = record.plain()
    assert isinstance(plain, dict)

    for field in plain:
        without = {name: value for name, value in plain.items() if name != field}
        with pytest.raises(RecordError, match=f"^{type(record).__name__} /{field}: missing"):
            type(record).decode(cbor.encode(without))
        with pytest.raises(RecordError, match=f"^{type(record).__name__} /{field}"):
            type(record).decode(cbor.encode(plain | {field: {"a": True}}))
    with pytest.raises(RecordError, match="/extra: unknown field; known are kind"):
        type(record).decode(cbor.encode(plain | {"extra": 1}))


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (block(task=bytes(19)), "/task: expected 20 bytes, found 19"),
        (block(chain=1 << 64), "/chain: 18446744073709551616 is not within"),
        (block(round=-1), "/round: -1 is not within"),
        (block(attempt=True), "/attempt: expected an integer, found a boolean"),
        (block(rule="Soft Max"), "/rule: 'Soft Max' is not a name"),
        (block(rule=""), "/rule: expected 1 to 256 characters"),
        (block(head=Cid.raw(bytes(32))), "/head: expected a CID of codec 0x71, found 0x55"),
        (block(head=None), "/head: expected a CID, found null"),
        (block(scores=(bytes(24), None)), "/scores: 2 for a committee of 3"),
        (block(scores=(bytes(7), None, None)), "/scores/0: expected 8 to 2056 bytes, found 7"),
        (block(shares=(0, TOTAL_SHARES - 1, 0)), "/shares: their sum is 2147483647"),
        (block(shares=(TOTAL_SHARES, 0, 0, 0)), "/shares: 4 for the head and 2 updates"),
        (block(shares=(-1, TOTAL_SHARES, 1)), "/shares/0: -1 is not within"),
        (block(committee=(Member(b"\1" * 20),) * 3), "/committee/1/validator: repeated"),
        (block(committee=()), "/committee: expected 1 to 45 entries, found 0"),
        (
            block(committee=(Member(b"\1" * 20, None, Cid.dag_cbor(bytes(32))),)),
            "/committee/0/cid: there is no",
        ),
        (block(updates=(Update(bytes(20), bytes(32), None),) * 2), "/updates/1/worker: repeated"),
        (
            block(updates=(Update(bytes(20), bytes(31), None),)),
            "/updates/0/root: expected 32 bytes, found 31",
        ),
        (block(attestations=(Attestation(bytes(20), 1),)), "/attestations/0/attest: expected true"),  # type: ignore[arg-type]
        (block(prev=None), "/attestations: the first block has no predecessor"),
        (block(voids=(4, 3)), "/voids/0: round 4 is not before round 3"),
        (block(voids=(5,)), "/voids/0: round 5 is not before round 5"),
        (block(kind="chainfl/block/2"), "/kind: expected 'chainfl/block/1', found 'chainfl/block/2'"),
        (model(d=8), "/d: 8, but the layout has 7 parameters"),
        (model(chunks=(Cid.raw(bytes(32)),) * 2), "/chunks: 2, but 7 parameters take 1"),
        (model(chunks=(Cid.dag_cbor(bytes(32)),)), "/chunks/0: expected a CID of codec 0x55"),
        (model(s=32), "/s: 32 is not within 0 … 31"),
        (
            model(layout=Layout((Tensor("b", ()), Tensor("a", ())))),
            "/layout/tensors/1: 'a' is repeated or out of",
        ),
        (model(layout=Layout((Tensor("a", ()),), ("a",))), "/layout/buffers: 'a' is a tensor too"),
        (model(layout=Layout((Tensor("a", (0,)),))), "/layout/tensors: 0 parameters are not within"),
        (model(layout=Layout((Tensor("a", (1 << 31, 4)),))), "/layout/tensors: 8589934592 parameters"),
        (model(layout=Layout((Tensor("", ()),))), "/layout/tensors/0/0: expected 1 to 256 characters"),
        (manifest(learning_rate=0), "/learning_rate: 0 is not within"),
        (manifest(learning_rate=0.01), "/learning_rate: expected an integer, found a float"),
        (manifest(model="os.system('x')"), "/model: .* is not a name"),
    ],
)
def test_a_wrong_field_is_refused_by_path_before_anything_is_written(record: Record, why: str) -> None:
    with pytest.raises(RecordError, match=why):
        record.encode()


def test_a_pair_of_another_shape_is_not_a_tensor() -> None:
    plain = model().plain()
    assert isinstance(plain, dict)
    plain["layout"] = {"tensors": [["a", [7], 1]], "buffers": []}

    with pytest.raises(RecordError, match="/layout/tensors/0: expected \\[name, shape\\]"):
        ModelNode.decode(cbor.encode(plain))


def test_a_record_of_another_kind_is_refused() -> None:
    with pytest.raises(RecordError, match="BlockNode /s: unknown field"):
        BlockNode.decode(manifest().encode())


def test_bytes_that_are_no_map_are_refused() -> None:
    with pytest.raises(RecordError, match="Manifest record: expected a map, found a list"):
        Manifest.decode(b"\x80")


def test_a_committee_member_without_an_update_has_one_field() -> None:
    plain = block().plain()

    assert isinstance(plain, dict)
    assert plain["committee"][0] == {"validator": b"\1" * 20}


def test_chunks_are_a_mebibyte_each_and_the_last_is_shorter() -> None:
    assert chunk_sizes(1) == [4]
    assert chunk_sizes(1 << 18) == [CHUNK_BYTES]
    assert chunk_sizes((1 << 18) + 1) == [CHUNK_BYTES, 4]
    assert sum(chunk_sizes(1_663_370)) == 4 * 1_663_370


def test_the_largest_allowed_round_fits_one_block() -> None:
    node = Cid.dag_cbor(bytes(32))
    committee = tuple(Member(bytes([n]) * 20, bytes(32), node) for n in range(45))
    updates = tuple(Update(bytes([n]) * 20, bytes(32), node) for n in range(128))
    largest = block(
        committee=committee,
        updates=updates,
        scores=(bytes(8 + 16 * 128),) * 45,
        shares=(TOTAL_SHARES,) + (0,) * 128,
        attestations=tuple(Attestation(member.validator, True) for member in committee),
    )

    assert len(largest.encode()) < cbor.MAX_BYTES // 4


def test_records_and_vectors_agree_on_the_scale() -> None:
    assert vector.MAX_SCALE == MAX_SCALE


@pytest.mark.parametrize("entry", [Layout, ModelNode, BlockNode, Member, Update, Attestation, Manifest])
def test_every_field_is_documented_in_order(entry: type[Entry]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "schemas" / "records.md").read_text()

    section = re.split(rf"^(?:## )?{entry.__name__}\b", page, flags=re.MULTILINE)[1]
    table = section[section.index("| field") :].split("\n\n")[0]

    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(entry.SHAPE)
