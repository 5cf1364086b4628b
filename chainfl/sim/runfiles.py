"""The files in a run's folder: their names, and how they are read and written. Needs no torch."""

import json
from pathlib import Path
from typing import Any, Final

from chainfl.errors import InputError

EXPERIMENT: Final = "experiment.json"
METRICS: Final = "metrics.jsonl"
CHECKPOINT: Final = "checkpoint.json"
BLOBS: Final = "blobs"


def read_json(path: Path, missing: str) -> Any:
    """What a JSON file holds; `missing` is the error where there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: {missing}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error}") from None


def write_whole(path: Path, content: str | bytes) -> None:
    """Whole or not at all."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(content.encode() if isinstance(content, str) else content)
    fresh.replace(path)
