"""Keys: an encrypted keystore file (Web3 Secret Storage) and a signer that never shows what it holds."""

import json
import os
from pathlib import Path
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount

from chainfl.errors import InputError
from chainfl.types import Address


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

    def __repr__(self) -> str:
        return f"LocalSigner({self._account.address})"


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
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text + "\n")
    except FileExistsError:
        raise InputError(f"{path} exists: a key is never overwritten; name another file") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    return LocalSigner(account).address


def address_of(path: Path) -> Address:
    """The account of a keystore file, without unlocking it."""
    try:
        return Address(bytes.fromhex(_read(path)["address"].removeprefix("0x")))
    except (KeyError, ValueError, AttributeError):
        raise InputError(f"{path}: no address in it; is it a keystore file?") from None


def unlock(path: Path, password: str) -> LocalSigner:
    """Open a keystore file.

    Raises:
        InputError: it is missing, no keystore, or the password is wrong.
    """
    try:
        return LocalSigner(Account.from_key(Account.decrypt(_read(path), password)))
    except ValueError:
        raise InputError(f"{path}: the password does not open it") from None
    except (KeyError, TypeError, AttributeError):
        raise InputError(f"{path}: not a keystore file (Web3 Secret Storage, version 3)") from None


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; make a key with: chainfl keys new") from None
    except json.JSONDecodeError:
        raise InputError(f"{path}: not a keystore file (it is not JSON)") from None
