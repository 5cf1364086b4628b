"""The manifest of an app, and how either format is read."""

import hashlib

import pytest

from chainfl.codec.manifest import AppManifest, BaseFile, ConfigValue, app_digest, decode_manifest
from chainfl.codec.records import Layout, Manifest, Tensor
from chainfl.errors import RecordError

LAYOUT = Layout((Tensor("a", (2, 3)), Tensor("b", (3,))))
APP = AppManifest(
    "digits",
    app_digest({"app.py": b"x = 1\n"}),
    (ConfigValue("batch", "32"), ConfigValue("rate", "0.001")),
    (BaseFile("model.safetensors", bytes(32), 5),),
    7,
    300,
    20,
    LAYOUT,
)


def test_the_digest_of_a_source_is_the_hash_of_a_list_of_paths_and_hashes() -> None:
    inner = hashlib.sha256(b"x = 1\n").digest()
    listed = bytes([0x81, 0x82, 0x66]) + b"app.py" + bytes([0x58, 0x20]) + inner  # dag-cbor, by hand
    assert app_digest({"app.py": b"x = 1\n"}) == hashlib.sha256(listed).hexdigest()


def test_both_formats_are_read_by_their_kind() -> None:
    named = Manifest("mnist-cnn", "mnist", "nll", "sgd", 10**16, 32, 1, 7, 300, 20, LAYOUT)
    assert decode_manifest(APP.encode()) == APP
    assert decode_manifest(named.encode()) == named


def test_names_that_are_out_of_order_are_refused() -> None:
    swapped = AppManifest(
        APP.app, APP.digest, APP.config[::-1], APP.base, APP.seed, APP.score_samples, APP.s, APP.layout
    )
    with pytest.raises(RecordError, match="'batch' is repeated or out of order"):
        swapped.encode()


def test_what_is_no_manifest_is_refused() -> None:
    with pytest.raises(RecordError):
        decode_manifest(b"\xa0")
    with pytest.raises(RecordError):
        decode_manifest(b"\x01")
