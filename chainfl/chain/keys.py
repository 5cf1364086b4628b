"""Keys: an encrypted keystore file (Web3 Secret Storage) and a signer that never shows what it holds."""

import getpass
import json
import os
import stat
import sys
import warnings
from math import prod
from pathlib import Path
from typing import Any

from eth_account import Account
from eth_account.messages import encode_defunct
from eth_account.signers.local import LocalAccount

from chainfl.chain.abi import as_address
from chainfl.codec import plain_json
from chainfl.errors import InputError
from chainfl.types import Address

_NO_KEYSTORE = "not a keystore file (Web3 Secret Storage, version 3)"
_KEY_BYTES = 32
_MAX_WORK = {"scrypt": 1 << 22, "pbkdf2": 1 << 21}
"""n · r · p, or iterations, for a key of 32 bytes: 512 MiB and about two seconds at the most."""
_MAX_WIDTH = 1 << 12
"""r · p of scrypt, and bytes of the key: they are filled hash by hash in Python, whatever n and the iterations are."""
_OTHERS = stat.S_IROTH
"""A group may read: systemd and containers hand secrets to a service's group."""


class LocalSigner:
    """Signs with a key in memory. Its text form is its address."""

    def __init__(self, account: LocalAccount) -> None:
        """Take an unlocked account."""
        self._account = account

    @property
    def address(self) -> Address:
        """The account it signs for."""
        return Address(bytes.fromhex(self._account.address[2:]))

    def sign(self, transaction: dict[str, Any]) -> bytes:
        """The raw signed transaction."""
        return bytes(self._account.sign_transaction(transaction).raw_transaction)

    def sign_message(self, message: bytes) -> bytes:
        """A signature over a message (EIP-191), which no chain takes for a transaction."""
        return bytes(self._account.sign_message(encode_defunct(message)).signature)

    def __repr__(self) -> str:
        return f"LocalSigner({self._account.address})"


def signer_of(message: bytes, signature: bytes) -> Address:
    """The account that signed a message.

    Raises:
        InputError: it is no signature.
    """
    try:
        signed_by = Account.recover_message(encode_defunct(message), signature=signature)
    except Exception as error:  # the library raises what its parts raise
        raise InputError(f"no signature of an Ethereum account: {error}") from None
    return as_address(str(signed_by))


def new_key(
    path: Path, password: str, *, secret: bytes | None = None, iterations: int | None = None
) -> Address:
    """Make a key (or take `secret`), and keep it encrypted in a new file that only its owner reads.

    Raises:
        InputError: the file exists: a key is never overwritten.
    """
    account = Account.from_key(secret) if secret is not None else Account.create()
    text = json.dumps(Account.encrypt(account.key, password, iterations=iterations), indent=2)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Exclusive and with its mode from the start: neither overwritten nor readable by others for a moment.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text + "\n")
    except FileExistsError:
        raise InputError(f"{path} exists: a key is never overwritten; name another file") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    return LocalSigner(account).address


def address_of(path: Path) -> Address:
    """The account of a keystore file, without unlocking it."""
    address = _read(path).get("address")
    try:
        return as_address(str(address))
    except InputError:
        raise InputError(f"{path}: no address in it; is it a keystore file?") from None


def unlock(path: Path, password: str) -> LocalSigner:
    """Open a keystore file.

    Raises:
        InputError: it is missing, no keystore, asks for absurd work, or the password is wrong.
    """
    keystore = _read(path)
    _check_work(path, keystore)
    try:
        return LocalSigner(Account.from_key(Account.decrypt(keystore, password)))
    except ValueError:
        raise InputError(f"{path}: the password does not open it") from None
    except Exception:  # eth-keyfile expects a sound file: it asserts, indexes and converts
        raise InputError(f"{path}: {_NO_KEYSTORE}") from None


def _check_work(path: Path, keystore: dict[str, Any]) -> None:
    """Refuse a file whose key would take minutes or gigabytes to derive; geth's take half of what is allowed."""
    crypto = keystore.get("crypto")
    if keystore.get("version") != 3 or not isinstance(crypto, dict):
        raise InputError(f"{path}: {_NO_KEYSTORE}")
    params = crypto.get("kdfparams")
    names = {"scrypt": ("n", "r", "p"), "pbkdf2": ("c",)}.get(str(crypto.get("kdf")), ())
    values: list[Any] = [params.get(name) for name in (*names, "dklen")] if isinstance(params, dict) else []
    if not names or not all(type(value) is int and value > 0 for value in values) or not values:
        raise InputError(f"{path}: {_NO_KEYSTORE}")

    # The cost is a product of numbers that the file chooses: a hostile file could ask for days.
    *work, length = values
    is_wide = max(length, prod(work[1:])) > _MAX_WIDTH
    if is_wide or prod(values) > _MAX_WORK[str(crypto["kdf"])] * _KEY_BYTES:
        raise InputError(
            f"{path}: opening it would take minutes: its {crypto['kdf']} asks for {params!r:.200}"
        )


def _read(path: Path) -> dict[str, Any]:
    """A keystore's fields; their names are written in small letters by some, in capitals by others."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; make a key with: chainfl keys new") from None
    try:
        plain = plain_json.loads(data, str(path))
    except InputError:
        raise InputError(f"{path}: not a keystore file (it is not JSON)") from None
    if not isinstance(plain, dict):
        raise InputError(f"{path}: {_NO_KEYSTORE}")
    fields: dict[str, Any] = _small(plain)
    return fields


def _small(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {str(name).lower(): _small(each) for name, each in value.items()}


def open_keystore(path: Path, password_file: Path | None) -> LocalSigner:
    """Unlock a keystore file; what is wrong with the file is said before anybody is asked for its password."""
    check_keystore(path)
    return unlock(path, read_password(password_file))


def check_keystore(path: Path) -> None:
    """Look whether a file is a keystore; nothing is opened.

    Raises:
        InputError: it is missing, no keystore, or asks for absurd work.
    """
    _check_work(path, _read(path))


def exposed(*paths: Path | None) -> str | None:
    """What to say about the first of these files that others on this machine can read; None where none can be."""
    for path in paths:
        if path is not None and path.is_file() and path.stat().st_mode & _OTHERS:
            return f"others on this machine can read {path}: chmod 600 {path}"
    return None


def read_password(path: Path | None, *, is_new: bool = False) -> str:
    """The first line of a password file, or what is typed; a new one is typed twice and not empty.

    Raises:
        InputError: there is none, or the two differ.
    """
    password = _typed(is_new) if path is None else _first_line(path)
    if is_new and not password:
        raise InputError("an empty password protects nothing: give another")
    return password


def _typed(twice: bool) -> str:
    try:
        password = _ask("keystore password: ")
        if twice and _ask("the same again: ") != password:
            raise InputError("the two passwords differ: nothing was written")
    except EOFError:
        raise InputError("no terminal to ask for a password: give --password-file") from None
    return password


def _ask(prompt: str) -> str:
    """What is typed at a terminal, unseen; without one, the next line of the input."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            return getpass.getpass(prompt)
        except getpass.GetPassWarning:
            pass

    # No terminal: scripts pipe the password in.
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def _first_line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").splitlines()[0]
    except OSError as error:
        raise InputError(
            f"password file {path}: {error.strerror}; write the password into it, or leave --password-file out "
            "to type one"
        ) from None
    except UnicodeDecodeError:
        raise InputError(
            f"password file {path} is not text: give one whose first line is the password"
        ) from None
    except IndexError:
        raise InputError(f"password file {path} is empty: its first line must be the password") from None
