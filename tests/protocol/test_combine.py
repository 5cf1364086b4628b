import itertools
import json
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from chainfl.codec.vector import Vector, to_bytes, view_bytes
from chainfl.errors import InputError, LengthError, SharesError
from chainfl.protocol import combine as rules
from chainfl.protocol.combine import TOTAL, combine, combine_ranks
from chainfl.protocol.shares import equal

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "combine.json").read_text())
CASES = [dict(zip(VECTORS, row, strict=True)) for row in zip(*VECTORS.values(), strict=True)]

EXTREMES = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1], np.uint32)


@pytest.fixture(scope="module", params=["compiled", "plain"], autouse=True)
def backend(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHAINFL_NO_NUMBA", "1" if request.param == "plain" else "0")
        yield


def on_ranks(kept: range, updates: int, head_share: int = 0) -> tuple[int, ...]:
    """p_0 and equal shares on the kept ranks."""
    return (head_share, *equal([rank in kept for rank in range(updates)], TOTAL - head_share))


@dataclass(frozen=True, slots=True)
class Stored:
    """A model that is fetched in slices and remembers them."""

    parameters: Vector
    read: list[slice] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.parameters)

    def __getitem__(self, part: slice, /) -> NDArray[np.uint32]:
        self.read.append(part)
        return self.parameters[part].astype(">u4")


@dataclass(frozen=True, slots=True)
class Untouchable:
    """A model that must not be read."""

    def __len__(self) -> int:
        raise AssertionError

    def __getitem__(self, part: slice, /) -> NDArray[np.uint32]:
        raise AssertionError


@st.composite
def models(draw: st.DrawFn, largest_k: int = 12, largest_d: int = 50) -> NDArray[np.uint32]:
    """The head and K updates, (K + 1, D), with extreme values and equal ones among them."""
    K, D = draw(st.integers(1, largest_k)), draw(st.integers(1, largest_d))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kinds = rng.integers(0, 3, (K + 1, D))
    near = (2**31 + rng.integers(-4, 5, (K + 1, D))).astype(np.uint32)
    return np.choose(
        kinds, [rng.choice(EXTREMES, (K + 1, D)), rng.integers(0, 2**32, (K + 1, D), np.uint32), near]
    )


@st.composite
def shares_for(draw: st.DrawFn, count: int) -> list[int]:
    """Any non-negative integers with sum 2^31, zeros among them."""
    cuts = draw(
        st.lists(st.integers(0, TOTAL) | st.sampled_from([0, TOTAL]), min_size=count - 1, max_size=count - 1)
    )
    ends = [0, *sorted(cuts), TOTAL]
    return draw(st.permutations([b - a for a, b in itertools.pairwise(ends)]))


def by_the_book(rows: list[list[int]], shares: list[int]) -> list[int]:
    return [
        (sum(p * u for p, u in zip(shares, column, strict=True)) + 2**30) >> 31
        for column in zip(*rows, strict=True)
    ]


def sorted_columns(rows: list[list[int]]) -> list[list[int]]:
    return [list(row) for row in zip(*(sorted(column) for column in zip(*rows, strict=True)), strict=True)]


@given(models(), st.data())
def test_combining_is_the_formula_in_python_integers(
    models_KD: NDArray[np.uint32], data: st.DataObject
) -> None:
    shares = data.draw(shares_for(len(models_KD)))

    found = combine(models_KD[0], list(models_KD[1:]), shares)

    assert found.dtype == np.uint32
    assert found.tolist() == by_the_book(models_KD.tolist(), shares)


@given(models(), st.data())
def test_combining_ranks_is_the_formula_on_sorted_columns(
    models_KD: NDArray[np.uint32], data: st.DataObject
) -> None:
    shares = data.draw(shares_for(len(models_KD)))
    head, *updates = models_KD.tolist()

    found = combine_ranks(models_KD[0], list(models_KD[1:]), shares)

    assert found.tolist() == by_the_book([head, *sorted_columns(updates)], shares)


@given(models(), st.data())
def test_the_order_of_updates_changes_nothing(models_KD: NDArray[np.uint32], data: st.DataObject) -> None:
    shares = data.draw(shares_for(len(models_KD)))
    order = data.draw(st.permutations(range(1, len(models_KD))))
    head, updates, turned = models_KD[0], list(models_KD[1:]), [models_KD[k] for k in order]

    by_update = combine(head, turned, [shares[0], *(shares[k] for k in order)])
    by_rank = combine_ranks(head, turned, shares)

    assert by_update.tolist() == combine(head, updates, shares).tolist()
    assert by_rank.tolist() == combine_ranks(head, updates, shares).tolist()


