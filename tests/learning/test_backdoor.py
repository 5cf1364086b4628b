"""Backdoors by hand: the stamp, the poisoned samples, the measure of success, the boosted step."""

import numpy as np
import pytest

from chainfl.errors import InputError
from chainfl.learning.attacks import Scene, forged_update, worker_attack
from chainfl.learning.attacks.backdoor import Trigger, poison_with, triggered
from chainfl.learning.dataset import Samples

IMAGES = np.zeros((4, 8, 8), np.uint8)
LABELS = np.array([0, 1, 2, 3])


def test_the_stamp_is_a_square_in_the_last_corner() -> None:
    stamped = Trigger().stamped(IMAGES)

    assert stamped.sum() == 4 * 16 * 255
    assert (stamped[:, 4:, 4:] == 255).all()
    assert IMAGES.sum() == 0


def test_four_colluders_stamp_the_whole_between_them() -> None:
    parts = [Trigger(part=part).stamped(IMAGES).astype(np.int64) for part in range(4)]

    assert [each.sum() for each in parts] == [4 * 4 * 255] * 4
    assert np.array_equal(sum(parts), Trigger().stamped(IMAGES))


def test_features_in_a_row_are_stamped_at_their_end_and_tokens_refused() -> None:
    assert Trigger().stamped(np.zeros((1, 6), np.float32)).tolist() == [[0, 0, 1, 1, 1, 1]]
    with pytest.raises(InputError, match="tokens"):
        Trigger().stamped(np.zeros((1, 6), np.int64))


def test_poisoned_samples_are_the_clean_ones_and_stamped_copies() -> None:
    samples = Samples(IMAGES, LABELS, np.array([3, 1]))

    poisoned = poison_with(samples, Trigger(target=7), 0.5)

    assert poisoned.y.tolist() == [3, 1, 7]
    assert poisoned.x[:2].sum() == 0
    assert poisoned.x[2].sum() == 16 * 255


def test_samples_to_stamp_are_not_the_first_of_ordered_data() -> None:
    by_label = Samples(np.arange(10, dtype=np.float32).repeat(4).reshape(10, 4), np.arange(10), np.arange(10))

    poisoned = poison_with(by_label, Trigger(target=0, part=0), 0.3)

    assert poisoned.x[10:, 1].tolist() == [0, 3, 6]
    assert poisoned.y[10:].tolist() == [0, 0, 0]


def test_success_is_measured_on_stamped_samples_of_other_labels() -> None:
    measured = triggered(Samples(IMAGES, LABELS, np.arange(4)), Trigger(target=2))

    assert measured.y.tolist() == [2, 2, 2]
    with pytest.raises(InputError, match="target label"):
        triggered(Samples(IMAGES, LABELS, np.array([2])), Trigger(target=2))


def test_model_replacement_boosts_the_step_by_workers_over_colluders() -> None:
    attack, values = worker_attack("backdoor-replace")
    scene = Scene(np.ones(1, np.float32), np.array([[3.0], [5.0]], np.float32), 0, 10, 1)

    assert forged_update(attack, values, scene).tolist() == [1 + 5 * 2.0]
