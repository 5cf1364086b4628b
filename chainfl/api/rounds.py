"""A played round as a document: who was drawn, who did what, what was decided and paid, from its events alone."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, TypeVar, cast

from chainfl.api import schemas
from chainfl.api.convert import cid_of, hex_of, loss_of, phase_name, place, who, whose
from chainfl.api.narrate import steps_of
from chainfl.api.source import PlacedEvent
from chainfl.api.transactions import transactions
from chainfl.audit.history import PlayedRound
from chainfl.codec.merkle import LEAF_PARAMETERS
from chainfl.codec.scores import ScoreKind, decode_scores, vouches
from chainfl.protocol import events, rewards, state
from chainfl.protocol.events import Event
from chainfl.protocol.proof import ZERO
from chainfl.protocol.settlement import settle, worker_pay
from chainfl.protocol.shares import majority
from chainfl.protocol.state import NO_SCORE, Task
from chainfl.protocol.tally import score_kind
from chainfl.types import TOTAL, Id, Outcome, Phase
from chainfl.types import Slash as SlashReason

AnyEvent = TypeVar("AnyEvent", bound=Event)
Votes = Literal["attests", "objects", "silent", "open"]

OUTCOMES: dict[Outcome, schemas.Outcome] = {
    Outcome.OPEN: "open",
    Outcome.FINAL: "final",
    Outcome.VOID: "void",
}
_UNITS = {
    ScoreKind.LOSS: "10^-12 of a loss (softmax-accuracy: of missed accuracy)",
    ScoreKind.DISTANCE: "squared distance of the integer vectors",
    ScoreKind.VOUCH: "1: the validator had the update's bytes",
}


def block_document(played: PlayedRound, opened_by: bytes | None = None) -> schemas.Block:
    """Everything that is known of a round. `opened_by` ended the round before too, and its gas counts there."""
    log = placed(played)
    standing = played.standing()
    tallied = _first(log, events.Tallied)
    slashes = slash_rows(standing, log)
    pay = reward_rows(played, standing, log)
    table = _score_table(standing) if standing.round.order else None
    attempts = _attempts(standing, log, played.outcome)
    is_final = played.outcome is Outcome.FINAL
    ended = next((e for e in log if isinstance(e.event, events.RoundEnded)), None)
    own = [logged for logged in log if logged.transaction != opened_by]
    gas = [one for one in transactions(standing.address, own) if one.round == played.number]
    return schemas.Block(
        task=hex_of(standing.address),
        task_id=standing.task_id,
        round=played.number,
        outcome=OUTCOMES[played.outcome],
        phase=phase_name(Phase.ENDED if ended else standing.round.phase),
        attempts=len(attempts),
        lies=sum(attempt.lie is not None for attempt in attempts),
        head_loss=loss_of(tallied.head_score if tallied else None),
        committed=len(standing.round.updates),
        revealed=sum(update.revealed is not None for update in standing.round.updates.values()),
        included=tallied.included.bit_count() if tallied else 0,
        paid=str(sum(int(row.amount) for row in pay if row.kind != "caller")),
        slashed=str(sum(int(row.amount) for row in slashes)),
        gas=sum(one.gas for one in gas),
        opened=next((place(e) for e in log if isinstance(e.event, events.DrawOpened)), None),
        ended=place(ended) if ended else None,
        rule=standing.config.rule.name_text,
        deadline=0 if ended else standing.round.deadline,
        head_root=hex_of(played.before.head_root),
        head_block=cid_of(played.before.head_block),
        model_root=hex_of(played.ended.head_root) if played.ended and is_final else None,
        block=cid_of(played.ended.head_block) if played.ended and is_final else None,
        draw=_draw(standing, log),
        updates=_updates(standing, tallied, table),
        scores=table,
        shares=_share_table(standing, tallied),
        next_committee=whose(standing, tallied.elected) if tallied else [],
        attempt_list=attempts,
        slashes=slashes,
        rewards=pay,
        gas_by_action=_gas_lines(gas),
        steps=steps_of(standing, log),
    )


def summary_of(block: schemas.Block) -> schemas.RoundSummary:
    """The round in one line."""
    names = schemas.RoundSummary.model_fields
    return schemas.RoundSummary(**{name: getattr(block, name) for name in names})


def placed(played: PlayedRound) -> list[PlacedEvent]:
    """The round's events with their places: lines of the API are built from nothing else."""
    return [cast(PlacedEvent, logged) for logged in played.events]


