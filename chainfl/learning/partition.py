"""Deal the samples of a data set to participants: one array of row numbers each, disjoint, from an explicit seed.

Every way of dealing refuses what it cannot do rather than leave a participant without samples.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from chainfl import names
from chainfl.errors import InputError, PartitionError
from chainfl.learning.dataset import Dataset, Labels, Rows

Parts: TypeAlias = Sequence[Rows]

MIN_SAMPLES: Final = 2
"""One to train on and one to hold out: what every participant gets at least."""
HELD_OUT: Final = 0.1
"""The part of its data that a participant keeps for scoring."""


@dataclass(frozen=True, slots=True, eq=False)
class Holding:
    """One participant's rows: those it trains on, and those it keeps to score updates with."""

    train: Rows
    held: Rows


def iid(labels: Labels, clients: int, seed: int) -> Parts:
    """The same number for everybody (the first get one more), at random."""
    _check_clients(len(labels), clients)
    return _sorted(np.array_split(_rng(seed).permutation(len(labels)), clients))


def dirichlet(labels: Labels, clients: int, seed: int, *, concentration: float) -> Parts:
    """For every class, its samples are dealt by a Dirichlet draw, so sizes and label mixes differ (RADFed).

    A client with fewer than two samples is then filled up, sample by sample, from the largest one (the lowest
    index among equals), so that none is empty even at small concentrations.
    """
    if not 0 < concentration < float("inf"):
        raise PartitionError(f"dirichlet: lambda must be a positive number, not {concentration}")
    _check_clients(len(labels), clients)
    rng = _rng(seed)
    dealt: list[list[Rows]] = [[] for _ in range(clients)]

    for class_ in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == class_))
        # The class is cut at the sums of a draw: one client may get nearly all of it, another nothing.
        cuts = np.cumsum(rng.dirichlet(np.full(clients, concentration)))[:-1]
        for hand, part in zip(dealt, np.split(rows, (cuts * len(rows)).astype(np.int64)), strict=True):
            hand.append(part)
    return _sorted(_filled([np.concatenate(hand) for hand in dealt]))


