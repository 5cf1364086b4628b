import gzip
import json
import lzma
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from chainfl.errors import (
    DataCorruptError,
    DataMissingError,
    InputError,
    PartitionError,
    UnknownNameError,
)
from chainfl.learning import datasets
from chainfl.learning.dataset import Array, Dataset, Samples
from chainfl.learning.partition import partition
from chainfl.learning.sources import cache, cifar, covtype, idx, imdb, shakespeare
from chainfl.learning.sources.files import digest, unpack
from chainfl.learning.sources.known import DIGESTS
from chainfl.sim import selfish_tests


def write_idx(path: Path, array: Array) -> Path:
    code = {1: 0x08, 4: 0x0C}[array.dtype.itemsize]
    header = struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(header + array.astype(array.dtype.newbyteorder(">")).tobytes()))
    return path


def write_mnist(folder: Path, train: int = 6, test: int = 3) -> None:
    for part, count in (("train", train), ("t10k", test)):
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", np.full((count, 28, 28), count, np.uint8))
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", np.arange(count, dtype=np.uint8))
    extended = np.zeros((train, 8), np.int32)
    extended[:, 0], extended[:, 2] = np.arange(train), np.arange(train) // 2 + 40
    write_idx(folder / "qmnist-train-labels-idx2-int.gz", extended)


def found_mnist(folder: Path) -> dict[str, Path]:
    return {key: folder / names[0] for key, names in (idx.PIXELS | idx.WRITERS).items()}


def covtype_line(class_: int, area: int = 0, soil: int = 0, first: int = 2596) -> str:
    one_hot = [int(k == area) for k in range(4)] + [int(k == soil) for k in range(40)]
    return ",".join(map(str, [first, *range(9), *one_hot, class_]))


def test_the_embedded_digits_are_whole_and_by_writer(digits: Dataset) -> None:
    assert digits.x.shape == (8728, 28, 28)
    assert digits.x_test.shape == (2000, 28, 28)
    assert len(np.unique(digits.groups["writer"])) == 77
    assert digest(digits.x) == DIGESTS["mnist-embedded"]["x"]
    assert np.bincount(digits.y).min() > 700


def test_decoded_arrays_are_mapped_from_the_cache_the_second_time(digits: Dataset) -> None:
    again = datasets.load("mnist-embedded")

    assert isinstance(again.x, np.memmap)
    assert np.array_equal(again.x[:5], digits.x[:5])


def test_a_damaged_cache_is_made_again(own_cache: Path) -> None:
    datasets.load("mnist-embedded", fresh=True)
    for path in own_cache.glob("datasets/mnist-embedded-*/x.npy"):
        path.write_bytes(b"garbage")

    assert datasets.load("mnist-embedded").x.shape == (8728, 28, 28)


def test_a_cache_that_cannot_be_written_costs_only_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("CHAINFL_CACHE", str(tmp_path / "file"))

    arrays = cache.cached("some", [tmp_path / "file"], lambda: {"x": np.ones(3)})

    assert arrays["x"].tolist() == [1, 1, 1]


