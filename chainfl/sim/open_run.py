"""A run under way: begun or taken up again, its rounds kept in a folder and shown to a tracker as they are played."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from chainfl.errors import InputError
from chainfl.learning.source import find_source
from chainfl.sim import rundir
from chainfl.sim.experiment import Experiment, as_plain
from chainfl.sim.population import Engine, train_here
from chainfl.sim.run import RoundMetrics, play
from chainfl.sim.runfiles import BLOBS
from chainfl.sim.simulation import Simulation, set_up
from chainfl.store.directory import DirectoryStore
from chainfl.tracking import tracked


@dataclass(slots=True)
class OpenRun:
    """A network ready to play, the rounds that were played, and where they are kept."""

    simulation: Simulation
    folder: Path | None = None
    facts: list[RoundMetrics] = field(default_factory=list)

    @property
    def experiment(self) -> Experiment:
        """What is played."""
        return self.simulation.experiment

    def rounds(self, track: str | None = None) -> Iterator[RoundMetrics]:
        """Play the rounds that are left; each is kept and tracked before it is answered."""
        settings = as_plain(self.experiment)
        with tracked(track, name_of(self.experiment, self.folder), settings) as record:
            for one in play(self.simulation, self.facts):
                if self.folder is not None:
                    rundir.keep(self.folder, self.simulation, self.facts)
                record(one.round, one.as_plain())
                yield one


def new_run(
    experiment: Experiment,
    data: str | None = None,
    *,
    faithful: bool = False,
    engine: Engine = train_here,
    folder: Path | None = None,
) -> OpenRun:
    """A run from its first round on.

    Raises:
        InputError: data, model, partition and people do not fit together, or there is a run in the folder.
    """
    simulation = set_up(
        experiment, data, faithful=faithful, store=_blobs(folder) if faithful else None, engine=engine
    )
    if folder is not None:
        rundir.start(folder, rundir.Plan(experiment, faithful, data, _app_digest(experiment)))
    return OpenRun(simulation, folder)


def resumed_run(
    folder: Path, data: str | None = None, *, rounds: int | None = None, engine: Engine = train_here
) -> OpenRun:
    """The run in this folder, from where it stopped; `rounds` makes it longer: so many in all.

    Raises:
        InputError: there is no run, its files are damaged, it has more rounds already, or its app is another now.
    """
    begun = rundir.read_plan(folder)
    _expect_same_app(folder, begun)
    plan = rundir.lengthen(folder, begun, rounds)
    blobs = _blobs(folder) if plan.faithful else None
    simulation = set_up(
        plan.experiment, data or plan.data, faithful=plan.faithful, store=blobs, engine=engine
    )
    return OpenRun(simulation, folder, rundir.restore(folder, simulation))


def name_of(experiment: Experiment, folder: Path | None) -> str:
    """What trackers call a run: its folder, else what is learned by which rule."""
    if folder is not None:
        return folder.name
    learned = _short(Path(experiment.app)) if experiment.app else experiment.dataset
    return f"{learned}-{experiment.rule}-{experiment.seed}".replace(":", "-").replace("/", "-")


def _short(app: Path) -> str:
    """An app in a word: its folder, where the file itself is called as all are."""
    return app.parent.name if app.name == "app.py" and app.parent.name else app.stem


def _app_digest(experiment: Experiment) -> str | None:
    return find_source(experiment.app).digest if experiment.app is not None else None


def _expect_same_app(folder: Path, begun: rundir.Plan) -> None:
    """Rounds of two sources in one run would be nobody's: the same settings would not give them again."""
    found = _app_digest(begun.experiment) if begun.app_digest is not None else None
    if found != begun.app_digest:
        raise InputError(
            f"{folder}: the run was begun with an app of digest {begun.app_digest}, {begun.experiment.app} has {found} "
            "now: put that source back, or start a run of the new one with --run"
        )


def _blobs(folder: Path | None) -> DirectoryStore | None:
    return DirectoryStore(folder / BLOBS) if folder is not None else None
