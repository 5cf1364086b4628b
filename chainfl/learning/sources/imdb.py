"""Large Movie Review Dataset (aclImdb v1): 50,000 reviews as word numbers, positive or negative, by movie."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chainfl.learning.dataset import Array
from chainfl.learning.sources.files import expect, load_npz, locate, require, unpack

WORDS = 10_000
"""Word numbers: 0 is padding, 1 an unknown word, then the most frequent of the training reviews."""
LENGTH = 200
"""The first 200 words of a review, padded in front so that a recurrent network ends on the last word."""
WORD = re.compile(r"[a-z0-9']+")
FOLDERS = ("imdb", "aclImdb", ".")
TEXTS = {"reviews": ("imdb_reviews.txt.xz", "imdb_reviews.txt"), "meta": ("imdb_meta.npz",)}


@dataclass(frozen=True, slots=True, eq=False)
class Reviews:
    """Texts with their label (1 is positive), movie and part."""

    texts: list[str]
    label: Array
    movie: Array
    is_test: Array


def find_imdb(dataset: str, root: Path | None) -> dict[str, Path]:
    """The unpacked official archive (`aclImdb/train/pos/…`), or the two files that hold the same."""
    if root is not None and (folder := locate([root / folder for folder in FOLDERS], ["train/pos"])):
        return {"folder": folder.parent.parent}
    return require(dataset, root, FOLDERS, TEXTS)


def decode_imdb(found: Mapping[str, Path]) -> dict[str, Array]:
    """Word numbers as uint16 of Nx200; the owners are movies."""
    reviews = (
        _read_folder(found["folder"]) if "folder" in found else _read_files(found["reviews"], found["meta"])
    )

    words = [WORD.findall(text.lower().replace("<br />", " ")) for text in reviews.texts]
    number = vocabulary(words[row] for row in np.flatnonzero(~reviews.is_test))

    x = np.zeros((len(words), LENGTH), np.uint16)
    for row, review in enumerate(words):
        numbers = [number.get(word, 1) for word in review[:LENGTH]]
        x[row, LENGTH - len(numbers) :] = numbers

    train = ~reviews.is_test
    test = reviews.is_test
    return {
        "x": x[train],
        "y": reviews.label[train].astype(np.int64),
        "x_test": x[test],
        "y_test": reviews.label[test].astype(np.int64),
        "group_movie": reviews.movie[train].astype(np.int64),
    }


def vocabulary(reviews: Iterable[list[str]]) -> dict[str, int]:
    """Numbers of the most frequent words, from 2; ties go to the word that came first."""
    counts = Counter(word for review in reviews for word in review)
    return {word: number for number, (word, _) in enumerate(counts.most_common(WORDS - 2), start=2)}


def _read_files(reviews: Path, meta: Path) -> Reviews:
    try:
        texts = unpack(reviews).decode("utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError as problem:
        expect(False, reviews, f"not UTF-8 text: {problem}")
        raise
    facts = load_npz(meta)
    missing = {"label", "movie", "is_test"} - facts.keys()
    expect(not missing, meta, f"no array called {', '.join(sorted(missing))}")
    sizes = {name: len(facts[name]) for name in ("label", "movie", "is_test")}
    expect(set(sizes.values()) == {len(texts)}, meta, f"{sizes} entries for {len(texts)} reviews")
    expect(bool(np.isin(facts["label"], (0, 1)).all()), meta, "labels other than 0 and 1")
    return Reviews(texts, facts["label"], facts["movie"], facts["is_test"].astype(bool))


def _read_folder(folder: Path) -> Reviews:
    """The official layout: `train|test / pos|neg / ID_RATING.txt`, movies line by line in `urls_pos.txt`."""
    texts: list[str] = []
    facts: list[tuple[int, int, bool]] = []
    for part in ("train", "test"):
        for label, side in ((1, "pos"), (0, "neg")):
            movies = _movies(folder / part / f"urls_{side}.txt")
            paths = sorted((folder / part / side).glob("*_*.txt"), key=_review_number)
            expect(len(paths) > 0, folder / part / side, "no reviews")
            for path in paths:
                expect(_review_number(path) < len(movies), path, f"no movie in urls_{side}.txt")
                texts.append(" ".join(unpack(path).decode("utf-8", "replace").split("\n")))
                facts.append((label, movies[_review_number(path)], part == "test"))
    label_, movie, is_test = (np.array(column) for column in zip(*facts, strict=True))
    return Reviews(texts, label_, movie, is_test)


def _review_number(path: Path) -> int:
    number = path.stem.partition("_")[0]
    expect(number.isdigit(), path, "reviews are named NUMBER_RATING.txt")
    return int(number)


def _movies(path: Path) -> list[int]:
    found = re.findall(r"/title/tt(\d+)", unpack(path).decode("utf-8", "replace"))
    expect(len(found) > 0, path, "no movie addresses")
    return [int(number) for number in found]
