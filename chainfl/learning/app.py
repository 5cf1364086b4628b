"""Learning that users bring: one Python file, or an installed module, with a few functions (docs/apps.md).

`model()` and `data(where)` are needed; `train(model, samples, ctx)` and `score(model, samples, ctx)` unless the
defaults fit; `parameters(model)`, `base()` and `config` if wanted. Shapes: K models, D parameters.
"""

import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import chain, pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from chainfl.codec import records
from chainfl.codec.scores import WORST_LOSS
from chainfl.errors import AppError, LengthError, RecordError
from chainfl.learning import defaults
from chainfl.learning.appconfig import read_config
from chainfl.learning.calls import Context, guarded, numbers, seeded
from chainfl.learning.compute import pick_device
from chainfl.learning.learner import Flat, Job
from chainfl.learning.samples import count
from chainfl.learning.score import Score
from chainfl.learning.source import Source, find_source, load_module

FUNCTIONS: Final = ("model", "data", "train", "score", "parameters", "base")
NEEDED: Final = ("model", "data")

_USUAL_CONFIG: Final = "__chainfl_config__"
"""Where a module keeps its config as it was written: one that is installed may be loaded with other values again."""

_log = logging.getLogger("chainfl.app")


class App:
    """A user's learning, loaded. One model at a time is in its hands: global seeds leave no room for a second."""

    def __init__(self, source: Source, module: ModuleType, changes: Mapping[str, Any], seed: int = 0) -> None:
        self.source = source
        self.seed = seed
        self.functions = _functions(source, module)
        # The app's own functions see what the sponsor set, too: `model()` takes no context.
        usual = vars(module).setdefault(_USUAL_CONFIG, getattr(module, "config", None))
        self.config = read_config(source, usual, changes)
        if self.config is not None:
            vars(module)["config"] = self.config
        self.metrics: dict[str, float] = {}
        """What the last `train` returned."""
        self._idle: dict[str, tuple[nn.Module, dict[str, Tensor], dict[str, int]]] = {}
        self._lock = threading.Lock()
        self._warned = self._warned_of_frozen = False
        self._layout: records.Layout | None = None

    @property
    def name(self) -> str:
        """The file's name without its ending, its folder's for an `app.py`, or the module's."""
        return self.source.name

    @property
    def digest(self) -> str:
        """The digest of its source."""
        return self.source.digest

    @property
    def layout(self) -> records.Layout:
        """The tensors of the model vector, by name."""
        if self._layout is None:
            with self._borrowed(torch.device("cpu")) as network:
                self._layout = self._layout_of(network)
        return self._layout

    def build(self) -> nn.Module:
        """The model as the user's code builds it; random numbers come from the task's seed."""
        make = self.functions["model"]
        with guarded(self.source, "model()"), seeded(self.seed, torch.device("cpu"), 1):
            found = make()
        if not isinstance(found, nn.Module):
            raise AppError(
                f"{self.source.main}: model() returns a {type(found).__name__}, not a torch module"
            )
        for name, tensor in chain(found.named_parameters(), found.named_buffers()):
            if is_lazy(tensor) or tensor.is_meta:
                raise AppError(
                    f"{self.source.main}: {name} has no values yet: build it whole in model(); a model with lazy "
                    "layers is called once on an example, one on the meta device gets real values"
                )
        return found

    def initial(self) -> Flat:
        """The model as built: pretrained weights stay."""
        layout = self.layout
        return flatten(self.tensors(self.build()), np.empty(layout.d, np.float32))

    def data(self, where: str | None) -> tuple[Any, Any]:
        """This participant's samples: what it trains on, what it holds out.

        Raises:
            AppError: `data` fails, or gives something else.
        """
        with guarded(self.source, "data()"), seeded(self.seed, torch.device("cpu"), 1):
            found = self.functions["data"](where)
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise AppError(
                f"{self.source.main}: data() returns a {type(found).__name__}; return two things: what it trains "
                "on, and what it holds out to score with"
            )

        # Refused here, before a round depends on it: an empty part trains on nothing and scores nothing.
        for what, samples in zip(("to train on", "held out"), found, strict=True):
            if isinstance(samples, Iterator):
                raise AppError(
                    f"{self.source.main}: data() gives a {type(samples).__name__} of samples {what}, which is empty "
                    "after its first use: give a Dataset, a DataLoader or a list"
                )
            if count(samples) == 0:
                raise AppError(f"{self.source.main}: data() gives no samples {what}")
        return found[0], found[1]

    def base_files(self) -> list[Path]:
        """The frozen files that the app names; a folder stands for all files in it."""
        if "base" not in self.functions:
            return []
        with guarded(self.source, "base()"):
            found = self.functions["base"]()
            named = [found] if isinstance(found, str | Path) else list(found)
            paths = [Path(each).expanduser() for each in named]
        return [
            file
            for path in paths
            for file in (sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path])
        ]

    def train(
        self, head_D: Flat, job: Job, round_: int, *, device: str = "cpu", out_D: Flat | None = None
    ) -> Flat:
        """The update: the head after the user's training. The head itself is out of the user's reach.

        Raises:
            AppError: the user's code fails, or leaves another model than it was given.
        """
        place = pick_device(device)
        layout = self.layout
        with self._borrowed(place) as network:
            load(self.tensors(network), head_D)
            network.train()
            context = Context.seeded(place, job.seed, round_, self.config, self._say)
            calling = guarded(self.source, "train()"), seeded(job.seed, place, job.threads or 1)
            with calling[0], calling[1], torch.enable_grad():
                metrics = self.functions["train"](network, job.samples, context)
            self.metrics = numbers(self.source, "train()", metrics)

            # The layout is part of the task: an update of another form could not be combined.
            if self._layout_of(network) != layout:
                raise AppError(
                    f"{self.source.main}: train() changed the names or shapes of the model's tensors"
                )
            return flatten(self.tensors(network), np.empty(layout.d, np.float32) if out_D is None else out_D)

    def score(self, flats_KD: Sequence[Flat], job: Job, *, device: str = "cpu") -> tuple[Score, ...]:
        """Each model's score, in eval mode and without gradients, every one from the same seed.

        Raises:
            AppError: the user's code fails, or gives no loss.
        """
        place = pick_device(device)
        found = []
        with self._borrowed(place) as network:
            for flat_D in flats_KD:
                load(self.tensors(network), flat_D)

                # Set for each model: the user's code may have left the network in another mode.
                network.eval()
                context = Context.seeded(place, job.seed, 0, self.config, self._say)
                calling = guarded(self.source, "score()"), seeded(job.seed, place, job.threads or 1)
                with calling[0], calling[1], torch.no_grad():
                    answer = self.functions["score"](network, job.samples, context)
                found.append(self._as_score(answer))
                self._warn_of(found[-1])
        return tuple(found)

    def tensors(self, network: nn.Module) -> list[tuple[str, Tensor]]:
        """What is trained together, by name: what `parameters` yields, else trainable parameters and floating buffers.

        Raises:
            AppError: a name is twice, or something is no floating tensor.
        """
        chosen = self.functions.get("parameters", trained_tensors)
        with guarded(self.source, "parameters()"):
            found = [(str(name), tensor) for name, tensor in chosen(network)]
        for name, tensor in found:
            if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
                raise AppError(
                    f"{self.source.main}: parameters() yields {name!r}, which is no floating tensor"
                )
            if tensor.layout is not torch.strided:
                raise AppError(
                    f"{self.source.main}: {name} is sparse, and only dense tensors are trained together: a buffer that "
                    "is not trained is registered with persistent=False"
                )
        self._expect_real(network)

        # Sorted by name, so that the layout does not depend on the order in which the user's code yields.
        found.sort(key=lambda pair: pair[0])
        for (name, _), (other, _) in pairwise(found):
            if name == other:
                raise AppError(f"{self.source.main}: parameters() yields {name!r} twice")
        if not found:
            raise AppError(f"{self.source.main}: nothing in the model is trainable")
        return found

    def _expect_real(self, network: nn.Module) -> None:
        """Refuse what the default of `parameters` would silently leave out of the vector."""
        if "parameters" in self.functions:
            return
        for name, tensor in network.named_parameters():
            if tensor.requires_grad and tensor.is_complex():
                raise AppError(
                    f"{self.source.main}: {name} is complex, and only real tensors are trained together: hold its two "
                    "parts in one real tensor (torch.view_as_complex makes it complex in forward)"
                )

    def __repr__(self) -> str:
        """In one line: which app, of which source."""
        return f"<App {self.name}, digest {self.digest}>"

    def _say(self, text: str) -> None:
        _log.info("%s: %s", self.name, text)

    def _as_score(self, answer: Any) -> Score:
        if isinstance(answer, Score):
            # A tensor of one number is taken for the number, as `train` may return it.
            given = {name: getattr(answer, name) for name in ("loss", "correct", "samples")}
            given = numbers(self.source, "score()", given)
            correct, samples = given["correct"], given["samples"]
            if not 0 <= correct <= samples < math.inf:
                raise AppError(
                    f"{self.source.main}: score() gives {correct:g} correct of {samples:g} samples"
                )
            metrics = numbers(self.source, "score()", answer.metrics)
            return Score(given["loss"], int(correct), int(samples), metrics)

        if isinstance(answer, Tensor) and answer.numel() == 1:
            answer = answer.item()
        if isinstance(answer, int | float | np.floating) and not isinstance(answer, bool):
            return Score(float(answer))
        raise AppError(
            f"{self.source.main}: score() returns a {type(answer).__name__}; return the mean loss, or chainfl.Score"
        )

    def _warn_of(self, score: Score) -> None:
        """Say once that a loss counts as the worst: on chain there is no other place for it."""
        if not self._warned and (why := misfit(score.loss)) is not None:
            self._warned = True
            _log.warning("%s: score() %s: it counts as the worst", self.name, why)

    def _layout_of(self, network: nn.Module) -> records.Layout:
        """The trained tensors, and the integer buffers that are named and not aggregated."""
        tensors = tuple(records.Tensor(name, tuple(each.shape)) for name, each in self.tensors(network))
        names = {tensor.name for tensor in tensors}
        layout = records.Layout(tensors, tuple(sorted(_integers(network).keys() - names)))
        try:
            layout.check("model")
        except RecordError as error:
            raise AppError(f"{self.source.main}: {error}") from None
        return layout

    @contextmanager
    def _borrowed(self, device: torch.device) -> Iterator[nn.Module]:
        """The model to load vectors into, built once; what it holds beside the vector is as built each time."""
        with self._lock:
            held = self._idle.pop(str(device), None)
            if held is None:
                network = self.build().to(device)
                counted = {name: each.clone() for name, each in _integers(network).items()}
                held = network, counted, self._frozen(network)
            network, counters, frozen = held

            with torch.no_grad():
                for name, each in _integers(network).items():
                    each.copy_(counters[name])
            network.zero_grad(set_to_none=True)
            yield network  # after an error the model is dropped: it may hold half a state

            changed = [name for name, version in self._frozen(network).items() if frozen.get(name) != version]
            if not changed:
                self._idle[str(device)] = held
            elif not self._warned_of_frozen:
                self._warned_of_frozen = True
                _log.warning(
                    "%s: a call changes %s, which is not among parameters(): the change is lost",
                    self.name,
                    changed[0],
                )

    def _frozen(self, network: nn.Module) -> dict[str, int]:
        """How often each floating tensor beside the vector was written to, as torch counts it."""
        trained = {tensor.untyped_storage().data_ptr() for _, tensor in self.tensors(network)}
        return {
            name: each._version
            for name, each in chain(network.named_parameters(), network.named_buffers())
            if each.is_floating_point()
            and each.layout is torch.strided
            and each.untyped_storage().data_ptr() not in trained
        }


