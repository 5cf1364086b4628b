"""Ledger, BlobStore and Journal in memory: the real rules and the real records, with nothing outside the process."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from chainfl.codec.cid import Cid, Codec, Octets
from chainfl.codec.commitments import keccak256
from chainfl.codec.header import encode_header
from chainfl.errors import BlobNotFoundError, BlobTooLargeError
from chainfl.ports import SealedScores, SealedUpdate
from chainfl.protocol.admission import Admission
from chainfl.protocol.proof import Evidence
from chainfl.protocol.state import Call, Task
from chainfl.protocol.world import World
from chainfl.types import Address, Digest, Id, Phase


@dataclass(slots=True)
class Chain:
    """A world of contracts with a clock. Every transaction gets a block of its own; blocks follow from a seed."""

    world: World
    seed: Digest
    now: int = 1_700_000_000
    block_number: int = 1
    known_seeds: dict[int, Digest] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def call(self, sender: Address) -> Call:
        """The next transaction's context."""
        self.block_number += 1
        return Call(sender, self.now, self.block_number)

    def mix_hash(self, number: int) -> Digest:
        """A block's randomness, repeatable from the chain's seed."""
        return keccak256(self.seed + number.to_bytes(32, "big"))

    def header(self, number: int) -> bytes:
        """A block's header. Only its number and its randomness say something here."""
        return encode_header(number, self.mix_hash(number))


@dataclass(frozen=True, slots=True)
class MemoryLedger:
    """One task on a chain in memory, as one account sees it."""

    chain: Chain
    address: Address
    me: Address
    operator: Address | None = None

    @property
    def key(self) -> Address:
        """Who sends: the account itself, or its operator."""
        return self.operator or self.me

    def task(self) -> Task:
        """The task as it stands."""
        return self.chain.world.tasks[self.address]

    def now(self) -> int:
        """The chain's clock."""
        return self.chain.now

    def can_draw(self) -> bool:
        """Whether the draw is open: blocks that it waits for are made on demand."""
        return self.task().round.draw_block != 0

    def enrol(self, admission: Admission | None = None) -> None:
        """Take part from the next draw on."""
        with self.chain.lock:
            if admission is not None:
                self.chain.world.enrol_admitted(self._call(), self.address, self.me, admission)
            elif self.operator is None:
                self.chain.world.enrol(self._call(), self.address)
            else:
                self.chain.world.enrol_for(self._call(), self.address, self.me)

    def leave(self) -> None:
        """Take no part in later draws."""
        with self.chain.lock:
            self.chain.world.leave(self._call(), self.address)

    def apply_change(self, account: Address) -> None:
        """Bring an account's weight in line with its stake and wish."""
        with self.chain.lock:
            self.chain.world.apply_change(self._call(), self.address, account)

    def note_absent(self, round_: int, ids: Sequence[Id]) -> None:
        """Note who was drawn to train and did not commit in time."""
        with self.chain.lock:
            self.chain.world.note_absent(self._call(), self.address, round_, ids)

    def draw(self) -> None:
        """Draw the roles of the round, from a known seed when a chain's run is played again."""
        with self.chain.lock:
            chain = self.chain
            round_ = self.task().round
            # Nobody else makes blocks here: the one that seeds the draw is made now.
            chain.block_number = max(chain.block_number, round_.draw_block)
            known = chain.known_seeds.get(round_.number)
            if known is not None:
                chain.world.draw_seeded(self._call(), self.address, known)
            else:
                header = chain.header(round_.draw_block)
                chain.world.draw(self._call(), self.address, header, keccak256(header))

    def advance(self, round_: int) -> None:
        """Leave a phase that is over."""
        with self.chain.lock:
            self.chain.world.advance(self._call(), self.address, round_)

    def tally(self, round_: int, vectors: Sequence[bytes]) -> None:
        """Turn the revealed scores into shares."""
        with self.chain.lock:
            self.chain.world.tally(self._call(), self.address, round_, vectors)

    def commit_update(self, round_: int, digest: Digest) -> None:
        """Commit to an update."""
        with self.chain.lock:
            self.chain.world.commit_update(self._call(), self.address, round_, digest)

    def reveal_update(self, round_: int, root: Digest, cid: Digest, samples: int, salt: Digest) -> None:
        """Open the commitment to an update."""
        with self.chain.lock:
            self.chain.world.reveal_update(self._call(), self.address, round_, root, cid, samples, salt)

    def commit_scores(self, round_: int, digest: Digest) -> None:
        """Commit to scores."""
        with self.chain.lock:
            self.chain.world.commit_scores(self._call(), self.address, round_, digest)

    def reveal_scores(self, round_: int, scores: bytes, salt: Digest) -> None:
        """Open the commitment to scores."""
        with self.chain.lock:
            self.chain.world.reveal_scores(self._call(), self.address, round_, scores, salt)

    def propose(
        self, round_: int, attempt: int, model_root: Digest, block: Digest, shares: Sequence[int]
    ) -> None:
        """Post the next model."""
        with self.chain.lock:
            self.chain.world.propose(self._call(), self.address, round_, attempt, model_root, block, shares)

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
        with self.chain.lock:
            named = (model_root, block, shares_digest)
            self.chain.world.vote(self._call(), self.address, round_, attempt, *named, attests)

    def note_finding(self, note: Digest) -> None:
        """Seal a finding before showing it."""
        with self.chain.lock:
            self.chain.world.note_finding(self._call(), self.address, note)

    def prove(self, round_: int, attempt: int, position: int, evidence: Evidence, salt: Digest) -> None:
        """Show one wrong parameter of the standing proposal."""
        with self.chain.lock:
            self.chain.world.prove(self._call(), self.address, round_, attempt, position, evidence, salt)

    def claim(self, rounds: Sequence[int]) -> int:
        """Pull what the account earned."""
        with self.chain.lock:
            return self.chain.world.claim(self._call(), self.address, rounds)

    def _call(self) -> Call:
        return self.chain.call(self.key)


