"""The terms of a task, one entry each: unit, default, bounds, help, and how a sponsor decides it.

Options of the command line, the sponsor's defaults, the bounds of `check_config` and the inputs of `chainfl compute`
are made from this table; the specification, the API and the contract's struct are tested against it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from chainfl.codec.text import ETHER
from chainfl.types import WAD

BUDGET: Final = ETHER // 5
"""What a round may cost by default; half of the minimum stake backs twice as much."""
FEES_OF_A_BUDGET: Final = 1200
"""Twelve calls a round are paid at most, so that all of them take a hundredth of its budget."""

UNITS_PER_MIN_STAKE: Final = 1000
"""Weights in the stake tree count thousandths of the task's minimum stake, so that 2^32 of them go a long way."""
MAX_UPDATES: Final = 128
MAX_COMMITTEE: Final = 45
MIN_INTERNALS: Final = 2
MAX_SCORES: Final = 2048
MAX_PHASE_SECONDS: Final = 7 * 24 * 3600
"""Stake can be locked for as long as a round takes: at most twelve phases."""
MAX_BETA: Final = 10**21
MAX_LIVENESS_SLASH: Final = WAD // 100
MAX_NO_REVEAL_SLASH: Final = WAD // 20
MAX_FINDER_PART: Final = 3 * WAD // 10
MIN_BURN_PART: Final = WAD // 2

_UINT8 = 2**8 - 1
_UINT32 = 2**32 - 1
_UINT64 = 2**64 - 1
_UINT128 = 2**128 - 1


class Unit(Enum):
    """What a term's integer counts."""

    DIGEST = "32 bytes"
    NAME = "a name"
    FLAG = "true or false"
    COUNT = "a number"
    SECONDS = "seconds"
    WAD = "a fraction of 10^18"
    WEI = "wei"


class Source(Enum):
    """What decides a term."""

    MODEL = "the model and its manifest"
    RULE = "the text of the rule, such as fedrob:b=2,alpha=0.88"
    OPTION = "an option of its own"
    LIST = "the list of who may join"


