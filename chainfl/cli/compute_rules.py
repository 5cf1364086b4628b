"""`chainfl compute shares|draw|elect|reward`: the contract's decisions from numbers of your own.

All four run the functions that the contract is tested against, so that an answer here is the answer on chain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from chainfl.cli.compute import computation
from chainfl.cli.inputs import Json, integer, integers, items, kind, octets, only
from chainfl.codec.commitments import draw_seed
from chainfl.codec.scores import Scores, decode_scores, encode_scores, unavailable
from chainfl.errors import InputError
from chainfl.protocol import draw as drawing
from chainfl.protocol import rewards, state, term_table, terms
from chainfl.protocol import tally as tallying
from chainfl.protocol.shares import equal, head_share, krum
from chainfl.types import TOTAL, WAD, Address, Digest, Id, Rule, Statistic, TaskConfig

_UINT32, _UINT64, _UINT128 = 2**32 - 1, 2**64 - 1, 2**128 - 1
_RULES = {rule.name_text: rule for rule in Rule}
_STATISTICS = {statistic.name.lower(): statistic for statistic in Statistic}
_JUDGEMENT = (
    "rule",
    "committee_size",
    "scores",
    "updates",
    "samples",
    "roots",
    "head_root",
    "ids",
    "weights",
    "statistic",
    "beta",
    "alpha",
    "tolerated",
    "keep",
    "by_samples",
    "unique_roots",
    "min_updates",
    "dev_cap",
    "selected",
    "distances",
)


@computation
def shares(given: dict[str, Json]) -> Mapping[str, Any]:
    """The shares that a committee's scores give to the head and to every revealed update.

    "scores" has one entry per member that revealed: its bytes (with the number of "updates"), or an array of
    the head's loss and one score per update (null: not available; for rules without scores 1 or 0).
    "committee_size" is needed; "rule" (default "softmax") and the task's terms as in docs/protocol.md section
    4: "statistic", "beta", "alpha", "tolerated", "selected", "keep", "by_samples", "unique_roots",
    "min_updates", "dev_cap"; per update "samples", and "roots" beside "head_root". For "krum" and "multi-krum"
    the shares are empty, as on chain, unless "distances" gives the included updates' squared distances.

    Example: echo '{"committee_size": 3, "scores": [[9, 1000000000000, 2000000000000],
    [9, 1000000000000, 2000000000000]]}' | chainfl compute shares --json
    """
    judged = _judge(given, Rule.SOFTMAX)
    tallied = judged.tally
    return {
        "included": list(tallied.included),
        "shares": _attested(given, judged) if "distances" in given else list(tallied.shares),
        "head_score": None if tallied.head_score == state.NO_SCORE else tallied.head_score,
        "deviations": list(tallied.deviations.values()),
    }


@computation
def draw(given: dict[str, Json]) -> Mapping[str, Any]:
    """Who does what in a round, drawn by stake from the round's seed.

    Give the "seed", or "chain_id", "task", "round" and "mix_hash" that make it; "weights" as an array (ids 1,
    2, 3 …) or as pairs [id, weight]; "committee_size" and "max_updates". With a "rule" that elects its
    committee, "elected" names the one that the round before elected. "workers" is null when everybody else
    works.

    Example: echo '{"seed": "0x0000000000000000000000000000000000000000000000000000000000000001",
    "weights": [1000, 1000, 2000, 1000, 3000, 1000],
    "committee_size": 3, "max_updates": 8}' | chainfl compute draw --json
    """
    only(
        given,
        (
            "seed",
            "chain_id",
            "task",
            "round",
            "mix_hash",
            "weights",
            "committee_size",
            "max_updates",
            "rule",
            "elected",
        ),
        "input",
    )
    trains = _choice(given, "rule", _RULES, Rule.SOFTMAX).is_elected
    elected = given.get("elected")
    if elected is not None and not trains:
        raise InputError('input.elected: only "committee-near" and "committee-far" elect a committee')
    sitting = None if elected is None else [Id(i) for i in integers(elected, "input.elected", 1, _UINT32)]
    seed, weights, size = _seed(given), _weights(given.get("weights")), _committee_size(given)
    staked, least = sum(weight > 0 for _, weight in weights), 2 * size if trains else size + 2
    if staked < least:
        raise InputError(f"input.weights: {staked} accounts have a weight; a draw opens with {least} or more")
    roles = drawing.draw_roles(
        seed,
        weights,
        size,
        integer(given.get("max_updates"), "input.max_updates", 1, term_table.MAX_UPDATES),
        sitting,
        trains,
    )
    return {
        "seed": "0x" + seed.hex(),
        "committee": list(roles.committee),
        "proposers": list(roles.proposers),
        "workers": None if roles.workers is None else list(roles.workers),
    }


@computation
def elect(given: dict[str, Json]) -> Mapping[str, Any]:
    """The next committee: the middle of the ranking by the committee's statistic (CMFL).

    Takes what `compute shares` takes, with "rule" "committee-near" (default) or "committee-far"; "ids" are the
    enrolment ids of the revealed updates (default 1, 2, 3 …) and "weights" what each weighs in the draw
    (default 1). "elected" is null when too few are electable: then the next committee is drawn.

    Example: echo '{"committee_size": 3, "scores": [[9, 5, 1, 4, 2, 3], [9, 5, 1, 4, 2, 3]]}' |
    chainfl compute elect --json
    """
    judged = _judge(given, Rule.COMMITTEE_NEAR)
    if not judged.config.rule.is_elected:
        raise InputError('input.rule: only "committee-near" and "committee-far" elect a committee')
    return {
        "included": list(judged.tally.included),
        "elected": None if judged.elected is None else list(judged.elected),
    }


@computation
def reward(given: dict[str, Json]) -> Mapping[str, Any]:
    """What a round pays to each worker, each validator and the miner, in wei.

    "escrow" (at creation), "rounds", "caller_fee", "workers_part" and "committee_part" (WAD) make the budget.
    Workers are paid by "shares" (p_0 first), or equally over "included" (true or false each) where shares
    belong to ranks. The committee is paid by "deviations", one per validator that is to be paid. "outcome" is
    "final" (default) or "void".

    Example: echo '{"escrow": 1000, "rounds": 2, "workers_part": "600000000000000000",
    "committee_part": "300000000000000000", "shares": [0, 1073741824, 1073741824],
    "deviations": [1, 2, 3]}' | chainfl compute reward --json
    """
    only(
        given,
        (
            "escrow",
            "rounds",
            "caller_fee",
            "workers_part",
            "committee_part",
            "shares",
            "included",
            "deviations",
            "outcome",
        ),
        "input",
    )
    budget = _budget(given)
    parts, whole = _worker_parts(given)
    deviations = integers(given.get("deviations", []), "input.deviations", 0, _UINT128)
    is_final = _choice(given, "outcome", {"final": True, "void": False}, True)
    return {
        "budget": {"workers": budget.workers, "committee": budget.committee, "miner": budget.miner},
        "workers": [budget.workers * part // whole for part in parts],
        "committee": rewards.committee_pay(deviations, budget.committee),
        "miner": budget.miner if is_final else 0,
    }


@dataclass(frozen=True, slots=True)
class _Judged:
    """What the rules make of scores."""

    config: TaskConfig
    tally: state.Tally
    elected: tuple[Id, ...] | None


def _judge(given: dict[str, Json], default: Rule) -> _Judged:
    """Set up a round as these numbers describe it, and let the rules decide."""
    only(given, _JUDGEMENT, "input")
    rule, size = _choice(given, "rule", _RULES, default), _committee_size(given)
    entries = _score_rows(given, rule, size)
    count = len(entries[0]) - 1
    ids = [Id(i) for i in _per_update(given, "ids", count, 1, _UINT32, range(1, count + 1))]
    if ids != sorted(set(ids)):
        raise InputError("input.ids: enrolment ids ascend, as the index of updates follows them")
    config = _terms(given, rule, size)
    roots = _roots(given, count)
    samples = _per_update(given, "samples", count, 1, _UINT64, [1] * count)
    weights = _per_update(given, "weights", count, 0, _UINT32, [1] * count)

    head_root = _digest(given, "head_root", bytes(32))
    task = state.new_task(0, Address(bytes(20)), 1, Address(bytes(20)), config, 0, 1)
    task.head_root, round_ = head_root, task.round
    members = [Id(_UINT32 + 1 + k) for k in range(size)]
    round_.drawn, round_.order = drawing.Drawn(tuple(members), (), None), tuple(ids)
    for id_, root, held in zip(ids, roots, samples, strict=True):
        round_.updates[id_] = state.Update(head_root, root, head_root, held)
    for member, row in zip(members, entries, strict=False):
        scores = encode_scores(tallying.score_kind(rule), Scores(row[0], tuple(row[1:])))
        round_.scores[member] = state.Scores(head_root, scores)
    _enrol(task, dict(zip(ids, weights, strict=True)))

    elected = tallying.decide(task)
    assert round_.tally is not None
    judged = round_.tally if tallying.has_quorum(task) else replace(round_.tally, included=())
    return _Judged(config, judged, elected)


def _enrol(task: state.Task, weights: Mapping[Id, int]) -> None:
    """Let the task know the accounts behind these ids. Ids may be far apart, so each place up to the last is filled."""
    last = max(weights, default=0)
    if last > 2**20:
        raise InputError(f"input.ids: {last} is more than any task here enrols; give ids up to {2**20}")
    task.addresses = [Address(n.to_bytes(20, "big")) for n in range(1, last + 1)]
    for id_, weight in weights.items():
        address = task.addresses[id_ - 1]
        task.accounts[address] = state.Account(id_, address, True, weight, 0)


def _terms(given: Mapping[str, Json], rule: Rule, size: int) -> TaskConfig:
    """The terms that decide over scores; the others are zero, for nothing here reads them."""
    unread: dict[str, Any] = dict.fromkeys((field.name for field in fields(TaskConfig)), 0)
    read = {
        "rule": rule,
        "committee_size": size,
        "statistic": _choice(given, "statistic", _STATISTICS, Statistic.MEDIAN),
        "beta": integer(given.get("beta", WAD), "input.beta", 0, term_table.MAX_BETA),
        "alpha": integer(given.get("alpha", WAD), "input.alpha", 1, WAD),
        "tolerated": integer(given.get("tolerated", 0), "input.tolerated", 0, 255),
        "selected": integer(given.get("selected", 1), "input.selected", 1, term_table.MAX_UPDATES),
        "keep": integer(given.get("keep", WAD), "input.keep", 1, WAD),
        "by_samples": _flag(given, "by_samples", False),
        "unique_roots": _flag(given, "unique_roots", True),
        "dev_cap": integer(given.get("dev_cap", WAD), "input.dev_cap", 0, _UINT128),
    }
    config = TaskConfig(**unread | read)
    least = max(1, terms.rule_minimum(config))
    wanted = integer(given.get("min_updates", least), "input.min_updates", least, term_table.MAX_UPDATES)
    return replace(config, min_updates=wanted)


def _attested(given: Mapping[str, Json], judged: _Judged) -> list[int]:
    """The shares that a proposer of Krum has to post, from the distances between the included updates."""
    config, included = judged.config, judged.tally.included
    count = sum(included)
    rows = items(given["distances"], "input.distances")
    matrix = [integers(row, f"input.distances[{at}]", 0, _UINT128) for at, row in enumerate(rows)]
    if not config.rule.is_attested or len(matrix) != count or any(len(row) != count for row in matrix):
        raise InputError(f"input.distances: give krum or multi-krum {count} rows of {count} distances")
    if count < config.min_updates:
        return []
    wanted = 1 if config.rule is Rule.KRUM else min(config.selected, count)
    chosen = iter(krum(matrix, config.tolerated, wanted))
    kept = head_share(config.alpha)
    return [kept, *equal([next(chosen) if counts else False for counts in included], TOTAL - kept)]


def _score_rows(given: Mapping[str, Json], rule: Rule, size: int) -> list[list[int]]:
    """The scores of every member that revealed: the head's, then one per update."""
    rows = items(given.get("scores"), "input.scores")
    if not 1 <= len(rows) <= size:
        raise InputError(
            f"input.scores: {len(rows)} members revealed, of a committee of {size}; give 1 to {size}"
        )
    count = integer(given.get("updates", 0), "input.updates", 0, term_table.MAX_UPDATES)
    read = [_score_row(row, f"input.scores[{at}]", rule, count) for at, row in enumerate(rows)]
    lengths = {len(row) for row in read}
    if len(lengths) > 1:
        raise InputError(
            f"input.scores: members scored {min(lengths) - 1} to {max(lengths) - 1} updates, not the same number"
        )
    if max(lengths) > 1 + term_table.MAX_UPDATES:
        raise InputError(
            f"input.scores: {max(lengths) - 1} updates; a round has at most {term_table.MAX_UPDATES}"
        )
    return read