def _first(log: Sequence[PlacedEvent], kind: type[AnyEvent]) -> AnyEvent | None:
    return next((e.event for e in log if isinstance(e.event, kind)), None)


def _draw(task: Task, log: Sequence[PlacedEvent]) -> schemas.Draw | None:
    for logged in log:
        drawn = logged.event
        if isinstance(drawn, events.Drawn):
            return schemas.Draw(
                block_number=drawn.block_number,
                seed=hex_of(drawn.seed),
                committee=whose(task, drawn.committee),
                proposers=whose(task, drawn.proposers),
                workers=whose(task, drawn.workers) if drawn.limited else None,
                expected=drawn.expected,
                place=place(logged),
            )
    return None


def _updates(
    task: Task, tallied: events.Tallied | None, table: schemas.ScoreTable | None
) -> list[schemas.Update]:
    round_, shares = task.round, _update_shares(task, tallied)
    indexes = {id_: index for index, id_ in enumerate(round_.order)}

    def row(id_: Id, update: state.Update) -> schemas.Update:
        index = indexes.get(id_)
        revealed = update.revealed
        return schemas.Update(
            worker=who(task, id_),
            index=None if index is None else index + 1,
            member=id_ in round_.committee,
            commitment=hex_of(update.commitment),
            root=hex_of(revealed.root) if revealed else None,
            cid=cid_of(revealed.cid) if revealed else None,
            samples=revealed.samples if revealed else None,
            included=bool(tallied.included >> index & 1) if tallied and index is not None else None,
            vouches=_vouches(task, table, index) if tallied and index is not None else None,
            share=shares.get(id_),
        )

    return [row(id_, update) for id_, update in sorted(round_.updates.items())]


def _vouches(task: Task, table: schemas.ScoreTable | None, index: int) -> int:
    if table is None:
        return 0
    none = "0" if score_kind(task.config.rule) is ScoreKind.VOUCH else None
    return sum(row.revealed and row.entries[index] not in (None, none) for row in table.validators)


def _update_shares(task: Task, tallied: events.Tallied | None) -> dict[Id, int]:
    shares = _shares(task, tallied)
    if not shares or task.config.rule.is_on_ranks:
        return {}
    return dict(zip(task.round.order, shares[1:], strict=True))


def _shares(task: Task, tallied: events.Tallied | None) -> tuple[int, ...]:
    """The contract's shares, or those that the newest proposal posts."""
    posted = task.round.proposal.shares if task.round.proposal else ()
    return posted or (tallied.shares if tallied else ())


def _share_table(task: Task, tallied: events.Tallied | None) -> schemas.ShareTable | None:
    if tallied is None:
        return None
    shares = _shares(task, tallied)
    if not shares:
        return schemas.ShareTable(decided_by="nobody", shares=[])
    on_ranks = task.config.rule.is_on_ranks

    def row(index: int, share: int) -> schemas.Share:
        owner: Literal["head", "update", "rank"] = "head" if index == 0 else "rank" if on_ranks else "update"
        worker = who(task, task.round.order[index - 1]) if owner == "update" else None
        return schemas.Share(
            owner=owner, index=index, worker=worker, share=share, fraction=round(share / TOTAL, 9)
        )

    decided: Literal["contract", "proposer"] = "contract" if tallied.shares else "proposer"
    return schemas.ShareTable(decided_by=decided, shares=[row(i, share) for i, share in enumerate(shares)])


