"""What a round must produce, redone from ledger and blobs alone: roles run on it, validators and audits check with it.

R revealed updates, K included ones, D parameters. Nothing here trusts a name: every model is rebuilt to its root.
"""

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress

from chainfl.blobs import check_model, get_canonical_model, get_model, get_record, keep_model, within
from chainfl.codec import merkle
from chainfl.codec.cid import Cid
from chainfl.codec.records import Attestation, BlockNode, Member, Update
from chainfl.codec.vector import Vector, decode
from chainfl.errors import ChainflError, ProtocolError, StoreError, StoreTimeoutError, VerificationError
from chainfl.ports import BlobStore, Floats
from chainfl.protocol._quadratic import Matrix
from chainfl.protocol.combine import combine, combine_ranks, pairwise_squared_distances
from chainfl.protocol.shares import equal, head_share, krum
from chainfl.protocol.state import ZERO_DIGEST, Task
from chainfl.protocol.varsel import varsel_shares, varsel_weights
from chainfl.protocol.views import internal_updates
from chainfl.types import TOTAL, Digest, Id, Rule

Fetch = Callable[[BlobStore, Task, Cid, Digest], Vector]
"""How a model is had: by its name, checked against its root."""


Kept = Cid | StoreError | VerificationError
"""A model that the store has fetched and keeps, or why it does not."""

KEPT_BYTES = 2 << 30
"""How many bytes of models an audit keeps for its next check."""
_GRACE_SECONDS = 0.5
"""How much later than its limit a store may answer before its answer is not waited for any more."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Until when a step may wait (`time.monotonic()`): for bytes that others publish, then for reading them here.

    The second moment is later: what did come in time is still read when something else did not.
    """

    fetch: float = math.inf
    read: float = math.inf


NO_LIMIT = Budget()
"""For checks without a role in the round: nothing is at stake when they take long."""


def side_by_side(jobs: Sequence[Callable[[], Cid]], until: float) -> list[Kept]:
    """What each job gives or why it failed, in order; one that is not done by then counts as timed out.

    All run at once. Fewer threads than jobs would let a few missing names starve all the others; the rules
    bound how many updates a round has.
    """
    pool = ThreadPoolExecutor(max(1, len(jobs)), thread_name_prefix="bytes")
    try:
        under_way = [pool.submit(job) for job in jobs]

        # A little grace for jobs that have their answer and are handing it over.
        left = until - time.monotonic()
        wait(under_way, None if left == math.inf else max(0.0, left) + _GRACE_SECONDS)
        return [_outcome(each) for each in under_way]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _outcome(job: Future[Cid]) -> Kept:
    if not job.done():
        return StoreTimeoutError("the store did not answer in time")
    try:
        return job.result()
    except (StoreError, VerificationError) as error:
        return error


def head_model_cid(store: BlobStore, task: Task) -> Cid:
    """Where the head's model lies: the task names the first, every block names its own."""
    if task.head_block == ZERO_DIGEST:
        return Cid.dag_cbor(task.config.first_model)
    return get_record(store, Cid.dag_cbor(task.head_block), BlockNode).model


def names_to_keep(store: BlobStore, task: Task) -> set[Cid]:
    """What every later round may need: the head and the one before it, their records and their models.

    Raises:
        StoreError, VerificationError: the head's record cannot be read now.
    """
    if task.head_block == ZERO_DIGEST:
        return {head_model_cid(store, task)}
    newest = Cid.dag_cbor(task.head_block)
    block = get_record(store, newest, BlockNode)
    return {newest, block.model, block.head} | ({block.prev} if block.prev is not None else set())


def fetch(store: BlobStore, task: Task, cid: Cid, root: Digest) -> Vector:
    """A model of this task, checked against the root that the ledger knows; nothing is pinned."""
    return get_model(store, cid, task.config.dimension, s=task.config.scale, root=root)


def keep(store: BlobStore, task: Task, cid: Cid, root: Digest) -> Cid:
    """Have the store fetch and keep a model of this task: who vouches for one has to serve it."""
    return keep_model(store, cid, task.config.dimension, s=task.config.scale, root=root)


def keep_head(store: BlobStore, task: Task) -> Cid:
    """Have the store fetch and keep the model that the round starts from."""
    return keep(store, task, head_model_cid(store, task), task.head_root)


