from statistics import NormalDist

import numpy as np
import pytest

from chainfl.errors import InputError, UnknownNameError
from chainfl.learning import attacks
from chainfl.learning.attacks import Scene, forged_scores, forged_update, validator_attack, worker_attack
from chainfl.learning.dataset import Samples

HEAD = np.array([1.0, 2.0], np.float32)
COLLUDERS = np.array([[2.0, 4.0], [4.0, 0.0]], np.float32)
SCENE = Scene(HEAD, COLLUDERS, own=0, workers=10, seed=3)


def sent(text: str, scene: Scene = SCENE) -> list[float]:
    attack, values = worker_attack(text)
    update = forged_update(attack, values, scene)
    assert update.dtype == np.float32
    return [float(value) for value in update]


def test_digits_are_flipped_to_nine_minus_the_label() -> None:
    assert attacks.flip_labels(np.array([0, 3, 9]), 10).tolist() == [9, 6, 0]
    assert attacks.shift_labels(np.array([0, 3, 9]), 10).tolist() == [1, 4, 0]


def test_a_label_flipper_trains_on_flipped_labels_and_sends_what_it_trained() -> None:
    samples = Samples(np.zeros((3, 2), np.float32), np.array([0, 1, 2]), np.array([2, 0]))
    flipper, _ = worker_attack("label-flip")

    poisoned = attacks.poisoned(samples, flipper, 10)

    assert poisoned.y[poisoned.rows].tolist() == [7, 9]
    assert samples.y.tolist() == [0, 1, 2]
    assert sent("label-flip") == [2.0, 4.0]


def test_other_attackers_train_on_true_labels() -> None:
    samples = Samples(np.zeros((3, 2), np.float32), np.array([0, 1, 2]), np.array([2, 0]))

    assert attacks.poisoned(samples, worker_attack("back-gradient")[0], 10) is samples


def test_scaling_multiplies_each_element_of_the_step_by_half_to_one() -> None:
    scene = Scene(np.zeros(5000, np.float32), np.ones((1, 5000), np.float32), own=0, workers=3, seed=1)

    factors = np.array(sent("scaling", scene))

    assert factors.min() >= 0.5
    assert factors.max() <= 1
    assert abs(factors.mean() - 0.75) < 0.01


def test_attacks_on_the_own_step_by_hand() -> None:
    assert sent("same-value") == [1.0, 2.0]
    assert sent("same-value:value=0.5") == [1.5, 2.5]
    assert sent("back-gradient") == [0.0, 0.0]
    assert sent("back-gradient:factor=3") == [-2.0, -4.0]
    assert sent("free-rider") == [1.0, 2.0]


def test_inner_product_manipulation_by_hand() -> None:
    assert sent("inner-product") == [1 - 0.5 * 2, 2 - 0.5 * 0]


def test_a_little_is_enough_by_hand() -> None:
    z = NormalDist().inv_cdf((8 - 4) / 8)

    assert attacks.spread_to_hide(10, 2) == z == 0
    assert attacks.spread_to_hide(50, 12) == pytest.approx(NormalDist().inv_cdf(24 / 38))
    assert sent("alie:z=1.5") == [3 - 1.5 * 1, 2 - 1.5 * 2]
    assert attacks.spread_to_hide(3, 3) == 0


def test_cancelling_the_mean_moves_it_to_q_over_k_times_c() -> None:
    honest = np.array([3.0, -1.0], np.float32)
    scene = Scene(HEAD, np.stack([honest, honest]), own=1, workers=10, seed=0)

    hostile = np.array(sent("cancel-mean:c=5", scene))

    assert (8 * honest + 2 * hostile) / 10 == pytest.approx([1.0, 1.0])


def test_copy_cats_send_one_update_and_gaussians_a_repeatable_one() -> None:
    assert sent("copy-cat", Scene(HEAD, COLLUDERS, own=1, workers=10, seed=0)) == [2.0, 4.0]
    assert sent("gaussian:sigma=0.1") == sent("gaussian:sigma=0.1")
    assert sent("gaussian:sigma=0.1") != sent("gaussian:sigma=0.1", Scene(HEAD, COLLUDERS, 0, 10, seed=4))


@pytest.mark.parametrize("name", attacks.WORKER_ATTACKS)
def test_no_attack_changes_what_it_is_shown(name: str) -> None:
    head, colluders = HEAD.copy(), COLLUDERS.copy()

    sent(name, Scene(head, colluders, own=0, workers=10, seed=1))

    assert np.array_equal(head, HEAD)
    assert np.array_equal(colluders, COLLUDERS)


def test_validators_forge_copy_or_stay_silent() -> None:
    honest, seen = (30, 20, 10), ((1, 2, 3), (4, 5, 6))

    assert forged_scores(validator_attack("silent"), honest, [0], seen) is None
    assert forged_scores(validator_attack("copier"), honest, [0], seen) == (1, 2, 3)
    assert forged_scores(validator_attack("copier"), honest, [0], ()) == honest
    assert forged_scores(validator_attack("flipped-scorer"), honest, [0], seen) == honest
    worst = attacks.ABSURD_LOSS
    assert forged_scores(validator_attack("absurd-losses"), honest, [1], seen) == (worst, 0, worst)


def test_hostile_participants_are_counted_down() -> None:
    assert [attacks.hostile_count(20, part) for part in (0, 0.15, 0.4, 1)] == [0, 3, 8, 20]
    with pytest.raises(InputError, match="within 0…1"):
        attacks.hostile_count(20, 1.2)


def test_unknown_attacks_list_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="label-flip"):
        worker_attack("bribe")
    with pytest.raises(UnknownNameError, match="copier"):
        validator_attack("bribe")
    with pytest.raises(InputError, match="cannot be"):
        sent("scaling", Scene(HEAD, COLLUDERS, own=2, workers=10, seed=0))
