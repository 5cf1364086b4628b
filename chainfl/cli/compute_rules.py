"""`chainfl compute shares|draw|elect|reward`: the contract's decisions from numbers of your own.

All four run the functions that the contract is tested against, so that an answer here is the answer on chain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, TypeVar

from chainfl.cli.compute import computation
from chainfl.cli.questions import DrawQuestion, Election, Judgement, RewardQuestion
from chainfl.codec.commitments import draw_seed
from chainfl.codec.scores import Scores, decode_scores, encode_scores, unavailable
from chainfl.errors import InputError
from chainfl.protocol import draw as drawing
from chainfl.protocol import rewards, state
from chainfl.protocol import tally as tallying
from chainfl.protocol.shares import equal, head_share, is_enough, krum, majority
from chainfl.protocol.term_table import MAX_UPDATES, TERM
from chainfl.protocol.varsel import varsel_shares, varsel_weights
from chainfl.types import TOTAL, Digest, Id, Rule, TaskConfig

T = TypeVar("T")

_NO_LOSS = 2**64 - 1


@computation
def shares(asked: Judgement) -> Mapping[str, Any]:
    """The shares that a committee's scores give to the head and to every revealed update.

    "scores" has one entry per member that revealed: its bytes (with the number of "updates"), or an array of
    the head's loss and one score per update (null: not available; for rules without scores 1 or 0).
    "committee_size" is needed; "rule" (default "softmax") and the task's terms as in docs/protocol.md section
    4: "statistic", "beta", "alpha", "tolerated", "selected", "keep", "by_samples", "unique_roots",
    "min_updates", "dev_cap", "budget"; per update "samples", and "roots" beside "head_root". For "krum",
    "multi-krum" and "varsel" the shares are empty, as on chain, unless "distances" gives the included updates'
    squared distances; "varsel" also asks for "internals", true or false for each update.
    Of an "appointed" committee, of two members or more, give the ids of all, those that revealed first and in
    the order of "scores", and the "ids" of the updates: nobody judges its own, and "internals" follows.

    Example: echo '{"committee_size": 3, "scores": [[9, 1000000000000, 2000000000000],
    [9, 1000000000000, 2000000000000]]}' | chainfl compute shares --json
    """
    judged = _judge(asked)
    tallied = judged.tally
    return {
        "included": list(tallied.included),
        "shares": _attested(asked, judged) if asked.has("distances") else list(tallied.shares),
        "head_score": None if tallied.head_score == state.NO_SCORE else tallied.head_score,
        "deviations": list(tallied.deviations.values()),
    }


@computation
def draw(asked: DrawQuestion) -> Mapping[str, Any]:
    """Who does what in a round, drawn by stake from the round's seed.

    Give the "seed", or "chain_id", "task", "round" and "mix_hash" that make it; "weights" as an array (ids 1,
    2, 3 …) or as pairs [id, weight]; "committee_size" and "max_updates". With a "rule" that elects its
    committee, "elected" names the one that the round before elected; "appointed" names the internals with a
    weight, where they are the committee, and "internals_train" says whether they train too. "workers" is null
    when everybody else works.

    Example: echo '{"seed": "0x0000000000000000000000000000000000000000000000000000000000000001",
    "weights": [1000, 1000, 2000, 1000, 3000, 1000],
    "committee_size": 3, "max_updates": 8}' | chainfl compute draw --json
    """
    seed = asked.seed
    if not asked.has("seed"):
        seed = draw_seed(asked.chain_id, asked.task, asked.round, asked.mix_hash)

    roles = drawing.draw_roles(
        seed,
        asked.pairs(),
        asked.committee_size,
        asked.room,
        asked.sitting,
        asked.rule.is_elected,
    )
    return {
        "seed": "0x" + seed.hex(),
        "committee": list(roles.committee),
        "proposers": list(roles.proposers),
        "workers": None if roles.workers is None else list(roles.workers),
    }


@computation
def elect(asked: Election) -> Mapping[str, Any]:
    """The next committee: the middle of the ranking by the committee's statistic (CMFL).

    Takes what `compute shares` takes, with "rule" "committee-near" (default) or "committee-far"; "ids" are the
    enrolment ids of the revealed updates (default 1, 2, 3 …) and "weights" what each weighs in the draw
    (default 1). "elected" is null when too few are electable: then the next committee is drawn.

    Example: echo '{"committee_size": 3, "scores": [[9, 5, 1, 4, 2, 3], [9, 5, 1, 4, 2, 3]]}' |
    chainfl compute elect --json
    """
    judged = _judge(asked)
    return {
        "included": list(judged.tally.included),
        "elected": None if judged.elected is None else list(judged.elected),
    }


@computation
def reward(asked: RewardQuestion) -> Mapping[str, Any]:
    """What a round pays to each worker, each validator and the miner, in wei.

    "escrow" (at creation), "rounds", "caller_fee", "workers_part" and "committee_part" (WAD) make the budget.
    Workers are paid by "shares" (p_0 first), or equally over "included" (true or false each) where shares
    belong to ranks. The committee is paid by "deviations", one per validator that is to be paid. "outcome" is
    "final" (default) or "void".

    Example: echo '{"escrow": 1000, "rounds": 2, "workers_part": "600000000000000000",
    "committee_part": "300000000000000000", "shares": [0, 1073741824, 1073741824],
    "deviations": [1, 2, 3]}' | chainfl compute reward --json
    """
    unread: dict[str, Any] = dict.fromkeys(TERM, 0)
    split = {
        name: getattr(asked, name) for name in ("rounds", "caller_fee", "workers_part", "committee_part")
    }
    budget = rewards.round_budget(asked.escrow, TaskConfig(**unread | split))

    # Shares of updates, or one each where shares belong to ranks.
    parts = asked.shares[1:] if asked.has("shares") else [int(counts) for counts in asked.included]
    whole = TOTAL - asked.shares[0] if asked.has("shares") else max(1, sum(parts))

    return {
        "budget": {"workers": budget.workers, "committee": budget.committee, "miner": budget.miner},
        "workers": [budget.workers * part // whole for part in parts],
        "committee": rewards.committee_pay(asked.deviations, budget.committee),
        "miner": budget.miner if asked.outcome else 0,
    }


@dataclass(frozen=True, slots=True)
class _Judged:
    """What the rules make of scores."""

    config: TaskConfig
    tally: state.Tally
    elected: tuple[Id, ...] | None
    internals: Sequence[bool]


def _judge(asked: Judgement) -> _Judged:
    """Set up a round as these numbers describe it, and let the rules decide."""
    config = asked.config()
    entries = _score_rows(asked)
    count = len(entries[0]) - 1
    ids = [Id(id_) for id_ in _per_update(asked, "ids", count, range(1, count + 1))]
    roots = _per_update(asked, "roots", count, [Digest((1 + at).to_bytes(32, "big")) for at in range(count)])
    samples = _per_update(asked, "samples", count, [1] * count)
    weights = _per_update(asked, "weights", count, [1] * count)
    head_root = asked.head_root

    # Members that are not named get ids that no update has, so that none of them judges its own.
    committee = [Id(id_) for id_ in asked.appointed]
    members = committee[: len(entries)] or [Id(2**32 + k) for k in range(len(entries))]
    scores = {member: _decoded(config.rule, row) for member, row in zip(members, entries, strict=True)}
    updates = [state.RevealedUpdate(root, head_root, held) for root, held in zip(roots, samples, strict=True)]
    electable = {id_ for id_, weight in zip(ids, weights, strict=True) if weight > 0}

    tallied = tallying.decide(config, head_root, ids, updates, scores, electable, committee)

    # Without a majority of revealed scores the contract includes nothing.
    has_quorum = len(scores) >= majority(config.committee_size)
    internals = [id_ in committee for id_ in ids] if committee else asked.internals
    return _Judged(
        config, tallied if has_quorum else replace(tallied, included=()), tallied.elected, internals
    )


def _decoded(rule: Rule, row: Sequence[int]) -> list[int | None]:
    """One validator's entries as the contract reads them: encoded, and decoded again."""
    encoded = encode_scores(tallying.score_kind(rule), Scores(row[0], tuple(row[1:])))
    return tallying.entries_of(rule, len(row) - 1, encoded)


