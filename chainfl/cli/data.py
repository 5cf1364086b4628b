"""`chainfl data`: which data sets there are, and whether their files hold what they should."""

from collections.abc import Sequence

import click

from chainfl.cli.output import Answer, finish, json_option, print_table
from chainfl.errors import ChainflError, DataMissingError
from chainfl.learning.dataset import Dataset
from chainfl.learning.datasets import OWN_PREFIX, SOURCES, data_dir, known_datasets, load
from chainfl.names import unknown
from chainfl.report import Report, narrate, report

_data_option = click.option(
    "--data",
    "directory",
    type=click.Path(file_okay=False),
    help="Directory with data files; else CHAINFL_DATA.",
)


@click.group(short_help="List data sets and check their files.")
def data() -> None:
    """List data sets and check their files.

    Your own data is `npz:PATH`: a NumPy .npz file with x and y (docs/data.md).
    """


@data.command("list", epilog="Example: chainfl data list --data ~/data")
@_data_option
@json_option
@click.pass_obj
def list_(answer: Answer, directory: str | None, as_json: bool) -> int:
    """Every data set by name, and whether its files are there."""
    rows = [_listed(name, directory) for name in known_datasets()]
    done = report("data-list", {"datasets": rows}, seconds=answer.seconds)
    return finish(done, as_json, lambda _: _table(rows, ("name", "about", "state")))


@data.command(epilog="Example: chainfl data check mnist npz:mine.npz --data ~/data")
@click.argument("names", nargs=-1)
@_data_option
@json_option
@click.pass_obj
def check(answer: Answer, names: tuple[str, ...], directory: str | None, as_json: bool) -> int:
    """Decode data sets again and compare them with what is known of them.

    Without NAMES, all of which files are there; those that are missing are shown and do not count as a failure.
    """
    for name in names:
        if not name.startswith(OWN_PREFIX) and name not in known_datasets():
            raise unknown("data set", name, known_datasets())

    rows = []
    for name in names or known_datasets():
        narrate(f"{name}: decoding")
        rows.append(_checked(name, directory))
    bad = {"wrong", "missing"} if names else {"wrong"}
    ok = all(row["state"] not in bad for row in rows)
    done = report("data-check", {"datasets": rows}, ok=ok, seconds=answer.seconds)
    return finish(done, as_json, lambda found: _show_checked(found, rows))


def _listed(name: str, directory: str | None) -> dict[str, object]:
    source = SOURCES.get(name)
    if source is None:
        return {"name": name, "about": "from an installed package", "state": "installed", "problem": None}
    row: dict[str, object] = {"name": name, "about": source.about, "state": "there", "problem": None}
    try:
        source.find(name, data_dir(directory))
    except DataMissingError as problem:
        row |= {"state": "missing", "problem": str(problem)}
    return row


def _checked(name: str, directory: str | None) -> dict[str, object]:
    try:
        return {"name": name, "state": "ok", "problem": None} | _facts(load(name, directory, fresh=True))
    except DataMissingError as problem:
        return {"name": name, "state": "missing", "problem": str(problem)}
    except ChainflError as problem:
        return {"name": name, "state": "wrong", "problem": str(problem)}


def _facts(dataset: Dataset) -> dict[str, object]:
    owners = {kind: len(set(ids.tolist())) for kind, ids in dataset.groups.items()}
    return {
        "train": len(dataset.y),
        "test": len(dataset.y_test),
        "sample": list(dataset.x.shape[1:]),
        "type": str(dataset.x.dtype),
        "classes": dataset.classes,
        "owners": owners,
    }


def _show_checked(found: Report, rows: Sequence[dict[str, object]]) -> None:
    _table(rows, ("name", "state", "train", "test", "sample", "type", "classes"))
    for row in rows:
        if row["problem"]:
            narrate(str(row["problem"]))
    if not found.ok:
        narrate("not all data sets are right")


def _table(rows: Sequence[dict[str, object]], columns: Sequence[str]) -> None:
    print_table(columns, [[str(row.get(column, "")) for column in columns] for row in rows])
