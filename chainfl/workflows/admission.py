"""How an account shows that it may join: from the list that the sponsor published, or from a file of it."""

import json
from collections.abc import Sequence
from pathlib import Path

from web3 import Web3

from chainfl.blobs import get_admission_list
from chainfl.chain.abi import functions
from chainfl.chain.reader import read_call, read_config
from chainfl.codec.admission import Entry
from chainfl.codec.manifest import AnyManifest
from chainfl.codec.text import hex_of
from chainfl.errors import InputError
from chainfl.ports import BlobStore
from chainfl.protocol.admission import NO_LIST, Admission, admit, admit_all, list_root
from chainfl.protocol.state import Task
from chainfl.types import Address, Role
from chainfl.workflows.sponsor import read_list


def find_admission(
    task: Task, account: Address, file: Path | None, store: BlobStore, manifest: AnyManifest
) -> Admission | None:
    """What the account needs to enrol; None where everybody may, or where it has enrolled before.

    Raises:
        InputError: the task has a list and it is not at hand, is another, or does not name the account.
        StoreError, VerificationError: the published list cannot be had, or is wrong.
    """
    root = task.config.admission_root
    if root == NO_LIST or account in task.accounts:
        return None

    # The published list is checked against the root on chain, so it can come from any store.
    if file is None and manifest.admission is not None:
        return admission_of(get_admission_list(store, manifest.admission, root), account)
    return show_admission(root, account, file)


def show_admission(root: bytes, account: Address, file: Path | None) -> Admission | None:
    """What the account needs to enrol, from a file of the list; None where the task has none.

    Raises:
        InputError: no file was given, it is another list, or it does not name the account.
    """
    if root == NO_LIST:
        return None
    if file is None:
        raise InputError("this task has a list of who may join: give it with --admission FILE")
    return admission_of(_from_file(file, root), account)


def enrolment_call(w3: Web3, task: Address, account: Address, file: Path | None) -> bytes:
    """The call that enrols an account, with its proof where it is new in a task that has a list of who may join."""
    calls = functions("TrainingTask")
    (known,) = read_call(w3, "TrainingTask", task, "account", hex_of(account))

    # An account that has enrolled before was checked then, and enrols again without a proof.
    root = NO_LIST if known[0] else read_config(w3, task).admission_root
    shown = show_admission(root, account, file)
    if shown is None:
        return calls["enrol"].call_data()
    return calls["enrolAdmitted"].call_data(account, shown.role, shown.proof)


def admission_of(entries: Sequence[Entry], account: Address) -> Admission:
    """How a list admits an account.

    Raises:
        InputError: it does not.
    """
    found = admit(entries, account)
    if found is None:
        raise InputError(
            f"the list of who may join this task does not name 0x{account.hex()}: ask its sponsor"
        )
    return found


def write_proofs(entries: Sequence[Entry], file: Path) -> None:
    """Write everybody's role and proof as JSON.

    Raises:
        InputError: the file cannot be written.
    """
    proofs = {
        hex_of(account): {"role": shown.role.name.lower(), "proof": hex_of(shown.proof)}
        for account, shown in admit_all(entries).items()
    }
    plain = {"root": hex_of(list_root(entries)), "proofs": proofs}
    try:
        file.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None


def _from_file(file: Path, root: bytes) -> list[Entry]:
    """The list, whichever role its lines have by default: a sponsor may have named internals only."""
    for usual in (Role.PARTICIPANT, Role.INTERNAL):
        entries = read_list(file, usual)
        if list_root(entries) == root:
            return entries
    raise InputError(f"{file} is not the list of this task: its root is another")
