"""Attacks that search: small cases by hand."""

import numpy as np
import pytest

from chainfl.learning.attacks import Scene, forged_scores, forged_update, validator_attack, worker_attack
from chainfl.learning.attacks.optimised import known

HEAD = np.zeros(2, np.float32)
OTHERS = np.array([[1, 0], [3, 0], [2, 0]], np.float32)
COLLUDERS = np.array([[2, 0], [2, 0]], np.float32)
SPREAD = float(np.std([1, 3, 2]))


def scene(own: int = 0, preview: object = None) -> Scene:
    return Scene(HEAD, COLLUDERS, own, 5, 1, OTHERS, preview)  # type: ignore[arg-type]


def sent(text: str, given: Scene) -> list[float]:
    attack, values = worker_attack(text)
    return [float(value) for value in forged_update(attack, values, given)]


def test_attackers_without_sight_of_the_others_use_their_own_updates() -> None:
    blind = Scene(HEAD, COLLUDERS, 0, 5, 1)

    assert known(blind).tolist() == COLLUDERS.tolist()
    assert known(scene()).tolist() == OTHERS.tolist()


def test_the_searching_attacks_take_the_factor_that_harms_most() -> None:
    def clipped(forged_D: np.ndarray) -> np.ndarray:
        # A rule that lets nothing below -1 through: beyond that the attack is thrown away.
        return forged_D if forged_D[0] >= -1 else np.array([2.0, 0.0])

    ipm = sent("ipm-optimal", scene(preview=clipped))
    alie = sent("alie-optimal", scene(preview=clipped))

    factors = [0.1 * 1.5**step for step in range(40)]
    assert ipm[0] == pytest.approx(-2 * max(e for e in factors if 2 * e <= 1), abs=1e-3)
    assert alie[0] == pytest.approx(2 - SPREAD * max(z for z in factors if SPREAD * z <= 3), abs=1e-3)


def test_colluders_updates_are_not_equal() -> None:
    assert sent("ipm-optimal", scene(0)) != sent("ipm-optimal", scene(1))
    assert sent("mimic", scene(0)) != sent("mimic", scene(1))


def test_min_max_stays_as_near_as_honest_updates_are_to_each_other() -> None:
    # The largest honest distance is 2 (from 1 to 3), so nothing may lie more than 2 from 3: the attack sends 1.
    assert sent("min-max", scene())[0] == pytest.approx(1, abs=1e-3)


def test_min_sum_stays_within_the_largest_honest_sum() -> None:
    # Sums of squared distances: 5, 5, 2. At 1 it is 4 + 1 = 5, so the attack sends 1.
    assert sent("min-sum", scene())[0] == pytest.approx(1, abs=1e-3)


def test_fang_goes_below_what_grows_and_above_what_falls() -> None:
    head = np.array([0, 4], np.float32)
    others = np.array([[1, 2], [2, 3]], np.float32)
    found = sent("fang-trim", Scene(head, COLLUDERS, 0, 4, 1, others))

    assert 0.5 <= found[0] <= 1
    assert 3 <= found[1] <= 6


def test_fangs_update_is_krums_choice() -> None:
    others = np.array([[1, 1], [1.2, 0.9], [0.8, 1.1], [1.1, 1.2]], np.float32)
    colluders = np.repeat(others[:1], 3, axis=0)
    found = np.array(sent("fang-krum", Scene(HEAD, colluders, 0, 7, 1, others)))

    rows = np.concatenate([others, np.repeat(found[None, :], 3, axis=0)])
    sums = [np.sort(((rows - row) ** 2).sum(axis=1))[1:3].sum() for row in rows]
    assert int(np.argmin(sums)) >= 4
    assert (found < 0).all()


def test_mimics_copy_an_honest_update_at_an_end() -> None:
    assert sent("mimic", scene())[0] in (pytest.approx(1, abs=1e-4), pytest.approx(3, abs=1e-4))


def test_subtle_validators_post_plausible_numbers_in_their_friends_favour() -> None:
    honest = (10, 40, 20, 30)

    assert forged_scores(validator_attack("swapped-losses"), honest, [1, 3], ()) == (30, 20, 40, 10)
    assert forged_scores(validator_attack("nudged-losses"), honest, [1], ()) == (20, 30, 30, 40)
