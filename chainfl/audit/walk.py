"""Which blobs an audit of a round needs."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from chainfl.audit.history import PlayedRound
from chainfl.codec.cid import Cid
from chainfl.codec.records import BlockNode, ModelNode
from chainfl.errors import RecordError
from chainfl.protocol.state import ZERO_DIGEST, Task
from chainfl.types import Digest, Outcome


class Taker(Protocol):
    """Called with every blob that a round needs."""

    def record(self, cid: Cid) -> bytes | None:
        """Hand over a record's bytes, None where they were not found."""
        ...

    def chunks(self, model: Cid, chunks: Sequence[Cid]) -> None:
        """Take the bytes of a model."""
        ...


def walk_round(played: PlayedRound, take: Taker) -> None:
    """Take every blob that redoing a settled round needs: head, revealed updates, and the block with its model."""
    task = played.standing()
    if task.head_block == ZERO_DIGEST:
        _walk_model(task, Cid.dag_cbor(task.config.first_model), task.head_root, take)
    else:
        _walk_block(task, task.head_block, task.head_root, take)

    for id_ in sorted(task.round.updates):
        update = task.round.updates[id_]
        if update.revealed is not None:
            _walk_model(task, Cid.dag_cbor(update.revealed.cid), update.revealed.root, take)

    proposal = task.round.proposal
    if proposal is not None and played.outcome is not Outcome.VOID:
        _walk_block(task, proposal.block, proposal.model_root, take)


def _walk_block(task: Task, digest: Digest, root: Digest, take: Taker) -> None:
    data = take.record(Cid.dag_cbor(digest))
    if data is not None:
        with suppress(RecordError):  # a bad record is evidence too: the audit says what is wrong with it
            _walk_model(task, BlockNode.decode(data).model, root, take)


def _walk_model(task: Task, cid: Cid, root: Digest, take: Taker) -> None:
    """Only a model of the task's size is followed, whatever its node claims."""
    data = take.record(cid)
    if data is None:
        return
    with suppress(RecordError):
        node = ModelNode.decode(data)
        if (node.d, node.s, node.root) == (task.config.dimension, task.config.scale, root):
            take.chunks(cid, node.chunks)
