"""From a campaign to its cells: one experiment each, with the labels by which tables and claims find it."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, Final, get_type_hints

from chainfl.errors import ChainflError, InputError
from chainfl.learning.recipe import Recipe
from chainfl.names import unknown
from chainfl.sim.experiment import Experiment, Selfish, identity
from chainfl.sim.experiments import forms
from chainfl.sim.experiments.campaign import Campaign, Group

FRAMEWORKS: Final = ("typical-fl", "cmfl", "braintorrent", "gossipfl")
ALIASES: Final[Mapping[str, Mapping[str, str]]] = {
    "network": {"attack": "worker_attack"},
    "selfish": {"rule": "method", "participants": "clients", "attack": "worker_attack"},
    "traffic": {},
}
OWN: Final = "npz:"


@dataclass(frozen=True, slots=True)
class TrafficCase:
    """A framework on links of so many megabits a second: bytes and time of its rounds, without training."""

    framework: str = "cmfl"
    model: str = "mnist-cnn"
    workers: int = 65
    committee: int = 43
    megabits: float = 10.0
    rounds: int = 600
    scale: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        if self.framework not in FRAMEWORKS:
            raise unknown("framework", self.framework, FRAMEWORKS)
        if min(self.workers, self.committee, self.rounds) < 1 or self.megabits <= 0:
            raise InputError("workers, committee, rounds and megabits must be positive")


AnyExperiment = Experiment | Selfish | TrafficCase
_TYPES: Final[Mapping[str, type]] = {"network": Experiment, "selfish": Selfish, "traffic": TrafficCase}


@dataclass(frozen=True, slots=True)
class Cell:
    """One experiment of a campaign."""

    campaign: str
    group: str
    labels: tuple[tuple[str, str], ...]
    experiment: AnyExperiment

    @property
    def seed(self) -> int:
        """The experiment's seed."""
        return self.experiment.seed

    @property
    def name(self) -> str:
        """For people."""
        labels = " ".join(f"{axis}={label}" for axis, label in self.labels)
        return " ".join(filter(None, (f"{self.campaign}/{self.group}", labels, f"seed={self.seed}")))

    def key(self) -> str:
        """What is run, as one name: another setting, or another file of data, is another cell."""
        own = (
            asdict(self.experiment) if isinstance(self.experiment, TrafficCase) else identity(self.experiment)
        )
        plain = {"kind": type(self.experiment).__name__, **own}
        dataset = str(plain.get("dataset", ""))
        if dataset.startswith(OWN):
            plain["data"] = _digest(Path(dataset.removeprefix(OWN)).expanduser())
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:20]


def expand(campaign: Campaign, size: str) -> tuple[list[Cell], list[str]]:
    """Every cell of the campaign in this size, and a line for each combination that cannot be.

    Raises:
        InputError: a name in the file is not known; lists the known ones.
    """
    cells: list[Cell] = []
    impossible: list[str] = []
    for group in campaign.groups.values():
        for labels, settings, seeds in _combinations(campaign, group, size):
            named = " ".join(f"{axis}={label}" for axis, label in labels)
            where = f"{campaign.name}/{group.name} {named}".rstrip()
            try:
                first = _experiment(where, group.kind, settings)
            except BadNameError:
                raise
            except ChainflError as error:
                impossible.append(f"{where}: {error}")
                continue
            cells += [
                Cell(campaign.name, group.name, labels, replace(first, seed=first.seed + n))
                for n in range(seeds)
            ]

    return cells, impossible


class BadNameError(InputError):
    """A setting or a type in a campaign's file is wrong: nothing of it can be run."""


def _combinations(
    campaign: Campaign, group: Group, size: str
) -> Iterator[tuple[tuple[tuple[str, str], ...], dict[str, Any], int]]:
    """Labels, settings and number of seeds of each; later settings win: base, group, size, the group's size, axes."""
    if "skip" in group.sizes.get(size, {}):
        return

    # What the campaign says of all groups is about its own kind of experiment.
    usual = campaign.base if group.kind == campaign.kind else {}
    of_size = campaign.sizes.get(size, {}) if group.kind == campaign.kind else {"seeds": 1}
    shared = {**usual, **group.settings, **of_size, **group.sizes.get(size, {})}
    seeds = forms.seeds(f"{campaign.name}/{group.name}", shared.pop("seeds", campaign.seeds))
    left_out = shared.pop("leave_out", {})
    for chosen in product(*(values.items() for values in group.axes.values())):
        labels = tuple(zip(group.axes, (label for label, _ in chosen), strict=True))
        if any(label in left_out.get(axis, ()) for axis, label in labels):
            continue
        settings = dict(shared)
        for axis, (_, value) in zip(group.axes, chosen, strict=True):
            settings |= value if isinstance(value, dict) else {axis: value}
        yield labels, settings, seeds


def _experiment(where: str, kind: str, settings: Mapping[str, Any]) -> AnyExperiment:
    type_ = _TYPES[kind]
    hints = get_type_hints(type_) | ({} if kind == "traffic" else get_type_hints(Recipe))
    own = {each.name for each in fields(type_)} - {"recipe"}
    in_recipe = set() if kind == "traffic" else {each.name for each in fields(Recipe)} - own

    for short, long in ALIASES[kind].items():
        if short in settings and long in settings:
            raise BadNameError(f"{where}: {short} and {long} are the same setting: give one of them")
    given = {ALIASES[kind].get(name, name): value for name, value in settings.items()}
    for name, value in given.items():
        if name not in own | in_recipe:
            raise BadNameError(f"{where}: {unknown('setting', name, own | in_recipe)}")
        _check_type(where, name, value, hints[name])

    direct = {name: value for name, value in given.items() if name in own}
    if kind == "traffic":
        return TrafficCase(**direct)
    usual = Experiment().recipe if kind == "network" else Selfish().recipe
    recipe = replace(usual, **{name: value for name, value in given.items() if name in in_recipe})
    made: AnyExperiment = type_(recipe=recipe, **direct)
    return made


def _check_type(where: str, name: str, value: Any, hint: Any) -> None:
    is_text = hint is str or hint == (str | None)
    allowed = (int, float) if hint is float else (str,) if is_text else (int,)
    if not isinstance(value, allowed) or isinstance(value, bool):
        wanted = "a text" if is_text else "a number" if hint is float else "a whole number"
        raise BadNameError(f"{where}: {name} must be {wanted}, not {value!r}")


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "missing"