def keep_update(store: BlobStore, task: Task, id_: Id) -> Cid:
    """Have the store fetch and keep a revealed update."""
    update = task.round.revealed(id_)
    return keep(store, task, Cid.dag_cbor(update.cid), update.root)


class FetchOnce:
    """Fetches every model once, for checks that need the same ones, and keeps those used last while they fit."""

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        """Nothing is fetched yet."""
        self._most = most_bytes
        self._lock = threading.Lock()
        self._kept: dict[tuple[Cid, Digest], Vector] = {}

    def __call__(self, store: BlobStore, task: Task, cid: Cid, root: Digest) -> Vector:
        """As `fetch`, or what was fetched before under the same name and root."""
        with self._lock:
            found = self._kept.pop((cid, root), None)
        if found is None:
            d = task.config.dimension
            s = task.config.scale
            found = get_canonical_model(store, cid, d, s=s, root=root, threads=1)
        with self._lock:
            self._kept[cid, root] = found  # now the last of all
            while sum(model.nbytes for model in self._kept.values()) > self._most:
                del self._kept[next(iter(self._kept))]
        return found


def head_model(store: BlobStore, task: Task, get: Fetch = fetch) -> Vector:
    """The model the round starts from, its root rebuilt."""
    return get(store, task, head_model_cid(store, task), task.head_root)


def before_head(task: Task) -> Task | None:
    """The task as it would stand with its older head, where there is one to go back to (docs/adr/0016)."""
    older = task.older_head
    if older is None:
        return None
    return replace(task, head_root=older.root, head_block=older.block, older_head=None)


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
    return tallied.shares, model_by(store, task, tallied.shares, get)


def right_shares(store: BlobStore, task: Task, get: Fetch = fetch) -> tuple[int, ...]:
    """The shares of the round alone: those that the contract decided, or that the included updates' bytes give."""
    if not task.config.rule.is_attested:
        return task.round.decided.shares
    return attested_shares(task, _included_updates(store, task, get))


def model_by(store: BlobStore, task: Task, shares: Sequence[int], get: Fetch = fetch) -> Vector:
    """What these shares make of head and updates; only what has a part is fetched (on ranks: all included)."""
    if task.config.rule.is_on_ranks:
        included = _included_updates(store, task, get)
        return combine_ranks(_head(store, task, shares, get), included, shares)
    updates = [_update(store, task, index, get) if share else None for index, share in enumerate(shares[1:])]
    return combine(_head(store, task, shares, get), updates, shares)


def attested_shares(task: Task, included: Sequence[Vector]) -> tuple[int, ...]:
    """The shares per revealed update that the bytes of the included ones give: Krum's choice, or VaRSeL's weights."""
    config = task.config
    counted = task.round.decided.included
    distances_KK = pairwise_squared_distances(included)
    if config.rule is Rule.VARSEL:
        return _varsel_shares(task, distances_KK)

    wanted = 1 if config.rule is Rule.KRUM else config.selected
    chosen = iter(krum(distances_KK, config.tolerated, wanted))
    per_update = [next(chosen) if counts else False for counts in counted]
    kept = head_share(config.alpha)
    return (kept, *equal(per_update, TOTAL - kept))


def _varsel_shares(task: Task, distances_KK: Matrix) -> tuple[int, ...]:
    """Internal updates are those of the committee."""
    internals_K = included_internals(task)
    return shares_by_weights(task, varsel_weights(distances_KK, internals_K, task.config.budget))


def included_internals(task: Task) -> list[bool]:
    """Which of the included updates are internal."""
    return list(compress(internal_updates(task.round), task.round.decided.included))


def shares_by_weights(task: Task, weights_K: Sequence[int]) -> tuple[int, ...]:
    """VaRSeL's shares of the head and all revealed updates, from the weights of the included ones."""
    parts = iter(varsel_shares(weights_K, included_internals(task)))
    return (0, *(next(parts) if counts else 0 for counts in task.round.decided.included))


