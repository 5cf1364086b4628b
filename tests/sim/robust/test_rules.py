"""Every robust rule on small cases by hand, its invariances, and what it refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainfl.codec.vector import encode
from chainfl.errors import InputError, UnknownNameError
from chainfl.sim.robust.geometry import Mixes
from chainfl.sim.robust.linear import bulyan_choice, first_direction, majority_cluster
from chainfl.sim.robust.table import BEHIND, OWN, PRE, Proof, pipeline_of
from chainfl.types import Id
from tests.sim.robust.steps import SCALE, combined, step_of, updates_of

RNG = np.random.Generator(np.random.Philox(7))
MANY = RNG.normal(size=(11, 6)).tolist()
TEXTS = [
    "geometric-median",
    "centred-clipping:tau=1",
    "bulyan:f=2",
    "dnc:f=2,sample=4",
    "norm-clipping",
    "foolsgold",
    "flame:noise=0",
    "fltrust",
    "nnm:f=2+median",
    "nnm:f=3+krum:f=3",
    "bucketing:s=2+fedrob:b=1",
    "arc:f=3+multi-krum:f=3",
    "norm-clip:tau=1+geometric-median",
]


def with_needs(steps: Any) -> dict[str, Any]:
    """What fltrust and foolsgold ask for beside the updates."""
    history = [encode(np.array(step, np.float64), SCALE) for step in steps]
    return {"root": encode(np.array(steps[0], np.float64), SCALE), "history": history}


def test_the_geometric_median_of_three_on_a_line_is_the_middle_one() -> None:
    assert step_of("geometric-median", updates_of([[0, 0], [1, 0], [9, 0]])) == pytest.approx(
        [1, 0], abs=1e-3
    )


def test_the_geometric_median_of_a_square_with_an_outlier_stays_in_the_square() -> None:
    # The Fermat point of a triangle whose angle exceeds 120 degrees is that corner.
    found = step_of("geometric-median:iterations=500", updates_of([[0, 0], [4, 1], [-4, 1]]))

    assert found == pytest.approx([0, 0], abs=0.02)


def test_one_pass_of_centred_clipping_by_hand() -> None:
    # Lengths 1 and 4 with tau = 2: the long one is halved. Mean of (1, 0) and (0, 2).
    assert step_of("centred-clipping:tau=2,iterations=1", updates_of([[1, 0], [0, 4]])) == pytest.approx(
        [0.5, 1.0], abs=1e-5
    )


def test_norm_clipping_shortens_to_the_median_length() -> None:
    assert step_of("norm-clipping", updates_of([[1, 0], [2, 0], [0, 8]])) == pytest.approx(
        [1, 2 / 3], abs=1e-5
    )


def test_adaptive_clipping_by_hand() -> None:
    # J = 5, f = 1: the ⌊2·(1/5)·4⌋ = 1 longest is shortened to the next length, 2.
    steps = [[1.0, 0], [1, 0], [1, 0], [2, 0], [0, 50]]

    assert step_of("arc:f=1+mean", updates_of(steps)) == pytest.approx([1, 0.4], abs=1e-5)


def test_nearest_neighbours_by_hand() -> None:
    # Each becomes the mean of its two nearest: 0 → 0.5, 1 → 0.5 (nearer to 0 than to 10), 10 → 5.5.
    assert step_of("nnm:f=1+mean", updates_of([[0.0], [1], [10]])) == pytest.approx([6.5 / 3], abs=1e-5)
    assert step_of("nnm:f=1+median", updates_of([[0.0], [1], [10]])) == pytest.approx([0.5], abs=1e-5)


def test_buckets_hold_everybody_once() -> None:
    steps = [[1.0], [2], [3], [6]]

    assert step_of("bucketing:s=2+mean", updates_of(steps)) == pytest.approx([3.0], abs=1e-5)
    assert step_of("bucketing:s=4+median", updates_of(steps)) == pytest.approx([3.0], abs=1e-5)
    assert step_of("bucketing:s=1+median", updates_of(steps)) == pytest.approx([2.5], abs=1e-5)


def test_bulyan_by_hand() -> None:
    # K = 7, f = 1: five are chosen without the outlier, and the three nearest the median of each parameter count.
    steps = [[1.0], [2], [3], [4], [5], [6], [1000]]

    found = float(step_of("bulyan:f=1", updates_of(steps))[0])

    assert found in (pytest.approx(3.0, abs=1e-5), pytest.approx(4.0, abs=1e-5))


@pytest.mark.parametrize("place", [0, 3, 6])
def test_bulyan_does_not_choose_an_outlier_for_its_place(place: int) -> None:
    # With f = 1 the last choice is among three, for which Krum's formula would add no distance at all.
    steps = [[1.0], [2], [3], [4], [5], [6]]
    steps.insert(place, [1000])

    assert place not in bulyan_choice(Mixes.of(updates_of(steps)), 1)


def test_divide_and_conquer_drops_who_lies_farthest_along_the_first_axis() -> None:
    steps = [[1.0, 0], [1, 0.1], [1, -0.1], [1, 0], [-20, 0]]

    made = combined("dnc:f=1,iterations=3", updates_of(steps))

    assert made.parts == pytest.approx((0.25, 0.25, 0.25, 0.25, 0), abs=1e-8)


def test_the_first_direction_is_the_first_eigenvector() -> None:
    points = RNG.normal(size=(6, 4))
    gram = points @ points.T
    wanted = np.linalg.eigh(gram)[1][:, -1]

    found = first_direction(gram)

    assert np.abs(found / np.linalg.norm(found)) == pytest.approx(np.abs(wanted), abs=1e-9)


def test_fltrust_by_hand() -> None:
    # Root (2, 0). Cosines 1, 0, -1 and 1/√2; the last has length √2 and is stretched to 2.
    updates = updates_of([[1, 0], [0, 1], [-1, 0], [1, 1]], root=encode(np.array([2.0, 0]), SCALE))
    near = 1 / np.sqrt(2)
    wanted = np.array([2 + near * np.sqrt(2), near * np.sqrt(2)]) / (1 + near)

    assert step_of("fltrust", updates) == pytest.approx(wanted, abs=1e-5)


def test_fltrust_stays_at_the_head_when_nobody_goes_the_roots_way() -> None:
    updates = updates_of([[-1.0, 0], [0, 1]], head=[3, 4], root=encode(np.array([4.0, 4.0]), SCALE))

    assert step_of("fltrust", updates) == pytest.approx([0, 0])


def test_the_majority_cluster_is_the_first_group_of_more_than_half() -> None:
    places = np.array([0.0, 1, 2.5, 50, 51])

    assert majority_cluster(np.abs(places[:, None] - places)) == [True, True, True, False, False]


def test_flame_admits_the_majority_by_angle_and_clips_to_the_median_length() -> None:
    steps = [[1.0, 0], [2, 0.1], [4, 0], [-1, 0], [-3, 0.2]]

    made = combined("flame:noise=0", updates_of(steps))

    assert made.parts[3:] == (0, 0)
    assert made.parts[0] == pytest.approx(1 / 3, abs=1e-6)
    assert made.parts[2] == pytest.approx(np.hypot(2, 0.1) / 4 / 3, abs=1e-6)


def test_flames_noise_is_seeded() -> None:
    first, again = (combined("flame", updates_of(MANY, seed=5)).model for _ in range(2))
    other = combined("flame", updates_of(MANY, seed=6)).model

    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_foolsgold_takes_the_weight_of_who_moves_alike() -> None:
    steps = [[1.0, 0, 0], [0, 1, 0], [0.1, 0.1, 1], [-1, -1, 0.5], [-1, -1, 0.5]]

    made = combined("foolsgold", updates_of(steps, ids=[Id(i) for i in range(5)], **with_needs(steps)))

    assert made.parts[3:] == (0, 0)
    assert min(made.parts[:3]) > 0.2


@pytest.mark.parametrize("rule", TEXTS)
def test_the_order_of_updates_changes_no_bit(rule: str) -> None:
    if "bucketing" in rule:
        pytest.skip("buckets are drawn by position")
    turned = [*MANY[4:], *MANY[:4]]
    needs = with_needs(MANY)
    history = needs["history"]

    one = step_of(rule, updates_of(MANY, **needs))
    other = step_of(rule, updates_of(turned, **{**needs, "history": [*history[4:], *history[:4]]}))

    # Sums in another order differ by the last bit of a double, which is far below a unit of the fixed point.
    assert one == pytest.approx(other, abs=2**-SCALE)


@pytest.mark.parametrize(
    "rule", ["geometric-median:iterations=300", "bulyan:f=2", "dnc:f=2,sample=4", "nnm:f=2+median"]
)
def test_moving_all_updates_moves_the_result(rule: str) -> None:
    moved = (np.array(MANY) + 0.5).tolist()

    assert step_of(rule, updates_of(moved)) == pytest.approx(step_of(rule, updates_of(MANY)) + 0.5, abs=1e-5)


@pytest.mark.parametrize("rule", TEXTS)
def test_equal_updates_are_the_result(rule: str) -> None:
    steps = [[0.5, -0.25]] * 11

    found = step_of(rule, updates_of(steps, **with_needs(steps)))

    assert found == pytest.approx([0.5, -0.25], abs=1e-5)


def test_weights_beyond_one_are_exact_at_large_values() -> None:
    # The root's step is three times as long as the only update's: the update weighs 3 and the head -2.
    updates = updates_of([[100.0, -1.0]], head=[900, 1], root=encode(np.array([1200.0, -2.0]), SCALE))

    assert step_of("fltrust", updates) == pytest.approx([300, -3], rel=1e-6)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("bulyan:f=3", "needs 15 updates, a round has 11"),
        ("nnm:f=6+mean", "needs 13 updates"),
        ("bucketing:s=4+krum:f=1", "needs 17 updates"),
    ],
)
def test_too_few_updates_are_one_clear_line(rule: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        combined(rule, updates_of(MANY))


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("bulyan:f=1.5", "whole number"),
        ("dnc:f=-1", "at least 0"),
        ("geometric-median:nu=0", "above 0"),
        ("geometric-median:iterations=0", "at least 1"),
        ("geometric-median:iterations=nan", "must be a finite number"),
        ("nnm", "stands before a rule: write nnm"),
        ("nnm+foolsgold", "judges workers"),
        ("nnm+softmax", "no rule is called 'softmax'"),
        ("median+mean", "no pre-aggregation is called 'median'"),
        ("bulyan:g=1", "parameter of rule bulyan"),
        ("best", "geometric-median"),
    ],
)
def test_what_means_nothing_is_refused(rule: str, says: str) -> None:
    with pytest.raises((InputError, UnknownNameError), match=says.replace("+", r"\+")):
        pipeline_of(rule)


def test_what_a_chain_can_prove_of_a_pipeline() -> None:
    def proof(text: str) -> Proof:
        pipeline = pipeline_of(text)
        assert pipeline is not None
        return pipeline.proof

    assert proof("geometric-median") is Proof.ATTESTED
    assert proof("nnm+mean") is Proof.ATTESTED
    assert proof("nnm+median") is Proof.NONE
    assert proof("nnm+flame") is Proof.NONE
    assert proof("bulyan") is Proof.NONE
    assert pipeline_of("median") is None


def test_every_rule_of_the_table_is_played_and_every_played_rule_is_in_it() -> None:
    from chainfl.sim.robust.play import BEFORE, MIXING, ON_PARAMETERS

    by_scores = {name for name, entry in OWN.items() if entry.chassis.startswith("softmax")}
    assert (OWN.keys() | BEHIND.keys()) - by_scores == MIXING.keys() | ON_PARAMETERS.keys()
    assert PRE.keys() == BEFORE.keys()


def test_the_page_has_a_line_for_every_rule_with_what_a_chain_can_prove() -> None:
    page = (Path(__file__).parents[3] / "docs" / "simulator.md").read_text(encoding="utf-8")

    for entry in (*OWN.values(), *PRE.values()):
        name = f"`{entry.name}{'+' if entry.name in PRE else ''}`"
        values = ",".join(f"{key}={value:g}" for key, value in entry.values.items()) or "none"
        assert f"| {name} | {values} | {entry.proof.value} |" in page
