"""The manifest of a task whose learning is an app: which code, under which settings, on which frozen files.

The record holds names and digests, never code: a participant runs what its operator installed.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from chainfl.codec import cbor
from chainfl.codec.cbor import Value
from chainfl.codec.cid import Cid
from chainfl.codec.records import MAX_SCALE, Entry, Layout, Manifest, Record
from chainfl.codec.shapes import NODE, UINT64, Shapes, exactly, integer, many, octets, text
from chainfl.errors import RecordError

KIND = "chainfl/manifest/2"
_MAX_ENTRIES = 1024


def app_digest(files: Mapping[str, bytes]) -> str:
    """The digest of an app's own source: SHA-256 over the dag-cbor list of [path, SHA-256], sorted by path; hex.

    Paths are relative and have `/` between their parts, so that every machine names the files alike.
    """
    listed: list[Value] = [[path, hashlib.sha256(files[path]).digest()] for path in sorted(files)]
    return hashlib.sha256(cbor.encode(listed)).hexdigest()


@dataclass(frozen=True, slots=True)
class ConfigValue(Entry):
    """One value of an app's config, as JSON writes it: `0.001`, `32`, `true`, `"adam"`."""

    name: str
    value: str

    SHAPE: ClassVar[Shapes] = {"name": text, "value": text}


@dataclass(frozen=True, slots=True)
class BaseFile(Entry):
    """A frozen file that each participant loads from its own disk."""

    name: str
    sha256: bytes
    bytes: int

    SHAPE: ClassVar[Shapes] = {"name": text, "sha256": octets(32), "bytes": UINT64}


@dataclass(frozen=True, slots=True)
class AppManifest(Record):
    """What a task trains: the app, the digest of its source, its config, its frozen files, the trained tensors."""

    app: str
    digest: str
    config: tuple[ConfigValue, ...]
    base: tuple[BaseFile, ...]
    seed: int
    score_samples: int
    s: int
    layout: Layout
    kind: str = KIND
    admission: Cid | None = None
    """The list of who may join, where there is one."""

    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"admission"})

    SHAPE: ClassVar[Shapes] = {
        "kind": exactly(KIND),
        "app": text,
        "digest": text,
        "config": many(ConfigValue.read, 0, _MAX_ENTRIES),
        "base": many(BaseFile.read, 0, _MAX_ENTRIES),
        "seed": integer(0, (1 << 63) - 1),
        "score_samples": integer(1, (1 << 32) - 1),
        "s": integer(0, MAX_SCALE),
        "layout": Layout.read,
        "admission": NODE,
    }

    def check(self, path: str) -> None:
        """Names ascend, so that one manifest has one encoding."""
        for field, entries in (("config", self.config), ("base", self.base)):
            names = [entry.name for entry in entries]
            for index in range(1, len(names)):
                if names[index - 1] >= names[index]:
                    raise RecordError(f"{path}/{field}/{index}: {names[index]!r} is repeated or out of order")


AnyManifest = Manifest | AppManifest


def decode_manifest(data: bytes) -> AnyManifest:
    """A manifest of either format.

    Raises:
        RecordError: the bytes are neither.
    """
    plain = cbor.decode(data)
    is_app = isinstance(plain, Mapping) and plain.get("kind") == KIND
    return AppManifest.decode(data) if is_app else Manifest.decode(data)
