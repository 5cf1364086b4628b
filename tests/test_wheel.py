"""The wheel as a stranger gets it: built from the tree, installed alone, run away from the checkout."""

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Collection
from pathlib import Path

import pytest

from chainfl import DISTRIBUTION, __version__, tools
from chainfl.report import commit, version_line
from chainfl.tools import EXTRAS
from tests.test_docs import LEAVES

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.slow


def environment(**more: str) -> dict[str, str]:
    """Ours, without what would lead Python back to this checkout."""
    kept = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    return kept | more


def run(
    *command: str | Path, cwd: Path = ROOT, code: int = 0, **more: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, cwd=cwd, env=environment(**more), capture_output=True, text=True, timeout=240
    )
    assert done.returncode == code, f"{command} ended with {done.returncode}: {done.stderr or done.stdout}"
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", into)
    return next(into.glob("*.whl"))


def lend(folder: Path, without: Collection[str] = ()) -> Path:
    """A folder that leads to every package of this environment but chainfl and those named; nothing is downloaded."""
    folder.mkdir()
    for place in (Path(each) for each in sys.path if Path(each).name in {"site-packages", "dist-packages"}):
        for each in place.iterdir():
            name = re.split(r"[-.]", each.name)[0].lower()
            if each.suffix != ".pth" and name not in {"chainfl", "chainfl_protocol", *without}:
                link = folder / each.name
                if not link.is_symlink():
                    link.symlink_to(each)
    return folder


def install(wheel: Path, folder: Path, without: Collection[str] = ()) -> Path:
    """A fresh environment with the wheel; its programs' folder."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", wheel)
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
    (Path(site) / "dependencies.pth").write_text(f"{lend(folder / 'lent', without)}\n")
    return folder / "bin"


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(wheel, tmp_path_factory.mktemp("environment"))


@pytest.fixture(scope="module")
def without_torch(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `pip install chainfl-protocol` gives: no torch, and nothing of the other extras."""
    extras = {*EXTRAS, "torchgen", "functorch"}
    return install(wheel, tmp_path_factory.mktemp("audit-only"), {each.lower() for each in extras})


def test_the_wheel_carries_what_it_needs_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    assert {"chainfl/py.typed", "chainfl/cli/app.py", "chainfl/api/static/index.html"} <= set(names)
    assert [name for name in names if name.startswith(("tests", "scripts", "contracts", "services"))] == []


def test_the_installed_command_prints_its_version(installed: Path, tmp_path: Path) -> None:
    done = run(installed / "chainfl", "--version", cwd=tmp_path)

    assert done.stdout == version_line() + "\n", "the wheel must name the commit it was built from"


def test_the_installed_doctor_finds_its_packages(installed: Path, tmp_path: Path) -> None:
    answer = json.loads(run(installed / "chainfl", "doctor", "--json", cwd=tmp_path).stdout)

    assert answer["ok"] is True
    assert answer["commit"] == commit()
    packages = next(each for each in answer["metrics"]["findings"] if each["name"] == "packages")
    assert re.fullmatch(r"all \d\d that chainfl needs", packages["detail"])


def test_the_installed_package_is_not_the_checkout(installed: Path, tmp_path: Path) -> None:
    where = run(installed / "python", "-c", "import chainfl; print(chainfl.__file__)", cwd=tmp_path).stdout

    assert Path(where.strip()).is_relative_to(installed.parent)


def test_the_wheel_has_a_name_of_its_own(wheel: Path) -> None:
    assert wheel.name == f"{DISTRIBUTION.replace('-', '_')}-{__version__}-py3-none-any.whl"


def test_a_wheel_made_from_the_source_archive_names_the_commit_too(tmp_path: Path) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = next(path for path in tmp_path.iterdir() if path.is_dir())

    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=unpacked)

    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as packed:
        recorded = [packed.read(name) for name in packed.namelist() if name == "chainfl/commit.txt"]
    assert recorded == ([] if commit() is None else [f"{commit()}\n".encode()])


# Without torch

NEEDS_TORCH = {
    "app check": ("app.py",),
    "demo": (),
    "devnet join": ("--guests", "1"),
    "devnet up": (),
    "experiment run": ("sabfl",),
    "node run": (
        "--task",
        "0x" + "11" * 20,
        "--store",
        "dir:store",
        "--keystore",
        "key",
        "--rpc-url",
        "http://x",
    ),
    "simulate": ("--preset", "sabfl-small"),
}


