"""What a sponsor does: choose terms, store manifest and first model, create the task."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from chainfl.blobs import name_model, put_admission_list, put_model, put_record
from chainfl.codec.admission import ANYONE, Entry, parse_list
from chainfl.codec.manifest import AnyManifest
from chainfl.codec.records import Manifest
from chainfl.codec.text import ETHER
from chainfl.codec.vector import encode
from chainfl.errors import InputError
from chainfl.ports import BlobStore
from chainfl.protocol.admission import list_root
from chainfl.protocol.errors import BadConfigError
from chainfl.protocol.rewards import PAID_CALLS
from chainfl.protocol.term_table import FEES_OF_A_BUDGET, MIN_INTERNALS, TERMS, Source, Unit
from chainfl.protocol.terms import Floors, check_config, default_terms, parse_rule
from chainfl.types import WAD, Role, Rule, TaskConfig
from chainfl.workflows.sponsor_terms import DECIDED, with_rule
from chainfl.workflows.sponsor_terms import Terms as Terms
from chainfl.workflows.sponsor_terms import with_changes as with_changes

if TYPE_CHECKING:
    from chainfl.learning.learner import Learner


def config_of(
    terms: Terms, manifest: AnyManifest, manifest_digest: bytes, root: bytes, model_digest: bytes
) -> TaskConfig:
    """The task's config from a sponsor's terms; the contract checks its bounds."""
    usual = default_terms(terms.rule, manifest.layout.d, terms.committee_size, terms.min_updates)
    decided = {name: getattr(terms, name) for name in DECIDED}
    if terms.internals_train is None:
        # VaRSeL weighs outsiders' updates against those of internals, who therefore train.
        decided["internals_train"] = usual.rule is Rule.VARSEL

    # Fees come out of the escrow: a fixed default could eat a small task's budget.
    if terms.caller_fee is None:
        decided["caller_fee"] = terms.escrow // max(1, terms.rounds) // FEES_OF_A_BUDGET

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
    learner, manifest = _app_task(terms) if terms.app else _builtin_task(terms)
    entries = _who_may_join(terms)
    if entries:
        manifest = replace(manifest, admission=put_admission_list(store, entries))
    first_D = encode(learner.initial(), terms.scale)
    named = name_model(first_D, terms.scale, manifest.layout)

    # Stored and pinned before the task exists: participants check the first model's bytes before they enrol.
    model = put_model(store, named)
    record = put_record(store, manifest)
    store.pin(model)
    store.pin(record)

    # The list decides these terms, so they are set once it is known.
    terms = with_rule(with_internals(terms, entries))
    _expect_values(terms.rule)
    _expect_internals(terms, entries)
    config = config_of(terms, manifest, record.digest, named.node.root, model.digest)
    return replace(config, admission_root=list_root(entries)) if entries else config


def _who_may_join(terms: Terms) -> list[Entry]:
    """The list that the sponsor named, by its roles or as internals beside whom anyone may join; empty: everybody."""
    if terms.admission and terms.internals:
        raise InputError(
            "--internals and --admission: give one; a list of who may join names internals itself"
        )
    if terms.admission:
        return read_list(Path(terms.admission))
    if not terms.internals:
        return []

    entries = read_list(Path(terms.internals), Role.INTERNAL)
    if any(role is not Role.INTERNAL for _, role in entries):
        raise InputError(f"{terms.internals}: names others than internals; give it with --admission")
    return [(ANYONE, Role.PARTICIPANT), *entries]


def with_internals(terms: Terms, entries: Sequence[Entry]) -> Terms:
    """What `--internals` stands for: all are the committee, work for nothing, and train unless told not to."""
    if not terms.internals:
        return terms

    members = _internals_of(entries)
    if members < MIN_INTERNALS:
        raise InputError(
            f"{terms.internals}: {members} internal; an appointed committee has at least {MIN_INTERNALS}"
        )

    # More than half must be there to open a round, or a minority of the internals would decide alone.
    return replace(
        terms,
        committee_size=members,
        min_internals=terms.min_internals or min(members, members // 2 + 1),
        internals_train=terms.internals_train is not False,
        max_updates=max(terms.max_updates, members + 1),
        workers_part=terms.workers_part + terms.committee_part,
        committee_part=0,
    )


def _expect_internals(terms: Terms, entries: Sequence[Entry]) -> None:
    """Nobody joins a list later: with fewer internals on it than a draw needs there would never be a round."""
    members = _internals_of(entries)
    if parse_rule(terms.rule)[0] is Rule.VARSEL and not terms.min_internals:
        raise InputError(
            f"--rule {terms.rule}: weighs outsiders against your own clients: name these with --internals FILE, or on "
            "the list of --admission with --min-internals"
        )
    if entries and members < terms.min_internals:
        raise InputError(
            f"--min-internals {terms.min_internals}: {terms.admission or terms.internals} names {members} internals; "
            "name more, as 0x… internal, or give less"
        )


def _expect_values(rule_text: str) -> None:
    """A value of the rule that its field cannot hold is refused here: the contract would never see it."""
    _, values = parse_rule(rule_text)
    for term in TERMS:
        for key in term.rule_keys:
            value = Decimal(repr(values[key])) * (WAD if term.unit is Unit.WAD else 1)
            if value % 1 or not term.low <= value <= term.high:
                low, high = (n / WAD if term.unit is Unit.WAD else n for n in (term.low, term.high))
                kind = "a number" if term.unit is Unit.WAD else "a whole number"
                bounds = term.bound or f"{low:g} to {high:g}"
                raise InputError(f"--rule {rule_text}: {key} {values[key]:g}: give {kind}, {bounds}")


def _internals_of(entries: Sequence[Entry]) -> int:
    return sum(role is Role.INTERNAL for _, role in entries)


def read_list(path: Path, usual: Role = Role.PARTICIPANT) -> list[Entry]:
    """The list of who may join from a sponsor's file; a line without a role has the usual one.

    Raises:
        InputError: it cannot be read, or a line is no entry.
    """
    try:
        return parse_list(path.read_text(encoding="utf-8"), str(path), usual)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text: write one account a line, such as: 0x… participant") from None


def _builtin_task(terms: Terms) -> "tuple[Learner, AnyManifest]":
    """Models and data sets by name."""
    from chainfl.learning.builtin import LOSS, OPTIMISER, BuiltIn, LearningSpec

    if terms.app_config:
        raise InputError("--app-config is for an app: give --app FILE too")
    learner = BuiltIn(LearningSpec(terms.model, terms.dataset, initial_seed=terms.seed))
    return learner, Manifest(
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
        layout=learner.layout,
    )


def _app_task(terms: Terms) -> "tuple[Learner, AnyManifest]":
    """A user's own learning; the manifest names its digest, and nobody is sent its code."""
    from chainfl.learning.app import load_app
    from chainfl.learning.appconfig import parse_changes
    from chainfl.learning.taskapp import manifest_of

    assert terms.app is not None
    app = load_app(terms.app, parse_changes(terms.app_config), terms.seed)
    return app, manifest_of(app, score_samples=terms.score_samples, scale=terms.scale)