def test_a_changed_source_file_is_decoded_again(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("one")
    cache.cached("changing", [source], lambda: {"x": np.array([1])})
    source.write_text("three")

    assert cache.cached("changing", [source], lambda: {"x": np.array([3])})["x"].tolist() == [3]


def test_mnist_files_are_decoded_with_their_writers(tmp_path: Path) -> None:
    write_mnist(tmp_path)

    arrays = idx.decode_images(found_mnist(tmp_path))

    assert arrays["x"].shape == (6, 28, 28)
    assert arrays["y"].tolist() == [0, 1, 2, 3, 4, 5]
    assert arrays["group_writer"].tolist() == [40, 40, 41, 41, 42, 42]


def test_another_copy_of_mnist_is_noticed(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist")

    with pytest.raises(DataCorruptError, match=r"array x \[6, 28, 28\] has digest"):
        datasets.load("mnist", tmp_path)


@pytest.mark.parametrize(
    ("file", "break_it", "message"),
    [
        ("train-images-idx3-ubyte.gz", lambda data: data[: len(data) // 2], "cannot be read"),
        ("train-images-idx3-ubyte.gz", lambda _: b"no gzip at all", "cannot be read"),
        ("train-images-idx3-ubyte.gz", lambda _: gzip.compress(b"\1\2\3\4"), "not an IDX file"),
        ("train-images-idx3-ubyte.gz", lambda _: gzip.compress(b"\0\0\x08\3\0\0"), "header is cut short"),
        (
            "train-labels-idx1-ubyte.gz",
            lambda _: gzip.compress(b"\0\0\x08\1\0\0\0\2abc"),
            "3 bytes of data where",
        ),
        (
            "train-labels-idx1-ubyte.gz",
            lambda _: gzip.compress(b"\0\0\x08\1\0\0\0\2\1\2"),
            "2 labels for 6 images",
        ),
        (
            "train-labels-idx1-ubyte.gz",
            lambda _: gzip.compress(b"\0\0\x08\1\0\0\0\6\1\2\3\4\5\x63"),
            "labels above 9",
        ),
        (
            "train-labels-idx1-ubyte.gz",
            lambda _: gzip.compress(b"\0\0\x08\1\0\0\0\6\1\2\3\4\5\6"),
            "not those of the labels",
        ),
    ],
)
def test_damaged_mnist_files_are_named_with_what_is_wrong(
    tmp_path: Path, file: str, break_it: Callable[[bytes], bytes], message: str
) -> None:
    write_mnist(tmp_path)
    (tmp_path / file).write_bytes(break_it((tmp_path / file).read_bytes()))

    with pytest.raises(DataCorruptError, match=message):
        idx.decode_images(found_mnist(tmp_path))


def test_missing_files_are_all_named_with_the_places_looked_in(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist")
    (tmp_path / "mnist" / "train-labels-idx1-ubyte.gz").unlink()
    (tmp_path / "mnist" / "qmnist-train-labels-idx2-int.gz").unlink()

    with pytest.raises(DataMissingError) as refusal:
        datasets.load("mnist", tmp_path)

    assert "train-labels-idx1-ubyte.gz or train-labels-idx1-ubyte" in str(refusal.value)
    assert "qmnist-train-labels-idx2-int.gz" in str(refusal.value)
    assert str(tmp_path / "mnist") in str(refusal.value)


@pytest.mark.parametrize("name", sorted(set(datasets.SOURCES) - {"mnist-embedded"}))
def test_without_a_data_directory_the_refusal_says_how_to_give_one(name: str) -> None:
    with pytest.raises(DataMissingError, match="CHAINFL_DATA"):
        datasets.load(name)


def test_an_unknown_data_set_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"'emnist'.*shakespeare"):
        datasets.load("emnist")


def test_cover_types_are_standardised_and_split(tmp_path: Path) -> None:
    lines = [covtype_line(1 + k % 7, k % 4, k, first=k % 2) for k in range(20)]
    path = tmp_path / "covtype.data.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))

    arrays = covtype.decode_covtype({"table": path})

    assert arrays["x"].shape == (18, 54)
    assert arrays["y_test"].tolist() == [0, 3]
    assert arrays["group_area"][:4].tolist() == [1, 2, 3, 0]
    assert arrays["group_soil"][:4].tolist() == [1, 2, 3, 4]
    first = np.array([k % 2 for k in range(20) if k % 10])
    assert arrays["x"][:, 0] == pytest.approx((first - first.mean()) / first.std())
    assert not arrays["x"][:, 1].any()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1,2,x"], "not a table of integers"),
        (["1,2,3"] * 20, r"\[20, 3\] numbers"),
        ([covtype_line(8)] * 20, "classes outside"),
        ([covtype_line(1, area=7)] * 20, "one wilderness area"),
        ([covtype_line(1, soil=99)] * 20, "one soil type"),
    ],
)
def test_damaged_cover_types_are_refused(tmp_path: Path, lines: list[str], message: str) -> None:
    (tmp_path / "covtype.data").write_text("\n".join(lines))

    with pytest.raises(DataCorruptError, match=message):
        covtype.decode_covtype({"table": tmp_path / "covtype.data"})


def test_reviews_become_the_numbers_of_frequent_words_padded_in_front(tmp_path: Path) -> None:
    texts = ["Good good film<br />good", "bad film", "good unseen"]
    (tmp_path / "imdb_reviews.txt.xz").write_bytes(lzma.compress("\n".join(texts).encode()))
    np.savez(tmp_path / "imdb_meta.npz", label=[1, 0, 1], movie=[11, 12, 13], is_test=[False, False, True])

    arrays = imdb.decode_imdb(imdb.find_imdb("imdb", tmp_path))

    assert arrays["x"].shape == (2, imdb.LENGTH)
    assert arrays["x"][0, -4:].tolist() == [2, 2, 3, 2]
    assert arrays["x"][1, -3:].tolist() == [0, 4, 3]
    assert arrays["x_test"][0, -2:].tolist() == [2, 1]
    assert arrays["group_movie"].tolist() == [11, 12]


def test_the_official_folder_of_reviews_is_read_too(tmp_path: Path) -> None:
    for part in ("train", "test"):
        for side in ("pos", "neg"):
            folder = tmp_path / "aclImdb" / part / side
            folder.mkdir(parents=True)
            (folder / "0_9.txt").write_text(f"{side} words")
            (folder / "1_2.txt").write_text(f"more {side}\nlines")
            (folder.parent / f"urls_{side}.txt").write_text(
                "http://www.imdb.com/title/tt0000007/usercomments\nhttp://www.imdb.com/title/tt0000008/\n"
            )

    arrays = imdb.decode_imdb(imdb.find_imdb("imdb", tmp_path))

    assert arrays["y"].tolist() == [1, 1, 0, 0]
    assert arrays["group_movie"].tolist() == [7, 8, 7, 8]


def test_reviews_that_do_not_match_their_facts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "imdb_reviews.txt").write_text("one\ntwo")
    meta = tmp_path / "imdb_meta.npz"
    found = {"reviews": tmp_path / "imdb_reviews.txt", "meta": meta}

    np.savez(meta, label=[1], movie=[1], is_test=[False])
    with pytest.raises(DataCorruptError, match="for 2 reviews"):
        imdb.decode_imdb(found)
    np.savez(meta, label=[1, 0], movie=[1, 1])
    with pytest.raises(DataCorruptError, match="no array called is_test"):
        imdb.decode_imdb(found)
    meta.write_bytes(b"PK\3\4 broken")
    with pytest.raises(DataCorruptError, match="not a usable"):
        imdb.decode_imdb(found)


def test_roles_become_windows_of_eighty_characters(tmp_path: Path) -> None:
    text = "abcdefgh" * 20
    plays = [{"play": "P", "speeches": [["A", 1, 1, text], ["B", 1, 1, "short"], ["A", 1, 2, "a"]]}]
    path = tmp_path / "shakespeare_speeches.json.xz"
    path.write_bytes(lzma.compress(json.dumps(plays).encode()))

    arrays = shakespeare.decode_shakespeare({"plays": path})

    assert arrays["x"].shape == (9, 80)
    assert arrays["x_test"].shape == (2, 80)
    assert set(arrays["group_role"].tolist()) == {0}
    assert len(set(arrays["y"].tolist())) == 1
    assert np.array_equal(arrays["x"][0], arrays["x"][1])


def six_plays(folder: Path) -> Path:
    """A file of plays: two roles in each of VaRSeL's six and in one more, all with words of their own."""
    plays = [
        {"play": play, "speeches": [[role, 1, 1, f"{play} {role} " * 60] for role in ("A", "B")]}
        for play in ("hamlet", *reversed(shakespeare.SIX))
    ]
    path = folder / "shakespeare_speeches.json"
    path.write_text(json.dumps(plays))
    return path


def test_six_plays_have_the_papers_order_and_name_who_speaks_each_test_sample(tmp_path: Path) -> None:
    whole = shakespeare.decode_shakespeare({"plays": six_plays(tmp_path)})

    arrays = shakespeare.decode_six({"plays": six_plays(tmp_path)})

    assert sorted(set(whole["group_play"].tolist())) == list(range(7))
    assert not any(name.startswith("test_") for name in whole)
    assert sorted(set(arrays["group_play"].tolist())) == list(range(6))
    for part, x in (("group", "x"), ("test", "x_test")):
        roles, plays = arrays[f"{part}_role"], arrays[f"{part}_play"]
        assert len(roles) == len(plays) == len(arrays[x])
        assert sorted(set(zip(roles.tolist(), plays.tolist(), strict=True))) == [
            (role, role // 2) for role in range(12)
        ]


def test_plays_of_varsel_that_are_missing_are_named(tmp_path: Path) -> None:
    plays = json.loads(six_plays(tmp_path).read_text())
    (tmp_path / "p.json").write_text(json.dumps([each for each in plays if each["play"] != "lear"]))

    with pytest.raises(DataCorruptError, match="no play lear"):
        shakespeare.decode_six({"plays": tmp_path / "p.json"})


def test_the_first_clients_of_a_cast_are_roles_of_one_play_and_are_tested_on_their_own_lines(
    tmp_path: Path,
) -> None:
    arrays = shakespeare.decode_six({"plays": six_plays(tmp_path)})
    plays = Dataset(
        "plays",
        x=arrays["x"],
        y=arrays["y"],
        x_test=arrays["x_test"],
        y_test=arrays["y_test"],
        classes=shakespeare.CLASSES,
        groups={kind: arrays[f"group_{kind}"] for kind in ("play", "role")},
        test_groups={kind: arrays[f"test_{kind}"] for kind in ("play", "role")},
    )

    parts = partition(plays, "cast:play=3,inside=2,min=10", 9, seed=1)

    roles = [np.unique(plays.groups["role"][rows]).tolist() for rows in parts]
    assert roles[:2] == [[6], [7]]
    assert len({role for (role,) in roles}) == 9
    tests = selfish_tests.tests_of(plays, plays.rows(parts[0]))
    assert len(tests) > 0
    assert set(plays.test_groups["role"][tests.rows].tolist()) == {6}
    with pytest.raises(PartitionError, match=r"play 3 has 2 roles with at least 10 samples, 3 are needed"):
        partition(plays, "cast:play=3,inside=3,min=10", 9, seed=1)
    with pytest.raises(PartitionError, match="plays beside 3 have 10 roles"):
        partition(plays, "cast:play=3,inside=2,min=10", 13, seed=1)


@pytest.mark.parametrize(
    "content", ["{}x", '[{"play": "P"}]', '[{"play": "P", "speeches": [["A", 1, 1, "short"]]}]']
)
def test_damaged_plays_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "plays.json").write_text(content)

    with pytest.raises(DataCorruptError, match=r"plays\.json"):
        shakespeare.decode_shakespeare({"plays": tmp_path / "plays.json"})


def test_a_batch_that_is_not_the_official_one_is_refused(tmp_path: Path) -> None:
    for batch in ("test_batch", "data_batch_3"):
        (tmp_path / f"{batch}.bin").write_bytes(bytes(2 * cifar.RECORD))

    with pytest.raises(DataCorruptError, match="the official ones"):
        datasets.load("cifar10", tmp_path)


def test_binary_batches_are_read_image_by_image(tmp_path: Path) -> None:
    record = np.arange(cifar.RECORD, dtype=np.int64).astype(np.uint8)
    (tmp_path / "b.bin").write_bytes(record.tobytes() * 2)

    x, y = cifar._read_binary(tmp_path / "b.bin")

    assert x.shape == (2, 32, 32, 3)
    assert y.tolist() == [0, 0]
    assert x[0, 0, 1].tolist() == [2, (1024 + 2) % 256, (2048 + 2) % 256]


def test_a_sheet_is_cut_into_images_row_by_row(tmp_path: Path) -> None:
    side, count = 32 * cifar.SHEET, cifar.SHEET**2
    number = (np.arange(side)[:, None] // 32) * cifar.SHEET + np.arange(side) // 32
    sheet = np.stack([number % 256, number // 256, np.arange(side)[None, :] % 32 + 0 * number], axis=2)
    Image.fromarray(sheet.astype(np.uint8)).save(tmp_path / "b.webp", lossless=True, quality=0, method=0)

    x, y = cifar._read_sheet(tmp_path / "b.webp", np.arange(count))

    assert x.shape == (count, 32, 32, 3)
    assert y.tolist() == list(range(count))
    for image in (0, 1, 99, 100, 9999):
        assert (x[image, :, :, 0] == image % 256).all()
        assert (x[image, :, :, 1] == image // 256).all()
        assert x[image, 5, :, 2].tolist() == list(range(32))
    with pytest.raises(DataCorruptError, match="labels"):
        cifar._read_sheet(tmp_path / "b.webp", np.arange(5))


def test_photographs_that_are_missing_or_cut_short_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataMissingError, match=r"test_batch\.bin or test_batch\.webp"):
        datasets.load("cifar10", tmp_path)
    (tmp_path / "test_batch.bin").write_bytes(bytes(cifar.RECORD))
    with pytest.raises(DataMissingError, match="training batches"):
        datasets.load("cifar10", tmp_path)
    (tmp_path / "data_batch_1.bin").write_bytes(bytes(100))
    with pytest.raises(DataCorruptError, match="whole records"):
        datasets.load("cifar10", tmp_path)
    (tmp_path / "data_batch_1.bin").unlink()
    (tmp_path / "data_batch_1.webp").write_bytes(b"RIFF nothing")
    with pytest.raises(DataMissingError, match=r"labels\.npz"):
        datasets.load("cifar10", tmp_path)
    np.savez(tmp_path / "labels.npz", data_batch_1=np.zeros(10_000, np.uint8))
    with pytest.raises(DataCorruptError, match="not a readable WebP"):
        datasets.load("cifar10", tmp_path)


def test_own_data_is_read_checked_and_split(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", x=np.ones((20, 3)), y=np.arange(20) % 4, client=np.arange(20) // 5)

    own = datasets.load(f"npz:{tmp_path / 'own.npz'}")

    assert own.x.dtype == np.float32
    assert own.x.shape == (18, 3)
    assert own.y_test.tolist() == [0, 2]
    assert own.classes == 4
    assert own.groups["client"].tolist() == [0] * 4 + [1] * 5 + [2] * 4 + [3] * 5


def test_own_data_with_its_own_test_part_is_taken_as_it_is(tmp_path: Path) -> None:
    x = np.zeros((4, 28, 28), np.uint8)
    np.savez(tmp_path / "own.npz", x=x, y=np.zeros(4, int), x_test=x[:2], y_test=np.array([5, 0]))

    own = datasets.load(f"npz:{tmp_path / 'own.npz'}")

    assert len(own.y) == 4
    assert own.classes == 6


@pytest.mark.parametrize("width", [np.int8, np.int16, np.uint32, np.uint64])
def test_tokens_may_be_integers_of_any_width(tmp_path: Path, width: Any) -> None:
    np.savez(tmp_path / "own.npz", x=np.arange(80).reshape(20, 4).astype(width), y=np.arange(20) % 3 + 1)

    own = datasets.load(f"npz:{tmp_path / 'own.npz'}")

    assert own.x.dtype == np.int64
    assert own.x[0].tolist() == [4, 5, 6, 7]
    assert own.classes == 4


X, Y = np.ones((4, 2), np.float32), np.zeros(4, np.int64)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X}, "no array called y"),
        ({"x": X, "y": Y, "z": Y}, "unknown array z"),
        ({"x": X, "y": Y[:3]}, "4 samples and 3 labels"),
        ({"x": X, "y": Y, "x_test": X}, "belong together"),
        ({"x": X, "y": Y.astype(np.float64)}, "not a list of integers"),
        ({"x": X * np.nan, "y": Y}, "NaN"),
        ({"x": X.astype(np.complex64), "y": Y}, "samples are complex64"),
        ({"x": X[:, 0], "y": Y}, "do not match"),
        ({"x": X, "y": Y - 1}, "y holds -1; number the values from 0"),
        ({"x": X, "y": np.array(["cat", "dog", "cat", "dog"])}, "number the values alike for all"),
        ({"x": X.astype(np.int16) - 3, "y": Y}, "x holds -2: integers are tokens, from 0; save numbers as"),
        ({"x": np.full((4, 2), 2**63, np.uint64), "y": Y}, "x holds 9223372036854775808: integers are"),
        ({"x": X, "y": Y, "x_test": X[:, :1], "y_test": Y}, "not alike"),
        ({"x": X, "y": Y, "client": Y[:2]}, "2 owners for 4 samples"),
        ({"x": np.array([{}, {}, {}, {}], object), "y": Y}, "not a usable .npz"),
    ],
)
def test_own_data_that_does_not_hold_together_is_refused(
    tmp_path: Path, arrays: dict[str, Array], message: str
) -> None:
    np.savez(tmp_path / "own.npz", **arrays)  # type: ignore[arg-type]

    with pytest.raises(DataCorruptError, match=message):
        datasets.load(f"npz:{tmp_path / 'own.npz'}")


def test_own_data_that_is_no_npz_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataMissingError, match="no such file"):
        datasets.load(f"npz:{tmp_path / 'none.npz'}")
    np.save(tmp_path / "bare.npy", X)
    with pytest.raises(DataCorruptError, match="one bare array"):
        datasets.load(f"npz:{tmp_path / 'bare.npy'}")
    (tmp_path / "noise.npz").write_bytes(bytes(range(100)))
    with pytest.raises(DataCorruptError, match="damaged, or holds Python objects"):
        datasets.load(f"npz:{tmp_path / 'noise.npz'}")


