import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from chainfl import __version__, errors
from chainfl.cli import app, run
from chainfl.cli.commands import COMMANDS
from chainfl.cli.lazy import load
from chainfl.cli.output import json_option
from chainfl.report import commit
from chainfl.tools import pip_install

ROOT = Path(__file__).resolve().parents[2]


def chainfl(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "chainfl", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """A command `fail` beside the real ones that raises what the test puts into the list."""
    raised: list[Exception] = []

    @click.command()
    @json_option
    def fail(**_: object) -> None:
        raise raised[0]

    monkeypatch.setitem(app.cli.commands, "fail", fail)
    return raised


def test_the_version_is_printed() -> None:
    done = chainfl("--version")

    assert done.returncode == 0
    assert re.fullmatch(rf"chainfl {re.escape(__version__)}( \([0-9a-f]{{12}}(-dirty)?\))?\n", done.stdout)
    assert ("(" in done.stdout) == (commit() is not None)


def test_help_starts_without_the_heavy_packages() -> None:
    heavy = {"numba", "torch", "web3", "numpy", "rich", "fastapi"}
    code = (
        "import sys; from chainfl.cli import run; run(['--help']); "
        f"sys.stderr.write(' '.join(sorted({heavy!r} & set(sys.modules))))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert done.stderr == ""
    assert "doctor" in done.stdout


def test_no_arguments_show_the_help_and_count_as_usage_error() -> None:
    done = chainfl()

    assert done.returncode == 2
    assert "Commands" in done.stderr


def test_an_unknown_command_lists_the_known_ones() -> None:
    done = chainfl("docto")

    assert done.returncode == 2
    assert done.stderr.startswith("error: no command 'docto'; there are: ")
    assert "doctor" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_unknown_option_names_the_help_to_read() -> None:
    done = chainfl("doctor", "--frobnicate")

    assert done.returncode == 2
    assert "chainfl doctor --help" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_the_help_of_the_table_and_an_example(name: str) -> None:
    command = load(COMMANDS[name].target)

    assert command.get_short_help_str(limit=200) == COMMANDS[name].help
    for each in _leaves(command):
        assert each.epilog is not None, f"{each.name} shows no example"
        assert each.epilog.startswith("Example:")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_help_of_a_group_cuts_no_sentence(name: str) -> None:
    shown = CliRunner().invoke(load(COMMANDS[name].target), ["--help"]).output

    assert "..." not in shown.replace("[ARGS]...", "")


def _leaves(command: click.Command) -> list[click.Command]:
    if isinstance(command, click.Group):
        return [leaf for child in command.commands.values() for leaf in _leaves(child)]
    return [command]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InputError, 2),
        (errors.ProtocolError, 3),
        (errors.VerificationError, 4),
        (errors.LedgerError, 5),
        (errors.StoreError, 5),
        (errors.ToolMissingError, 6),
    ],
)
def test_an_error_is_one_line_and_the_exit_code_of_its_branch(
    error: type[errors.ChainflError],
    code: int,
    failing: list[Exception],
    capsys: pytest.CaptureFixture[str],
) -> None:
    failing.append(error("the line\nis broken"))

    assert run(["fail"]) == code

    assert capsys.readouterr() == ("", "error: the line is broken\n")


def test_every_exit_code_of_the_error_tree_is_documented() -> None:
    page = (ROOT / "docs" / "exit-codes.md").read_text()
    branches = [each for each in vars(errors).values() if isinstance(each, type)]

    codes = {each.exit_code for each in branches if issubclass(each, errors.ChainflError)}

    assert codes
    assert all(
        f"| {code} |" in page for code in codes | {app.INTERNAL_ERROR, app.INTERRUPTED, app.PIPE_CLOSED}
    )


def test_a_defect_is_one_line_that_says_how_to_see_more(
    failing: list[Exception], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(ZeroDivisionError("division by zero"))

    assert run(["fail"]) == app.INTERNAL_ERROR

    line = capsys.readouterr().err
    assert line.startswith("error: unexpected ZeroDivisionError: division by zero; set CHAINFL_DEBUG=1")
    assert line.count("\n") == 1


def test_debug_shows_the_traceback(
    failing: list[Exception], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAINFL_DEBUG", "1")
    failing.append(ZeroDivisionError("division by zero"))

    run(["fail"])

    assert "Traceback" in capsys.readouterr().err


def test_a_refused_command_still_answers_a_machine_with_one_object(
    failing: list[Exception], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(errors.ProtocolError("round 7 is in Score, not Train"))

    assert run(["fail", "--json"]) == 3

    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is False
    assert answer["error"] == {
        "kind": "ProtocolError",
        "message": "round 7 is in Score, not Train",
        "exit_code": 3,
    }


def test_an_answer_says_how_long_the_command_took(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"address": "11" * 20}))

    assert run(["keys", "show", str(key), "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["seconds"] > 0


def test_ctrl_c_ends_with_130(failing: list[Exception], capsys: pytest.CaptureFixture[str]) -> None:
    failing.append(click.Abort())

    assert run(["fail"]) == app.INTERRUPTED

    assert capsys.readouterr().err == "interrupted\n"


def test_a_reader_that_goes_away_is_no_error() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "chainfl", "completion", "bash"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()

    _, said = process.communicate(timeout=60)

    assert "Traceback" not in said


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_command(shell: str) -> None:
    done = chainfl("completion", shell)

    assert done.returncode == 0
    assert "_CHAINFL_COMPLETE" in done.stdout


def test_completion_completes_command_names() -> None:
    done = chainfl(_CHAINFL_COMPLETE="bash_complete", COMP_WORDS="chainfl doc", COMP_CWORD="1")

    assert "doctor" in done.stdout


WITHOUT_TORCH = (
    "import sys; sys.modules['torch'] = None; from chainfl.cli import run; sys.exit(run(sys.argv[1:]))"
)


def test_a_command_that_needs_torch_says_how_to_install_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            WITHOUT_TORCH,
            "simulate",
            "--preset",
            "sabfl-small",
            "--run",
            tmp_path / "run",
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == errors.ToolMissingError.exit_code
    assert done.stderr.count("\n") == 1
    assert f"torch is not installed, and this command needs it: {pip_install('train')}" in done.stderr


def test_a_module_that_no_extra_brings_is_a_defect(
    failing: list[Exception], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(ModuleNotFoundError("No module named 'chainfl.gone'", name="chainfl.gone"))

    assert run(["fail"]) == app.INTERNAL_ERROR
    assert "please report it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("docto", "(did you mean 'doctor'?)"),
        ("simulate --preset varsel-smal", "(did you mean 'varsel-small'?)"),
        ("simulate --rule medan", "(did you mean 'median'?)"),
        ("simulate --rule median:alfa=1", "(did you mean 'alpha'?)"),
        ("task creat", "Did you mean 'create'?"),
    ],
)
def test_a_slip_is_answered_with_what_was_probably_meant(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(typed.split()) == 2

    assert meant in capsys.readouterr().err


@pytest.mark.parametrize("given", ["krum:b=1", "fedrob:f=1", "median:beta=2", "softmax:keep=0.5", "krum:m=2"])
def test_a_parameter_that_the_rule_does_not_read_is_refused(
    given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", "--rule", given]) == 2

    assert f"no parameter of rule {given.partition(':')[0]} is called" in capsys.readouterr().err


def test_names_in_tables_are_never_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")

    assert run(["simulate", "--list"]) == 0

    shown = capsys.readouterr().out
    for name in ("committee-near:keep=0.4,mean=1,samples=1,unique=0", "cmfl-shakespeare", "varsel-fashion"):
        assert name in shown
