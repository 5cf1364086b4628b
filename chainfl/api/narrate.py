"""A round step by step, as the dashboard shows it: one sentence per event that matters."""

from collections.abc import Sequence

from chainfl.api import schemas
from chainfl.api.convert import phase_name, place
from chainfl.api.source import PlacedEvent, in_phases
from chainfl.audit.narrate import describe
from chainfl.codec.text import short_hex
from chainfl.protocol.state import Task
from chainfl.types import Address


def steps_of(task: Task, log: Sequence[PlacedEvent]) -> list[schemas.Step]:
    """The round's story, in ledger order."""

    def name_of(account: Address) -> str:
        known = task.accounts.get(account)
        return f"#{known.id}" if known is not None else short_hex(account)

    found = []
    for phase, logged in in_phases(log):
        sentence = describe(task, logged.event, name_of)
        if sentence is None:
            continue
        step = schemas.Step(
            phase=phase_name(phase),
            event=type(logged.event).__name__,
            text=_written(sentence.text),
            tone=sentence.tone,
            place=place(logged),
        )
        found.append(step)
    return found


def _written(sentence: str) -> str:
    """With a capital and a full stop."""
    return f"{sentence[0].upper()}{sentence[1:]}."
