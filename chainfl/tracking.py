"""Numbers of each round for the tools that people watch training with: TensorBoard and MLflow, by their own libraries.

`tensorboard:DIR` writes event files, `mlflow:URI` a run of MLflow (`sqlite:///runs.db`, `http://…`). Both are extras.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from math import isfinite
from typing import Any, Final, Protocol

from chainfl.errors import InputError, OutsideError, ToolMissingError
from chainfl.tools import pip_install

EXPERIMENT: Final = "chainfl"
"""What MLflow calls all runs of chainfl."""
_REFUSED: Final = re.compile(r"[^\w./ -]")
_LONGEST: Final = 500
"""MLflow takes no longer text as a parameter."""


class Tracker(Protocol):
    """Where the numbers of a run go."""

    def record(self, round_: int, numbers: Mapping[str, float]) -> None:
        """The numbers of one round."""
        ...

    def close(self) -> None:
        """No more rounds follow."""
        ...


def numbers_of(plain: Mapping[str, object]) -> dict[str, float]:
    """What can be drawn over the rounds: every finite number of a round's facts, under the same name.

    Numbers in a table are named by both, such as `training/loss`; characters that a tracker refuses become `_`.
    """
    found: dict[str, float] = {}
    for name, value in plain.items():
        if isinstance(value, Mapping):
            found |= {f"{name}/{_REFUSED.sub('_', each)}": x for each, x in numbers_of(value).items()}
        elif name != "round" and isinstance(value, int | float) and isfinite(value):
            found[name] = float(value)
    return found


def check_tracker(address: str | None) -> None:
    """Refuse what cannot be tracked with before anything is begun.

    Raises:
        InputError: the address is none.
        ToolMissingError: its library is not installed.
    """
    if address is None:
        return
    kind, _, where = address.partition(":")
    if kind not in _TRACKERS or not where:
        raise InputError(
            f"--track {address!r}: give tensorboard:DIR or mlflow:URI, such as mlflow:sqlite:///runs.db"
        )
    if find_spec(kind) is None:
        raise ToolMissingError(f"--track {address} needs {kind}: {pip_install(kind)}")


def open_tracker(address: str, name: str, settings: Mapping[str, object]) -> Tracker:
    """Begin a run there; `settings` are what stays the same in all of its rounds.

    Raises:
        InputError: the address is none, or nothing can be written there.
        ToolMissingError: its library is not installed.
        OutsideError: MLflow does not answer, or refuses.
    """
    check_tracker(address)
    kind, _, where = address.partition(":")
    return _TRACKERS[kind](where, name, settings)


@contextmanager
def tracked(
    address: str | None, name: str, settings: Mapping[str, object]
) -> Iterator[Callable[[int, Mapping[str, object]], None]]:
    """A function that takes the facts of each round there; it does nothing where no address is given."""
    if address is None:
        yield lambda _round, _facts: None
        return
    tracker = open_tracker(address, name, settings)
    try:
        yield lambda round_, facts: tracker.record(round_, numbers_of(facts))
    finally:
        tracker.close()


def flat(settings: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Settings in settings by dotted names, as text; what is not set is left out."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        elif value is not None:
            found[prefix + name] = str(value)
    return found


class TensorBoard:
    """Event files in a folder: tensorboard --logdir DIR shows them."""

    def __init__(self, folder: str, name: str, settings: Mapping[str, object]) -> None:
        """Begin a folder of its own for the run in `folder`, so that runs stand side by side."""
        del settings  # TensorBoard's own writer takes numbers only
        from tensorboard.summary import Writer

        try:
            self._writer = Writer(os.path.join(folder, name))  # noqa: PTH118 (a folder may be gs://…)
        except OSError as error:
            raise InputError(f"--track tensorboard:{folder}: cannot be written: {error}") from None

    def record(self, round_: int, numbers: Mapping[str, float]) -> None:
        """A point on each curve, there to be seen at once."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, round_)
        self._writer.flush()

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


class MLflow:
    """A run of MLflow, with the settings as its parameters."""

    def __init__(self, uri: str, name: str, settings: Mapping[str, object]) -> None:
        """Begin the run."""
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # nobody is told that chainfl ran
        from mlflow import MlflowClient

        self._where = f"--track mlflow:{uri}"
        with self._answered():
            self._client: Any = MlflowClient(tracking_uri=uri)
            found = self._client.get_experiment_by_name(EXPERIMENT)
            number = found.experiment_id if found else self._client.create_experiment(EXPERIMENT)
            self._run = self._client.create_run(number, run_name=name).info.run_id
            self._client.log_batch(self._run, params=_parameters(settings))

    def record(self, round_: int, numbers: Mapping[str, float]) -> None:
        """A point on each curve, in one call."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        with self._answered():
            points = [Metric(name, value, now, round_) for name, value in numbers.items()]
            self._client.log_batch(self._run, metrics=points)

    def close(self) -> None:
        """The run is finished."""
        with self._answered():
            self._client.set_terminated(self._run)

    @contextmanager
    def _answered(self) -> Iterator[None]:
        """MLflow's refusals in one line of ours."""
        from mlflow.exceptions import MlflowException

        try:
            yield
        except (MlflowException, OSError, ImportError) as error:
            said = str(error).strip().splitlines() or [type(error).__name__]
            raise OutsideError(f"{self._where}: MLflow says: {said[0]}") from None


def _parameters(settings: Mapping[str, object]) -> list[Any]:
    from mlflow.entities import Param

    return [Param(name, value[:_LONGEST]) for name, value in flat(settings).items()]


_TRACKERS: Final[Mapping[str, Callable[[str, str, Mapping[str, object]], Tracker]]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
}
