"""Rounds too large for the memory: the same roots from disk, in less memory, and where it may not be done."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chainfl.codec.vector import Vector
from chainfl.errors import OutsideError
from chainfl.learning.recipe import Recipe
from chainfl.protocol.combine import combine, combine_ranks
from chainfl.sim.experiment import Experiment
from chainfl.sim.quick import QuickNetwork
from chainfl.sim.run import RoundMetrics, play
from chainfl.sim.simulation import set_up
from chainfl.sim.spill import Spill, Spilled, chunk_of

SMALL = Experiment(participants=12, committee=3, rounds=2, test_samples=20, score_samples=20)

WITH_RULES = [
    replace(SMALL, rule="softmax"),
    replace(SMALL, rule="softmax-accuracy", worker_attack="label-flip", hostile=0.3),
    replace(SMALL, rule="mean", validator_attack="absurd-losses", hostile=0.3),
    replace(SMALL, rule="fedavg:alpha=0.5", dp="clip=1,noise=0.1,delta=1e-5"),
    replace(SMALL, rule="fedreg"),
]

PEAK = """
import re, sys
from pathlib import Path
from chainfl.sim.experiment import Experiment
from chainfl.sim.run import play
from chainfl.sim.simulation import set_up
experiment = Experiment(model="varsel-2nn", participants=610, committee=3, max_updates=600, rounds=1, rule="mean",
    stakes="equal", test_samples=10, score_samples=10, beyond_contract=True)
simulation = set_up(experiment)
simulation.net.most_held = int(sys.argv[1])
(one,) = play(simulation, [])
# Not getrusage: it also counts what the process held from which this one was forked.
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
print(one.workers, one.model_root, peak // 1024)
"""


def played(experiment: Experiment, most_held: int) -> tuple[list[RoundMetrics], bool]:
    """Every round, and whether the last one's updates lay on disk."""
    simulation = set_up(experiment)
    net = simulation.net
    assert isinstance(net, QuickNetwork)
    net.most_held = most_held
    found = [replace(one, seconds=0.0) for one in play(simulation, [])]
    return found, any(isinstance(each, Spilled) for each in net.updates.values())


@pytest.mark.parametrize("experiment", WITH_RULES, ids=lambda each: each.rule)
def test_rounds_from_disk_are_those_from_memory(experiment: Experiment) -> None:
    held, was_spilled = played(experiment, 2**30)
    spilled, is_spilled = played(experiment, 0)

    assert (was_spilled, is_spilled) == (False, True)
    assert spilled == held


def test_updates_that_equal_the_head_or_are_no_numbers_are_told_apart_on_disk_too() -> None:
    still = replace(SMALL, recipe=Recipe(learning_rate=1e-12))
    wild = replace(SMALL, recipe=Recipe(learning_rate=1e30))

    for experiment in (still, wild):
        held, _ = played(experiment, 2**30)
        assert played(experiment, 0)[0] == held
        assert [one.outcome for one in held] == ["void"] * 2


@pytest.mark.parametrize(
    "experiment",
    [
        replace(SMALL, rule="median"),
        replace(SMALL, rule="krum"),
        replace(SMALL, rule="committee-near"),
        replace(SMALL, rule="geometric-median"),
        replace(SMALL, rule="mean", worker_attack="alie", hostile=0.3),
    ],
    ids=lambda each: f"{each.rule} {each.worker_attack}",
)
def test_rules_and_attacks_that_look_at_several_updates_have_them_in_memory(experiment: Experiment) -> None:
    _, is_spilled = played(experiment, 0)

    assert not is_spilled


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_memory_does_not_hold_a_row_for_each_client() -> None:
    rows = 600 * 199_210 * 4 // 2**20

    workers, root, held = _peak(2**40)
    same_workers, same_root, spilled = _peak(0)

    assert (workers, same_workers) == ("600", "600")
    assert same_root == root
    assert int(spilled) < int(held) - rows // 2


def _peak(most_held: int) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(most_held)], capture_output=True, text=True, timeout=300, check=True
    )
    return done.stdout.split()


def vectors(count: int, d: int) -> list[Vector]:
    rng = np.random.default_rng(5)
    return [rng.integers(0, 2**32, d, dtype=np.uint32) for _ in range(count)]


def test_what_is_combined_from_the_file_is_what_was_put_there() -> None:
    held = vectors(5, 40_000)
    spill = Spill()

    kept = [spill.keep(place, u_D) for place, u_D in enumerate(held)]
    kept[3] = spill.keep(3, held[0])
    held[3] = held[0]

    shares = [0, 2**30, 2**29, 2**28, 2**27, 2**27]
    assert all(np.array_equal(found[:], u_D) for found, u_D in zip(kept, held, strict=True))
    assert np.array_equal(kept[1][39_990:50_000], held[1][39_990:])
    chunk = chunk_of(kept)
    assert chunk is not None
    assert np.array_equal(combine(None, kept, shares, chunk=chunk), combine(None, held, shares))
    assert np.array_equal(combine_ranks(None, kept, shares), combine_ranks(None, held, shares))


def test_a_full_disk_says_where_and_how_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spill = Spill()
    full = os.open("/dev/full", os.O_RDWR)
    os.dup2(full, spill.descriptor)
    os.close(full)

    with pytest.raises(OutsideError, match=f"in {tmp_path}: No space left.*TMPDIR"):
        spill.keep(2, vectors(1, 10)[0])
