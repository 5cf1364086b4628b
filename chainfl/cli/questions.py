"""What `chainfl compute` is asked: one model for each command."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Discriminator, Field, Strict, Tag, model_validator

from chainfl.cli.inputs import (
    ARRAY_TAG,
    NUMBER_TAG,
    PAIR_TAG,
    TEXT_TAG,
    AnyVector,
    Array,
    Integer,
    Octets,
    Question,
    Uint128,
    VectorQuestion,
    Word,
    WrongError,
    one_of,
)
from chainfl.codec.cid import Codec
from chainfl.protocol.rewards import PAID_CALLS
from chainfl.protocol.term_table import MAX_UPDATES, MIN_INTERNALS, TERM
from chainfl.protocol.terms import MAX_WEIGHT, rule_minimum
from chainfl.types import TOTAL, WAD, Id, Rule, Statistic, TaskConfig

CODECS: Final = {"raw": Codec.RAW, "dag-cbor": Codec.DAG_CBOR}

_UINT32 = 2**32 - 1
_UINT64 = 2**64 - 1
_RULES = {rule.name_text: rule for rule in Rule}
_STATISTICS = {statistic.name.lower(): statistic for statistic in Statistic}
_ELECTING = 'only "committee-near" and "committee-far" elect a committee'


def _distinct(ids: list[int]) -> list[int]:
    if len(ids) != len(set(ids)):
        raise WrongError("each id once")
    return ids


def _expect_committee(rule: Rule, size: int, appointed: Sequence[int] | None) -> None:
    """A committee is drawn or elected, and odd, or appointed, with any number of members from two."""
    if appointed is None and size % 2 == 0:
        raise WrongError(f'{size} is even; a committee is odd, unless it is "appointed"', "committee_size")
    if appointed is not None and rule.is_elected:
        raise WrongError(f"{rule.name_text} elects its committee", "appointed")
    if appointed is not None and len(appointed) != size:
        raise WrongError(f"{len(appointed)} ids for a committee of {size}", "appointed")


def _ascending(ids: list[int]) -> list[int]:
    if ids != sorted(set(ids)):
        raise WrongError("enrolment ids ascend, as the index of updates follows them")
    return ids


def _term(name: str, default: Any = ..., low: int | None = None) -> Any:
    """A field that is a term of the task: its bounds are those of the table of terms."""
    term = TERM[name]
    least = term.low if low is None else low
    return Field(default, ge=least, le=term.high, description=term.help)


RuleName = Annotated[Rule, one_of(_RULES)]
StatisticName = Annotated[Statistic, one_of(_STATISTICS)]
CommitteeSize = Annotated[Integer, Field(ge=MIN_INTERNALS, le=TERM["committee_size"].high)]
AccountId = Annotated[Integer, Field(ge=1, le=_UINT32)]
Members = Annotated[Array[AccountId], AfterValidator(_distinct)]
Weight = Annotated[Integer, Field(ge=0, le=MAX_WEIGHT)]
ScoreRow = Annotated[
    Annotated[Octets, Tag(TEXT_TAG)] | Annotated[Array[Uint128 | None], Tag(ARRAY_TAG)],
    Discriminator(lambda row: TEXT_TAG if isinstance(row, str) else ARRAY_TAG),
]
Weighed = Annotated[
    Annotated[tuple[AccountId, Weight], Strict(False), Tag(PAIR_TAG)] | Annotated[Weight, Tag(NUMBER_TAG)],
    Discriminator(lambda entry: PAIR_TAG if isinstance(entry, list) else NUMBER_TAG),
]


class RootQuestion(VectorQuestion):
    """A vector, and the leaf whose proof is wanted."""

    leaf: Integer = Field(0, ge=0)


class CombineQuestion(Question):
    """Models, and the shares that they have in the next one."""

    head: AnyVector | None = None
    updates: Array[AnyVector]
    shares: Array[Annotated[Integer, Field(ge=0, le=TOTAL)]]
    by: Annotated[str, one_of({"updates": "updates", "ranks": "ranks"})] = "updates"


class WeightsQuestion(Question):
    """A round's included updates, or their distances, and who is internal."""

    updates: Annotated[Array[AnyVector], Field(max_length=MAX_UPDATES)] = Field(default_factory=list)
    distances: Annotated[Array[Array[Uint128]], Field(max_length=MAX_UPDATES)] = Field(default_factory=list)
    internals: Array[bool]
    budget: Integer = Field(ge=0, le=_UINT64)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.has("updates") == self.has("distances"):
            raise WrongError('give either "updates" or "distances"')
        count = len(self.updates or self.distances)
        if count != len(self.internals):
            raise WrongError(f"{len(self.internals)} for {count} updates", "internals")
        return self


