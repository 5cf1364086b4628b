"""The records that make a task's history one Merkle DAG: model nodes, block nodes and the manifest.

A record is a frozen dataclass whose `SHAPE` says, field by field, what is allowed. Both directions pass
through it, so nothing can be written that would not be read. docs/schemas/records.md lists the fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, ClassVar, Self

from chainfl.codec import cbor
from chainfl.codec.cbor import Value
from chainfl.codec.cid import Cid, Codec
from chainfl.codec.shapes import (
    ADDRESS,
    NODE,
    ROOT,
    UINT64,
    UINT64_MAX,
    Shapes,
    boolean,
    exactly,
    integer,
    kind_of,
    link,
    many,
    name,
    nullable,
    octets,
    text,
)
from chainfl.errors import RecordError

PARAMETER_BYTES = 4
CHUNK_BYTES = 1 << 20
TOTAL_SHARES = 1 << 31
MAX_COMMITTEE = 45
MAX_UPDATES = 128
MAX_PARAMETERS = (1 << 32) - 1
MAX_SCALE = 31
MAX_SCORE_BYTES = 8 + 16 * MAX_UPDATES


class Entry:
    """A map with fixed fields; `SHAPE` gives them in order, `OPTIONAL` those that may be left out."""

    __slots__ = ()
    SHAPE: ClassVar[Shapes]
    OPTIONAL: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def read(cls, value: Value, path: str) -> Self:
        """The entry that this decoded map holds.

        Raises:
            RecordError: a field is unknown, missing, of the wrong type or out of range; names its path.
        """
        if not isinstance(value, Mapping):
            raise RecordError(f"{path or 'record'}: expected a map, found {kind_of(value)}")
        for field in value:
            if field not in cls.SHAPE:
                raise RecordError(f"{path}/{field:.80}: unknown field; known are {', '.join(cls.SHAPE)}")

        # Unknown fields are refused above: a record has one encoding, and one reading.
        for field in cls.SHAPE:
            if field not in value and field not in cls.OPTIONAL:
                raise RecordError(f"{path}/{field}: missing")
        entry = cls(**{field: cls.SHAPE[field](value[field], f"{path}/{field}") for field in value})
        entry.check(path)
        return entry

    def plain(self) -> Value:
        """The map to encode; optional fields that are None are left out."""
        pairs = ((field, getattr(self, field)) for field in self.SHAPE)
        return {
            field: _plain(value) for field, value in pairs if value is not None or field not in self.OPTIONAL
        }

    def check(self, path: str) -> None:
        """Refuse fields that contradict one another."""


class Record(Entry):
    """An entry with a block of its own in the store."""

    __slots__ = ()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read canonical bytes.

        Raises:
            RecordError: the bytes or a field are wrong; names the record and the path.
        """
        try:
            return cls.read(cbor.decode(data), "")
        except RecordError as error:
            raise RecordError(f"{cls.__name__} {error}") from error

    def encode(self) -> bytes:
        """The canonical bytes, after the same checks that reading makes."""
        try:
            plain = self.plain()
            self.read(plain, "")
            return cbor.encode(plain)
        except RecordError as error:
            raise RecordError(f"{type(self).__name__} {error}") from error

    @property
    def cid(self) -> Cid:
        """The record's name in the store."""
        return Cid.of(self.encode(), Codec.DAG_CBOR)


def _plain(value: Any) -> Value:
    if isinstance(value, Entry):
        return value.plain()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value  # type: ignore[no-any-return]


def _refuse_repeats(values: tuple[Any, ...], path: str, field: str) -> None:
    seen: set[Any] = set()
    for index, value in enumerate(values):
        if value in seen:
            raise RecordError(f"{path}/{index}/{field}: repeated")
        seen.add(value)


# Models


