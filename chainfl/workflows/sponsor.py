"""What a sponsor does: choose terms, store manifest and first model, create the task."""

from dataclasses import dataclass, fields, replace

from chainfl.blobs import name_model, put_model, put_record
from chainfl.codec.records import Manifest
from chainfl.codec.text import ETHER
from chainfl.codec.vector import encode
from chainfl.errors import InputError
from chainfl.ports import BlobStore
from chainfl.protocol.errors import BadConfigError
from chainfl.protocol.rewards import PAID_CALLS
from chainfl.protocol.terms import (
    MAX_COMMITTEE,
    MAX_FINDER_PART,
    MAX_LIVENESS_SLASH,
    MAX_NO_REVEAL_SLASH,
    MAX_SCORES,
    MAX_UPDATES,
    MIN_BURN_PART,
    UNITS_PER_MIN_STAKE,
    Floors,
    check_config,
)
from chainfl.sim.terms import default_terms
from chainfl.types import WAD, TaskConfig

_FEES_OF_A_BUDGET = 1200
"""Twelve calls a round are paid at most, so that all of them take a hundredth of its budget."""


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
    max_samples: int | None = None
    target: int | None = None
    caller_fee: int | None = None
    workers_part: int | None = None
    committee_part: int | None = None
    dev_cap: int | None = None
    lie_slash: int | None = None
    liveness_slash: int | None = None
    no_reveal_slash: int | None = None
    finder_part: int | None = None
    burn_part: int | None = None


_SHARED = {each.name for each in fields(Terms)} & {each.name for each in fields(TaskConfig)} - {"rule"}
"""Terms that go into the config as they are; None leaves what is usual."""


def config_of(
    terms: Terms, manifest: Manifest, manifest_digest: bytes, root: bytes, model_digest: bytes
) -> TaskConfig:
    """The task's config from a sponsor's terms; the contract checks its bounds."""
    usual = default_terms(terms.rule, manifest.layout.d, terms.committee_size, terms.min_updates)
    usual = replace(usual, caller_fee=terms.escrow // terms.rounds // _FEES_OF_A_BUDGET)
    decided = {name: value for name in _SHARED if (value := getattr(terms, name)) is not None}
    return replace(
        usual,
        **decided
        | {
            "manifest": manifest_digest,
            "first_root": root,
            "first_model": model_digest,
            "min_updates": usual.min_updates,  # as many as the rule needs
            "max_updates": max(terms.max_updates, usual.min_updates),
        },
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


def check_terms(config: TaskConfig, escrow: int, phase_floor: int) -> None:
    """Refuse what the contract would refuse, in a sponsor's words and before anything is sent.

    Raises:
        InputError: says which option is out of bounds, and what would be within them.
    """
    try:
        check_config(config, escrow, Floors(phase_floor))
    except BadConfigError as error:
        name = str(error.values[0])
        raise InputError(_in_a_sponsors_words(name, config, escrow, phase_floor)) from None


def _in_a_sponsors_words(name: str, config: TaskConfig, escrow: int, phase_floor: int) -> str:
    budget = escrow // config.rounds
    least = -(-2 * budget * WAD // config.lie_slash) if config.lie_slash else 0
    words = {
        "committeeSize": f"--committee-size {config.committee_size}: give an odd number from 3 to {MAX_COMMITTEE}",
        "maxUpdates": f"--max-updates {config.max_updates}: give 1 to {MAX_UPDATES}, and no more than {MAX_SCORES} in "
        "all for the whole committee",
        "proofBytes": f"--max-updates {config.max_updates}: a proof about so many updates of this model does not fit "
        "into a transaction; give fewer",
        "minStake": f"--min-stake: give at least {UNITS_PER_MIN_STAKE} wei",
        "phaseSeconds": f"every phase must last at least {phase_floor} s at this factory: give longer --…-seconds",
        "target": "--target: the loss is too high to be one",
        "parts": "--workers-part and --committee-part: give no more than 1 together; the miner gets the rest",
        "callerFee": f"--caller-fee: {PAID_CALLS} calls a round are paid, out of {budget / ETHER:g} ETH: give less",
        "livenessSlash": f"--liveness-slash: give at most {MAX_LIVENESS_SLASH / WAD:g}",
        "noRevealSlash": f"--no-reveal-slash: give at most {MAX_NO_REVEAL_SLASH / WAD:g}",
        "finderPart": f"--finder-part: give at most {MAX_FINDER_PART / WAD:g}",
        "burnPart": f"--burn-part: give at least {MIN_BURN_PART / WAD:g}, and no more than the finder leaves",
        "lieSlash": f"a round pays {budget / ETHER:g} ETH (--escrow over --rounds), so a lie could pay: give "
        f"--min-stake {least / ETHER:g} or more, less escrow, or more rounds",
    }
    return words.get(name, f"the rules refuse these terms: {name} (docs/protocol.md, section 4)")


def with_changes(terms: Terms, changes: dict[str, object]) -> Terms:
    """The terms with what a caller gave; None means not given."""
    known = {field.name for field in fields(Terms)}
    return replace(terms, **{k: v for k, v in changes.items() if v is not None and k in known})  # type: ignore[arg-type]
