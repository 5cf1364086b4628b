import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfl.codec._backend import blocks, in_parallel
from chainfl.errors import InputError

ENCODE = (
    "import numpy as np; from chainfl.codec import vector; print(vector.encode(np.zeros(2), 20).tolist())"
)
ENCODED = "[2147483648, 2147483648]\n"


def run(code: str, **environment: str) -> str:
    """What a fresh process prints."""
    command, root = [sys.executable, "-W", "error", "-c", code], Path(__file__).parents[2]
    done = subprocess.run(
        command,
        cwd=root,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@given(st.integers(0, 500), st.integers(1, 100), st.integers(1, 6))
def test_slices_cover_everything_once(count: int, grain: int, threads: int) -> None:
    touched, starts = [0] * count, list[int]()

    def work(start: int, stop: int) -> None:
        starts.append(start)
        for at in range(start, stop):
            touched[at] += 1

    in_parallel(work, count, grain, threads)

    assert touched == [1] * count
    assert all(start % grain == 0 for start in starts)


def test_one_thread_works_in_one_piece() -> None:
    pieces = list[tuple[int, int]]()

    in_parallel(lambda start, stop: pieces.append((start, stop)), 1000, 10, 1)

    assert pieces == [(0, 1000)]


def test_work_inside_work_does_not_wait_for_itself() -> None:
    done = list[int]()

    def outer(first: int, last: int) -> None:
        for _ in range(first, last):
            in_parallel(lambda start, stop: done.append(stop - start), 64, 1, 4)

    in_parallel(outer, 32, 1, 4)

    assert sum(done) == 64 * 32


def test_a_failure_in_any_slice_reaches_the_caller() -> None:
    def work(start: int, _stop: int) -> None:
        if start >= 50:
            raise InputError(f"slice at {start}")

    with pytest.raises(InputError, match="slice at"):
        in_parallel(work, 100, 1, 4)


@pytest.mark.parametrize("threads", [0, -1])
def test_no_threads_are_refused(threads: int) -> None:
    with pytest.raises(InputError, match=f"threads is {threads}: give 1 or more"):
        in_parallel(lambda _start, _stop: None, 1, 1, threads)


def test_blocks_cover_a_range() -> None:
    assert list(blocks(3, 10, 4)) == [slice(3, 7), slice(7, 10)]
    assert list(blocks(3, 3, 4)) == []


def test_numba_is_not_loaded_before_it_is_needed_nor_when_unwanted() -> None:
    imports = "import sys; from chainfl.codec import merkle; from chainfl.protocol import combine; "

    assert run(imports + "print('numba' in sys.modules)") == "False\n"
    assert (
        run(f"{ENCODE}; import sys; print('numba' in sys.modules)", CHAINFL_NO_NUMBA="1")
        == ENCODED + "False\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_a_damaged_cache_of_compiled_code_is_survived(tmp_path: Path, kind: str) -> None:
    run(ENCODE, NUMBA_CACHE_DIR=str(tmp_path), CHAINFL_NO_NUMBA="0")
    cached = list(tmp_path.rglob(f"*.{kind}"))
    for each in cached:
        each.write_bytes(each.read_bytes()[:40])

    assert cached
    assert run(ENCODE, NUMBA_CACHE_DIR=str(tmp_path), CHAINFL_NO_NUMBA="0") == ENCODED
