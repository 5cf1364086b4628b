"""Simulations from Python: the runs of `chainfl simulate`, with the same bits for the same settings."""

import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, get_args

import numpy as np
from numpy.typing import NDArray

from chainfl.codec.vector import decode
from chainfl.errors import InputError
from chainfl.learning.modules import module_of
from chainfl.learning.recipe import Recipe
from chainfl.learning.source import absolute
from chainfl.names import nearest
from chainfl.sim.experiment import Experiment, as_plain, with_changes
from chainfl.sim.open_run import OpenRun, name_of, new_run, resumed_run
from chainfl.sim.plots import draw_run
from chainfl.sim.presets import preset as preset_called
from chainfl.sim.run import RoundMetrics, head_of, summary
from chainfl.tracking import check_tracker

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn

AnyPath = str | os.PathLike[str]
OnRound = Callable[[RoundMetrics], object]


class Settings(TypedDict, total=False):
    """What `chainfl simulate` has options for, under the same names; `app` may be a path."""

    app: AnyPath
    app_config: str | Mapping[str, object]
    dataset: str
    partition: str
    model: str
    rule: str
    participants: int
    committee: int
    min_updates: int
    max_updates: int
    rounds: int
    hostile: float
    hostile_workers: int
    worker_attack: str
    validator_attack: str
    max_hostile_committee: str
    stakes: str
    stop: str
    score_samples: int
    test_samples: int
    loss_samples: int
    clients_every: int
    scale: int
    seed: int
    dp: str
    beyond_contract: bool
    learning_rate: float
    batch: int
    local_epochs: int
    local_steps: int
    momentum: float
    proximal: float
    decay: float
    decay_at: int


class SimulationResult:
    """What a simulation showed, round by round, and the model that it ended with."""

    def __init__(self, run: OpenRun) -> None:
        """The result of a run whose rounds were played."""
        self._run = run

    @property
    def experiment(self) -> Experiment:
        """What was played; whoever has it can play it again."""
        return self._run.experiment

    @property
    def rounds(self) -> tuple[RoundMetrics, ...]:
        """What each round showed."""
        return tuple(self._run.facts)

    @property
    def accuracies(self) -> list[float | None]:
        """The head's test accuracy after each round; None where the app counts no correct answers."""
        return [one.accuracy for one in self.rounds]

    @property
    def losses(self) -> list[float | None]:
        """The head's test loss after each round; None where it is no number."""
        return [one.loss for one in self.rounds]

    @property
    def shares(self) -> list[dict[int, float]]:
        """For each round the part that every participant's update has in the new model, by id."""
        return [one.shares for one in self.rounds]

    @property
    def model_root(self) -> str:
        """The root of the last head, in hexadecimal digits: what a chain would hold."""
        return self.rounds[-1].model_root

    @property
    def hostile_ids(self) -> list[int]:
        """Who was hostile."""
        return sorted(int(id_) for id_ in self._run.simulation.population.adversary.ids)

    @property
    def folder(self) -> Path | None:
        """Where the run is kept, if it is."""
        return self._run.folder

    def summary(self) -> dict[str, object]:
        """What the whole run showed, as `chainfl simulate --json` prints it."""
        return summary(self.rounds)

    def parameters(self) -> NDArray[np.float32]:
        """The last head as the vector that its root is over, decoded."""
        flat_D: NDArray[np.float32] = decode(head_of(self._run.simulation), self.experiment.scale)
        return flat_D

    def model(self) -> "nn.Module":
        """The last head as a torch module of the app, in eval mode; a new one at each call."""
        return module_of(self._run.simulation.population.learner, self.parameters())

    def plot(self, path: AnyPath | None = None) -> "Figure":
        """Accuracy, shares and committees over the rounds; also written to a file where one is named.

        Raises:
            ToolMissingError: matplotlib is not installed.
        """
        figure = draw_run(self.rounds, name_of(self.experiment, self.folder))
        if path is not None:
            figure.savefig(path, dpi=120)
        return figure

    def as_plain(self) -> dict[str, object]:
        """All of it but the model, as JSON holds it."""
        rounds = [one.as_plain() for one in self.rounds]
        return {"experiment": as_plain(self.experiment), **self.summary(), "rounds": rounds}

    def __repr__(self) -> str:
        """In one line: how many rounds, how good, which model."""
        last = self.rounds[-1]
        loss = "none" if last.loss is None else f"{last.loss:.4f}"
        quality = f"loss {loss}" if last.accuracy is None else f"accuracy {last.accuracy:.4f}"
        return f"<SimulationResult: {len(self.rounds)} rounds, {quality}, model root {self.model_root}>"


