"""What a sponsor does: choose terms, store manifest and first model, create the task."""

from dataclasses import replace

from chainfl.blobs import name_model, put_model, put_record
from chainfl.codec.records import Manifest
from chainfl.codec.text import ETHER
from chainfl.codec.vector import encode
from chainfl.errors import InputError
from chainfl.ports import BlobStore
from chainfl.protocol.errors import BadConfigError
from chainfl.protocol.rewards import PAID_CALLS
from chainfl.protocol.term_table import FEES_OF_A_BUDGET, TERMS, Source, Unit
from chainfl.protocol.terms import Floors, check_config, default_terms
from chainfl.types import WAD, TaskConfig
from chainfl.workflows.sponsor_terms import DECIDED
from chainfl.workflows.sponsor_terms import Terms as Terms
from chainfl.workflows.sponsor_terms import with_changes as with_changes


def config_of(
    terms: Terms, manifest: Manifest, manifest_digest: bytes, root: bytes, model_digest: bytes
) -> TaskConfig:
    """The task's config from a sponsor's terms; the contract checks its bounds."""
    usual = default_terms(terms.rule, manifest.layout.d, terms.committee_size, terms.min_updates)
    decided = {name: getattr(terms, name) for name in DECIDED}
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
    model = put_model(store, named)
    record = put_record(store, manifest)
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
    """What to change, from the bound of the term that was refused; five bounds depend on other terms."""
    budget = escrow // max(1, config.rounds)
    least = -(-2 * budget * WAD // config.lie_slash) if config.lie_slash else 0
    words = {
        term.contract_name: f"{term.option} {getattr(config, term.name)}: give {term.bound}"
        if term.unit is Unit.COUNT
        else f"{term.option}: give {term.bound}"
        for term in TERMS
        if term.source is Source.OPTION and term.bound
    } | {
        "proofBytes": f"--max-updates {config.max_updates}: a proof about so many updates of this model does not fit "
        "into a transaction; give fewer",
        "phaseSeconds": f"every phase must last at least {phase_floor} s at this factory: give longer --…-seconds",
        "parts": "--workers-part and --committee-part: give no more than 1 together; the miner gets the rest",
        "callerFee": f"--caller-fee: {PAID_CALLS} calls a round are paid, out of {budget / ETHER:g} ETH: give less",
        "lieSlash": f"a round pays {budget / ETHER:g} ETH (--escrow over --rounds), so a lie could pay: give "
        f"--min-stake {least / ETHER:g} or more, less escrow, or more rounds",
    }
    return words.get(name, f"the rules refuse these terms: {name} (docs/protocol.md, section 4)")
