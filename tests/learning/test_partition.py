import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfl.errors import InputError, PartitionError, UnknownNameError
from chainfl.learning import partition as deal
from chainfl.learning.dataset import Dataset, Labels

SEEDS = st.integers(0, 2**63 - 1)


def labels_of(samples: int, classes: int = 10) -> Labels:
    return np.arange(samples, dtype=np.int64) * 7 % classes


def dataset_of(samples: int, **groups: Labels) -> Dataset:
    x, y = np.zeros((samples, 2), np.float32), labels_of(samples)
    return Dataset("made-up", x, y, x, y, 10, groups)


def assert_disjoint(parts: deal.Parts, samples: int) -> None:
    rows = np.concatenate(parts)
    assert len(np.unique(rows)) == len(rows)
    assert rows.min() >= 0
    assert rows.max() < samples
    assert min(map(len, parts)) >= deal.MIN_SAMPLES


@given(clients=st.integers(1, 30), spare=st.integers(0, 200), seed=SEEDS)
def test_iid_deals_every_sample_once_and_evenly(clients: int, spare: int, seed: int) -> None:
    samples = 2 * clients + spare

    parts = deal.iid(labels_of(samples), clients, seed)

    assert_disjoint(parts, samples)
    assert sum(map(len, parts)) == samples
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(clients=st.integers(1, 30), spare=st.integers(0, 200), seed=SEEDS, concentration=st.floats(0.01, 100))
def test_dirichlet_deals_every_sample_once_and_leaves_nobody_empty(
    clients: int, spare: int, seed: int, concentration: float
) -> None:
    samples = 2 * clients + spare

    parts = deal.dirichlet(labels_of(samples), clients, seed, concentration=concentration)

    assert_disjoint(parts, samples)
    assert sum(map(len, parts)) == samples


def test_a_smaller_lambda_makes_mixes_and_sizes_more_unequal() -> None:
    labels = labels_of(6000)

    def inequality(concentration: float) -> tuple[float, float]:
        parts = deal.dirichlet(labels, 20, 1, concentration=concentration)
        mixes = [np.bincount(labels[part], minlength=10) / len(part) for part in parts]
        return float(np.std([len(part) for part in parts])), float(np.mean([mix.max() for mix in mixes]))

    assert inequality(0.1) > inequality(1.0) > inequality(100.0)
    assert inequality(0.1)[1] > inequality(1.0)[1] > inequality(100.0)[1]


