"""Answers nested so deep that a reader's stack could overflow; in a process of their own, for that would end it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
from chainfl.errors import LedgerError
from tests.fuzz.evidence import read_answer
try:
    read_answer(b"\\x00" + eval(sys.argv[1]) * 99_000)
except LedgerError:
    print("refused")
"""


@pytest.mark.parametrize("part", [b"[", b'{"a":'])
def test_an_endpoint_cannot_kill_us_by_nesting_its_answer(part: bytes) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, repr(part)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )

    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr
