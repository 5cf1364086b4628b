"""A task's terms from an experiment: the same config that a sponsor puts on a chain, checked by the same rules."""

from dataclasses import replace
from typing import Any, Final

from chainfl.protocol.term_table import TERMS, Unit
from chainfl.protocol.terms import default_terms
from chainfl.sim.experiment import Experiment
from chainfl.types import Digest, TaskConfig

_PHASES: Final[dict[str, Any]] = {term.name: 60 for term in TERMS if term.unit is Unit.SECONDS}
"""A simulated clock makes no phase wait, so that all are equally long."""


def terms_of(experiment: Experiment, dimension: int, root: Digest, model: Digest) -> TaskConfig:
    """The config of an experiment whose first model has this root and name."""
    config = default_terms(experiment.rule, dimension, experiment.committee, experiment.min_updates)
    return replace(
        config,
        first_root=root,
        first_model=model,
        scale=experiment.scale,
        max_updates=experiment.workers,
        rounds=experiment.rounds,
        **_PHASES,
    )
