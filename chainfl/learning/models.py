"""Models by name: the papers' networks, a small one for demos, and those that installed packages add.

An entry point of group `chainfl.models` is a `ModelSpec`. Shapes: B samples in a batch, C channels, H by W
pixels, L tokens, D parameters. Tensors are laid out by sorted name in C order (DESIGN: canonical values).
"""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import Function, once_differentiable

from chainfl import names
from chainfl.errors import InputError, LengthError
from chainfl.learning.convolve import conv_pool_relu, conv_relu
from chainfl.learning.wide import is_wide, wide_dense, wide_slopes

GROUP: Final = "chainfl.models"
FAMILY_NAMES: Final = ("bag", "conv", "dense", "lstm")
"""Models whose numbers stand behind the name, as in `dense:inputs=20,classes=3` (`families`)."""

Flat: TypeAlias = NDArray[np.float32]
Layout: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
InputKind: TypeAlias = Literal["image", "tokens", "features"]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A named model: how to build it and what it takes.

    `shape` is one sample's as the data set stores it: HxW or HxWxC pixels, L tokens, or a number of features. `words`
    is how many different tokens there are; 0 where they are not tokens, or where it is not given.
    """

    name: str
    build: Callable[[], nn.Module]
    kind: InputKind
    shape: tuple[int, ...]
    classes: int
    words: int = 0


class Dense(nn.Linear):
    """A dense layer that can take its own step of plain SGD: with `rate` set, the weight moves while slopes flow back.

    The weight's gradient, as large as the weight itself, is then never written to memory.
    """

    rate: float | None = None

    def forward(self, x: Tensor) -> Tensor:
        """x · weightᵀ + bias."""
        if not torch.is_grad_enabled() and is_wide(x, self.weight):
            return wide_dense(x, self.weight, self.bias)
        if self.rate is None or not torch.is_grad_enabled():
            return super().forward(x)
        found: Tensor = _DenseStep.apply(x, self.weight, self.bias, self.rate)  # type: ignore[no-untyped-call]
        return found


class _DenseStep(Function):
    """x, weight, bias, rate: the layer's answer; on the way back the weight takes its step in place."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, rate: float) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.rate = rate
        return wide_dense(x, weight, bias) if is_wide(x, weight) else torch.addmm(bias, x, weight.t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, None, Tensor, None]:
        x, weight = ctx.saved_tensors
        of_x = None
        if ctx.needs_input_grad[0]:
            of_x = wide_slopes(slopes, weight) if is_wide(x, weight) else slopes @ weight
        weight.addmm_(slopes.t(), x, alpha=-ctx.rate)
        return of_x, None, slopes.sum(0), None


