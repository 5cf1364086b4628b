"""Redo a round and compare: numbered checks, each `ok`, `mismatch` or `data unavailable` (docs/protocol.md 10)."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum

from chainfl.audit.history import PlayedRound
from chainfl.blobs import get_record
from chainfl.codec import merkle
from chainfl.codec.cid import Cid
from chainfl.codec.commitments import draw_seed, validator_payload, worker_payload
from chainfl.codec.records import BlockNode
from chainfl.codec.scores import decode_scores
from chainfl.codec.vector import Vector
from chainfl.errors import StoreError, VerificationError
from chainfl.execution import Fetch, FetchOnce, block_record, model_by, right_shares
from chainfl.ports import BlobStore
from chainfl.protocol import events
from chainfl.protocol.actions import seal
from chainfl.protocol.combine import squared_distances
from chainfl.protocol.operators import senders_of
from chainfl.protocol.round import draw_for
from chainfl.protocol.settlement import settle
from chainfl.protocol.state import Task
from chainfl.protocol.tally import as_flags, score_kind, tally_of
from chainfl.protocol.views import ordered_roots
from chainfl.types import Digest, Id, Outcome, Phase

SIDE_BY_SIDE = 2
"""Updates fetched at once: one is read while another is hashed."""

MixHash = Callable[[int], Digest | None]
"""The randomness of an EVM block, None where its header is not available any more."""


class Verdict(Enum):
    """What a check found."""

    OK = "ok"
    MISMATCH = "mismatch"
    UNAVAILABLE = "data unavailable"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check of one round: what should be there and what is."""

    number: int
    check: str
    verdict: Verdict
    expected: str
    found: str

    @property
    def is_ok(self) -> bool:
        """Whether expected and found agree."""
        return self.verdict is Verdict.OK


CHECKS = (
    "draw",
    "commitments",
    "update roots",
    "inclusion",
    "scores",
    "shares",
    "next committee",
    "model root",
    "block record",
    "rewards",
    "head",
)


def check_round(played: PlayedRound, store: BlobStore, mix_hash: MixHash) -> Iterator[Finding]:
    """All checks of one round, in order. A round that ended before its tally has fewer."""
    standing = played.standing()
    get = FetchOnce()

    # What participants sealed and showed can be checked in every round that was drawn.
    yield _draw(played, mix_hash)
    yield _commitments(played, standing)
    yield _update_roots(standing, store, get)

    # The rest only as far as the round came.
    if standing.round.tally is not None:
        yield from _tally(played, standing, store, get)
    if standing.round.proposal is not None and played.outcome is not Outcome.VOID:
        yield _model_root(standing, store, get)
        yield _block_record(standing, store, get)
    if played.ended is not None:
        yield _rewards(played, standing)
        yield _head(played, standing)


def verify_round(played: PlayedRound, store: BlobStore, mix_hash: MixHash) -> None:
    """Redo a round.

    Raises:
        VerificationError: names the first check that did not hold, with expected and found.
    """
    for finding in check_round(played, store, mix_hash):
        if not finding.is_ok:
            raise VerificationError(
                f"round {played.number}, check {finding.number} ({finding.check}): {finding.verdict.value}: "
                f"expected {finding.expected}, found {finding.found}"
            )


def _draw(played: PlayedRound, mix_hash: MixHash) -> Finding:
    """1. The roles are what seed and stakes give, and the seed is from the block that the opening named."""
    drawn = next((e.event for e in played.events if isinstance(e.event, events.Drawn)), None)
    if drawn is None:
        return _finding(1, "a draw", "none yet", Verdict.UNAVAILABLE)

    # Stakes change between rounds: the draw is redone on those that stood when it was made.
    task = played.before_draw()
    roles = draw_for(task, drawn.seed)
    found = (drawn.committee, drawn.proposers, drawn.workers if drawn.limited else None)
    expected = (roles.committee, roles.proposers, roles.workers)
    if expected != found:
        return _compare(1, expected, found)

    # Right roles from a block that somebody chose would be no draw.
    opened = task.round.draw_block
    if drawn.block_number != opened:
        return _compare(1, f"the seed from block {opened}", f"from block {drawn.block_number}")

    known = mix_hash(drawn.block_number)
    if known is None:
        out_of_reach = f"the header of block {drawn.block_number} is out of reach"
        return _finding(1, "the seed's block", out_of_reach, Verdict.UNAVAILABLE)
    seed = draw_seed(task.chain_id, task.address, drawn.round, known)
    return _compare(1, seed.hex(), drawn.seed.hex())


