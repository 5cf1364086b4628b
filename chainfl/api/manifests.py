"""A task's manifest as the API answers it: both formats in one shape, with the place of every tensor."""

import json
from collections.abc import Iterator
from itertools import accumulate, islice
from typing import Final

from chainfl.api import schemas
from chainfl.codec.cid import Cid
from chainfl.codec.manifest import AnyManifest, AppManifest
from chainfl.codec.records import Layout, Manifest
from chainfl.types import WAD

MOST_TENSORS: Final = 10_000
"""Tensors that are listed: a hostile manifest of one megabyte names more than a browser should be sent."""


def manifest_document(cid: Cid, manifest: AnyManifest) -> schemas.Manifest:
    """What the task trains."""
    is_app = isinstance(manifest, AppManifest)
    settings = _app_settings(manifest) if isinstance(manifest, AppManifest) else _settings(manifest)

    return schemas.Manifest(
        cid=str(cid),
        format=2 if is_app else 1,
        model=settings.pop("model"),
        dataset=settings.pop("dataset", None),
        digest=manifest.digest if isinstance(manifest, AppManifest) else None,
        settings=settings,
        tensors=list(islice(_tensors(manifest.layout), MOST_TENSORS)),
    )


def _settings(manifest: Manifest) -> dict[str, str]:
    names = ("model", "dataset", "loss", "optimiser", "batch", "local_epochs", "seed", "score_samples")
    plain = {name: str(getattr(manifest, name)) for name in names}
    return plain | {"learning_rate": f"{manifest.learning_rate / WAD:g}"}


def _app_settings(manifest: AppManifest) -> dict[str, str]:
    """The sponsor's values for the app, without JSON's quotes; an app may name its model and data among them."""
    values = {each.name: _bare(each.value) for each in manifest.config}
    common = {"seed": str(manifest.seed), "score_samples": str(manifest.score_samples)}
    return {"model": manifest.app} | common | values


def _bare(value: str) -> str:
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return value  # a sponsor writes what it likes: shown as it is
    return found if isinstance(found, str) else value


def _tensors(layout: Layout) -> Iterator[schemas.NamedTensor]:
    firsts = accumulate((tensor.size for tensor in layout.tensors), initial=0)
    for tensor, first in zip(layout.tensors, firsts, strict=False):
        yield schemas.NamedTensor(name=tensor.name, shape=list(tensor.shape), first=first)
