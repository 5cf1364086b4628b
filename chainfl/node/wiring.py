"""From settings to a participant: connect, unlock, check the task, load the data."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from chainfl.blobs import get_model, get_record
from chainfl.chain.abi import as_address
from chainfl.chain.fees import FeeCaps
from chainfl.chain.keys import LocalSigner, read_password, unlock
from chainfl.chain.ledger import ChainLedger
from chainfl.chain.quorum import open_endpoints, open_reader
from chainfl.chain.send import Sender, SendSettings
from chainfl.codec.cid import Cid
from chainfl.codec.records import Manifest
from chainfl.codec.vector import Vector
from chainfl.errors import InputError, VerificationError
from chainfl.limits import DEFAULT_LIMITS, Limits, check_size
from chainfl.node.journal import SqliteJournal
from chainfl.node.scheduling import take_long_turns
from chainfl.node.settings import NodeSettings
from chainfl.ports import BlobStore, Ledger
from chainfl.protocol.errors import StakeTooLowError
from chainfl.protocol.state import Task
from chainfl.roles.miner import Alter
from chainfl.roles.participant import Participant
from chainfl.store.address import open_store
from chainfl.store.pin_book import SqlitePinBook
from chainfl.store.pins import RecordingStore

_log = logging.getLogger(__name__)

READY = "ready"
"""A file in a node's home that says: wired, and about to take part."""


@dataclass(frozen=True, slots=True)
class Node:
    """A participant and what its process needs besides."""

    participant: Participant
    ledger: ChainLedger
    alter: Callable[[int, int], Alter | None]
    let_go: Callable[[Task], int] = lambda _: 0
    """Unpins what no later round needs; answers how many pins went."""


def open_key(settings: NodeSettings) -> LocalSigner:
    """The participant's key."""
    return unlock(settings.keystore, read_password(settings.password_file))


def open_ledger(settings: NodeSettings, signer: LocalSigner) -> ChainLedger:
    """Connect to the task on the chain that is meant."""
    endpoints = open_endpoints(settings.rpc_url, settings.chain_id)
    task = as_address(settings.task)
    caps = FeeCaps.of_gwei(settings.max_fee, settings.max_priority_fee)
    costs = SendSettings(confirmations=settings.confirmations, caps=caps)
    sender = Sender(endpoints.w3, signer, endpoints.chain_id, costs, endpoints.others)
    reader = open_reader(
        endpoints,
        task,
        settings.from_block,
        settings.confirmations,
        on_progress=lambda text: _log.info("%s", text),
    )
    return ChainLedger(endpoints.w3, sender, reader, task)


def check_task(store: BlobStore, task: Task, limits: Limits = DEFAULT_LIMITS) -> tuple[Manifest, Vector]:
    """The task's manifest and first model, once they fit the config and the model's bytes have the promised root.

    Raises:
        ModelTooLargeError: the task is too large for this node; nothing was fetched.
        VerificationError: the sponsor promises one thing and stored another; take no part.
    """
    check_size(task.config, limits)
    manifest = get_record(store, Cid.dag_cbor(task.config.manifest), Manifest)
    for what, promised, found in (
        ("scale", task.config.scale, manifest.s),
        ("dimension", task.config.dimension, manifest.layout.d),
    ):
        if promised != found:
            raise VerificationError(
                f"the task's {what} is {promised}, its manifest says {found}: take no part"
            )
    config = task.config
    first_D = get_model(
        store, Cid.dag_cbor(config.first_model), config.dimension, s=config.scale, root=config.first_root
    )
    return manifest, first_D


@dataclass(frozen=True, slots=True)
class Connections:
    """A task and its neighbours, found to be what they promise."""

    ledger: ChainLedger
    store: RecordingStore
    journal: SqliteJournal
    manifest: Manifest
    first: Vector


def connect(settings: NodeSettings, signer: LocalSigner) -> Connections:
    """Open chain, store and journal, and check what the sponsor promised before committing to anything.

    Raises:
        OutsideError, VerificationError: somebody else is away or wrong; the same may be right later.
        InputError: a setting is wrong.
    """
    from chainfl.node.learning import check_manifest

    store = open_store(settings.store)
    ledger = open_ledger(settings, signer)
    task = ledger.task()
    manifest, first_D = check_task(store, task, settings.limits)
    check_manifest(manifest)
    journal = SqliteJournal(settings.home / "journal.sqlite", task.chain_id, task.address, signer.address)
    book = SqlitePinBook(settings.home / "pins.sqlite", task.chain_id, task.address, signer.address)
    recording = RecordingStore(store, book, lambda: ledger.reader.task.round.number, settings.rounds_kept)
    return Connections(ledger, recording, journal, manifest, first_D)


def build_node(settings: NodeSettings, connections: Connections) -> Node:
    """A participant with its own data, once a rehearsal has shown that it can do what the task asks."""
    from chainfl.node.learning import build_trainer, rehearse

    config = connections.ledger.task().config
    trainer = build_trainer(settings, connections.manifest)
    take_long_turns()
    rehearse(trainer, connections.first, config)
    participant = Participant(connections.ledger, connections.store, trainer, connections.journal)
    (settings.home / READY).touch()
    if settings.enrol:
        enrol_once(connections.ledger)
    task = connections.ledger.task()
    account = task.accounts.get(connections.ledger.me)
    _log.info(
        "round %d: ready as 0x%s with %d samples; %s",
        task.round.number,
        connections.ledger.me.hex(),
        trainer.samples,
        f"enrolled as {account.id}"
        if account is not None and account.is_enrolled
        else "not enrolled: run with --enrol, or chainfl stake add AMOUNT --enrol",
    )
    return Node(
        participant,
        connections.ledger,
        lambda round_, attempt: _lie(settings, round_, attempt),
        connections.store.let_go,
    )


def enrol_once(ledger: Ledger) -> None:
    """Enrol, unless the account takes part already.

    Raises:
        InputError: there is too little stake behind the key.
    """
    account = ledger.task().accounts.get(ledger.me)
    if account is not None and account.is_enrolled:
        return
    try:
        ledger.enrol()
    except StakeTooLowError as error:
        raise InputError(f"cannot enrol: {error}; add to it with: chainfl stake add AMOUNT") from None


def _lie(settings: NodeSettings, round_: int, attempt: int) -> Alter | None:
    """What a first proposer does when it is told to lie in this round: one parameter, one step too high."""
    if settings.lie_in_round != round_ or attempt != 1:
        return None

    def alter(model_D: Vector) -> Vector:
        wrong = model_D.copy()
        wrong[len(wrong) // 2] += 1
        return wrong

    return alter
