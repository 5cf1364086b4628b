"""Models out of a task: exported with where they come from, and proven to be what they say they are."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import Any

from chainfl.audit import provenance
from chainfl.audit.bundle import open_bundle
from chainfl.audit.history import PlayedRound
from chainfl.audit.provenance import Origin, Statement
from chainfl.blobs import get_manifest, get_model, get_record
from chainfl.chain.keys import LocalSigner, signer_of
from chainfl.chain.reader import TaskReader
from chainfl.codec import merkle
from chainfl.codec.cid import Cid
from chainfl.codec.model_file import About, ModelFile, read_model_file, write_model_file
from chainfl.codec.records import BlockNode, Layout, ModelNode, Tensor
from chainfl.codec.text import hex_of
from chainfl.errors import (
    BlobNotFoundError,
    InputError,
    LedgerError,
    ModelFileError,
    ModelMismatchError,
    StoreError,
)
from chainfl.limits import DEFAULT_LIMITS, Limits, check_size
from chainfl.ports import BlobStore
from chainfl.protocol.state import Task
from chainfl.types import Digest, Outcome, TaskConfig
from chainfl.workflows.audit import played_rounds
from chainfl.workflows.bundle import prove_task

STATEMENT_SUFFIX = ".intoto.json"


@dataclass(frozen=True, slots=True)
class ExportedModel:
    """A model file and the statement about it, ready to be written."""

    data: bytes
    file: ModelFile
    statement: dict[str, Any]

    @property
    def statement_bytes(self) -> bytes:
        """The statement as its file holds it."""
        return (json.dumps(self.statement, indent=2, sort_keys=True) + "\n").encode()


@dataclass(frozen=True, slots=True)
class VerifiedModel:
    """A file whose parameters are what it says, who signed its statement, and what proves that it is the task's."""

    file: ModelFile
    statement: Statement | None
    proven_by: str | None


def final_round(rounds: Sequence[PlayedRound], number: int | None, head_root: Digest) -> PlayedRound | None:
    """The round whose model is wanted; without a number, the one that made the head. None is the first model.

    Raises:
        InputError: the round is not final, so it made no model.
    """
    final = {each.number: each for each in rounds if each.outcome is Outcome.FINAL}
    if number is None:
        made = [each for each in final.values() if root_of(each) == head_root]
        return made[-1] if made else None
    if number == 0:
        return None
    if number not in final:
        meant = ", ".join(map(str, final)) or "none yet"
        raise InputError(
            f"round {number} of this task made no model; final rounds: {meant}; --round 0 is the first model"
        )
    return final[number]


def root_of(played: PlayedRound) -> Digest:
    """The root of the model that a final round made."""
    return played.standing().round.posted.model_root