def _score_row(row: Json, path: str, rule: Rule, count: int) -> list[int]:
    sort = tallying.score_kind(rule)
    if isinstance(row, str):
        decoded = decode_scores(sort, octets(row, path), count)
        return [decoded.head, *decoded.entries]
    entries = items(row, path)
    if not entries:
        raise InputError(f"{path}: the head's loss comes first")
    none = unavailable(sort)
    return [
        integer(_UINT64 if entries[0] is None else entries[0], f"{path}[0]", 0, _UINT64),
        *(
            integer(none if entry is None else entry, f"{path}[{at}]", 0, 2**sort.value - 1)
            for at, entry in enumerate(entries[1:], 1)
        ),
    ]


def _roots(given: Mapping[str, Json], count: int) -> list[Digest]:
    """One root per update; all different where none are given."""
    if "roots" not in given:
        return [Digest((1 + at).to_bytes(32, "big")) for at in range(count)]
    roots = items(given["roots"], "input.roots")
    if len(roots) != count:
        raise InputError(f"input.roots: {len(roots)} for {count} updates")
    return [_word(root, f"input.roots[{at}]") for at, root in enumerate(roots)]


def _per_update(
    given: Mapping[str, Json], name: str, count: int, low: int, high: int, default: Sequence[int]
) -> list[int]:
    values = list(default) if name not in given else integers(given[name], f"input.{name}", low, high)
    if len(values) != count:
        raise InputError(f"input.{name}: {len(values)} for {count} updates")
    return values


