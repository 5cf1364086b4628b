"""What revealed scores decide: inclusion, shares, deviations, the next committee (docs/protocol.md 6, 7)."""

from collections.abc import Collection, Mapping, Sequence
from statistics import median

from chainfl.codec.scores import ONE, ScoreKind, decode_scores, scores_length, vouches
from chainfl.errors import ScoresError
from chainfl.protocol import errors, rewards
from chainfl.protocol import shares as sharing
from chainfl.protocol.state import NO_SCORE, RevealedUpdate, Tally, Task
from chainfl.protocol.views import revealed_by, terms_of_round
from chainfl.types import TOTAL, Digest, Id, Rule, TaskConfig

Entries = Sequence[int | None]
"""One validator's scores of the head and of every revealed update; None: not available, or not a number."""


def tally_of(task: Task) -> Tally:
    """What the scores revealed in the running round decide."""
    round_ = task.round
    updates = [round_.revealed(id_) for id_ in round_.order]
    shown = [(id_, revealed_by(round_, id_)) for id_ in round_.committee]
    scores = {id_: decoded_scores(task, given) for id_, given in shown if given is not None}
    electable = {id_ for id_ in round_.order if task.by_id(id_).weight > 0}
    config = terms_of_round(task)
    return decide(config, task.head_root, round_.order, updates, scores, electable, round_.committee)


def decide(
    config: TaskConfig,
    head_root: Digest,
    workers: Sequence[Id],
    updates: Sequence[RevealedUpdate],
    scores: Mapping[Id, Entries],
    electable: Collection[Id],
    committee: Collection[Id] = (),
) -> Tally:
    """Inclusion, shares, deviations and the next committee, from the scores of the validators that revealed.

    A worker that sits in `committee` is judged by the other members alone: its entry for its own update is ignored.

    Without a majority of reveals nothing is judged, no update counts, and no shares are formed.
    """
    if len(scores) < sharing.majority(config.committee_size):
        none = (False,) * len(workers)
        return Tally(none, (), dict.fromkeys(scores, 0), NO_SCORE, none, is_head_withheld=False)

    # One column for the head and one for each revealed update: what those who revealed say of it.
    head_column = [entries[0] for entries in scores.values()]
    columns = [
        [entries[1 + i] for judge, entries in scores.items() if judge != trainer or trainer not in committee]
        for i, trainer in enumerate(workers)
    ]
    seats = [config.committee_size - (trainer in committee) for trainer in workers]
    vouches = [[score is not None for score in column] for column in columns]
    roots = [update.root for update in updates]
    included = sharing.included(vouches, roots, head_root, config, seats)

    # The committee's one number for each included update, and what the rule makes of these numbers.
    kept = [i for i, counts in enumerate(included) if counts]
    statistics = [_statistic(columns[i], config, seats[i]) for i in kept]
    is_enough = sharing.is_enough(included, [worker in committee for worker in workers], config)
    is_formed = is_enough and not config.rule.is_attested
    shares = _shares(statistics, kept, updates, config) if is_formed else ()
    ranked = [workers[kept[position]] for position in sharing.rank(statistics)]
    is_electing = is_formed and config.rule.is_elected

    def _others(judge: Id) -> list[tuple[int, int]]:
        """The included updates that a member did not train itself, with the committee's number for each."""
        return [
            (i, n)
            for i, n in zip(kept, statistics, strict=True)
            if workers[i] != judge or judge not in committee
        ]

    members = config.committee_size
    return Tally(
        tuple(included),
        shares,
        {id_: _deviation(entries, _others(id_), config) for id_, entries in scores.items()},
        _head_score(head_column, config),
        tuple(sharing.is_withheld(column, judges) for column, judges in zip(vouches, seats, strict=True)),
        sharing.is_withheld([score is not None for score in head_column], members),
        _elect(ranked, electable, members) if is_electing else None,
    )


def has_quorum(task: Task) -> bool:
    """Whether a majority of the committee revealed its scores."""
    revealed = sum(scores.revealed is not None for scores in task.round.scores.values())
    return revealed >= sharing.majority(len(task.round.committee))


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
    """A validator's scores of the running round."""
    return entries_of(task.config.rule, len(task.round.order), scores)