def _score_table(task: Task) -> schemas.ScoreTable:
    round_, kind = task.round, score_kind(task.config.rule)
    tallied = round_.tally

    def entry(value: int) -> str | None:
        return str(value) if kind is ScoreKind.VOUCH or vouches(kind, value) else None

    def row(id_: Id) -> schemas.Scores:
        mine = round_.scores.get(id_)
        shown = mine.revealed if mine else None
        decoded = decode_scores(kind, shown, len(round_.order)) if shown is not None else None
        deviation = tallied.deviations.get(id_) if tallied else None
        return schemas.Scores(
            validator=who(task, id_),
            committed=mine is not None,
            revealed=decoded is not None,
            head=str(decoded.head) if decoded and vouches(ScoreKind.LOSS, decoded.head) else None,
            entries=[entry(value) for value in decoded.entries] if decoded else [],
            deviation=None if deviation is None else str(deviation),
        )

    names: dict[ScoreKind, Literal["loss", "distance", "vouch"]] = {
        ScoreKind.LOSS: "loss",
        ScoreKind.DISTANCE: "distance",
        ScoreKind.VOUCH: "vouch",
    }
    has_score = tallied is not None and tallied.head_score != NO_SCORE
    return schemas.ScoreTable(
        kind=names[kind],
        unit=_UNITS[kind],
        workers=whose(task, round_.order),
        validators=[row(id_) for id_ in round_.committee],
        head_score=str(tallied.head_score) if tallied and has_score else None,
    )


# Attempts


def _attempts(task: Task, log: Sequence[PlacedEvent], outcome: Outcome) -> list[schemas.Attempt]:
    """One entry per proposer's turn: cut the events at each entry into Propose."""
    starts = [
        at
        for at, logged in enumerate(log)
        if isinstance(logged.event, events.PhaseEntered) and logged.event.phase is Phase.PROPOSE
    ]
    turns = [log[start:end] for start, end in pairwise([*starts, len(log)])]
    convicted: set[Id] = set()
    found = []
    for number, (turn, proposer) in enumerate(zip(turns, task.round.turns, strict=False), 1):
        is_last = number == len(turns)
        found.append(_attempt(task, number, proposer, turn, outcome if is_last else None, convicted))
        convicted |= {e.event.id for e in turn if isinstance(e.event, events.Convicted)}
    return found


def _attempt(
    task: Task,
    number: int,
    proposer: Id,
    turn: Sequence[PlacedEvent],
    outcome: Outcome | None,
    convicted: set[Id],
) -> schemas.Attempt:
    proposed = next((e for e in turn if isinstance(e.event, events.Proposed)), None)
    proposal = proposed.event if proposed else None
    assert proposal is None or isinstance(proposal, events.Proposed)
    lie = _lie(task, turn, proposer)
    expected = [id_ for id_ in task.round.committee if id_ != proposer and id_ not in convicted]
    cast_votes = {e.event.id: e.event.attests for e in turn if isinstance(e.event, events.Voted)}
    is_over = outcome in (Outcome.FINAL, Outcome.VOID, None)

    def vote(id_: Id) -> Votes:
        if id_ in cast_votes:
            return "attests" if cast_votes[id_] else "objects"
        return "silent" if is_over and not lie else "open"

    return schemas.Attempt(
        attempt=number,
        proposer=who(task, proposer),
        outcome=_attempt_outcome(proposal is not None, lie is not None, outcome),
        model_root=hex_of(proposal.model_root) if proposal else None,
        block=cid_of(proposal.block) if proposal else None,
        votes=[schemas.Vote(validator=who(task, id_), vote=vote(id_)) for id_ in expected]
        if proposal
        else [],
        quorum=majority(len(expected)),
        lie=lie,
        place=place(proposed) if proposed else None,
    )


