"""Keys by command: made once, under a password that is meant, and never overwritten."""

import getpass
import json
import subprocess
import sys
from pathlib import Path

import pytest

from chainfl.chain.keys import address_of, exposed, open_keystore, unlock
from chainfl.cli import run
from chainfl.errors import InputError


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What somebody at a terminal types, in order."""
    typed: list[str] = []
    monkeypatch.setattr(getpass, "getpass", lambda _: typed.pop(0))
    return typed


def test_a_key_is_made_once_and_shown_without_its_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, password = tmp_path / "key.json", tmp_path / "password"
    password.write_text("secret\n")

    assert run(["keys", "new", str(key), "--password-file", str(password)]) == 0
    made = capsys.readouterr().out
    assert run(["keys", "show", str(key)]) == 0
    assert capsys.readouterr().out == made
    assert run(["keys", "new", str(key), "--password-file", str(password), "--json"]) == 2
    refused = json.loads(capsys.readouterr().out)["error"]["message"]

    assert "a key is never overwritten" in refused
    assert oct(key.stat().st_mode & 0o777) == "0o600"
    assert unlock(key, "secret").address.hex() == made.strip()[2:].lower()


@pytest.mark.parametrize(("mode", "warned"), [(0o644, True), (0o600, False)])
def test_a_password_that_others_can_read_is_warned_of_when_the_key_is_made(
    mode: int, warned: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, password = tmp_path / "key.json", tmp_path / "password"
    password.write_text("secret\n")
    password.chmod(mode)

    assert run(["keys", "new", str(key), "--password-file", str(password)]) == 0

    said = capsys.readouterr()
    assert len(said.out.split()) == 1
    assert (
        f"warning: others on this machine can read {password}: chmod 600 {password}" in said.err
    ) is warned
    assert f"back up {key} and its password: nobody can restore either" in said.err


def test_a_new_password_is_typed_twice_and_not_empty(
    tmp_path: Path, answers: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    key = tmp_path / "key.json"

    answers += ["secret", "secert"]
    assert run(["keys", "new", str(key)]) == 2
    answers += ["", ""]
    assert run(["keys", "new", str(key)]) == 2
    said = capsys.readouterr().err
    assert not key.exists()
    answers += ["secret", "secret"]
    assert run(["keys", "new", str(key)]) == 0

    assert "the two passwords differ: nothing was written" in said
    assert "an empty password protects nothing" in said
    assert unlock(key, "secret").address == address_of(key)


def test_nobody_to_ask_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "chainfl", "keys", "new", str(tmp_path / "key.json")],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False, start_new_session=True,
    )  # fmt: skip

    assert done.returncode == 2
    assert "no terminal to ask for a password: give --password-file" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("kdf", "params", "message"),
    [
        ("scrypt", {"n": 1 << 30, "r": 8, "p": 1, "dklen": 32}, "opening it would take minutes"),
        ("pbkdf2", {"c": 10**12, "dklen": 32, "prf": "hmac-sha256"}, "opening it would take minutes"),
        ("scrypt", {"n": 2, "r": 8, "p": 1 << 18, "dklen": 32}, "opening it would take minutes"),
        ("scrypt", {"n": 2, "r": 1, "p": 1, "dklen": 1 << 25}, "opening it would take minutes"),
        ("pbkdf2", {"c": 1, "dklen": 1 << 25, "prf": "hmac-sha256"}, "opening it would take minutes"),
        ("pbkdf2", {"c": 1, "dklen": 1 << 40, "prf": "hmac-sha256"}, "opening it would take minutes"),
        ("scrypt", {"n": "262144", "r": 8, "p": 1, "dklen": 32}, "not a keystore file"),
        ("bcrypt", {}, "not a keystore file"),
        ("pbkdf2", {"c": 1, "dklen": 32, "prf": "none", "salt": "00"}, "not a keystore file"),
    ],
)
def test_a_keystore_that_asks_for_absurd_work_or_makes_no_sense_is_refused(
    kdf: str, params: dict[str, object], message: str, tmp_path: Path
) -> None:
    file = tmp_path / "key.json"
    file.write_text(json.dumps({"version": 3, "Crypto": {"KDF": kdf, "kdfparams": params}}))

    with pytest.raises(InputError, match=message):
        unlock(file, "secret")


@pytest.mark.parametrize(
    "data", [b"\xff", b"[1]", b"0.5", b"[" * 5000, b'{"address": 5}', b'{"address": "0x12"}']
)
def test_a_file_that_is_no_keystore_has_no_address(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    file.write_bytes(data)

    with pytest.raises(InputError, match="keystore file"):
        address_of(file)
    with pytest.raises(InputError, match="not a keystore file"):
        unlock(file, "secret")


def test_a_missing_password_file_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["keys", "new", str(tmp_path / "key.json"), "--password-file", str(tmp_path / "none")]) == 2

    assert "write the password into it, or leave --password-file out" in capsys.readouterr().err
    assert not (tmp_path / "key.json").exists()


def test_a_keystore_is_looked_at_before_anybody_is_asked(tmp_path: Path, answers: list[str]) -> None:
    damaged = tmp_path / "key.json"
    damaged.write_text("{}")
    answers.append("never typed")

    with pytest.raises(InputError, match="not a keystore file"):
        open_keystore(damaged, None)
    assert run(["keys", "new", str(damaged)]) == 2

    assert answers == ["never typed"]


def test_a_password_is_read_without_a_warning() -> None:
    code = "from chainfl.chain.keys import read_password; print(read_password(None))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input="secret\n", capture_output=True, text=True, timeout=60, check=False, start_new_session=True,
    )  # fmt: skip

    assert done.stdout == "secret\n"
    assert done.stderr == ""


def test_a_secret_that_others_can_read_is_named(tmp_path: Path) -> None:
    password, key = tmp_path / "password", tmp_path / "key.json"
    for path in (password, key):
        path.touch(0o600)
    assert exposed(password, key, None, tmp_path / "none") is None

    key.chmod(0o644)

    assert exposed(password, key) == f"others on this machine can read {key}: chmod 600 {key}"