def losses_of(task: Task) -> dict[Id, float]:
    """The median loss that the committee found for each update; nothing where the rule asks for no losses.

    An appointed member's entry for its own update is left out, as the tally leaves it out.
    """
    if score_kind(task.config.rule) is not ScoreKind.LOSS:
        return {}
    shown = {id_: revealed_by(task.round, id_) for id_ in task.round.committee}
    scores = {id_: decoded_scores(task, vector) for id_, vector in shown.items() if vector is not None}

    # Entry 0 is the head's; the updates follow in index order.
    found = {
        worker: [entries[1 + place] for judge, entries in scores.items() if judge != worker]
        for place, worker in enumerate(task.round.order)
    }
    known = {worker: [loss for loss in losses if loss is not None] for worker, losses in found.items()}
    return {worker: median(losses) / ONE for worker, losses in known.items() if losses}


def entries_of(rule: Rule, count: int, scores: bytes) -> list[int | None]:
    """Entry 0 and the entries of all updates; None where the validator says: not available, or invalid."""
    kind = score_kind(rule)
    try:
        decoded = decode_scores(kind, scores, count)
    except ScoresError:
        raise errors.BadScoresError(len(scores), scores_length(kind, count)) from None
    head = decoded.head if vouches(ScoreKind.LOSS, decoded.head) else None
    return [head, *(entry if vouches(kind, entry) else None for entry in decoded.entries)]


def _is_scored(config: TaskConfig) -> bool:
    """Whether the rule's scores are numbers; the other rules only ask whether the bytes are there."""
    return config.rule.is_softmax or config.rule.is_elected


def _factor(config: TaskConfig) -> int:
    """Losses become WAD; squared distances are whole numbers and stay as they are."""
    return 1 if config.rule.is_elected else sharing.SCORE_TO_WAD


def _statistic(column: Entries, config: TaskConfig, seats: int) -> int:
    """The committee's one number for one included update; 0 where the rule has no scores."""
    if not _is_scored(config):
        return 0
    numbers = [score for score in column if score is not None]
    return sharing.statistic_of(numbers, config.statistic, _factor(config), seats)


def _shares(
    statistics: Sequence[int], kept: Sequence[int], updates: Sequence[RevealedUpdate], config: TaskConfig
) -> tuple[int, ...]:
    """The head's share first, then one for each revealed update, or for each rank where the rule is on ranks."""
    samples = [updates[i].samples for i in kept]
    formed = sharing.shares_of(statistics, samples, config)
    laid_out = formed if config.rule.is_on_ranks else _spread(formed, kept, len(updates))
    return (TOTAL - sum(formed), *laid_out)


def _deviation(entries: Entries, judged: Sequence[tuple[int, int]], config: TaskConfig) -> int:
    """How far one validator's scores of included updates lie from the committee's numbers."""
    gaps = [_gap(entries[1 + i], statistic, config) for i, statistic in judged]
    return rewards.deviation(gaps, config.dev_cap) if gaps else 0


def _gap(score: int | None, statistic: int, config: TaskConfig) -> int | None:
    """The distance of one score from the committee's number; None where the validator did not vouch."""
    if score is None:
        return None
    return abs(score * _factor(config) - statistic) if _is_scored(config) else 0


def _spread(formed: Sequence[int], kept: Sequence[int], count: int) -> list[int]:
    """Shares per included update laid out per revealed update, zero for the others."""
    by_index = dict(zip(kept, formed, strict=True))
    return [by_index.get(i, 0) for i in range(count)]


def _elect(ranked: Sequence[Id], electable: Collection[Id], size: int) -> tuple[Id, ...] | None:
    """The middle of the ranking, of those still staked (CMFL); empty when too few are electable."""
    candidates = [id_ for id_ in ranked if id_ in electable]
    if len(candidates) < size:
        return None
    start = (len(candidates) - size) // 2
    return tuple(candidates[start : start + size])


def _head_score(scores: Sequence[int | None], config: TaskConfig) -> int:
    """The committee's loss of the head in WAD, when a majority of the committee gave one."""
    numbers = [score for score in scores if score is not None]
    if len(numbers) < sharing.majority(config.committee_size):
        return NO_SCORE
    return sharing.statistic_of(numbers, config.statistic, sharing.SCORE_TO_WAD, config.committee_size)
