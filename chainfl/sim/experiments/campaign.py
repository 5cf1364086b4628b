"""A campaign as its TOML file says it: groups of cells, sizes, papers' numbers and claims (docs/campaigns.md)."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from chainfl.errors import InputError
from chainfl.names import unknown
from chainfl.sim.experiments import forms

SIZES: Final = ("smoke", "small", "paper")
KINDS: Final = ("network", "selfish", "traffic")
VERBS: Final = ("first", "order", "over", "along", "across", "level", "decays", "ranks", "ratio", "untested")

SHAPES: Final = ("cliff", "falls", "flat", "peak", "rises")
TABLES: Final = ("ranks", "ratio", "worst", "reach", "clients")
FIGURES: Final = ("bars", "axis")

_TOP = ("title", "paper", "about", "kind", "seeds", "base", "sizes", "axes", "groups", "tables", "claims")
_GROUP = ("title", "kind", "set", "sizes", "axes", "more_axes", "paper", "figure")
_TABLE = ("title", "kind", "groups", "except", "level", "text")
_CLAIM = (
    *VERBS,
    "text",
    "group",
    "groups",
    "axis",
    "of",
    "by",
    "except",
    "shape",
    "measure",
    "near_paper",
    "settings",
)
_CLAIM_MORE = ("at_least", "at_most", "note")

Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Group:
    """Cells that are compared with each other: all combinations of the axes' values."""

    name: str
    title: str
    kind: str
    settings: Settings
    sizes: Mapping[str, Settings]
    axes: Mapping[str, Mapping[str, Any]]
    paper: Mapping[str, float]
    figure: str


@dataclass(frozen=True, slots=True)
class Campaign:
    """What is run, in which sizes, and what is claimed of it."""

    name: str
    title: str
    paper: str
    about: str
    kind: str
    seeds: int
    base: Settings
    sizes: Mapping[str, Settings]
    groups: Mapping[str, Group]
    tables: tuple[Mapping[str, Any], ...]
    claims: tuple[Mapping[str, Any], ...]
    source: str = field(repr=False)

    def only(self, group: str) -> "Campaign":
        """The campaign with this group alone, or with those whose names begin with `group/`.

        Raises:
            UnknownNameError: there is no such group.
        """
        chosen = {
            name: each for name, each in self.groups.items() if name == group or name.startswith(f"{group}/")
        }
        if not chosen:
            raise unknown(f"group of campaign {self.name}", group, self.groups)
        return replace(self, groups=chosen)

    def size(self, wanted: str | None) -> str:
        """The size to run: as wanted, else `small` where there is one, else the file's first.

        Raises:
            UnknownNameError: the campaign has no such size.
        """
        if wanted is None:
            return "small" if "small" in self.sizes or not self.sizes else next(iter(self.sizes))
        if self.sizes and wanted not in self.sizes:
            raise unknown(f"size of campaign {self.name}", wanted, self.sizes)
        return wanted


def shipped() -> dict[str, str]:
    """The campaigns inside the package: the text of each by name."""
    folder = files(__package__) / "library"
    found = {each.name: each for each in folder.iterdir() if each.name.endswith(".toml")}
    return {name.removesuffix(".toml"): found[name].read_text(encoding="utf-8") for name in sorted(found)}


