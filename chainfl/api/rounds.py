"""A played round as a document: who was drawn, who did what, what was decided and paid, from its events alone."""

from collections.abc import Sequence
from typing import Literal, TypeVar, cast

from chainfl.api import schemas
from chainfl.api.attempts import attempts_of
from chainfl.api.convert import cid_of, loss_of, phase_name, place, who, whose
from chainfl.api.money import gas_lines, reward_rows, slash_rows
from chainfl.api.narrate import steps_of
from chainfl.api.source import PlacedEvent
from chainfl.api.transactions import transactions
from chainfl.audit.history import PlayedRound
from chainfl.codec.scores import ScoreKind, decode_scores, vouches
from chainfl.codec.text import hex_of
from chainfl.protocol import events, state
from chainfl.protocol.events import Event
from chainfl.protocol.state import NO_SCORE, Task
from chainfl.protocol.tally import score_kind
from chainfl.types import TOTAL, Id, Outcome, Phase

AnyEvent = TypeVar("AnyEvent", bound=Event)

OUTCOMES: dict[Outcome, schemas.Outcome] = {
    Outcome.OPEN: "open",
    Outcome.FINAL: "final",
    Outcome.VOID: "void",
}
_KINDS: dict[ScoreKind, Literal["loss", "distance", "vouch"]] = {
    ScoreKind.LOSS: "loss",
    ScoreKind.DISTANCE: "distance",
    ScoreKind.VOUCH: "vouch",
}
FROM_OTHERS = ("caller", "finder")
"""Kinds of rewards that are no part of a round's budget: fees of calls, and a liar's stake."""
_UNITS = {
    ScoreKind.LOSS: "10^-12 of a loss (softmax-accuracy: of missed accuracy)",
    ScoreKind.DISTANCE: "squared distance of the integer vectors",
    ScoreKind.VOUCH: "1: the validator had the update's bytes",
}


def block_document(played: PlayedRound, standing: Task, opened_by: bytes | None = None) -> schemas.Block:
    """Everything that is known of a round, and of the task as it stood before the round was settled.

    `opened_by` ended the round before too, and its gas counts there.
    """
    log = placed(played)
    tallied = _first(log, events.Tallied)

    # What was decided.
    table = _score_table(standing) if standing.round.order else None
    attempts = attempts_of(standing, log, played.outcome)
    final = played.ended if played.outcome is Outcome.FINAL else None

    # What it cost and gave.
    slashes = slash_rows(standing, log)
    pay = reward_rows(played, standing, log)
    own = [logged for logged in log if logged.transaction != opened_by]
    gas = [one for one in transactions(standing.address, own) if one.round == played.number]

    summary = _summary(played, standing, attempts, slashes, pay, gas)
    return schemas.Block(
        **dict(summary),
        rule=standing.config.rule.name_text,
        deadline=0 if played.ended else standing.round.deadline,
        head_root=hex_of(played.before.head_root),
        head_block=cid_of(played.before.head_block),
        model_root=hex_of(final.head_root) if final else None,
        block=cid_of(final.head_block) if final else None,
        draw=_draw(standing, log),
        updates=_updates(standing, tallied, table),
        scores=table,
        shares=_share_table(standing, tallied),
        next_committee=whose(standing, tallied.elected) if tallied else [],
        attempt_list=attempts,
        slashes=slashes,
        rewards=pay,
        gas_by_action=gas_lines(gas),
        steps=steps_of(standing, log),
    )


def _summary(
    played: PlayedRound,
    standing: Task,
    attempts: Sequence[schemas.Attempt],
    slashes: Sequence[schemas.Slash],
    pay: Sequence[schemas.Reward],
    gas: Sequence[schemas.Gas],
) -> schemas.RoundSummary:
    """The round in one line."""
    log = placed(played)
    tallied = _first(log, events.Tallied)
    opened = next((logged for logged in log if isinstance(logged.event, events.DrawOpened)), None)
    ended = next((logged for logged in log if isinstance(logged.event, events.RoundEnded)), None)
    updates = standing.round.updates.values()

    return schemas.RoundSummary(
        task=hex_of(standing.address),
        task_id=standing.task_id,
        round=played.number,
        outcome=OUTCOMES[played.outcome],
        phase=phase_name(Phase.ENDED if ended else standing.round.phase),
        attempts=len(attempts),
        lies=sum(attempt.lie is not None for attempt in attempts),
        head_loss=loss_of(tallied.head_score if tallied else None),
        committed=len(updates),
        revealed=sum(update.revealed is not None for update in updates),
        included=tallied.included.bit_count() if tallied else 0,
        outside=_outside(standing, tallied),
        paid=str(sum(int(row.amount) for row in pay if row.kind not in FROM_OTHERS)),
        slashed=str(sum(int(row.amount) for row in slashes)),
        gas=sum(one.gas for one in gas),
        opened=place(opened) if opened else None,
        ended=place(ended) if ended else None,
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
    round_ = task.round
    shares = _update_shares(task, tallied)
    indexes = {id_: index for index, id_ in enumerate(round_.order)}

    def row(id_: Id, update: state.Update) -> schemas.Update:
        index = indexes.get(id_)
        revealed = update.revealed
        return schemas.Update(
            worker=who(task, id_),
            index=None if index is None else index + 1,
            member=id_ in round_.committee and task.config.rule.is_elected,
            commitment=hex_of(update.commitment),
            root=hex_of(revealed.root) if revealed else None,
            cid=cid_of(revealed.cid) if revealed else None,
            samples=revealed.samples if revealed else None,
            included=bool(tallied.included >> index & 1) if tallied and index is not None else None,
            vouches=_vouches(task, table, id_, index) if tallied and index is not None else None,
            share=shares.get(id_),
        )

    return [row(id_, update) for id_, update in sorted(round_.updates.items())]


def _vouches(task: Task, table: schemas.ScoreTable | None, worker: Id, index: int) -> int:
    """How many had its bytes; an appointed member's word on its own update does not count."""
    if table is None:
        return 0
    none = "0" if score_kind(task.config.rule) is ScoreKind.VOUCH else None
    others = (row for row in table.validators if row.validator.id != worker)
    return sum(row.revealed and row.entries[index] not in (None, none) for row in others)


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

    # A share on a rank belongs to another worker at each parameter, so no worker is named.
    on_ranks = task.config.rule.is_on_ranks

    def row(index: int, share: int) -> schemas.Share:
        owner: Literal["head", "update", "rank"] = "head" if index == 0 else "rank" if on_ranks else "update"
        worker = who(task, task.round.order[index - 1]) if owner == "update" else None
        return schemas.Share(
            owner=owner, index=index, worker=worker, share=share, fraction=round(share / TOTAL, 9)
        )

    decided: Literal["contract", "proposer"] = "contract" if tallied.shares else "proposer"
    return schemas.ShareTable(decided_by=decided, shares=[row(i, share) for i, share in enumerate(shares)])


def _outside(task: Task, tallied: events.Tallied | None) -> list[schemas.Share] | None:
    """What others than the appointed committee have of the next model."""
    table = _share_table(task, tallied)
    if not task.config.is_appointed or table is None or not table.shares:
        return None
    inside = set(task.round.committee)
    return [share for share in table.shares if share.worker is not None and share.worker.id not in inside]


def _score_table(task: Task) -> schemas.ScoreTable:
    round_ = task.round
    kind = score_kind(task.config.rule)
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

    has_score = tallied is not None and tallied.head_score != NO_SCORE
    return schemas.ScoreTable(
        kind=_KINDS[kind],
        unit=_UNITS[kind],
        workers=whose(task, round_.order),
        validators=[row(id_) for id_ in round_.committee],
        head_score=str(tallied.head_score) if tallied and has_score else None,
    )
