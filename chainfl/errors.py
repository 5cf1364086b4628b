"""Errors, sorted by what the caller should do about them.

ChainflError
├── InputError            the caller's value is wrong: correct it            exit 2
├── ProtocolError         the rules forbid it: do not retry                  exit 3
├── VerificationError     evidence does not add up: somebody is wrong        exit 4
├── OutsideError          something outside failed: retry later              exit 5
│   ├── LedgerError       the chain or its RPC
│   └── StoreError        the blob store
└── ToolMissingError      a program or package is not installed: install it  exit 6
"""

from typing import ClassVar


class ChainflError(Exception):
    """Anything chainfl refuses or fails to do, in one line a person can act on."""

    exit_code: ClassVar[int] = 1


class InputError(ChainflError):
    """A value given by the caller is wrong; says which, where, and what is allowed."""

    exit_code = 2


class ProtocolError(ChainflError):
    """The rules forbid this action now; retrying the same thing cannot help."""

    exit_code = 3


class VerificationError(ChainflError):
    """Evidence does not add up: expected and found differ."""

    exit_code = 4


class OutsideError(ChainflError):
    """Something outside this process failed; the same call may work later."""

    exit_code = 5


class LedgerError(OutsideError):
    """The chain, or the RPC endpoint in front of it, failed."""


class StoreError(OutsideError):
    """The blob store failed or does not have the bytes."""


class ToolMissingError(ChainflError):
    """A program or package that this command needs is not installed."""

    exit_code = 6
