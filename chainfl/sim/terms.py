"""A task's terms from an experiment: the same config that a sponsor puts on a chain, checked by the same rules."""

from dataclasses import replace
from typing import Any, Final

from chainfl.errors import InputError
from chainfl.protocol.term_table import MAX_SCORES, MAX_UPDATES, TERM, TERMS, Unit
from chainfl.protocol.terms import MAX_PROOF_BYTES, default_terms, rule_minimum
from chainfl.sim.experiment import Experiment
from chainfl.sim.robust.table import ledger_rule, pipeline_of
from chainfl.types import Digest, Rule, TaskConfig

_PHASES: Final[dict[str, Any]] = {term.name: 60 for term in TERMS if term.unit is Unit.SECONDS}
"""A simulated clock makes no phase wait, so that all are equally long."""


def terms_of(experiment: Experiment, dimension: int, root: Digest, model: Digest) -> TaskConfig:
    """The config of an experiment whose first model has this root and name."""
    pipeline = pipeline_of(experiment.rule)
    least = max(experiment.min_updates, pipeline.least if pipeline is not None else 1)
    config = default_terms(ledger_rule(experiment.rule), dimension, experiment.committee, least)

    if config.rule is Rule.VARSEL:
        raise InputError(
            "--rule varsel: this population has no internals: play it with --preset selfish-small, or create a "
            "task with --internals"
        )
    if config.rule.is_attested:
        config = _as_many_as_there_are(config, experiment)

    return replace(
        config,
        first_root=root,
        first_model=model,
        scale=experiment.scale,
        max_updates=experiment.workers,
        rounds=experiment.rounds,
        **_PHASES,
    )


def _as_many_as_there_are(config: TaskConfig, experiment: Experiment) -> TaskConfig:
    """Krum with fewer than 2f + 3 updates, as papers play it: its sums of K - f - 2 distances need only f + 3."""
    if config.min_updates <= experiment.workers or rule_minimum(config) <= experiment.workers:
        return config

    fewest = config.tolerated + 3
    if experiment.workers < fewest:
        raise InputError(
            f"{experiment.rule}: Krum needs at least f + 3 = {fewest} updates, a round has {experiment.workers}: "
            "take a smaller f, more participants or a smaller committee"
        )
    selected = min(config.selected, fewest) if config.rule is Rule.MULTI_KRUM else 0
    return replace(config, min_updates=fewest, selected=selected)


def within_bounds(config: TaskConfig, *, beyond_contract: bool = False) -> TaskConfig:
    """The config that a contract would check: what is left of its bounds holds for any simulation.

    Krum's f is as small as the contract asks for; with `beyond_contract` there are as many updates and members as
    it allows.
    """
    if beyond_contract:
        config = _as_many_as_allowed(config)
    if not config.rule.is_attested or rule_minimum(config) <= config.min_updates:
        return config
    return replace(config, tolerated=(config.min_updates - 3) // 2)


def _as_many_as_allowed(config: TaskConfig) -> TaskConfig:
    members = min(config.committee_size, int(TERM["committee_size"].high))
    in_a_proof = (MAX_PROOF_BYTES - 1) // (256 + 32 * config.depth) - 2
    updates = min(config.max_updates, MAX_UPDATES, MAX_SCORES // members, max(1, in_a_proof))
    fewest = min(config.min_updates, updates)
    selected = min(config.selected, fewest)
    return replace(config, committee_size=members, max_updates=updates, min_updates=fewest, selected=selected)


def outside_bounds(config: TaskConfig) -> str | None:
    """Which bounds of the contract these terms are outside of, in words; None where a contract would take them."""
    allowed = within_bounds(config, beyond_contract=True)
    found = []
    if config.committee_size > allowed.committee_size:
        found.append(f"a committee of {config.committee_size}, at most {allowed.committee_size}")
    if config.max_updates > allowed.max_updates:
        found.append(f"{config.max_updates} updates a round, at most {allowed.max_updates} here")
    if config.rule.is_attested and rule_minimum(config) > config.min_updates:
        found.append(
            f"f = {config.tolerated} asks for 2f + 3 = {rule_minimum(config)} updates, "
            f"a round has {config.max_updates}"
        )
    return f"{'; '.join(found)}: no contract takes these terms" if found else None