def _commitments(played: PlayedRound, standing: Task) -> Finding:
    """2. Every reveal opens the commitment that its sender made before."""
    for logged in played.events:
        event = logged.event
        if not isinstance(event, events.UpdateRevealed | events.ScoresRevealed):
            continue

        expected, found = _commitments_of(standing, event)
        if found not in expected:
            return _compare(2, f"participant {event.id}: {expected[0].hex()}", found.hex())
    return _finding(2, "every reveal opens its commitment", "they do")


def _commitments_of(
    standing: Task, event: events.UpdateRevealed | events.ScoresRevealed
) -> tuple[list[Digest], Digest]:
    """What a reveal opens, by the owner's key or its operator's, for events do not say which; and what was made."""
    if isinstance(event, events.UpdateRevealed):
        phase, payload = Phase.TRAIN, worker_payload(event.root, event.cid, event.samples)
        found = standing.round.updates[event.id].commitment
    else:
        phase, payload = Phase.SCORE, validator_payload(ordered_roots(standing), event.scores)
        found = standing.round.scores[event.id].commitment

    senders = senders_of(standing, standing.by_id(event.id).address)
    return [seal(standing, phase, sender, payload, event.salt) for sender in senders], found


def _update_roots(standing: Task, store: BlobStore, get: Fetch) -> Finding:
    """3. The bytes of every update that the committee vouched for are there and have the revealed root."""
    tallied = standing.round.tally
    counted = [
        id_ for index, id_ in enumerate(standing.round.order) if tallied is None or tallied.included[index]
    ]

    with ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="updates") as pool:
        fetched = [pool.submit(_vector, standing, store, id_, get) for id_ in counted]
        for id_, update in zip(counted, fetched, strict=True):
            try:
                update.result()
            except StoreError as error:
                pool.shutdown(cancel_futures=True)
                return _finding(3, f"bytes of participant {id_}'s update", str(error), Verdict.UNAVAILABLE)
            except VerificationError as error:
                pool.shutdown(cancel_futures=True)
                root = standing.round.revealed(id_).root
                return _finding(3, f"participant {id_}: root {root.hex()}", str(error), Verdict.MISMATCH)

    return _finding(3, "every counted update has its revealed root", f"{len(counted)} rebuilt")


def _tally(played: PlayedRound, standing: Task, store: BlobStore, get: Fetch) -> Iterator[Finding]:
    """4 to 7. Inclusion, scores (distances from the bytes), shares and election are what the revealed scores give."""
    told = next(e.event for e in played.events if isinstance(e.event, events.Tallied))
    tallied = tally_of(standing)

    # Nothing of the contract's answer goes into ours: the revealed scores alone do.
    count = len(standing.round.order)
    yield _compare(4, tallied.included, as_flags(told.included, count))
    yield (
        _distances(standing, store, get)
        if standing.config.rule.is_elected
        else _compare(5, tallied.head_score, told.head_score)
    )
    yield (
        _posted_shares(standing, store, get)
        if played.outcome is Outcome.FINAL and standing.config.rule.is_attested
        else _compare(6, tallied.shares, told.shares)
    )
    yield _compare(7, tallied.elected or (), told.elected)


def _distances(standing: Task, store: BlobStore, get: Fetch) -> Finding:
    """5, CMFL. Every revealed distance is the exact one between the two updates."""
    try:
        for id_ in standing.round.committee:
            scores = standing.round.scores.get(id_)
            if scores is None or scores.revealed is None:
                continue

            kind = score_kind(standing.config.rule)
            told = decode_scores(kind, scores.revealed, len(standing.round.order)).entries
            own = _vector(standing, store, id_, get)

            for index, worker in enumerate(standing.round.order):
                # Nobody can be held to what it says it could not get.
                if told[index] == 2**128 - 1:
                    continue
                expected = squared_distances(own, [_vector(standing, store, worker, get)])[0]
                if expected != told[index]:
                    return _compare(5, f"validator {id_} to worker {worker}: {expected}", told[index])
    except StoreError as error:
        return _finding(5, "the updates' bytes", str(error), Verdict.UNAVAILABLE)
    except VerificationError as error:
        return _finding(5, "the updates' bytes", str(error), Verdict.MISMATCH)
    return _finding(5, "every distance is exact", "they are")


def _posted_shares(standing: Task, store: BlobStore, get: Fetch) -> Finding:
    """6, attested rules. The shares that a majority attested are those that the updates' bytes give."""
    try:
        expected = right_shares(store, standing, get)
    except StoreError as error:
        return _finding(6, "the updates' bytes", str(error), Verdict.UNAVAILABLE)
    except VerificationError as error:
        return _finding(6, "the updates' bytes", str(error), Verdict.MISMATCH)
    return _compare(6, expected, standing.round.posted.shares)


