"""CIFAR-10: the official binary batches, or the same images as lossless WebP sheets (needs Pillow)."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from chainfl.errors import DataMissingError, ToolMissingError
from chainfl.learning.dataset import Array
from chainfl.learning.sources.files import expect, load_npz, locate, require, unpack

FOLDERS = ("cifar10", "cifar-10-batches-bin", ".")
SHEET = 100
"""A sheet holds 100 by 100 images, row by row."""
RECORD = 1 + 3 * 32 * 32
CROP = slice(4, 28)

MD5 = {
    "data_batch_1": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3": "942cd6a4",
    "data_batch_4": "ae636b3b",
    "data_batch_5": "53f37980",
    "test_batch": "803d5f7f4d78ea53de84dbe85f74fb6d",
}
"""How the md5 of each official batch (label and channels, image by image) begins."""


def find_cifar(dataset: str, root: Path | None) -> dict[str, Path]:
    """The test batch and every training batch there is; each can be left out, but not all."""
    places = [root / folder for folder in FOLDERS] if root is not None else []
    found = {
        batch: path
        for batch in MD5
        if (path := locate(places, (f"{batch}.bin", f"{batch}.webp"))) is not None
    }

    if "test_batch" not in found:
        require(dataset, root, FOLDERS, {"test": ("test_batch.bin", "test_batch.webp")})
    if len(found) < 2:
        raise DataMissingError(
            f"data set {dataset}: missing data_batch_1.bin (or .webp) and the other training batches; "
            f"looked in {', '.join(map(str, places))}"
        )

    if any(path.suffix == ".webp" for path in found.values()):
        found |= require(dataset, root, FOLDERS, {"labels": ("labels.npz",)})
    return found


def decode_cifar(found: Mapping[str, Path]) -> dict[str, Array]:
    """Images as uint8 of Nx32x32x3, training batches in order."""
    batches = {batch: _read_batch(batch, found) for batch in MD5 if batch in found}
    train = [images for batch, images in batches.items() if batch != "test_batch"]
    x_test, y_test = batches["test_batch"]
    return {
        "x": np.concatenate([x for x, _ in train]),
        "y": np.concatenate([y for _, y in train]),
        "x_test": x_test,
        "y_test": y_test,
    }


def decode_cropped(found: Mapping[str, Path]) -> dict[str, Array]:
    """The middle 24x24 of every image (Xie et al., 2019)."""
    arrays = decode_cifar(found)
    for part in ("x", "x_test"):
        arrays[part] = np.ascontiguousarray(arrays[part][:, CROP, CROP])
    return arrays


def _read_batch(batch: str, found: Mapping[str, Path]) -> tuple[Array, Array]:
    path = found[batch]
    x, y = (
        _read_binary(path)
        if path.suffix == ".bin"
        else _read_sheet(path, load_npz(found["labels"]).get(batch))
    )
    expect(len(y) == 0 or int(y.max()) <= 9, path, "labels above 9")
    verify_batch(batch, path, x, y)
    return x, y.astype(np.int64)


def verify_batch(batch: str, path: Path, x: Array, y: Array) -> None:
    """Refuse a batch that is not the official one."""
    records = np.concatenate(
        [y.astype(np.uint8)[:, None], x.transpose(0, 3, 1, 2).reshape(len(x), -1)], axis=1
    )
    found = hashlib.md5(records.tobytes(), usedforsecurity=False).hexdigest()
    expect(found.startswith(MD5[batch]), path, f"its images have md5 {found}, the official ones {MD5[batch]}")


def _read_binary(path: Path) -> tuple[Array, Array]:
    data = np.frombuffer(unpack(path), np.uint8)
    expect(
        len(data) % RECORD == 0 and len(data) > 0,
        path,
        f"{len(data)} bytes are not whole records of {RECORD}",
    )
    records = data.reshape(-1, RECORD)
    return np.ascontiguousarray(records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), records[:, 0]


def _read_sheet(path: Path, labels: Array | None) -> tuple[Array, Array]:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise ToolMissingError(
            f"{path}: reading WebP needs Pillow; install it with `pip install pillow`"
        ) from None
    try:
        with Image.open(path) as image:
            sheet = np.asarray(image.convert("RGB"))
    except (OSError, UnidentifiedImageError, ValueError) as problem:
        expect(False, path, f"not a readable WebP image: {problem}")
        raise

    side = SHEET * 32
    expect(sheet.shape == (side, side, 3), path, f"a sheet of {list(sheet.shape)}, not {[side, side, 3]}")
    expect(
        labels is not None and labels.shape == (SHEET * SHEET,),
        path,
        f"no {SHEET * SHEET} labels in labels.npz",
    )
    assert labels is not None

    tiles = sheet.reshape(SHEET, 32, SHEET, 32, 3).swapaxes(1, 2).reshape(-1, 32, 32, 3)
    return tiles, labels
