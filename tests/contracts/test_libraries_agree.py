"""The contracts' libraries and `chainfl.protocol` give the same integers, on thousands of random cases each."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from chainfl import artifacts
from chainfl.protocol import draw, rewards, shares
from chainfl.types import TOTAL, WAD, Digest, Id, Statistic
from tests.contracts.evm import Deployed

HARNESS = Path(__file__).parents[2] / "contracts" / "test" / "artifacts" / "RulesHarness.json"
CASES = {"fast": 200, "default": 2_000, "deep": 100_000}[os.environ.get("CHAINFL_TEST_DEPTH", "default")]
LOSS, DISTANCE, BIT = 0, 1, 2
UNAVAILABLE = {LOSS: 2**64 - 1, DISTANCE: 2**128 - 1}


@pytest.fixture(scope="module")
def rules() -> Deployed:
    """The libraries in an EVM."""
    return Deployed(artifacts.parse(HARNESS.read_text(encoding="utf-8")))


def _cases(name: str) -> Iterator[Random]:
    """One generator per case, so that a failing one can be played alone."""
    return (Random(f"{name} {number}") for number in range(CASES))


def _size(rng: Random) -> int:
    """How many updates: mostly few, for a case with many costs as much as ten with few."""
    return rng.randint(1, rng.choice([4, 12, 12, 128]))


def _statistics(rng: Random, count: int) -> list[int]:
    spread = 10 ** rng.randint(0, 25)
    return [(2**64 - 2) * 10**6 if rng.random() < 0.05 else rng.randrange(spread) for _ in range(count)]


def test_softmax_gives_the_same_shares(rules: Deployed) -> None:
    for rng in _cases("softmax"):
        count = _size(rng)
        beta = rng.choice([0, 1, WAD, 10 * WAD, 1000 * WAD, rng.randrange(1000 * WAD)])
        statistics, available = _statistics(rng, count), rng.randint(count, TOTAL)

        found = rules.one("softmax", statistics, beta, available)

        assert list(found) == shares.softmax(statistics, beta, available)


def test_parts_by_samples_and_equal_parts_are_the_same(rules: Deployed) -> None:
    for rng in _cases("samples"):
        count = _size(rng)
        samples, available = (
            [rng.randint(1, 10 ** rng.randint(1, 15)) for _ in range(count)],
            rng.randint(count, TOTAL),
        )

        assert list(rules.one("bySamples", samples, available)) == shares.by_count(samples, available)
        assert list(rules.one("equal", count, available)) == shares.equal([True] * count, available)


def test_draw_finds_the_same_accounts(rules: Deployed) -> None:
    for rng in _cases("draw"):
        count = rng.randint(1, rng.choice([5, 12, 40]))
        weights = [rng.choice([0, rng.randrange(10), rng.randrange(2**32 // 40)]) for _ in range(count)]
        excluded = rng.sample(range(count), rng.randint(0, min(count, 5)))
        seed, wanted = Digest(rng.randbytes(32)), rng.randint(0, count + 2)
        rules.call("treeSetAll", weights + [0] * (40 - count))

        found = rules.one("treeDraw", seed, excluded, wanted)

        left = [(Id(id_), weight) for id_, weight in enumerate(weights) if id_ not in excluded]
        assert list(found) == draw.draw_ids(seed, left, wanted)


@pytest.mark.parametrize("kind", [LOSS, DISTANCE])
def test_scores_give_the_same_inclusion_statistics_and_deviations(rules: Deployed, kind: int) -> None:
    width, factor = (8, 10**6) if kind == LOSS else (16, 1)
    for rng in _cases(f"scores {kind}"):
        size, statistic = rng.choice([3, 3, 5, 5, 7, 45]), rng.choice(list(Statistic))
        updates, silent = rng.randint(0, 12), {j for j in range(size) if rng.random() < 0.1}
        scores_RC = _scores(rng, kind, updates, size)
        reveals = [
            b"" if j in silent else bytes(8) + b"".join(row[j].to_bytes(width, "big") for row in scores_RC)
            for j in range(size)
        ]

        included, withheld, statistics, _, _ = rules.call("judge", reveals, kind, int(statistic), updates)

        gaps_CK: list[list[int | None]] = [[] for _ in range(size)]
        for i, row in enumerate(scores_RC):
            numbers = [s for j, s in enumerate(row) if j not in silent and s != UNAVAILABLE[kind]]
            counts = len(numbers) >= shares.majority(size)
            assert bool(included >> i & 1) == counts
            said = [s != UNAVAILABLE[kind] for j, s in enumerate(row) if j not in silent]
            assert bool(withheld >> i & 1) == shares.is_withheld(said, size)
            if not counts:
                continue
            value = shares.statistic_of(numbers, statistic, factor, size)
            assert statistics[i] == value
            for j, score in enumerate(row):
                gaps_CK[j].append(None if score == UNAVAILABLE[kind] else abs(score * factor - value))
        for j in {0, size - 1} - silent if included else set():
            cap = _cap(rng, gaps_CK[j])
            found = rules.one("deviation", reveals[j], kind, included, list(statistics), cap)
            assert found == rewards.deviation(gaps_CK[j], cap)


def _scores(rng: Random, kind: int, updates: int, size: int) -> list[list[int]]:
    """Scores that are close, far apart or anything, of them none, few or many that are extreme or no number."""
    limit, wildness = UNAVAILABLE[kind], rng.choice([0, 0, 0.03, 0.25])
    spread = 10 ** rng.randint(0, 19 if kind == LOSS else 38)

    def score() -> int:
        if rng.random() < wildness:
            return rng.choice([limit, limit - 1, 0, rng.randrange(limit)])
        return min(limit - 1, rng.choice([0, 10**12]) + rng.randrange(spread))

    return [[score() for _ in range(size)] for _ in range(updates)]


def _cap(rng: Random, gaps: Sequence[int | None]) -> int:
    """A cap of any size, or one beside a gap or a power of two."""
    largest = max((gap for gap in gaps if gap is not None), default=0)
    near = rng.choice([largest, rng.choice(gaps) or 0, 1 << largest.bit_length()])
    chosen = rng.choice([0, 1, near, near, rng.getrandbits(rng.randint(1, 128))])
    return min(2**128 - 1, max(0, chosen + rng.choice([-1, 0, 0, 1])))


def test_ranking_gives_the_same_order(rules: Deployed) -> None:
    for rng in _cases("rank"):
        count = _size(rng)
        statistics = [rng.randrange(rng.choice([3, 2**128])) for _ in range(count)]

        found = rules.one("rank", (1 << count) - 1, statistics)

        assert list(found) == shares.rank(statistics)


def test_committee_is_paid_the_same(rules: Deployed) -> None:
    for rng in _cases("pay"):
        devs = [rng.randrange(10 ** rng.randint(0, 36)) for _ in range(rng.randint(1, 9))]
        amount = rng.randrange(10**24)

        found = [rules.one("ofValidator", amount, dev, sum(devs), len(devs)) for dev in devs]

        assert found == rewards.committee_pay(devs, amount)