def _weights(value: Json) -> list[tuple[Id, int]]:
    """Ids and weights in id order."""
    pairs = []
    for at, each in enumerate(items(value, "input.weights")):
        path = f"input.weights[{at}]"
        if isinstance(each, list):
            if len(each) != 2:
                raise InputError(f"{path}: expected [id, weight], found {len(each)} values")
            pairs.append(
                (Id(integer(each[0], path, 1, _UINT32)), integer(each[1], path, 0, terms.MAX_WEIGHT))
            )
        else:
            pairs.append((Id(at + 1), integer(each, path, 0, terms.MAX_WEIGHT)))
    ids = [id_ for id_, _ in pairs]
    if ids != sorted(set(ids)):
        raise InputError("input.weights: ids ascend, each once")
    return pairs


def _seed(given: Mapping[str, Json]) -> Digest:
    """The seed as given, or made of the block's randomness as the contract makes it."""
    parts = [name for name in ("chain_id", "task", "round", "mix_hash") if name in given]
    if "seed" in given:
        if parts:
            raise InputError(f'input: give either "seed" or what makes it, not both "seed" and "{parts[0]}"')
        return _word(given["seed"], "input.seed")
    return draw_seed(
        integer(given.get("chain_id"), "input.chain_id", 0, 2**256 - 1),
        octets(given.get("task"), "input.task"),
        integer(given.get("round"), "input.round", 1, _UINT64),
        _word(given.get("mix_hash"), "input.mix_hash"),
    )


