"""A campaign as its TOML file says it: groups of cells, sizes, papers' numbers and claims (docs/campaigns.md)."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from chainfl.errors import InputError
from chainfl.names import unknown

SIZES: Final = ("smoke", "small", "paper")
KINDS: Final = ("network", "selfish", "traffic")
VERBS: Final = ("first", "order", "over", "along", "across", "level", "decays", "ranks", "untested")

SHAPES: Final = ("cliff", "falls", "flat", "peak", "rises")
TABLES: Final = ("ranks", "ratio", "worst", "reach", "clients")

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

    _check_keys(f"campaign {name}", plain, _TOP)
    kind = str(plain.get("kind", "network"))
    axes = _axes(name, plain.get("axes", {}))
    sizes = _tables(f"campaign {name}: sizes", plain.get("sizes", {}))
    groups = {
        key: _group(f"campaign {name}: group {key}", key, each, kind, axes)
        for key, each in _tables(f"campaign {name}: groups", plain.get("groups", {"all": {}})).items()
    }
    tables = _list(name, "tables", plain.get("tables", []))
    claims = _list(name, "claims", plain.get("claims", []))
    seeds = plain.get("seeds", 1)
    if not isinstance(seeds, int) or seeds < 1:
        raise InputError(f"campaign {name}: seeds must be a number of at least 1, not {seeds!r}")

    campaign = Campaign(
        name=name,
        title=str(plain.get("title", name)),
        paper=str(plain.get("paper", "")),
        about=str(plain.get("about", "")),
        kind=kind,
        seeds=seeds,
        base=_table(f"campaign {name}: base", plain.get("base", {})),
        sizes=sizes,
        groups=groups,
        tables=tuple(_said_table(name, place, each) for place, each in enumerate(tables, 1)),
        claims=tuple(_claim(name, place, each) for place, each in enumerate(claims, 1)),
        source=source,
    )
    _check_groups(campaign)
    return campaign


def _group(where: str, name: str, plain: Settings, kind: str, axes: dict[str, dict[str, Any]]) -> Group:
    _check_keys(where, plain, _GROUP)
    own = str(plain.get("kind", kind))
    if own not in KINDS:
        raise unknown("kind of group", own, KINDS)
    return Group(
        name=name,
        title=str(plain.get("title", name)),
        kind=own,
        settings=_table(f"{where}: set", plain.get("set", {})),
        sizes=_tables(f"{where}: sizes", plain.get("sizes", {})),
        axes=(_axes(where, plain["axes"]) if "axes" in plain else axes)
        | _axes(where, plain.get("more_axes", {})),
        paper=_table(f"{where}: paper", plain.get("paper", {})),
        figure=str(plain.get("figure", "bars")),
    )


def _axes(where: str, plain: Any) -> dict[str, dict[str, Any]]:
    """Axes by name, each with its values by label; a list labels its values by themselves."""
    axes = {}
    for axis, values in _table(f"{where}: axes", plain).items():
        if isinstance(values, list):
            values = {str(value): value for value in values}
        if not isinstance(values, dict) or not values:
            raise InputError(f"{where}: axis {axis} is a list of values or a table of labels and values")
        axes[axis] = values
    return axes


def _claim(name: str, place: int, plain: Any) -> Settings:
    where = f"campaign {name}: claim {place}"
    claim = _table(where, plain)
    _check_keys(where, claim, (*_CLAIM, *_CLAIM_MORE))
    verbs = [verb for verb in VERBS if verb in claim]
    if len(verbs) != 1 or "text" not in claim:
        raise InputError(f"{where}: needs a text and exactly one of: {', '.join(VERBS)}")
    return claim


def _said_table(name: str, place: int, plain: Any) -> Settings:
    where = f"campaign {name}: table {place}"
    table = _table(where, plain)
    _check_keys(where, table, _TABLE)
    if not {"title", "kind", "groups"} <= table.keys():
        raise InputError(f"{where}: needs a title, a kind and groups")
    if table["kind"] not in TABLES:
        raise unknown("kind of table", str(table["kind"]), TABLES)
    if table["kind"] == "ratio" and len(table["groups"]) % 2:
        raise InputError(f"{where}: a ratio's groups are named in pairs, upper and lower")
    if table["kind"] == "reach" and not isinstance(table.get("level"), float):
        raise InputError(f"{where}: reach needs a level, an accuracy such as 0.8")
    return table


def _check_groups(campaign: Campaign) -> None:
    for said in (*campaign.claims, *campaign.tables):
        for group in named_groups(said):
            if group not in campaign.groups:
                raise unknown(f"group of campaign {campaign.name}", str(group), campaign.groups)
    for place, claim in enumerate(campaign.claims, 1):
        _check_labels(f"campaign {campaign.name}: claim {place}", campaign, claim)


def named_groups(said: Settings) -> list[str]:
    """The groups that a claim or a table is about."""
    return [str(said["group"])] if "group" in said else [str(each) for each in said.get("groups", [])]


def _check_labels(where: str, campaign: Campaign, claim: Settings) -> None:
    """A misspelt label would be a cell that nobody ever runs."""
    if claim.get("shape", "falls") not in SHAPES:
        raise InputError(f"{where}: {unknown('shape', str(claim['shape']), SHAPES)}")
    labels = [str(claim[verb]) for verb in ("first", "ranks", "level", "across") if verb in claim]
    labels += [str(label) for verb in ("order", "over") for label in claim.get(verb, [])]
    for name in named_groups(claim):
        axes = campaign.groups[name].axes
        axis = str(claim.get("axis", next(iter(axes), "")))
        if "along" in claim:
            _check_known(where, f"axis of group {name}", claim["along"], axes)
        elif labels:
            _check_known(where, f"axis of group {name}", axis, axes)
        for label in labels:
            _check_known(where, f"label of axis {axis} of group {name}", label, axes[axis])
        for other, label in claim.get("of", {}).items():
            _check_known(where, f"axis of group {name}", other, axes)
            _check_known(where, f"label of axis {other} of group {name}", label, axes[other])
        if "near_paper" in claim and str(claim["level"]) not in campaign.groups[name].paper:
            raise InputError(f"{where}: group {name} has no number of the paper for {claim['level']}")


def _check_known(where: str, what: str, name: Any, known: Iterable[str]) -> None:
    if str(name) not in known:
        raise InputError(f"{where}: {unknown(what, str(name), known)}")


def _check_keys(where: str, plain: Settings, known: Iterable[str]) -> None:
    for key in plain:
        if key not in known:
            raise InputError(f"{where}: {unknown('key', key, known)}")


def _list(name: str, key: str, plain: Any) -> list[Any]:
    if not isinstance(plain, list):
        raise InputError(f"campaign {name}: {key} are written [[{key}]]")
    return plain


def _table(where: str, plain: Any) -> dict[str, Any]:
    if not isinstance(plain, dict):
        raise InputError(f"{where} must be a table, not {plain!r}")
    return plain


def _tables(where: str, plain: Any) -> dict[str, dict[str, Any]]:
    return {str(key): _table(f"{where}: {key}", each) for key, each in _table(where, plain).items()}