class CidQuestion(Question):
    """Bytes, or a record written as DAG-JSON."""

    octets: Octets = Field(b"", alias="bytes")
    codec: Annotated[Codec, one_of(CODECS)] = Codec.RAW
    record: Any = None

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if self.has("octets") == self.has("record"):
            raise WrongError('give either "bytes" or "record"')
        if self.has("record") and self.has("codec") and self.codec is not Codec.DAG_CBOR:
            raise WrongError('a record is "dag-cbor"; "raw" is for bytes', "codec")
        return self


class Judgement(Question):
    """What a committee said of a round's updates, and the terms that decide over it."""

    rule: RuleName = Rule.SOFTMAX
    committee_size: CommitteeSize
    appointed: Members = Field(default_factory=list)
    scores: Array[ScoreRow]
    updates: Integer = Field(0, ge=0, le=MAX_UPDATES)
    samples: Array[Annotated[Integer, Field(ge=1, le=_UINT64)]] = Field(default_factory=list)
    roots: Array[Word] = Field(default_factory=list)
    head_root: Word = bytes(32)
    ids: Annotated[Array[AccountId], AfterValidator(_ascending)] = Field(default_factory=list)
    weights: Array[Weight] = Field(default_factory=list)
    statistic: StatisticName = Statistic.MEDIAN
    beta: Integer = _term("beta", WAD)
    alpha: Integer = _term("alpha", WAD)
    tolerated: Integer = _term("tolerated", 0)
    keep: Integer = _term("keep", WAD, low=1)
    by_samples: bool = False
    unique_roots: bool = True
    min_updates: Integer = _term("min_updates", 1)
    dev_cap: Integer = _term("dev_cap", WAD)
    selected: Integer = _term("selected", 1, low=1)
    budget: Integer = _term("budget", 10)
    distances: Array[Array[Uint128]] = Field(default_factory=list)
    internals: Array[bool] = Field(default_factory=list)

    @model_validator(mode="after")
    def _has_a_fitting_committee(self) -> Self:
        _expect_committee(self.rule, self.committee_size, self.appointed if self.has("appointed") else None)
        return self

    @model_validator(mode="after")
    def _is_within_the_committee(self) -> Self:
        if not 1 <= len(self.scores) <= self.committee_size:
            raise WrongError(
                f"{len(self.scores)} members revealed, of a committee of {self.committee_size}; "
                f"give 1 to {self.committee_size}",
                "scores",
            )
        return self

    @model_validator(mode="after")
    def _says_once_who_is_internal(self) -> Self:
        if self.has("appointed") and self.has("internals"):
            raise WrongError('"appointed" says who is internal; give no "internals"', "internals")
        return self

    @model_validator(mode="after")
    def _has_the_updates_that_its_rule_needs(self) -> Self:
        least = max(1, rule_minimum(self.config()))
        if least > MAX_UPDATES:
            raise WrongError(
                f"the rule needs {least} updates; a round has at most {MAX_UPDATES}", "tolerated"
            )
        if self.has("min_updates") and self.min_updates < least:
            raise WrongError(f"{self.min_updates} is too small: the rule needs {least}", "min_updates")
        return self

    def config(self) -> TaskConfig:
        """The terms that decide over scores; the others are zero, for nothing here reads them."""
        unread: dict[str, Any] = dict.fromkeys(TERM, 0)
        read = {name: getattr(self, name) for name in TERM if name in type(self).model_fields}
        config = TaskConfig(**unread | read)
        least = max(1, rule_minimum(config))
        return config if self.has("min_updates") else replace(config, min_updates=least)


class Election(Judgement):
    """As a judgement, of a rule that elects its committee."""

    rule: RuleName = Rule.COMMITTEE_NEAR

    @model_validator(mode="after")
    def _elects(self) -> Self:
        if not self.rule.is_elected:
            raise WrongError(_ELECTING, "rule")
        return self


