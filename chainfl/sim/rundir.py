"""The folder of a run: the experiment, a line per round, the state to go on from, and plots.

A checkpoint names the file that holds the head's model; it is replaced only once the new one is complete, so a run can
be killed at any moment and goes on from the last round that was written.
"""

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from chainfl.codec import merkle
from chainfl.codec.json_codec import pack, unpack
from chainfl.codec.vector import Vector, from_bytes, to_bytes
from chainfl.errors import InputError
from chainfl.protocol.stake import Registry
from chainfl.protocol.state import Task
from chainfl.sim.experiment import Experiment, as_plain, from_plain
from chainfl.sim.extend import extend
from chainfl.sim.quick import QuickNetwork
from chainfl.sim.robust.play import Memory
from chainfl.sim.run import RoundMetrics, head_of
from chainfl.sim.runfiles import CHECKPOINT, EXPERIMENT, METRICS, read_json, write_whole
from chainfl.sim.selfish import Selfish, SelfishFacts
from chainfl.sim.simulation import TASK, Simulation

Facts = TypeVar("Facts", RoundMetrics, SelfishFacts)
Played = TypeVar("Played", Experiment, Selfish)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run folder says of its run."""

    experiment: Experiment
    faithful: bool
    data: str | None
    app_digest: str | None = None
    """Of the source of the experiment's app; None without one, and in folders of earlier versions."""


def start(folder: Path, plan: Plan) -> None:
    """Make the folder of a new run."""
    open_folder(folder, _plain(plan))


def open_folder(folder: Path, plain: Mapping[str, Any]) -> None:
    """Make a folder that says what is run in it.

    Raises:
        InputError: there is a run in it already, or it cannot be written.
    """
    if (folder / EXPERIMENT).exists():
        raise InputError(f"{folder} holds a run: go on with --resume {folder}, or name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_plan(folder, plain)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from None


def read_plan(folder: Path) -> Plan:
    """What is run in this folder.

    Raises:
        InputError: there is no run in it, or its file is damaged.
    """
    plain = read_json(folder / EXPERIMENT, "no run is in this folder; start one with --run")
    if not isinstance(plain, dict) or not {"experiment", "faithful", "data"} <= plain.keys():
        raise InputError(f"{folder / EXPERIMENT} is damaged: start the run again")
    experiment = from_plain(plain["experiment"])
    return Plan(experiment, bool(plain["faithful"]), plain["data"], plain.get("app_digest"))


def lengthen(folder: Path, plan: Plan, rounds: int | None) -> Plan:
    """The plan with so many rounds in all, written down before any of them is played.

    Raises:
        InputError: the run has more already.
    """
    longer = replace(plan, experiment=with_rounds(folder, plan.experiment, rounds))
    write_plan(folder, _plain(longer))
    return longer


def with_rounds(folder: Path, experiment: Played, rounds: int | None) -> Played:
    """The experiment with so many rounds in all; as it is without a number.

    Raises:
        InputError: the run has more already.
    """
    before = experiment.rounds
    if rounds is None:
        return experiment
    if rounds < before:
        raise InputError(
            f"{folder}: the run has {before} rounds, and --rounds counts them all: give more than {before}"
        )
    return replace(experiment, rounds=rounds)


def write_plan(folder: Path, plain: Mapping[str, Any]) -> None:
    """Write down what is run in a folder."""
    write_whole(folder / EXPERIMENT, json.dumps(plain, indent=2) + "\n")


def _plain(plan: Plan) -> dict[str, Any]:
    told = {"experiment": as_plain(plan.experiment), "faithful": plan.faithful, "data": plan.data}
    return told if plan.app_digest is None else told | {"app_digest": plan.app_digest}


def keep(folder: Path, simulation: Simulation, facts: Sequence[RoundMetrics]) -> None:
    """Write down the newest round and the state after it."""
    one = facts[-1]
    chain = simulation.net.chain
    with (folder / METRICS).open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(one.as_plain()) + "\n")

    head = f"head-{one.round}.bin"
    if isinstance(simulation.net, QuickNetwork):
        write_whole(folder / head, to_bytes(head_of(simulation)))
        keep_memory(folder, one.round, simulation.net)

    state = {
        "round": one.round,
        "head": head,
        "now": chain.now,
        "block_number": chain.block_number,
        "balances": pack(chain.world.balances),
        "registry": pack(chain.world.registry),
        "task": pack(simulation.net.task),
    }

    # The checkpoint comes last: whatever dies before it goes on from the round before.
    write_whole(folder / CHECKPOINT, json.dumps(state))
    forget_other_heads(folder, head)


