"""The contracts' events: one class each, fields in the contract's order.

The events rebuild the whole state; the audit, the index and the traces read nothing else.
"""

from dataclasses import dataclass, fields

from chainfl.types import Address, Digest, Id, Outcome, Phase, Role, Slash


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a task."""

    def values(self) -> tuple[object, ...]:
        """The values in the contract's order."""
        return tuple(getattr(self, field.name) for field in fields(self))


@dataclass(frozen=True, slots=True)
class Admitted(Event):
    """The list of who may join names this account; it enrols for the first time in the same call."""

    account: Address
    role: Role


@dataclass(frozen=True, slots=True)
class Enrolled(Event):
    """An account put itself forward; the id is its own for ever."""

    id: Id
    account: Address


@dataclass(frozen=True, slots=True)
class Left(Event):
    """An account takes no part from now on."""

    id: Id
    account: Address


@dataclass(frozen=True, slots=True)
class ChangeQueued(Event):
    """A change waits until the open draw is done."""

    id: Id
    account: Address


@dataclass(frozen=True, slots=True)
class WeightSet(Event):
    """An account's weight in the stake tree, and the first round in which it counts."""

    id: Id
    weight: int
    active_from: int


@dataclass(frozen=True, slots=True)
class OperatorSet(Event):
    """From this round on the operator acts for the owner; the zero address: nobody but the owner itself."""

    owner: Address
    operator: Address
    from_round: int


@dataclass(frozen=True, slots=True)
class DrawOpened(Event):
    """The header of this block, which lies a few blocks ahead, will seed the draw."""

    round: int
    block_number: int


@dataclass(frozen=True, slots=True)
class ElectionDropped(Event):
    """The committee that was elected no longer stands: its draw did not open before its stake could have left."""

    round: int


@dataclass(frozen=True, slots=True)
class Absent(Event):
    """An account that was drawn to train had not committed in time, for the `times`-th time in a row."""

    round: int
    id: Id
    times: int


@dataclass(frozen=True, slots=True)
class Drawn(Event):
    """The roles of a round. `limited` says that only the listed workers (and backups) train."""

    round: int
    block_number: int
    seed: Digest
    committee: tuple[Id, ...]
    proposers: tuple[Id, ...]
    limited: bool
    workers: tuple[Id, ...]
    expected: int


@dataclass(frozen=True, slots=True)
class PhaseEntered(Event):
    """A phase opened; actions count before the deadline."""

    round: int
    attempt: int
    phase: Phase
    deadline: int


@dataclass(frozen=True, slots=True)
class TrainExtended(Event):
    """Too few updates were committed in time; the phase runs once more."""

    round: int
    deadline: int


@dataclass(frozen=True, slots=True)
class UpdateCommitted(Event):
    """A worker (or a training member) committed to an update."""

    round: int
    id: Id
    commitment: Digest


@dataclass(frozen=True, slots=True)
class UpdateRevealed(Event):
    """A committed update was opened."""

    round: int
    id: Id
    root: Digest
    cid: Digest
    samples: int
    salt: Digest


@dataclass(frozen=True, slots=True)
class ScoresCommitted(Event):
    """A validator committed to its scores."""

    round: int
    id: Id
    commitment: Digest


@dataclass(frozen=True, slots=True)
class ScoresRevealed(Event):
    """A validator's scores were opened."""

    round: int
    id: Id
    scores: bytes
    salt: Digest


@dataclass(frozen=True, slots=True)
class Tallied(Event):
    """Scores became shares: which updates count, p_0 and the shares, and who was elected.

    Bit i of `included` says that revealed update i, from 0, counts. `shares` is empty where none were formed, or where
    the proposer posts them; `head_score` is the committee's loss of the head in WAD, the maximum of its type when no
    majority gave one.
    """

    round: int
    included: int
    shares: tuple[int, ...]
    elected: tuple[Id, ...]
    head_score: int


