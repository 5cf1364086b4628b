"""Flower's ClientApp as an app: it gets its usual train and evaluate messages, unchanged (docs/flower.md).

The first model and the config of its messages come from the ServerApp beside it, which runs until its first message
and no further: the chain's rule takes the place of its strategy.
"""

import importlib
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, make_dataclass
from types import ModuleType
from typing import Any, Final

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.supercore.task_identity import TaskIdentity
from torch import Tensor, nn

from chainfl.errors import AppError
from chainfl.learning import calls
from chainfl.learning.flower_project import FlowerProject
from chainfl.learning.samples import Partition
from chainfl.learning.score import Score
from chainfl.learning.source import Source

NODES: Final = 100
"""How many nodes the ServerApp finds; enough for any strategy's minimum that a simulation would take."""
RUN: Final = 1
"""The number of the run, of its task and of the server's node: there is one."""
LOSSES: Final = ("eval_loss", "loss", "val_loss", "test_loss", "eval-loss", "val-loss", "test-loss")
ACCURACIES: Final = ("eval_acc", "eval_accuracy", "accuracy", "acc", "val_acc", "val_accuracy", "test_acc")
EXAMPLES: Final = "num-examples"


def flower_app(source: Source, project: FlowerProject) -> ModuleType:
    """The ClientApp with the functions of an app.

    Raises:
        AppError: the module holds no ClientApp, or one that takes Flower's older messages only.
    """
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = RUN  # who a message is from
    client = _object(source, project.client, ClientApp)
    if getattr(client, "_call", None) is not None:
        raise AppError(
            f"{source.main}: {project.client} is made of a client_fn, which takes Flower's older messages; register "
            "functions with @app.train() and @app.evaluate()"
        )
    adapted = _Adapted(source, project, client)
    module = ModuleType(f"chainfl_flower_{source.digest[:16]}")
    for name in ("model", "data", "train", "score"):
        setattr(module, name, getattr(adapted, name))
    if project.config:
        module.config = _config(project.config)  # type: ignore[attr-defined]
    return module


class _Adapted:
    """Messages to a ClientApp in place of calls of an app's functions."""

    def __init__(self, source: Source, project: FlowerProject, client: Any) -> None:
        self.source = source
        self.project = project
        self.client = client
        self._first: Any = None

    @property
    def first(self) -> Any:
        """The content of the first train message: the first model, and the config that goes with it."""
        if self._first is None:
            self._first = _first_content(self.source, self.project)
        return self._first

    def model(self) -> nn.Module:
        """The first model's arrays, under their names."""
        (arrays,) = self.first.array_records.values()
        return _tree(arrays.to_torch_state_dict())

    def data(self, where: str | None) -> tuple[Partition, Partition]:
        """A number of a partition: a ClientApp loads its own. `where` is a node config, such as "path=mine bins=4"."""
        config = _node_config(self.source, where)
        return Partition(0, 1, config), Partition(0, 1, config)

    def train(self, model: nn.Module, samples: Partition, ctx: calls.Context) -> dict[str, float]:
        """A train message to the ClientApp; the arrays of its reply are the update."""
        reply = self._ask("train", model, samples, ctx)
        if len(reply.array_records) != 1:
            raise AppError(
                f"{self.source.main}: the reply to train has {len(reply.array_records)} ArrayRecords, not 1"
            )
        (arrays,) = reply.array_records.values()
        try:
            model.load_state_dict(arrays.to_torch_state_dict())
        except RuntimeError as error:
            text = " ".join(str(error).split())
            raise AppError(f"{self.source.main}: the reply to train has other arrays: {text:.300}") from None

        # The count that Flower calls num-examples is the one that a worker declares on chain.
        metrics = _metrics(reply)
        samples.examples = int(metrics.pop(EXAMPLES, 0)) or None
        return metrics

    def score(self, model: nn.Module, samples: Partition, ctx: calls.Context) -> Score:
        """An evaluate message to the ClientApp; its metrics are the score."""
        metrics = _metrics(self._ask("evaluate", model, samples, ctx))
        seen = int(metrics.pop(EXAMPLES, 0))
        loss = next((name for name in LOSSES if name in metrics), None)
        if loss is None:
            raise AppError(
                f"{self.source.main}: the reply to evaluate has no loss: name one of its metrics eval_loss; it has: "
                f"{', '.join(sorted(metrics)) or 'none'}"
            )
        accuracy = next((metrics[name] for name in ACCURACIES if name in metrics), None)
        correct = round(accuracy * seen) if accuracy is not None and 0 <= accuracy <= 1 else 0
        counted = seen if accuracy is not None else 0
        return Score(
            metrics[loss], correct, counted, {name: value for name, value in metrics.items() if name != loss}
        )

    def _ask(self, kind: str, model: nn.Module, samples: Partition, ctx: calls.Context) -> Any:
        """The content of the reply to a message of this kind."""
        content = RecordDict()
        for name, record in self.first.items():
            if isinstance(record, ArrayRecord):
                content[name] = ArrayRecord(model.state_dict())
            elif isinstance(record, ConfigRecord):
                content[name] = ConfigRecord(dict(record) | {"server-round": ctx.round})
        message = Message(content, samples.number + 1, kind, group_id=str(ctx.round))
        reply = self.client(message, self._context(samples, ctx))
        if not isinstance(reply, Message) or reply.has_error():
            raise AppError(f"{self.source.main}: the ClientApp answers {kind} with no content")
        return reply.content

    def _context(self, samples: Partition, ctx: calls.Context) -> Any:
        """A node's context. Its state starts empty in each call: an update depends on head, data and seed alone."""
        place = {"partition-id": samples.number, "num-partitions": samples.of}
        values = {name: getattr(ctx.config, _identifier(name)) for name in self.project.config}
        return Context(RUN, samples.number + 1, place | dict(samples.config), RecordDict(), values)