class DrawQuestion(Question):
    """Who may be drawn, from which seed."""

    seed: Word = b""
    chain_id: Integer = Field(0, ge=0, le=2**256 - 1)
    task: Octets = b""
    round: Integer = Field(1, ge=1, le=_UINT64)
    mix_hash: Word = b""
    weights: Array[Weighed]
    committee_size: CommitteeSize
    max_updates: Integer = _term("max_updates")
    rule: RuleName = Rule.SOFTMAX
    appointed: Members = Field(default_factory=list)
    internals_train: bool = False
    elected: Array[AccountId] | None = None

    @model_validator(mode="after")
    def _has_a_fitting_committee(self) -> Self:
        _expect_committee(self.rule, self.committee_size, self.appointed if self.has("appointed") else None)
        return self

    @model_validator(mode="after")
    def _has_one_seed(self) -> Self:
        for name in ("chain_id", "task", "round", "mix_hash"):
            if self.has("seed") and self.has(name):
                raise WrongError(f'give either "seed" or what makes it, not both "seed" and "{name}"')
            if not self.has("seed") and not self.has(name):
                raise WrongError('needed where no "seed" is given', name)
        return self

    @model_validator(mode="after")
    def _can_open(self) -> Self:
        if self.elected is not None and not self.rule.is_elected:
            raise WrongError(_ELECTING, "elected")
        ids = [id_ for id_, _ in self.pairs()]
        if ids != sorted(set(ids)):
            raise WrongError("ids ascend, each once", "weights")
        weights = dict(self.pairs())
        if any(not weights.get(Id(id_)) for id_ in self.appointed):
            raise WrongError("a committee has those alone who have a weight", "appointed")
        if self.internals_train and self.max_updates <= len(self.appointed):
            raise WrongError("give more than the committee trains", "max_updates")

        staked = sum(weight > 0 for weight in weights.values())
        least = 2 * self.committee_size if self.rule.is_elected else self.committee_size + 2
        if staked < least:
            raise WrongError(f"{staked} accounts have a weight; a draw opens with {least} or more", "weights")
        return self

    @property
    def sitting(self) -> list[Id] | None:
        """The committee where none is drawn; an appointed one stands in the order of its ids."""
        if self.has("appointed"):
            return [Id(id_) for id_ in sorted(self.appointed)]
        return None if self.elected is None else [Id(id_) for id_ in self.elected]

    @property
    def room(self) -> int:
        """How many others may send an update."""
        return self.max_updates - (len(self.appointed) if self.internals_train else 0)

    def pairs(self) -> list[tuple[Id, int]]:
        """Ids and weights; a weight alone belongs to the id of its place."""
        named = (each if isinstance(each, tuple) else (at, each) for at, each in enumerate(self.weights, 1))
        return [(Id(id_), weight) for id_, weight in named]


class RewardQuestion(Question):
    """A task's money, and who is to be paid in a round."""

    escrow: Integer = Field(ge=0, le=2**256 - 1)
    rounds: Integer = _term("rounds")
    caller_fee: Integer = Field(0, ge=0)
    workers_part: Integer = _term("workers_part")
    committee_part: Integer = _term("committee_part")
    shares: Array[Annotated[Integer, Field(ge=0, le=TOTAL)]] = Field(default_factory=list)
    included: Array[bool] = Field(default_factory=list)
    deviations: Array[Uint128] = Field(default_factory=list)
    outcome: Annotated[bool, one_of({"final": True, "void": False})] = True

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        most = self.escrow // self.rounds // PAID_CALLS
        if self.caller_fee > most:
            raise WrongError(f"{self.caller_fee} is too large: give at most {most}", "caller_fee")
        if self.workers_part + self.committee_part > WAD:
            raise WrongError(
                f"give at most {WAD - self.workers_part}, what the workers leave", "committee_part"
            )

        # Exactly one of the two: both could contradict each other.
        if self.has("shares") == self.has("included"):
            raise WrongError('give either "shares" or "included"')
        if self.has("shares") and (sum(self.shares) != TOTAL or self.shares[0] == TOTAL):
            raise WrongError(f"they sum to {sum(self.shares)}, not to 2^31 with a part for updates", "shares")
        return self