def _attempt_outcome(
    has_proposal: bool, has_lie: bool, outcome: Outcome | None
) -> Literal["waiting", "standing", "final", "lie proven", "no quorum", "silent"]:
    if has_lie:
        return "lie proven"
    if outcome is Outcome.OPEN:
        return "standing" if has_proposal else "waiting"
    if not has_proposal:
        return "silent"
    return "final" if outcome is Outcome.FINAL else "no quorum"


def _lie(task: Task, turn: Sequence[PlacedEvent], proposer: Id) -> schemas.Lie | None:
    for logged in turn:
        lie = logged.event
        if isinstance(lie, events.LieProven):
            unit = 1 << task.config.scale
            return schemas.Lie(
                position=lie.position,
                leaf=lie.position // LEAF_PARAMETERS,
                expected=lie.expected,
                found=lie.found,
                expected_value=(lie.expected - ZERO) / unit,
                found_value=(lie.found - ZERO) / unit,
                finder=hex_of(lie.finder),
                place=place(logged),
                convictions=_convictions(task, turn, proposer),
            )
    return None


def _convictions(task: Task, turn: Sequence[PlacedEvent], proposer: Id) -> list[schemas.Conviction]:
    return [
        schemas.Conviction(
            account=row.account,
            part="proposed" if row.account.id == proposer else "attested",
            slashed=row.amount,
            to_escrow=row.to_escrow,
            to_finder=row.to_finder,
            burned=row.burned,
        )
        for row in slash_rows(task, turn)
        if row.kind == "lie"
    ]


# Money


def slash_rows(task: Task, log: Sequence[PlacedEvent]) -> list[schemas.Slash]:
    """Every slash, with the registry's word on where the stake went."""
    splits = list(_splits(log))
    found, phase = [], Phase.DRAW
    for logged in log:
        event = logged.event
        if isinstance(event, events.PhaseEntered):
            phase = event.phase
        if not isinstance(event, events.Silent | events.Convicted):
            continue
        account = task.by_id(event.id).address
        split = next((s for s in splits if (s[0], s[1].account) == (logged.transaction, account)), None)
        if split is not None:
            splits.remove(split)
        taken = split[1] if split else None
        is_lie = isinstance(event, events.Convicted)
        found.append(
            schemas.Slash(
                task=hex_of(task.address),
                round=event.round,
                phase="challenge" if isinstance(event, events.Convicted) else phase_name(event.phase),
                kind="lie" if is_lie else _kind(taken, phase),
                account=who(task, event.id),
                amount=str(event.slashed),
                to_escrow=str(event.to_escrow if isinstance(event, events.Convicted) else 0),
                to_finder=str(taken.to_finder if taken else 0),
                burned=str(taken.burned if taken else event.slashed),
                place=place(logged),
            )
        )
    return found


def _splits(log: Sequence[PlacedEvent]) -> Iterator[tuple[bytes, events.Slashed]]:
    return ((e.transaction, e.event) for e in log if isinstance(e.event, events.Slashed))


def _kind(taken: events.Slashed | None, phase: Phase) -> schemas.SlashKind:
    if taken is not None:
        return "no-reveal" if taken.kind is SlashReason.NO_REVEAL else "liveness"
    return "no-reveal" if phase in (Phase.REVEAL, Phase.TALLY) else "liveness"


