"""A task's terms from an experiment: the same config that a sponsor puts on a chain, checked by the same rules."""

from dataclasses import replace

from chainfl.codec import merkle
from chainfl.protocol.terms import rule_minimum
from chainfl.sim.experiment import Experiment, parse_rule
from chainfl.types import WAD, Digest, Rule, Statistic, TaskConfig

ETHER = 10**18
BUDGET = ETHER // 5
"""What a round may cost; half of the minimum stake backs twice as much."""
_SECONDS = 60


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
    )


def default_terms(rule_text: str, dimension: int, committee: int, min_updates: int) -> TaskConfig:
    """The terms of a rule with what nobody decided otherwise; at least as many updates as the rule needs."""
    rule, values = parse_rule(rule_text)
    tolerated = {Rule.FEDROB: "b", Rule.KRUM: "f", Rule.MULTI_KRUM: "f"}.get(rule)
    config = TaskConfig(
        manifest=bytes(32),
        first_root=bytes(32),
        first_model=bytes(32),
        dimension=dimension,
        depth=merkle.depth(dimension),
        scale=20,
        rule=rule,
        statistic=Statistic.MEAN if values["mean"] else Statistic.MEDIAN,
        beta=int(values["beta"] * WAD) if rule.is_softmax else 0,
        alpha=int(values["alpha"] * WAD),
        tolerated=int(values[tolerated]) if tolerated else 0,
        selected=0,
        keep=int(values["keep"] * WAD) if rule.is_elected else 0,
        by_samples=bool(values["samples"]),
        unique_roots=bool(values["unique"]),
        committee_size=committee,
        redraw_every=int(values["redraw"]),
        min_updates=min_updates,
        max_updates=20,
        max_samples=10**9,
        rounds=5,
        target=0,
        min_stake=ETHER,
        train_seconds=_SECONDS,
        reveal_seconds=_SECONDS,
        score_seconds=_SECONDS,
        tally_seconds=_SECONDS,
        propose_seconds=_SECONDS,
        challenge_seconds=_SECONDS,
        workers_part=6 * WAD // 10,
        committee_part=3 * WAD // 10,
        caller_fee=BUDGET // 1200,
        dev_cap=WAD,
        lie_slash=WAD // 2,
        liveness_slash=WAD // 100,
        no_reveal_slash=WAD // 20,
        finder_part=WAD // 5,
        burn_part=WAD // 2,
    )
    return _with_minimum(config, int(values["m"]))


def _with_minimum(config: TaskConfig, selected: int) -> TaskConfig:
    """At least as many updates as the rule needs; Multi-Krum takes that many unless told otherwise."""
    least = max(config.min_updates, rule_minimum(config), selected)
    chosen = (selected or least) if config.rule is Rule.MULTI_KRUM else 0
    return replace(config, min_updates=least, selected=chosen)
