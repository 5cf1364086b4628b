"""An experiment as one value: data, model, recipe, rule, people and seed. Whoever has it can repeat the run.

The options of `chainfl simulate` are the fields below that have a `help`; reading them loads neither torch nor numpy.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

from chainfl.errors import InputError
from chainfl.learning.recipe import Recipe
from chainfl.names import parse_call
from chainfl.protocol.term_table import TERM

COMMITTEE_LIMITS: Final = ("half", "none")
STAKES: Final = ("samples", "equal")
STOPS: Final = ("rounds", "sabfl")
INTERNAL_DEALS: Final = ("alike", "as-dealt")
LAST: Final = 5
"""Rounds whose mean accuracy a run is summed up by."""
SELFISH_METHODS: Final = (
    "varsel",
    "softmax",
    "local",
    "fedavg",
    "fedprox",
    "skew",
    "ocs",
    "per-fl",
    "oracle",
)


def _option(default: Any, help_: str, **more: Any) -> Any:
    """A field with its help; `shown`, `choices` and `least` (the smallest value) where they apply."""
    return field(default=default, metadata={"help": help_, **more})


def _later(default: Any, help_: str, **more: Any) -> Any:
    """An option that came after runs were published: at its default it is not part of an experiment's name."""
    return _option(default, help_, later=True, **more)


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is trained on what, by whom, under which rule, and who is hostile.

    `hostile` is the part of the participants that is hostile in every role it gets; with `hostile_workers` exactly that
    many of each round's workers are poisoned instead. `stop` ends the run early (`sabfl`: docs/simulator.md).
    """

    app: str | None = _option(None, "Your own learning: a Python file, or package.module (docs/apps.md)")
    app_config: str | None = _option(None, "Values of the app's config, such as rate=0.01,batch=16")
    dataset: str = _option(
        "mnist-embedded", "Data set; npz:PATH for your own; with --app, what its data() is given"
    )
    partition: str = _option("iid", "How samples are dealt, such as dirichlet:lambda=0.1")
    model: str = _option("mnist-mlp-small", "Model")
    recipe: Recipe = field(default_factory=lambda: Recipe(learning_rate=0.1))
    dp: str | None = _later(
        None, "Clip updates' differences and add Gaussian noise: clip=1.0,noise=1.1,delta=1e-5"
    )
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
    loss_samples: int = _option(
        0, "Training samples the head's training loss is measured on", least=0, shown="none"
    )
    clients_every: int = _option(
        0, "Test the head on every participant's held-out samples each so many rounds", least=0, shown="never"
    )
    scale: int = _option(20, TERM["scale"].help)
    seed: int = _option(0, "Seed of everything", least=0)
    beyond_contract: bool = _later(
        False, "Lift the contract's limits on updates and committee; no chain can play this", shown="no"
    )

    def __post_init__(self) -> None:
        from chainfl.learning.attacks import hostile_count, validator_attack, worker_attack
        from chainfl.sim.robust.table import pipeline_of

        pipeline = pipeline_of(self.rule)
        worker_attack(self.worker_attack)
        validator_attack(self.validator_attack)
        _check_choices(self)
        _check_least(self)
        if self.dp is not None:
            from chainfl.learning.privacy import parse_privacy

            parse_privacy(self.dp)

        hostile_count(self.participants, self.hostile)
        if self.committee < 3 or self.committee % 2 == 0:
            raise InputError(f"a committee has an odd size of at least 3, not {self.committee}")
        if self.workers < 1:
            raise InputError(
                f"{self.participants} participants leave no worker beside a committee of {self.committee}"
                f"{'' if self.elects else ' and a miner'}: take more participants or a smaller committee"
            )
        if pipeline is not None and pipeline.least > self.workers:
            raise InputError(
                f"rule {self.rule!r} needs {pipeline.least} updates, a round has {self.workers}: "
                "take more participants, a smaller committee or a smaller f"
            )
        if self.hostile_workers > self.workers:
            raise InputError(f"{self.hostile_workers} hostile workers, but a round has only {self.workers}")

    @property
    def elects(self) -> bool:
        """Whether the committee trains too and elects its successor."""
        from chainfl.protocol.terms import parse_rule
        from chainfl.sim.robust.table import ledger_rule

        return parse_rule(ledger_rule(self.rule))[0].is_elected

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
    """A name of `SELFISH_METHODS`; `softmax` has the parameters of the rule, as in `softmax:beta=10,mean=1`."""
    clients: int = 60
    internal: int = _option(2, "Selfish presets: internal clients")
    budget: int = _option(10, "Selfish presets: external clients a round", least=1)
    rounds: int = field(default=100, metadata={"least": 1})
    proximal: float = 0.1
    inner_rate: float = _option(0.01, "Selfish presets: learning rate of per-fl's step ahead")
    deal: str = _option(
        "alike",
        "Selfish presets: internal clients hold the same labels, or what the partition gave them",
        choices=INTERNAL_DEALS,
    )
    test_samples: int = field(default=0, metadata={"least": 0})
    scale: int = 20
    seed: int = 0
    internal_samples: int = _later(
        0, "Selfish presets: samples of an internal client", least=0, shown="as dealt"
    )
    external_samples: int = _later(
        0, "Selfish presets: samples of an external client", least=0, shown="as dealt"
    )
    drawn: int = _later(
        0,
        "Selfish presets: external clients drawn a round, all of which send their updates",
        least=0,
        shown="by the method",
    )
    narrow: float = _later(0.0, "Part of the honest external clients that holds two labels only, 0…1")
    hostile: float = _later(0.0, "Part of the external clients that is hostile, 0…1")
    worker_attack: str = _later("label-flip", "How the labels of hostile external clients are poisoned")

    def __post_init__(self) -> None:
        from chainfl.learning.attacks import hostile_count, worker_attack

        _check_choices(self)
        name, _ = parse_method(self.method)
        if not 1 <= self.internal < self.clients:
            raise InputError(f"{self.internal} internal of {self.clients} clients: some must be external")
        if name == "softmax" and self.internal < 2:
            raise InputError(
                "softmax needs at least 2 internal clients: one's own update is judged by the others"
            )
        _check_least(self)

        hostile_count(self.external, self.hostile)
        if not 0 <= self.narrow <= 1:
            raise InputError(f"the narrow part must lie within 0…1, not {self.narrow}")
        if worker_attack(self.worker_attack)[0].labels is None:
            raise InputError(
                f"external clients poison labels: label-flip or label-shift, not {self.worker_attack}"
            )

    @property
    def external(self) -> int:
        """N."""
        return self.clients - self.internal

    @property
    def honest(self) -> range:
        """The indices of the external clients that are honest; the hostile ones come after them."""
        from chainfl.learning.attacks import hostile_count

        return range(self.internal, self.clients - hostile_count(self.external, self.hostile))

    @property
    def narrow_clients(self) -> range:
        """Those of the honest ones that hold two labels only, the last of them."""
        count = int(len(self.honest) * self.narrow + 1e-9)
        return self.honest[len(self.honest) - count :]


def parse_method(text: str) -> tuple[str, dict[str, float]]:
    """A selfish method and its parameters, which only `softmax` has.

    Raises:
        UnknownNameError: no such method or parameter; lists the known ones.
    """
    from chainfl.protocol.terms import RULE_VALUES

    of_softmax = {key: RULE_VALUES[key] for key in ("beta", "mean")}
    return parse_call(
        "method", text, {name: of_softmax if name == "softmax" else {} for name in SELFISH_METHODS}
    )


def _check_choices(experiment: Experiment | Selfish) -> None:
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


def identity(experiment: Experiment | Selfish) -> dict[str, Any]:
    """What makes an experiment another one: all its fields, but for later ones at their defaults."""
    plain = asdict(experiment)
    is_silent = {
        each.name: bool(each.metadata.get("later")) and plain[each.name] == each.default
        for each in fields(experiment)
    }
    return {name: value for name, value in plain.items() if not is_silent[name]}


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
        raise InputError(
            f"--{name.replace('_', '-')} is for selfish experiments: take a selfish- or varsel- preset"
        )

    if experiment.app is not None or "app" in given:
        _refuse_beside_app(given.keys() & (in_recipe | {"model"}))
        if experiment.app is None:
            given.setdefault("dataset", "")  # the app knows its own
    elif "app_config" in given:
        raise InputError("--app-config is for an app: give --app FILE too")
    recipe = replace(experiment.recipe, **{k: v for k, v in given.items() if k in in_recipe})
    return replace(experiment, recipe=recipe, **{k: v for k, v in given.items() if k in own})


def _refuse_beside_app(names: Iterable[str]) -> None:
    for name in sorted(names):
        option = name.replace("_", "-")
        raise InputError(f"--{option} is for built-in models; an app has its own: set --app-config instead")
