"""The weights of all accounts in the draw, kept in blocks: a change or a draw reads one block, not all accounts."""

from collections.abc import Iterable
from typing import Final

from chainfl.types import Id

BLOCK: Final = 256


class Weights:
    """Weights by id. A copy shares its blocks with the original until one of the two changes them."""

    __slots__ = ("_blocks", "_sums", "staked")

    def __init__(self) -> None:
        """No weights."""
        self._blocks: dict[int, tuple[int, ...]] = {}
        self._sums: dict[int, int] = {}
        self.staked = 0
        """How many have a weight."""

    @classmethod
    def of(cls, weights: "Weights | Iterable[tuple[Id, int]]") -> "Weights":
        """A copy, or the weights of these pairs, which are in id order."""
        made = cls()
        if isinstance(weights, Weights):
            made._blocks, made._sums = dict(weights._blocks), dict(weights._sums)
            made.staked = weights.staked
            return made

        for id_, weight in weights:
            made.set(id_, weight)
        return made

    def set(self, id_: Id, weight: int) -> None:
        """Give an id this weight. The first id of a block comes after those of earlier blocks."""
        number, at = divmod(id_, BLOCK)
        block = self._blocks.get(number, _EMPTY)
        before = block[at]

        self._blocks[number] = (*block[:at], weight, *block[at + 1 :])
        self._sums[number] = self._sums.get(number, 0) + weight - before
        self.staked += (weight > 0) - (before > 0)

    def weight(self, id_: Id) -> int:
        """What an id weighs."""
        number, at = divmod(id_, BLOCK)
        return self._blocks.get(number, _EMPTY)[at]

    def total(self) -> int:
        """What all weigh together."""
        return sum(self._sums.values())

    def without(self, ids: Iterable[Id]) -> "Weights":
        """A copy in which these ids weigh nothing."""
        rest = Weights.of(self)
        for id_ in ids:
            rest.set(id_, 0)
        return rest

    def at(self, point: int) -> Id:
        """Whose weight this point falls on, when the weights lie side by side in the order of the ids.

        Raises:
            ValueError: it lies beyond them all.
        """
        # Blocks stand in order of their ids, as `set` asks for it, so the walk is in id order.
        for number, total in self._sums.items():
            if point < total:
                return _within(number, self._blocks[number], point)
            point -= total
        raise ValueError("a point beyond all weights")


_EMPTY: Final = (0,) * BLOCK


def _within(number: int, block: tuple[int, ...], point: int) -> Id:
    for at, weight in enumerate(block):
        if point < weight:
            return Id(number * BLOCK + at)
        point -= weight
    raise ValueError("a block's sum is not that of its weights")
