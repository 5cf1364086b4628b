"""What robust rules measure: lengths, distances and angles of a round's steps.

A step is an update minus the head. All inner products come from exact integer distances; the small matrices after
that are multiplied in a fixed order of IEEE operations, without BLAS: their bits are the same on every machine. What a
rule does with them may not be (FoolsGold takes the platform's logarithm). K updates, J mixes of them, D parameters.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from chainfl.codec.vector import Vector
from chainfl.protocol.combine import pairwise_squared_distances
from chainfl.types import Id

Matrix: TypeAlias = NDArray[np.float64]
Weights: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Updates:
    """The included updates of a round, in order, and what else a rule may need.

    `root` is an update trained on trusted samples (FLTrust); `history` the sum of each worker's steps so far, as
    vectors whose origin is the bias (FoolsGold).
    """

    head: Vector
    vectors: Sequence[Vector]
    scale: int
    seed: int = 0
    ids: Sequence[Id] = ()
    root: Vector | None = None
    history: Sequence[Vector] = field(default=())

    def __len__(self) -> int:
        return len(self.vectors)


def products(origin: Vector, vectors: Sequence[Vector], scale: int) -> Matrix:
    """The inner products of all vectors minus the origin: 2ab = |a|² + |b|² - |a - b|², each distance exact."""
    exact = pairwise_squared_distances([origin, *vectors])
    unit = 2.0 ** (-2 * scale)
    count = len(vectors)

    answer_KK = np.empty((count, count))
    for i in range(count):
        for j in range(count):
            doubled = exact[0][i + 1] + exact[0][j + 1] - exact[i + 1][j + 1]
            answer_KK[i, j] = float(doubled // 2) * unit
    return answer_KK


def times(a: Matrix, b: Matrix) -> Matrix:
    """The matrix product, its terms added one after the other: BLAS would choose an order by processor."""
    total = np.zeros((a.shape[0], b.shape[1]))
    for k in range(a.shape[1]):
        total += a[:, k, None] * b[k]
    return total


def added(values: Weights) -> float:
    """The sum from left to right."""
    total = 0.0
    for value in values.tolist():
        total += value
    return total


def middle_of(values: Weights) -> float:
    """The median; of an even number, the mean of the middle two."""
    ordered = sorted(values.tolist())
    half = len(ordered) // 2
    return float(ordered[half]) if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


@dataclass(frozen=True, slots=True, eq=False)
class Mixes:
    """Mixes of the round's steps: a row of `weights` (JxK) for each, and `gram` (JxJ), their inner products."""

    updates: Updates
    weights: Matrix
    gram: Matrix

    @classmethod
    def of(cls, updates: Updates) -> "Mixes":
        """The steps as they were sent."""
        gram_KK = products(updates.head, updates.vectors, updates.scale)
        return cls(updates, np.eye(len(updates)), gram_KK)

    def __len__(self) -> int:
        return len(self.weights)

    def mixed(self, weights_IJ: Matrix) -> "Mixes":
        """Mixes of these mixes."""
        gram_II = times(times(weights_IJ, self.gram), weights_IJ.T.copy())
        return Mixes(self.updates, times(weights_IJ, self.weights), gram_II)

    def lengths(self) -> Weights:
        """The length of each."""
        return np.sqrt(np.maximum(self.gram.diagonal(), 0.0))

    def squared_distances(self) -> Matrix:
        """Between every two of them."""
        return distances_of(self.gram)

    def distances_to(self, weights_J: Weights) -> Weights:
        """From each to the mix with these weights."""
        across_J = times(self.gram, weights_J[:, None])[:, 0]
        own = added(across_J * weights_J)
        squared_J = self.gram.diagonal() - 2.0 * across_J + own
        return np.sqrt(np.maximum(squared_J, 0.0))


def distances_of(gram: Matrix) -> Matrix:
    """Squared distances from inner products; exactly 0 on the diagonal."""
    squares = gram.diagonal()
    found = np.maximum(squares[:, None] + squares[None, :] - 2.0 * gram, 0.0)
    np.fill_diagonal(found, 0.0)
    return found


def cosines_of(gram: Matrix) -> Matrix:
    """Cosines of the angles between vectors; 0 with a vector of length 0."""
    lengths = np.sqrt(np.maximum(gram.diagonal(), 0.0))
    both = lengths[:, None] * lengths[None, :]
    found: Matrix = np.divide(gram, both, out=np.zeros_like(gram), where=both > 0)
    return found
