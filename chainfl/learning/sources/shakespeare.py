"""The plays of Shakespeare, speech by speech: predict the next character of a role from the 80 before it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from chainfl.learning.dataset import Array
from chainfl.learning.sources.files import expect, unpack

WINDOW = 80
STRIDE = 8
"""One sample every eight characters: at each character, as LEAF does it, neighbours are all but equal."""
CLASSES = 80
TEST_SHARE = 5
"""The last fifth of every role's samples is test, as in LEAF."""
SIX = ("allswell", "much_ado", "pericles", "1henryiv", "taming_shrew", "lear")
"""VaRSeL's six plays, in the order of its table 3; owners by play have these numbers."""
FILES = {"plays": ("shakespeare_speeches.json.xz", "shakespeare_speeches.json")}


def decode_shakespeare(found: Mapping[str, Path]) -> dict[str, Array]:
    """Windows of 80 character codes and the code that follows; owners are roles, or plays (many roles)."""
    arrays = _decoded(_texts_by_role(found["plays"]), found["plays"])
    return {name: array for name, array in arrays.items() if not name.startswith("test_")}


def decode_six(found: Mapping[str, Path]) -> dict[str, Array]:
    """The same of VaRSeL's six plays alone, and who speaks each test sample."""
    path = found["plays"]
    texts = _texts_by_role(path)
    missing = [play for play in SIX if play not in {name for name, _ in texts}]
    expect(not missing, path, f"no play {', '.join(missing)}")

    of_six = {role: text for role, text in texts.items() if role[0] in SIX}
    return _decoded(dict(sorted(of_six.items(), key=lambda item: SIX.index(item[0][0]))), path)


def _decoded(texts: Mapping[tuple[str, str], str], path: Path) -> dict[str, Array]:
    alphabet = sorted({character for text in texts.values() for character in text})
    expect(
        len(alphabet) < CLASSES,
        path,
        f"{len(alphabet)} different characters, more than {CLASSES - 1}",
    )
    codes = {character: code for code, character in enumerate(alphabet, start=1)}
    plays = {play: number for number, play in enumerate(dict.fromkeys(play for play, _ in texts))}

    parts: dict[str, list[Array]] = {
        name: []
        for name in ("x", "y", "x_test", "y_test", "group_role", "group_play", "test_role", "test_play")
    }
    for role, ((play, _), text) in enumerate(texts.items()):
        x, y = _windows(np.array([codes[character] for character in text], np.uint8))
        cut = len(y) - len(y) // TEST_SHARE
        parts["x"].append(x[:cut])
        parts["y"].append(y[:cut])
        parts["x_test"].append(x[cut:])
        parts["y_test"].append(y[cut:])
        for kind, owner in (("role", role), ("play", plays[play])):
            parts[f"group_{kind}"].append(np.full(cut, owner, np.int64))
            parts[f"test_{kind}"].append(np.full(len(y) - cut, owner, np.int64))
    return {name: np.concatenate(pieces) for name, pieces in parts.items()}


def _windows(text: Array) -> tuple[Array, Array]:
    starts = np.arange(0, max(0, len(text) - WINDOW), STRIDE)
    if not len(starts):
        return np.zeros((0, WINDOW), np.uint8), np.zeros(0, np.int64)
    return text[starts[:, None] + np.arange(WINDOW)], text[starts + WINDOW].astype(np.int64)


def _texts_by_role(path: Path) -> dict[tuple[str, str], str]:
    try:
        plays: list[dict[str, Any]] = json.loads(unpack(path).decode("utf-8"))

        speeches: dict[tuple[str, str], list[str]] = {}
        for play in plays:
            for role, _act, _scene, text in play["speeches"]:
                speeches.setdefault((play["play"], role), []).append(text)
        texts = {role: "\n".join(lines) for role, lines in speeches.items()}
    except (ValueError, KeyError, TypeError) as problem:
        expect(False, path, f"not a list of plays with their speeches: {problem}")
        raise
    expect(
        any(len(text) > WINDOW for text in texts.values()),
        path,
        f"no role speaks more than {WINDOW} characters",
    )
    return texts