def _attested(asked: Judgement, judged: _Judged) -> list[int]:
    """The shares that a proposer has to post, from the distances between the included updates."""
    config = judged.config
    included = judged.tally.included
    count = sum(included)
    matrix = asked.distances
    if not config.rule.is_attested or len(matrix) != count or any(len(row) != count for row in matrix):
        raise InputError(
            f"input.distances: give krum, multi-krum or varsel {count} rows of {count} distances"
        )

    if count < config.min_updates:
        return []
    if config.rule is Rule.VARSEL:
        return _weighed(asked, judged)

    wanted = 1 if config.rule is Rule.KRUM else min(config.selected, count)

    # `krum` judges the included updates only; the excluded ones between them have no share.
    chosen = iter(krum(matrix, config.tolerated, wanted))
    kept = head_share(config.alpha)
    return [kept, *equal([next(chosen) if counts else False for counts in included], TOTAL - kept)]


def _weighed(asked: Judgement, judged: _Judged) -> list[int]:
    """VaRSeL's shares; none where no internal update counts."""
    included = judged.tally.included
    internals_R = judged.internals
    if len(internals_R) != len(included):
        raise InputError(f"input.internals: {len(internals_R)} for {len(included)} updates")
    if not is_enough(included, internals_R, judged.config):
        return []

    internals_K = list(compress(internals_R, included))
    weights_K = varsel_weights(asked.distances, internals_K, judged.config.budget)
    parts = iter(varsel_shares(weights_K, internals_K))
    return [0, *(next(parts) if counts else 0 for counts in included)]


