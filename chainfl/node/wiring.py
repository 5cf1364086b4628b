"""From settings to a participant: connect, unlock, check the task, load the data."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chainfl.blobs import get_manifest, get_model
from chainfl.chain.abi import as_address
from chainfl.chain.fees import FeeCaps
from chainfl.chain.keys import LocalSigner, exposed, open_keystore
from chainfl.chain.ledger import ChainLedger
from chainfl.chain.quorum import open_endpoints, open_reader
from chainfl.chain.send import Sender, SendSettings
from chainfl.codec.cid import Cid
from chainfl.codec.manifest import AnyManifest
from chainfl.codec.vector import Vector
from chainfl.errors import InputError, VerificationError
from chainfl.execution import included_internals, shares_by_weights
from chainfl.limits import DEFAULT_LIMITS, Limits, check_size
from chainfl.node.journal import SqliteJournal
from chainfl.node.privacy import NOTE, private
from chainfl.node.scheduling import take_long_turns
from chainfl.node.settings import NodeSettings
from chainfl.node.status import Status
from chainfl.ports import BlobStore, Ledger, Trainer
from chainfl.protocol.admission import Admission
from chainfl.protocol.errors import NotOperatorError, OperatorInUseError, StakeTooLowError
from chainfl.protocol.state import Task
from chainfl.protocol.varsel import WHOLE
from chainfl.roles.miner import Alter, Reweigh
from chainfl.roles.participant import Participant
from chainfl.store.address import open_store
from chainfl.store.pin_book import SqlitePinBook
from chainfl.store.pins import RecordingStore
from chainfl.types import Rule
from chainfl.workflows.admission import find_admission

if TYPE_CHECKING:
    from chainfl.learning.app import App

_log = logging.getLogger(__name__)

READY = "ready"
"""A file in a node's home: it is wired, and about to take part."""


@dataclass(frozen=True, slots=True)
class Node:
    """A participant and what its process needs besides."""

    participant: Participant
    ledger: ChainLedger
    alter: Callable[[Task], Alter | None]
    let_go: Callable[[Task], int] = lambda _: 0
    """Unpins what no later round needs; answers how many pins went."""
    record: Callable[[int, Mapping[str, object]], None] = lambda _round, _facts: None
    """Shows a settled round to the tracker."""


def open_key(settings: NodeSettings) -> LocalSigner:
    """The participant's key."""
    signer = open_keystore(settings.keystore, settings.password_file)
    warning = exposed(settings.password_file, settings.keystore)
    if warning is not None:
        _log.warning("%s", warning)
    return signer


def open_ledger(settings: NodeSettings, signer: LocalSigner) -> ChainLedger:
    """Connect to the task on the chain that is meant."""
    endpoints = open_endpoints(settings.rpc_url, settings.chain_id)
    task = as_address(settings.task)

    # An endpoint advises fees; the caps are the operator's and hold whatever it says.
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
    owner = as_address(settings.owner) if settings.owner else None
    return ChainLedger(endpoints.w3, sender, reader, task, owner)


def check_task(store: BlobStore, task: Task, limits: Limits = DEFAULT_LIMITS) -> tuple[AnyManifest, Vector]:
    """The task's manifest and first model, once they fit the config and the model's bytes have the promised root.

    Raises:
        ModelTooLargeError: the task is too large for this node; nothing was fetched.
        VerificationError: the sponsor promises one thing and stored another; take no part.
    """
    # Before the first byte: a small record can promise a model that fills any memory.
    check_size(task.config, limits)

    manifest = get_manifest(store, task.config.manifest)
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
    manifest: AnyManifest
    first: Vector
    app: "App | None" = None
    """The task's app, where the operator brought it."""


def connect(settings: NodeSettings, signer: LocalSigner) -> Connections:
    """Open chain, store and journal, and check what the sponsor promised before committing to anything.

    Raises:
        OutsideError, VerificationError: chain, store or manifest fail; a later try may succeed.
        InputError: a setting is wrong.
    """
    from chainfl.node.learning import check_manifest, open_app

    store = open_store(settings.store)
    ledger = open_ledger(settings, signer)
    task = ledger.task()

    # The sponsor is not trusted: what it stored must fit what it promised on chain.
    manifest, first_D = check_task(store, task, settings.limits)
    app = open_app(settings, manifest)
    check_manifest(manifest, app)

    # Named by chain, task and account, so that one home serves several of each without mixing their secrets.
    journal = SqliteJournal(settings.home / "journal.sqlite", task.chain_id, task.address, signer.address)
    book = SqlitePinBook(settings.home / "pins.sqlite", task.chain_id, task.address, signer.address)
    recording = RecordingStore(store, book, lambda: ledger.reader.task.round.number, settings.rounds_kept)
    return Connections(ledger, recording, journal, manifest, first_D, app)