def shards(
    labels: Labels,
    clients: int,
    seed: int,
    *,
    per_client: int,
    size: int | None = None,
    are_neighbours: bool = False,
) -> Parts:
    """Samples sorted by label, cut into equal shards, `per_client` of them to each (McMahan et al., 2017).

    `are_neighbours` gives a client shards that follow each other, so that it holds few labels however many shards
    it gets (VaRSeL's EMNIST: "with continuous category indices").

    With `size`, shards have exactly that many samples of one class, cut class by class (VaRSeL); else as many as
    an even cut of all samples gives. What is left over is not used.
    """
    if per_client < 1 or (size is not None and size < 1):
        raise PartitionError(f"shards: per-client and size must be at least 1, not {per_client} and {size}")
    _check_clients(len(labels), clients)

    rng = _rng(seed)
    order = rng.permutation(len(labels))
    # A stable sort of a shuffled order: by label, and at random within each.
    by_label = order[np.argsort(labels[order], kind="stable")]
    wanted = clients * per_client

    if size is None:
        cut = [
            by_label[k : k + len(labels) // wanted]
            for k in range(0, len(labels), max(1, len(labels) // wanted))
        ]
        # The last piece may be shorter than the others, and shards are equal.
        cut = [shard for shard in cut if len(shard) == len(labels) // wanted]
    else:
        classes = [by_label[labels[by_label] == class_] for class_ in np.unique(labels)]
        cut = [rows[k : k + size] for rows in classes for k in range(0, len(rows) - size + 1, size)]

    if len(cut) < wanted or len(cut[0]) * per_client < MIN_SAMPLES:
        raise PartitionError(
            f"shards: {clients} clients with {per_client} each need {wanted} shards, "
            f"{len(labels)} samples give {len(cut)}; take fewer clients or smaller shards"
        )

    if are_neighbours:
        # A client's shards begin at a multiple of `per_client`, so that no two clients share one.
        starts = rng.permutation(len(cut) // per_client)[:clients] * per_client
        chosen = starts[:, None] + np.arange(per_client)
    else:
        chosen = rng.permutation(len(cut))[:wanted].reshape(clients, per_client)
    return _sorted([np.concatenate([cut[shard] for shard in own]) for own in chosen])


def alike(labels: Labels, parts: Parts, count: int, seed: int) -> Parts:
    """The first `count` parts with as many samples of each label as the very first one has (VaRSeL's D_1 = … = D_M).

    What a part lacks is taken from the others at random; they get in exchange what it held before.

    Raises:
        PartitionError: there are not enough samples of these labels.
    """
    dealt = [np.array(part) for part in parts]
    rng = _rng(seed)

    for taker in range(1, count):
        settled = np.concatenate(dealt[:taker])
        free = np.setdiff1d(np.arange(len(labels)), settled)

        # Nothing is taken from the parts that are done, the first one included.
        fresh = np.concatenate(
            [
                _some_of(free[labels[free] == label], wanted, dealt[taker], rng)
                for label, wanted in zip(*np.unique(labels[dealt[0]], return_counts=True), strict=True)
            ]
        )

        # Every sample given away is replaced by one of the taker's, so that all parts keep their sizes.
        spare = np.setdiff1d(dealt[taker], fresh)
        dealt[taker] = fresh
        for giver in range(taker + 1, len(dealt)):
            lost = np.isin(dealt[giver], fresh)
            dealt[giver] = np.concatenate([dealt[giver][~lost], spare[: lost.sum()]])
            spare = spare[lost.sum() :]

    if min(map(len, dealt)) < MIN_SAMPLES:
        raise PartitionError("alike: a client would be left without samples; take more data or fewer clients")
    return _sorted(dealt)


def _some_of(rows: Rows, wanted: int, own: Rows, rng: np.random.Generator) -> Rows:
    """So many of these rows: its own first, then others at random."""
    if len(rows) < wanted:
        raise PartitionError(
            f"alike: a label has {len(rows)} samples left, {wanted} are needed: take more data"
        )

    # The sort is stable and False comes first: what the taker has already stays with it.
    order = rng.permutation(rows)
    return order[np.argsort(~np.isin(order, own), kind="stable")][:wanted]


def arithmetic_sizes(clients: int, samples: int) -> tuple[int, ...]:
    """Sizes that grow by a fixed step around the mean: 104, 112, … 896 for 100 clients and 50,000 samples.

    The step is 8/5 of the mean divided by the number of clients (Xie et al., 2019), the total at most `samples`.
    """
    mean = samples / clients
    step = 1.6 * mean / clients
    return tuple(int(mean - step * (clients - 1) / 2 + step * k) for k in range(clients))


def unbalanced(labels: Labels, clients: int, seed: int, *, label_cap: int) -> Parts:
    """Sizes in arithmetic progression, one to `label_cap` different labels each (Xie et al., 2019).

    The largest client chooses first: how many labels at random, more only where these have too few samples left; then
    the classes with most samples left, an equal part of each as far as they last. Where the last clients cannot
    be served within their labels, all sizes shrink by a hundredth, at most to four fifths.
    """
    classes = np.unique(labels)
    if not 1 <= label_cap <= len(classes):
        raise PartitionError(f"unbalanced: labels must be 1…{len(classes)}, not {label_cap}")
    _check_clients(len(labels), clients)

    # Every try starts from the same seed, so the same labels and sizes deal the same parts.
    for percent in range(100, 79, -1):
        sizes = arithmetic_sizes(clients, len(labels) * percent // 100)
        parts = _deal_unbalanced(labels, sizes, label_cap, _rng(seed))
        if parts is not None:
            return _sorted(parts)
    raise PartitionError(
        f"unbalanced: {clients} clients of at most {label_cap} labels cannot be given four fifths of the "
        f"{len(labels)} samples; allow more labels or fewer clients"
    )


def _deal_unbalanced(
    labels: Labels, sizes: Sequence[int], label_cap: int, rng: np.random.Generator
) -> list[Rows] | None:
    """Parts of these sizes, the largest dealt first; None where a client cannot be served within its labels."""
    stock = [rng.permutation(np.flatnonzero(labels == class_)) for class_ in np.unique(labels)]
    parts: dict[int, Rows] = {}

    # The largest first: a small client still fits into what is left, a large one may not.
    for client, wanted in sorted(enumerate(sizes), key=lambda item: -item[1]):
        left = sorted((len(rows) for rows in stock), reverse=True)
        count = int(rng.integers(1, label_cap + 1))
        while count < label_cap and sum(left[:count]) < wanted:
            count += 1
        parts[client] = _take_from_largest(stock, wanted, count, rng)
        if len(parts[client]) < max(wanted, MIN_SAMPLES):
            return None
    return [parts[client] for client in range(len(sizes))]


def natural(owners: Labels, clients: int, seed: int, *, minimum: int = MIN_SAMPLES) -> Parts:
    """Each client holds what one owner (writer, role, movie, area) made; owners are drawn at random.

    Raises:
        PartitionError: fewer owners than clients have at least `minimum` samples.
    """
    people, counts = np.unique(owners, return_counts=True)
    rich = people[counts >= max(minimum, MIN_SAMPLES)]
    if not 1 <= clients <= len(rich):
        raise PartitionError(
            f"natural: {clients} clients, but {len(rich)} owners have at least {max(minimum, MIN_SAMPLES)} samples"
        )
    chosen = np.sort(_rng(seed).permutation(rich)[:clients])
    order = np.argsort(owners, kind="stable")
    starts = np.searchsorted(owners[order], chosen, "left")
    stops = np.searchsorted(owners[order], chosen, "right")
    return _sorted([order[start:stop] for start, stop in zip(starts, stops, strict=True)])


def cast(
    roles: Labels, plays: Labels, clients: int, seed: int, *, play: int, inside: int, minimum: int
) -> Parts:
    """A role for each client: the first `inside` are of this play, the others of the other plays (VaRSeL, 5.2).

    Raises:
        PartitionError: this play, or the others, have too few roles with at least `minimum` samples.
    """
    if not 0 < inside < clients:
        raise PartitionError(f"cast: {inside} of {clients} clients inside the play: some must be outside")

    is_inside = plays == play
    parts: list[Rows] = []
    for rows, count in (
        (np.flatnonzero(is_inside), inside),
        (np.flatnonzero(~is_inside), clients - inside),
    ):
        samples = np.unique(roles[rows], return_counts=True)[1]
        rich = int((samples >= max(minimum, MIN_SAMPLES)).sum())
        if count > rich:
            where = f"play {play} has" if len(parts) == 0 else f"the plays beside {play} have"
            raise PartitionError(
                f"cast: {where} {rich} roles with at least {max(minimum, MIN_SAMPLES)} samples, {count} are needed"
            )

        parts += [rows[own] for own in natural(roles[rows], count, seed, minimum=minimum)]
    return _sorted(parts)


def hold_out(rows: Rows, seed: int, fraction: float = HELD_OUT) -> Holding:
    """Split a participant's rows at random; at least one is held out and one is left to train on.

    Raises:
        PartitionError: fewer than two rows, or a fraction outside (0, 1).
    """
    if len(rows) < MIN_SAMPLES:
        raise PartitionError(f"holding out needs at least {MIN_SAMPLES} samples, not {len(rows)}")
    if not 0 < fraction < 1:
        raise PartitionError(f"the held-out part must lie between 0 and 1, not {fraction}")
    count = min(max(1, round(len(rows) * fraction)), len(rows) - 1)

    order = rows[_rng(seed).permutation(len(rows))]
    return Holding(train=np.sort(order[count:]), held=order[:count])


def _deal_natural(dataset: Dataset, clients: int, seed: int, values: Mapping[str, float]) -> Parts:
    if not dataset.groups:
        raise PartitionError(f"natural: data set {dataset.name} does not name the owners of its samples")
    # The order of `OWNERS` decides where a data set names owners of several kinds.
    kind = min(dataset.groups, key=lambda name: OWNERS.index(name) if name in OWNERS else len(OWNERS))
    return natural(dataset.groups[kind], clients, seed, minimum=int(values["min"]))


def _deal_cast(dataset: Dataset, clients: int, seed: int, values: Mapping[str, float]) -> Parts:
    missing = [kind for kind in ("role", "play") if kind not in dataset.groups]
    if missing:
        raise PartitionError(f"cast: data set {dataset.name} has no owners by {' and '.join(missing)}")
    return cast(
        dataset.groups["role"],
        dataset.groups["play"],
        clients,
        seed,
        play=int(values["play"]),
        inside=int(values["inside"]),
        minimum=int(values["min"]),
    )


def _deal_by(kind: str) -> Callable[[Dataset, int, int, Mapping[str, float]], Parts]:
    def deal(dataset: Dataset, clients: int, seed: int, values: Mapping[str, float]) -> Parts:
        if kind not in dataset.groups:
            known = ", ".join(sorted(dataset.groups)) or "none"
            raise PartitionError(f"data set {dataset.name} has no owners by {kind}; it has: {known}")
        return natural(dataset.groups[kind], clients, seed, minimum=int(values["min"]))

    return deal


Deal: TypeAlias = Callable[[Dataset, int, int, Mapping[str, float]], Parts]
OWNERS: Final = ("client", "writer", "role", "movie", "area", "play", "soil")
"""Kinds of owners; `natural` takes the first that a data set names."""
PARTITIONS: Final[Mapping[str, tuple[Deal, Mapping[str, float]]]] = {
    "iid": (lambda data, n, seed, _: iid(data.y, n, seed), {}),
    "dirichlet": (
        lambda data, n, seed, v: dirichlet(data.y, n, seed, concentration=v["lambda"]),
        {"lambda": 1.0},
    ),
    "shards": (
        lambda data, n, seed, v: shards(
            data.y,
            n,
            seed,
            per_client=int(v["per"]),
            size=int(v["size"]) or None,
            are_neighbours=bool(v["next"]),
        ),
        {"per": 2, "size": 0, "next": 0},
    ),
    "unbalanced": (
        lambda data, n, seed, v: unbalanced(data.y, n, seed, label_cap=int(v["labels"])),
        {"labels": 5},
    ),
    "cast": (_deal_cast, {"play": 0, "inside": 2, "min": MIN_SAMPLES}),
    "natural": (_deal_natural, {"min": MIN_SAMPLES}),
    **{kind: (_deal_by(kind), {"min": MIN_SAMPLES}) for kind in OWNERS},
}


def partition(dataset: Dataset, how: str, clients: int, seed: int) -> Parts:
    """Deal a data set's training samples as `how` says: `iid`, `dirichlet:lambda=0.1`, `shards:per=2,size=500`, …

    Raises:
        UnknownNameError: no such partition or parameter.
        PartitionError: the data cannot be dealt so.
    """
    name, values = names.parse_call(
        "partition", how, {known: defaults for known, (_, defaults) in PARTITIONS.items()}
    )
    deal, _ = PARTITIONS[name]
    return deal(dataset, clients, seed, values)


def _rng(seed: int) -> np.random.Generator:
    if seed < 0:
        raise InputError(f"a seed must not be negative, not {seed}")
    return np.random.Generator(np.random.Philox(seed))


def _check_clients(samples: int, clients: int) -> None:
    if clients < 1:
        raise PartitionError(f"there must be at least one client, not {clients}")
    if samples < MIN_SAMPLES * clients:
        raise PartitionError(
            f"{samples} samples are too few for {clients} clients; each needs {MIN_SAMPLES} (to train and to hold out)"
        )


def _filled(parts: list[Rows]) -> list[Rows]:
    for client in range(len(parts)):
        while len(parts[client]) < MIN_SAMPLES:
            richest = max(range(len(parts)), key=lambda other: (len(parts[other]), -other))
            parts[client] = np.append(parts[client], parts[richest][-1])
            parts[richest] = parts[richest][:-1]
    return parts


def _take_from_largest(stock: list[Rows], wanted: int, label_cap: int, rng: np.random.Generator) -> Rows:
    order = sorted(rng.permutation(len(stock)), key=lambda class_: -len(stock[class_]))[:label_cap]
    taken: list[Rows] = []
    for place, class_ in enumerate(reversed(order)):
        share = -(-(wanted - sum(map(len, taken))) // (len(order) - place))
        taken.append(stock[class_][:share])
        stock[class_] = stock[class_][share:]
    return np.concatenate(taken)


@dataclass(frozen=True, slots=True, eq=False)
class _Sorted(Sequence[Rows]):
    """Parts whose rows are put in order when they are asked for: of a large population few ever are."""

    dealt: Sequence[Rows]

    def __len__(self) -> int:
        return len(self.dealt)

    def __getitem__(self, client: int) -> Rows:  # type: ignore[override]
        return np.sort(self.dealt[client]).astype(np.int64)

    def sizes(self) -> list[int]:
        """How many rows each has."""
        return [len(part) for part in self.dealt]


def sizes_of(parts: Parts) -> list[int]:
    """How many rows each part has."""
    return parts.sizes() if isinstance(parts, _Sorted) else [len(part) for part in parts]


def _sorted(parts: Sequence[Rows]) -> Parts:
    return _Sorted(parts)