@dataclass(frozen=True, slots=True)
class Proposed(Event):
    """A model was proposed. `shares` is filled only where the proposer decides them."""

    round: int
    attempt: int
    id: Id
    model_root: Digest
    block: Digest
    shares: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Voted(Event):
    """A validator attests the proposal or objects to it."""

    round: int
    attempt: int
    id: Id
    attests: bool


@dataclass(frozen=True, slots=True)
class FindingNoted(Event):
    """A sealed note of a found lie was posted."""

    account: Address
    note: Digest


@dataclass(frozen=True, slots=True)
class LieProven(Event):
    """Re-execution gave another value than the proposal holds."""

    round: int
    attempt: int
    position: int
    expected: int
    found: int
    finder: Address


@dataclass(frozen=True, slots=True)
class Convicted(Event):
    """An account proposed or attested a proven lie. Part of what is slashed goes to the task's escrow."""

    round: int
    attempt: int
    id: Id
    slashed: int
    to_escrow: int


@dataclass(frozen=True, slots=True)
class Silent(Event):
    """An account did not do its part in time; in Tally also: a majority could not get the bytes of its update."""

    round: int
    phase: Phase
    id: Id
    slashed: int


@dataclass(frozen=True, slots=True)
class HeadDropped(Event):
    """A majority of the committee could not get the head: the one before it is head again."""

    round: int
    root: Digest
    block: Digest


@dataclass(frozen=True, slots=True)
class RoundEnded(Event):
    """A round is over and settled: the head after it, and what workers, committee and miner were paid."""

    round: int
    attempt: int
    outcome: Outcome
    head_root: Digest
    head_block: Digest
    workers_paid: int
    committee_paid: int
    miner_paid: int


@dataclass(frozen=True, slots=True)
class Credited(Event):
    """An account may claim more: a validator's, a miner's or a caller's pay."""

    account: Address
    amount: int


@dataclass(frozen=True, slots=True)
class Claimed(Event):
    """An account pulled what it earned."""

    account: Address
    amount: int
    rounds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Abandoned(Event):
    """The sponsor gives up; the task ends with the current round."""

    round: int


@dataclass(frozen=True, slots=True)
class TaskEnded(Event):
    """No further round follows."""

    round: int


@dataclass(frozen=True, slots=True)
class Refunded(Event):
    """The sponsor pulled what was left."""

    amount: int


# The stake registry's


@dataclass(frozen=True, slots=True)
class Deposited(Event):
    """Free stake grew by ether that was paid in."""

    account: Address
    amount: int


@dataclass(frozen=True, slots=True)
class Withdrawn(Event):
    """Free stake left."""

    account: Address
    to: Address
    amount: int


@dataclass(frozen=True, slots=True)
class Allocated(Event):
    """Free stake is now bonded to a task."""

    task: Address
    account: Address
    amount: int


@dataclass(frozen=True, slots=True)
class Deallocated(Event):
    """Bonded stake is now unbonding, claimed by `shares` of the pool."""

    task: Address
    account: Address
    request: int
    amount: int
    shares: int
    release_at: int


@dataclass(frozen=True, slots=True)
class Released(Event):
    """A request is done: this much unbonding stake is free."""

    task: Address
    account: Address
    request: int
    amount: int


@dataclass(frozen=True, slots=True)
class OperatorNamed(Event):
    """The account lets this key act for it in the task, once it has accepted; the zero address: nobody."""

    task: Address
    account: Address
    operator: Address


@dataclass(frozen=True, slots=True)
class Slashed(Event):
    """A task took stake: `from_bonded + from_unbonding = to_finder + to_escrow + burned`."""

    task: Address
    account: Address
    kind: Slash
    from_bonded: int
    from_unbonding: int
    finder: Address
    to_finder: int
    to_escrow: int
    burned: int


@dataclass(frozen=True, slots=True)
class PoolClosed(Event):
    """Slashes left next to nothing per share: all open requests are worth 0, the dust is bonded again."""

    task: Address
    account: Address
    returned: int


# The factory's


@dataclass(frozen=True, slots=True)
class TaskCreated(Event):
    """A task exists, with its escrow."""

    task_id: int
    task: Address
    sponsor: Address
    escrow: int
