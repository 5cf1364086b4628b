"""A hundred mistakes over all commands: each is one line, with the right exit code, that says what to do."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from chainfl.cli import run
from chainfl.cli.app import cli

TASK = "0x" + "11" * 20
AWAY = "--rpc-url http://127.0.0.1:1"

BAD: tuple[tuple[str, int, str], ...] = (
    # What was typed; the exit code; words of the remedy. {d} is an empty folder with the files of `files`.
    ("app check {d}/none.py", 2, "make one with: chainfl new NAME"),
    ("app check {d}/wrong.py", 2, "wrong.py:1: import: ZeroDivisionError"),
    ("app check2 digits/app.py", 2, "Did you mean 'check'?"),
    ("audti", 2, "did you mean 'audit'?"),
    ("audit verif", 2, "Did you mean 'verify'?"),
    ("audit verify", 2, "--task and --store are needed"),
    (f"audit verify --task 0x12 --store dir:{{d}} {AWAY}", 2, "40 hex digits are expected"),
    (f"audit verify --task {TASK} --store nowhere {AWAY}", 2, "expected dir:"),
    (f"audit verify --task {TASK} --store dir:{{d}} {AWAY}", 5, "is it running, and is its address right?"),
    (f"audit verify --task {TASK} --store dir:{{d}} --rpc-url ftp://x", 2, "give http://"),
    (f"audit verify --task {TASK} --store dir:{{d}} --round 1 --all", 2, "give one of them"),
    (f"audit verify --task {TASK} --store dir:{{d}} --send", 2, "--send goes with --challenge"),
    (f"audit verify --task {TASK} --store dir:{{d}} --challenge --send", 2, "--send needs --keystore"),
    ("audit verify --block-hash 0x12", 2, "goes with --bundle"),
    ("audit verify --bundle {d}/none.car --challenge", 2, "instead of --bundle"),
    ("audit verify --bundle {d}/none.car --block-hash 0x12", 2, "64 hex digits are expected"),
    ("audit verify --round one", 2, "audit verify --help"),
    (f"audit export --task {TASK} --store dir:{{d}}", 2, "--out"),
    (f"audit export --task {TASK} --store dir:{{d}} --out {{d}}/x.car {AWAY}", 5, "is its address right?"),
    ("compare {d}", 2, "start one with --run"),
    ("compare", 2, "compare --help"),
    ("completion tcsh", 2, "bash"),
    ("compute rot", 2, "Did you mean 'root'?"),
    ("compute root {d}/none.json", 2, "none.json"),
    ("compute root {d}/text", 2, "input is not JSON"),
    ("compute root {d}/list.json", 2, "object"),
    ("compute root {d}/odd.json", 2, "frobnicate"),
    ("compute shares {d}/empty.json", 2, "committee_size"),
    ("compute cid {d}/empty.json", 2, 'give either "bytes" or "record"'),
    ("compute combine {d}/odd.json", 2, "unknown key 'frobnicate'; known: head, updates"),
    ("compute draw {d}/short.json", 2, "input.seed: expected 32 bytes, found 1"),
    ("compute elect {d}/rule.json", 2, 'only "committee-near" and "committee-far"'),
    ("compute reward {d}/reward.json", 2, "input.rounds: 0 is too small: give at least 1"),
    ("compute weights {d}/weights.json", 2, "give 0 or more, and the same both ways"),
    ("data check minst", 2, "did you mean 'mnist'?"),
    ("data list --date x", 2, "Did you mean '--data'?"),
    ("data lis", 2, "Did you mean 'list'?"),
    ("devnet up --rule medain --home {d}/net", 2, "did you mean 'median'?"),
    ("demo --rounds 0", 2, "x>=1"),
    ("demo --rule medain", 2, "did you mean 'median'?"),
    ("deploy --keystore {d}/none.json", 2, "chainfl keys new"),
    (f"deploy --keystore {{d}}/key.json {AWAY}", 5, "is it running, and is its address right?"),
    ("deploy --keystore {d}/key.json --seed-delay 99", 2, "1<=x<=64"),
    ("deploy --keystore {d}/key.json --phase-floor 0", 2, "1<=x<=604800"),
    ("deploy --keystore {d}/key.json --phase-floor 604801", 2, "1<=x<=604800"),
    ("deploy", 2, "--keystore"),
    ("devnet status --home {d}", 2, "chainfl devnet up"),
    ("devnet down --home {d}", 2, "chainfl devnet up"),
    ("devnet up --participants 0", 2, "x>=1"),
    ("devnet down --home {d}/damaged", 2, "is damaged"),
    ("doctor --frobnicate", 2, "chainfl doctor --help"),
    ("experiment list {d}/none.toml", 2, "chainfl experiment list"),
    ("experiment list sabf", 2, "did you mean 'sabfl'?"),
    ("experiment run nosuch", 2, "there are: PATH.toml"),
    ("experiment run sabfl/9-XX", 2, "there are: 1-HH"),
    ("experiment report {d}", 2, "chainfl experiment run"),
    ("keys new", 2, "FILE"),
    ("keys new {d}/key.json", 2, "name another file"),
    ("keys new {d}/new.json --password-file {d}/none", 2, "write the password into it"),
    ("keys new {d}/new.json --password-file {d}/empty", 2, "its first line must be the password"),
    ("keys show {d}/none.json", 2, "chainfl keys new"),
    ("keys show {d}/text", 2, "not a keystore file"),
    ("keys show {d}/empty.json", 2, "is it a keystore file?"),
    ("model exprt", 2, "Did you mean 'export'?"),
    ("model export", 2, "model export --help"),
    (f"model export --task {TASK} --store dir:{{d}} --out {{d}}/m --onnx {{d}}/x", 2, "give --app FILE"),
    (f"model export --task {TASK} --store dir:{{d}} --out {{d}}/m {AWAY}", 5, "is its address right?"),
    ("model score {d}/text", 2, "Missing option '--app'"),
    ("model score {d}/text --app {d}/none.py", 4, "{d}/text: not a file of `chainfl model export`"),
    ("model verify {d}/none", 2, "none: No such file"),
    ("model verify {d}/text", 4, "{d}/text: not a file of `chainfl model export`"),
    ("model verify {d}/text --bundle {d}/none.car", 2, "--bundle and --block-hash go together"),
    ("new", 2, "NAME"),
    ("new {d}", 2, "give another name"),
    ("new {d}/app --template visio", 2, "'vision'"),
    ("devnet join --home {d}", 2, "chainfl devnet up"),
    ("node run --task 0x12", 2, "give --keystore or CHAINFL_KEYSTORE"),
    ("node run --settings {d}/none.toml", 2, "no such settings file"),
    (
        f"node run --task {TASK} --keystore {{d}}/key.json --store dir:{{d}} --settings {{d}}/odd.toml",
        2,
        "frobnicate",
    ),
    ("node run --enroll", 2, "'--enrol'"),
    ("rules --frobnicate", 2, "chainfl rules --help"),
    ("serve --devnet {d}", 2, "chainfl devnet up"),
    (
        f"serve --factory {TASK} --store dir:{{d}} --explorer ftp://x",
        2,
        "give --explorer or CHAINFL_API_EXPLORER",
    ),
    ("serve --port 99999999", 2, "give --factory and --store"),
    ("simulate --preset quik", 2, "did you mean 'quick'?"),
    ("simulate --rule softmax:b=1", 2, "there are: alpha, beta"),
    ("simulate --rule softmax:beta=much", 2, "must be a number"),
    ("simulate --rounds many", 2, "simulate --help"),
    ("simulate --participants few", 2, "give a number"),
    ("simulate --dataset minst", 2, "there are:"),
    ("simulate --model mnist-mpl-small", 2, "there are:"),
    ("simulate --partition idi", 2, "did you mean 'iid'?"),
    ("simulate --worker-attack flip", 2, "there are:"),
    ("simulate --resume {d}", 2, "start one with --run"),
    ("simulate --resume {d} --rounds 3", 2, "start one with --run"),
    ("simulate --resume {d} --seed 3", 2, "give no other flags"),
    ("simulate --replay {d}/none.json --participants {d}/none.json", 2, "none.json"),
    ("stake add", 2, "AMOUNT"),
    (f"stake add much --task {TASK} --keystore {{d}}/key.json", 2, "give ether such as 1.5"),
    ("stake add -- -1", 2, "chainfl stake add --help"),
    ("stake add 1 --task 0x12 --keystore {d}/key.json", 2, "40 hex digits are expected"),
    (f"stake add 1 --task {TASK} --keystore {{d}}/none.json", 2, "chainfl keys new"),
    (f"stake add 1 --task {TASK} --keystore {{d}}/text", 2, "not a keystore file"),
    ("stake operator st 0x12", 2, "Did you mean 'set'?"),
    (f"stake operator set me --task {TASK} --keystore {{d}}/key.json", 2, "40 hex digits are expected"),
    (f"stake operator show --task {TASK}", 2, "Give --account"),
    (f"stake remove al --task {TASK} --keystore {{d}}/key.json", 2, "give ether such as 1.5"),
    (f"stake show --task {TASK}", 2, "Give --account"),
    (f"stake show --task {TASK} --account me", 2, "40 hex digits are expected"),
    (f"stake release one --task {TASK} --keystore {{d}}/key.json", 2, "stake release --help"),
    (f"stake claim --task {TASK} --keystore {{d}}/key.json {AWAY}", 5, "is its address right?"),
    ("task admit {d}/none.txt", 2, "none.txt: No such file"),
    ("task admit {d}/role.txt", 2, "write participant or internal after the account"),
    ("task admit {d}/empty", 2, "write one account a line"),
    (f"task admit {{d}}/list.txt --account 0x{'22' * 20}", 2, "ask its sponsor"),
    ("task show", 2, "Give its address, or set CHAINFL_TASK"),
    ("task show 0xzz", 2, "40 hex digits are expected"),
    (f"task show {TASK} {AWAY}", 5, "is it running, and is its address right?"),
    (f"task show {TASK} --store ftp://x", 2, "expected dir:"),
    (f"task list --factory {TASK} {AWAY}", 5, "is its address right?"),
    ("task list --factory 0x12", 2, "40 hex digits are expected"),
    (f"task create --factory {TASK} --store dir:{{d}} --keystore {{d}}/key.json", 2, "--escrow"),
    (
        f"task create --factory {TASK} --store dir:{{d}} --keystore {{d}}/key.json --escrow 0",
        2,
        "positive",
    ),
    (
        f"task create --factory {TASK} --store dir:{{d}} --keystore {{d}}/key.json --escrow 1 --committee-size 99",
        2,
        "3<=x<=45",
    ),
    ("task create --factory 0x1 --store dir:{d} --keystore {d}/key.json --escrow 1", 2, "40 hex digits"),
    (f"task trace {TASK} {AWAY}", 5, "is its address right?"),
    (f"task abandon {TASK}", 2, "--keystore"),
    (f"watch --task {TASK}", 2, "'--store'"),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files that are not what commands want, and nothing in the environment or on the input."""
    files = {
        "text": "not JSON",
        "list.json": "[1]",
        "empty.json": "{}",
        "odd.json": '{"values": [1], "s": 20, "frobnicate": 1}',
        "empty": "",
        "wrong.py": "x = 1 / 0",
        "short.json": '{"seed": "0x01", "weights": [1, 2], "committee_size": 3, "max_updates": 8}',
        "rule.json": '{"committee_size": 3, "scores": [[9, 5, 1]], "rule": "mean"}',
        "reward.json": '{"escrow": 1000, "rounds": 0}',
        "weights.json": '{"distances": [[0, 1], [2, 0]], "internals": [true, false], "budget": 1}',
        "odd.toml": "frobnicate = 1",
        "role.txt": f"{TASK} boss",
        "list.txt": TASK,
        "key.json": '{"address": "' + "11" * 20 + '", "version": 3, "crypto": {"kdf": "pbkdf2", '
        '"kdfparams": {"c": 2, "dklen": 32, "prf": "hmac-sha256", "salt": "00"}}}',
        "damaged/devnet.json": "{",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)
    for name in (
        "RPC_URL",
        "CHAIN_ID",
        "TASK",
        "STORE",
        "FACTORY",
        "KEYSTORE",
        "PASSWORD_FILE",
        "FROM_BLOCK",
        "DEBUG",
    ):
        monkeypatch.delenv(f"CHAINFL_{name}", raising=False)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    return tmp_path


@pytest.mark.parametrize(("typed", "code", "remedy"), BAD, ids=[row[0] for row in BAD])
def test_a_mistake_is_one_line_that_says_what_to_do(
    typed: str, code: int, remedy: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word.format(d=folder) for word in typed.split()]

    found = run(words)

    said = capsys.readouterr()
    assert found == code, said.err
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert "unexpected" not in said.err
    assert remedy.format(d=folder) in said.err


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """What can be typed to do something: every command that is not a group."""
    if not isinstance(command, click.Group):
        yield path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, (*path, name))


def test_the_table_has_sixty_mistakes_and_every_command() -> None:
    typed = [tuple(row[0].split()) for row in BAD]

    assert len(set(typed)) == len(BAD) >= 60
    assert [path for path in leaves(cli) if not any(words[: len(path)] == path for words in typed)] == []
