"""What an event means, in one plain sentence: the demonstration and the dashboard both show a round with these."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from chainfl.codec.scores import ScoreKind
from chainfl.codec.text import ether, short_hex
from chainfl.protocol import events
from chainfl.protocol.enrolment import MOST_MISSED
from chainfl.protocol.state import NO_SCORE, Task
from chainfl.protocol.tally import score_kind
from chainfl.types import WAD, Address, Id, Outcome, Phase, Rule

Tone = Literal["plain", "good", "warn", "bad"]
NameOf = Callable[[Address], str]
"""What to call an account."""

_BACKUPS = 2
"""Backups named: a round has at most three attempts."""


class Sentence(NamedTuple):
    """A sentence without capital and full stop, and how good the news is."""

    text: str
    tone: Tone = "plain"


class Scene(NamedTuple):
    """The task that an event belongs to, and what to call its people."""

    task: Task
    name_of: NameOf

    def name(self, id_: Id) -> str:
        """What to call a participant."""
        return self.name_of(self.task.by_id(id_).address)

    def names(self, ids: Sequence[Id]) -> str:
        """What to call several."""
        return ", ".join(map(self.name, ids)) or "nobody"


def describe(task: Task, event: events.Event, name_of: NameOf) -> Sentence | None:
    """What an event of a task's round means; None for one that says nothing by itself."""
    teller = _TELLERS.get(type(event))
    return None if teller is None else teller(Scene(task, name_of), event)


def _opened(_: Scene, event: events.DrawOpened) -> Sentence:
    return Sentence(f"enough are enrolled: the randomness of block {event.block_number} will seed the draw")


def _drawn(scene: Scene, event: events.Drawn) -> Sentence:
    first = "primary" if scene.task.config.rule.is_elected else "miner"
    backups = event.proposers[1:]
    more = f" and {len(backups) - _BACKUPS} more" if len(backups) > _BACKUPS else ""
    return Sentence(
        f"committee {scene.names(event.committee)}; {first} {scene.names(event.proposers[:1])}, "
        f"backups {scene.names(backups[:_BACKUPS])}{more}; {event.expected} may train"
    )


def _extended(_scene: Scene, _event: events.TrainExtended) -> Sentence:
    return Sentence("too few updates in time: training runs once more", "warn")


def _committed(scene: Scene, event: events.UpdateCommitted) -> Sentence:
    return Sentence(f"{scene.name(event.id)} commits to an update")


def _revealed(scene: Scene, event: events.UpdateRevealed) -> Sentence:
    return Sentence(f"{scene.name(event.id)} reveals its update, from {event.samples} samples")


def _scored(scene: Scene, event: events.ScoresCommitted) -> Sentence:
    return Sentence(f"{scene.name(event.id)} commits to its scores")


def _scores_revealed(scene: Scene, event: events.ScoresRevealed) -> Sentence:
    return Sentence(f"{scene.name(event.id)} reveals its scores")


def _tallied(scene: Scene, event: events.Tallied) -> Sentence:
    counted = f"{event.included.bit_count()} of {len(scene.task.round.order)} updates count"
    tone: Tone = "plain" if event.included else "warn"
    if score_kind(scene.task.config.rule) is not ScoreKind.LOSS:
        return Sentence(counted, tone)
    if event.head_score == NO_SCORE:
        return Sentence(f"no majority scored the head; {counted}", tone)

    # The chain holds missed accuracy, so that less is better as with losses.
    if scene.task.config.rule is Rule.SOFTMAX_ACCURACY:
        what = f"accuracy of the head is {100 - 100 * event.head_score / WAD:.2f} %"
    else:
        what = f"loss of the head is {event.head_score / WAD:.4f}"
    return Sentence(f"the committee's {what}; {counted}", tone)


def _proposed(scene: Scene, event: events.Proposed) -> Sentence:
    return Sentence(
        f"{scene.name(event.id)} proposes model {short_hex(event.model_root)} (attempt {event.attempt})"
    )


def _voted(scene: Scene, event: events.Voted) -> Sentence:
    if event.attests:
        return Sentence(f"{scene.name(event.id)} attests")
    return Sentence(f"{scene.name(event.id)} objects", "warn")


def _noted(scene: Scene, event: events.FindingNoted) -> Sentence:
    return Sentence(f"{scene.name_of(event.account)} commits to a finding (sealed)", "warn")


def _lie(scene: Scene, event: events.LieProven) -> Sentence:
    return Sentence(
        f"LIE PROVEN on chain: parameter {event.position} should be {event.expected} and is {event.found}; "
        f"shown by {scene.name_of(event.finder)}",
        "bad",
    )


def _convicted(scene: Scene, event: events.Convicted) -> Sentence:
    return Sentence(f"{scene.name(event.id)} is convicted and loses {ether(event.slashed)} of stake", "bad")


def _silent(scene: Scene, event: events.Silent) -> Sentence:
    # In Tally validators lose stake who hide their scores, and workers whose bytes a majority could not get.
    scores = scene.task.round.scores.get(event.id)
    if event.phase is Phase.TALLY and (scores is None or scores.revealed is not None):
        what = "showed an update that a majority could not get"
        return Sentence(f"{scene.name(event.id)} {what} and loses {ether(event.slashed)} of stake", "warn")
    is_sealed = event.phase in (Phase.REVEAL, Phase.TALLY)
    what = "did not reveal" if is_sealed else f"was silent in {event.phase.name.lower()}"
    return Sentence(f"{scene.name(event.id)} {what} and loses {ether(event.slashed)} of stake", "warn")


def _absent(scene: Scene, event: events.Absent) -> Sentence:
    if event.times < MOST_MISSED:
        return Sentence(
            f"{scene.name(event.id)} was drawn and did not commit, {event.times} of {MOST_MISSED} times",
            "warn",
        )
    return Sentence(
        f"{scene.name(event.id)} did not commit {MOST_MISSED} times in a row and is out of the draw", "warn"
    )


def _head_dropped(_: Scene, event: events.HeadDropped) -> Sentence:
    return Sentence(
        f"a majority cannot get the head {short_hex(event.root)}: the one before it is head again",
        "warn",
    )


def _election_dropped(_scene: Scene, _event: events.ElectionDropped) -> Sentence:
    return Sentence("the elected committee waited for too long and may have left: another is drawn", "warn")


def _ended(_: Scene, event: events.RoundEnded) -> Sentence:
    paid = ether(event.workers_paid + event.committee_paid + event.miner_paid)
    if event.outcome is Outcome.FINAL:
        return Sentence(f"final: {short_hex(event.head_root)} is the new head; {paid} earned", "good")
    return Sentence(f"void: {short_hex(event.head_root)} is the head; {paid} earned", "warn")


def _over(_scene: Scene, _event: events.TaskEnded) -> Sentence:
    return Sentence("the task has ended")


def _abandoned(_scene: Scene, _event: events.Abandoned) -> Sentence:
    return Sentence("the sponsor gives the task up; it ends with this round", "warn")


_TELLERS: dict[type[events.Event], Callable[[Scene, Any], Sentence]] = {
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
    events.Absent: _absent,
    events.HeadDropped: _head_dropped,
    events.ElectionDropped: _election_dropped,
    events.RoundEnded: _ended,
    events.TaskEnded: _over,
    events.Abandoned: _abandoned,
}