def _vector(standing: Task, store: BlobStore, id_: Id, get: Fetch) -> Vector:
    update = standing.round.revealed(id_)
    return get(store, standing, Cid.dag_cbor(update.cid), update.root)


def _model_root(standing: Task, store: BlobStore, get: Fetch) -> Finding:
    """8. Combining head and updates with the round's shares gives the proposed model."""
    proposal = standing.round.posted
    try:
        model_D = model_by(store, standing, proposal.shares or standing.round.decided.shares, get)
    except StoreError as error:
        return _finding(8, "the bytes of head and updates", str(error), Verdict.UNAVAILABLE)
    except VerificationError as error:
        return _finding(8, "the bytes of head and updates", str(error), Verdict.MISMATCH)
    return _compare(8, merkle.root(model_D).hex(), proposal.model_root.hex())


def _block_record(standing: Task, store: BlobStore, get: Fetch) -> Finding:
    """9. The record in the store agrees with the ledger, links to its parent, and its model is found."""
    proposal = standing.round.posted
    shares = proposal.shares or standing.round.decided.shares
    try:
        block = get_record(store, Cid.dag_cbor(proposal.block), BlockNode)
        miner = standing.by_id(proposal.proposer).address
        expected = block_record(store, standing, miner, block.model, shares)

        # The record is rebuilt from the ledger and compared as a whole, so no field can be left unchecked.
        if block != expected:
            return _compare(9, _differences(expected, block), _differences(block, expected))
        get(store, standing, block.model, proposal.model_root)
    except StoreError as error:
        return _finding(9, f"block {Cid.dag_cbor(proposal.block)}", str(error), Verdict.UNAVAILABLE)
    except VerificationError as error:
        return _finding(9, f"block {Cid.dag_cbor(proposal.block)}", str(error), Verdict.MISMATCH)
    return _finding(9, "the record agrees with the ledger", str(Cid.dag_cbor(proposal.block)))


def _differences(one: BlockNode, other: BlockNode) -> str:
    names = (name for name in BlockNode.SHAPE if getattr(one, name) != getattr(other, name))
    return ", ".join(f"{name} = {getattr(one, name)!r}" for name in names)


def _rewards(played: PlayedRound, standing: Task) -> Finding:
    """10. Workers, committee and miner were credited what the rules give."""
    ended = played.ended
    assert ended is not None
    redone = standing.draft()
    expected = settle(redone, ended.outcome)
    found = (ended.workers_paid, ended.committee_paid, ended.miner_paid)
    due = _credits(redone.events)
    told = _credits([logged.event for logged in played.events])
    return _compare(10, _pay(expected, due), _pay(found, told[len(told) - len(due) :]))


def _head(played: PlayedRound, standing: Task) -> Finding:
    """11. The head after the round: the proposal if Final, the older one if a majority lost it, else the same."""
    ended = played.ended
    round_ = standing.round
    assert ended is not None
    expected = (standing.head_root, standing.head_block)
    if ended.outcome is Outcome.FINAL and round_.proposal is not None:
        expected = (round_.proposal.model_root, round_.proposal.block)
    elif round_.tally is not None and round_.tally.is_head_withheld and standing.older_head is not None:
        expected = (standing.older_head.root, standing.older_head.block)
    found = (ended.head_root, ended.head_block)
    return _compare(11, " ".join(map(bytes.hex, expected)), " ".join(map(bytes.hex, found)))


def _credits(log: Sequence[events.Event]) -> list[tuple[str, int]]:
    return [(event.account.hex(), event.amount) for event in log if isinstance(event, events.Credited)]


def _pay(sums: tuple[int, int, int], credited: Sequence[tuple[str, int]]) -> str:
    """Who gets what, in wei. Workers are paid when they claim; the others are credited at once."""
    groups = zip(("workers", "committee", "miner"), sums, strict=True)
    told = ", ".join(f"{name} {amount}" for name, amount in groups)
    return "; ".join([f"{told} wei", *(f"0x{account} {amount}" for account, amount in credited)])


def _compare(number: int, expected: object, found: object) -> Finding:
    verdict = Verdict.OK if expected == found else Verdict.MISMATCH
    return _finding(number, str(expected), str(found), verdict)


def _finding(number: int, expected: str, found: str, verdict: Verdict = Verdict.OK) -> Finding:
    return Finding(number, CHECKS[number - 1], verdict, expected, found)


def worst(findings: Sequence[Finding]) -> Verdict:
    """One verdict for a round: a mismatch outweighs missing data, which outweighs ok."""
    found = {finding.verdict for finding in findings}
    return next((v for v in (Verdict.MISMATCH, Verdict.UNAVAILABLE) if v in found), Verdict.OK)
