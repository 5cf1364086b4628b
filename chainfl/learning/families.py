"""Models for data of any shape: `dense:inputs=20,classes=3` is a name like any other, and says all of the network.

The name stands in a task's manifest, so that everybody builds the same network; a sponsor's numbers are therefore
bounded before anything is built.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Final

from chainfl import names
from chainfl.errors import InputError, UnknownNameError
from chainfl.learning.compute import check_fits
from chainfl.learning.dataset import Dataset
from chainfl.learning.models import ConvNet, DenseNet, LastWord, ModelSpec, WordBag

MOST_PARAMETERS: Final = 1 << 24
"""64 MiB of float32; a larger network comes as an app or from a package."""

Values = Mapping[str, int]


def _dense_spec(name: str, values: Values) -> ModelSpec:
    """Dense layers; `hidden=0` is logistic regression. Features by `inputs`, or images by height, width, channels."""
    image = (values["height"], values["width"])
    if bool(values["inputs"]) == all(image):
        raise InputError(f"model {name!r}: give either inputs, or height and width")
    shape = image + ((values["channels"],) if values["channels"] > 1 else ())
    size = values["inputs"] or values["height"] * values["width"] * max(1, values["channels"])
    widths = (size, *([values["hidden"]] if values["hidden"] else []), values["classes"])

    _bound(name, sum((wide + 1) * narrow for wide, narrow in itertools.pairwise(widths)))
    if values["inputs"]:
        return ModelSpec(name, lambda: DenseNet(*widths), "features", (size,), values["classes"])
    return ModelSpec(name, lambda: DenseNet(*widths), "image", shape, values["classes"])


def _conv_spec(name: str, values: Values) -> ModelSpec:
    """Two 5x5 convolutions with pooling, then a hidden layer: square images of at least 4 x 4 pixels."""
    side = values["side"]
    channels = values["channels"]
    hidden = values["hidden"]
    if side < 4:
        raise InputError(f"model {name!r}: side must be at least 4")
    shape = (side, side) if channels == 1 else (side, side, channels)
    dense = (hidden, values["classes"])

    _bound(name, 64 * (side // 4) ** 2 * hidden + 800 * channels + hidden * values["classes"] + 52_000)
    return ModelSpec(name, lambda: ConvNet(side, channels, dense), "image", shape, values["classes"])


def _lstm_spec(name: str, values: Values) -> ModelSpec:
    """An embedding, two LSTM layers and the answer at the last of `length` tokens, each below `words`."""
    words, embedding, hidden, classes = (values[key] for key in ("words", "embedding", "hidden", "classes"))

    _bound(name, words * embedding + 4 * hidden * (embedding + 3 * hidden + 4) + hidden * classes)
    build = lambda: LastWord(words, embedding, hidden, classes)  # noqa: E731 - a recipe, not a name
    return ModelSpec(name, build, "tokens", (values["length"],), classes, words)


def _bag_spec(name: str, values: Values) -> ModelSpec:
    """Which of `words` words stand among `length` tokens (0 is padding); `hidden=0` is logistic regression."""
    words, hidden, classes = (values[key] for key in ("words", "hidden", "classes"))
    widths = (words, *([hidden] if hidden else []), classes)

    _bound(name, sum((wide + 1) * narrow for wide, narrow in itertools.pairwise(widths)))
    build = lambda: WordBag(words, hidden, classes)  # noqa: E731 - a recipe, not a name
    return ModelSpec(name, build, "tokens", (values["length"],), classes, words)


_FAMILIES: Final[Mapping[str, tuple[Callable[[str, Values], ModelSpec], Mapping[str, float]]]] = {
    "bag": (_bag_spec, {"length": 80, "words": 100, "hidden": 16, "classes": 2}),
    "dense": (
        _dense_spec,
        {"inputs": 0, "height": 0, "width": 0, "channels": 1, "hidden": 64, "classes": 10},
    ),
    "conv": (_conv_spec, {"side": 28, "channels": 1, "hidden": 128, "classes": 10}),
    "lstm": (_lstm_spec, {"length": 80, "words": 100, "embedding": 16, "hidden": 64, "classes": 2}),
}
"""Each family's maker and its numbers; 0 may stand only where it is a default, or for no hidden layer."""


def family_spec(name: str) -> ModelSpec:
    """The model that `dense:…`, `conv:…`, `lstm:…` or `bag:…` describes.

    Raises:
        UnknownNameError: no such family or number; lists the known ones.
        InputError: the numbers describe no network, or one that is too large.
    """
    family, given = names.parse_call("model", name, {each: known for each, (_, known) in _FAMILIES.items()})
    make, defaults = _FAMILIES[family]
    for key, value in given.items():
        least = 0 if key == "hidden" and family in ("bag", "dense") else min(1, int(defaults[key]))
        if not least <= value <= MOST_PARAMETERS or value != int(value):
            raise InputError(f"model {name!r}: {key} must be a whole number, {least}…{MOST_PARAMETERS}")
    return make(name, {key: int(value) for key, value in given.items()})


def check_dataset(name: str, dataset: Dataset) -> None:
    """See that a model takes all samples of a data set, before anything is trained on them.

    Raises:
        InputError: shape, type, labels or tokens do not fit; names a model that would.
    """
    try:
        for samples in (dataset.train(), dataset.test()):
            spec = check_fits(name, samples)
            highest = int(samples.x.max(initial=0)) if spec.words else -1
            if highest >= spec.words > 0:
                raise InputError(f"model {name} takes tokens 0…{spec.words - 1}, a sample has {highest}")
    except UnknownNameError:
        raise
    except InputError as error:
        raise InputError(f"{error}; {fitting(dataset)} would do") from None


def fitting(dataset: Dataset) -> str:
    """The name of a small model that takes this data set's samples."""
    form = dataset.x.shape[1:]
    classes = f"classes={dataset.classes}"
    if len(form) == 1 and dataset.x.dtype.kind in "iu" and dataset.x.dtype.itemsize > 1:
        most = max(int(dataset.x.max(initial=0)), int(dataset.x_test.max(initial=0)))
        return f"lstm:length={form[0]},words={most + 1},{classes}"
    if len(form) == 1:
        return f"dense:inputs={form[0]},{classes}"
    if len(form) > 3:
        return "an app (docs/apps.md)"
    channels = f",channels={form[2]}" if len(form) == 3 else ""
    return f"dense:height={form[0]},width={form[1]}{channels},{classes}"


def _bound(name: str, parameters: int) -> None:
    if parameters > MOST_PARAMETERS:
        raise InputError(
            f"model {name!r} has {parameters:,} parameters, at most {MOST_PARAMETERS:,} are built"
        )