def load_app(where: str, changes: Mapping[str, Any] | None = None, seed: int = 0) -> App:
    """The app at this path, or the installed module of this name; `changes` are values of its config.

    Raises:
        AppError: there is none, it does not run, or it lacks a function.
    """
    source = find_source(where)
    return App(source, load_module(source), changes or {}, seed)


def misfit(loss: float) -> str | None:
    """Why a loss that is a number has no place on chain; None where it has one, and for what is no number."""
    if not math.isfinite(loss):
        return None
    if loss < 0:
        return f"is {loss:.6g}, and less than 0 has no place on chain: add a constant that keeps it above"
    if loss * 1e12 >= WORST_LOSS:
        return (
            f"is {loss:.6g}, and {WORST_LOSS / 1e12:.6g} is the most that has a place on chain: scale it down"
        )
    return None


def trained_tensors(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The default of `parameters`: trainable parameters, and the floating buffers of the state dict.

    A tensor that several names share, such as the tied ends of a language model, is there once, by its first name.
    """
    frozen = {id(each) for each in network.parameters() if not each.requires_grad}
    seen = set[int]()
    for name, tensor in sorted(network.state_dict(keep_vars=True).items()):
        is_shared = id(tensor) in seen
        seen.add(id(tensor))
        is_tensor = isinstance(tensor, Tensor) and tensor.is_floating_point()
        if is_tensor and id(tensor) not in frozen and not is_shared:
            yield name, tensor


def load(tensors: Sequence[tuple[str, Tensor]], flat_D: Flat) -> None:
    """Copy a model vector into the tensors.

    Raises:
        LengthError: it does not fit.
    """
    size = sum(tensor.numel() for _, tensor in tensors)
    if flat_D.shape != (size,):
        raise LengthError(f"a vector of {list(flat_D.shape)} numbers does not fit a model of {size}")
    source = torch.from_numpy(np.array(flat_D, np.float32))
    offset = 0
    with torch.no_grad():
        for _, tensor in tensors:
            tensor.copy_(source[offset : offset + tensor.numel()].view(tensor.shape))
            offset += tensor.numel()


def flatten(tensors: Sequence[tuple[str, Tensor]], out_D: Flat) -> Flat:
    """The model vector as float32, written to `out_D`."""
    target = torch.from_numpy(out_D)
    offset = 0
    with torch.no_grad():
        for _, tensor in tensors:
            target[offset : offset + tensor.numel()].view(tensor.shape).copy_(tensor)
            offset += tensor.numel()
    return out_D


def _integers(network: nn.Module) -> dict[str, Tensor]:
    """Tensors of the state dict that are no floats, such as a batch norm's counter."""
    return {
        name: each
        for name, each in network.state_dict().items()
        if isinstance(each, Tensor) and not each.is_floating_point()
    }


def _functions(source: Source, module: ModuleType) -> dict[str, Callable[..., Any]]:
    """The functions that the module has; a misspelt one is not taken for a missing one.

    Raises:
        AppError: one that has no default is missing, or a name is no function.
    """
    found: dict[str, Callable[..., Any]] = {}
    others = [name for name in vars(module) if name not in FUNCTIONS and callable(getattr(module, name))]
    for name in FUNCTIONS:
        value = getattr(module, name, None)
        if value is not None and not callable(value):
            raise AppError(f"{source.main}: {name} is a {type(value).__name__}, not a function")
        if value is not None:
            found[name] = value
            continue

        # A name that is nearly one of ours is a slip of the pen: the default would silently run in its place.
        close = get_close_matches(name, others, 1, 0.75)
        hint = f"; is {close[0]}() meant to be it?" if close else ""
        if name in NEEDED or (close and name in ("train", "score")):
            raise AppError(f"{source.main}: the app has no {name}(){hint}")

    for name, usual in (("train", defaults.train), ("score", defaults.score)):
        found.setdefault(name, usual)
    return found