def at_least(terms: Terms, phase_floor: int) -> Terms:
    """The terms with every phase at least as long as a factory asks for."""
    phases = [term.name for term in TERMS if term.unit is Unit.SECONDS]
    return replace(terms, **{name: max(getattr(terms, name), phase_floor) for name in phases})


def check_terms(config: TaskConfig, escrow: int, phase_floor: int) -> None:
    """Refuse what the contract would refuse, in a sponsor's words and before anything is sent.

    Raises:
        InputError: says which option is out of bounds, and what would be within them.
    """

    # The contract's own bounds, in Python: a refusal costs no gas here.
    try:
        check_config(config, escrow, Floors(phase_floor))
    except BadConfigError as error:
        name = str(error.values[0])
        raise InputError(_in_a_sponsors_words(name, config, escrow, phase_floor)) from None


def _too_short(config: TaskConfig, floor: int) -> list[str]:
    """The flags of the phases that are shorter than the floor, with what they are now."""
    phases = [term for term in TERMS if term.unit is Unit.SECONDS]
    short = [term for term in phases if getattr(config, term.name) < floor]
    return [f"{term.option} (now {getattr(config, term.name)})" for term in short]


def _in_a_sponsors_words(name: str, config: TaskConfig, escrow: int, phase_floor: int) -> str:
    """What to change, from the bound of the term that was refused; five bounds depend on other terms."""
    budget = escrow // max(1, config.rounds)
    least = -(-2 * budget * WAD // config.lie_slash) if config.lie_slash else 0

    # Bounds of one term alone come from the table of terms; the others are spelled out.
    words = {
        term.contract_name: f"{term.option} {getattr(config, term.name)}: give {term.bound}"
        if term.unit is Unit.COUNT
        else f"{term.option}: give {term.bound}"
        for term in TERMS
        if term.source is Source.OPTION and term.bound
    } | {
        "proofBytes": f"--max-updates {config.max_updates}: a proof about so many updates of this model does not fit "
        "into a transaction; give fewer",
        "phaseSeconds": f"every phase must last at least {phase_floor} s at this factory: give longer "
        + ", ".join(_too_short(config, phase_floor)),
        "parts": "--workers-part and --committee-part: give no more than 1 together; the miner gets the rest",
        "callerFee": f"--caller-fee: {PAID_CALLS} calls a round are paid, out of {budget / ETHER:g} ETH: give less",
        "lieSlash": f"a round pays {budget / ETHER:g} ETH (--escrow over --rounds), so a lie could pay: give "
        f"--min-stake {least / ETHER:g} or more, less escrow, or more rounds",
    }

    return words.get(name, f"the rules refuse these terms: {name} (docs/protocol.md, section 4)")
