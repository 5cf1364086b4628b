"""A round step by step, as the dashboard shows it: one sentence per event that matters."""

from collections.abc import Sequence

from chainfl.api import schemas
from chainfl.api.convert import phase_name, place
from chainfl.api.source import PlacedEvent
from chainfl.audit.narrate import tell
from chainfl.codec.text import short_hex
from chainfl.protocol import events
from chainfl.protocol.state import Task
from chainfl.types import Address, Phase


def steps_of(task: Task, log: Sequence[PlacedEvent]) -> list[schemas.Step]:
    """The round's story, in ledger order."""

    def name_of(account: Address) -> str:
        known = task.accounts.get(account)
        return f"#{known.id}" if known is not None else short_hex(account)

    phase = Phase.DRAW
    found = []
    for logged in log:
        event = logged.event
        if isinstance(event, events.PhaseEntered):
            phase = event.phase
        sentence = tell(task, event, name_of)
        if sentence is None:
            continue
        step = schemas.Step(
            phase=phase_name(phase),
            event=type(event).__name__,
            text=_written(sentence.text),
            tone=sentence.tone,
            place=place(logged),
        )
        found.append(step)
    return found


def _written(sentence: str) -> str:
    """With a capital and a full stop."""
    return f"{sentence[0].upper()}{sentence[1:]}."
