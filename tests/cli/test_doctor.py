import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from chainfl.cli import run
from chainfl.cli.doctor import version_in

SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schemas"


def findings(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, object]]:
    run(["doctor", "--json", *arguments])
    answer = json.loads(capsys.readouterr().out)
    return {each["name"]: each for each in answer["metrics"]["findings"]}


def test_the_answer_keeps_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--json"]) == 0

    answer = json.loads(capsys.readouterr().out)
    Draft202012Validator(json.loads((SCHEMAS / "report.json").read_text())).validate(answer)
    Draft202012Validator(json.loads((SCHEMAS / "doctor.json").read_text())).validate(answer["metrics"])
    assert answer["schema"] == "chainfl/doctor/1"


def test_everything_of_the_issue_is_looked_for(capsys: pytest.CaptureFixture[str]) -> None:
    found = findings(capsys)

    assert set(found) == {
        "packages",
        "torch",
        "anvil",
        "forge",
        "solc",
        "node",
        "ipfs",
        "geth",
        "chromium",
        "ipfs-api",
        "data",
    }


def test_people_read_what_to_do_about_each_missing_thing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CHAINFL_DATA", raising=False)

    run(["doctor"])

    assert "data: set CHAINFL_DATA to the folder that holds them" in capsys.readouterr().out


def test_a_required_tool_that_is_missing_ends_with_6(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAINFL_DATA", "/nonexistent")

    assert run(["doctor", "--json", "--require", "data"]) == 6

    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is False
    assert "data is missing" in answer["error"]["message"]
    assert answer["metrics"]["findings"]


def test_an_unknown_required_name_lists_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--require", "abacus"]) == 2

    assert "known: packages, torch, anvil" in capsys.readouterr().err


def test_a_data_folder_is_listed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "mnist").mkdir()
    monkeypatch.setenv("CHAINFL_DATA", str(tmp_path))

    found = findings(capsys)

    assert found["data"]["found"] is True
    assert "mnist" in str(found["data"]["detail"])


def test_a_program_that_fails_is_not_called_ok(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "solc"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o700)
    monkeypatch.setenv("CHAINFL_SOLC", str(broken))

    found = findings(capsys)

    assert found["solc"]["found"] is False
    assert found["solc"]["detail"] == f"does not run: {broken}"


def test_a_variable_that_names_no_program_is_reported_not_raised(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAINFL_GETH", "/nonexistent/geth")

    found = findings(capsys)

    assert found["geth"]["found"] is False
    assert "CHAINFL_GETH" in str(found["geth"]["detail"])


class Daemon(http.server.BaseHTTPRequestHandler):
    """Answers like an IPFS daemon that is asked for its version."""

    def do_POST(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"Version": "0.40.1"}')

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def daemon() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), Daemon) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_running_ipfs_daemon_is_found(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, daemon: str
) -> None:
    monkeypatch.setenv("CHAINFL_IPFS_API", daemon)

    found = findings(capsys)

    assert found["ipfs-api"]["detail"] == f"0.40.1 at {daemon}"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("anvil Version: 1.7.1-stable\nCommit SHA: 4072e48705af9d93e3c0f6e29e93b5e9a40caed8", "1.7.1-stable"),
        ("v20.20.2\n", "v20.20.2"),
        ("Chromium 142.0.7444.59 built on Debian", "142.0.7444.59"),
        ("", "(unknown version)"),
    ],
)
def test_versions_are_read_from_what_programs_say(text: str, version: str) -> None:
    assert version_in(text) == version


def test_a_device_is_tried_and_compared_with_the_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--device", "cpu", "--json"]) == 0

    answer = json.loads(capsys.readouterr().out)
    Draft202012Validator(json.loads((SCHEMAS / "doctor.json").read_text())).validate(answer["metrics"])
    assert answer["metrics"]["device"]["same_parameters"] == 1_663_370

    assert run(["doctor", "--device", "cpu"]) == 0
    assert "1,663,370 of 1,663,370 parameters of an update are the same integers" in capsys.readouterr().out


def test_a_device_that_is_not_there_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--device", "mps"]) == 2
    assert "device mps is not available on this machine" in capsys.readouterr().err
