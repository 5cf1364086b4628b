"""A round told step by step: one sentence per event that matters."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from chainfl.api import schemas
from chainfl.api.convert import ether, hex_of, phase_name, place
from chainfl.api.source import PlacedEvent
from chainfl.protocol import events
from chainfl.protocol.state import NO_SCORE, Task
from chainfl.types import WAD, Id, Outcome, Phase

Tone = Literal["plain", "good", "warn", "bad"]
Line = tuple[str, Tone]


def steps_of(task: Task, log: Sequence[PlacedEvent]) -> list[schemas.Step]:
    """The round's story, in ledger order."""
    phase, found = Phase.DRAW, []
    for logged in log:
        event = logged.event
        if isinstance(event, events.PhaseEntered):
            phase = event.phase
        teller = _TELLERS.get(type(event))
        if teller is None:
            continue
        text, tone = teller(task, event)
        step = schemas.Step(
            phase=phase_name(phase), event=type(event).__name__, text=text, tone=tone, place=place(logged)
        )
        found.append(step)
    return found


def _names(ids: Sequence[Id]) -> str:
    return ", ".join(f"#{id_}" for id_ in ids) or "nobody"


def _opened(_: Task, event: events.DrawOpened) -> Line:
    return f"Enough are enrolled: the hash of block {event.block_number} will seed the draw.", "plain"


def _drawn(task: Task, event: events.Drawn) -> Line:
    first = "primary" if task.config.rule.is_elected else "miner"
    text = (
        f"Drawn by stake: committee {_names(event.committee)}; {first} {_names(event.proposers[:1])}, "
        f"backups {_names(event.proposers[1:])}; {event.expected} may train."
    )
    return text, "plain"


def _extended(_task: Task, _event: events.TrainExtended) -> Line:
    return "Too few updates in time: training runs once more.", "warn"


def _committed(_: Task, event: events.UpdateCommitted) -> Line:
    return f"#{event.id} commits to an update.", "plain"


def _revealed(_: Task, event: events.UpdateRevealed) -> Line:
    return f"#{event.id} reveals its update, from {event.samples} samples.", "plain"


def _scored(_: Task, event: events.ScoresCommitted) -> Line:
    return f"#{event.id} commits to its scores.", "plain"


def _scores_revealed(_: Task, event: events.ScoresRevealed) -> Line:
    return f"#{event.id} reveals its scores.", "plain"


def _tallied(task: Task, event: events.Tallied) -> Line:
    loss = (
        "no majority scored the head"
        if event.head_score == NO_SCORE
        else f"the committee's loss of the head is {event.head_score / WAD:.4f}"
    )
    counted = f"{event.included.bit_count()} of {len(task.round.order)} updates count"
    return f"Tally: {loss}; {counted}.", "plain" if event.included else "warn"


def _proposed(_: Task, event: events.Proposed) -> Line:
    return f"#{event.id} proposes model {event.model_root.hex()[:12]}… (attempt {event.attempt}).", "plain"


def _voted(_: Task, event: events.Voted) -> Line:
    return (f"#{event.id} attests.", "plain") if event.attests else (f"#{event.id} objects.", "warn")


def _noted(_: Task, event: events.FindingNoted) -> Line:
    return f"{hex_of(event.account)[:10]}… notes a finding, sealed.", "warn"


def _lie(_: Task, event: events.LieProven) -> Line:
    text = (
        f"LIE PROVEN on chain: parameter {event.position} should be {event.expected} and is {event.found}; "
        f"shown by {hex_of(event.finder)[:10]}…"
    )
    return text, "bad"


def _convicted(_: Task, event: events.Convicted) -> Line:
    return f"#{event.id} is convicted and loses {ether(event.slashed)} of its stake.", "bad"


def _silent(_: Task, event: events.Silent) -> Line:
    text = f"#{event.id} was silent in {phase_name(event.phase)} and loses {ether(event.slashed)}."
    return text, "warn"


def _ended(_: Task, event: events.RoundEnded) -> Line:
    paid = ether(event.workers_paid + event.committee_paid + event.miner_paid)
    if event.outcome is Outcome.FINAL:
        return f"Final: the model is the new head; {paid} earned.", "good"
    return f"Void: the head stays; {paid} earned.", "warn"


def _over(_task: Task, _event: events.TaskEnded) -> Line:
    return "The task has ended.", "plain"


def _abandoned(_task: Task, _event: events.Abandoned) -> Line:
    return "The sponsor gives the task up; it ends with this round.", "warn"


_TELLERS: dict[type[events.Event], Callable[[Task, Any], Line]] = {
    events.DrawOpened: _opened,
    events.Drawn: _drawn,
    events.TrainExtended: _extended,
    events.UpdateCommitted: _committed,
    events.UpdateRevealed: _revealed,
    events.ScoresCommitted: _scored,
    events.ScoresRevealed: _scores_revealed,
    events.Tallied: _tallied,
    events.Proposed: _proposed,
    events.Voted: _voted,
    events.FindingNoted: _noted,
    events.LieProven: _lie,
    events.Convicted: _convicted,
    events.Silent: _silent,
    events.RoundEnded: _ended,
    events.TaskEnded: _over,
    events.Abandoned: _abandoned,
}
