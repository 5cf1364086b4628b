"""Samples as apps hand them on: anything with a length and places; counted, cut and dealt without opening a sample.

A torch Dataset, a DataLoader, tensors or arrays, a tuple or a dict of those side by side, a list, a pandas frame.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chainfl.errors import AppError
from chainfl.learning.dataset import Rows, Samples


@dataclass(slots=True)
class Partition:
    """Samples that the app loads and divides by itself: it gets a part's number, and says how many it trained on."""

    number: int
    of: int
    config: Mapping[str, str] = field(default_factory=dict)
    examples: int | None = None


def count(samples: Any) -> int | None:
    """How many there are; None where they cannot be counted."""
    if isinstance(samples, Partition):
        return samples.examples
    is_loader = hasattr(samples, "batch_sampler") and hasattr(samples, "dataset")
    held = (
        samples.dataset if is_loader else samples
    )  # a DataLoader counts batches, its data set counts samples
    if isinstance(held, Mapping):
        held = tuple(held.values())
    if isinstance(held, tuple) and held and all(hasattr(each, "__len__") for each in held):
        held = held[0]
    try:
        return len(held)
    except (TypeError, NotImplementedError):
        return None


def take(samples: Any, rows: Rows) -> Any:
    """These of the samples, as the same kind of thing.

    Raises:
        AppError: they cannot be taken apart.
    """
    if isinstance(samples, Samples):
        return Samples(samples.x, samples.y, samples.rows[rows])
    if isinstance(samples, tuple):
        return tuple(take(each, rows) for each in samples)
    if isinstance(samples, Mapping):  # columns by name
        return {name: take(each, rows) for name, each in samples.items()}
    if isinstance(samples, list):
        return [samples[int(row)] for row in rows]
    if hasattr(samples, "iloc"):
        return samples.iloc[rows]
    if isinstance(samples, np.ndarray):
        return samples[rows]

    import torch
    from torch.utils.data import Dataset, IterableDataset, Subset

    if isinstance(samples, torch.Tensor):
        return samples[torch.from_numpy(rows)]
    is_indexed = isinstance(samples, Dataset) and not isinstance(samples, IterableDataset)
    if is_indexed or (hasattr(samples, "__getitem__") and hasattr(samples, "__len__")):
        return Subset(samples, [int(row) for row in rows])
    raise AppError(
        f"data() gives a {type(samples).__name__}, which cannot be taken apart: give a Dataset, tensors, arrays or "
        "a list"
    )


def first(samples: Any, most: int) -> Any:
    """The first of them; all, where there are not more or they cannot be counted."""
    found = count(samples)
    is_whole = found is None or found <= most or isinstance(samples, Partition)
    return samples if is_whole else take(samples, np.arange(most))


def deal(samples: Any, clients: int, client: int, seed: int) -> Any:
    """One participant's part: equal parts at random, as `iid` deals them.

    Raises:
        AppError: there are too few, or they cannot be counted.
    """
    if clients == 1:
        return samples
    if isinstance(samples, Partition):
        return Partition(client, clients, samples.config)
    found = count(samples)
    if found is None:
        raise AppError(
            f"data() gives a {type(samples).__name__} without a length: it cannot be dealt to {clients} participants"
        )
    if found < clients:
        raise AppError(f"data() gives {found} samples, too few for {clients} participants")
    order = np.random.Generator(np.random.Philox(seed)).permutation(found)
    return take(samples, np.sort(np.array_split(order, clients)[client]).astype(np.int64))


def part_of(whole: tuple[Any, Any], clients: int, client: int, seed: int) -> tuple[Any, Any]:
    """One participant's part of what `data` gave: of the samples to train on, and of those held out."""
    train_on, held_out = whole
    return deal(train_on, clients, client, seed), deal(held_out, clients, client, seed + 1)