def npy(shape: str, data: bytes, kind: str = "|u1") -> bytes:
    """An .npy file that says what it likes of its shape."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (npy("(99999999999999, 2)", b"abc"), "3 bytes of data where its header asks for"),
        (npy("(9999999999,)", b"", "|V0"), "0 bytes of data where its header asks for"),
        (npy("(-4, -2)", bytes(8)), "not a usable .npz"),
        (npy("(4, 2)", bytes(8), "|O"), "holds Python objects"),
        (b"no array", "not a usable .npz"),
        (npy("(300000000, 1)", bytes(300_000_000)), "more than 100 times as many; write it with np.savez"),
    ],
    ids=["claims", "nothing many times", "negative", "objects", "bytes", "bomb"],
)
def test_own_data_that_claims_or_unpacks_to_more_than_it_holds_is_refused(
    tmp_path: Path, x: bytes, message: str
) -> None:
    with zipfile.ZipFile(tmp_path / "own.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", x)
        archive.writestr("y.npy", npy("(4,)", bytes(32), "<i8"))

    with pytest.raises(DataCorruptError, match=message):
        datasets.load(f"npz:{tmp_path / 'own.npz'}")


def test_own_data_too_large_for_float32_is_refused_without_a_warning(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", x=np.full((4, 2), 1e300), y=Y)

    with pytest.raises(DataCorruptError, match="too large"):
        datasets.load(f"npz:{tmp_path / 'own.npz'}")


def test_rows_outside_the_data_set_are_refused(digits: Dataset) -> None:
    with pytest.raises(InputError, match="0…8727"):
        digits.rows(np.array([8728]))


def test_plain_and_packed_files_unpack_to_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"data")
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"data"))
    (tmp_path / "a.xz").write_bytes(lzma.compress(b"data"))

    assert {unpack(tmp_path / name) for name in ("a", "a.gz", "a.xz")} == {b"data"}


def test_a_sample_of_an_ordered_test_set_has_every_label_in_its_proportion() -> None:
    y = np.repeat(np.arange(4), (400, 300, 200, 100))
    whole = Samples(np.zeros((1000, 1), np.float32), y, np.arange(1000))

    one, again, other = (whole.sampled(101, seed) for seed in (7, 7, 8))

    assert len(one) == 101
    assert len(set(one.rows.tolist())) == 101
    assert np.bincount(y[one.rows]).tolist() == [41, 30, 20, 10]
    assert np.array_equal(one.rows, again.rows)
    assert not np.array_equal(one.rows, other.rows)
    assert whole.sampled(1000, 7) is whole
