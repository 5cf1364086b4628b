"""Small translations from our types to what the API writes."""

from collections.abc import Iterable

from chainfl.api import schemas
from chainfl.api.source import PlacedEvent
from chainfl.codec.cid import Cid
from chainfl.codec.text import hex_of
from chainfl.protocol.state import NO_SCORE, ZERO_DIGEST, Task
from chainfl.types import WAD, Digest, Id, Phase

_PHASES: dict[Phase, schemas.PhaseName] = {
    Phase.DRAW: "draw",
    Phase.TRAIN: "train",
    Phase.REVEAL: "reveal",
    Phase.SCORE: "score",
    Phase.TALLY: "tally",
    Phase.PROPOSE: "propose",
    Phase.CHALLENGE: "challenge",
    Phase.ENDED: "ended",
}


def cid_of(digest: Digest | None) -> str | None:
    """The record behind a digest; None where there is none."""
    return None if digest is None or digest == ZERO_DIGEST else str(Cid.dag_cbor(digest))


def phase_name(phase: Phase) -> schemas.PhaseName:
    """A phase in a word."""
    return _PHASES[phase]


def who(task: Task, id_: Id) -> schemas.Who:
    """A participant of the task."""
    return schemas.Who(id=id_, account=hex_of(task.by_id(id_).address))


def whose(task: Task, ids: Iterable[Id]) -> list[schemas.Who]:
    """Participants of the task, in order."""
    return [who(task, id_) for id_ in ids]


def place(event: PlacedEvent) -> schemas.Place:
    """Where an event happened."""
    return schemas.Place(
        block_number=event.block_number, transaction=hex_of(event.transaction), time=event.time
    )


def loss_of(head_score: int | None) -> float | None:
    """The committee's loss of the head as people read it."""
    return None if head_score is None or head_score == NO_SCORE else head_score / WAD
