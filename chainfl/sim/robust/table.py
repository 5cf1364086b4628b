"""The table of all rules: what each is called, takes and needs, and what a chain can prove of it. One copy.

Reading it loads neither numpy nor torch. A rule is written `name:key=number,…`; pre-aggregations stand before it with
a plus: `nnm:f=4+median`. Rules that a contract plays are in it too, as far as they may stand behind a plus.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Final

from chainfl import names
from chainfl.errors import InputError
from chainfl.protocol.terms import parse_rule as parse_chain_rule
from chainfl.protocol.terms import values_of
from chainfl.types import Rule


class Proof(StrEnum):
    """What a contract can prove of a rule's result."""

    FIXED = "fixed shares"
    ATTESTED = "attested shares"
    NONE = "not at all"


@dataclass(frozen=True, slots=True)
class Entry:
    """One rule of the simulator's own: its parameters, what a chain can prove, its paper, its least inputs.

    It takes at least needs_f·f + needs inputs. `chassis` is the rule by which the ledger plays the round: with losses
    (softmax) or with vouches only (mean). `is_mixing`: its result is a mix of its inputs.
    """

    name: str
    proof: Proof
    paper: str
    values: Mapping[str, float] = field(default_factory=dict)
    needs_f: int = 0
    needs: int = 1
    chassis: str = "mean:unique=0"
    is_mixing: bool = True

    def least(self, values: Mapping[str, float]) -> int:
        """The fewest inputs it is defined for."""
        return self.needs_f * int(values.get("f", values.get("b", 0))) + self.needs


_A = Proof.ATTESTED
_N = Proof.NONE

PRE: Final[Mapping[str, Entry]] = {
    each.name: each
    for each in (
        Entry("nnm", _A, "Allouah et al., AISTATS 2023", {"f": 1}, needs_f=2),
        Entry("bucketing", _A, "Karimireddy, He, Jaggi, ICLR 2022", {"s": 2}),
        Entry("arc", _A, "Allouah et al., ICLR 2025", {"f": 1}, needs_f=2),
        Entry("norm-clip", _A, "Sun et al., 2019", {"tau": 0}),
    )
}
"""What may stand before a plus."""

OWN: Final[dict[str, Entry]] = {
    each.name: each
    for each in (
        Entry(
            "geometric-median",
            _A,
            "Pillutla, Kakade, Harchaoui, IEEE TSP 2022",
            {"nu": 1e-6, "iterations": 32},
        ),
        Entry("centred-clipping", _A, "Karimireddy, He, Jaggi, ICML 2021", {"tau": 0, "iterations": 3}),
        Entry("bulyan", _N, "El Mhamdi et al., ICML 2018", {"f": 1}, needs_f=4, needs=3, is_mixing=False),
        Entry(
            "dnc",
            _A,
            "Shejwalkar, Houmansadr, NDSS 2021",
            {"f": 1, "c": 1, "iterations": 5, "sample": 10_000},
            needs_f=2,
        ),
        Entry("fltrust", _A, "Cao et al., NDSS 2021", {"samples": 100}),
        Entry("flame", _N, "Nguyen et al., USENIX Security 2022", {"noise": 0.001}),
        Entry("foolsgold", _A, "Fung, Yoon, Beschastnikh, RAID 2020"),
        Entry("norm-clipping", _A, "Sun et al., 2019", {"tau": 0}),
        Entry("softmax-spread", Proof.FIXED, "docs/robust.md", {"sharpness": 1}, chassis="softmax"),
    )
}
"""Rules that only the simulator plays."""

