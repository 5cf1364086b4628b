"""One target under atheris, led by coverage: `python -m tests.fuzz.guided TARGET [libFuzzer's options]`."""

import sys
import warnings
from contextlib import suppress

import atheris

from tests.fuzz.target import Target


def main() -> None:
    """Run until libFuzzer ends the process."""
    with atheris.instrument_imports(include=["chainfl"]):
        from tests.fuzz.targets import TARGETS

    warnings.simplefilter("error")
    name, *options = sys.argv[1:]
    target = TARGETS[name]
    for data in target.corpus().values():
        _read(target, data)  # what is imported late is not worth two seconds

    atheris.Setup([sys.argv[0], *options], lambda data: _read(target, data))
    atheris.Fuzz()


def _read(target: Target, data: bytes) -> None:
    with suppress(*target.errors):
        target.read(data)


if __name__ == "__main__":
    main()