def block_record(store: BlobStore, task: Task, miner: bytes, model: Cid, shares: Sequence[int]) -> BlockNode:
    """What the round produced, from what, and who took part."""
    round_ = task.round
    tallied = round_.decided
    config = task.config

    def update(index: int) -> Update:
        id_ = round_.order[index]
        shown = round_.revealed(id_)
        cid = Cid.dag_cbor(shown.cid) if tallied.included[index] else None
        return Update(task.by_id(id_).address, shown.root, cid)

    def member(id_: Id) -> Member:
        # No link: nobody votes on a member's bytes, and a link to what nobody has would block every pin of the history.
        update = round_.updates.get(id_) if config.rule.is_elected else None
        revealed = update.revealed if update is not None else None
        return Member(task.by_id(id_).address, revealed.root if revealed is not None else None)

    return BlockNode(
        chain=task.chain_id,
        task=task.address,
        round=round_.number,
        rule=config.rule.name_text,
        prev=None if task.head_block == ZERO_DIGEST else Cid.dag_cbor(task.head_block),
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


def keep_parts(store: BlobStore, task: Task, budget: Budget, *more: Callable[[], Cid]) -> Sequence[Kept]:
    """Have the store fetch and keep, side by side, every model that the round's shares combine.

    `more` are further jobs of the same kind, done at the same time; answers what became of them.

    Raises:
        VerificationError: one is not what was promised; StoreError: one cannot be had in time.
    """
    tallied = task.round.tally
    if tallied is None:
        raise ProtocolError(f"round {task.round.number}: the scores are not tallied")
    fetching = within(store, budget.fetch)
    by_choice = task.config.rule.is_attested or task.config.rule.is_on_ranks
    counted = tallied.included if by_choice else [share > 0 for share in tallied.shares[1:]]
    jobs: list[Callable[[], Cid]] = [
        partial(keep_update, fetching, task, id_)
        for id_, counts in zip(task.round.order, counted, strict=True)
        if counts
    ]
    if head_share(task.config.alpha):
        jobs.append(partial(keep_head, fetching, task))

    kept = side_by_side([*jobs, *more], budget.fetch)
    failed = [each for each in kept[: len(jobs)] if isinstance(each, ChainflError)]

    # Wrong bytes stay wrong, so they decide at once; missing ones may still come.
    for error in sorted(failed, key=lambda error: not isinstance(error, VerificationError)):
        raise error
    return kept[len(jobs) :]


def check_proposal(store: BlobStore, task: Task, budget: Budget = NO_LIMIT) -> None:
    """Redo the standing proposal: shares, model root, the model's bytes, and the block record.

    Raises:
        VerificationError: something differs; StoreError: something cannot be had.
    """
    proposal = task.round.proposal
    assert proposal is not None
    number = task.round.number
    fetching = within(store, budget.fetch)
    reading = within(store, budget.read)

    def keep_proposed() -> Cid:
        block = get_record(fetching, Cid.dag_cbor(proposal.block), BlockNode)
        return keep(fetching, task, block.model, proposal.model_root)

    # Everything that redoing takes is fetched first, all at once, within one limit.
    (proposed,) = keep_parts(store, task, budget, keep_proposed)

    # The shares, and the model that they make.
    shares, model_D = next_model(reading, task)
    if proposal.shares and proposal.shares != shares:
        raise VerificationError(f"round {number}: the posted shares are not what the rule gives")
    root = merkle.root(model_D)
    if root != proposal.model_root:
        raise VerificationError(
            f"round {number}: the model's root is {root.hex()}, proposed is {proposal.model_root.hex()}"
        )
    del model_D

    # The block record, field by field, and the bytes of the model that it names.
    if isinstance(proposed, ChainflError):
        raise proposed
    block = get_record(reading, Cid.dag_cbor(proposal.block), BlockNode)
    expected = block_record(reading, task, task.by_id(proposal.proposer).address, block.model, shares)
    if block != expected:
        raise VerificationError(f"round {number}: the block record does not describe what happened")
    config = task.config
    check_model(reading, block.model, config.dimension, s=config.scale, root=proposal.model_root)


def _head(store: BlobStore, task: Task, shares: Sequence[int], get: Fetch) -> Vector | None:
    return head_model(store, task, get) if shares[0] else None


def _update(store: BlobStore, task: Task, index: int, get: Fetch) -> Vector:
    update = task.round.revealed(task.round.order[index])
    return get(store, task, Cid.dag_cbor(update.cid), update.root)


def _included_updates(store: BlobStore, task: Task, get: Fetch) -> list[Vector]:
    included = task.round.decided.included
    return [_update(store, task, index, get) for index, counts in enumerate(included) if counts]