def find_campaign(text: str) -> Campaign:
    """The campaign `NAME`, `NAME/GROUP` of the package, or the one in a file `PATH.toml`.

    Raises:
        InputError: there is no such campaign or file, or it is not one.
    """
    if text.endswith(".toml"):
        path = Path(text)
        try:
            return parse(path.stem, path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(
                f"{path}: {error.strerror}; give a name of `chainfl experiment list`, or a file"
            ) from None
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: not text in UTF-8: {error}") from None

    name, _, group = text.partition("/")
    there = shipped()
    if name not in there:
        raise unknown("campaign", name, [*there, "PATH.toml"])
    campaign = parse(name, there[name])
    return campaign.only(group) if group else campaign


def parse(name: str, source: str) -> Campaign:
    """A campaign from the text of its file.

    Raises:
        InputError: the text is no campaign; says where and what there is.
    """
    try:
        plain = tomllib.loads(source)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"campaign {name}: no TOML: {error}") from None

    forms.check_keys(f"campaign {name}", plain, _TOP)
    kind = str(plain.get("kind", "network"))
    axes = _axes(name, plain.get("axes", {}))
    sizes = forms.of_size(f"campaign {name}: sizes", plain.get("sizes", {}))
    groups = {
        key: _group(f"campaign {name}: group {key}", key, each, kind, axes)
        for key, each in forms.tables(f"campaign {name}: groups", plain.get("groups", {"all": {}})).items()
    }
    tables = _list(name, "tables", plain.get("tables", []))
    claims = _list(name, "claims", plain.get("claims", []))

    campaign = Campaign(
        name=name,
        title=str(plain.get("title", name)),
        paper=str(plain.get("paper", "")),
        about=str(plain.get("about", "")),
        kind=kind,
        seeds=forms.seeds(f"campaign {name}", plain.get("seeds", 1)),
        base=forms.table(f"campaign {name}: base", plain.get("base", {})),
        sizes=sizes,
        groups=groups,
        tables=tuple(_said_table(name, place, each) for place, each in enumerate(tables, 1)),
        claims=tuple(_claim(name, place, each) for place, each in enumerate(claims, 1)),
        source=source,
    )
    _check_groups(campaign)
    return campaign


def _group(where: str, name: str, plain: Settings, kind: str, axes: dict[str, dict[str, Any]]) -> Group:
    forms.check_keys(where, plain, _GROUP)
    own = str(plain.get("kind", kind))
    figure = str(plain.get("figure", "bars"))
    forms.check_known(where, "kind of group", own, KINDS)
    forms.check_known(where, "figure", figure, FIGURES)

    return Group(
        name=name,
        title=str(plain.get("title", name)),
        kind=own,
        settings=forms.table(f"{where}: set", plain.get("set", {})),
        sizes=forms.of_size(f"{where}: sizes", plain.get("sizes", {})),
        axes=(_axes(where, plain["axes"]) if "axes" in plain else axes)
        | _axes(where, plain.get("more_axes", {})),
        paper=forms.paper_numbers(f"{where}: paper", plain.get("paper", {})),
        figure=figure,
    )


def _axes(where: str, plain: Any) -> dict[str, dict[str, Any]]:
    """Axes by name, each with its values by label; a list labels its values by themselves."""
    axes = {}
    for axis, values in forms.table(f"{where}: axes", plain).items():
        if isinstance(values, list):
            values = {str(value): value for value in values}
        if not isinstance(values, dict) or not values:
            raise InputError(f"{where}: axis {axis} is a list of values or a table of labels and values")
        axes[axis] = values
    return axes


def _claim(name: str, place: int, plain: Any) -> Settings:
    where = f"campaign {name}: claim {place}"
    claim = forms.table(where, plain)
    forms.check_keys(where, claim, (*_CLAIM, *_CLAIM_MORE))

    verbs = [verb for verb in VERBS if verb in claim]
    if len(verbs) != 1 or "text" not in claim:
        raise InputError(f"{where}: needs a text and exactly one of: {', '.join(VERBS)}")
    forms.check_values(where, claim, (*forms.TEXTS, "level"))

    if "untested" not in claim and not named_groups(claim):
        raise InputError(f"{where}: needs a group or groups that it is about")
    if "ratio" in claim and len(named_groups(claim)) % 2:
        raise InputError(f"{where}: a ratio's groups are named in pairs, upper and lower")

    if "measure" in claim:
        forms.check_known(where, "measure", claim["measure"], forms.MEASURES)
    if "decays" in claim:
        forms.check_known(where, "series", claim["decays"], forms.SERIES)
    return claim


