import hashlib
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from chainfl.errors import InputError, LengthError
from chainfl.learning import models
from chainfl.learning.compute import pick_device, side_by_side, single_thread
from chainfl.learning.dataset import Dataset, Samples
from chainfl.learning.evaluate import score
from chainfl.learning.train import Job, Recipe, batches, gradient, train, train_many

IN_ANOTHER_PROCESS = """
import hashlib, sys, numpy as np
from chainfl.learning import datasets, models
from chainfl.learning.train import Recipe, train
digits = datasets.load("mnist-embedded")
update = train(
    "mnist-cnn", models.initial_flat("mnist-cnn", 1), digits.rows(np.arange(3, 103)), Recipe(momentum=0.9), 17
)
sys.stdout.write(hashlib.sha256(update.tobytes()).hexdigest())
"""


def jobs_of(digits: Dataset, clients: int, samples: int) -> list[Job]:
    return [Job(digits.rows(np.arange(k * samples, (k + 1) * samples)), seed=k) for k in range(clients)]


def fingerprint(update: NDArray[np.float32]) -> str:
    return hashlib.sha256(update.tobytes()).hexdigest()


def by_the_book(
    head: NDArray[np.float32], samples: Samples, recipe: Recipe, seed: int
) -> NDArray[np.float32]:
    """The same training with torch's own optimiser, in double precision."""
    model = models.build("varsel-2nn").double()
    models.load_flat(model, head)
    start = [parameter.detach().clone() for parameter in model.parameters()]
    optimiser = torch.optim.SGD(model.parameters(), lr=recipe.learning_rate, momentum=recipe.momentum)
    for rows in batches(samples.rows, recipe, seed):
        x = torch.from_numpy(samples.x[rows].astype(np.float64) / 255)
        loss = functional.cross_entropy(model(x), torch.from_numpy(samples.y[rows]))
        for parameter, first in zip(model.parameters(), start, strict=True):
            loss = loss + recipe.proximal / 2 * ((parameter - first) ** 2).sum()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return models.flatten(model)


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(learning_rate=0.1, local_epochs=2),
        Recipe(learning_rate=0.1, momentum=0.9),
        Recipe(learning_rate=0.1, proximal=0.5),
        Recipe(learning_rate=0.1, local_steps=3, batch=7),
    ],
)
def test_training_is_plain_sgd_as_torch_does_it(digits: Dataset, recipe: Recipe) -> None:
    head, samples = models.initial_flat("varsel-2nn", 4), digits.rows(np.arange(100))

    update = train("varsel-2nn", head, samples, recipe, seed=9)

    expected = by_the_book(head, samples, recipe, seed=9)
    assert np.abs(update - head).max() > 1e-3
    assert update == pytest.approx(expected, abs=2e-6)


def test_the_cnn_computes_what_the_papers_network_computes() -> None:
    model = models.build("mnist-cnn", 2)
    plain = nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10),
    )  # fmt: skip
    plain.load_state_dict(dict(zip(plain.state_dict(), model.state_dict().values(), strict=True)))
    x = torch.rand(5, 1, 28, 28, generator=torch.Generator().manual_seed(0))

    with torch.inference_mode():
        scored = model(x)
    assert torch.allclose(model(x), plain(x), atol=1e-5)
    assert torch.allclose(scored, plain(x), atol=1e-5)


def test_bits_are_the_same_alone_side_by_side_and_in_any_company(digits: Dataset) -> None:
    head, jobs = models.initial_flat("mnist-cnn", 1), jobs_of(digits, 4, 70)

    together = train_many("mnist-cnn", head, jobs, Recipe(), threads=2)
    one_by_one = train_many("mnist-cnn", head, jobs, Recipe(), threads=1)
    alone = train("mnist-cnn", head, jobs[3].samples, Recipe(), jobs[3].seed)

    assert fingerprint(together) == fingerprint(one_by_one)
    assert fingerprint(together[3]) == fingerprint(alone)


