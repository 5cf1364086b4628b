"""scripts/fuzz: what it finds it keeps, and what it keeps it replays."""

import json
from pathlib import Path

import pytest

from scripts import fuzzing
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> str:
    """A target that breaks on a byte."""

    def read(data: bytes) -> None:
        """Bytes without 0xff."""
        if b"\xff" in data:
            raise KeyError("0xff")

    monkeypatch.setattr(fuzzing, "TARGETS", {**TARGETS, "broken": Target("broken", read, (), 100, 100)})
    return "broken"


def test_a_campaign_reports_its_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = fuzzing.main(["--runs", "300", "--json", "--crashes", str(tmp_path), "cid-text", "rlp"])

    told = json.loads(capsys.readouterr().out)
    assert code == 0
    assert told["schema"] == "chainfl/fuzz/1"
    assert {name: row["executions"] for name, row in told["metrics"]["targets"].items()} == {
        "cid-text": 300,
        "rlp": 300,
    }


def test_what_breaks_a_target_is_kept_small_and_can_be_replayed(
    broken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fuzzing.main(["--runs", "5000", "--crashes", str(tmp_path), broken]) == 1

    (file,) = (tmp_path / broken).iterdir()
    assert file.read_bytes() == b"\xff"
    assert f"scripts/fuzz --replay {broken} {file}" in capsys.readouterr().err
    with pytest.raises(KeyError, match="0xff"):
        fuzzing.main(["--replay", broken, str(file)])


def test_a_sound_input_replays_as_sound_and_an_unknown_target_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "input"
    file.write_bytes(b"\x80")

    assert fuzzing.main(["--replay", "rlp", str(file)]) == 0
    assert fuzzing.main(["--replay", "rpl", str(file)]) == 2
    assert "no target is called 'rpl'" in capsys.readouterr().err


def test_every_target_is_listed_with_what_it_reads(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzzing.main(["--list"]) == 0

    listed = [line.split()[0] for line in capsys.readouterr().err.splitlines()]
    assert listed == list(TARGETS)
