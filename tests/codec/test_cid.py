import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfl.codec.cid import Cid, Codec
from chainfl.errors import CidError

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "cid.json").read_text())
HELLO = "bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq"

cids = st.builds(Cid, st.sampled_from(Codec), st.binary(min_size=32, max_size=32))


def test_the_name_of_hello_is_the_one_that_every_ipfs_node_gives() -> None:
    cid = Cid.of(b"hello", Codec.RAW)

    assert str(cid) == HELLO
    assert cid.matches(b"hello")
    assert not cid.matches(b"hellp")


@pytest.mark.parametrize("index", range(len(VECTORS["data"])))
def test_published_vectors_hold(index: int) -> None:
    data = bytes.fromhex(VECTORS["data"][index][2:])
    codec = Codec(int(VECTORS["codec"][index]))

    cid = Cid.of(data, codec)

    assert "0x" + cid.digest.hex() == VECTORS["digest"][index]
    assert "0x" + bytes(cid).hex() == VECTORS["bytes"][index]
    assert str(cid) == VECTORS["text"][index]


@given(cids)
def test_text_and_bytes_come_back_as_the_same_cid(cid: Cid) -> None:
    assert Cid.parse(str(cid)) == cid
    assert Cid.from_bytes(bytes(cid)) == cid


@given(cids)
def test_text_agrees_with_the_multiformats_library(cid: Cid) -> None:
    from multiformats import CID

    other = CID("base32", 1, "raw" if cid.codec is Codec.RAW else "dag-cbor", ("sha2-256", cid.digest))

    assert str(other) == str(cid)


def test_a_cid_is_built_from_the_digest_that_a_chain_holds() -> None:
    digest = bytes(range(32))

    assert Cid.raw(digest).codec is Codec.RAW
    assert Cid.dag_cbor(digest).codec is Codec.DAG_CBOR
    assert Cid.dag_cbor(digest).digest == digest


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG", "CIDv0"),
        ("zb2rhe5P4gXftAwvA4eXQ5HJwsER2owDyS9sKaQRRVQPn93bA", "base32"),
        ("", "base32"),
        (HELLO.upper(), "base32"),
        ("b" + HELLO[1:].upper(), "lower-case"),
        (HELLO + "a", "characters"),
        (HELLO[:-1], "characters"),
        (HELLO[:-1] + "1", "base32"),
        (HELLO[:-1] + "ä", "base32"),
        (HELLO[:-1] + "r", "canonical"),
        ("bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi", "codec 0x70"),
    ],
)
def test_text_that_is_no_cid_of_ours_is_refused_by_name(text: str, why: str) -> None:
    with pytest.raises(CidError, match=why):
        Cid.parse(text)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x12\x20" + bytes(32), "CIDv0"),
        (b"", "36 bytes, not 0"),
        (b"\x02\x55\x12\x20" + bytes(32), "version 2"),
        (b"\x01\x70\x12\x20" + bytes(32), "codec 0x70"),
        (b"\x01\x55\x13\x40" + bytes(64), "hash 0x13"),
        (b"\x01\x55\x12\x14" + bytes(20), "of 20 bytes"),
        (b"\x01\x55\x12\x20" + bytes(33), "trailing"),
        (b"\x01\x55\x12\x20" + bytes(31), "truncated"),
    ],
)
def test_bytes_that_are_no_cid_of_ours_are_refused_by_name(data: bytes, why: str) -> None:
    with pytest.raises(CidError, match=why):
        Cid.from_bytes(data)


def test_a_digest_of_another_length_is_refused() -> None:
    with pytest.raises(CidError, match="32 bytes, not 31"):
        Cid.raw(bytes(31))


@given(st.text(max_size=70))
def test_any_text_is_read_or_refused_by_name(text: str) -> None:
    with suppress(CidError):
        assert str(Cid.parse(text)) == text
