"""The stakes behind one task, from the registry's events."""

from collections import Counter
from typing import NamedTuple

from chainfl.api import schemas
from chainfl.api.convert import place
from chainfl.api.source import PlacedEvent
from chainfl.codec.text import hex_of
from chainfl.protocol import events
from chainfl.types import Address


class _Move(NamedTuple):
    """What an event does to an account's stake."""

    name: schemas.StakeMove
    account: Address
    amount: int
    to_bonded: int = 0
    to_unbonding: int = 0


class Stakes:
    """Who has how much bonded and unbonding."""

    def __init__(self, task: Address) -> None:
        """Without accounts."""
        self._task = task
        self.bonded = Counter[Address]()
        self.unbonding = Counter[Address]()

    def change(self, logged: PlacedEvent) -> schemas.StakeChange | None:
        """Take an event into account; answers what it changed, None for one that moves no stake."""
        move = self._move(logged.event)
        if move is None:
            return None

        self.bonded[move.account] += move.to_bonded
        self.unbonding[move.account] += move.to_unbonding
        return schemas.StakeChange(
            task=hex_of(self._task),
            account=hex_of(move.account),
            change=move.name,
            amount=str(move.amount),
            bonded=str(self.bonded[move.account]),
            unbonding=str(self.unbonding[move.account]),
            place=place(logged),
        )

    def _move(self, event: events.Event) -> _Move | None:
        if isinstance(event, events.Allocated):
            return _Move("allocated", event.account, event.amount, to_bonded=event.amount)
        if isinstance(event, events.Deallocated):
            return _Move("deallocated", event.account, event.amount, -event.amount, event.amount)
        if isinstance(event, events.Released):
            return _Move("released", event.account, event.amount, to_unbonding=-event.amount)
        if isinstance(event, events.Slashed):
            amount = event.from_bonded + event.from_unbonding
            return _Move("slashed", event.account, amount, -event.from_bonded, -event.from_unbonding)
        if isinstance(event, events.PoolClosed):
            # Whatever was unbonding is part of what comes back.
            pending = self.unbonding[event.account]
            return _Move("pool-closed", event.account, event.returned, event.returned, -pending)
        return None
