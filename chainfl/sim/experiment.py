"""An experiment as one value: data, model, recipe, rule, people and seed. Whoever has it can repeat the run.

The options of `chainfl simulate` are the fields below that have a `help`; reading them loads neither torch nor numpy.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

from chainfl.errors import InputError
from chainfl.learning.recipe import Recipe
from chainfl.names import unknown
from chainfl.protocol.term_table import TERM

COMMITTEE_LIMITS: Final = ("half", "none")
STAKES: Final = ("samples", "equal")
STOPS: Final = ("rounds", "sabfl")
SELFISH_METHODS: Final = ("varsel", "local", "fedavg", "fedprox", "skew", "ocs", "per-fl")


def _option(default: Any, help_: str, **more: Any) -> Any:
    """A field with its help; `shown`, `choices` and `least` (the smallest value) where they apply."""
    return field(default=default, metadata={"help": help_, **more})


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is trained on what, by whom, under which rule, and who is hostile.

    `hostile` is the part of the participants that is hostile in every role it gets; with `hostile_workers` exactly that
    many of each round's workers are poisoned instead. `stop` ends the run early (`sabfl`: docs/simulator.md).
    """

    dataset: str = _option("mnist-embedded", "Data set; npz:PATH for your own")
    partition: str = _option("iid", "How samples are dealt, such as dirichlet:lambda=0.1")
    model: str = _option("mnist-mlp-small", "Model")
    recipe: Recipe = field(default_factory=lambda: Recipe(learning_rate=0.1))
    rule: str = _option("softmax", TERM["rule"].help)
    participants: int = field(default=20, metadata={"least": 1})
    committee: int = _option(5, TERM["committee_size"].help)
    min_updates: int = _option(1, "Fewest updates of a round", least=1, shown="what the rule needs")
    max_updates: int = _option(0, "Most workers of a round", least=0, shown="all")
    rounds: int = _option(20, TERM["rounds"].help, least=1)
    hostile: float = _option(0.0, "Part of the participants that is hostile in every role, 0…1")
    hostile_workers: int = _option(
        0, "Exactly so many poisoned workers in each round instead", least=0, shown="by --hostile"
    )
    worker_attack: str = _option("label-flip", "What hostile workers do, such as alie or scaling:low=0.5")
    validator_attack: str = _option("flipped-scorer", "What hostile validators do")
    max_hostile_committee: str = _option(
        "half",
        "Hostile members beyond half of a committee score honestly, or there is no limit",
        choices=COMMITTEE_LIMITS,
    )
    stakes: str = _option("samples", "Stake by samples or the same", choices=STAKES)
    stop: str = _option("rounds", "Stop after the last round, or before it by SABFL's rule", choices=STOPS)
    score_samples: int = _option(300, "Held-out samples a validator scores on", least=1)
    test_samples: int = _option(0, "Test samples the head is tested on", least=0, shown="all")
    scale: int = _option(20, TERM["scale"].help)
    seed: int = _option(0, "Seed of everything", least=0)

    def __post_init__(self) -> None:
        from chainfl.learning.attacks import hostile_count, validator_attack, worker_attack
        from chainfl.protocol.terms import parse_rule

        parse_rule(self.rule)
        worker_attack(self.worker_attack)
        validator_attack(self.validator_attack)
        _check_choices(self)
        _check_least(self)

        hostile_count(self.participants, self.hostile)
        if self.committee < 3 or self.committee % 2 == 0:
            raise InputError(f"a committee has an odd size of at least 3, not {self.committee}")
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
        from chainfl.protocol.terms import parse_rule

        return parse_rule(self.rule)[0].is_elected

    @property
    def workers(self) -> int:
        """How many can work in a round: all but committee and miner, or as many as `max_updates` lets in."""
        rest = self.participants - self.committee - (0 if self.elects else 1)
        return min(rest, self.max_updates) if self.max_updates else rest

    @property
    def hostile_participants(self) -> int:
        """How many participants are hostile."""
        from chainfl.learning.attacks import hostile_count

        return hostile_count(self.participants, self.hostile)


@dataclass(frozen=True, slots=True)
class Selfish:
    """What the stakeholder trains, for how many internal clients, with how many external ones a round."""

    dataset: str = "mnist-embedded"
    partition: str = "shards:per=2"
    model: str = "varsel-logistic"
    recipe: Recipe = field(default_factory=lambda: Recipe(learning_rate=0.1, batch=32, local_steps=3))
    method: str = "varsel"
    clients: int = 60
    internal: int = _option(2, "Selfish presets: internal clients")
    budget: int = _option(10, "Selfish presets: external clients a round", least=1)
    rounds: int = field(default=100, metadata={"least": 1})
    proximal: float = 0.1
    inner_rate: float = _option(0.01, "Selfish presets: learning rate of per-fl's step ahead")
    scale: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in SELFISH_METHODS:
            raise unknown("method", self.method, SELFISH_METHODS)
        if not 1 <= self.internal < self.clients:
            raise InputError(f"{self.internal} internal of {self.clients} clients: some must be external")
        _check_least(self)


def _check_choices(experiment: Experiment) -> None:
    for each in fields(experiment):
        known = each.metadata.get("choices")
        value = getattr(experiment, each.name)
        if known is not None and value not in known:
            raise InputError(f"{each.name} is {value!r}; there are: {', '.join(known)}")


def _check_least(experiment: Experiment | Selfish) -> None:
    for each in fields(experiment):
        least = each.metadata.get("least")
        value = getattr(experiment, each.name)
        if least is not None and value < least:
            raise InputError(f"{each.name} must be at least {least}, not {value}")


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
    """The experiment with what a caller gave; None means not given. Names of the recipe are taken too.

    Raises:
        InputError: a change has no place in such an experiment.
    """
    given = {name: value for name, value in changes.items() if value is not None}
    own = {each.name for each in fields(Experiment)}
    in_recipe = {each.name for each in fields(Recipe)}
    for name in sorted(given.keys() - own - in_recipe):
        raise InputError(f"--{name.replace('_', '-')} is for selfish experiments: take a varsel- preset")

    recipe = replace(experiment.recipe, **{k: v for k, v in given.items() if k in in_recipe})
    return replace(experiment, recipe=recipe, **{k: v for k, v in given.items() if k in own})
