"""The nouns of a task: what the contract keeps, as values (docs/protocol.md 1).

An action works on a draft of the state, as a transaction does on chain: `draft()` copies, and whoever drives the rules
keeps the draft only if nothing was raised. There is no clock: `Call` carries sender, time and block number.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from chainfl.codec.commitments import keccak256
from chainfl.protocol.draw import Drawn
from chainfl.protocol.events import Event
from chainfl.protocol.shared import SharedList, SharedMap
from chainfl.protocol.weights import Weights
from chainfl.types import Address, Digest, Id, Phase, Role, Slash, TaskConfig

NO_SCORE = 2**128 - 1
"""The head's score where no majority gave one."""
ZERO_DIGEST = Digest(bytes(32))
NO_ID = Id(0)
NO_ADDRESS = Address(bytes(20))
FOR_GOOD = 2**48 - 1
"""A round that never comes."""


@dataclass(frozen=True, slots=True)
class Call:
    """Who acts, when."""

    sender: Address
    now: int
    block_number: int


@dataclass(frozen=True, slots=True)
class Slashed:
    """What a slash took, and where it went besides the burn."""

    amount: int
    to_escrow: int


class Stakes(Protocol):
    """What a task needs of the stake registry."""

    def stake_of(self, account: Address, task: Address) -> int:
        """Stake allocated to the task and not unbonding."""
        ...

    def operator_of(self, account: Address, task: Address) -> Address:
        """Whom the account lets act for it in the task; the zero address: nobody."""
        ...

    def slash(self, account: Address, task: Address, kind: Slash, finder: Address | None) -> Slashed:
        """Take the task's fraction of the account's stake."""
        ...


@dataclass(frozen=True, slots=True)
class Account:
    """An enrolled account. `missed` counts how often in a row it was noted as absent, the last time in `absent_in`."""

    id: Id
    address: Address
    is_enrolled: bool
    weight: int
    active_from: int
    missed: int = 0
    absent_in: int = 0


class Accounts(SharedMap[Address, Account]):
    """All accounts by address, and what they weigh in the draw: kept up to date, never counted again."""

    __slots__ = ("weights",)

    def __init__(self, items: Mapping[Address, Account] | Iterable[tuple[Address, Account]] = ()) -> None:
        """These accounts."""
        self.weights = Weights()
        super().__init__(items)

    def copy(self) -> "Accounts":
        """The same accounts; changes of one are not seen in the other."""
        made = super().copy()
        assert isinstance(made, Accounts)
        made.weights = Weights.of(self.weights)
        return made

    def __setitem__(self, address: Address, account: Account) -> None:
        super().__setitem__(address, account)
        if account.weight != self.weights.weight(account.id):
            self.weights.set(account.id, account.weight)


@dataclass(frozen=True, slots=True)
class Operator:
    """For whom a key acts: from round `since` until before round `until`, `FOR_GOOD`: until further notice."""

    owner: Address
    since: int
    until: int = FOR_GOOD


@dataclass(frozen=True, slots=True)
class RevealedUpdate:
    """What a worker opened its commitment to: the update's root, its model node's digest, its sample count."""

    root: Digest
    cid: Digest
    samples: int


@dataclass(frozen=True, slots=True)
class Update:
    """A worker's commitment, and what it revealed."""

    commitment: Digest
    revealed: RevealedUpdate | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """A validator's commitment, and what it revealed."""

    commitment: Digest
    revealed: bytes | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """What the scores decided. `shares` has p_0 first, then one per revealed update (on ranks: per rank).

    `withheld` are the updates that a majority says it could not get; `is_head_withheld` says the same of the head.
    `elected` is the next committee, where the rule elects one and enough workers can be elected.
    """

    included: tuple[bool, ...]
    shares: tuple[int, ...]
    deviations: dict[Id, int]
    head_score: int
    withheld: tuple[bool, ...]
    is_head_withheld: bool
    elected: tuple[Id, ...] | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a proposer posted."""

    proposer: Id
    model_root: Digest
    block: Digest
    shares: tuple[int, ...]

    @property
    def shares_digest(self) -> Digest:
        """Names posted shares; zero where the contract decided them."""
        if not self.shares:
            return ZERO_DIGEST
        return keccak256(b"".join(share.to_bytes(32, "big") for share in self.shares))


@dataclass(frozen=True, slots=True)
class Pay:
    """How the workers of a round are paid: part i of `parts` over `whole`, of the workers' budget."""

    workers: dict[Id, int]
    whole: int


@dataclass(frozen=True, slots=True)
class OlderHead:
    """The head before the current one: where a majority that cannot get the current one goes back to.

    `votes` are those on it; `voids` are the rounds since it that will have left no model, if it becomes head again.
    """

    root: Digest
    block: Digest
    votes: tuple[tuple[Id, bool], ...]
    voids: tuple[int, ...]


