"""Finished cells played again: the same settings and seed must end in the model with the same root."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chainfl.errors import InputError
from chainfl.sim.experiments.cells import Cell, expand
from chainfl.sim.experiments.runner import Plan, read_cells
from chainfl.sim.experiments.workers import side_by_side


@dataclass(frozen=True, slots=True)
class Again:
    """A cell with the root it ended in before, and the root it ends in now; without one it failed."""

    cell: Cell
    before: str
    now: str | None
    error: str = ""

    @property
    def agrees(self) -> bool:
        """Whether both are the same model."""
        return self.now == self.before


def play_again(plan: Plan, most: int) -> Iterator[Again]:
    """Play so many of the campaign's finished cells again, chosen alike each time, and compare their roots.

    Raises:
        InputError: the folder holds no finished cell of this campaign that ended in a model.
    """
    found = read_cells(plan.folder)
    chosen = _sample(finished_models(plan, found), most)
    if not chosen:
        raise InputError(f"{plan.folder} holds no finished cell of {plan.campaign.name} in size {plan.size}")
    for outcome in side_by_side(chosen, plan.data, max(1, plan.jobs)):
        root = None if outcome.result is None else str(outcome.result["root"])
        yield Again(outcome.cell, str(found[outcome.cell.key()]["root"]), root, outcome.error)


def finished_models(plan: Plan, found: dict[str, dict[str, Any]]) -> list[Cell]:
    """The campaign's finished cells that have a root, each once."""
    cells, _ = expand(plan.campaign, plan.size)
    by_key = {cell.key(): cell for cell in cells}
    return [cell for key, cell in by_key.items() if found.get(key, {}).get("root")]


def _sample(cells: Sequence[Cell], most: int) -> list[Cell]:
    return random.Random(0).sample(list(cells), min(most, len(cells)))


def line_of(again: Again) -> str:
    """What was found of one cell, for people."""
    if again.agrees:
        return f"same root {again.before[:16]}: {again.cell.name}"
    if again.now is None:
        return f"FAILED: {again.cell.name}: {again.error}"
    return f"ANOTHER ROOT, {again.now[:16]} for {again.before[:16]}: {again.cell.name}"
