"""A task told as it happens: one line per step that matters, from its events alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from chainfl.codec.scores import ONE, ScoreKind
from chainfl.protocol import events
from chainfl.protocol.fold import fold
from chainfl.protocol.state import NO_SCORE, Task
from chainfl.protocol.tally import decoded_scores, score_kind
from chainfl.protocol.views import revealed_vectors
from chainfl.types import TOTAL, WAD, Address, Id, OnProgress, Outcome, Phase, Slash

ETHER = 10**18


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
    finders: list[str] = field(default_factory=list)
    convicted: list[str] = field(default_factory=list)
    paid: dict[str, int] = field(default_factory=dict)
    model_root: str = ""

    @property
    def is_captured(self) -> bool:
        """Whether hostile validators were the majority, whose word decides."""
        return 2 * self.hostile_committee > len(self.committee)


def losses_of(task: Task) -> dict[Id, float]:
    """What the middle member of the committee found for each update; nothing where the rule asks for no losses."""
    if score_kind(task.config.rule) is not ScoreKind.LOSS:
        return {}
    scores = [decoded_scores(task, vector) for vector in revealed_vectors(task)]
    found = {id_: [one[1 + place] for one in scores] for place, id_ in enumerate(task.round.order)}
    known = {id_: [loss for loss in losses if loss is not None] for id_, losses in found.items()}
    return {id_: median(losses) / ONE for id_, losses in known.items() if losses}


class Story:
    """Folds a task's events and tells what they mean. `names` are what people call the accounts."""

    def __init__(
        self, created: Task, names: Mapping[bytes, str], hostile: frozenset[bytes], on_progress: OnProgress
    ) -> None:
        """Start before the first event."""
        self.task = created.draft()
        self._names, self._hostile, self._on_progress = names, hostile, on_progress
        self.rounds: list[RoundSummary] = []

    @property
    def is_over(self) -> bool:
        """Whether the task has ended."""
        return self.task.round.phase is Phase.ENDED

    def take(self, event: events.Event, block_number: int) -> None:
        """Hear of one event."""
        self._narrate(event)
        fold(self.task, event, block_number)
        self.task.events = []
        if isinstance(event, events.Tallied):
            self._tell_tally(event)

    def _name(self, id_: Id) -> str:
        return self.name_of(self.task.by_id(id_).address)

    def name_of(self, account: Address) -> str:
        """What people call an account; hostile ones are marked."""
        name = self._names.get(account, "0x" + account.hex()[:8])
        return f"{name}*" if account in self._hostile else name

    def _list(self, ids: tuple[Id, ...]) -> str:
        return ", ".join(self._name(id_) for id_ in ids) or "nobody"

    def _is_hostile(self, id_: Id) -> bool:
        return self.task.by_id(id_).address in self._hostile

    def _narrate(self, event: events.Event) -> None:
        if isinstance(event, events.Drawn):
            self._tell_drawn(event)
        elif isinstance(event, events.Tallied):
            self._tell_losses()
        elif isinstance(event, events.Proposed):
            model = event.model_root.hex()[:16]
            self._on_progress(
                f"  propose    {self._name(event.id)} (attempt {event.attempt}): model {model}…"
            )
            self.rounds[-1].miner = self._name(event.id)
        elif isinstance(event, events.Voted):
            self._on_progress(
                f"  challenge  {self._name(event.id)} {'attests' if event.attests else 'OBJECTS'}"
            )
        elif isinstance(event, events.LieProven):
            self._on_progress(
                f"  LIE        parameter {event.position} is {event.found}, re-executed on chain it is {event.expected}"
            )
            self.rounds[-1].finders.append(self.name_of(event.finder))
        elif isinstance(event, events.Convicted):
            self._on_progress(
                f"  convicted  {self._name(event.id)} loses {event.slashed / ETHER:.3f} ETH of stake"
            )
            self.rounds[-1].convicted.append(self._name(event.id))
        elif isinstance(event, events.Silent):
            kind = Slash.NO_REVEAL if event.phase in (Phase.REVEAL, Phase.TALLY) else Slash.LIVENESS
            why = "did not reveal" if kind is Slash.NO_REVEAL else "was silent"
            self._on_progress(f"  slashed    {self._name(event.id)} {why}: {event.slashed / ETHER:.4f} ETH")
        elif isinstance(event, events.RoundEnded):
            self._tell_ended(event)

    def _tell_drawn(self, event: events.Drawn) -> None:
        facts = RoundSummary(
            event.round,
            committee=[self._name(id_) for id_ in event.committee],
            miner=self._name(event.proposers[0]),
            hostile_committee=sum(map(self._is_hostile, event.committee)),
        )
        captured = "  <- captured: a hostile majority" if facts.is_captured else ""
        self.rounds.append(facts)
        self._on_progress(f"round {event.round}")
        self._on_progress(f"  draw       committee {self._list(event.committee)}{captured}")
        line = "primary" if self.task.config.rule.is_elected else "miner"
        self._on_progress(
            f"             {line} {self._name(event.proposers[0])}, backups {self._list(event.proposers[1:3])}"
        )

    def _tell_losses(self) -> None:
        losses = {self._name(id_): loss for id_, loss in losses_of(self.task).items()}
        self.rounds[-1].losses = losses
        if losses:
            self._on_progress(
                "  losses     " + "  ".join(f"{name} {loss:.2f}" for name, loss in losses.items())
            )

    def _tell_tally(self, event: events.Tallied) -> None:
        facts, order = self.rounds[-1], self.task.round.order
        if event.head_score != NO_SCORE:
            facts.head_loss = event.head_score / WAD
            counted = f"{event.included.bit_count()} of {len(order)} updates count"
            self._on_progress(f"  score      the head's loss is {facts.head_loss:.4f}; {counted}")
        if event.shares and not self.task.config.rule.is_on_ranks:
            self._tell_shares(event, facts)

    def _tell_shares(self, event: events.Tallied, facts: RoundSummary) -> None:
        pairs = list(zip(self.task.round.order, event.shares[1:], strict=True))
        facts.shares = {self._name(id_): share / TOTAL for id_, share in pairs}
        facts.hostile_share = sum(share for id_, share in pairs if self._is_hostile(id_)) / TOTAL
        shown = "  ".join(f"{self._name(id_)} {100 * share / TOTAL:.1f}%" for id_, share in pairs)
        self._on_progress(f"  shares     {shown}")
        if any(self._is_hostile(id_) for id_, _ in pairs):
            self._on_progress(f"             hostile workers together: {100 * facts.hostile_share:.1f}%")

    def _tell_ended(self, event: events.RoundEnded) -> None:
        facts = self.rounds[-1]
        facts.outcome, facts.attempts = event.outcome.name.lower(), event.attempt
        facts.model_root = event.head_root.hex()
        facts.paid = {
            "workers": event.workers_paid,
            "committee": event.committee_paid,
            "miner": event.miner_paid,
        }
        paid = event.workers_paid + event.committee_paid + event.miner_paid
        what = "final" if event.outcome is Outcome.FINAL else "VOID"
        self._on_progress(
            f"  {what:<10} head {event.head_root.hex()[:16]}…; {paid / ETHER:.4f} ETH of rewards credited"
        )
