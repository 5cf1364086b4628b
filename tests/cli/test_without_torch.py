"""Without torch: every command that trains or scores ends with 6 and says what to install; the others work."""

import subprocess
import sys
from pathlib import Path

import pytest

from chainfl.cli.app import run
from chainfl.codec import merkle
from chainfl.codec.model_file import About, write_model_file
from chainfl.codec.records import Layout, Tensor
from chainfl.codec.vector import encode

pytestmark = pytest.mark.slow

BARE = """
import sys
sys.modules["torch"] = None  # as if it were not installed: importing it fails
from chainfl.cli.app import run
sys.exit(run(sys.argv[1:]))
"""
REMEDY = "torch is not installed, and this command needs it: pip install 'chainfl-protocol[train]'"
CHAIN = [
    "--rpc-url",
    "http://127.0.0.1:1",
    "--keystore",
    "key.json",
    "--password-file",
    "pass",
    "--store",
    "dir:s",
]
ADDRESS = "0x" + "11" * 20
EXPORT = [
    "--rpc-url",
    "http://127.0.0.1:1",
    "--store",
    "dir:s",
    "--out",
    "m.safetensors",
    "--app",
    "mine/app.py",
]

NEEDING = {
    "simulate": ["simulate", "--rounds", "1"],
    "simulate an app": ["simulate", "--app", "mine/app.py"],
    "an experiment": ["experiment", "run", "cmfl-smoke"],
    "app check": ["app", "check", "mine/app.py"],
    "model score": ["model", "score", "model.safetensors", "--app", "mine/app.py"],
    "simulate a chain's rounds": [
        "simulate",
        "--replay",
        "t.json",
        "--participants",
        "p.json",
        "--store",
        "dir:s",
    ],
    "task create": ["task", "create", "--factory", ADDRESS, "--escrow", "1", *CHAIN],
    "task create for an app": [
        "task",
        "create",
        "--factory",
        ADDRESS,
        "--escrow",
        "1",
        "--app",
        "mine/app.py",
        "--dry-run",
        *CHAIN,
    ],
    "model export to ONNX": ["model", "export", "--task", ADDRESS, *EXPORT, "--onnx", "m.onnx"],
    "devnet join": ["devnet", "join", "--app", "mine/app.py", "--home", "net"],
    "node run": ["node", "run", "--task", ADDRESS, *CHAIN],
    "devnet": ["devnet", "up", "--home", "net"],
    "demo": ["demo", "--home", "net"],
}
WORKING = {
    "new": ["new", "other"],
    "model verify": ["model", "verify", "model.safetensors"],
    "rules": ["rules"],
    "data list": ["data", "list"],
    "simulate --list": ["simulate", "--list"],
    "experiment list": ["experiment", "list"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An app, a key and an exported model."""
    made = tmp_path_factory.mktemp("bare")
    (made / "pass").write_text("open sesame\n")
    key = ["keys", "new", str(made / "key.json"), "--password-file", str(made / "pass")]
    assert run(["new", str(made / "mine")]) == 0
    assert run(key) == 0

    u_D = encode([0.5, -0.25], 20)
    about = About(31337, bytes(20), 1, merkle.root(u_D), 20)
    layout = Layout((Tensor("w", (2,)),))
    (made / "model.safetensors").write_bytes(write_model_file(u_D, layout, about))
    return made


def bare(folder: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BARE, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("what", NEEDING)
def test_a_command_that_learns_says_what_to_install(what: str, folder: Path) -> None:
    done = bare(folder, NEEDING[what])

    assert done.returncode == 6, done.stderr
    assert done.stderr.splitlines()[-1] == f"error: {REMEDY}"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("what", WORKING)
def test_a_command_that_does_not_learn_works(what: str, folder: Path) -> None:
    done = bare(folder, WORKING[what])

    assert done.returncode == 0, done.stderr
