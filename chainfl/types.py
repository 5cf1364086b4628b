"""The nouns of rules, roles, ledgers and records. Immutable values, integers and bytes only."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import NewType

Address = NewType("Address", bytes)
"""Twenty bytes."""
Id = NewType("Id", int)
"""An account's enrolment id in one task: 1, 2, 3 … in order of first enrolment, kept for ever."""
Digest = bytes
"""Thirty-two bytes that name something: a root, the digest inside a CID, a commitment, a seed."""
OnProgress = Callable[[str], None]
"""Receives one line about how far a long piece of work has come."""

WAD = 10**18
"""One, in the fixed-point unit of contract parameters."""
TOTAL = 2**31
"""What the shares of a round add up to."""


class Phase(IntEnum):
    """Where a round stands. The number is the `phaseTag` of commitments and the contract's enum value."""

    DRAW = 0
    TRAIN = 1
    REVEAL = 2
    SCORE = 3
    TALLY = 4
    PROPOSE = 5
    CHALLENGE = 6
    ENDED = 7


class Outcome(IntEnum):
    """How a round ended."""

    OPEN = 0
    FINAL = 1
    VOID = 2


class Rule(IntEnum):
    """How the updates of a round become shares (docs/protocol.md section 7)."""

    SOFTMAX = 0
    SOFTMAX_ACCURACY = 1
    COMMITTEE_NEAR = 2
    COMMITTEE_FAR = 3
    MEAN = 4
    FEDAVG = 5
    FEDREG = 6
    FEDROB = 7
    MEDIAN = 8
    KRUM = 9
    MULTI_KRUM = 10
    VARSEL = 11

    @property
    def is_softmax(self) -> bool:
        """Shares are a softmax of the committee's scores."""
        return self in (Rule.SOFTMAX, Rule.SOFTMAX_ACCURACY)

    @property
    def is_elected(self) -> bool:
        """The committee trains too, scores by squared distance, and elects its successor (CMFL)."""
        return self in (Rule.COMMITTEE_NEAR, Rule.COMMITTEE_FAR)

    @property
    def is_on_ranks(self) -> bool:
        """Shares belong to the ranks of each parameter, not to updates."""
        return self in (Rule.FEDROB, Rule.MEDIAN)

    @property
    def is_attested(self) -> bool:
        """The proposer posts the shares and the committee's majority vouches for them."""
        return self in (Rule.KRUM, Rule.MULTI_KRUM, Rule.VARSEL)

    @property
    def name_text(self) -> str:
        """The name people write: `committee-near`."""
        return self.name.lower().replace("_", "-")


class Role(IntEnum):
    """As what an account was admitted to a task that has a list of who may join (docs/protocol.md 3.2)."""

    NONE = 0
    PARTICIPANT = 1
    INTERNAL = 2


class Statistic(IntEnum):
    """How a committee's scores of one update become one number."""

    MEDIAN = 0
    MEAN = 1


class Slash(IntEnum):
    """Why stake is taken."""

    LIVENESS = 0
    NO_REVEAL = 1
    LIE = 2


@dataclass(frozen=True, slots=True)
class TaskConfig:
    """The frozen terms of a task, in the order of the contract's struct (docs/protocol.md section 4)."""

    manifest: Digest
    first_root: Digest
    first_model: Digest
    dimension: int
    depth: int
    scale: int
    rule: Rule
    statistic: Statistic
    beta: int
    alpha: int
    tolerated: int
    selected: int
    keep: int
    by_samples: bool
    unique_roots: bool
    committee_size: int
    redraw_every: int
    min_updates: int
    max_updates: int
    max_samples: int
    rounds: int
    target: int
    min_stake: int
    train_seconds: int
    reveal_seconds: int
    score_seconds: int
    tally_seconds: int
    propose_seconds: int
    challenge_seconds: int
    workers_part: int
    committee_part: int
    caller_fee: int
    dev_cap: int
    lie_slash: int
    liveness_slash: int
    no_reveal_slash: int
    finder_part: int
    burn_part: int
    admission_root: Digest = bytes(32)
    min_internals: int = 0
    internals_train: bool = False
    budget: int = 0

    @property
    def is_appointed(self) -> bool:
        """The committee is not drawn: it is all internals with stake (docs/protocol.md 3.3)."""
        return self.min_internals > 0

    def longest_round(self) -> int:
        """Seconds a round can take with Train extended and all three proposers used."""
        once = 2 * self.train_seconds + self.reveal_seconds + self.score_seconds + self.tally_seconds
        return once + 3 * (self.propose_seconds + self.challenge_seconds)

    def as_tuple(self) -> tuple[object, ...]:
        """The values in struct order, as an ABI encoder takes them."""
        return tuple(getattr(self, field.name) for field in fields(self))
