"""What a sponsor does: choose terms, store manifest and first model, create the task."""

from dataclasses import dataclass, fields, replace

from chainfl.blobs import name_model, put_model, put_record
from chainfl.codec import merkle
from chainfl.codec.records import Manifest
from chainfl.codec.vector import encode
from chainfl.errors import InputError
from chainfl.ports import BlobStore
from chainfl.types import WAD, Rule, Statistic, TaskConfig

ETHER = 10**18


@dataclass(frozen=True, slots=True)
class Terms:
    """What a sponsor decides; the rest of a task's config follows from the model and the rule."""

    rule: str = "softmax"
    rounds: int = 5
    committee_size: int = 3
    min_updates: int = 3
    max_updates: int = 20
    escrow: int = ETHER
    min_stake: int = ETHER
    train_seconds: int = 60
    reveal_seconds: int = 30
    score_seconds: int = 60
    tally_seconds: int = 30
    propose_seconds: int = 30
    challenge_seconds: int = 10
    model: str = "mnist-mlp-small"
    dataset: str = "mnist-embedded"
    learning_rate: float = 0.1
    batch: int = 32
    local_epochs: int = 1
    seed: int = 0
    score_samples: int = 300
    scale: int = 20


def parse_rule(text: str) -> tuple[Rule, dict[str, float]]:
    """A rule and its parameters from text such as `fedrob:b=2,alpha=0.88`.

    Raises:
        InputError: no such rule or parameter; lists the known ones.
    """
    name, _, rest = text.partition(":")
    known = {rule.name_text: rule for rule in Rule}
    if name not in known:
        raise InputError(f"no rule is called {name!r}; there are: {', '.join(known)}")
    values: dict[str, float] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if key not in _PARAMETERS or not equals:
            raise InputError(
                f"rule {name}: {part!r} is no parameter; there are: {', '.join(_PARAMETERS)} (key=value)"
            )
        try:
            values[key] = float(value)
        except ValueError:
            raise InputError(f"rule {name}: {key} is {value!r}, not a number") from None
    return known[name], values


_PARAMETERS = ("alpha", "b", "beta", "f", "keep", "m", "mean")


def config_of(
    terms: Terms, manifest: Manifest, manifest_digest: bytes, root: bytes, model_digest: bytes
) -> TaskConfig:
    """The task's config from a sponsor's terms; the contract checks its bounds."""
    rule, values = parse_rule(terms.rule)
    tolerated = int(
        values.get("b", values.get("f", 1 if rule in (Rule.FEDROB, Rule.KRUM, Rule.MULTI_KRUM) else 0))
    )
    needed = {
        Rule.FEDROB: 2 * tolerated + 1,
        Rule.KRUM: 2 * tolerated + 3,
        Rule.MULTI_KRUM: 2 * tolerated + 3,
    }
    least = max(terms.min_updates, needed.get(rule, 1), terms.committee_size if rule.is_elected else 1)
    d = manifest.layout.d
    return TaskConfig(
        manifest=manifest_digest,
        first_root=root,
        first_model=model_digest,
        dimension=d,
        depth=merkle.depth(d),
        scale=terms.scale,
        rule=rule,
        statistic=Statistic.MEAN if values.get("mean") else Statistic.MEDIAN,
        beta=int(values.get("beta", 1.0) * WAD) if rule.is_softmax else 0,
        alpha=int(values.get("alpha", 1.0) * WAD),
        tolerated=tolerated,
        selected=int(values.get("m", least)) if rule is Rule.MULTI_KRUM else 0,
        keep=int(values.get("keep", 0.4) * WAD) if rule.is_elected else 0,
        by_samples=False,
        unique_roots=True,
        committee_size=terms.committee_size,
        redraw_every=10,
        min_updates=least,
        max_updates=max(terms.max_updates, least),
        max_samples=10**9,
        rounds=terms.rounds,
        target=0,
        min_stake=terms.min_stake,
        train_seconds=terms.train_seconds,
        reveal_seconds=terms.reveal_seconds,
        score_seconds=terms.score_seconds,
        tally_seconds=terms.tally_seconds,
        propose_seconds=terms.propose_seconds,
        challenge_seconds=terms.challenge_seconds,
        workers_part=6 * WAD // 10,
        committee_part=3 * WAD // 10,
        caller_fee=terms.escrow // terms.rounds // 1200,
        dev_cap=WAD,
        lie_slash=WAD // 2,
        liveness_slash=WAD // 100,
        no_reveal_slash=WAD // 20,
        finder_part=WAD // 5,
        burn_part=WAD // 2,
    )


def prepare_task(store: BlobStore, terms: Terms) -> TaskConfig:
    """Store manifest and first model, pinned, and answer the config that names them."""
    from chainfl.learning.models import initial_flat
    from chainfl.learning.trainer import LOSS, OPTIMISER, record_layout

    layout = record_layout(terms.model)
    manifest = Manifest(
        model=terms.model,
        dataset=terms.dataset,
        loss=LOSS,
        optimiser=OPTIMISER,
        learning_rate=round(terms.learning_rate * WAD),
        batch=terms.batch,
        local_epochs=terms.local_epochs,
        seed=terms.seed,
        score_samples=terms.score_samples,
        s=terms.scale,
        layout=layout,
    )
    named = name_model(encode(initial_flat(terms.model, terms.seed), terms.scale), terms.scale, layout)
    model, record = put_model(store, named), put_record(store, manifest)
    store.pin(model)
    store.pin(record)
    return config_of(terms, manifest, record.digest, named.node.root, model.digest)


def with_changes(terms: Terms, changes: dict[str, object]) -> Terms:
    """The terms with what a caller gave; None means not given."""
    known = {field.name for field in fields(Terms)}
    return replace(terms, **{k: v for k, v in changes.items() if v is not None and k in known})  # type: ignore[arg-type]