def simulate(
    *,
    preset: str | None = None,
    data: AnyPath | None = None,
    faithful: bool = False,
    run: AnyPath | None = None,
    track: str | None = None,
    on_round: OnRound | None = None,
    **settings: Unpack[Settings],
) -> SimulationResult:
    """Play rounds without a chain, as `chainfl simulate` does; the same settings give the same model roots.

    `preset` is what the settings change, `data` a folder with data files, `run` a folder to keep the run in, `track` a
    tracker such as "tensorboard:runs", `on_round` is called with what each round showed as soon as it is over.

    Raises:
        InputError: a setting is unknown or wrong, or the settings do not fit together.
        ToolMissingError: a package that they need is not installed.
    """
    check_tracker(track)
    experiment = _experiment(preset, settings)
    opened = new_run(
        experiment, _text(data), faithful=faithful, folder=Path(run) if run is not None else None
    )
    return _played(opened, track, on_round)


def resume(
    run: AnyPath,
    *,
    rounds: int | None = None,
    data: AnyPath | None = None,
    track: str | None = None,
    on_round: OnRound | None = None,
) -> SimulationResult:
    """Go on with the run in this folder; `rounds` makes it longer: so many in all.

    Raises:
        InputError: there is no run, its files are damaged, or it has more rounds already.
    """
    check_tracker(track)
    return _played(resumed_run(Path(run), _text(data), rounds=rounds), track, on_round)


def _played(opened: OpenRun, track: str | None, on_round: OnRound | None) -> SimulationResult:
    for one in opened.rounds(track):
        if on_round is not None:
            on_round(one)
    return SimulationResult(opened)


def _experiment(preset: str | None, settings: Settings) -> Experiment:
    known = {each.name: each.type for each in (*fields(Experiment), *fields(Recipe)) if each.name != "recipe"}
    changes: dict[str, Any] = dict(settings)
    for name in changes:
        if name not in known:
            raise InputError(f"simulate() has no setting {name!r}{nearest(name, known)}; see docs/python.md")

    app = changes.get("app")
    if app is not None:
        changes["app"] = absolute(os.fspath(app))
    if isinstance(config := changes.get("app_config"), Mapping):
        changes["app_config"] = ",".join(f"{name}={value}" for name, value in config.items())

    changes = {name: _of_kind(name, value, known[name]) for name, value in changes.items()}
    start = preset_called(preset) if preset is not None else Experiment()
    return with_changes(start, changes)


def _of_kind(name: str, value: object, kind: object) -> object:
    """The value as a setting of this kind holds it; numpy's numbers are numbers.

    Raises:
        InputError: it is of another kind, such as a text for a number.
    """
    kinds = get_args(kind) or (kind,)
    if value is None and type(None) in kinds:
        return None
    if isinstance(value, bool | np.bool_):
        if bool in kinds:
            return bool(value)
    elif int in kinds and isinstance(value, Integral):
        return int(value)
    elif float in kinds and isinstance(value, Real):
        return float(value)
    elif str in kinds and isinstance(value, str):
        return value
    wanted = {int: "a whole number", float: "a number", bool: "True or False"}.get(kinds[0], "a text")
    raise InputError(f"{name} must be {wanted}, not {value!r}")


def _text(path: AnyPath | None) -> str | None:
    return os.fspath(path) if path is not None else None