@dataclass(frozen=True, slots=True)
class Term:
    """One term of a task.

    `low` and `high` hold for the field by itself; `bound` says in words what a sponsor has to keep to, other terms
    included. `usual` names a default that is not simply the number. `rule_keys` are the names by which the text of a
    rule sets the term.
    """

    name: str
    unit: Unit
    source: Source
    help: str
    default: int = 0
    low: int = 0
    high: int = _UINT128
    bound: str = ""
    usual: str = ""
    rule_keys: tuple[str, ...] = ()

    @property
    def option(self) -> str:
        """The flag that sets it, such as `--min-stake`."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def contract_name(self) -> str:
        """Its name in the contract and in the specification, such as `minStake`."""
        first, *rest = self.name.split("_")
        return first + "".join(word.title() for word in rest)

    @property
    def usual_value(self) -> int | bool:
        """The default, as what its unit says."""
        return bool(self.default) if self.unit is Unit.FLAG else self.default

    def fits(self, value: int) -> bool:
        """Whether the value is within the bounds of the field by itself."""
        return self.low <= value <= self.high


def _of_model(name: str, unit: Unit, help_: str, low: int = 0, high: int = _UINT128, bound: str = "") -> Term:
    return Term(name, unit, Source.MODEL, help_, 0, low, high, bound)


def _phase(name: str, default: int) -> Term:
    return Term(
        f"{name.lower()}_seconds",
        Unit.SECONDS,
        Source.OPTION,
        f"Length of {name}, in seconds",
        default,
        1,
        MAX_PHASE_SECONDS,
        "no less than the factory's floor",
        f"{default}, or the factory's floor",
    )


def _fraction(
    name: str, help_: str, default: int, high: int, bound: str, *, low: int = 0, usual: str = ""
) -> Term:
    return Term(name, Unit.WAD, Source.OPTION, help_, default, low, high, bound, usual)


def _decimal(wad: int) -> str:
    return f"{wad / WAD:g}"


TERMS: Final[tuple[Term, ...]] = (
    _of_model("manifest", Unit.DIGEST, "Digest inside the CID of the manifest"),
    _of_model("first_root", Unit.DIGEST, "Root of the first model"),
    _of_model("first_model", Unit.DIGEST, "Digest inside the CID of the first model's node"),
    _of_model("dimension", Unit.COUNT, "Parameters of the model", 1, _UINT32),
    _of_model("depth", Unit.COUNT, "Depth of the model's Merkle tree", 0, 26, "what the dimension asks for"),
    Term(
        "scale",
        Unit.COUNT,
        Source.OPTION,
        "Fractional bits of a parameter",
        default=20,
        low=0,
        high=31,
        bound="0 to 31",
    ),
    Term("rule", Unit.NAME, Source.RULE, "Aggregation rule, such as softmax or fedrob:b=2,alpha=0.88"),
    Term(
        "statistic",
        Unit.NAME,
        Source.RULE,
        "How scores of one update become one: median or mean",
        rule_keys=("mean",),
    ),
    Term(
        "beta",
        Unit.WAD,
        Source.RULE,
        "Sharpness of the softmax",
        default=WAD,
        low=0,
        high=MAX_BETA,
        bound=f"at most {MAX_BETA // WAD}",
        rule_keys=("beta",),
    ),
    Term(
        "alpha",
        Unit.WAD,
        Source.RULE,
        "Part of the updates in the next model; the head keeps the rest",
        default=WAD,
        low=1,
        high=WAD,
        bound="more than 0, at most 1, and enough to give every update a share",
        rule_keys=("alpha",),
    ),
    Term(
        "tolerated",
        Unit.COUNT,
        Source.RULE,
        "Hostile updates that fedrob (b) and krum (f) tolerate",
        default=1,
        low=0,
        high=_UINT8,
        rule_keys=("b", "f"),
    ),
    Term(
        "selected",
        Unit.COUNT,
        Source.RULE,
        "Updates that multi-krum selects (m)",
        default=0,
        low=0,
        high=MAX_UPDATES,
        bound="at least 1 and no more than the fewest updates",
        usual="the fewest updates",
        rule_keys=("m",),
    ),
    Term(
        "keep",
        Unit.WAD,
        Source.RULE,
        "Part of the updates that committee-near and committee-far keep",
        default=4 * WAD // 10,
        low=0,
        high=WAD,
        bound="more than 0, at most 1",
        rule_keys=("keep",),
    ),
    Term(
        "by_samples",
        Unit.FLAG,
        Source.RULE,
        "Shares also follow the declared samples",
        default=0,
        low=0,
        high=1,
        rule_keys=("samples",),
    ),
    Term(
        "unique_roots",
        Unit.FLAG,
        Source.RULE,
        "Of updates with the same root only the first counts",
        default=1,
        low=0,
        high=1,
        rule_keys=("unique",),
    ),
    Term(
        "committee_size",
        Unit.COUNT,
        Source.OPTION,
        "Validators of a round, an odd number",
        default=3,
        low=3,
        high=MAX_COMMITTEE,
        bound=f"an odd number from 3 to {MAX_COMMITTEE}; of an appointed committee the most, from {MIN_INTERNALS}",
    ),
    Term(
        "redraw_every",
        Unit.COUNT,
        Source.RULE,
        "Every so many rounds an elected committee is drawn instead",
        default=10,
        low=1,
        high=_UINT64,
        bound="at least 1",
        rule_keys=("redraw",),
    ),
    Term(
        "min_updates",
        Unit.COUNT,
        Source.OPTION,
        "Fewest updates of a round; more where the rule needs more",
        default=3,
        low=1,
        high=MAX_UPDATES,
        bound="no more than --max-updates",
    ),
    Term(
        "max_updates",
        Unit.COUNT,
        Source.OPTION,
        "Most updates of a round",
        default=20,
        low=1,
        high=MAX_UPDATES,
        bound=f"1 to {MAX_UPDATES}, and no more than {MAX_SCORES} in all for the whole committee",
    ),
    Term(
        "max_samples",
        Unit.COUNT,
        Source.OPTION,
        "Most samples a worker may declare",
        default=10**9,
        low=1,
        high=_UINT64,
        bound="at least 1",
    ),
    Term(
        "rounds",
        Unit.COUNT,
        Source.OPTION,
        "Number of rounds",
        default=5,
        low=1,
        high=_UINT64,
        bound="at least 1",
    ),
    _fraction(
        "target",
        "End the task once the committee's loss is this low",
        0,
        _UINT128 - 1,
        f"a loss below {_UINT128 / WAD:.1e}",
        usual="never",
    ),
    Term(
        "min_stake",
        Unit.WEI,
        Source.OPTION,
        "Ether that a participant must stake",
        default=ETHER,
        low=UNITS_PER_MIN_STAKE,
        high=_UINT128,
        bound=f"at least {UNITS_PER_MIN_STAKE} wei",
    ),
    _phase("Train", 60),
    _phase("Reveal", 30),
    _phase("Score", 60),
    _phase("Tally", 30),
    _phase("Propose", 30),
    _phase("Challenge", 10),
    _fraction(
        "workers_part",
        "Fraction of a round's budget for the workers",
        6 * WAD // 10,
        WAD,
        "no more than 1 together with --committee-part",
    ),
    _fraction(
        "committee_part",
        "Fraction of a round's budget for the committee; the miner gets the rest",
        3 * WAD // 10,
        WAD,
        "no more than 1 together with --workers-part",
    ),
    Term(
        "caller_fee",
        Unit.WEI,
        Source.OPTION,
        "Ether paid for each call that moves a round on",
        default=BUDGET // FEES_OF_A_BUDGET,
        bound="twelve of them within a round's budget",
        usual=f"a {FEES_OF_A_BUDGET}th of a round's budget",
    ),
    _fraction("dev_cap", "Largest deviation of a validator's scores that counts", WAD, _UINT128, ""),
    _fraction(
        "lie_slash",
        "Fraction slashed for a proven lie",
        WAD // 2,
        WAD,
        "at most 1, and of the minimum stake at least two rounds' budgets",
    ),
    _fraction(
        "liveness_slash",
        "Fraction slashed for a missed deadline",
        MAX_LIVENESS_SLASH,
        MAX_LIVENESS_SLASH,
        f"at most {_decimal(MAX_LIVENESS_SLASH)}",
    ),
    _fraction(
        "no_reveal_slash",
        "Fraction slashed for an unrevealed commitment",
        MAX_NO_REVEAL_SLASH,
        MAX_NO_REVEAL_SLASH,
        f"at most {_decimal(MAX_NO_REVEAL_SLASH)}",
    ),
    _fraction(
        "finder_part",
        "Fraction of a proven lie's slash that the finder gets",
        WAD // 5,
        MAX_FINDER_PART,
        f"at most {_decimal(MAX_FINDER_PART)}",
    ),
    _fraction(
        "burn_part",
        "Fraction of a lie's slash that is burned",
        WAD // 2,
        WAD,
        f"at least {_decimal(MIN_BURN_PART)}, and no more than the finder leaves",
        low=MIN_BURN_PART,
    ),
    Term("admission_root", Unit.DIGEST, Source.LIST, "Root of the list of who may join; zero: everybody may"),
    Term(
        "min_internals",
        Unit.COUNT,
        Source.OPTION,
        "Fewest internals of an appointed committee; 0: the committee is drawn or elected",
        default=0,
        low=0,
        high=MAX_COMMITTEE,
        bound="0, or 2 up to --committee-size, with internals on the list, and a rule that does not elect",
    ),
    Term(
        "internals_train",
        Unit.FLAG,
        Source.OPTION,
        "An appointed committee trains too, and its updates count",
        default=0,
        low=0,
        high=1,
        bound="only with --min-internals, and --max-updates above --committee-size",
        usual="yes with --internals, else no",
    ),
    Term(
        "budget",
        Unit.COUNT,
        Source.RULE,
        "What external updates count for at most under varsel, in internal updates",
        default=10,
        low=0,
        high=_UINT8,
        rule_keys=("budget",),
    ),
)
"""In the order of `TaskConfig` and of the contract's struct."""

TERM: Final[Mapping[str, Term]] = {term.name: term for term in TERMS}
"""Every term by its name."""
