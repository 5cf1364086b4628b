"""What a value in a campaign's file may be: one line with where, what and the known names, where it is not."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from chainfl.errors import InputError
from chainfl.names import unknown

MOST_SEEDS: Final = 10_000
"""More seeds than that are a slip of the hand: the list of cells alone would fill the memory."""

NUMBERS: Final = ("by", "at_least", "at_most", "near_paper")
TEXT_LISTS: Final = ("groups", "except", "order", "over")
TEXTS: Final = (
    "text",
    "note",
    "title",
    "kind",
    "group",
    "axis",
    "first",
    "along",
    "across",
    "ranks",
    "ratio",
    "shape",
    "measure",
    "decays",
    "untested",
)
MEASURES: Final = (
    "last",
    "best",
    "final",
    "loss",
    "training_loss",
    "attack_success",
    "hostile_share",
    "hostile_workers",
    "hostile_in_committee",
    "hostile_selected",
    "captured",
    "rounds",
    "megabytes_a_round",
    "seconds_a_round",
    "hours",
    "external_weight",
    "external_share",
)
SERIES: Final = ("accuracy", "loss", "training_loss", "attack_success", "external_weight")


def table(where: str, plain: Any) -> dict[str, Any]:
    """The value as a table.

    Raises:
        InputError: it is none.
    """
    if not isinstance(plain, dict):
        raise InputError(f"{where} must be a table, not {plain!r}")
    return plain


def tables(where: str, plain: Any) -> dict[str, dict[str, Any]]:
    """The value as a table of tables.

    Raises:
        InputError: it is none.
    """
    return {str(key): table(f"{where}: {key}", each) for key, each in table(where, plain).items()}


def check_keys(where: str, plain: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse keys that mean nothing.

    Raises:
        InputError: one is not known; lists the known ones.
    """
    for key in plain:
        check_known(where, "key", key, known)


def check_known(where: str, what: str, name: Any, known: Iterable[str]) -> None:
    """Refuse a name that is not one of these.

    Raises:
        InputError: it is not known; lists the known ones.
    """
    names = list(known)
    if str(name) not in names:
        raise InputError(f"{where}: {unknown(what, str(name), names)}")


def seeds(where: str, plain: Any) -> int:
    """A number of seeds.

    Raises:
        InputError: it is none, or more than anybody can run.
    """
    if not isinstance(plain, int) or isinstance(plain, bool) or not 1 <= plain <= MOST_SEEDS:
        raise InputError(
            f"{where}: seeds must be a whole number from 1 to {MOST_SEEDS}, not {_short(plain)} "
            "(the number of seeds; the first one is set by seed)"
        )
    return plain


def check_values(where: str, plain: Mapping[str, Any], texts: Iterable[str] = TEXTS) -> None:
    """Refuse values of the wrong type in a claim or a table.

    Raises:
        InputError: one is; says which and what it must be.
    """
    for key, value in plain.items():
        if key in NUMBERS:
            _check(where, key, value, _is_number(value), "a number")
        elif key in TEXT_LISTS:
            is_fit = isinstance(value, list) and all(isinstance(each, str) for each in value)
            _check(where, key, value, is_fit, "a list of texts")
        elif key in texts:
            _check(where, key, value, isinstance(value, str), "a text")
        elif key == "settings":
            _check(where, key, value, _is_number(value) and value == int(value), "a whole number")
        elif key == "of":
            table(f"{where}: of", value)


def paper_numbers(where: str, plain: Any) -> dict[str, Any]:
    """A paper's numbers by label.

    Raises:
        InputError: one is no number.
    """
    for label, value in table(where, plain).items():
        _check(where, label, value, _is_number(value), "a number")
    return table(where, plain)


def of_size(where: str, plain: Any) -> dict[str, dict[str, Any]]:
    """Settings by size, with what a size may have beside them: `seeds`, `leave_out`, `skip`.

    Raises:
        InputError: one of these is of the wrong type.
    """
    found = tables(where, plain)
    for size, settings in found.items():
        if "seeds" in settings:
            seeds(f"{where}: {size}", settings["seeds"])
        if "skip" in settings:
            _check(f"{where}: {size}", "skip", settings["skip"], isinstance(settings["skip"], str), "a text")
        for axis, labels in table(f"{where}: {size}: leave_out", settings.get("leave_out", {})).items():
            is_fit = isinstance(labels, list)
            _check(f"{where}: {size}: leave_out", axis, labels, is_fit, "a list of labels")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _check(where: str, key: str, value: Any, is_fit: bool, wanted: str) -> None:
    if not is_fit:
        raise InputError(f"{where}: {key} must be {wanted}, not {_short(value)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