@given(clients=st.integers(1, 12), per_client=st.integers(1, 4), seed=SEEDS)
def test_shards_give_equal_parts_of_few_labels(clients: int, per_client: int, seed: int) -> None:
    labels = labels_of(960)

    parts = deal.shards(labels, clients, seed, per_client=per_client)

    assert_disjoint(parts, 960)
    assert {len(part) for part in parts} == {960 // (clients * per_client) * per_client}


def test_shards_of_a_given_size_hold_one_class_each_as_in_varsel() -> None:
    labels = np.repeat(np.arange(10, dtype=np.int64), 6000)

    parts = deal.shards(labels, 60, 4, per_client=2, size=500)

    assert_disjoint(parts, 60_000)
    assert {len(part) for part in parts} == {1000}
    assert max(len(np.unique(labels[part])) for part in parts) == 2


def test_arithmetic_sizes_are_those_of_the_paper() -> None:
    assert deal.arithmetic_sizes(100, 50_000) == tuple(range(104, 897, 8))


def size_percent(parts: deal.Parts, samples: int) -> int:
    """The part of the samples whose arithmetic sizes these are."""
    sizes = tuple(map(len, parts))
    return next(
        p for p in range(100, 79, -1) if deal.arithmetic_sizes(len(parts), samples * p // 100) == sizes
    )


@given(seed=SEEDS)
def test_unbalanced_parts_have_their_sizes_and_one_to_five_labels(seed: int) -> None:
    labels = labels_of(5000)

    parts = deal.unbalanced(labels, 20, seed, label_cap=5)

    counts = [len(np.unique(labels[part])) for part in parts]
    assert_disjoint(parts, 5000)
    assert size_percent(parts, 5000) >= 80
    assert max(counts) <= 5
    assert len(set(counts)) > 1


@pytest.mark.parametrize("seed", range(3))
def test_unbalanced_parts_of_classes_of_different_sizes(seed: int) -> None:
    mnist = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
    labels = np.repeat(np.arange(10), mnist)

    parts = deal.unbalanced(labels, 100, seed, label_cap=5)

    assert_disjoint(parts, 60_000)
    assert size_percent(parts, 60_000) >= 90
    assert max(len(np.unique(labels[part])) for part in parts) <= 5


def test_natural_clients_hold_what_one_owner_made() -> None:
    owners = np.array([5, 7, 5, 9, 7, 5, 9, 3], np.int64)

    parts = deal.natural(owners, 3, seed=0)

    assert [part.tolist() for part in parts] == [[0, 2, 5], [1, 4], [3, 6]]


@given(samples=st.integers(2, 300), seed=SEEDS, fraction=st.floats(0.01, 0.99))
def test_holding_out_keeps_every_row_on_one_side(samples: int, seed: int, fraction: float) -> None:
    rows = np.arange(100, 100 + samples)

    holding = deal.hold_out(rows, seed, fraction)

    assert sorted([*holding.train, *holding.held]) == rows.tolist()
    assert len(holding.train) >= 1
    assert len(holding.held) >= 1


def test_a_tenth_is_held_out() -> None:
    assert len(deal.hold_out(np.arange(300), seed=1).held) == 30


@pytest.mark.parametrize(
    "how", ["iid", "dirichlet:lambda=0.1", "shards", "unbalanced:labels=5", "natural", "writer"]
)
def test_the_same_seed_deals_the_same_and_another_seed_does_not(how: str) -> None:
    dataset = dataset_of(600, writer=np.arange(600, dtype=np.int64) // 10)

    first, again, other = (deal.partition(dataset, how, 10, seed) for seed in (1, 1, 2))

    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_natural_prefers_the_smallest_owner_a_data_set_names() -> None:
    dataset = dataset_of(40, play=np.zeros(40, np.int64), role=np.arange(40, dtype=np.int64) // 4)

    assert len(deal.partition(dataset, "natural", 10, 0)) == 10
    assert len(deal.partition(dataset, "play", 1, 0)[0]) == 40


@pytest.mark.parametrize(
    ("how", "clients", "message"),
    [
        ("iid", 0, "at least one client"),
        ("iid", 301, "600 samples are too few for 301 clients"),
        ("dirichlet:lambda=0", 10, "lambda must be a positive number"),
        ("shards:per=2,size=50", 10, "need 20 shards, 600 samples give 10"),
        ("unbalanced:labels=11", 10, "labels must be 1…10"),
        ("unbalanced:labels=1", 10, "allow more labels"),
        ("natural", 10, "does not name the owners"),
        ("role", 10, "no owners by role"),
    ],
)
def test_what_cannot_be_dealt_is_refused_with_the_reason(how: str, clients: int, message: str) -> None:
    with pytest.raises(PartitionError, match=message):
        deal.partition(dataset_of(600), how, clients, 1)


def test_too_few_owners_are_refused() -> None:
    dataset = dataset_of(10, writer=np.arange(10, dtype=np.int64) // 2)

    with pytest.raises(PartitionError, match="6 clients, but 5 owners"):
        deal.partition(dataset, "natural", 6, 1)


def test_unknown_partitions_and_parameters_list_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="dirichlet"):
        deal.partition(dataset_of(10), "by-moon", 2, 1)
    with pytest.raises(UnknownNameError, match="lambda"):
        deal.partition(dataset_of(10), "dirichlet:alpha=1", 2, 1)
    with pytest.raises(InputError, match="must be a number"):
        deal.partition(dataset_of(10), "dirichlet:lambda=much", 2, 1)


def test_bad_hold_outs_and_seeds_are_refused() -> None:
    with pytest.raises(PartitionError, match="at least 2"):
        deal.hold_out(np.arange(1), 0)
    with pytest.raises(PartitionError, match="between 0 and 1"):
        deal.hold_out(np.arange(9), 0, 1.0)
    with pytest.raises(InputError, match="negative"):
        deal.iid(labels_of(10), 2, -1)
