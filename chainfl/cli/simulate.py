"""`chainfl simulate`: rounds without a chain, by the same rules; experiments of the papers, and replays of chains."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chainfl.cli.generated import field_options
from chainfl.cli.output import finish, json_option, print_table
from chainfl.errors import InputError, ToolMissingError
from chainfl.names import unknown
from chainfl.report import Report, narrate, report
from chainfl.sim.experiment import Experiment, Selfish, as_plain, with_changes
from chainfl.tracking import check_tracker

if TYPE_CHECKING:
    from chainfl.sim.open_run import OpenRun
    from chainfl.sim.population import Engine
    from chainfl.sim.run import RoundMetrics
    from chainfl.sim.selfish import SelfishProgress, SelfishSetup
    from chainfl.sim.selfish_dir import SelfishPlan


@dataclass(frozen=True, slots=True)
class _Shown:
    """Where a run's results go: JSON or text, and to which tracker."""

    as_json: bool
    track: str | None


_Tick = Callable[["RoundMetrics"], None]
_OTHER_ROOT = (
    "not the chain's model: some node had other data, code, threads or another torch than described here, or trained "
    "with --dp, whose noise cannot be drawn again"
)


@click.command(
    short_help="Play rounds without a chain.",
    epilog="Example: chainfl simulate --preset sabfl-small --rule median --run runs/median",
)
@click.option(
    "--preset", "preset_name", help="Start from this experiment; flags beside it change it (--list)."
)
@click.option("--list", "list_presets", is_flag=True, help="List the presets and end.")
@click.option(
    "--data", type=click.Path(file_okay=False), help="Directory with data files; else CHAINFL_DATA."
)
@click.option(
    "--participants",
    "participants",
    help="How many take part [20]; with --replay, the file that describes them.",
)
@field_options(Experiment, Selfish)
@click.option("--faithful", is_flag=True, help="Real roles, roots, blobs and audit for every round; slower.")
@click.option("--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True)
@click.option(
    "--run", "folder", type=click.Path(path_type=Path), help="Keep metrics, checkpoint and plots here."
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    help="Go on with the run in this folder; with --rounds, until it has so many in all.",
)
@click.option("--track", help="Show each round to tensorboard:DIR or mlflow:URI too.")
@click.option("--replay", type=click.Path(path_type=Path), help="Play a chain's run again from its trace.")
@click.option("--store", help="With --replay: where the task's manifest is stored, such as dir:./store.")
@json_option
def simulate(
    preset_name: str | None,
    list_presets: bool,
    participants: str | None,
    data: str | None,
    faithful: bool,
    engine: str,
    folder: Path | None,
    resume: Path | None,
    replay: Path | None,
    store: str | None,
    track: str | None,
    as_json: bool,
    **changes: Any,
) -> int:
    """Play an experiment in memory: the rules of the contracts, real training, hostile participants.

    With --replay TRACE --participants FILE a run on a chain is played again; every round gives the same model root.
    """
    if list_presets:
        return _list_presets(as_json)

    if replay is not None:
        if participants is None:
            raise InputError("--replay needs --participants FILE: who has which data (docs/simulator.md)")
        return _replay(replay, Path(participants), store, data, changes["app"], as_json)

    check_tracker(track)
    shown = _Shown(as_json, track)

    if resume is not None:
        given = [name for name, value in changes.items() if value is not None and name != "rounds"]
        if given or preset_name or participants or folder:
            raise InputError(
                "--resume goes on with the experiment that is in the folder: "
                "give no other flags beside it but --rounds"
            )
        return _resume(resume, changes["rounds"], data, engine, shown)

    if preset_name is not None and _is_selfish(preset_name):
        if faithful or engine != "local":
            raise InputError(
                f"preset {preset_name} has no place for --{'faithful' if faithful else 'engine'}"
            )
        return _selfish(preset_name, participants, data, folder, changes, shown)

    experiment = _experiment(preset_name, participants, changes)
    return _simulate(experiment, data, faithful, engine, folder, shown)


def _is_selfish(name: str) -> bool:
    """Whether the preset is one of selfish learning; a name of neither kind is refused with the list of all."""
    from chainfl.sim.presets import PRESETS, SELFISH

    every = {*PRESETS, *SELFISH}
    if name not in every:
        raise unknown("preset", name, every)
    return name in SELFISH


def _experiment(preset_name: str | None, participants: str | None, changes: dict[str, Any]) -> Experiment:
    from chainfl.learning.source import absolute
    from chainfl.sim.presets import preset

    start = preset(preset_name) if preset_name is not None else Experiment()
    if changes.get("app"):
        changes = changes | {"app": absolute(changes["app"])}  # a resumed run finds it again
    return with_changes(start, changes | {"participants": _number(participants)})


def _number(participants: str | None) -> int | None:
    if participants is not None and not participants.isdecimal():
        raise InputError(f"--participants is {participants!r}: give a number (a file goes with --replay)")
    return int(participants) if participants is not None else None


def _simulate(
    experiment: Experiment,
    data: str | None,
    faithful: bool,
    engine: str,
    folder: Path | None,
    shown: _Shown,
) -> int:
    from chainfl.sim.open_run import new_run

    with _engine(engine) as train:
        started = time.perf_counter()
        opened = new_run(experiment, data, faithful=faithful, engine=train, folder=folder)
        return _play(opened, started, shown, engine, train)


def _resume(folder: Path, rounds: int | None, data: str | None, engine: str, shown: _Shown) -> int:
    from chainfl.sim import selfish_dir
    from chainfl.sim.open_run import resumed_run

    selfish = selfish_dir.read_plan(folder)
    if selfish is not None:
        return _resume_selfish(folder, selfish_dir.lengthen(folder, selfish, rounds), data, shown)
    with _engine(engine) as train:
        started = time.perf_counter()
        opened = resumed_run(folder, data, rounds=rounds, engine=train)
        narrate(f"{folder}: {len(opened.facts)} of {opened.experiment.rounds} rounds were played")
        return _play(opened, started, shown, engine, train)


def _play(opened: "OpenRun", started: float, shown: _Shown, engine: str, train: "Engine") -> int:
    from chainfl.sim.run import summary
    from chainfl.sim.terms import outside_bounds

    simulation = opened.simulation
    experiment = opened.experiment
    outside = outside_bounds(simulation.net.task.config)
    if outside is not None:
        narrate(f"outside the contract's bounds: {outside}")
    with _progress(experiment.rounds, len(opened.facts)) as tick:
        for one in opened.rounds(shown.track):
            tick(one)
    facts = opened.facts
    metrics: dict[str, object] = {
        "experiment": as_plain(experiment),
        "engine": engine,
        "outside_bounds": outside,
        "hostile_ids": sorted(simulation.population.adversary.ids),
        **summary(facts),
        "rounds": [one.as_plain() for one in facts],
    }
    if simulation.experiment.dp is not None:
        metrics["privacy"] = _privacy(simulation.experiment.dp, len(facts))
    if engine == "ray":
        metrics["worker_pids"] = sorted(getattr(train, "pids", ()))
    if opened.folder is not None:
        metrics["run"] = str(opened.folder)
        metrics["plots"] = _draw(opened.folder, facts, _title(experiment))
    answer = report("simulate", metrics, seed=experiment.seed, seconds=time.perf_counter() - started)
    return finish(answer, shown.as_json, lambda done: _show(done, facts))


def _privacy(dp: str, rounds: int) -> dict[str, object]:
    """What a participant that trained in every round has spent after each; whoever sat in committees spent less."""
    from chainfl.learning.privacy import epsilon, parse_privacy

    privacy = parse_privacy(dp)
    by_round = [epsilon([(privacy.noise, number)], privacy.delta) for number in range(1, rounds + 1)]
    narrate(
        f"privacy: epsilon at most {by_round[-1]:.4g} at delta {privacy.delta:g}"
        if by_round
        else "no round yet"
    )
    return {**asdict(privacy), "epsilon_at_most": by_round}


def _replay(
    trace: Path, participants: Path, store: str | None, data: str | None, app: str | None, as_json: bool
) -> int:
    from chainfl.sim.replay import read_participants, read_trace, replay

    started = time.perf_counter()
    recorded = read_trace(trace, _open(store))
    rounds = list[dict[str, object]]()
    for one in replay(recorded, read_participants(participants), data, app):
        narrate(
            f"round {one.round}: {one.outcome} {one.model_root} ({'same' if one.same else 'NOT the same'})"
        )
        if not one.same and all(bool(each["same"]) for each in rounds):
            narrate(_OTHER_ROOT)
        rounds.append(one.as_plain())
    same = all(bool(one["same"]) for one in rounds)
    answer = report(
        "simulate-replay", {"same": same, "rounds": rounds}, ok=same, seconds=time.perf_counter() - started
    )
    rows = [
        (str(r["round"]), str(r["outcome"]), str(r["model_root"]), str(r["same"]).lower()) for r in rounds
    ]
    return finish(
        answer, as_json, lambda _: print_table(("round", "outcome", "model root", "as on the chain"), rows)
    )


def _selfish(
    preset_name: str,
    participants: str | None,
    data: str | None,
    folder: Path | None,
    changes: dict[str, Any],
    shown: _Shown,
) -> int:
    """An experiment of selfish learning; `--rule` names the method."""
    from chainfl.sim import selfish_dir
    from chainfl.sim.selfish import first_progress, selfish_with, set_up_selfish

    started = time.perf_counter()
    experiment = selfish_with(preset_name, changes | {"clients": _number(participants)})
    setup = set_up_selfish(experiment, data)
    if folder is not None:
        selfish_dir.start(folder, selfish_dir.SelfishPlan(experiment, data))
    return _play_selfish(setup, first_progress(experiment), folder, started, shown)


def _resume_selfish(folder: Path, plan: "SelfishPlan", data: str | None, shown: _Shown) -> int:
    from chainfl.sim import selfish_dir
    from chainfl.sim.selfish import set_up_selfish

    started = time.perf_counter()
    setup = set_up_selfish(plan.experiment, data or plan.data)
    progress = selfish_dir.restore(folder, plan.experiment)
    narrate(f"{folder}: {len(progress.facts)} of {plan.experiment.rounds} rounds were played")
    return _play_selfish(setup, progress, folder, started, shown)


def _play_selfish(
    setup: "SelfishSetup", progress: "SelfishProgress", folder: Path | None, started: float, shown: _Shown
) -> int:
    from chainfl.sim import selfish_dir
    from chainfl.sim.selfish import play_selfish
    from chainfl.tracking import tracked

    experiment = setup.experiment
    name = folder.name if folder is not None else experiment.method
    with tracked(shown.track, name, asdict(experiment)) as record:
        for one in play_selfish(setup, progress):
            if folder is not None:
                selfish_dir.keep(folder, progress)
            record(one.round, one.as_plain())
            narrate(
                f"round {one.round}/{experiment.rounds}: internal accuracy {one.accuracy:.4f}, "
                f"{one.external} external clients with {one.external_share:.2f} of the model"
            )
    facts = progress.facts
    last = [one.accuracy for one in facts[-5:]]
    metrics: dict[str, object] = {
        "experiment": asdict(experiment),
        "accuracy": facts[-1].accuracy,
        "best_accuracy": max(one.accuracy for one in facts),
        "mean_accuracy_last_five": sum(last) / len(last),
        "model_root": facts[-1].model_root,
        "rounds": [one.as_plain() for one in facts],
    }
    if folder is not None:
        metrics["run"] = str(folder)
    answer = report("simulate-selfish", metrics, seed=experiment.seed, seconds=time.perf_counter() - started)
    return finish(
        answer,
        shown.as_json,
        lambda _: click.echo(
            f"{experiment.method}: internal accuracy {sum(last) / len(last):.4f} at the end"
        ),
    )


def _open(store: str | None) -> Any:
    from chainfl.store.address import open_store

    return open_store(store) if store is not None else None


@contextmanager
def _engine(name: str) -> Iterator["Engine"]:
    from chainfl.sim.population import train_here

    if name == "local":
        yield train_here
        return
    from chainfl.sim.ray_engine import ray_engine

    with ray_engine() as engine:
        yield engine


def _draw(folder: Path, facts: list["RoundMetrics"], title: str) -> list[str]:
    """Plots are a courtesy: where matplotlib is missing, the run stands without them."""
    from chainfl.sim.plots import draw_plots

    try:
        return [str(path) for path in draw_plots(folder / "plots", facts, title)]
    except ToolMissingError as error:
        narrate(str(error))
        return []


def _title(experiment: Experiment) -> str:
    if experiment.app is not None:
        return f"{experiment.app}, {experiment.rule}"
    return f"{experiment.model} on {experiment.dataset} ({experiment.partition}), {experiment.rule}"


@contextmanager
def _progress(rounds: int, done: int) -> Iterator[_Tick]:
    """A bar on stderr with accuracy, shares and the time left; plain lines where stderr is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda one: narrate(f"round {one.round}/{rounds}: {_say(one)}, {one.seconds:.2f} s")
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("first round", total=rounds, completed=done)
        yield lambda one: bar.update(task, advance=1, description=_say(one))


def _say(one: "RoundMetrics") -> str:
    captured = ", committee captured" if one.captured else ""
    training = "".join(f"{name} {value:.4g}, " for name, value in one.training.items())
    return (
        f"{one.outcome}, {_quality(one)}, {training}honest {one.share_honest:.2f}, "
        f"hostile {one.share_hostile:.2f}, {one.acting_hostile} of {one.committee} judges hostile{captured}"
    )


def _quality(one: "RoundMetrics") -> str:
    """Accuracy; for an app that counts no correct answers, the loss."""
    if one.accuracy is not None:
        return f"accuracy {one.accuracy:.4f}"
    return "no loss" if one.loss is None else f"loss {one.loss:.4f}"


def _show(answer: Report, facts: list["RoundMetrics"]) -> None:
    shown = facts if len(facts) <= 12 else [*facts[:3], *facts[-8:]]
    training = sorted({name for one in facts for name in one.training})
    print_table(
        ("round", "outcome", "accuracy", "loss", *training, "honest", "hostile", "committee", "seconds"),
        [
            (
                str(one.round),
                one.outcome,
                "none" if one.accuracy is None else f"{one.accuracy:.4f}",
                "none" if one.loss is None else f"{one.loss:.4f}",
                *(f"{one.training[name]:.4g}" if name in one.training else "none" for name in training),
                f"{one.share_honest:.3f}",
                f"{one.share_hostile:.3f}",
                f"{one.hostile_in_committee}/{one.committee}{' captured' if one.captured else ''}",
                f"{one.seconds:.2f}",
            )
            for one in shown
        ],
    )

    last = answer.metrics["mean_accuracy_last_five"]
    best = answer.metrics["best_accuracy"]
    if isinstance(last, float) and isinstance(best, float):
        click.echo(f"accuracy: {last:.4f} over the last five rounds, {best:.4f} at best")
    click.echo(f"model root: {answer.metrics['model_root']}")
    if "run" in answer.metrics:
        click.echo(f"run: {answer.metrics['run']}")


def _list_presets(as_json: bool) -> int:
    from chainfl.sim.presets import PRESETS, SELFISH

    presets = {name: as_plain(each) for name, each in PRESETS.items()}
    answer = report(
        "simulate-list", {"presets": presets | {name: asdict(each) for name, each in SELFISH.items()}}
    )
    rows = [
        (name, each.dataset, each.partition, each.rule, str(each.participants), f"{each.hostile:g}")
        for name, each in PRESETS.items()
    ] + [
        (name, each.dataset, each.partition, each.method, str(each.clients), f"{each.hostile:g}")
        for name, each in SELFISH.items()
    ]
    columns = ("preset", "data set", "partition", "rule", "participants", "hostile")
    return finish(answer, as_json, lambda _: print_table(columns, rows))