class MemoryStore:
    """Blobs in a dictionary, named by their content. A store of its own process needs no check on reading."""

    def __init__(self) -> None:
        """Start empty."""
        self._blobs: dict[Cid, bytes] = {}

    def put(self, data: Octets, codec: Codec) -> Cid:
        """Keep these bytes and name them."""
        cid = Cid.of(data, codec)
        self._blobs.setdefault(cid, bytes(data))
        return cid

    def put_many(self, blobs: Iterable[tuple[Octets, Codec]]) -> Iterator[Cid]:
        """Put one after the other."""
        return (self.put(data, codec) for data, codec in blobs)

    def get(self, cid: Cid, max_bytes: int) -> bytes:
        """The bytes of this name."""
        data = self._blobs.get(cid)
        if data is None:
            raise BlobNotFoundError(f"{cid}: these bytes were never stored")
        if len(data) > max_bytes:
            raise BlobTooLargeError(f"{cid}: {len(data)} bytes, at most {max_bytes} are allowed")
        return data

    def get_many(self, cids: Iterable[Cid], max_bytes: int) -> Iterator[bytes]:
        """Get one after the other."""
        return (self.get(cid, max_bytes) for cid in cids)

    def has(self, cid: Cid) -> bool:
        """Whether the bytes are here now."""
        return cid in self._blobs

    def pin(self, cid: Cid, *, with_links: bool = True) -> None:
        """Everything is kept anyway; only what is not there is refused."""
        del with_links
        self.get(cid, 2**62)

    def unpin(self, cid: Cid) -> None:
        """Everything is kept anyway."""


@dataclass(slots=True)
class MemoryJournal:
    """Sealed updates and scores in a dictionary; salts come from a seed, so that a run can be repeated."""

    seed: Digest
    updates: dict[int, SealedUpdate] = field(default_factory=dict)
    sealed_scores: dict[int, list[SealedScores]] = field(default_factory=dict)

    def update(self, round_: int) -> SealedUpdate | None:
        """What was sealed for this round, if anything."""
        return self.updates.get(round_)

    def keep_update(self, round_: int, sealed: SealedUpdate) -> None:
        """Write it down."""
        self.updates[round_] = sealed

    def scores(self, round_: int) -> Sequence[SealedScores]:
        """What was sealed for this round."""
        return self.sealed_scores.get(round_, ())

    def keep_scores(self, round_: int, sealed: SealedScores) -> None:
        """Write it down."""
        self.sealed_scores.setdefault(round_, []).append(sealed)

    def forget_before(self, round_: int) -> None:
        """Delete rounds that are over."""
        for kept in (self.updates, self.sealed_scores):
            for number in [n for n in kept if n < round_]:
                del kept[number]

    def salt(self, round_: int, phase: Phase) -> Digest:
        """A repeatable salt."""
        return keccak256(self.seed + round_.to_bytes(32, "big") + phase.to_bytes(32, "big"))
