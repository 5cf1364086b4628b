"""Audits without a network: write a task's evidence and blobs to one file; redo its rounds from that file alone."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from chainfl.audit import evidence
from chainfl.audit.bundle import Bundle, BundleWriter, Subject, begin_bundle, open_bundle
from chainfl.audit.evidence import ProvenChain
from chainfl.audit.history import PlayedRound, rounds
from chainfl.audit.walk import Taker, walk_round
from chainfl.chain.abi import decode_log
from chainfl.chain.code import Contracts, contracts_of
from chainfl.codec import car
from chainfl.codec.cid import Cid
from chainfl.codec.text import hex_of
from chainfl.errors import (
    BlobNotFoundError,
    BlobTooLargeError,
    BundleError,
    InputError,
    LedgerError,
    VerificationError,
)
from chainfl.limits import DEFAULT_LIMITS, Limits
from chainfl.ports import BlobStore, LoggedEvent
from chainfl.protocol.events import TaskCreated
from chainfl.protocol.state import new_task
from chainfl.types import Address, Digest, OnProgress
from chainfl.workflows.audit import AuditedRound, audit_round

if TYPE_CHECKING:
    from web3 import Web3


@dataclass(frozen=True, slots=True)
class ExportedBundle:
    """A bundle that was written: what it is about, and how much it holds."""

    subject: Subject
    rounds: tuple[int, ...]
    headers: int
    receipts: int
    blobs: int
    missing: tuple[Cid, ...]
    size: int


@dataclass(frozen=True, slots=True)
class BundleAudit:
    """What a bundle proves: the contracts behind the task, and its rounds with what their checks found."""

    subject: Subject
    contracts: Contracts
    rounds: tuple[AuditedRound, ...]


@dataclass(frozen=True, slots=True)
class ProvenTask:
    """A task as a trusted block proves it: nothing here rests on an unproven statement."""

    chain: ProvenChain
    contracts: Contracts
    rounds: tuple[PlayedRound, ...]


def export_bundle(
    w3: "Web3",
    chain_id: int,
    task: Address,
    store: BlobStore,
    out: Path,
    *,
    from_block: int = 0,
    number: int | None = None,
    block: int | None = None,
    on_progress: OnProgress = lambda _: None,
) -> ExportedBundle:
    """Write everything that an audit of the settled rounds (or of one) needs, as of a block (the newest) of the chain.

    Raises:
        LedgerError: the endpoint lacks something, or its answers contradict each other; run again after a reorg.
        StoreError: the store fails (blobs that nobody has are listed as missing), or the file cannot be written.
        InputError: the round is not settled.
        VerificationError: the contracts are not this release's.
    """
    from chainfl.chain import evidence as endpoint

    place = endpoint.place_of(w3, block)
    code_of = cache(lambda at: endpoint.read_code(w3, at, place.number))
    contracts = contracts_of(task, code_of)
    on_progress(f"block {place.number} {hex_of(place.hash)}: contracts are this release's")
    # First of all, for a node soon forgets the state of a block.
    proofs = [
        endpoint.prove_account(w3, at, code_of(at), place.number) for at in contracts.addresses.values()
    ]

    # The first header of the bundle: no event of the task can lie before it.
    created = endpoint.creation_block(w3, contracts.factory, task, from_block, place.number)
    subject = Subject(
        chain_id, task, contracts.factory, contracts.made.registry, created, place.number, place.hash, number
    )
    with begin_bundle(out) as writer:
        with _endpoint_to_blame():
            counted = _counted(
                endpoint.headers(w3, created, place.number), place.number - created + 1, on_progress
            )
            chain = _follow(subject, writer.keep("headers", counted))
            evidence.read_accounts(writer.keep("accounts", proofs), chain.state_root)
            wanted = [(header.number, header.receipts_root) for header in chain.with_events]
            proven = _history(
                subject, chain, contracts, writer.keep("receipts", endpoint.receipts(w3, wanted))
            )
        on_progress(f"{len(wanted)} blocks with receipts, {len(proven.rounds)} rounds")

        # The history is always whole, because each round starts from the one before; only the blobs are of the chosen
        # rounds.
        chosen = _chosen(proven.rounds, number)
        collector = _Collector(store, writer)
        _walk(contracts, chosen, collector, on_progress)

        # The file gets its name only after it was read back and proven as an auditor would.
        size = writer.finish(subject, lambda draft: _recheck(draft, place.hash))
    headers = place.number - created + 1
    numbers = tuple(played.number for played in chosen)
    blobs = writer.counts()["blobs"]
    return ExportedBundle(subject, numbers, headers, len(wanted), blobs, tuple(collector.missing), size)


def verify_bundle(
    path: Path,
    block_hash: Digest,
    task: Address | None = None,
    number: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> BundleAudit:
    """Redo the rounds of a bundle, trusting nothing but the hash of one block; no network is used.

    Raises:
        BundleError: the bundle is damaged, or does not prove what it claims against this hash; says where.
        InputError: there is no such file, or it does not hold what is asked for.
        ModelTooLargeError: its models are larger than is allowed here.
    """
    with open_bundle(path) as bundle:
        subject = bundle.subject
        if task is not None and subject.task != task:
            raise BundleError(f"the bundle is about task {hex_of(subject.task)}, not {hex_of(task)}")
        if number is not None and subject.round not in (None, number):
            raise InputError(f"the bundle holds round {subject.round} only, not round {number}")

        # Evidence first: blobs are judged by a history that follows from the trusted hash.
        proven = prove_task(bundle, block_hash)
        check_blobs(bundle, proven)
        store = bundle.store()
        mix_hash = proven.chain.mix_hash
        chosen = _chosen(proven.rounds, subject.round if number is None else number)
        audited = tuple(audit_round(played, store, mix_hash, limits) for played in chosen)
    return BundleAudit(subject, proven.contracts, audited)


def prove_task(bundle: Bundle, block_hash: Digest) -> ProvenTask:
    """Follow the evidence of a bundle from a trusted block to the task's contracts and all its events.

    Raises:
        BundleError: names the header, account or receipts that do not add up.
    """
    subject = bundle.subject
    if subject.hash != block_hash:
        raise BundleError(f"the bundle rests on block {hex_of(subject.hash)}, not on {hex_of(block_hash)}")

    # 1. Headers, each the parent of the next, up to the trusted hash.
    chain = _follow(subject, bundle.items("headers", evidence.MAX_HEADER_BYTES))

    # 2. Code of the contracts, proven against that block's state root.
    codes = evidence.read_accounts(bundle.items("accounts", evidence.MAX_ACCOUNT_BYTES), chain.state_root)
    try:
        contracts = contracts_of(subject.task, lambda at: codes.get(at, b""))
    except VerificationError as error:
        raise BundleError(f"contracts: {error}") from error
    _expect_contracts(subject, contracts, set(codes))

    # 3. All receipts of the blocks that may hold events, and the events in them.
    return _history(subject, chain, contracts, bundle.items("receipts", evidence.MAX_RECEIPTS_BYTES))


def check_blobs(bundle: Bundle, proven: ProvenTask) -> None:
    """Every blob that the rounds need is in the bundle or listed as missing, and no other is.

    Raises:
        BundleError: names a blob that is not needed or not listed.
    """
    needed = _Needed(bundle.store())
    try:
        chosen = _chosen(proven.rounds, bundle.subject.round)
    except InputError as error:
        raise BundleError(f"root: {error}") from error

    _walk(proven.contracts, chosen, needed)

    # Both ways: an extra blob could carry anything, and a silent gap would pass for "data unavailable".
    held = {block.cid for block in bundle.blocks["blobs"]}
    for cids, why in (
        ((held | bundle.missing) - needed.cids, "no round needs it"),
        (
            needed.cids - held - bundle.missing,
            "a round needs it, but it is neither there nor listed as missing",
        ),
    ):
        if cids:
            raise BundleError(f"blob {min(cids)}: {why}")


def _follow(subject: Subject, headers: Iterator[bytes]) -> ProvenChain:
    return evidence.follow_headers(headers, subject.task, subject.created, subject.block, subject.hash)


def _history(
    subject: Subject, chain: ProvenChain, contracts: Contracts, receipts: Iterator[bytes]
) -> ProvenTask:
    created, log = evidence.read_history(chain, receipts, subject.task, contracts.factory, decode_log)
    return ProvenTask(chain, contracts, _rounds(subject, contracts, created, log))


def _rounds(
    subject: Subject, contracts: Contracts, created: TaskCreated, log: Sequence[LoggedEvent]
) -> tuple[PlayedRound, ...]:
    made = contracts.made
    task = new_task(
        subject.chain,
        subject.task,
        made.task_id,
        made.sponsor,
        made.config,
        created.escrow,
        made.seed_delay,
    )
    return tuple(rounds(task, log))


def _chosen(played: Sequence[PlayedRound], number: int | None) -> list[PlayedRound]:
    """The settled rounds, or the one that is asked for."""
    settled = [each for each in played if each.ended is not None]
    if number is None:
        return settled
    chosen = [each for each in settled if each.number == number]
    if not chosen:
        raise InputError(f"round {number} of this task is not settled; {len(settled)} rounds are")
    return chosen


def _walk(
    contracts: Contracts, chosen: Sequence[PlayedRound], take: Taker, on_progress: OnProgress = lambda _: None
) -> None:
    take.record(Cid.dag_cbor(contracts.made.config.manifest))
    for played in chosen:
        walk_round(played, take)
        on_progress(f"round {played.number}: blobs taken")


class _Collector:
    """Fetches blobs from a store and writes them into a bundle."""

    def __init__(self, store: BlobStore, writer: BundleWriter) -> None:
        self._store = store
        self._writer = writer
        self.missing: dict[Cid, None] = {}

    def record(self, cid: Cid) -> bytes | None:
        if cid in self.missing:
            return None
        return self._take(cid)

    def chunks(self, model: Cid, chunks: Sequence[Cid]) -> None:
        if all(map(self._writer.has, chunks)):
            return
        with suppress(BlobNotFoundError):
            self._store.pin(model)  # a daemon fetches a whole model much faster than block by block
        for chunk in chunks:
            if not self._writer.has(chunk):
                self._take(chunk)

    def _take(self, cid: Cid) -> bytes | None:
        try:
            data = self._store.get(cid, car.MAX_BLOCK_BYTES)
        except (BlobNotFoundError, BlobTooLargeError):
            data = None
            self.missing[cid] = None

        # Listed as missing in its place, so that an auditor can tell a gap from a file that was cut.
        self._writer.add_blob(cid, data)
        return data


@dataclass(frozen=True, slots=True)
class _Needed:
    """Notes which blobs the rounds need."""

    store: BlobStore
    cids: set[Cid] = field(default_factory=set)

    def record(self, cid: Cid) -> bytes | None:
        self.cids.add(cid)
        return self.store.get(cid, car.MAX_BLOCK_BYTES) if self.store.has(cid) else None

    def chunks(self, model: Cid, chunks: Sequence[Cid]) -> None:
        del model
        self.cids.update(chunks)


def _recheck(draft: Path, block_hash: Digest) -> None:
    """What was written is read again as an auditor will, before it gets its name."""
    with open_bundle(draft) as bundle:
        check_blobs(bundle, prove_task(bundle, block_hash))


def _expect_contracts(subject: Subject, contracts: Contracts, proven: set[Address]) -> None:
    counted = {
        "factory": (subject.factory, contracts.factory),
        "registry": (subject.registry, contracts.made.registry),
    }
    for name, (found, expected) in counted.items():
        if found != expected:
            raise BundleError(f"root: {name} is {hex_of(found)}, the contracts say {hex_of(expected)}")

    # Accounts that nothing needs would be a place to hide bytes in.
    unneeded = proven - set(contracts.addresses.values())
    if unneeded:
        raise BundleError(f"account {hex_of(min(unneeded))}: it has no part in the task")


def _counted(headers: Iterator[bytes], total: int, on_progress: OnProgress) -> Iterator[bytes]:
    for count, header in enumerate(headers, 1):
        yield header
        if count % 1000 == 0 or count == total:
            on_progress(f"headers: {count} of {total}")


@contextmanager
def _endpoint_to_blame() -> Iterator[None]:
    """While evidence is read off an endpoint, what does not add up is the endpoint's or a reorg's doing."""
    try:
        yield
    except BundleError as error:
        raise LedgerError(
            f"what the endpoint answers is inconsistent: {error}; was there a reorg? run again"
        ) from error