def reward_rows(played: PlayedRound, standing: Task, log: Sequence[PlacedEvent]) -> list[schemas.Reward]:
    """Who earned what: callers as they call; committee, miner and workers when the round ends."""
    credited = [e for e in log if isinstance(e.event, events.Credited)]
    due, ended = 0, next((e for e in log if isinstance(e.event, events.RoundEnded)), None)
    if played.ended is not None:
        redone = standing.draft()
        settle(redone, played.ended.outcome)
        due = min(len(credited), sum(isinstance(event, events.Credited) for event in redone.events))
    calls, settled = credited[: len(credited) - due], credited[len(credited) - due :]
    has_miner = played.ended is not None and played.ended.miner_paid > 0
    found = [_credit(standing, played, e, "caller") for e in calls]
    for position, logged in enumerate(settled, 1):
        kind: schemas.RewardKind = "miner" if has_miner and position == len(settled) else "validator"
        found.append(_credit(standing, played, logged, kind))
    if played.ended is None or ended is None or standing.round.tally is None:
        return found
    budget = rewards.round_budget(standing.funded, standing.config).workers
    pay = worker_pay(standing, standing.round.tally, played.ended.outcome)
    for id_, part in pay.workers.items():
        found.append(
            schemas.Reward(
                task=hex_of(standing.address),
                round=played.number,
                kind="worker",
                account=hex_of(standing.by_id(id_).address),
                id=id_,
                amount=str(budget * part // pay.whole),
                place=place(ended),
            )
        )
    return found


def _credit(task: Task, played: PlayedRound, logged: PlacedEvent, kind: schemas.RewardKind) -> schemas.Reward:
    event = logged.event
    assert isinstance(event, events.Credited)
    account = task.accounts.get(event.account)
    return schemas.Reward(
        task=hex_of(task.address),
        round=played.number,
        kind=kind,
        account=hex_of(event.account),
        id=account.id if account else None,
        amount=str(event.amount),
        place=place(logged),
    )


def _gas_lines(gas: Sequence[schemas.Gas]) -> list[schemas.GasLine]:
    counts, used = Counter[str](), Counter[str]()
    for one in gas:
        counts[one.action] += 1
        used[one.action] += one.gas
    return [
        schemas.GasLine(action=action, transactions=counts[action], gas=total)
        for action, total in used.most_common()
    ]


# Participants


def part_rows(block: schemas.Block) -> list[schemas.Part]:
    """What each participant did in the round; those who had no part are left out."""
    if block.draw is None:
        return []
    people = {one.id: one for one in (*block.draw.committee, *block.draw.proposers)}
    people |= {update.worker.id: update.worker for update in block.updates}
    return [_part(block, block.draw, person) for _, person in sorted(people.items())]


def _part(block: schemas.Block, draw: schemas.Draw, person: schemas.Who) -> schemas.Part:
    mine = next((update for update in block.updates if update.worker == person), None)
    scores = block.scores.validators if block.scores else []
    own = [attempt for attempt in block.attempt_list if attempt.proposer == person]
    votes = [vote.vote for a in block.attempt_list for vote in a.votes if vote.validator == person]
    guilty = [c for a in block.attempt_list if a.lie for c in a.lie.convictions if c.account == person]
    return schemas.Part(
        task=block.task,
        task_id=block.task_id,
        round=block.round,
        outcome=block.outcome,
        account=person,
        roles=_roles(draw, person, mine),
        committed=mine is not None,
        revealed=mine is not None and mine.root is not None,
        included=mine.included if mine else None,
        share=mine.share if mine else None,
        scored=any(row.revealed for row in scores if row.validator == person),
        proposed=any(attempt.model_root for attempt in own),
        vote=next((vote for vote in reversed(votes) if vote != "open"), None),
        convicted=bool(guilty),
        earned=str(sum(int(row.amount) for row in block.rewards if row.id == person.id)),
        slashed=str(sum(int(row.amount) for row in block.slashes if row.account == person)),
    )


def _roles(draw: schemas.Draw, person: schemas.Who, update: schemas.Update | None) -> list[schemas.RoleName]:
    found: list[schemas.RoleName] = []
    if person in draw.committee:
        found.append("validator")
    if draw.proposers and person == draw.proposers[0]:
        found.append("miner")
    elif person in draw.proposers:
        found.append("backup")
    if update is not None and not update.member:
        found.append("worker")
    return found
