"""A task as it happens: one line per step that matters, from its events alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chainfl.audit.narrate import describe
from chainfl.codec.text import short_hex
from chainfl.protocol import events
from chainfl.protocol.fold import fold
from chainfl.protocol.state import NO_SCORE, Task
from chainfl.protocol.tally import losses_of
from chainfl.types import TOTAL, WAD, Address, Id, OnProgress, Phase

_LABELS: dict[type[events.Event], str] = {
    events.Drawn: "draw",
    events.Tallied: "score",
    events.Proposed: "propose",
    events.Voted: "challenge",
    events.LieProven: "challenge",
    events.Convicted: "convicted",
    events.Silent: "slashed",
    events.RoundEnded: "end",
}
"""What stands before the lines that the demonstration shows; the other events are many, and say little."""


@dataclass(slots=True)
class RoundSummary:
    """What a round showed, for machines."""

    number: int
    outcome: str = "open"
    attempts: int = 0
    head_loss: float | None = None
    losses: dict[str, float] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    hostile_share: float = 0.0
    hostile_committee: int = 0
    committee: list[str] = field(default_factory=list)
    miner: str = ""
    attested: list[int] = field(default_factory=list)
    """Of each attempt, how many validators attested its model."""
    finders: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Proposers whose proposals found no majority and were not proven wrong."""
    convicted: list[str] = field(default_factory=list)
    paid: dict[str, int] = field(default_factory=dict)
    model_root: str = ""

    @property
    def is_captured(self) -> bool:
        """Whether hostile validators were the majority, whose word decides."""
        return 2 * self.hostile_committee > len(self.committee)


class Story:
    """Folds a task's events and prints what they mean. `names` are what people call the accounts."""

    def __init__(
        self, created: Task, names: Mapping[bytes, str], hostile: frozenset[bytes], on_progress: OnProgress
    ) -> None:
        """Start before the first event."""
        self.task = created.draft()
        self._names = names
        self._hostile = hostile
        self._on_progress = on_progress
        self.rounds: list[RoundSummary] = []

    @property
    def is_over(self) -> bool:
        """Whether the task has ended."""
        return self.task.round.phase is Phase.ENDED

    def take(self, event: events.Event, block_number: int) -> None:
        """Apply one event, and print what it means."""
        self._note(event)
        if isinstance(event, events.Tallied):
            self._tell_losses()
        self._narrate(event)

        fold(self.task, event, block_number)
        self.task.events = []
        if isinstance(event, events.LieProven):
            self._tell_quorum()
        # Where the proposer decides them, every proposal has shares of its own: wrong ones are seen beside the right.
        on_ranks = self.task.config.rule.is_on_ranks
        if isinstance(event, events.Tallied | events.Proposed) and event.shares and not on_ranks:
            self._tell_shares(event.shares)

    def _name(self, id_: Id) -> str:
        return self.name_of(self.task.by_id(id_).address)

    def name_of(self, account: Address) -> str:
        """What people call an account; hostile ones are marked."""
        name = self._names.get(account, short_hex(account))
        return f"{name}*" if account in self._hostile else name

    def _is_hostile(self, id_: Id) -> bool:
        return self.task.by_id(id_).address in self._hostile

    # For people

    def _say(self, label: str, text: str) -> None:
        self._on_progress(f"  {label:<10} {text}")

    def _narrate(self, event: events.Event) -> None:
        if isinstance(event, events.Drawn):
            self._on_progress(f"round {event.round}")
        label = _LABELS.get(type(event))
        sentence = describe(self.task, event, self.name_of)
        if label is None or sentence is None:
            return
        is_captured = isinstance(event, events.Drawn) and self.rounds[-1].is_captured
        self._say(label, sentence.text + ("  <- captured: a hostile majority" if is_captured else ""))

    def _tell_losses(self) -> None:
        losses = {self._name(id_): loss for id_, loss in losses_of(self.task).items()}
        self.rounds[-1].losses = losses
        if losses:
            self._say("losses", "  ".join(f"{name} {loss:.2f}" for name, loss in losses.items()))

    def _note_refused(self) -> None:
        """The next proposer follows on a proposal that was not proven wrong: the votes were against it."""
        facts = self.rounds[-1]
        if len(facts.attested) > len(facts.finders) + len(facts.refused):
            facts.refused.append(facts.miner)
            self._tell_quorum("what was proposed")

    def _tell_quorum(self, what: str = "the wrong model") -> None:
        facts = self.rounds[-1]
        attested = facts.attested[-1]
        size = len(facts.committee)
        missed = "" if 2 * attested > size else ", no quorum"
        self._say("quorum", f"{attested} of {size} attested {what}{missed}")

    def _tell_shares(self, shares: Sequence[int]) -> None:
        facts = self.rounds[-1]
        pairs = list(zip(self.task.round.order, shares[1:], strict=True))
        facts.shares = {self._name(id_): share / TOTAL for id_, share in pairs}
        facts.hostile_share = sum(share for id_, share in pairs if self._is_hostile(id_)) / TOTAL
        shown = "  ".join(f"{self._name(id_)} {100 * share / TOTAL:.1f}%" for id_, share in pairs)
        self._say("shares", shown)
        if any(self._is_hostile(id_) for id_, _ in pairs):
            self._say("", f"hostile workers together: {100 * facts.hostile_share:.1f}%")

    # For machines

    def _note(self, event: events.Event) -> None:
        """Keep what the event says of its round."""
        if isinstance(event, events.Drawn):
            self.rounds.append(self._begun(event))
        elif isinstance(event, events.Tallied) and event.head_score != NO_SCORE:
            self.rounds[-1].head_loss = event.head_score / WAD
        elif isinstance(event, events.Proposed):
            self.rounds[-1].miner = self._name(event.id)
            self.rounds[-1].attested.append(0)
        elif isinstance(event, events.Voted):
            self.rounds[-1].attested[-1] += event.attests
        elif isinstance(event, events.PhaseEntered) and event.phase is Phase.PROPOSE:
            self._note_refused()
        elif isinstance(event, events.LieProven):
            self.rounds[-1].finders.append(self.name_of(event.finder))
        elif isinstance(event, events.Convicted):
            self.rounds[-1].convicted.append(self._name(event.id))
        elif isinstance(event, events.RoundEnded):
            self._note_end(event)

    def _begun(self, event: events.Drawn) -> RoundSummary:
        return RoundSummary(
            event.round,
            committee=[self._name(id_) for id_ in event.committee],
            miner=self._name(event.proposers[0]),
            hostile_committee=sum(map(self._is_hostile, event.committee)),
        )

    def _note_end(self, event: events.RoundEnded) -> None:
        facts = self.rounds[-1]
        facts.outcome = event.outcome.name.lower()
        facts.attempts = event.attempt
        facts.model_root = event.head_root.hex()
        facts.paid = {
            "workers": event.workers_paid,
            "committee": event.committee_paid,
            "miner": event.miner_paid,
        }
