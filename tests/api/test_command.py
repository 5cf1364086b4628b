"""`chainfl serve` refuses in one line, with the exit code of what is wrong."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from chainfl.api.server import listen
from chainfl.api.settings import ApiSettings, load_settings
from chainfl.cli.app import run
from chainfl.errors import InputError

FACTORY = "0x" + "11" * 20
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "--factory and --store"),
        (["--factory", FACTORY], 2, "--factory and --store"),
        (["--factory", "0x12", "--store", "dir:store", "--rpc-url", "http://127.0.0.1:1"], 5, "chain id"),
        (["--devnet", "nowhere"], 2, "no devnet in nowhere"),
        (["--factory", FACTORY, "--store", "dir:store", "--port", "70000"], 2, "setting port"),
    ],
)
def test_serve_refuses_in_one_line(
    arguments: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run(["serve", *arguments]) == code

    told = capsys.readouterr()
    assert told.out == ""
    assert said in told.err
    assert len(told.err.strip().splitlines()) == 1


@pytest.mark.parametrize("module", ["chainfl.workflows.audit", "chainfl.api.app", "chainfl.api.chain"])
def test_an_audit_loads_no_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60, check=False).returncode == 0


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = ApiSettings(port=taken.getsockname()[1])

        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1:{settings.port}"):
            listen(settings)


def test_settings_come_from_flags_then_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAINFL_API_PORT", "9000")
    monkeypatch.setenv("CHAINFL_API_AUDIT_THREADS", "3")

    settings = load_settings({"port": 9001, "host": None})

    assert (settings.port, settings.audit_threads, settings.host) == (9001, 3, "127.0.0.1")


def test_every_limit_stands_in_the_page() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")

    missing = [name for name in ApiSettings.model_fields if f"`{name.upper()}`" not in page]

    assert missing == []


def test_every_route_stands_in_the_page(tmp_path: Path) -> None:
    from chainfl.api.app import create_app
    from tests.api.scene import scene

    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    made = scene()
    app = create_app(made.source, made.net.store, ApiSettings(index=tmp_path / "index"))

    paths = json.loads(json.dumps(app.openapi()["paths"]))

    told = page.replace("`…/{account}`", "`/tasks/{task}/participants/{account}`")
    told = told.replace("`…/{account}/rounds`", "`/tasks/{task}/participants/{account}/rounds`")
    for part in ("scores", "shares"):
        told = told.replace(f"`/{part}`", f"`/blocks/{{task}}/{{round}}/{part}`")
    assert [path for path in paths if f"`{path}`" not in told] == []
    app.state.services.index.close()
