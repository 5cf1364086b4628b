"""An exported model in its app's hands: judged, or written in the formats of other libraries."""

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from chainfl.codec.model_file import ModelFile
from chainfl.codec.vector import decode
from chainfl.errors import AppError, InputError, ToolMissingError
from chainfl.learning.app import App, load
from chainfl.learning.learner import Flat, Job
from chainfl.learning.samples import first
from chainfl.learning.score import Score
from chainfl.tools import pip_install

_SEED = 1
_EXAMPLES = 2
"""Samples in the batch that a model is traced with: two, so that the size of a batch is not taken for a constant."""


def flat_of(app: App, file: ModelFile) -> Flat:
    """The file's parameters as the app's model takes them.

    Raises:
        InputError: the app's model has other tensors.
    """
    if app.layout.tensors != file.layout.tensors:
        name = _first_other(app, file)
        hint = "" if app.config is None else "; a task's own --app-config may change shapes"
        raise InputError(f"the file is no model of app {app.name}: {name} differs in name or shape{hint}")
    return decode(file.vector, file.about.s)


def _first_other(app: App, file: ModelFile) -> str:
    """The first tensor that only one of them has, or that has another shape."""
    here = {tensor.name: tensor.shape for tensor in app.layout.tensors}
    there = {tensor.name: tensor.shape for tensor in file.layout.tensors}
    return next(name for name in sorted({*here, *there}) if here.get(name) != there.get(name))


def network_of(app: App, file: ModelFile) -> nn.Module:
    """The app's model with the file's parameters, in eval mode.

    Raises:
        InputError: the app's model has other tensors.
    """
    flat_D = flat_of(app, file)
    network = app.build()
    load(app.tensors(network), flat_D)
    return network.eval()


def score_file(app: App, file: ModelFile, where: str | None, samples: int, threads: int) -> Score:
    """How the model does on the first of what the app holds out.

    Raises:
        InputError: the app's model has other tensors, or its code fails.
    """
    _, held_out = app.data(where)
    job = Job(first(held_out, samples) if samples else held_out, _SEED, threads)
    (score,) = app.score([flat_of(app, file)], job)
    return score


def write_peft(app: App, file: ModelFile, folder: Path) -> None:
    """Write the adapters as PEFT does, for `PeftModel.from_pretrained(base, folder)`.

    Raises:
        InputError: the app's model has no adapters of PEFT.
        ToolMissingError: PEFT is not installed.
    """
    try:
        from peft import PeftModel
    except ImportError as error:
        raise ToolMissingError(f"--peft needs peft, which is not installed: {pip_install('hf')}") from error
    network = network_of(app, file)
    if not isinstance(network, PeftModel):
        raise InputError(f"--peft: the model of app {app.name} is a {type(network).__name__}, no PeftModel")
    network.save_pretrained(str(folder))


def write_onnx(app: App, file: ModelFile, where: str | None, out: Path) -> None:
    """Write the model as ONNX, traced with two of the samples that the app holds out; any size of a batch fits.

    Raises:
        AppError: torch cannot export this model.
        ToolMissingError: what torch needs for it is not installed.
    """
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ToolMissingError(
            f"--onnx needs {error.name}, which is not installed: {pip_install('onnx')}"
        ) from error

    network = network_of(app, file)
    example = _example(app, where)
    sizes = ({0: torch.export.Dim.DYNAMIC},)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)

    # torch warns of its own internals; what matters to the user is whether it exported.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = torch.onnx.export(
                network,
                (example,),
                dynamo=True,
                dynamic_shapes=sizes,
                verbose=False,
                input_names=["x"],
                output_names=["y"],
            )
    except Exception as error:
        message = " ".join(str(error).split())[:200]
        raise AppError(f"{app.source.main}: torch cannot export this model to ONNX: {message}") from None

    assert made is not None
    made.save(str(out))


def _example(app: App, where: str | None) -> torch.Tensor:
    """Inputs of two held-out samples.

    Raises:
        AppError: the samples are no tensors, or pairs that begin with one.
    """
    _, held_out = app.data(where)
    batch: Any = first(held_out, _EXAMPLES)
    if not isinstance(batch, tuple | torch.Tensor | np.ndarray):
        batch = next(iter(batch if isinstance(batch, DataLoader) else DataLoader(batch, _EXAMPLES)))

    # Pairs begin with the inputs; labels are not traced.
    if isinstance(batch, tuple | list):
        batch = batch[0]
    found = torch.as_tensor(batch) if isinstance(batch, np.ndarray) else batch
    if not isinstance(found, torch.Tensor):
        raise AppError(
            f"{app.source.main}: --onnx needs samples that are tensors, or pairs that begin with one"
        )
    return found
