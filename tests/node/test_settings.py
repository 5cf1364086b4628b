"""The settings of a node: flags over environment over file."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from chainfl.cli.node import DUTIES, node, run
from chainfl.errors import InputError
from chainfl.node.settings import NodeSettings, load_settings

ENOUGH = {"task": "0x" + "11" * 20, "keystore": Path("key.json"), "store": "dir:store"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "node.toml"
    path.write_text('rpc_url = "http://file"\nhome = "from-file"\nclient = 3\njson_logs = true\n')
    return path


def test_a_flag_wins_over_the_environment_and_that_over_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAINFL_RPC_URL", "http://environment")
    monkeypatch.setenv("CHAINFL_HOME", "from-environment")

    settings = load_settings({**ENOUGH, "rpc_url": "http://flag"}, file)

    assert settings.rpc_url == "http://flag"
    assert settings.home == Path("from-environment")
    assert settings.client == 3
    assert settings.json_logs
    assert settings.device == "auto"


def test_a_flag_that_was_not_given_does_not_count(file: Path) -> None:
    settings = load_settings({**ENOUGH, "client": None, "json_logs": None}, file)

    assert (settings.client, settings.json_logs) == (3, True)


def test_required_settings_may_come_from_any_of_the_three(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "node.toml"
    path.write_text('store = "dir:from-file"\n')
    monkeypatch.setenv("CHAINFL_TASK", "0x" + "22" * 20)

    settings = load_settings({"keystore": Path("flag.json")}, path)

    assert (settings.task, settings.store, settings.keystore) == (
        "0x" + "22" * 20,
        "dir:from-file",
        Path("flag.json"),
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("clinet = 3\n", "setting clinet: extra inputs are not permitted"),
        ('client = "three"\n', "setting client: input should be a valid integer"),
        ("client = \n", "node.toml"),
    ],
)
def test_a_file_with_a_mistake_is_refused_by_its_name(tmp_path: Path, text: str, line: str) -> None:
    path = tmp_path / "node.toml"
    path.write_text(text)

    with pytest.raises(InputError, match=line):
        load_settings(dict(ENOUGH), path)


def test_what_is_missing_is_named_with_where_to_set_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHAINFL_STORE", raising=False)

    with pytest.raises(InputError, match="setting store: field required; give --store or CHAINFL_STORE"):
        load_settings({"task": "0x", "keystore": Path("key.json")})
    with pytest.raises(InputError, match="no such settings file"):
        load_settings(dict(ENOUGH), Path("/nowhere/node.toml"))


def test_every_setting_has_a_flag_with_its_description() -> None:
    flags = {option.name for option in run.params}

    assert set(NodeSettings.model_fields) | {"settings", "role"} == flags
    assert all(isinstance(option, click.Option) and option.help for option in run.params)


def test_help_shows_every_role_with_an_example() -> None:
    text = " ".join(CliRunner().invoke(node, ["run", "--help"]).output.split())

    assert all(role in text for role in DUTIES)
    assert "add --role worker, validator or miner" in text


@pytest.mark.parametrize(("text", "kept"), [("0", 0), ("3", 3), ("all", None)])
def test_pins_are_kept_for_some_rounds_or_all(text: str, kept: int | None) -> None:
    assert load_settings({**ENOUGH, "keep_rounds": text}).rounds_kept == kept


@pytest.mark.parametrize("text", ["-1", "some", "1.5", ""])
def test_another_number_of_rounds_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"setting keep_rounds: .*neither a number of rounds nor all"):
        load_settings({**ENOUGH, "keep_rounds": text})


def test_the_limits_of_a_task_are_settings() -> None:
    limits = load_settings({**ENOUGH, "max_parameters": 10, "max_memory_mib": 2}).limits

    assert (limits.parameters, limits.memory) == (10, 2 << 20)
