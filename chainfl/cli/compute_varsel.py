"""`chainfl compute weights`: VaRSeL's weights and shares from updates or distances of your own."""

from collections.abc import Mapping
from typing import Any

from chainfl.cli.compute import computation
from chainfl.cli.inputs import Json, integer, integers, items, kind, only, read_vector
from chainfl.errors import InputError
from chainfl.protocol.combine import pairwise_squared_distances
from chainfl.protocol.config import MAX_UPDATES
from chainfl.protocol.varsel import varsel_shares, varsel_weights

_UINT128 = 2**128 - 1


@computation
def weights(given: dict[str, Json]) -> Mapping[str, Any]:
    """VaRSeL's weights and shares of the included updates, as docs/protocol.md section 7.1 defines them.

    Give the "updates" (each an array of u, canonical bytes, or an object as `compute root` takes it) or their squared
    "distances" in the unit of the fixed-point step, one row per update; "internals" (true or false each); and the
    "budget" of external weight. "weights" are multiples of 2^-20, "shares" begin with p_0.

    Example: echo '{"distances": [[0, 16, 100], [16, 0, 36], [100, 36, 0]], "internals": [true, true, false],
    "budget": 1}' | chainfl compute weights --json
    """
    only(given, ("updates", "distances", "internals", "budget"), "input")
    if ("updates" in given) == ("distances" in given):
        raise InputError('input: give either "updates" or "distances"')

    internals = _flags(given.get("internals"))
    budget = integer(given.get("budget"), "input.budget", 0, 2**64 - 1)
    distances = _between_updates(given) if "updates" in given else _distances(given)
    if len(distances) != len(internals):
        raise InputError(f"input.internals: {len(internals)} for {len(distances)} updates")

    found = varsel_weights(distances, internals, budget)
    return {"weights": found, "shares": [0, *varsel_shares(found, internals)]}


def _between_updates(given: Mapping[str, Json]) -> list[list[int]]:
    updates = items(given["updates"], "input.updates")
    if len(updates) > MAX_UPDATES:
        raise InputError(f"input.updates: {len(updates)}; a round has at most {MAX_UPDATES}")
    return pairwise_squared_distances(
        [read_vector(each, f"input.updates[{at}]") for at, each in enumerate(updates)]
    )


def _distances(given: Mapping[str, Json]) -> list[list[int]]:
    rows = items(given["distances"], "input.distances")
    if len(rows) > MAX_UPDATES:
        raise InputError(f"input.distances: {len(rows)} rows; a round has at most {MAX_UPDATES} updates")
    return [integers(row, f"input.distances[{at}]", 0, _UINT128) for at, row in enumerate(rows)]


def _flags(value: Json) -> list[bool]:
    flags = []
    for at, flag in enumerate(items(value, "input.internals")):
        if not isinstance(flag, bool):
            raise InputError(f"input.internals[{at}]: expected true or false, found {kind(flag)}")
        flags.append(flag)
    return flags
