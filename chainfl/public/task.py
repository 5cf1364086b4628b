"""A task on a chain from Python: read it, audit it, take its model out. Needs neither torch nor a key."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chainfl.audit.history import PlayedRound
from chainfl.audit.verify import Finding, Verdict
from chainfl.chain.abi import as_address
from chainfl.chain.quorum import open_endpoints, open_reader
from chainfl.chain.reader import TaskReader
from chainfl.codec.text import hex_of
from chainfl.codec.vector import decode
from chainfl.errors import InputError
from chainfl.limits import DEFAULT_LIMITS, Limits
from chainfl.ports import BlobStore
from chainfl.protocol.state import NO_SCORE
from chainfl.protocol.views import update_parts
from chainfl.store.address import open_store
from chainfl.types import WAD
from chainfl.workflows import audit as audits
from chainfl.workflows.model import ExportedModel, export_model, write_export


@dataclass(frozen=True, slots=True)
class TaskRound:
    """A round as the chain has it. Accounts are addresses as text; a share is the part of the new model.

    `head_loss` is the committee's loss of the head that the round began with; None where no majority gave one.
    """

    number: int
    outcome: str
    model_root: str
    committee: tuple[str, ...]
    shares: dict[str, float]
    head_loss: float | None


@dataclass(frozen=True, slots=True)
class RoundAudit:
    """What redoing a round found, check by check."""

    number: int
    outcome: str
    verdict: Verdict
    findings: tuple[Finding, ...]

    @property
    def is_ok(self) -> bool:
        """Whether every check holds."""
        return self.verdict is Verdict.OK


class Task:
    """One training task on a chain. What it shows is as of the last `open` or `refresh`."""

    def __init__(self, reader: TaskReader, store: BlobStore | None, limits: Limits) -> None:
        """Use `Task.open`."""
        self._reader = reader
        self._store = store
        self._limits = limits
        self.refresh()

    @classmethod
    def open(
        cls,
        rpc: str | Sequence[str],
        address: str,
        *,
        store: str | None = None,
        chain_id: int | None = None,
        from_block: int = 0,
        limits: Limits = DEFAULT_LIMITS,
    ) -> "Task":
        """Read a task: `rpc` is one endpoint or several of which most must agree; `store` is where its blobs are.

        Raises:
            InputError: an address is none.
            LedgerError: the chain does not answer, or there is no task.
        """
        where = as_address(address)
        blobs = open_store(store) if store is not None else None
        endpoints = open_endpoints(rpc if isinstance(rpc, str) else ",".join(rpc), chain_id)
        return cls(open_reader(endpoints, where, from_block), blobs, limits)

    def refresh(self) -> "Task":
        """Read what has happened since; answers itself."""
        self._reader.refresh()
        return self

    @property
    def address(self) -> str:
        """Where it is."""
        return hex_of(self._reader.task.address)

    @property
    def chain_id(self) -> int:
        """On which chain."""
        return self._reader.task.chain_id

    @property
    def rule(self) -> str:
        """How updates are combined."""
        return self._reader.task.config.rule.name_text

    @property
    def round(self) -> int:
        """The number of the running round."""
        return self._reader.task.round.number

    @property
    def phase(self) -> str:
        """Where the running round stands; `ended` where the task has."""
        return self._reader.task.round.phase.name.lower()

    @property
    def participants(self) -> tuple[str, ...]:
        """Who has enrolled, in the order of ids."""
        return tuple(hex_of(each) for each in self._reader.task.addresses)

    @property
    def head_root(self) -> str:
        """The root of the newest model."""
        return hex_of(self._reader.task.head_root)

    def rounds(self) -> list[TaskRound]:
        """Every settled round, oldest first."""
        return [_task_round(each) for each in audits.played_rounds(self._reader) if each.ended is not None]

    def audit(self, number: int | None = None) -> list[RoundAudit]:
        """Redo every settled round, or the one with this number, from chain and blobs alone.

        Raises:
            InputError: the task was opened without a store, or this round is not settled.
        """
        found = [
            RoundAudit(each.played.number, each.played.outcome.name.lower(), each.verdict, each.findings)
            for each in audits.audit(self._reader, self._blobs(), number, self._limits)
        ]
        if number is not None and not found:
            raise InputError(f"round {number} of this task is not settled; {self.round} is running")
        return found

    def tensors(self, number: int | None = None) -> dict[str, NDArray[np.float32]]:
        """The model of a final round (the head's) by tensor, rebuilt from the store and checked against its root.

        Raises:
            InputError: the task was opened without a store, or the round made no model.
        """
        file = self._export("model", number).file
        flat_D: NDArray[np.float32] = decode(file.vector, file.about.s)
        return {tensor.name: flat_D[at].reshape(tensor.shape) for tensor, at in file.spans()}

    def export(self, out: str | os.PathLike[str], number: int | None = None) -> Path:
        """Write the model of a final round (the head's) as safetensors, and the statement of its origin beside it.

        Raises:
            InputError: the task was opened without a store, or the round made no model.
        """
        path = Path(out)
        write_export(self._export(path.name, number), path)
        return path

    def _export(self, name: str, number: int | None) -> ExportedModel:
        return export_model(self._reader, self._blobs(), name, number, limits=self._limits)

    def _blobs(self) -> BlobStore:
        if self._store is None:
            raise InputError("this needs the task's blobs: open it with store=, such as dir:./store")
        return self._store

    def __repr__(self) -> str:
        """In one line: where it is and how far it has come."""
        return f"<Task {self.address} on chain {self.chain_id}: round {self.round}, {self.phase}>"


def _task_round(played: PlayedRound) -> TaskRound:
    assert played.ended is not None
    task = played.standing()
    parts = update_parts(task, played.outcome)
    tallied = task.round.tally
    scored = tallied is not None and tallied.head_score != NO_SCORE
    return TaskRound(
        played.number,
        played.outcome.name.lower(),
        hex_of(played.ended.head_root),
        tuple(hex_of(task.by_id(id_).address) for id_ in task.round.committee),
        {hex_of(task.by_id(id_).address): part for id_, part in parts.items() if part > 0},
        tallied.head_score / WAD if tallied is not None and scored else None,
    )
