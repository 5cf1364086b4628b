"""From settings to a participant: connect, unlock, check the task, load the data."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chainfl.blobs import get_model, get_record
from chainfl.chain.keys import LocalSigner, unlock
from chainfl.chain.ledger import ChainLedger
from chainfl.chain.reader import TaskReader, as_address
from chainfl.chain.rpc import check_chain, open_rpc
from chainfl.chain.send import Sender, SendSettings
from chainfl.codec.cid import Cid
from chainfl.codec.records import Manifest
from chainfl.codec.vector import Vector
from chainfl.errors import InputError, VerificationError
from chainfl.ports import BlobStore
from chainfl.protocol.state import Task
from chainfl.roles.miner import Alter
from chainfl.roles.participant import Participant
from chainfl.store.address import open_store
from chainfl.store.journal import SqliteJournal
from services.node.settings import NodeSettings

_log = logging.getLogger(__name__)

READY = "ready"
"""A file in a node's home that says: wired, and about to take part."""


@dataclass(frozen=True, slots=True)
class Node:
    """A participant and what its process needs besides."""

    participant: Participant
    ledger: ChainLedger
    alter: Callable[[int, int], Alter | None]


def read_password(path: Path | None) -> str:
    """The first line of a password file, or what is typed."""
    if path is None:
        import getpass

        return getpass.getpass("keystore password: ")
    try:
        return path.read_text(encoding="utf-8").splitlines()[0]
    except OSError as error:
        raise InputError(f"password file {path}: {error.strerror}") from None
    except IndexError:
        raise InputError(f"password file {path} is empty") from None


def open_key(settings: NodeSettings) -> LocalSigner:
    """The participant's key."""
    return unlock(settings.keystore, read_password(settings.password_file))


def open_ledger(settings: NodeSettings, signer: LocalSigner) -> ChainLedger:
    """Connect to the task on the chain that is meant."""
    w3 = open_rpc(settings.rpc_url)
    chain_id = check_chain(w3, settings.chain_id)
    task = as_address(settings.task)
    sender = Sender(w3, signer, chain_id, SendSettings(confirmations=settings.confirmations))
    reader = TaskReader(w3, task, chain_id, settings.from_block, settings.confirmations)
    return ChainLedger(w3, sender, reader, task)


def check_task(store: BlobStore, task: Task) -> tuple[Manifest, Vector]:
    """The task's manifest and first model, once they fit the config and the model's bytes have the promised root.

    Raises:
        VerificationError: the sponsor promises one thing and stored another; take no part.
    """
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
class Met:
    """A task and its neighbours, found to be what they promise."""

    ledger: ChainLedger
    store: BlobStore
    journal: SqliteJournal
    manifest: Manifest
    first: Vector


def meet(settings: NodeSettings, signer: LocalSigner) -> Met:
    """Open chain, store and journal, and check what the sponsor promised before committing to anything.

    Raises:
        OutsideError, VerificationError: somebody else is away or wrong; the same may be right later.
        InputError: a setting is wrong.
    """
    from services.node.learning import check_manifest

    store, ledger = open_store(settings.store), open_ledger(settings, signer)
    task = ledger.task()
    manifest, first_D = check_task(store, task)
    check_manifest(manifest)
    journal = SqliteJournal(settings.home / "journal.sqlite", task.chain_id, task.address, signer.address)
    return Met(ledger, store, journal, manifest, first_D)


def build_node(settings: NodeSettings, met: Met) -> Node:
    """A participant with its own data, once a rehearsal has shown that it can do what the task asks."""
    from services.node.learning import build_trainer, rehearse

    config = met.ledger.task().config
    trainer = build_trainer(settings, met.manifest)
    rehearse(trainer, met.first, config)
    participant = Participant(met.ledger, met.store, trainer, met.journal)
    (settings.home / READY).touch()
    task = met.ledger.task()
    account = task.accounts.get(met.ledger.me)
    _log.info(
        "round %d: ready as 0x%s with %d samples; %s",
        task.round.number,
        met.ledger.me.hex(),
        trainer.samples,
        f"enrolled as {account.id}"
        if account is not None
        else "not enrolled: chainfl stake add AMOUNT --enrol",
    )
    return Node(participant, met.ledger, lambda round_, attempt: _lie(settings, round_, attempt))


def _lie(settings: NodeSettings, round_: int, attempt: int) -> Alter | None:
    """What a first proposer does when it is told to lie in this round: one parameter, one step too high."""
    if settings.lie_in_round != round_ or attempt != 1:
        return None

    def alter(model_D: Vector) -> Vector:
        wrong = model_D.copy()
        wrong[len(wrong) // 2] += 1
        return wrong

    return alter
