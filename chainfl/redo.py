"""What a round must produce, redone from ledger and blobs alone: roles run on it, validators and audits check with it.

R revealed updates, K included ones, D parameters. Nothing here trusts a name: every model is rebuilt to its root.
"""

from collections.abc import Callable, Iterator, Sequence

from chainfl.blobs import get_canonical_model, get_model, get_record
from chainfl.codec import merkle
from chainfl.codec.cid import Cid
from chainfl.codec.records import Attestation, BlockNode, Member, Update
from chainfl.codec.vector import Vector, decode
from chainfl.errors import BlobNotFoundError, ProtocolError, StoreError, VerificationError
from chainfl.ports import BlobStore, Floats
from chainfl.protocol.combine import combine, combine_ranks, pairwise_squared_distances
from chainfl.protocol.shares import equal, head_share, krum
from chainfl.protocol.state import NOBODY, Task
from chainfl.types import TOTAL, Digest, Id, Rule

Fetch = Callable[[BlobStore, Task, Cid, Digest], Vector]
"""How a model is had: by its name, checked against its root."""


def head_model_cid(store: BlobStore, task: Task) -> Cid:
    """Where the head's model lies: the task names the first, every block names its own."""
    if task.head_block == NOBODY:
        return Cid.dag_cbor(task.config.first_model)
    return get_record(store, Cid.dag_cbor(task.head_block), BlockNode).model


def fetch(store: BlobStore, task: Task, cid: Cid, root: Digest) -> Vector:
    """A model of this task, checked against the root that the ledger knows."""
    return get_model(store, cid, task.config.dimension, s=task.config.scale, root=root, pin=True)


class FetchOnce:
    """Fetches every model once, for checks that need the same ones; whoever only checks pins nothing."""

    def __init__(self) -> None:
        """Nothing is fetched yet."""
        self._kept: dict[tuple[Cid, Digest], Vector] = {}

    def __call__(self, store: BlobStore, task: Task, cid: Cid, root: Digest) -> Vector:
        """As `fetch`, or what was fetched before under the same name and root."""
        found = self._kept.get((cid, root))
        if found is None:
            d, s = task.config.dimension, task.config.scale
            found = get_canonical_model(store, cid, d, s=s, root=root, threads=1)
            self._kept[cid, root] = found
        return found


def head_model(store: BlobStore, task: Task, get: Fetch = fetch) -> Vector:
    """The model the round starts from, its root rebuilt."""
    return get(store, task, head_model_cid(store, task), task.head_root)


def revealed_updates(store: BlobStore, task: Task, *, is_patient: bool) -> Iterator[Vector | None]:
    """The revealed updates in index order; None where the bytes are not to be had or not what was promised.

    Raises:
        StoreError: the store itself fails, for which no worker is to blame; only where there is time to try again.
    """
    for id_ in task.round.order:
        update = task.round.updates[id_]
        assert update.root is not None
        assert update.cid is not None
        try:
            yield fetch(store, task, Cid.dag_cbor(update.cid), update.root)
        except (BlobNotFoundError, VerificationError):
            yield None
        except StoreError:
            if is_patient:
                raise
            yield None


def floats(u_D: Vector, task: Task) -> Floats:
    """The values behind a model vector, as learning sees them."""
    return decode(u_D, task.config.scale)


def next_model(store: BlobStore, task: Task, get: Fetch = fetch) -> tuple[tuple[int, ...], Vector]:
    """The shares of the round and the model they make, from bytes that are checked against their roots."""
    tallied = task.round.tally
    if tallied is None:
        raise ProtocolError(f"round {task.round.number}: the scores are not tallied")
    if task.config.rule.is_attested:
        included = _included_updates(store, task, get)
        shares = attested_shares(task, included)
        chosen = iter(included)
        spread = [next(chosen) if counts else None for counts in tallied.included]
        return shares, combine(_head(store, task, shares, get), spread, shares)
    shares = tallied.shares
    if task.config.rule.is_on_ranks:
        included = _included_updates(store, task, get)
        return shares, combine_ranks(_head(store, task, shares, get), included, shares)
    updates = [_update(store, task, index, get) if share else None for index, share in enumerate(shares[1:])]
    return shares, combine(_head(store, task, shares, get), updates, shares)


