"""The Merkle evidence of 64 parameters: leaf and path of the proposed model and of everything that has a part in it."""

from collections.abc import Iterator, Sequence

from chainfl.api import schemas
from chainfl.api.convert import who
from chainfl.audit.history import PlayedRound
from chainfl.blobs import get_record
from chainfl.codec import merkle
from chainfl.codec.cid import Cid
from chainfl.codec.merkle import LEAF_PARAMETERS
from chainfl.codec.records import BlockNode
from chainfl.codec.text import from_hex, hex_of
from chainfl.errors import InputError, NotIndexedError
from chainfl.execution import fetch, head_model_cid
from chainfl.ports import BlobStore
from chainfl.protocol import events
from chainfl.protocol import proof as proving
from chainfl.protocol.fold import fold
from chainfl.protocol.state import Task
from chainfl.protocol.views import claim_of
from chainfl.types import Digest, Id


def evidence_of(played: PlayedRound, store: BlobStore, leaf: int, attempt: int | None) -> schemas.Evidence:
    """The paths of one leaf, and which of its parameters re-execution does not confirm.

    Raises:
        NotIndexedError: nothing was proposed in that attempt; InputError: the tree has no such leaf.
        StoreError, VerificationError: a model was not found, or is not what was promised.
    """
    task = _proposed(played, attempt)
    claim = claim_of(task)
    if not 0 <= leaf < 1 << claim.depth:
        raise InputError(
            f"leaf {leaf} is not in a tree of depth {claim.depth}: give 0 to {(1 << claim.depth) - 1}"
        )

    # Leaves beyond the model are padding: no update has a part in them.
    needs_parts = leaf * LEAF_PARAMETERS < claim.dimension
    paths = list(_paths(store, task, claim, leaf, needs_parts))

    return schemas.Evidence(
        task=hex_of(task.address),
        round=played.number,
        attempt=task.round.attempt,
        leaf=leaf,
        first_position=leaf * LEAF_PARAMETERS,
        depth=claim.depth,
        on_ranks=claim.rank_shares is not None,
        rank_shares=list(claim.rank_shares) if claim.rank_shares is not None else None,
        paths=paths,
        wrong=list(_wrong(claim, leaf, paths)),
    )


def _proposed(played: PlayedRound, attempt: int | None) -> Task:
    """The task as a proposal (the newest where none is named) left it."""
    task = played.before.draft()
    found = None
    for logged in played.events:
        event = logged.event
        if isinstance(event, events.RoundEnded):
            break
        fold(task, event, logged.block_number)
        if isinstance(event, events.Proposed) and attempt in (None, event.attempt):
            found = task.draft()
    if found is None:
        which = "yet" if attempt is None else f"in attempt {attempt}"
        raise NotIndexedError(f"round {played.number}: no model was proposed {which}")
    return found


def _paths(
    store: BlobStore, task: Task, claim: proving.Claim, leaf: int, needs_parts: bool
) -> Iterator[schemas.MerklePath]:
    block = get_record(store, Cid.dag_cbor(task.round.posted.block), BlockNode)
    yield _path(store, task, "model", block.model, claim.root, leaf)
    if not needs_parts:
        return
    if claim.head_share:
        head = _path(store, task, "head", head_model_cid(store, task), claim.head_root, leaf)
        yield head.model_copy(update={"share": claim.head_share})
    for id_, root, share in _parts(task, claim):
        cid = task.round.revealed(id_).cid
        path = _path(store, task, "update", Cid.dag_cbor(cid), root, leaf)
        yield path.model_copy(
            update={"worker": who(task, id_), "share": None if claim.rank_shares else share}
        )


def _parts(task: Task, claim: proving.Claim) -> Iterator[tuple[Id, Digest, int]]:
    """The updates that a proof must show, in the claim's order, with their workers."""
    tallied = task.round.decided
    shares = (task.round.posted.shares or tallied.shares)[1:]
    counts = tallied.included if claim.rank_shares is not None else [share > 0 for share in shares]
    shown = (id_ for id_, has_part in zip(task.round.order, counts, strict=True) if has_part)
    return ((id_, root, share) for id_, (root, share) in zip(shown, claim.parts, strict=True))


def _path(store: BlobStore, task: Task, what: str, cid: Cid, root: Digest, leaf: int) -> schemas.MerklePath:
    proof = merkle.prove(fetch(store, task, cid, root), leaf)
    return schemas.MerklePath.model_validate(
        {
            "what": what,
            "worker": None,
            "share": None,
            "root": hex_of(root),
            "cid": str(cid),
            "leaf": hex_of(proof.leaf),
            "siblings": [hex_of(each) for each in proof.siblings],
        }
    )


def _wrong(
    claim: proving.Claim, leaf: int, paths: Sequence[schemas.MerklePath]
) -> Iterator[schemas.WrongParameter]:
    """Redo each parameter of the leaf exactly as the contract would."""
    leaves = {
        what: [_leaf(path) for path in paths if path.what == what] for what in ("model", "head", "update")
    }
    for position in range(leaf * LEAF_PARAMETERS, (leaf + 1) * LEAF_PARAMETERS):
        is_inside = position < claim.dimension
        head = leaves["head"][0] if is_inside and leaves["head"] else None
        updates = tuple(leaves["update"]) if is_inside else ()
        shown = proving.Evidence(leaves["model"][0], head, updates)
        expected, found = proving.check_evidence(claim, position, shown)
        if expected != found:
            yield schemas.WrongParameter(position=position, expected=expected, found=found)


def _leaf(path: schemas.MerklePath) -> proving.Leaf:
    siblings = tuple(from_hex(each) for each in path.siblings)
    return proving.Leaf(from_hex(path.leaf), siblings)