def _score_rows(asked: Judgement) -> list[list[int]]:
    """The scores of every member that revealed: the head's, then one per update."""
    rows = [_score_row(asked, at) for at in range(len(asked.scores))]
    lengths = {len(row) for row in rows}
    if len(lengths) > 1:
        raise InputError(
            f"input.scores: members scored {min(lengths) - 1} to {max(lengths) - 1} updates, not the same number"
        )
    if max(lengths) > 1 + MAX_UPDATES:
        raise InputError(f"input.scores: {max(lengths) - 1} updates; a round has at most {MAX_UPDATES}")
    return rows


def _score_row(asked: Judgement, at: int) -> list[int]:
    sort = tallying.score_kind(asked.rule)
    row = asked.scores[at]
    if isinstance(row, bytes):
        decoded = decode_scores(sort, row, asked.updates)
        return [decoded.head, *decoded.entries]
    if not row:
        raise InputError(f"input.scores[{at}]: the head's loss comes first")

    none = unavailable(sort)
    most = 2**sort.value - 1
    entries = [_NO_LOSS if row[0] is None else row[0], *(none if each is None else each for each in row[1:])]
    for place, entry in enumerate(entries):
        limit = most if place else _NO_LOSS
        if entry > limit:
            raise InputError(f"input.scores[{at}][{place}]: {entry} is too large: give at most {limit}")
    return entries


def _per_update(asked: Judgement, name: str, count: int, default: Sequence[T]) -> list[T]:
    """What the question says of every update, one value each; the default where it says nothing."""
    values = getattr(asked, name) if asked.has(name) else list(default)
    if len(values) != count:
        raise InputError(f"input.{name}: {len(values)} for {count} updates")
    return list(values)