def forget_other_heads(folder: Path, head: str) -> None:
    """Only the checkpoint's model is kept, and the rule's own state beside it."""
    memory = head.replace("head-", "memory-").replace(".bin", ".npz")
    for old in (*folder.glob("head-*.bin"), *folder.glob("memory-*.npz")):
        if old.name not in (head, memory):
            old.unlink()


def keep_memory(folder: Path, round_: int, net: QuickNetwork) -> None:
    """Write down the state of a rule of the simulator's own, if it keeps any."""
    arrays = net.robust.memory.as_arrays() if net.robust is not None else {}
    if arrays:
        whole = io.BytesIO()
        np.savez(whole, **arrays)  # type: ignore[arg-type]
        write_whole(folder / f"memory-{round_}.npz", whole.getvalue())


def restore_memory(folder: Path, round_: int, net: QuickNetwork) -> None:
    """Give the rule back what it remembered.

    Raises:
        InputError: the file is damaged.
    """
    path = folder / f"memory-{round_}.npz"
    if net.robust is None or not path.exists():
        return
    try:
        with np.load(path) as arrays:
            net.robust.memory = Memory.from_arrays(dict(arrays))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is damaged: {error}") from None


def restore(folder: Path, simulation: Simulation) -> list[RoundMetrics]:
    """Bring a fresh setting to where the run stopped; answers the facts of the rounds played.

    Raises:
        InputError: the checkpoint is damaged.
    """
    if not (folder / CHECKPOINT).exists():
        (folder / METRICS).unlink(missing_ok=True)
        return []
    state = read_json(folder / CHECKPOINT, "there is no checkpoint")
    chain = simulation.net.chain
    net = simulation.net

    try:
        task = unpack(Task, state["task"])
        registry = unpack(Registry, state["registry"])
        chain.now, chain.block_number = int(state["now"]), int(state["block_number"])
        chain.world.balances = {bytes.fromhex(who): int(wei) for who, wei in state["balances"]}  # type: ignore[misc]
        round_ = int(state["round"])
        head = str(state["head"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder / CHECKPOINT} is damaged: {error}") from None

    # A longer run is the same run: everything but the number of rounds must be what it was.
    wanted = net.task.config
    if replace(task.config, rounds=wanted.rounds) != wanted or task.config.rounds > wanted.rounds:
        raise InputError(f"{folder}: the checkpoint is of another experiment than {EXPERIMENT}")

    chain.world.tasks[TASK], chain.world.registry = task, registry
    if task.config.rounds < wanted.rounds:
        extend(chain, TASK, wanted.rounds)
    if isinstance(net, QuickNetwork):
        net.head = read_head(folder / head, task.config.dimension, task.head_root)
        restore_memory(folder, round_, net)
    return read_facts(folder / METRICS, round_, RoundMetrics)


def read_head(path: Path, size: int, root: bytes) -> Vector:
    """The checkpoint's model.

    Raises:
        InputError: it cannot be read, or is another.
    """
    try:
        head_D = from_bytes(path.read_bytes(), size)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}: the run cannot go on") from None

    # The root is in the checkpoint, so a damaged or exchanged model is noticed before a round builds on it.
    if merkle.root(head_D) != root:
        raise InputError(f"{path} is damaged: its root is not the head's")
    return head_D


def read_facts(path: Path, rounds: int, kind: type[Facts]) -> list[Facts]:
    """The lines up to the checkpoint's round; what was written after it is played again."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()[:rounds]
        facts = [kind(**json.loads(line)) for line in lines]
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path} is damaged: {error}") from None
    if [one.round for one in facts] != list(range(1, rounds + 1)):
        raise InputError(f"{path} is damaged: it does not hold rounds 1 to {rounds}")
    write_whole(path, "".join(line + "\n" for line in lines))
    return facts