@pytest.mark.parametrize("command", NEEDS_TORCH)
def test_a_command_that_trains_says_how_torch_is_installed(
    without_torch: Path, tmp_path: Path, command: str
) -> None:
    (tmp_path / "app.py").write_text("import torch\n")

    done = run(without_torch / "chainfl", *command.split(), *NEEDS_TORCH[command], cwd=tmp_path, code=6)

    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("pip install 'chainfl-protocol[train]'\n"), done.stderr


def test_every_other_command_is_there_without_torch(without_torch: Path, tmp_path: Path) -> None:
    rest = [" ".join(path) for path in LEAVES if " ".join(path) not in NEEDS_TORCH]
    script = tmp_path / "helps.py"
    script.write_text(
        "import sys\nfrom chainfl.cli.app import run\n"
        "sys.exit(max(run([*each.split(), '--help']) for each in sys.argv[1:]))\n"
    )

    done = run(without_torch / "python", script, *rest, cwd=tmp_path)

    assert len(rest) >= 35
    assert done.stdout.count("Usage: chainfl ") == len(rest)


def test_without_torch_numbers_can_be_computed(without_torch: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked.json"
    asked.write_text('{"s": 20, "values": [0.5, -0.25, 1e-6]}')

    far = run(without_torch / "chainfl", "compute", "root", asked, "--json", cwd=tmp_path)
    here = run(sys.executable, "-m", "chainfl", "compute", "root", asked, "--json")

    assert json.loads(far.stdout)["metrics"] == json.loads(here.stdout)["metrics"]


# With torch, and anvil from npm


@pytest.fixture(scope="module")
def anvil_on_path() -> str:
    """A PATH with anvil's own folder in front: away from the checkout it is found there."""
    return os.pathsep.join([str(tools.require("anvil").parent), os.environ["PATH"]])


def test_the_wheel_alone_plays_a_demonstration_that_others_audit_and_replay(
    installed: Path, without_torch: Path, tmp_path: Path, anvil_on_path: str
) -> None:
    """The auditor's installation has no torch."""
    chainfl = installed / "chainfl"

    shown = run(chainfl, "demo", "--rounds", "1", "--keep", "--json", cwd=tmp_path, PATH=anvil_on_path)
    home = tmp_path / ".chainfl" / "demo"
    try:
        asked = f". .chainfl/demo/guest.env && {without_torch / 'chainfl'} audit verify --json"
        audited = run("bash", "-c", asked, cwd=tmp_path)
    finally:
        run(chainfl, "devnet", "down", "--home", home, cwd=tmp_path)
    files = (home / "trace.json", "--participants", home / "participants.json")
    replayed = run(chainfl, "simulate", "--replay", *files, "--json", cwd=tmp_path)

    roots = [one["model_root"] for one in json.loads(shown.stdout)["metrics"]["rounds"]]
    assert json.loads(shown.stdout)["metrics"]["convicted"]
    assert json.loads(audited.stdout)["ok"] is True
    assert [one["model_root"] for one in json.loads(replayed.stdout)["metrics"]["rounds"]] == roots


def test_the_wheel_alone_starts_a_devnet(installed: Path, tmp_path: Path, anvil_on_path: str) -> None:
    chainfl = installed / "chainfl"
    size = ("--participants", "4", "--committee", "3")

    run(chainfl, "devnet", "up", *size, cwd=tmp_path, PATH=anvil_on_path)
    try:
        status = run(chainfl, "devnet", "status", "--json", cwd=tmp_path)
    finally:
        run(chainfl, "devnet", "down", cwd=tmp_path)

    running = json.loads(status.stdout)["metrics"]["running"]
    assert running == dict.fromkeys(["anvil", "p01", "p02", "p03", "p04", "audit-api"], True)


def test_without_anvil_the_wheel_says_how_it_is_installed(installed: Path, tmp_path: Path) -> None:
    done = run(installed / "chainfl", "devnet", "up", cwd=tmp_path, code=6, PATH="/nowhere")

    assert f"npm install -g @foundry-rs/anvil@{tools.FOUNDRY}" in done.stderr
    assert done.stderr.count("\n") == 1
