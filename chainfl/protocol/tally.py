"""What revealed scores decide: inclusion, shares, deviations, the next committee (docs/protocol.md 6, 7)."""

from collections.abc import Sequence

from chainfl.codec.scores import ScoreKind, decode_scores, scores_length, vouches
from chainfl.errors import ScoresError
from chainfl.protocol import errors, rewards
from chainfl.protocol import shares as sharing
from chainfl.protocol.state import NO_SCORE, Tally, Task
from chainfl.protocol.views import ordered_roots, revealed_by
from chainfl.types import TOTAL, Id, Rule, TaskConfig


def decide(task: Task) -> tuple[Id, ...] | None:
    """Inclusion, shares and deviations from all revealed scores; answers the committee they elect, if any.

    Without a majority of reveals nothing is judged, no update counts, and no shares are formed.
    """
    round_ = task.round
    shown = [(id_, revealed_by(round_, id_)) for id_ in round_.committee]
    decoded = {id_: decoded_scores(task, scores) for id_, scores in shown if scores is not None}
    if not has_quorum(task):
        none = (False,) * len(round_.order)
        round_.tally = Tally(none, (), dict.fromkeys(decoded, 0), NO_SCORE, none, is_head_withheld=False)
        return None
    return _form_shares(task, decoded)


def has_quorum(task: Task) -> bool:
    """Whether a majority of the committee revealed its scores."""
    revealed = sum(scores.revealed is not None for scores in task.round.scores.values())
    return revealed >= sharing.majority(task.config.committee_size)


def as_set(flags: Sequence[bool]) -> int:
    """Flags as an integer: bit i is flag i."""
    return sum(1 << i for i, flag in enumerate(flags) if flag)


def as_flags(members: int, count: int) -> tuple[bool, ...]:
    """The first bits of an integer as flags."""
    return tuple(bool(members >> i & 1) for i in range(count))


def is_target_reached(config: TaskConfig, head_score: int) -> bool:
    """Whether the committee's loss of the head is low enough to end the task."""
    return config.target > 0 and head_score <= config.target


def score_kind(rule: Rule) -> ScoreKind:
    """What the entries of a rule's scores are."""
    if rule.is_softmax:
        return ScoreKind.LOSS
    return ScoreKind.DISTANCE if rule.is_elected else ScoreKind.VOUCH


def decoded_scores(task: Task, scores: bytes) -> list[int | None]:
    """Entry 0 and the entries of all updates; None where the validator says: not available, or invalid."""
    kind, count = score_kind(task.config.rule), len(task.round.order)
    try:
        decoded = decode_scores(kind, scores, count)
    except ScoresError:
        raise errors.BadScoresError(len(scores), scores_length(kind, count)) from None
    head = decoded.head if vouches(ScoreKind.LOSS, decoded.head) else None
    return [head, *(entry if vouches(kind, entry) else None for entry in decoded.entries)]


def _form_shares(task: Task, decoded: dict[Id, list[int | None]]) -> tuple[Id, ...] | None:
    """What a majority decides, from scores that are numbers or None."""
    round_, config = task.round, task.config
    count = len(round_.order)
    size = config.committee_size

    # One column for the head and one for each revealed update: what those who revealed say of it.
    head_column, *columns = ([scores[i] for scores in decoded.values()] for i in range(1 + count))
    vouches = [[score is not None for score in column] for column in columns]
    included = sharing.included(vouches, ordered_roots(task), task.head_root, config)
    kept = [i for i in range(count) if included[i]]
    factor = 1 if config.rule.is_elected else sharing.SCORE_TO_WAD
    scored = config.rule.is_softmax or config.rule.is_elected
    statistics = [
        sharing.statistic_of([s for s in columns[i] if s is not None], config.statistic, factor, size)
        if scored
        else 0
        for i in kept
    ]
    shares: tuple[int, ...] = ()
    elected = None
    if len(kept) >= config.min_updates and not config.rule.is_attested:
        samples = [round_.updates[round_.order[i]].samples for i in kept]
        formed = sharing.shares_of(statistics, samples, config)
        shares = (TOTAL - sum(formed), *(formed if config.rule.is_on_ranks else _spread(formed, kept, count)))
        if config.rule.is_elected:
            elected = _elect(task, [round_.order[kept[position]] for position in sharing.rank(statistics)])
    deviations = {}
    for id_, scores in decoded.items():
        gaps = [
            None if (s := scores[1 + i]) is None else abs(s * factor - statistic) if scored else 0
            for i, statistic in zip(kept, statistics, strict=True)
        ]
        deviations[id_] = rewards.deviation(gaps, config.dev_cap) if gaps else 0
    round_.tally = Tally(
        tuple(included),
        shares,
        deviations,
        _head_score(head_column, config),
        tuple(sharing.is_withheld(column, size) for column in vouches),
        sharing.is_withheld([score is not None for score in head_column], size),
    )
    return elected


def _spread(formed: Sequence[int], kept: Sequence[int], count: int) -> list[int]:
    """Shares per included update laid out per revealed update, zero for the others."""
    by_index = dict(zip(kept, formed, strict=True))
    return [by_index.get(i, 0) for i in range(count)]


def _elect(task: Task, ranked: Sequence[Id]) -> tuple[Id, ...] | None:
    """The middle of the ranking, of those still staked (CMFL); nobody when too few are electable."""
    size = task.config.committee_size
    electable = [id_ for id_ in ranked if task.by_id(id_).weight > 0]
    if len(electable) < size:
        return None
    start = (len(electable) - size) // 2
    return tuple(electable[start : start + size])


def _head_score(scores: Sequence[int | None], config: TaskConfig) -> int:
    """The committee's loss of the head in WAD, when a majority of the committee gave one."""
    numbers = [score for score in scores if score is not None]
    if len(numbers) < sharing.majority(config.committee_size):
        return NO_SCORE
    return sharing.statistic_of(numbers, config.statistic, sharing.SCORE_TO_WAD, config.committee_size)
