"""Targets: files that others wrote. They are read from disk, as a user's are."""

import atexit
import io
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from chainfl.chain.deploy import read_deployment
from chainfl.chain.keys import address_of, unlock
from chainfl.cli import compute, compute_rules, compute_varsel
from chainfl.cli.inputs import Json, read_object
from chainfl.codec import rlp
from chainfl.errors import DataCorruptError, InputError, RlpError, ScoresError, VerificationError
from chainfl.learning.sources.idx import read_idx
from chainfl.learning.sources.npz import NAMES, load_own
from tests.fuzz.seal import MOST_PARTS
from tests.fuzz.target import Form, Target

PASSWORD: Final = "fuzz"
COMPUTATIONS: Final[tuple[Callable[[dict[str, Json]], Mapping[str, Any]], ...]] = (
    compute.root,
    compute.combine,
    compute.cid,
    compute_rules.shares,
    compute_rules.draw,
    compute_rules.elect,
    compute_rules.reward,
    compute_varsel.weights,
)
NPY_WORDS: Final = (
    *(
        b"\x93NUMPY\x01\x00",
        b"\x93NUMPY\x02\x00",
        b"\x93NUMPY\x03\x00",
        b"'|O'",
        b"'<f8'",
        b"'<f2'",
        b"'>i4'",
    ),
    *(
        b"'|u1'",
        b"'<U9'",
        b"'|V0'",
        b"'<M8[s]'",
        b"'<c16'",
        b"'<f16'",
        b"'|b1'",
        b"True",
        b"False",
        b"()",
        b"(-1,)",
    ),
    *(
        b"(99999999999,)",
        b"(0,)",
        b"(4294967296, 4294967296)",
        b"(1,)" * 40,
        b"[('a', '<i4')]",
        b"(2, 3)",
        b"None",
    ),
)


@cache
def scratch_folder() -> Path:
    """A folder of this process, in memory where the system has a place for that; it goes with the process."""
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(prefix="chainfl-fuzz-", dir=memory if os.access(memory, os.W_OK) else None)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@contextmanager
def written(data: bytes) -> Iterator[Path]:
    """A file with this content."""
    path = scratch_folder() / "input"
    path.write_bytes(data)
    yield path


def read_npz(data: bytes) -> None:
    """A participant's data."""
    with written(data) as path:
        load_own(str(path))


def read_npz_arrays(data: bytes) -> None:
    """The same in a sound archive: a list of flags, then of arrays as .npy files; flags choose names and packing."""
    try:
        flags, *arrays = rlp.decode_strings(data, MOST_PARTS) or [b""]
    except RlpError:
        return
    packed = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if flags[:1] > b"\x7f" else zipfile.ZIP_STORED
    with zipfile.ZipFile(packed, "w", kind) as archive:
        for name, array in zip(NAMES, arrays, strict=False):
            archive.writestr(f"{name}.npy", array)
    read_npz(packed.getvalue())


def read_idx_file(data: bytes) -> None:
    """An IDX file."""
    with written(data) as path:
        read_idx(path)


def read_computation(data: bytes) -> None:
    """The input of `chainfl compute`; the first byte says which."""
    computation = COMPUTATIONS[(data[0] if data else 0) % len(COMPUTATIONS)]
    json.dumps(computation(read_object(io.BytesIO(data[1:]))))


def read_keystore(data: bytes) -> None:
    """A keystore file, read for its address and opened."""
    with written(data) as path:
        refused = None
        try:
            address_of(path)
        except InputError as error:
            refused = error
        unlock(path, PASSWORD)
        if refused is not None:
            raise refused


def read_deployment_file(data: bytes) -> None:
    """A deployments file."""
    with written(data) as path:
        found = read_deployment(path)
    assert len(found.factory_address) == len(found.registry_address) == 20
    assert found.chain_id + found.block + sum(step.nonce for step in found.steps.values()) is not None


def read_trace_file(data: bytes) -> None:
    """A trace of a task's rounds."""
    from chainfl.sim.replay import read_trace  # its learning needs torch, which not everybody has

    with written(data) as path:
        read_trace(path)


def read_participants_file(data: bytes) -> None:
    """The participants of a replay."""
    from chainfl.sim.replay import read_participants

    with written(data) as path:
        read_participants(path)


TARGETS: Final = (
    Target("npz", read_npz, (DataCorruptError,), 3_000, 60_000, words=NPY_WORDS, max_bytes=8192),
    Target("npz-arrays", read_npz_arrays, (DataCorruptError,), 3_000, 80_000, words=NPY_WORDS),
    Target("idx", read_idx_file, (DataCorruptError,), 10_000, 150_000),
    Target(
        "compute", read_computation, (InputError, VerificationError, ScoresError), 10_000, 150_000, Form.JSON
    ),
    Target("keystore", read_keystore, (InputError,), 1_000, 40_000, Form.JSON),
    Target("deployment", read_deployment_file, (InputError,), 4_000, 100_000, Form.JSON),
    Target("trace", read_trace_file, (InputError, VerificationError), 2_000, 80_000, Form.JSON),
    Target("participants", read_participants_file, (InputError,), 4_000, 100_000, Form.JSON),
)
