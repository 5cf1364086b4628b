"""From a wrong aggregate to the evidence that convicts it in one transaction (docs/protocol.md section 8)."""

from dataclasses import dataclass

from chainfl.blobs import get_record
from chainfl.codec import merkle
from chainfl.codec.cid import Cid
from chainfl.codec.commitments import finder_note
from chainfl.codec.records import BlockNode
from chainfl.codec.vector import Vector
from chainfl.errors import VerificationError
from chainfl.execution import fetch, head_model, model_by, next_model
from chainfl.ports import BlobStore, Ledger
from chainfl.protocol.proof import Evidence, check_evidence, gather
from chainfl.protocol.state import Task
from chainfl.protocol.views import claim_of, ordered_roots
from chainfl.types import Digest


@dataclass(frozen=True, slots=True)
class Lie:
    """A wrong parameter of the standing proposal, with the evidence that shows it."""

    round: int
    attempt: int
    position: int
    expected: int
    found: int
    evidence: Evidence


def find_lie(store: BlobStore, task: Task) -> Lie | None:
    """Redo the standing proposal; the first wrong parameter, or None when the model is right.

    A proof is held against the shares that were posted, so these come first: a model that they do not make is a lie,
    whatever else is wrong with them.

    Raises:
        StoreError: the proposed model or an update that counts cannot be had.
        VerificationError: what the block record names is not a model of this task with the proposed root, or the
            model is what the posted shares make and these are not the rule's.
    """
    proposal = task.round.proposal
    if proposal is None or task.round.tally is None:
        return None
    block = get_record(store, Cid.dag_cbor(proposal.block), BlockNode)
    proposed_D = fetch(store, task, block.model, proposal.model_root)

    claimed_D = model_by(store, task, proposal.shares or task.round.tally.shares)
    differs = (proposed_D != claimed_D).nonzero()[0]
    if differs.size:
        return build_lie(store, task, proposed_D, int(differs[0]))

    if proposal.shares and proposal.shares != next_model(store, task)[0]:
        raise VerificationError(f"round {task.round.number}: posted shares are judged by vote, not by proof")
    return None


def build_lie(store: BlobStore, task: Task, proposed_D: Vector, position: int) -> Lie:
    """Collect the leaves that show the wrong parameter, and check them as the contract will."""
    claim = claim_of(task)
    roots = ordered_roots(task)
    cids = {root: task.round.revealed(id_).cid for root, id_ in zip(roots, task.round.order, strict=True)}

    def prove(root: Digest, leaf: int) -> merkle.Proof:
        if root == claim.root:
            return merkle.prove(proposed_D, leaf)
        if root in cids:
            return merkle.prove(fetch(store, task, Cid.dag_cbor(cids[root]), root), leaf)
        return merkle.prove(head_model(store, task), leaf)

    evidence = gather(claim, position, prove)
    expected, found = check_evidence(claim, position, evidence)
    return Lie(task.round.number, task.round.attempt, position, expected, found, evidence)


def note_lie(ledger: Ledger, task: Task, lie: Lie, salt: Digest) -> None:
    """Seal the finding in our name: a proof shown in a later block then earns us the finder's part, and nobody else."""
    note = finder_note(task.chain_id, task.address, lie.round, lie.attempt, lie.position, ledger.key, salt)
    ledger.note_finding(note)
