"""The terms of a task and their bounds (docs/protocol.md section 4). The contract checks the same at creation."""

from dataclasses import dataclass

from chainfl.codec.merkle import depth
from chainfl.protocol.errors import BadConfigError
from chainfl.protocol.rewards import PAID_CALLS
from chainfl.protocol.shares import head_share
from chainfl.protocol.state import NO_SCORE
from chainfl.types import TOTAL, WAD, Phase, Rule, TaskConfig

UNITS_PER_MIN_STAKE = 1000
"""Weights in the stake tree count thousandths of the task's minimum stake, so that 2^32 of them go a long way."""
MAX_WEIGHT = 2**32 - 1
"""What all weights of a task may add up to: the tree packs eight 32-bit sums into a word."""

MAX_UPDATES, MAX_COMMITTEE, MAX_SCORES = 128, 45, 2048
MAX_PROOF_BYTES = 120_000
MAX_PHASE_SECONDS = 7 * 24 * 3600
"""Stake can be locked for as long as a round takes: at most twelve phases."""
MAX_BETA = 10**21
MAX_LIVENESS_SLASH, MAX_NO_REVEAL_SLASH = WAD // 100, WAD // 20
MAX_FINDER_PART, MIN_BURN_PART = 3 * WAD // 10, WAD // 2


@dataclass(frozen=True, slots=True)
class Floors:
    """What a chain's factory gives all its tasks: the least length of a phase, how far ahead the seed's block lies."""

    phase_seconds: int
    seed_delay: int = 1


def weight_of(stake: int, config: TaskConfig) -> int:
    """An account's weight in the draw: its stake in thousandths of the minimum; below the minimum nothing."""
    return stake * UNITS_PER_MIN_STAKE // config.min_stake if stake >= config.min_stake else 0


def rule_minimum(config: TaskConfig) -> int:
    """How many included updates the rule needs to mean anything."""
    if config.rule is Rule.FEDROB:
        return 2 * config.tolerated + 1
    if config.rule.is_attested:
        return 2 * config.tolerated + 3
    return config.committee_size if config.rule.is_elected else 1


def check_config(config: TaskConfig, escrow: int, floors: Floors) -> None:
    """Refuse terms that could stall a task, overflow a transaction or make a lie pay.

    Raises:
        BadConfigError: names the first field that is out of bounds.
    """
    c = config
    amount = TOTAL - head_share(min(c.alpha, WAD))
    budget = escrow // c.rounds if c.rounds else 0
    phases = (
        c.train_seconds,
        c.reveal_seconds,
        c.score_seconds,
        c.tally_seconds,
        c.propose_seconds,
        c.challenge_seconds,
    )
    bounds: tuple[tuple[str, bool], ...] = (
        ("dimension", 1 <= c.dimension < 2**32),
        ("depth", c.dimension >= 1 and c.depth == depth(c.dimension)),
        ("scale", c.scale <= 31),
        ("committeeSize", 3 <= c.committee_size <= MAX_COMMITTEE and c.committee_size % 2 == 1),
        ("maxUpdates", 1 <= c.max_updates <= MAX_UPDATES and c.max_updates * c.committee_size <= MAX_SCORES),
        ("proofBytes", (c.max_updates + 2) * (256 + 32 * c.depth) < MAX_PROOF_BYTES),
        ("minUpdates", max(1, rule_minimum(c)) <= c.min_updates <= c.max_updates),
        ("selected", c.rule is not Rule.MULTI_KRUM or 1 <= c.selected <= c.min_updates),
        ("maxSamples", 1 <= c.max_samples < 2**64),
        ("alpha", 0 < c.alpha <= WAD and amount >= c.max_updates),
        ("beta", c.beta <= MAX_BETA),
        ("keep", not c.rule.is_elected or 0 < c.keep <= WAD),
        ("redrawEvery", c.redraw_every >= 1),
        ("rounds", c.rounds >= 1),
        ("target", c.target < NO_SCORE),
        ("minStake", c.min_stake >= UNITS_PER_MIN_STAKE),
        ("phaseSeconds", max(1, floors.phase_seconds) <= min(phases) and max(phases) <= MAX_PHASE_SECONDS),
        ("parts", c.workers_part + c.committee_part <= WAD),
        ("callerFee", PAID_CALLS * c.caller_fee <= budget),
        ("livenessSlash", c.liveness_slash <= MAX_LIVENESS_SLASH),
        ("noRevealSlash", c.no_reveal_slash <= MAX_NO_REVEAL_SLASH),
        ("lieSlash", c.lie_slash <= WAD and c.min_stake * c.lie_slash // WAD >= 2 * budget),
        ("finderPart", c.finder_part <= MAX_FINDER_PART),
        ("burnPart", MIN_BURN_PART <= c.burn_part <= WAD - c.finder_part),
    )
    for name, holds in bounds:
        if not holds:
            raise BadConfigError(name)


def phase_seconds(config: TaskConfig, phase: Phase) -> int:
    """How long a phase runs at most."""
    return {
        Phase.TRAIN: config.train_seconds,
        Phase.REVEAL: config.reveal_seconds,
        Phase.SCORE: config.score_seconds,
        Phase.TALLY: config.tally_seconds,
        Phase.PROPOSE: config.propose_seconds,
        Phase.CHALLENGE: config.challenge_seconds,
    }[phase]


def needed_accounts(config: TaskConfig) -> int:
    """How many must be enrolled at the minimum stake before a round is drawn."""
    return config.committee_size + config.min_updates + (0 if config.rule.is_elected else 1)