def _object(source: Source, name: str, kind: type) -> Any:
    """The object behind `package.module:object`."""
    module, _, attribute = name.partition(":")
    found = getattr(importlib.import_module(module), attribute, None)
    if not isinstance(found, kind):
        raise AppError(f"{source.main}: {name} is no {kind.__name__} of flwr")
    return found


# The first message


class _First(BaseException):
    """Ends a ServerApp at its first message; no `except Exception` keeps it."""


class _FirstOnly:
    """A grid with nodes that are never asked: the first message to one of them is what is wanted."""

    def get_node_ids(self) -> list[int]:
        """Nodes to choose from."""
        return list(range(1, NODES + 1))

    def send_and_receive(self, messages: Iterable[Any], **_: Any) -> list[Any]:
        """End here, with the first message that has a model in it."""
        for message in messages:
            if message.has_content() and message.content.array_records:
                raise _First(message.content)
        return []

    push_messages = send_and_receive

    def pull_messages(self, *_: Any, **__: Any) -> list[Any]:
        """Nobody answers."""
        return []


def _first_content(source: Source, project: FlowerProject) -> Any:
    """What the ServerApp sends first.

    Raises:
        AppError: there is no ServerApp, or it ends without sending a model.
    """
    if project.server is None:
        raise AppError(
            f"{source.main}: no ServerApp beside it gives the first model: put one into server_app.py, or name it in "
            "the project's pyproject.toml ([tool.flwr.app.components] serverapp)"
        )

    server = _object(source, project.server, ServerApp)
    context = Context(RUN, RUN, {}, RecordDict(), dict(project.config))

    # The server is ended by the first message it sends to a node: that message holds the first model.
    try:
        with _quiet():
            server(_FirstOnly(), context)
    except _First as found:
        content = found.args[0]
        if len(content.array_records) != 1:
            raise AppError(
                f"{source.main}: {project.server} sends several ArrayRecords; an app has one"
            ) from None
        return content
    raise AppError(f"{source.main}: {project.server} ended without sending a model to any node")


@contextmanager
def _quiet() -> Iterator[None]:
    """Flower logs its strategy's start; here nothing starts."""
    logger = logging.getLogger("flwr")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


# Values


def _tree(arrays: Mapping[str, Tensor]) -> nn.Module:
    """A module whose state dict is this: floating tensors are trained together, others are named."""
    root = nn.Module()
    for name, tensor in arrays.items():
        *path, last = name.split(".")
        at = root
        for part in path:
            if part not in at._modules:
                at.add_module(part, nn.Module())
            at = at.get_submodule(part)
        if tensor.is_floating_point():
            at.register_parameter(last, nn.Parameter(tensor.clone()))
        else:
            at.register_buffer(last, tensor.clone())
    return root


def _metrics(content: Any) -> dict[str, float]:
    """Single numbers of the metric records, by name."""
    return {
        str(name): float(value)
        for record in content.metric_records.values()
        if isinstance(record, MetricRecord)
        for name, value in record.items()
        if isinstance(value, int | float)
    }


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _config(values: Mapping[str, Any]) -> type:
    """The run config as a dataclass that a sponsor may set: `learning-rate` is `learning_rate`."""
    return make_dataclass(
        "RunConfig",
        [(_identifier(name), type(value), field(default=value)) for name, value in values.items()],
    )


def _node_config(source: Source, where: str | None) -> dict[str, str]:
    """A node config as `flower-supernode --node-config` takes it: `name=value`, with spaces between."""
    pairs = [item.partition("=") for item in (where or "").split()]
    if any(not is_pair for _, is_pair, _ in pairs):
        raise AppError(f"{source.main}: --dataset {where!r}: give a node config, such as path=mine.csv")
    return {name: value.strip("'\"") for name, _, value in pairs}