def attested_shares(task: Task, included: Sequence[Vector]) -> tuple[int, ...]:
    """Krum's choice over the included updates, as shares per revealed update."""
    config, tallied = task.config, task.round.tally
    assert tallied is not None
    wanted = 1 if config.rule is Rule.KRUM else config.selected
    chosen = iter(krum(pairwise_squared_distances(included), config.tolerated, wanted))
    per_update = [next(chosen) if counts else False for counts in tallied.included]
    kept = head_share(config.alpha)
    return (kept, *equal(per_update, TOTAL - kept))


def block_record(store: BlobStore, task: Task, miner: bytes, model: Cid, shares: Sequence[int]) -> BlockNode:
    """What the round produced, from what, and who took part."""
    round_, tallied = task.round, task.round.tally
    assert tallied is not None
    config = task.config

    def update(index: int) -> Update:
        id_ = round_.order[index]
        shown = round_.updates[id_]
        assert shown.root is not None
        assert shown.cid is not None
        cid = Cid.dag_cbor(shown.cid) if tallied.included[index] else None
        return Update(task.by_id(id_).address, shown.root, cid)

    def member(id_: Id) -> Member:
        # No link: nobody votes on a member's bytes, and a link to what nobody has would block every pin of the history.
        shown = round_.updates.get(id_) if config.rule.is_elected else None
        return Member(task.by_id(id_).address, shown.root if shown is not None else None)

    return BlockNode(
        chain=task.chain_id,
        task=task.address,
        round=round_.number,
        rule=config.rule.name_text,
        prev=None if task.head_block == NOBODY else Cid.dag_cbor(task.head_block),
        head=head_model_cid(store, task),
        committee=tuple(member(id_) for id_ in round_.committee),
        miner=miner,
        updates=tuple(update(index) for index in range(len(round_.order))),
        scores=tuple(
            scores.revealed if (scores := round_.scores.get(id_)) is not None else None
            for id_ in round_.committee
        ),
        shares=tuple(shares),
        model=model,
        attempt=round_.attempt,
        attestations=tuple(Attestation(task.by_id(id_).address, attests) for id_, attests in task.head_votes),
        voids=task.voids,
    )


def check_proposal(store: BlobStore, task: Task) -> None:
    """Redo the standing proposal: shares, model root, the model's bytes, and the block record.

    Raises:
        VerificationError: something differs; StoreError: something cannot be had.
    """
    proposal = task.round.proposal
    assert proposal is not None
    shares, model_D = next_model(store, task)
    if proposal.shares and proposal.shares != shares:
        raise VerificationError(f"round {task.round.number}: the posted shares are not what the rule gives")
    root = merkle.root(model_D)
    if root != proposal.model_root:
        raise VerificationError(
            f"round {task.round.number}: the model's root is {root.hex()}, "
            f"proposed is {proposal.model_root.hex()}"
        )
    block = get_record(store, Cid.dag_cbor(proposal.block), BlockNode)
    expected = block_record(store, task, task.by_id(proposal.proposer).address, block.model, shares)
    if block != expected:
        raise VerificationError(f"round {task.round.number}: the block record does not tell what happened")
    fetch(store, task, block.model, proposal.model_root)


def _head(store: BlobStore, task: Task, shares: Sequence[int], get: Fetch) -> Vector | None:
    return head_model(store, task, get) if shares[0] else None


def _update(store: BlobStore, task: Task, index: int, get: Fetch) -> Vector:
    update = task.round.updates[task.round.order[index]]
    assert update.root is not None
    assert update.cid is not None
    return get(store, task, Cid.dag_cbor(update.cid), update.root)


def _included_updates(store: BlobStore, task: Task, get: Fetch) -> list[Vector]:
    tallied = task.round.tally
    assert tallied is not None
    return [_update(store, task, index, get) for index, counts in enumerate(tallied.included) if counts]