def _budget(given: Mapping[str, Json]) -> rewards.Budget:
    unread: dict[str, Any] = dict.fromkeys((field.name for field in fields(TaskConfig)), 0)
    escrow = integer(given.get("escrow"), "input.escrow", 0, 2**256 - 1)
    rounds = integer(given.get("rounds"), "input.rounds", 1, _UINT64)
    fee = integer(given.get("caller_fee", 0), "input.caller_fee", 0, escrow // rounds // rewards.PAID_CALLS)
    workers = integer(given.get("workers_part"), "input.workers_part", 0, WAD)
    committee = integer(given.get("committee_part"), "input.committee_part", 0, WAD - workers)
    split = {"rounds": rounds, "caller_fee": fee, "workers_part": workers, "committee_part": committee}
    return rewards.round_budget(escrow, TaskConfig(**unread | split))


def _worker_parts(given: Mapping[str, Json]) -> tuple[list[int], int]:
    """Each worker's part, and the whole."""
    if ("shares" in given) == ("included" in given):
        raise InputError('input: give either "shares" or "included"')
    if "included" in given:
        flags = items(given["included"], "input.included")
        for at, flag in enumerate(flags):
            if not isinstance(flag, bool):
                raise InputError(f"input.included[{at}]: expected true or false, found {kind(flag)}")
        return [int(bool(flag)) for flag in flags], max(1, sum(map(bool, flags)))
    shares_ = integers(given["shares"], "input.shares", 0, TOTAL)
    if sum(shares_) != TOTAL or shares_[0] == TOTAL:
        raise InputError(f"input.shares: they sum to {sum(shares_)}, not to 2^31 with a part for updates")
    return shares_[1:], TOTAL - shares_[0]


def _committee_size(given: Mapping[str, Json]) -> int:
    size = integer(given.get("committee_size"), "input.committee_size", 3, term_table.MAX_COMMITTEE)
    if size % 2 == 0:
        raise InputError(f"input.committee_size: {size} is even; a committee is odd")
    return size


def _choice(given: Mapping[str, Json], name: str, table: Mapping[str, Any], default: Any) -> Any:
    """One of the names in a table."""
    if name not in given:
        return default
    text = given[name]
    if not isinstance(text, str) or text not in table:
        raise InputError(f"input.{name}: expected one of {', '.join(table)}, found {text!r:.80}")
    return table[text]


def _flag(given: Mapping[str, Json], name: str, default: bool) -> bool:
    value = given.get(name, default)
    if not isinstance(value, bool):
        raise InputError(f"input.{name}: expected true or false, found {kind(value)}")
    return value


def _digest(given: Mapping[str, Json], name: str, default: Digest) -> Digest:
    return default if name not in given else _word(given[name], f"input.{name}")


def _word(value: Json, path: str) -> Digest:
    data = octets(value, path)
    if len(data) != 32:
        raise InputError(f"{path}: expected 32 bytes, found {len(data)}")
    return data