BEHIND: Final[Mapping[str, Entry]] = {
    each.name: each
    for each in (
        Entry("mean", Proof.FIXED, "McMahan et al., AISTATS 2017"),
        Entry("median", Proof.FIXED, "Yin et al., ICML 2018", is_mixing=False),
        Entry("fedrob", Proof.FIXED, "Xie et al.", {"b": 1}, needs_f=2, is_mixing=False),
        Entry("krum", _A, "Blanchard et al., NeurIPS 2017", {"f": 1}, needs_f=2, needs=3),
        Entry("multi-krum", _A, "Blanchard et al., NeurIPS 2017", {"f": 1, "m": 0}, needs_f=2, needs=3),
    )
}
"""Rules of the chain that may stand behind a plus; alone they are the chain's."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One rule or pre-aggregation of a pipeline with its parameters."""

    entry: Entry
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What the simulator does to the updates of a round: pre-aggregations, then a rule."""

    text: str
    before: tuple[Stage, ...]
    last: Stage

    @property
    def proof(self) -> Proof:
        """Mixes of mixes stay mixes, whose shares can be attested; a rule on parameters of mixes has no proof."""
        if not self.before:
            return self.last.entry.proof
        return _A if self.last.entry.is_mixing and self.last.entry.proof is not _N else _N

    @property
    def least(self) -> int:
        """The fewest updates it is defined for; buckets need that many times their size."""
        least = self.last.entry.least(self.last.values)
        for stage in reversed(self.before):
            if stage.entry.name == "bucketing":
                size = int(stage.values["s"])
                least = (least - 1) * size + 1
            least = max(least, stage.entry.least(stage.values))
        return least


def pipeline_of(text: str) -> Pipeline | None:
    """What the simulator plays for a rule's text; None where the chain's own rules play it.

    Raises:
        UnknownNameError: no such rule or parameter; lists the known ones.
        InputError: a parameter or an order of stages means nothing.
    """
    *before, last = text.split("+")
    if not before and last.partition(":")[0] not in OWN:
        parse_with_known(last)
        return None

    stages = tuple(_stage("pre-aggregation", each, PRE) for each in before)
    final = _stage("rule", last, {**OWN, **BEHIND})
    if stages and final.entry.name in ("foolsgold", "softmax-spread"):
        raise InputError(f"rule {text!r}: {final.entry.name} judges workers, so nothing can stand before it")
    return Pipeline(text, stages, final)


def parse_with_known(text: str) -> Rule:
    """A rule of the chain; the refusal of an unknown one lists the simulator's own too."""
    name = text.partition(":")[0]
    known = {rule.name_text for rule in Rule} | set(OWN)
    if name in PRE:
        raise InputError(f"{name} stands before a rule: write {text}+mean or {text}+median")
    if name not in known:
        raise names.unknown("rule", name, known)
    rule, _ = parse_chain_rule(text)
    return rule


def ledger_rule(text: str) -> str:
    """The rule by which the ledger plays the round: the text itself where it is the chain's own."""
    pipeline = pipeline_of(text)
    return text if pipeline is None else pipeline.last.entry.chassis


def chain_proof(rule: Rule) -> Proof:
    """What the contract proves of its own rules."""
    return Proof.ATTESTED if rule.is_attested else Proof.FIXED


def _stage(kind: str, text: str, known: Mapping[str, Entry]) -> Stage:
    name, values = names.parse_call(kind, text, {each: entry.values for each, entry in known.items()})
    _check(text, values)
    return Stage(known[name], values)


_WHOLE: Final = ("f", "b", "m", "s", "iterations", "sample", "samples")
_FROM_ONE: Final = ("s", "iterations", "sample", "samples")


def _check(text: str, values: Mapping[str, float]) -> None:
    for key, value in values.items():
        least = 1 if key in _FROM_ONE else 0
        if not least <= value < 1e12:
            raise InputError(f"rule {text!r}: {key} must be a number of at least {least}, not {value:g}")
        if key in _WHOLE and value != int(value):
            raise InputError(f"rule {text!r}: {key} must be a whole number, not {value:g}")
        if key == "nu" and value == 0:
            raise InputError(f"rule {text!r}: nu must be above 0")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the list of rules."""

    name: str
    parameters: str
    plays_on: str
    proof: str
    paper: str

    def as_plain(self) -> dict[str, str]:
        """The line as JSON holds it."""
        return asdict(self)


def all_rules() -> list[Row]:
    """Every rule: the chain's, the simulator's own, and what may stand before one."""
    chain = [
        Row(rule.name_text, _as_typed(values_of(rule)), "chain", chain_proof(rule).value, "docs/protocol.md")
        for rule in Rule
    ]
    own = [_row(entry.name, entry, "simulator") for entry in OWN.values()]
    before = [_row(f"{entry.name}+", entry, "simulator") for entry in PRE.values()]
    return [*chain, *own, *before]


def _row(name: str, entry: Entry, plays_on: str) -> Row:
    return Row(name, _as_typed(entry.values), plays_on, entry.proof.value, entry.paper)


def _as_typed(values: Mapping[str, float]) -> str:
    """Parameters with what holds without them, as they are written behind a rule's name."""
    return ",".join(f"{key}={value:g}" for key, value in values.items())