def export_model(
    reader: TaskReader,
    store: BlobStore,
    name: str,
    number: int | None = None,
    signer: LocalSigner | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> ExportedModel:
    """The model of a final round (the head's), rebuilt to its root, as a file with its statement.

    Raises:
        InputError: the round made no model.
        LedgerError, StoreError: chain or bytes are out of reach.
        VerificationError: the bytes are not the model that the chain names.
    """
    rounds = played_rounds(reader)
    task = reader.task
    played = final_round(rounds, number, task.head_root)
    return export_round(store, task, played, _settled_in(reader, played), name, signer, limits)


def export_round(
    store: BlobStore,
    task: Task,
    played: PlayedRound | None,
    settled_in: Digest | None,
    name: str,
    signer: LocalSigner | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> ExportedModel:
    """As `export_model`, of a final round that is read already (None: the first model) and its last block's hash.

    Raises:
        StoreError: bytes are out of reach.
        VerificationError: the bytes are not the model that the chain names.
    """
    check_size(task.config, limits, 1)

    # The task names its first model, every final round's record its own.
    root = task.config.first_root if played is None else root_of(played)
    cid = _model_cid(store, task, played)
    layout = layout_of(store, task.config)
    u_D = get_model(store, cid, task.config.dimension, s=task.config.scale, root=root)

    about = About(
        task.chain_id, task.address, 0 if played is None else played.number, root, task.config.scale
    )
    data = write_model_file(u_D, layout, about)
    file = ModelFile(u_D, layout, about)
    statement = provenance.statement_of(name, data, file, _origin(task, played, settled_in))
    if signer is not None:
        statement = provenance.envelope(statement, signer.address, signer.sign_message)
    return ExportedModel(data, file, statement)


def layout_of(store: BlobStore, config: TaskConfig) -> Layout:
    """How a task names its tensors: its manifest says so, else its first model.

    Both are named on chain by the sponsor. A block's own node is its miner's: the root binds the parameters alone, so
    the names in it are nobody's promise.

    Raises:
        StoreError: the store has neither.
        VerificationError: what it has does not fit the task.
    """
    try:
        found = get_manifest(store, config.manifest).layout
    except BlobNotFoundError:
        found = get_record(store, Cid.dag_cbor(config.first_model), ModelNode).layout
    if found.d != config.dimension:
        raise ModelMismatchError(
            f"the task's layout has {found.d} parameters, its models have {config.dimension}"
        )
    return found


def _model_cid(store: BlobStore, task: Task, played: PlayedRound | None) -> Cid:
    if played is None:
        return Cid.dag_cbor(task.config.first_model)
    return get_record(store, Cid.dag_cbor(played.standing().round.posted.block), BlockNode).model


def _settled_in(reader: TaskReader, played: PlayedRound | None) -> Digest | None:
    """The hash of the block that settled the round."""
    if played is None:
        return None
    number = played.events[-1].block_number
    block_hash = reader.block_hash(number)
    if block_hash is None:
        raise LedgerError(f"the endpoint no longer has block {number}: was there a reorg? run again")
    return block_hash


def _origin(task: Task, played: PlayedRound | None, settled_in: Digest | None) -> Origin:
    rule = task.config.rule.name_text
    if played is None:
        return Origin(rule, None, None, ())
    return Origin(rule, played.events[-1].block_number, settled_in, provenance.contributors(played))


def write_export(exported: ExportedModel, out: Path) -> Path:
    """Write the file and the statement beside it, each whole or not at all; answers the statement's path.

    Raises:
        StoreError: the folder cannot be written to.
    """
    beside = statement_path(out)
    # The statement first: a file without one would look like an export that was cut off.
    for path, data in ((beside, exported.statement_bytes), (out, exported.data)):
        draft = path.with_name(path.name + ".part")
        try:
            with draft.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise StoreError(f"writing {path}: {error.strerror or error}") from error
    return beside


def statement_path(file: Path) -> Path:
    """Where the statement about a file lies."""
    return file.with_name(file.name + STATEMENT_SUFFIX)


# Verifying


def verify_model(
    path: Path,
    *,
    statement: Path | None = None,
    bundle: Path | None = None,
    block_hash: Digest | None = None,
    reader: TaskReader | None = None,
) -> VerifiedModel:
    """Prove that a file is the model that it says it is; without bundle or chain, that it agrees with its statement.

    Raises:
        InputError: a file is missing.
        VerificationError: something differs; names the tensor or field.
    """
    data = _read_bytes(path)
    stated = _read_statement(path, statement)

    # Damage inside a tensor is named by reading; damage that leaves a well-formed file, by the statement's digests.
    file = _parse(path, data)
    if stated is not None:
        _expect_stated(file, data, stated)
    root = merkle.root(file.vector)
    if root != file.about.root:
        raise ModelFileError(
            f"the parameters have root {hex_of(root)}, the file says {hex_of(file.about.root)}: they were changed"
        )

    proven_by = None
    if bundle is not None and block_hash is not None:
        _expect_bundle(file, bundle, block_hash)
        proven_by = f"block {hex_of(block_hash)}"
    elif reader is not None:
        rounds = played_rounds(reader)
        _expect_proven(file.about, reader.task, rounds)
        proven_by = "the chain, as the endpoint reports it (not the names of the tensors)"
    return VerifiedModel(file, stated, proven_by)


def read_model(path: Path) -> ModelFile:
    """What a model file holds; a refusal names the file.

    Raises:
        InputError: there is no such file.
        ModelFileError: it is damaged, changed, or was not written by `chainfl model export`.
    """
    return _parse(path, _read_bytes(path))


def _parse(path: Path, data: bytes) -> ModelFile:
    try:
        return read_model_file(data)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None


def _read_statement(path: Path, given: Path | None) -> Statement | None:
    """The statement that is named, or the one beside the file where there is one."""
    beside = statement_path(path)
    if given is None and not beside.exists():
        return None
    return provenance.read_statement(_read_bytes(given or beside), signer_of)


def _expect_stated(file: ModelFile, data: bytes, stated: Statement) -> None:
    is_same = sha256(data).digest() == stated.file_digest
    found = stated.tensors if is_same else provenance.tensor_digests(file)
    for name in sorted({*found, *stated.tensors}):
        if found.get(name) != stated.tensors.get(name):
            raise ModelFileError(f"tensor {name!r}: not the one that the statement is about: it was changed")
    _expect_same("statement", stated.about, file.about)
    if not is_same:
        raise ModelFileError("header: not the one that the statement is about: it was changed")


def _expect_bundle(file: ModelFile, bundle: Path, block_hash: Digest) -> None:
    about = file.about
    with open_bundle(bundle) as opened:
        proven = prove_task(opened, block_hash)
        subject = opened.subject
        meant = About(
            subject.chain, subject.task, about.round, about.root, proven.contracts.made.config.scale
        )
        _expect_same("bundle", meant, about)
        first = proven.contracts.made.config.first_root
        _expect_root(about, first, proven.rounds)
        _expect_layout(file.layout, layout_of(opened.store(), proven.contracts.made.config))


def _expect_layout(found: Layout, expected: Layout) -> None:
    """The tensors have the names and shapes of the task: the same numbers under other names are another model."""
    for index, (one, other) in enumerate(zip_longest(found.tensors, expected.tensors)):
        if one != other:
            raise ModelFileError(f"tensor {index} is {_named(one)}, the task names {_named(other)}")


def _named(tensor: Tensor | None) -> str:
    return "not there" if tensor is None else f"{tensor.name!r} of shape {list(tensor.shape)}"


def _expect_proven(about: About, task: Task, rounds: Sequence[PlayedRound]) -> None:
    meant = About(task.chain_id, task.address, about.round, about.root, task.config.scale)
    _expect_same("chain", meant, about)
    _expect_root(about, task.config.first_root, rounds)


def _expect_root(about: About, first: Digest, rounds: Sequence[PlayedRound]) -> None:
    try:
        played = final_round(rounds, about.round, first)
    except InputError as error:
        raise ModelFileError(str(error)) from None
    root = first if played is None else root_of(played)
    if root != about.root:
        raise ModelFileError(
            f"round {about.round} made the model {hex_of(root)}, the file holds {hex_of(about.root)}"
        )


def _expect_same(who: str, meant: About, about: About) -> None:
    for field, expected in meant.plain().items():
        found = about.plain()[field]
        if found != expected:
            raise ModelFileError(f"{field}: the {who} says {expected}, the file {found}")
