"""What scripts/demo shows for now: the canonical values at work, at the size of a real model.

Five participants move the head by noise of their own, a sixth lies. Their models become integer vectors under
a Merkle root; shares combine them to the last bit; one changed parameter shows in one leaf.
"""

import sys
import time

import numpy as np
from numpy.typing import NDArray

from chainfl.codec import merkle, vector
from chainfl.codec.vector import Vector
from chainfl.protocol.combine import combine, combine_ranks, middle, rank_shares, spread

S = 20
D = 1_663_370  # as many parameters as the MNIST network of the papers
HONEST = 5


def say(line: str) -> None:
    """One line, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def update(head_D: NDArray[np.float64], who: int) -> Vector:
    """A participant's model: the head moved by its own data, here by seeded noise; the last one lies."""
    noise_D = np.random.default_rng(who).normal(0.01, 0.05, D)
    return vector.encode(head_D + (noise_D if who < HONEST else -40 * noise_D), S)


def distance(u: Vector, head_D: NDArray[np.float64]) -> float:
    """How far a model is from the head, on average over its parameters."""
    return float(np.abs(vector.decode(u, S, np.float64) - head_D).mean())


def main() -> None:
    """Encode, bind, combine, compare, find the lie."""
    started = time.perf_counter()
    head_D = np.random.default_rng(7).normal(0, 0.1, D)
    head, updates = vector.encode(head_D, S), [update(head_D, who) for who in range(HONEST + 1)]
    say(f"{len(updates)} updates of {D:,} parameters; number {HONEST + 1} lies. Their roots:")
    for number, each in enumerate(updates, 1):
        say(f"  {number}  {merkle.root(each).hex()}")

    mean = combine(head, updates, (0, *spread(range(len(updates)), 2**31)))
    median = combine_ranks(head, updates, rank_shares(middle, len(updates)))
    say("\nCombined with integer shares; every machine gets the same root. Mean step away from the head:")
    say(f"  mean    {distance(mean, head_D):.4f}  {merkle.root(mean).hex()}  (the liar moves it)")
    say(f"  median  {distance(median, head_D):.4f}  {merkle.root(median).hex()}")

    forged, position = median.copy(), 1_234_567
    forged[position] += 1
    leaf = merkle.leaf_of(position)
    proof = merkle.prove(forged, leaf)
    merkle.verify(merkle.root(forged), merkle.depth(D), leaf, proof.leaf, proof.siblings)
    assert proof.leaf != merkle.leaf_bytes(median, leaf)
    say(f"\nWhoever changes one parameter by one step (number {position:,}) has another root:")
    say(f"  {merkle.root(forged).hex()}")
    say(f"  Leaf {leaf:,} under it, proven by {len(proof.siblings)} digests, is not what the shares give:")
    say("  this is the evidence that a contract needs to convict.")
    say(
        f"\n{time.perf_counter() - started:.1f} s. Look further: chainfl compute --help, scripts/test, docs/."
    )


if __name__ == "__main__":
    main()