@given(models(largest_d=300), st.data())
def test_chunks_and_readers_and_byte_order_change_nothing(
    models_KD: NDArray[np.uint32], data: st.DataObject
) -> None:
    shares, chunk = data.draw(shares_for(len(models_KD))), data.draw(st.integers(1, 301))
    head, updates = models_KD[0], list(models_KD[1:])
    in_bytes = [view_bytes(to_bytes(u), u.size) for u in updates]
    stored = [Stored(u) for u in updates]

    for rule in (combine, combine_ranks):
        expected = rule(head, updates, shares).tolist()

        assert rule(head, in_bytes, shares).tolist() == expected
        assert rule(Stored(head), stored, shares, chunk=chunk).tolist() == expected

    assert all(part.stop - part.start <= chunk for each in stored for part in each.read)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("K", [1, 2, 3, 4, 7, 20])
def test_threads_change_nothing(K: int, threads: int) -> None:
    models_KD = np.random.default_rng(K).integers(0, 2**32, (K + 1, 70_001), np.uint32)
    head, updates = models_KD[0], list(models_KD[1:])
    b = (K - 1) // 3
    shares = on_ranks(range(b, K - b), K, TOTAL // 3)
    weights = np.array(shares, np.uint64)[:, None]

    by_update = combine(head, updates, shares, threads=threads)
    by_rank = combine_ranks(head, updates, shares, threads=threads)

    ordered_KD = np.concatenate([models_KD[:1], np.sort(models_KD[1:], axis=0)])
    assert np.array_equal(by_update, (np.sum(models_KD * weights, axis=0) + 2**30) >> 31)
    assert np.array_equal(by_rank, (np.sum(ordered_KD * weights, axis=0) + 2**30) >> 31)


@pytest.mark.parametrize("K", [1, 2, 3, 16, 17, 64, 100, 127, 128])
def test_any_number_of_updates_is_ranked(K: int) -> None:
    updates_KD = np.random.default_rng(K).integers(0, 2**32, (K, 200), np.uint32)
    ordered_KD = np.sort(updates_KD, axis=0)

    for rank in {0, K // 3, K - 1}:
        found = combine_ranks(None, list(updates_KD), on_ranks(range(rank, rank + 1), K))

        assert np.array_equal(found, ordered_KD[rank])


def test_what_has_no_share_is_not_touched() -> None:
    u = np.arange(5, dtype=np.uint32)

    assert combine(Untouchable(), [Untouchable(), u, Untouchable()], [0, 0, TOTAL, 0]).tolist() == u.tolist()
    assert combine(None, [None, u, None], [0, 0, TOTAL, 0]).tolist() == u.tolist()
    assert combine(u, [Untouchable()], [TOTAL, 0]).tolist() == u.tolist()
    assert combine_ranks(Untouchable(), [u], [0, TOTAL]).tolist() == u.tolist()


def test_streaming_holds_one_chunk_per_input() -> None:
    K, D, chunk = 12, 200_000, 1 << 14
    updates = [Stored(np.full(D, k, np.uint32)) for k in range(K)]
    shares = on_ranks(range(K), K)
    combine(None, updates, shares, chunk=chunk)

    tracemalloc.start()
    combine(None, updates, shares, chunk=chunk)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 2 * 4 * D + K * 4 * chunk


def test_what_has_a_share_must_be_there() -> None:
    with pytest.raises(InputError, match="missing"):
        combine(None, [np.zeros(3, np.uint32)], [1, TOTAL - 1])


def test_the_result_may_take_the_place_of_an_input() -> None:
    models_KD = np.random.default_rng(5).integers(0, 2**32, (3, 40_000), np.uint32)
    shares = [TOTAL // 2, TOTAL // 4, TOTAL // 4]
    expected = combine(models_KD[0], list(models_KD[1:]), shares)
    head = models_KD[0].copy()

    assert combine(head, list(models_KD[1:]), shares, out=head) is head
    assert np.array_equal(head, expected)


@pytest.mark.parametrize(
    ("shares", "fault"),
    [
        ([TOTAL], "1 shares for 2 updates: give p_0 and one each, 3"),
        ([TOTAL, 0, 0, 0], "4 shares for 2 updates"),
        ([TOTAL + 1, 0, -1], "share p_2 is -1"),
        ([TOTAL, 1, 0], "shares sum to 2147483649, not to 2"),
        ([0, 0, 0], "shares sum to 0"),
        ([TOTAL - 1, 0.5, 0.5], "share p_1 is 0.5: shares are integers"),
        (np.array([TOTAL, TOTAL, TOTAL], np.uint32), "shares sum to 6442450944"),
    ],
)
def test_shares_that_are_not_a_whole_are_refused(shares: list[int], fault: str) -> None:
    updates = [np.zeros(3, np.uint32), np.ones(3, np.uint32)]
    out = np.full(3, 7, np.uint32)

    for rule in (combine, combine_ranks):
        with pytest.raises(SharesError, match=fault):
            rule(updates[0], updates, shares, out=out)

    assert out.tolist() == [7, 7, 7]


def test_inputs_that_are_no_vectors_of_one_length_are_refused() -> None:
    u, longer = np.zeros(3, np.uint32), np.zeros(4, np.uint32)
    shares = [TOTAL // 2, TOTAL // 2]

    with pytest.raises(LengthError, match="input 1 has 4 parameters, the first one 3"):
        combine(u, [longer], shares)
    with pytest.raises(InputError, match="holds uint32, not int64"):
        combine(u, [np.zeros(3, np.int64)], shares)
    with pytest.raises(LengthError, match="3 parameters are to be written"):
        combine(u, [u], shares, out=longer)
    with pytest.raises(InputError, match="out must be"):
        combine(u, [u], shares, out=np.zeros(6, np.uint32)[::2])
    with pytest.raises(InputError, match="chunk is 0"):
        combine(u, [u], shares, chunk=0)
    with pytest.raises(InputError, match="threads is 0"):
        combine(u, [u], shares, threads=0)


@given(models(largest_d=200))
def test_squared_distances_are_exact(models_KD: NDArray[np.uint32]) -> None:
    rows = models_KD.tolist()
    exact = [[sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for y in rows] for x in rows]

    assert rules.squared_distances(models_KD[0], list(models_KD[1:])) == exact[0][1:]
    assert rules.pairwise_squared_distances(list(models_KD)) == exact


def test_squared_distances_hold_beyond_64_bits_and_in_slices() -> None:
    D = 50_000
    low, high, near = np.zeros(D, np.uint32), np.full(D, 2**32 - 1, np.uint32), np.arange(D, dtype=np.uint32)
    squares = D * (2**32 - 1) ** 2, sum(n**2 for n in range(D)), sum((2**32 - 1 - n) ** 2 for n in range(D))
    expected = [[0, squares[0], squares[1]], [squares[0], 0, squares[2]], [squares[1], squares[2], 0]]

    assert rules.pairwise_squared_distances([low, high, near]) == expected
    assert (
        rules.pairwise_squared_distances([Stored(low), high, Stored(near)], threads=3, chunk=7001) == expected
    )
    assert rules.squared_distances(low, [near]) == [squares[1]]


@pytest.mark.parametrize("gap", [2**26 - 1, 2**26, 2**27, 2**31])
def test_squared_distances_do_not_depend_on_how_far_rows_lie_apart(gap: int) -> None:
    first = np.full(1100, 2**31, np.uint32)
    below, above = first - np.uint32(gap), first + np.uint32(gap - 1)

    found = rules.pairwise_squared_distances([first, below, above])

    assert found[0][1:] == [1100 * gap**2, 1100 * (gap - 1) ** 2]
    assert found[1][2] == 1100 * (2 * gap - 1) ** 2


def test_nothing_to_compare_gives_no_distances() -> None:
    assert rules.squared_distances(np.zeros(3, np.uint32), []) == []
    assert rules.pairwise_squared_distances([np.zeros(3, np.uint32)]) == [[0]]
    assert rules.pairwise_squared_distances([]) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['by']}-{case['result']}")
def test_published_vectors_hold(case: dict[str, str]) -> None:
    shares = np.frombuffer(bytes.fromhex(case["shares"][2:]), ">u4").tolist()
    head, *updates = np.frombuffer(bytes.fromhex(case["values"][2:]), ">u4").reshape(-1, 1)
    rule = {"update": combine, "rank": combine_ranks}[case["by"]]

    assert rule(head, updates, shares).tolist() == [int(case["result"])]
