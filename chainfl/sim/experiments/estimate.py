"""How long a campaign takes here: two rounds of a few cells of each group, their processor time counted."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from chainfl.sim.experiment import Experiment, Selfish
from chainfl.sim.experiments.cells import Cell, expand
from chainfl.sim.experiments.check import impossible_cells
from chainfl.sim.experiments.runner import Plan, finished_keys
from chainfl.sim.experiments.workers import side_by_side
from chainfl.sim.run import play
from chainfl.sim.selfish import play_selfish, set_up_selfish
from chainfl.sim.simulation import set_up

PROBES: Final = 3
"""Cells of a group that are tried: rules and attacks differ in what they cost."""


@dataclass(frozen=True, slots=True)
class GroupEstimate:
    """What is left of a group, and the processor time of one of its cells; None where no probe could be played."""

    group: str
    cells: int
    left: int
    seconds: float | None

    @property
    def seconds_left(self) -> float:
        """For all cells that are left."""
        return self.left * (self.seconds or 0.0)


def estimate(plan: Plan) -> tuple[list[GroupEstimate], dict[str, str]]:
    """Every group of the campaign, and the combinations that cannot be run with the reason; nothing is written.

    Equal cells of several groups are run once and counted in the first.

    Raises:
        InputError: a name in the file is not known; lists the known ones.
    """
    cells, refused = expand(plan.campaign, plan.size)
    complaints = impossible_cells(cells, plan.data)
    impossible = {line.partition(": ")[0]: line.partition(": ")[2] for line in refused}
    impossible |= {cell.name: complaints[cell.key()] for cell in cells if cell.key() in complaints}

    done = finished_keys(plan.folder) | complaints.keys()
    left: dict[str, list[Cell]] = {name: [] for name in plan.campaign.groups}
    for key, cell in {cell.key(): cell for cell in reversed(cells)}.items():
        if key not in done:
            left[cell.group].insert(0, cell)

    probes = [cell for waiting in left.values() for cell in _spread(waiting)]
    seconds: dict[str, list[float]] = {}
    for outcome in side_by_side(probes, plan.data, max(1, plan.jobs), probe):
        if outcome.result is not None:
            seconds.setdefault(outcome.cell.group, []).append(outcome.result["seconds"])
    return [
        GroupEstimate(
            name,
            sum(cell.group == name for cell in cells),
            len(waiting),
            sum(seconds[name]) / len(seconds[name]) if name in seconds else None,
        )
        for name, waiting in left.items()
    ], impossible


def probe(cell: Cell, data: str | None) -> Mapping[str, Any]:
    """The processor time of the whole cell, by its set-up, its first round and as many more as its second."""
    experiment = cell.experiment
    if not isinstance(experiment, Experiment | Selfish):
        return {"seconds": 0.0}
    started = time.process_time()
    marks = [time.process_time() - started for _ in _two_rounds(experiment, data)]
    first, last = marks[0], marks[-1]
    return {"seconds": first + (experiment.rounds - 1) * (last - first)}


def _two_rounds(experiment: Experiment | Selfish, data: str | None) -> Iterator[object]:
    short = replace(experiment, rounds=min(2, experiment.rounds))
    if isinstance(short, Selfish):
        yield from play_selfish(set_up_selfish(short, data))
    else:
        yield from play(set_up(short, data), [])


def _spread(cells: Sequence[Cell]) -> list[Cell]:
    """A few of them, from the first to the last; of the first seed, where there are others."""
    seeds = sorted({cell.seed for cell in cells})
    of_first = [cell for cell in cells if cell.seed == seeds[0]]
    places = {round(k * (len(of_first) - 1) / (PROBES - 1)) for k in range(PROBES)} if of_first else set()
    return [of_first[place] for place in sorted(places)]
