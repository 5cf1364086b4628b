"""`chainfl compute weights`: VaRSeL's weights and shares from updates or distances of your own."""

from collections.abc import Mapping
from typing import Any

from chainfl.cli.compute import computation
from chainfl.cli.questions import WeightsQuestion
from chainfl.protocol.combine import pairwise_squared_distances
from chainfl.protocol.varsel import varsel_shares, varsel_weights


@computation
def weights(asked: WeightsQuestion) -> Mapping[str, Any]:
    """VaRSeL's weights and shares of the included updates, as docs/protocol.md section 7.1 defines them.

    Give the "updates" (each an array of u, canonical bytes, or an object as `compute root` takes it) or their squared
    "distances" in the unit of the fixed-point step, one row per update; "internals" (true or false each); and the
    "budget" of external weight. "weights" are multiples of 2^-20, "shares" begin with p_0.

    Example: echo '{"distances": [[0, 16, 100], [16, 0, 36], [100, 36, 0]], "internals": [true, true, false],
    "budget": 1}' | chainfl compute weights --json
    """
    distances = asked.distances
    if asked.has("updates"):
        distances = pairwise_squared_distances([each.vector() for each in asked.updates])

    found = varsel_weights(distances, asked.internals, asked.budget)
    return {"weights": found, "shares": [0, *varsel_shares(found, asked.internals)]}
