"""Transactions of a task: their gas, and the event that says most about each."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from chainfl.api import schemas
from chainfl.api.convert import place
from chainfl.api.source import PlacedEvent
from chainfl.codec.text import hex_of
from chainfl.types import Address

_TELLING = (
    "LieProven",
    "Drawn",
    "Tallied",
    "Proposed",
    "Voted",
    "UpdateCommitted",
    "UpdateRevealed",
    "ScoresCommitted",
    "ScoresRevealed",
    "FindingNoted",
    "Claimed",
    "Refunded",
    "Abandoned",
    "Enrolled",
    "Left",
    "Allocated",
    "Deallocated",
    "Released",
    "RoundEnded",
    "PhaseEntered",
    "TrainExtended",
)


def transactions(task: Address, log: Sequence[PlacedEvent]) -> Iterator[schemas.Gas]:
    """One line per transaction, in order."""
    for _, group in groupby(log, key=lambda logged: logged.transaction):
        events = list(group)
        names = [type(logged.event).__name__ for logged in events]
        rounds = (getattr(logged.event, "round", None) for logged in events)
        yield schemas.Gas(
            task=hex_of(task),
            round=next((number for number in rounds if number is not None), None),
            action=next((name for name in _TELLING if name in names), names[0]),
            gas=events[0].gas,
            events=names,
            place=place(events[0]),
        )