@dataclass(frozen=True, slots=True)
class Tensor(Entry):
    """One floating tensor of a state dict: its name and shape, written as the pair `[name, shape]`."""

    name: str
    shape: tuple[int, ...]

    SHAPE: ClassVar[Shapes] = {"name": text, "shape": many(integer(0, MAX_PARAMETERS), 0, 8)}

    @classmethod
    def read(cls, value: Value, path: str) -> Self:
        """The tensor that this pair describes."""
        if not isinstance(value, (list, tuple)) or len(value) != 2:
            raise RecordError(f"{path}: expected [name, shape], found {kind_of(value)}")
        return cls(cls.SHAPE["name"](value[0], f"{path}/0"), cls.SHAPE["shape"](value[1], f"{path}/1"))

    def plain(self) -> Value:
        """The pair to encode."""
        return [self.name, list(self.shape)]

    @property
    def size(self) -> int:
        """How many parameters it holds."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Layout(Entry):
    """Where each tensor lies in a model vector: floating tensors by name, in C order, one after the other.

    Integer buffers are named but not aggregated, so that a model can be rebuilt without guessing.
    """

    tensors: tuple[Tensor, ...]
    buffers: tuple[str, ...] = ()

    SHAPE: ClassVar[Shapes] = {"tensors": many(Tensor.read, 1), "buffers": many(text)}

    @property
    def d(self) -> int:
        """The number of parameters of the vector."""
        return sum(tensor.size for tensor in self.tensors)

    def check(self, path: str) -> None:
        """Names ascend, none is twice in the state dict, and there is something to train."""
        names = [tensor.name for tensor in self.tensors]
        for field, words in (("tensors", names), ("buffers", list(self.buffers))):
            for index in range(1, len(words)):
                if words[index - 1] >= words[index]:
                    raise RecordError(f"{path}/{field}/{index}: {words[index]!r} is repeated or out of order")
        if both := set(names) & set(self.buffers):
            raise RecordError(f"{path}/buffers: {min(both)!r} is a tensor too")
        if not 1 <= self.d <= MAX_PARAMETERS:
            raise RecordError(f"{path}/tensors: {self.d} parameters are not within 1 … {MAX_PARAMETERS}")


def chunk_sizes(d: int) -> list[int]:
    """The sizes of the raw blocks that hold `d` parameters: all 2^20 bytes, the last what is left."""
    whole, rest = divmod(d * PARAMETER_BYTES, CHUNK_BYTES)
    return [CHUNK_BYTES] * whole + [rest] * (rest > 0)


@dataclass(frozen=True, slots=True)
class ModelNode(Record):
    """A model vector in the store: what binds it (root), how to read it (s, layout), where its bytes are."""

    s: int
    d: int
    root: bytes
    layout: Layout
    chunks: tuple[Cid, ...]
    kind: str = "chainfl/model/1"

    SHAPE: ClassVar[Shapes] = {
        "kind": exactly("chainfl/model/1"),
        "s": integer(0, MAX_SCALE),
        "d": integer(1, MAX_PARAMETERS),
        "root": ROOT,
        "layout": Layout.read,
        "chunks": many(link(Codec.RAW), 1),
    }

    def check(self, path: str) -> None:
        """The layout adds up to d, and d to the number of chunks."""
        if self.layout.d != self.d:
            raise RecordError(f"{path}/d: {self.d}, but the layout has {self.layout.d} parameters")
        if len(self.chunks) != (expected := len(chunk_sizes(self.d))):
            raise RecordError(f"{path}/chunks: {len(self.chunks)}, but {self.d} parameters take {expected}")


# Blocks


@dataclass(frozen=True, slots=True)
class Member(Entry):
    """A committee member; where the committee trains too (CMFL), the update it revealed."""

    validator: bytes
    root: bytes | None = None
    cid: Cid | None = None

    SHAPE: ClassVar[Shapes] = {"validator": ADDRESS, "root": ROOT, "cid": nullable(NODE)}
    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"root", "cid"})

    def check(self, path: str) -> None:
        """A CID stands only beside the root it belongs to."""
        if self.cid is not None and self.root is None:
            raise RecordError(f"{path}/cid: there is no root beside it")


@dataclass(frozen=True, slots=True)
class Update(Entry):
    """A revealed update. `cid` is null when the update was not included.

    A link to bytes that nobody has would keep `ipfs pin add` of the whole history from ever ending; the chain
    holds the digest in any case.
    """

    worker: bytes
    root: bytes
    cid: Cid | None

    SHAPE: ClassVar[Shapes] = {"worker": ADDRESS, "root": ROOT, "cid": nullable(NODE)}


@dataclass(frozen=True, slots=True)
class Attestation(Entry):
    """One validator's vote on a proposal: it attests or it objects."""

    validator: bytes
    attest: bool

    SHAPE: ClassVar[Shapes] = {"validator": ADDRESS, "attest": boolean}


