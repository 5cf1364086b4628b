"""What a target is: a reader, the errors that it may raise, and what helps to find inputs that get far into it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

CORPUS: Final = Path(__file__).parent / "corpus"


class Form(Enum):
    """What the inputs of a target look like, so that a mutation has a chance to be read at all."""

    BINARY = "binary"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Target:
    """A reader of bytes from strangers.

    `read` returns, or raises one of `errors`; anything else is a defect, an AssertionError included: with those a
    target says what must hold of bytes that were read, such as that they are the one encoding of their value.
    """

    name: str
    read: Callable[[bytes], object]
    """What it returns, if anything, tells one accepted input from another."""

    errors: tuple[type[Exception], ...]
    """What it may raise."""

    runs: int
    """Executions in `scripts/test`."""

    deep_runs: int
    """Executions in `scripts/test --deep`."""

    form: Form = Form.BINARY
    words: tuple[bytes, ...] = ()
    """What mutations put into an input, besides what they know by themselves."""

    max_bytes: int = 4096

    @property
    def folder(self) -> Path:
        """Where its inputs are kept: real values (`seed-…`) and what once broke it (`crash-…`)."""
        return CORPUS / self.name

    def corpus(self) -> dict[str, bytes]:
        """Its inputs by file name, in order."""
        return {path.name: path.read_bytes() for path in sorted(self.folder.glob("*"))}
