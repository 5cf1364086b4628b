"""What cannot be run is named before anything runs: data that is missing or cannot be dealt, models that do not fit."""

from collections.abc import Sequence

from chainfl.codec.commitments import training_seed
from chainfl.errors import ChainflError, InputError
from chainfl.learning.attacks import worker_attack
from chainfl.learning.builtin import record_layout
from chainfl.learning.datasets import load
from chainfl.learning.families import check_dataset
from chainfl.learning.models import spec_of
from chainfl.learning.partition import partition
from chainfl.protocol.errors import BadConfigError
from chainfl.protocol.term_table import BUDGET
from chainfl.protocol.terms import Floors, check_config
from chainfl.sim.experiment import Experiment
from chainfl.sim.experiments.cells import AnyExperiment, Cell, TrafficCase
from chainfl.sim.terms import terms_of, within_bounds


def impossible_cells(cells: Sequence[Cell], data: str | None) -> dict[str, str]:
    """Why each cell that cannot be run cannot, by its key; what cells share is looked at once."""
    seen: dict[tuple[object, ...], str | None] = {}
    found = {}
    for cell in cells:
        subject = _subject(cell.experiment)
        if subject not in seen:
            seen[subject] = _complaint(cell.experiment, data)
        complaint = seen[subject]
        if complaint is not None:
            found[cell.key()] = complaint
    return found


def _subject(experiment: AnyExperiment) -> tuple[object, ...]:
    if isinstance(experiment, TrafficCase):
        return (experiment.model,)
    if isinstance(experiment, Experiment):
        people: tuple[object, ...] = (experiment.participants, experiment.rule, experiment.committee)
        people += (experiment.max_updates, experiment.min_updates, experiment.scale)
        people += (experiment.beyond_contract, experiment.worker_attack, experiment.hostile > 0)
    else:
        people = (experiment.clients, experiment.internal)
    return (experiment.dataset, experiment.partition, experiment.model, *people)


def _complaint(experiment: AnyExperiment, data: str | None) -> str | None:
    try:
        if isinstance(experiment, Experiment) and experiment.app:
            return None  # an app is looked at when its cell runs
        spec_of(experiment.model)
        if not isinstance(experiment, TrafficCase):
            _check_data(experiment, data)
        if isinstance(experiment, Experiment):
            _check_terms(experiment)
    except BadConfigError as error:
        return f"the terms are refused: {error}"
    except ChainflError as error:
        return str(error)
    return None


def _check_data(experiment: AnyExperiment, data: str | None) -> None:
    assert not isinstance(experiment, TrafficCase)
    dataset = load(experiment.dataset, data)
    check_dataset(experiment.model, dataset)
    if isinstance(experiment, Experiment) and (experiment.hostile or experiment.hostile_workers):
        attack, values = worker_attack(experiment.worker_attack)
        if attack.trigger is not None:
            attack.trigger(0, values).stamped(dataset.x[:1])
    clients = experiment.participants if isinstance(experiment, Experiment) else experiment.clients
    partition(dataset, experiment.partition, clients, training_seed(experiment.seed, "partition", 0, 0))


def _check_terms(experiment: Experiment) -> None:
    config = terms_of(experiment, record_layout(experiment.model).d, bytes(32), bytes(32))
    if config.max_updates < config.min_updates:
        raise InputError(
            f"rule {experiment.rule} needs {config.min_updates} updates, a round has {config.max_updates}"
        )
    bounds = within_bounds(config, beyond_contract=experiment.beyond_contract)
    check_config(bounds, experiment.rounds * BUDGET, Floors(1))
