"""The folder of a selfish run: the same files as any run's; it too can be killed and goes on where it stopped."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from chainfl.codec.vector import to_bytes
from chainfl.errors import InputError
from chainfl.learning.train import Recipe
from chainfl.sim.rundir import (
    forget_other_heads,
    open_folder,
    read_facts,
    read_head,
    with_rounds,
    write_plan,
)
from chainfl.sim.runfiles import CHECKPOINT, EXPERIMENT, METRICS, read_json, write_whole
from chainfl.sim.selfish import Selfish, SelfishFacts, SelfishProgress, first_progress

KEY: Final = "selfish"


@dataclass(frozen=True, slots=True)
class SelfishPlan:
    """What the folder says of its run."""

    experiment: Selfish
    data: str | None


def start(folder: Path, plan: SelfishPlan) -> None:
    """Make the folder of a new run.

    Raises:
        InputError: there is a run in it already, or it cannot be written.
    """
    open_folder(folder, _plain(plan))


def read_plan(folder: Path) -> SelfishPlan | None:
    """What is run in this folder; None where it is no selfish run.

    Raises:
        InputError: there is no run in it, or its file is damaged.
    """
    plain = read_json(folder / EXPERIMENT, "no run is in this folder; start one with --run")
    if not isinstance(plain, dict) or KEY not in plain:
        return None
    return SelfishPlan(_experiment(plain[KEY]), plain.get("data"))


def lengthen(folder: Path, plan: SelfishPlan, rounds: int | None) -> SelfishPlan:
    """The plan with so many rounds in all, written down before any of them is played.

    Raises:
        InputError: the run has more already.
    """
    longer = replace(plan, experiment=with_rounds(folder, plan.experiment, rounds))
    write_plan(folder, _plain(longer))
    return longer


def _plain(plan: SelfishPlan) -> dict[str, Any]:
    return {KEY: asdict(plan.experiment), "data": plan.data}


def keep(folder: Path, progress: SelfishProgress) -> None:
    """Write down the newest round and the head after it."""
    one = progress.facts[-1]
    with (folder / METRICS).open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(one.as_plain()) + "\n")
    head = f"head-{one.round}.bin"
    write_whole(folder / head, to_bytes(progress.head))
    state = {"round": one.round, "head": head, "root": one.model_root}
    write_whole(folder / CHECKPOINT, json.dumps(state))
    forget_other_heads(folder, head)


def restore(folder: Path, experiment: Selfish) -> SelfishProgress:
    """Where the run stopped.

    Raises:
        InputError: the checkpoint is damaged.
    """
    progress = first_progress(experiment)
    if not (folder / CHECKPOINT).exists():
        (folder / METRICS).unlink(missing_ok=True)
        return progress
    state = read_json(folder / CHECKPOINT, "there is no checkpoint")
    try:
        round_ = int(state["round"])
        head = str(state["head"])
        root = bytes.fromhex(state["root"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder / CHECKPOINT} is damaged: {error}") from None
    model = read_head(folder / head, len(progress.head), root)
    return SelfishProgress(model, read_facts(folder / METRICS, round_, SelfishFacts))


def _experiment(plain: Mapping[str, Any]) -> Selfish:
    try:
        return Selfish(**{**plain, "recipe": Recipe(**plain["recipe"])})
    except (TypeError, KeyError) as error:
        raise InputError(f"this is no selfish experiment: {error}") from None
