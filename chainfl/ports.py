"""What roles and audit need from outside, as small Protocols; memory, chains and stores implement them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from chainfl.codec.cid import Cid, Codec, Octets
from chainfl.codec.records import Layout
from chainfl.codec.vector import Vector
from chainfl.protocol.admission import Admission
from chainfl.protocol.events import Event
from chainfl.protocol.proof import Evidence
from chainfl.protocol.state import Task
from chainfl.types import Address, Digest, Id, Phase

# Blobs


class BlobStore(Protocol):
    """Content-addressed bytes. What comes out has been checked against its CID and a size limit.

    Safe for several threads at once. Outside failures are StoreErrors (retry later); bytes that are wrong or
    too large are VerificationErrors (another participant is wrong).
    """

    def put(self, data: Octets, codec: Codec) -> Cid:
        """Keep these bytes and name them; putting the same bytes again changes nothing."""
        ...

    def put_many(self, blobs: Iterable[tuple[Octets, Codec]]) -> Iterator[Cid]:
        """Put side by side; names come in the order given, and the input is taken as there is room."""
        ...

    def get(self, cid: Cid, max_bytes: int) -> bytes:
        """The bytes of this name.

        Raises:
            BlobNotFoundError: they are not found, or not in time.
            BlobTooLargeError: they are more than `max_bytes`.
            WrongBytesError: what was found does not hash to the name.
        """
        ...

    def get_many(self, cids: Iterable[Cid], max_bytes: int) -> Iterator[bytes]:
        """Get side by side; bytes come in the order asked, and only a few at a time are held."""
        ...

    def has(self, cid: Cid) -> bool:
        """Whether the bytes are here now."""
        ...

    def pin(self, cid: Cid, *, with_links: bool = True) -> None:
        """Fetch this, and all it links to unless told otherwise, and keep it until unpinned.

        Raises:
            BlobNotFoundError: a part of it was not found.
        """
        ...

    def unpin(self, cid: Cid) -> None:
        """Remove a pin; unpinning what is not pinned changes nothing."""
        ...


@runtime_checkable
class WaitingStore(Protocol):
    """A store that may wait for others' bytes, with a limit that `blobs.within` sets."""

    def within(self, until: float) -> BlobStore:
        """The same blobs, for a caller whose time ends then (`time.monotonic()`): no call outlasts it."""
        ...


# Ledger


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event and the EVM block that holds it."""

    event: Event
    block_number: int


class Ledger(Protocol):
    """One task, as one account sees it and acts on it. An action returns when it has happened for good.

    Raises ProtocolErrors for what the rules refuse (do not retry) and LedgerErrors when the ledger itself fails.
    """

    @property
    def me(self) -> Address:
        """The account that takes part: ids, seats and earnings are its own."""
        ...

    @property
    def key(self) -> Address:
        """Who sends: the account itself, or its operator; commitments and notes name it."""
        ...

    def task(self) -> Task:
        """The task as it stands; a value to read, never to change."""
        ...

    def now(self) -> int:
        """The ledger's time, in seconds."""
        ...

    def enrol(self, admission: Admission | None = None) -> None:
        """Take part from the next draw on; where the task has a list of who may join, with the proof of being on it."""
        ...

    def leave(self) -> None:
        """Take no part in later draws."""
        ...

    def apply_change(self, account: Address) -> None:
        """Bring an account's weight in line with its stake and wish."""
        ...

    def can_draw(self) -> bool:
        """Whether a draw is open and the block that seeds it is there."""
        ...

    def draw(self) -> None:
        """Draw the roles of the round."""
        ...

    def note_absent(self, round_: int, ids: Sequence[Id]) -> None:
        """Note who was drawn to train and did not commit in time."""
        ...

    def advance(self, round_: int) -> None:
        """Leave a phase that is over."""
        ...

    def tally(self, round_: int, vectors: Sequence[bytes]) -> None:
        """Turn the revealed scores into shares."""
        ...

    def commit_update(self, round_: int, digest: Digest) -> None:
        """Commit to an update."""
        ...

    def reveal_update(self, round_: int, root: Digest, cid: Digest, samples: int, salt: Digest) -> None:
        """Open the commitment to an update."""
        ...

    def commit_scores(self, round_: int, digest: Digest) -> None:
        """Commit to scores."""
        ...

    def reveal_scores(self, round_: int, scores: bytes, salt: Digest) -> None:
        """Open the commitment to scores."""
        ...

    def propose(
        self, round_: int, attempt: int, model_root: Digest, block: Digest, shares: Sequence[int]
    ) -> None:
        """Post the next model."""
        ...

    def vote(
        self,
        round_: int,
        attempt: int,
        model_root: Digest,
        block: Digest,
        shares_digest: Digest,
        attests: bool,
    ) -> None:
        """Attest a proposal or object to it."""
        ...

    def note_finding(self, note: Digest) -> None:
        """Seal a finding before showing it."""
        ...

    def prove(self, round_: int, attempt: int, position: int, evidence: Evidence, salt: Digest) -> None:
        """Show one wrong parameter of the standing proposal."""
        ...

    def claim(self, rounds: Sequence[int]) -> int:
        """Pull what the account earned; answers the amount."""
        ...


# Learning


Floats = NDArray[np.float32]


class Judgement(Protocol):
    """How good a model is on held-out samples."""

    @property
    def loss(self) -> float:
        """Mean loss; NaN where it is none."""
        ...

    @property
    def correct(self) -> int:
        """How many samples it gets right."""
        ...

    @property
    def samples(self) -> int:
        """Out of how many."""
        ...


class Trainer(Protocol):
    """A participant's data and the code that learns from it. It sees floats; roles turn them into integers."""

    @property
    def layout(self) -> Layout:
        """The tensors of the model."""
        ...

    @property
    def samples(self) -> int:
        """How many samples a training pass uses."""
        ...

    def train(self, head_D: Floats, round_: int) -> Floats:
        """The parameters after local training from the head; the same round gives the same result."""
        ...

    def score(self, models_KD: Sequence[Floats]) -> Sequence[Judgement]:
        """Each model judged on the held-out samples; the same, whatever others are judged with it."""
        ...


# What a participant must not lose


@dataclass(frozen=True, slots=True)
class SealedUpdate:
    """An update behind an open commitment."""

    digest: Digest
    salt: Digest
    root: Digest
    cid: Digest
    samples: int
    update: Vector


@dataclass(frozen=True, slots=True)
class SealedScores:
    """Scores behind an open commitment."""

    digest: Digest
    salt: Digest
    scores: bytes


class Journal(Protocol):
    """Keeps what is committed to until it is revealed: written before the commitment is sent, safe from a crash."""

    def update(self, round_: int) -> SealedUpdate | None:
        """What was sealed for this round, if anything."""
        ...

    def keep_update(self, round_: int, sealed: SealedUpdate) -> None:
        """Write it down for good."""
        ...

    def scores(self, round_: int) -> Sequence[SealedScores]:
        """What was sealed for this round: nothing, one, or more where a reorg changed what there was to judge."""
        ...

    def keep_scores(self, round_: int, sealed: SealedScores) -> None:
        """Write it down for good."""
        ...

    def forget_before(self, round_: int) -> None:
        """Delete rounds that are over."""
        ...

    def salt(self, round_: int, phase: Phase) -> Digest:
        """A fresh secret of 32 bytes."""
        ...
