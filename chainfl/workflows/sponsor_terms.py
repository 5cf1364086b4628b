"""What a sponsor decides about a task; the options of `chainfl task create` are its fields."""

from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from chainfl.codec.text import ETHER
from chainfl.learning.recipe import Recipe
from chainfl.protocol.term_table import TERM
from chainfl.types import TaskConfig

RULE: Final = "softmax"
RULE_OF_INTERNALS: Final = "softmax:beta=50"
"""What a sponsor with clients of its own gets who names no rule: steep enough for losses that differ little."""


def _term(name: str, default: Any = ..., shown: str = "") -> Any:
    """A field that is a term of the contract: default, unit, bounds and help are those of the table."""
    term = TERM[name]
    return field(
        default=term.usual_value if default is ... else default,
        metadata={"help": term.help, "shown": shown or term.usual, "term": term},
    )


def _of_recipe(name: str, default: Any = ...) -> Any:
    """A field of the recipe that workers train by."""
    (own,) = (each for each in fields(Recipe) if each.name == name)
    return field(default=own.default if default is ... else default, metadata=own.metadata)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a sponsor decides; the rest of a task's config follows from the model and the rule."""

    escrow: int = field(
        default=ETHER, metadata={"help": "Ether for all rounds together", "required": True, "wei": True}
    )
    rule: str = _term("rule", "", f"{RULE}; {RULE_OF_INTERNALS} with --internals or --min-internals")
    rounds: int = _term("rounds")
    committee_size: int = _term("committee_size")
    min_updates: int = _term("min_updates")
    max_updates: int = _term("max_updates")
    max_samples: int = _term("max_samples")
    min_stake: int = _term("min_stake")
    target: int = _term("target")
    min_internals: int = _term("min_internals")
    internals_train: bool | None = _term("internals_train", None)
    internals: str | None = field(
        default=None,
        metadata={
            "help": "File of internals, 0x… a line each: they are the committee, and train; anyone else may join"
        },
    )
    admission: str | None = field(
        default=None,
        metadata={
            "help": "File of who may join: 0x… participant, 0x… internal or anyone, a line each [everybody]"
        },
    )

    train_seconds: int = _term("train_seconds")
    reveal_seconds: int = _term("reveal_seconds")
    score_seconds: int = _term("score_seconds")
    tally_seconds: int = _term("tally_seconds")
    propose_seconds: int = _term("propose_seconds")
    challenge_seconds: int = _term("challenge_seconds")

    app: str | None = field(
        default=None,
        metadata={
            "help": "Your own learning: a Python file, or package.module; replaces model, data set and recipe"
        },
    )
    app_config: str | None = field(
        default=None, metadata={"help": "Values of the app's config, such as rate=0.01,batch=16"}
    )
    model: str = field(default="mnist-mlp-small", metadata={"help": "Name of the model"})
    dataset: str = field(default="mnist-embedded", metadata={"help": "Name of the data set"})
    learning_rate: float = _of_recipe("learning_rate", 0.1)
    batch: int = _of_recipe("batch")
    local_epochs: int = _of_recipe("local_epochs")
    seed: int = field(default=0, metadata={"help": "Seed of the first model"})
    score_samples: int = field(default=300, metadata={"help": "Held-out samples a validator scores on"})
    scale: int = _term("scale")

    workers_part: int = _term("workers_part")
    committee_part: int = _term("committee_part")
    caller_fee: int | None = _term("caller_fee", None)
    dev_cap: int = _term("dev_cap")
    lie_slash: int = _term("lie_slash")
    liveness_slash: int = _term("liveness_slash")
    no_reveal_slash: int = _term("no_reveal_slash")
    finder_part: int = _term("finder_part")
    burn_part: int = _term("burn_part")


DECIDED: Final = tuple(
    sorted({each.name for each in fields(Terms)} & {each.name for each in fields(TaskConfig)} - {"rule"})
)
"""Terms that go into the config as they are."""


def with_rule(terms: Terms) -> Terms:
    """The terms with the rule that is meant where none is named."""
    has_internals = terms.internals or terms.min_internals
    return terms if terms.rule else replace(terms, rule=RULE_OF_INTERNALS if has_internals else RULE)


def with_changes(terms: Terms, changes: dict[str, object]) -> Terms:
    """The terms with what a caller gave; None means not given."""
    known = {each.name for each in fields(Terms)}
    return replace(terms, **{k: v for k, v in changes.items() if v is not None and k in known})  # type: ignore[arg-type]
