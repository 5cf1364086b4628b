"""An experiment as one value: data, model, recipe, rule, people and seed. Whoever has it can repeat the run."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

from chainfl.errors import InputError
from chainfl.learning import names
from chainfl.learning.attacks import hostile_count, validator_attack, worker_attack
from chainfl.learning.train import Recipe
from chainfl.types import Rule

RULE_VALUES: Final[Mapping[str, float]] = {
    "alpha": 1.0,
    "b": 1,
    "beta": 1.0,
    "f": 1,
    "keep": 0.4,
    "m": 0,
    "mean": 0,
    "redraw": 10,
    "samples": 0,
    "unique": 1,
}
"""What may follow a rule's name, and what holds without it (docs/simulator.md, "Rules")."""
COMMITTEE_LIMITS: Final = ("half", "none")
STAKES: Final = ("samples", "equal")
STOPS: Final = ("rounds", "sabfl")


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is trained on what, by whom, under which rule, and who is hostile.

    `hostile` is the part of the participants that is hostile in every role it gets; with `hostile_workers` exactly that
    many of each round's workers are poisoned instead. `stop` ends the run early (`sabfl`: docs/simulator.md).
    """

    dataset: str = "mnist-embedded"
    partition: str = "iid"
    model: str = "mnist-mlp-small"
    recipe: Recipe = field(default_factory=lambda: Recipe(learning_rate=0.1))
    rule: str = "softmax"
    participants: int = 20
    committee: int = 5
    min_updates: int = 1
    max_updates: int = 0
    rounds: int = 20
    hostile: float = 0.0
    hostile_workers: int = 0
    worker_attack: str = "label-flip"
    validator_attack: str = "flipped-scorer"
    max_hostile_committee: str = "half"
    stakes: str = "samples"
    stop: str = "rounds"
    score_samples: int = 300
    test_samples: int = 0
    scale: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        parse_rule(self.rule)
        worker_attack(self.worker_attack)
        validator_attack(self.validator_attack)
        for name, known in (
            ("max_hostile_committee", COMMITTEE_LIMITS),
            ("stakes", STAKES),
            ("stop", STOPS),
        ):
            if getattr(self, name) not in known:
                raise InputError(f"{name} is {getattr(self, name)!r}; there are: {', '.join(known)}")
        for name, least in (
            ("participants", 1),
            ("rounds", 1),
            ("score_samples", 1),
            ("min_updates", 1),
            ("max_updates", 0),
            ("hostile_workers", 0),
            ("test_samples", 0),
            ("seed", 0),
        ):
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if self.committee < 3 or self.committee % 2 == 0:
            raise InputError(f"a committee has an odd size of at least 3, not {self.committee}")
        hostile_count(self.participants, self.hostile)
        if self.workers < 1:
            raise InputError(
                f"{self.participants} participants leave nobody to work beside a committee of {self.committee}"
                f"{'' if self.elects else ' and a miner'}: take more participants or a smaller committee"
            )
        if self.hostile_workers > self.workers:
            raise InputError(f"{self.hostile_workers} hostile workers, but a round has only {self.workers}")

    @property
    def elects(self) -> bool:
        """Whether the committee trains too and elects its successor."""
        return parse_rule(self.rule)[0].is_elected

    @property
    def workers(self) -> int:
        """How many can work in a round: all but committee and miner, or as many as `max_updates` lets in."""
        rest = self.participants - self.committee - (0 if self.elects else 1)
        return min(rest, self.max_updates) if self.max_updates else rest

    @property
    def hostile_participants(self) -> int:
        """How many participants are hostile."""
        return hostile_count(self.participants, self.hostile)


def parse_rule(text: str) -> tuple[Rule, dict[str, float]]:
    """A rule and all its parameters from text such as `fedrob:b=2,alpha=0.88`.

    Raises:
        UnknownNameError: no such rule or parameter; lists the known ones.
    """
    rules = {rule.name_text: rule for rule in Rule}
    name, values = names.parse_call("rule", text, dict.fromkeys(rules, RULE_VALUES))
    return rules[name], values


def as_plain(experiment: Experiment) -> dict[str, Any]:
    """The experiment as JSON holds it."""
    return asdict(experiment)


def from_plain(values: Mapping[str, Any]) -> Experiment:
    """An experiment back from JSON.

    Raises:
        InputError: a field is missing, unknown or of another kind.
    """
    try:
        return Experiment(**{**values, "recipe": Recipe(**values["recipe"])})
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(f"this is no experiment: {error}") from None


def with_changes(experiment: Experiment, changes: Mapping[str, Any]) -> Experiment:
    """The experiment with what a caller gave; None means not given. Names of the recipe are taken too."""
    given = {name: value for name, value in changes.items() if value is not None}
    recipe_names = {each.name for each in fields(Recipe)}
    recipe = replace(experiment.recipe, **{k: v for k, v in given.items() if k in recipe_names})
    return replace(experiment, recipe=recipe, **{k: v for k, v in given.items() if k not in recipe_names})