def test_bits_are_the_same_in_another_process_and_in_a_fresh_thread(digits: Dataset) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS], capture_output=True, text=True, check=True, timeout=120
    )
    found: list[str] = []

    def work() -> None:
        head, samples = models.initial_flat("mnist-cnn", 1), digits.rows(np.arange(3, 103))
        found.append(fingerprint(train("mnist-cnn", head, samples, Recipe(momentum=0.9), 17)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert found == [done.stdout]


def test_every_thread_computes_with_one_torch_thread_whatever_was_set_before() -> None:
    torch.set_num_threads(2)

    counts = side_by_side([torch.get_num_threads] * 4, threads=2)
    single_thread()

    assert counts == [1] * 4
    assert torch.get_num_threads() == 1


def test_the_head_and_the_data_are_not_changed(digits: Dataset) -> None:
    head = models.initial_flat("mnist-mlp-small", 1)
    kept = head.copy()

    train("mnist-mlp-small", head, digits.rows(np.arange(64)), Recipe(), 0)

    assert np.array_equal(head, kept)


def test_another_seed_gives_another_order_and_another_update(digits: Dataset) -> None:
    head, samples = models.initial_flat("mnist-mlp-small", 1), digits.rows(np.arange(64))

    first, second = (train("mnist-mlp-small", head, samples, Recipe(), seed) for seed in (1, 2))

    assert not np.array_equal(first, second)


def test_each_epoch_visits_every_row_once_and_ends_in_a_smaller_batch() -> None:
    rows = np.arange(50, 60)

    found = list(batches(rows, Recipe(batch=4, local_epochs=2), seed=1))

    assert [len(batch) for batch in found] == [4, 4, 2, 4, 4, 2]
    assert sorted(np.concatenate(found[:3])) == rows.tolist() == sorted(np.concatenate(found[3:]))
    assert not np.array_equal(np.concatenate(found[:3]), np.concatenate(found[3:]))


def test_local_steps_count_batches_across_epochs() -> None:
    found = list(batches(np.arange(10), Recipe(batch=4, local_steps=5), seed=1))

    assert [len(batch) for batch in found] == [4, 4, 2, 4, 4]


def test_the_rate_decays_from_its_round_on() -> None:
    recipe = Recipe(learning_rate=0.1, decay=0.4, decay_at=400)

    assert [recipe.rate(round_) for round_ in (399, 400, 401)] == pytest.approx([0.1, 0.04, 0.04])


def test_one_full_batch_step_is_the_head_minus_rate_times_gradient(digits: Dataset) -> None:
    head, samples = models.initial_flat("varsel-logistic", 1), digits.rows(np.arange(300))

    update = train("varsel-logistic", head, samples, Recipe(learning_rate=0.1, batch=300), 0)

    assert update == pytest.approx(head - 0.1 * gradient("varsel-logistic", head, samples), abs=1e-6)


def test_buffers_start_anew_for_every_client(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> nn.Module:
        return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))

    monkeypatch.setitem(models.MODELS, "norm", models.ModelSpec("norm", build, "features", (2,), 3))
    x = np.random.default_rng(0).standard_normal((20, 2)).astype(np.float32)
    samples = Samples(x, np.arange(20) % 3, np.arange(20))
    head = models.initial_flat("norm", 0)

    first, second = (train("norm", head, samples, Recipe(batch=5), 1) for _ in range(2))

    assert np.array_equal(first, second)
    mean = slice(12, 15)
    assert [name for name, _ in models.layout(build())][2:4] == ["1.bias", "1.running_mean"]
    assert not np.array_equal(first[mean], head[mean])


def test_many_clients_learn_digits_together(digits: Dataset) -> None:
    head, clients = models.initial_flat("mnist-mlp-small", 1), jobs_of(digits, 12, 700)
    recipe = Recipe(learning_rate=0.5, local_epochs=2)

    for round_ in range(6):
        jobs = [replace(job, seed=100 * round_ + job.seed) for job in clients]
        head = (
            train_many("mnist-mlp-small", head, jobs, recipe)
            .mean(axis=0, dtype=np.float64)
            .astype(np.float32)
        )

    assert score("mnist-mlp-small", [head], digits.test())[0].accuracy > 0.9


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"batch": 0}, "batch"),
        ({"local_epochs": 0}, "local_epochs"),
        ({"local_steps": 0}, "local_steps"),
        ({"momentum": 1.0}, "momentum"),
        ({"proximal": -1.0}, "proximal"),
        ({"decay": 0.0}, "decay"),
    ],
)
def test_impossible_recipes_are_refused(fields: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Recipe(**fields)  # type: ignore[arg-type]


def test_samples_that_do_not_fit_the_model_are_refused(digits: Dataset) -> None:
    head = models.initial_flat("varsel-logistic", 0)
    some = digits.rows(np.arange(5))

    def refused(model: str, samples: Samples, message: str) -> None:
        with pytest.raises(InputError, match=message):
            train(model, head, samples, Recipe(), 0)

    refused("cifar-cnn", some, r"takes samples of \[24, 24, 3\], these are \[28, 28\]")
    refused("varsel-logistic", digits.rows(np.arange(0)), "no samples")
    refused("varsel-logistic", some.with_labels(digits.y + 5), "a label is")
    refused("varsel-logistic", replace(some, x=digits.x[:5].astype(np.int32)), "uint8 or float32")
    tokens = np.zeros((5, 80), np.float32)
    refused("shakespeare-lstm-100", Samples(tokens, digits.y[:5], np.arange(5)), "token numbers")


def test_vectors_of_a_wrong_length_are_refused(digits: Dataset) -> None:
    jobs = jobs_of(digits, 2, 10)
    with pytest.raises(LengthError, match="does not fit"):
        train("varsel-logistic", np.zeros(3, np.float32), jobs[0].samples, Recipe(), 0)
    out = np.zeros((3, 7850), np.float32)
    with pytest.raises(LengthError, match="places for 2 x 7850"):
        train_many("varsel-logistic", np.zeros(7850, np.float32), jobs, Recipe(), out_KD=out)


def test_unknown_and_absent_devices_are_refused() -> None:
    assert pick_device("cpu").type == "cpu"
    with pytest.raises(InputError, match="auto, cuda, mps, cpu"):
        pick_device("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="not available"):
            pick_device("cuda")