@dataclass(frozen=True, slots=True)
class BlockNode(Record):
    """What a round produced, from what, and who took part; `prev` makes the history one Merkle DAG.

    `attestations` are those of `prev`'s last attempt, for this round's own are not known when its block is
    written; `voids` are the Void rounds since `prev`, which have no node.
    """

    chain: int
    task: bytes
    round: int
    rule: str
    prev: Cid | None
    head: Cid
    committee: tuple[Member, ...]
    miner: bytes
    updates: tuple[Update, ...]
    scores: tuple[bytes | None, ...]
    shares: tuple[int, ...]
    model: Cid
    attempt: int
    attestations: tuple[Attestation, ...] = ()
    voids: tuple[int, ...] = ()
    kind: str = "chainfl/block/1"

    SHAPE: ClassVar[Shapes] = {
        "kind": exactly("chainfl/block/1"),
        "chain": UINT64,
        "task": ADDRESS,
        "round": UINT64,
        "rule": name,
        "prev": nullable(NODE),
        "head": NODE,
        "committee": many(Member.read, 1, MAX_COMMITTEE),
        "miner": ADDRESS,
        "updates": many(Update.read, 1, MAX_UPDATES),
        "scores": many(nullable(octets(8, MAX_SCORE_BYTES)), 1, MAX_COMMITTEE),
        "shares": many(integer(0, TOTAL_SHARES), 2, MAX_UPDATES + 1),
        "model": NODE,
        "attempt": integer(0, 255),
        "attestations": many(Attestation.read, 0, MAX_COMMITTEE),
        "voids": many(UINT64),
    }

    def check(self, path: str) -> None:
        """Lists fit one another, nobody appears twice, shares sum to 2^31, rounds only grow."""
        _refuse_repeats(
            tuple(member.validator for member in self.committee), f"{path}/committee", "validator"
        )
        _refuse_repeats(tuple(update.worker for update in self.updates), f"{path}/updates", "worker")
        _refuse_repeats(tuple(a.validator for a in self.attestations), f"{path}/attestations", "validator")

        if len(self.scores) != len(self.committee):
            raise RecordError(f"{path}/scores: {len(self.scores)} for a committee of {len(self.committee)}")
        if len(self.shares) > 1 + len(self.updates):
            raise RecordError(
                f"{path}/shares: {len(self.shares)} for the head and {len(self.updates)} updates"
            )

        if sum(self.shares) != TOTAL_SHARES:
            raise RecordError(f"{path}/shares: their sum is {sum(self.shares)}, not 2^31")

        if self.prev is None and self.attestations:
            raise RecordError(f"{path}/attestations: the first block has no predecessor to attest")

        for index, (earlier, later) in enumerate(pairwise((*self.voids, self.round))):
            if earlier >= later:
                raise RecordError(f"{path}/voids/{index}: round {earlier} is not before round {later}")


# Manifests


@dataclass(frozen=True, slots=True)
class Manifest(Record):
    """What a task trains and how: names that every participant has installed, never code."""

    model: str
    dataset: str
    loss: str
    optimiser: str
    learning_rate: int
    batch: int
    local_epochs: int
    seed: int
    score_samples: int
    s: int
    layout: Layout
    kind: str = "chainfl/manifest/1"
    admission: Cid | None = None
    """The list of who may join, where there is one."""

    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"admission"})

    SHAPE: ClassVar[Shapes] = {
        "kind": exactly("chainfl/manifest/1"),
        "model": name,
        "dataset": name,
        "loss": name,
        "optimiser": name,
        "learning_rate": integer(1, UINT64_MAX),
        "batch": integer(1, (1 << 32) - 1),
        "local_epochs": integer(1, (1 << 32) - 1),
        "seed": integer(0, (1 << 63) - 1),
        "score_samples": integer(1, (1 << 32) - 1),
        "s": integer(0, MAX_SCALE),
        "layout": Layout.read,
        "admission": NODE,
    }