def _said_table(name: str, place: int, plain: Any) -> Settings:
    where = f"campaign {name}: table {place}"
    table = forms.table(where, plain)
    forms.check_keys(where, table, _TABLE)
    if not {"title", "kind", "groups"} <= table.keys():
        raise InputError(f"{where}: needs a title, a kind and groups")
    forms.check_values(where, table)
    forms.check_known(where, "kind of table", table["kind"], TABLES)
    if table["kind"] == "ratio" and len(table["groups"]) % 2:
        raise InputError(f"{where}: a ratio's groups are named in pairs, upper and lower")
    if table["kind"] == "reach" and not isinstance(table.get("level"), float):
        raise InputError(f"{where}: reach needs a level, an accuracy such as 0.8")
    return table


def _check_groups(campaign: Campaign) -> None:
    where = f"campaign {campaign.name}"
    if not campaign.groups:
        raise InputError(f"{where}: [groups] is empty: name a group, or leave the table out")
    for name, group in campaign.groups.items():
        axis = next(iter(group.axes), "")
        for size in group.sizes:
            forms.check_known(f"{where}: group {name}", "size", size, campaign.sizes or SIZES)
        for label in group.paper:
            forms.check_known(
                f"{where}: group {name}: paper", f"label of axis {axis}", label, group.axes.get(axis, {})
            )
    for size, settings in campaign.sizes.items():
        _check_left_out(f"{where}: sizes: {size}: leave_out", campaign, settings.get("leave_out", {}))

    for said in (*campaign.claims, *campaign.tables):
        for each in named_groups(said):
            if each not in campaign.groups:
                raise unknown(f"group of campaign {campaign.name}", each, campaign.groups)
    for place, claim in enumerate(campaign.claims, 1):
        _check_labels(f"campaign {campaign.name}: claim {place}", campaign, claim)


def _check_left_out(where: str, campaign: Campaign, left_out: Settings) -> None:
    """A label must be of some group's axis: one that no group has would leave out nothing."""
    axes: dict[str, list[str]] = {}
    for group in campaign.groups.values():
        for axis, values in group.axes.items():
            axes.setdefault(axis, []).extend(values)
    for axis, labels in left_out.items():
        forms.check_known(where, "axis", axis, axes)
        for label in labels:
            forms.check_known(where, f"label of axis {axis}", label, axes[axis])


def named_groups(said: Settings) -> list[str]:
    """The groups that a claim or a table is about."""
    return [str(said["group"])] if "group" in said else [str(each) for each in said.get("groups", [])]


def _check_labels(where: str, campaign: Campaign, claim: Settings) -> None:
    """A misspelt label would name a cell that never runs."""
    if claim.get("shape", "falls") not in SHAPES:
        raise InputError(f"{where}: {unknown('shape', str(claim['shape']), SHAPES)}")

    labels = [str(claim[verb]) for verb in ("first", "ranks", "ratio", "level", "across") if verb in claim]
    labels += [str(label) for verb in ("order", "over") for label in claim.get(verb, [])]

    for name in named_groups(claim):
        axes = campaign.groups[name].axes
        axis = str(claim.get("axis", next(iter(axes), "")))
        if "along" in claim:
            forms.check_known(where, f"axis of group {name}", claim["along"], axes)
        elif labels:
            forms.check_known(where, f"axis of group {name}", axis, axes)

        for label in labels:
            forms.check_known(where, f"label of axis {axis} of group {name}", label, axes[axis])
        for other, label in claim.get("of", {}).items():
            forms.check_known(where, f"axis of group {name}", other, axes)
            forms.check_known(where, f"label of axis {other} of group {name}", label, axes[other])

        if "near_paper" in claim and str(claim["level"]) not in campaign.groups[name].paper:
            raise InputError(f"{where}: group {name} has no number of the paper for {claim['level']}")


def _list(name: str, key: str, plain: Any) -> list[Any]:
    if not isinstance(plain, list):
        raise InputError(f"campaign {name}: {key} are written [[{key}]]")
    return plain