class ConvNet(nn.Module):
    """Two 5x5 convolutions, each with 2x2 max pooling, then dense layers."""

    def __init__(self, side: int, channels: int, dense: tuple[int, ...]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, 5, padding=2)
        self.dense = _dense(64 * (side // 4) ** 2, *dense)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Class scores."""
        x_BCHW = conv_pool_relu(self.conv1, x_BCHW)
        x_BCHW = conv_pool_relu(self.conv2, x_BCHW)
        scores: Tensor = self.dense(x_BCHW.flatten(1))
        return scores


class CifarNet(nn.Module):
    """Four 3x3 convolutions in two pairs, a 2x2 max pool after each pair, one dense layer (Xie et al., 2019).

    The paper does not publish widths; 32, 32, 64, 64 keep it "simple enough for mobile devices".
    """

    def __init__(self, side: int = 24) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 32, 3, padding=1)
        self.conv3 = nn.Conv2d(32, 64, 3, padding=1)
        self.conv4 = nn.Conv2d(64, 64, 3, padding=1)
        self.dense = Dense(64 * (side // 4) ** 2, 10)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Class scores."""
        x_BCHW = conv_pool_relu(self.conv2, conv_relu(self.conv1, x_BCHW))
        x_BCHW = conv_pool_relu(self.conv4, conv_relu(self.conv3, x_BCHW))
        scores: Tensor = self.dense(x_BCHW.flatten(1))
        return scores


class DenseNet(nn.Module):
    """Dense layers with ReLU between; with one layer, logistic regression."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.dense = _dense(*widths)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores."""
        scores: Tensor = self.dense(x.flatten(1))
        return scores


class LastWord(nn.Module):
    """Embedding, two LSTM layers, and class scores from the last position."""

    def __init__(self, words: int, embedding: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, embedding)
        self.lstm = nn.LSTM(embedding, hidden, num_layers=2, batch_first=True)
        self.dense = Dense(hidden, classes)

    def forward(self, x_BL: Tensor) -> Tensor:
        """Class scores."""
        outputs_BLH, _ = self.lstm(self.embedding(x_BL))
        scores: Tensor = self.dense(outputs_BLH[:, -1])
        return scores


class WordBag(nn.Module):
    """Dense layers over which words a text has, wherever and however often they stand."""

    def __init__(self, words: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.words = words
        self.dense = _dense(words, *([hidden] if hidden else []), classes)

    def forward(self, x_BL: Tensor) -> Tensor:
        """Class scores."""
        has_BW = torch.zeros(len(x_BL), self.words, device=x_BL.device).scatter_(1, x_BL, 1.0)
        has_BW[:, 0] = 0.0  # padding
        scores: Tensor = self.dense(has_BW)
        return scores


def _dense(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for wide, narrow in pairwise(widths):
        layers += [nn.ReLU(), Dense(wide, narrow)]
    return nn.Sequential(*layers[1:])


def _image(name: str, build: Callable[[], nn.Module], *shape: int) -> ModelSpec:
    return ModelSpec(name, build, "image", shape, 10)


MODELS: Final[dict[str, ModelSpec]] = {
    spec.name: spec
    for spec in (
        _image("mnist-cnn", lambda: ConvNet(28, 1, (512, 10)), 28, 28),
        _image("mnist-mlp-small", lambda: DenseNet(784, 32, 10), 28, 28),
        _image("fashion-cnn", lambda: ConvNet(28, 1, (600, 120, 10)), 28, 28),
        ModelSpec("covtype-mlp", lambda: DenseNet(54, 1000, 500, 7), "features", (54,), 7),
        ModelSpec("imdb-lstm", lambda: LastWord(10_000, 64, 256, 2), "tokens", (200,), 2, words=10_000),
        ModelSpec("shakespeare-lstm-100", lambda: LastWord(80, 8, 100, 80), "tokens", (80,), 80, words=80),
        ModelSpec("shakespeare-lstm-256", lambda: LastWord(90, 8, 256, 90), "tokens", (80,), 90, words=90),
        _image("cifar-cnn", CifarNet, 24, 24, 3),
        _image("varsel-logistic", lambda: DenseNet(784, 10), 28, 28),
        _image("varsel-2nn", lambda: DenseNet(784, 200, 200, 10), 28, 28),
        _image("varsel-cnn", lambda: ConvNet(32, 3, (512, 10)), 32, 32, 3),
    )
}


def known_models() -> tuple[str, ...]:
    """All names that `spec_of` takes."""
    return names.known_names([*MODELS, *FAMILY_NAMES], GROUP)


def spec_of(name: str) -> ModelSpec:
    """The model called `name`, or the one that a name with numbers describes (`families`).

    Raises:
        UnknownNameError: no model is called so.
        InputError: the numbers in the name describe no network.
    """
    if name.partition(":")[0] in FAMILY_NAMES:
        from chainfl.learning.families import family_spec

        return family_spec(name)
    known: dict[str, ModelSpec | None] = {**MODELS, **dict.fromkeys(FAMILY_NAMES)}
    spec = names.find("model", name, known, GROUP)
    if not isinstance(spec, ModelSpec):
        raise InputError(f"model {name!r}: its package offers {type(spec).__name__}, not a ModelSpec")
    return spec


_BUILDING = threading.Lock()


def build(name: str, seed: int = 0) -> nn.Module:
    """The model with its initial parameters, which depend on `seed` alone, never on global random state.

    Dense, convolution, recurrent and embedding layers are drawn from Philox: plain multiplications of random
    integers, the same bits on every machine. Layers of other kinds keep what their builder gave them.
    """
    spec = spec_of(name)
    with _BUILDING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = spec.build()

    _check_deterministic(name, model)
    rng = np.random.Generator(np.random.Philox(seed))

    # By name, not by the order of construction: a builder that is rewritten gives the same first model.
    with torch.no_grad():
        for _, module in sorted(model.named_modules()):
            bound = _bound(module)
            if bound is None:
                continue
            for _, parameter in sorted(module.named_parameters(recurse=False)):
                values = rng.random(tuple(parameter.shape)) * (2 * bound) - bound
                parameter.copy_(torch.from_numpy(values.astype(np.float32)))
    return model


def initial_flat(name: str, seed: int) -> Flat:
    """The first model of a task."""
    return flatten(build(name, seed))


def layout(model: nn.Module) -> Layout:
    """Names and shapes of the floating tensors, in the order of the model vector."""
    return tuple((name, tuple(tensor.shape)) for name, tensor in _floating(model))


def integer_buffers(model: nn.Module) -> tuple[str, ...]:
    """Names of the tensors that are listed in the manifest and not aggregated."""
    return tuple(
        sorted(name for name, tensor in model.state_dict().items() if not tensor.is_floating_point())
    )


def size(model: nn.Module) -> int:
    """D, the number of parameters in the model vector."""
    return sum(tensor.numel() for _, tensor in _floating(model))


def flatten(model: nn.Module) -> Flat:
    """The model vector as float32, a copy."""
    return flatten_into(model, None)


def flatten_into(model: nn.Module, out_D: Flat | None) -> Flat:
    """The model vector as float32, written to `out_D` if given."""
    return gather_tensors(floating_tensors(model), out_D)


def gather_tensors(tensors: Sequence[Tensor], out_D: Flat | None) -> Flat:
    """Tensors one after the other as float32, written to `out_D` if given."""
    length = sum(tensor.numel() for tensor in tensors)
    flat_D = np.empty(length, np.float32) if out_D is None else out_D
    if flat_D.shape != (length,):
        raise LengthError(f"a vector of {list(flat_D.shape)} numbers cannot hold a model of {length}")
    target = torch.from_numpy(flat_D)
    with torch.no_grad():
        if tensors and tensors[0].device.type != "cpu":
            # Put together where they are: one transfer, not one for each tensor.
            target.copy_(torch.cat([tensor.reshape(-1).to(torch.float32) for tensor in tensors]))
            return flat_D

        offset = 0
        for tensor in tensors:
            target[offset : offset + tensor.numel()].view(tensor.shape).copy_(tensor)
            offset += tensor.numel()
    return flat_D


def load_flat(model: nn.Module, flat_D: Flat) -> None:
    """Copy a model vector into the model.

    Raises:
        LengthError: the vector does not have the model's length.
    """
    load_tensors(floating_tensors(model), flat_D)


def load_tensors(tensors: Sequence[Tensor], flat_D: Flat) -> None:
    """Copy a model vector into a model's floating tensors.

    Raises:
        LengthError: the vector does not have their length.
    """
    length = sum(tensor.numel() for tensor in tensors)
    if flat_D.shape != (length,):
        raise LengthError(f"a vector of {list(flat_D.shape)} numbers does not fit a model of {length}")
    source = torch.from_numpy(_writeable(flat_D))
    if tensors:
        source = sent(source, tensors[0].device)
    offset = 0

    # Copied in the layout's order, in which roots are made.
    with torch.no_grad():
        for tensor in tensors:
            tensor.copy_(source[offset : offset + tensor.numel()].view(tensor.shape))
            offset += tensor.numel()


def sent(tensor: Tensor, place: torch.device) -> Tensor:
    """The tensor on a device, in one transfer; to CUDA from pinned memory, beside what is computed there meanwhile."""
    if place.type != "cuda":
        return tensor.to(place)
    return tensor.pin_memory().to(place, non_blocking=True)


def floating_tensors(model: nn.Module) -> list[Tensor]:
    """A model's floating tensors in the layout's order, for loading or reading many vectors."""
    return [tensor for _, tensor in _floating(model)]


def _writeable(flat_D: Flat) -> Flat:
    """The vector itself if torch can take it without a warning, else a copy."""
    usable = flat_D.flags.writeable and flat_D.flags.c_contiguous and flat_D.dtype == np.float32
    return flat_D if usable else np.array(flat_D, dtype=np.float32)


def _floating(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    return (
        (name, tensor) for name, tensor in sorted(model.state_dict().items()) if tensor.is_floating_point()
    )


def _bound(module: nn.Module) -> float | None:
    """Half the width of the uniform distribution that a layer's parameters come from (PyTorch's usual)."""
    if isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return 1 / math.sqrt(math.prod(module.weight.shape[1:]))
    if isinstance(module, nn.RNNBase):
        return 1 / math.sqrt(module.hidden_size)
    return math.sqrt(3) if isinstance(module, nn.Embedding) else None


def _check_deterministic(name: str, model: nn.Module) -> None:
    for path, module in model.named_modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            raise InputError(
                f"model {name!r}: {path} is a dropout layer; training must not draw random numbers"
            )