def build_node(settings: NodeSettings, connections: Connections, status: Status | None = None) -> Node:
    """A participant with its own data, once a rehearsal has shown that it can do what the task asks."""
    from chainfl.node.learning import build_trainer, ended_in_time, rehearse

    config = connections.ledger.task().config
    trainer = build_trainer(settings, connections.manifest, connections.app)
    take_long_turns()

    # What does not fit is refused here, before stake depends on it.
    rehearse(trainer, connections.first, config)

    # A replay gives the same bits only with as many threads.
    threads = getattr(trainer, "threads", None) or 1
    connections.journal.note("threads", str(threads))
    trainer = _protected(settings, connections, ended_in_time(trainer, connections.ledger), status)

    participant = Participant(connections.ledger, connections.store, trainer, connections.journal)

    # Written after the rehearsal: scripts and the devnet wait for it.
    (settings.home / READY).touch()
    if settings.enrol:
        enrol_once(connections.ledger, lambda task: _admission(settings, connections, task))

    task = connections.ledger.task()
    account = task.accounts.get(connections.ledger.me)
    _log.info(
        "round %d: ready as 0x%s with %d samples%s; %s",
        task.round.number,
        connections.ledger.me.hex(),
        trainer.samples,
        f" and {threads} threads, app {connections.app.name}" if connections.app is not None else "",
        f"enrolled as {account.id}"
        if account is not None and account.is_enrolled
        else "not enrolled: run with --enrol, or chainfl stake add AMOUNT --enrol",
    )

    return Node(
        participant,
        connections.ledger,
        lambda task: _lie(settings, task),
        connections.store.let_go,
    )


def _admission(settings: NodeSettings, connections: Connections, task: Task) -> Admission | None:
    return find_admission(
        task, connections.ledger.me, settings.admission, connections.store, connections.manifest
    )


def _protected(
    settings: NodeSettings, connections: Connections, trainer: Trainer, status: Status | None
) -> Trainer:
    """The trainer under `--dp`; without it as it is, with a warning where earlier updates were private."""
    if settings.dp is not None:
        return private(trainer, settings.dp, connections.journal, (status or Status()).spent)
    if connections.journal.noted(NOTE) is not None:
        _log.warning("earlier updates of this key were private (--dp): from now on they are not")
    return trainer


def enrol_once(ledger: Ledger, admission: Callable[[Task], Admission | None] = lambda _: None) -> None:
    """Enrol, unless the account takes part already; an operator accepts to act for its owner.

    Raises:
        InputError: there is too little stake behind the key, or its owner has not named it.
    """
    task = ledger.task()
    account = task.accounts.get(ledger.me)
    is_accepted = ledger.key in (ledger.me, task.operator_of.get(ledger.me))
    if account is not None and account.is_enrolled and is_accepted:
        return

    # The ledger decides; its refusals are put into words that name the next command.
    try:
        ledger.enrol(admission(task))
    except StakeTooLowError as error:
        raise InputError(f"cannot enrol: {error}; add to it with: chainfl stake add AMOUNT") from None
    except (NotOperatorError, OperatorInUseError) as error:
        raise InputError(f"cannot enrol for 0x{ledger.me.hex()}: {error}") from None


def _lie(settings: NodeSettings, task: Task) -> Alter | None:
    """What a first proposer does that is set to lie in this round: a parameter too high, or weights of its own."""
    if settings.lie_in_round != task.round.number or task.round.attempt != 1:
        return None
    if task.config.rule is Rule.VARSEL:
        return Reweigh(_all_alike)

    def alter(model_D: Vector) -> Vector:
        wrong = model_D.copy()
        wrong[len(wrong) // 2] += 1
        return wrong

    return alter


def _all_alike(task: Task) -> tuple[int, ...]:
    """VaRSeL's shares if every outsider were as good as an internal, as far as the budget goes."""
    left = task.config.budget
    weights_K = []
    for is_internal in included_internals(task):
        weights_K.append(WHOLE if is_internal or left > 0 else 0)
        left -= not is_internal
    return shares_by_weights(task, weights_K)
