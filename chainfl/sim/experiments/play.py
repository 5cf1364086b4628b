"""One cell from start to end: what its rounds showed, as plain values that a file holds."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any, Final

from chainfl.codec.scores import ScoreKind, scores_length
from chainfl.sim.experiment import LAST, Experiment, Selfish
from chainfl.sim.experiments.cells import Cell, TrafficCase
from chainfl.sim.run import RoundMetrics, play, summary
from chainfl.sim.selfish import SelfishFacts, play_selfish, set_up_selfish
from chainfl.sim.simulation import set_up
from chainfl.sim.terms import outside_bounds
from chainfl.sim.traffic import Traffic, braintorrent, cmfl, gossip_fl, model_bytes, typical_fl

MEGA: Final = 1_000_000
DIGITS: Final = 4


def play_cell(cell: Cell, data: str | None = None) -> dict[str, Any]:
    """Run the cell and answer what is kept of it; its seconds are the processor's."""
    started = time.process_time()
    experiment = cell.experiment
    if isinstance(experiment, Experiment):
        found = _play_network(experiment, data)
    elif isinstance(experiment, Selfish):
        found = _play_selfish(experiment, data)
    else:
        found = _count_traffic(experiment)

    return {
        "schema": "chainfl/cell/1",
        "key": cell.key(),
        "group": cell.group,
        "labels": dict(cell.labels),
        "seed": cell.seed,
        "experiment": asdict(experiment),
        **found,
        "seconds": round(time.process_time() - started, 2),
    }


def _play_network(experiment: Experiment, data: str | None) -> dict[str, Any]:
    simulation = set_up(experiment, data)
    facts = list(play(simulation, []))
    whole = summary(facts)

    series: dict[str, list[float | None]] = {
        "accuracy": [one.accuracy for one in facts],
        "loss": [one.loss for one in facts],
    }
    if experiment.loss_samples:
        series["training_loss"] = [one.training_loss for one in facts]
    if any(one.attack_success is not None for one in facts):
        series["attack_success"] = [one.attack_success for one in facts]

    answer = {
        "measures": _of_accuracy(series["accuracy"]) | _of_network(facts),
        "series": _rounded(series),
        "root": facts[-1].model_root,
        "outside_bounds": outside_bounds(simulation.net.task.config),
    }

    if experiment.clients_every:
        answer["clients"] = {
            "accuracy": next((one.client_accuracy for one in reversed(facts) if one.client_accuracy), []),
            "times_selected": whole["times_selected"],
            "times_in_committee": whole["times_in_committee"],
            "hostile": sorted(int(id_) for id_ in simulation.population.adversary.ids),
        }
    return answer


def _play_selfish(experiment: Selfish, data: str | None) -> dict[str, Any]:
    facts: list[SelfishFacts] = list(play_selfish(set_up_selfish(experiment, data)))
    series: dict[str, list[float | None]] = {
        "accuracy": [one.accuracy for one in facts],
        "external_weight": [one.external_weight for one in facts],
    }
    parts = {
        "external_weight": fmean(one.external_weight for one in facts),
        "external_share": fmean(one.external_share for one in facts),
        "hostile_share": fmean(one.hostile_share for one in facts),
    }

    return {
        "measures": _of_accuracy(series["accuracy"]) | parts,
        "series": _rounded(series),
        "root": facts[-1].model_root,
        "outside_bounds": None,
    }


def _count_traffic(case: TrafficCase) -> dict[str, Any]:
    size = model_bytes(case.model, case.scale)
    moved = _traffic(case, size)
    return {
        "measures": {
            "megabytes_a_round": (moved.up + moved.down) / MEGA,
            "seconds_a_round": moved.seconds(case.megabits * MEGA),
            "hours": moved.seconds(case.megabits * MEGA) * case.rounds / 3600,
        },
        "series": {},
        "root": None,
        "outside_bounds": None,
    }


def _traffic(case: TrafficCase, size: int) -> Traffic:
    clients = case.workers + case.committee
    if case.framework == "typical-fl":
        return typical_fl(size, case.workers)
    if case.framework == "braintorrent":
        return braintorrent(size, clients)
    if case.framework == "gossipfl":
        return gossip_fl(size, clients)
    return cmfl(size, case.workers, case.committee, scores_length(ScoreKind.DISTANCE, case.workers))


def _of_accuracy(accuracies: Sequence[float | None]) -> dict[str, float]:
    """Best and last five: never the best alone."""
    known = [each for each in accuracies if each is not None]
    if not known:
        return {}
    return {"best": max(known), "last": fmean(known[-LAST:]), "final": known[-1]}


def _of_network(facts: Sequence[RoundMetrics]) -> dict[str, float | None]:
    return {
        "loss": facts[-1].loss,
        "training_loss": _mean_of_last([one.training_loss for one in facts]),
        "attack_success": _mean_of_last([one.attack_success for one in facts]),
        "hostile_share": fmean(one.share_hostile for one in facts),
        "hostile_workers": fmean(one.hostile_workers for one in facts),
        "hostile_in_committee": fmean(one.hostile_in_committee for one in facts),
        "hostile_selected": fmean(one.hostile_selected for one in facts),
        "captured": fmean(one.captured for one in facts),
        "megabytes_a_round": fmean(one.bytes_up + one.bytes_down for one in facts) / MEGA,
        "rounds": float(len(facts)),
    }


def _mean_of_last(values: Sequence[float | None]) -> float | None:
    """The mean of the last five rounds; None where one of them has no number."""
    last = values[-LAST:]
    known = [value for value in last if value is not None]
    return fmean(known) if len(known) == len(last) else None


def _rounded(series: dict[str, list[float | None]]) -> dict[str, list[float | None]]:
    return {
        name: [None if value is None else round(value, DIGITS) for value in values]
        for name, values in series.items()
    }
