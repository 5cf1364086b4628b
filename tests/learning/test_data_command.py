import json
from pathlib import Path

import numpy as np
from click.testing import CliRunner, Result

from chainfl.cli.data import data
from chainfl.cli.output import Answer
from chainfl.learning.attacks import VALIDATOR_ATTACKS, WORKER_ATTACKS
from chainfl.learning.datasets import SOURCES
from chainfl.learning.partition import PARTITIONS


def run(*arguments: str) -> Result:
    return CliRunner().invoke(data, list(arguments), obj=Answer(), standalone_mode=False)


def rows(result: Result) -> dict[str, dict[str, object]]:
    return {row["name"]: row for row in json.loads(result.stdout)["metrics"]["datasets"]}


def test_list_shows_every_data_set_and_whether_its_files_are_there() -> None:
    result = run("list", "--json")

    assert result.return_value == 0
    assert rows(result)["mnist-embedded"]["state"] == "there"
    assert rows(result)["shakespeare"]["state"] == "missing"


def test_list_is_a_table_for_people() -> None:
    result = run("list")

    assert "mnist-embedded" in result.stdout
    assert "CHAINFL_DATA" not in result.stdout


def test_check_counts_what_it_decoded(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", x=np.ones((20, 3)), y=np.arange(20) % 4)
    own = f"npz:{tmp_path / 'own.npz'}"

    result = run("check", "mnist-embedded", own, "--json")

    assert result.return_value == 0
    assert rows(result)["mnist-embedded"]["owners"] == {"writer": 77}
    assert rows(result)[own]["train"] == 18


def test_check_fails_on_a_named_data_set_that_is_missing_or_wrong(tmp_path: Path) -> None:
    (tmp_path / "own.npz").write_bytes(b"no zip")

    missing, wrong = run("check", "mnist", "--json"), run("check", f"npz:{tmp_path / 'own.npz'}")

    assert missing.return_value == 1
    assert rows(missing)["mnist"]["state"] == "missing"
    assert wrong.return_value == 1
    assert "not a usable .npz" in wrong.stderr


def test_check_of_everything_passes_over_what_is_missing() -> None:
    assert run("check").return_value == 0


def test_the_page_on_data_names_every_data_set_partition_and_attack() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "data.md").read_text()
    names = [*SOURCES, *PARTITIONS, *WORKER_ATTACKS, *VALIDATOR_ATTACKS]

    assert [name for name in names if f"`{name}" not in page] == []