@dataclass(slots=True)
class Round:
    """One pass of the protocol over the task."""

    number: int
    attempt: int = 0
    phase: Phase = Phase.DRAW
    deadline: int = 0
    draw_block: int = 0
    extended: bool = False
    drawn: Drawn | None = None
    seed: Digest = ZERO_DIGEST
    expected: int = 0
    updates: dict[Id, Update] = field(default_factory=dict)
    order: tuple[Id, ...] = ()
    scores: dict[Id, Scores] = field(default_factory=dict)
    tally: Tally | None = None
    turns: tuple[Id, ...] = ()
    proposer: Id = NO_ID
    proposal: Proposal | None = None
    votes: dict[Id, bool] = field(default_factory=dict)
    convicted: frozenset[Id] = frozenset()
    absent: frozenset[Id] = frozenset()
    announced: tuple[Event, ...] = field(default=(), compare=False)
    """Who was silent and who was paid since the phase began, as events say; for `cross_check`, not for the rules."""

    @property
    def committee(self) -> tuple[Id, ...]:
        """This round's validators, in the order drawn or elected."""
        return self.drawn.committee if self.drawn else ()

    @property
    def decided(self) -> Tally:
        """The tally of a round that has one."""
        assert self.tally is not None
        return self.tally

    @property
    def posted(self) -> Proposal:
        """The proposal of a round in which one stands."""
        assert self.proposal is not None
        return self.proposal

    def revealed(self, id_: Id) -> RevealedUpdate:
        """What a worker who has an index revealed."""
        revealed = self.updates[id_].revealed
        assert revealed is not None
        return revealed

    def draft(self) -> "Round":
        """A copy that can be changed without touching this one."""
        return replace(self, updates=dict(self.updates), scores=dict(self.scores), votes=dict(self.votes))


@dataclass(slots=True)
class Task:
    """One training task: its terms, its participants, its running round and its money."""

    chain_id: int
    address: Address
    task_id: int
    sponsor: Address
    config: TaskConfig
    funded: int
    escrow: int
    round: Round
    head_root: Digest
    seed_delay: int
    head_block: Digest = ZERO_DIGEST
    head_votes: tuple[tuple[Id, bool], ...] = ()
    voids: tuple[int, ...] = ()
    older_head: OlderHead | None = None
    owed: int = 0
    ending: bool = False
    elected: tuple[Id, ...] | None = None
    elected_at: int = 0
    eligible: int = 0
    total_weight: int = 0
    accounts: Accounts = field(default_factory=Accounts)
    addresses: SharedList[Address] = field(default_factory=SharedList)
    roles: SharedMap[Address, Role] = field(default_factory=SharedMap)
    """As what the list of who may join admitted an account; empty where there is none."""
    operators: SharedMap[Address, Operator] = field(default_factory=SharedMap)
    operator_of: SharedMap[Address, Address] = field(default_factory=SharedMap)
    """The key that an owner has from the next draw on."""
    credits: SharedMap[Address, int] = field(default_factory=SharedMap)
    pays: SharedMap[int, Pay] = field(default_factory=SharedMap)
    claimed: set[tuple[int, Id]] = field(default_factory=set)
    notes: SharedMap[Digest, int] = field(default_factory=SharedMap)
    events: list[Event] = field(default_factory=list)

    def draft(self) -> "Task":
        """A copy that can be changed without touching this one; it shares what it does not change.

        Its list of events starts empty.
        """
        copy = self._with_own_people()
        copy.credits = self.credits.copy()
        copy.pays = self.pays.copy()
        copy.claimed = set(self.claimed)
        copy.notes = self.notes.copy()
        return copy

    def trial(self) -> "Task":
        """A draft for one action without earnings yet: what the action adds can be read off it."""
        copy = self._with_own_people()
        copy.credits = SharedMap()
        copy.pays = SharedMap()
        return copy

    def _with_own_people(self) -> "Task":
        """A copy with its own round, participants and list of events; its money is still shared with this one."""
        return replace(
            self,
            round=self.round.draft(),
            accounts=self.accounts.copy(),
            addresses=self.addresses.copy(),
            roles=self.roles.copy(),
            operators=self.operators.copy(),
            operator_of=self.operator_of.copy(),
            events=[],
        )

    def at_creation(self) -> "Task":
        """The same task before anything happened to it."""
        return new_task(
            self.chain_id,
            self.address,
            self.task_id,
            self.sponsor,
            self.config,
            self.funded,
            self.seed_delay,
        )

    def by_id(self, id_: Id) -> Account:
        """The account with this enrolment id."""
        return self.accounts[self.addresses[id_ - 1]]


def new_task(
    chain_id: int,
    address: Address,
    task_id: int,
    sponsor: Address,
    config: TaskConfig,
    escrow: int,
    seed_delay: int,
) -> Task:
    """A task as its creation leaves it: waiting for enough participants to draw its first round.

    `seed_delay` is the factory's: how many blocks after the opening of a draw the one lies whose header seeds it.
    """
    return Task(
        chain_id, address, task_id, sponsor, config, escrow, escrow, Round(1), config.first_root, seed_delay
    )
