"""Readers of bytes from strangers under mutated inputs: a minute of them in all, many more with --deep."""

import logging
from collections.abc import Iterator

import pytest

from tests.fuzz.run import Failure, check, fuzz, shrink
from tests.fuzz.target import CORPUS, Target
from tests.fuzz.targets import TARGETS

NEED_TORCH = ("trace", "participants")
DEEP_PART = 100_000
"""Executions of one test with --deep: parts with seeds of their own share the work among processes."""

every_target = pytest.mark.parametrize("name", TARGETS)


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """The API logs what it refuses."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


def target_of(name: str) -> Target:
    if name in NEED_TORCH:
        pytest.importorskip("torch")
    return TARGETS[name]


def describe(target: Target, failures: list[Failure]) -> str:
    """What broke it, with the input: `scripts/fuzz --replay` takes it from a file."""
    found = (shrink(target, failure) for failure in failures[:3])
    return "\n".join(f"{target.name}: {each.what}\n  input: {each.data!r}" for each in found)


@every_target
def test_known_inputs_are_accepted_or_refused(name: str) -> None:
    target = target_of(name)

    failures = [failure for data in target.corpus().values() if (failure := check(target, data))]

    assert not failures, describe(target, failures)


@every_target
def test_a_real_value_is_accepted(name: str) -> None:
    """Or only refusals would be tested. When a format has changed: python -m tests.fuzz.seeds."""
    target = target_of(name)
    seeds = [data for file, data in target.corpus().items() if file.startswith("seed-")]

    def accepts(data: bytes) -> bool:
        try:
            target.read(data)
        except target.errors:
            return False
        return True

    assert any(map(accepts, seeds))


@pytest.mark.slow
@every_target
def test_changed_inputs_are_accepted_or_refused(name: str) -> None:
    target = target_of(name)

    outcome = fuzz(target, target.runs)

    assert not outcome.failures, describe(target, outcome.failures)
    assert outcome.executions == target.runs


@pytest.mark.deep
@pytest.mark.parametrize(
    ("name", "part"),
    [(name, part) for name, target in TARGETS.items() for part in range(-(-target.deep_runs // DEEP_PART))],
)
def test_ten_million_changed_inputs_are_accepted_or_refused(name: str, part: int) -> None:
    target = target_of(name)
    runs = min(DEEP_PART, target.deep_runs - part * DEEP_PART)

    outcome = fuzz(target, runs, seed=1 + part)

    assert not outcome.failures, describe(target, outcome.failures)
    assert outcome.executions == runs


def test_ten_million_are_ten_million() -> None:
    assert sum(target.deep_runs for target in TARGETS.values()) >= 10_000_000


def test_the_corpus_is_small_and_has_no_folder_without_a_target() -> None:
    files = [path for path in CORPUS.rglob("*") if path.is_file()]

    assert {path.parent.name for path in files} == set(TARGETS)
    assert sum(path.stat().st_size for path in files) < 300_000
