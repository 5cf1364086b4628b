"""Apps: learning that users bring. Each is a real file, loaded and run as a node does."""

import logging
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
import torch

import chainfl
from chainfl.codec.manifest import app_digest
from chainfl.errors import AppError, ToolMissingError
from chainfl.learning.app import App, load_app
from chainfl.learning.calls import time_limit
from chainfl.learning.learner import Job

PLAIN = """
import random
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import chainfl


@dataclass
class Config:
    rate: float = 0.01
    epochs: int = 2
    shifts: bool = True
    optimiser: str = "adam"


config = Config()


def model():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3))


def data(where):
    x = torch.randn(60, 4)
    y = (x.sum(1) > 0).long()
    return (x[10:], y[10:]), (x[:10], y[:10])


def train(model, samples, ctx):
    x, y = samples
    optimiser = torch.optim.Adam(model.parameters(), lr=ctx.config.rate)
    for _ in range(ctx.config.epochs):
        for rows in torch.randperm(len(x), generator=ctx.generator).split(16):
            noisy = x[rows] + np.random.normal(0, 0.1) + random.gauss(0, 0.1)
            loss = functional.cross_entropy(model(noisy.float()), y[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    ctx.log(f"round {ctx.round}")
    return {"train loss": loss.item()}


def score(model, samples, ctx):
    x, y = samples
    return chainfl.Score(functional.cross_entropy(model(x), y).item(), 1, len(y), {"seed": ctx.seed})
"""


def write(folder: Path, text: str = PLAIN, name: str = "mine.py") -> str:
    path = folder / name
    path.write_text(dedent(text), encoding="utf-8")
    return str(path)


def job(app: App, seed: int = 5, threads: int = 1) -> tuple[Job, Job]:
    train_on, held_out = app.data(None)
    return Job(train_on, seed, threads), Job(held_out, seed, threads)


def test_dropout_adam_and_augmentation_give_the_same_bits_from_the_same_seed(tmp_path: Path) -> None:
    app = load_app(write(tmp_path))
    training, judging = job(app)
    head_D = app.initial()

    first_D = app.train(head_D, training, 1)
    torch.manual_seed(99)  # what others do with global state does not matter
    again_D = app.train(head_D, training, 1)
    fresh_D = load_app(write(tmp_path)).train(head_D, training, 1)

    assert first_D.tobytes() == again_D.tobytes() == fresh_D.tobytes()
    assert not np.array_equal(first_D, app.train(head_D, Job(training.samples, 6), 1))
    assert app.metrics["train loss"] > 0
    assert app.score([first_D], judging)[0] == app.score([head_D, first_D], judging)[1]


def test_the_head_stays_as_it_was_and_the_callers_random_numbers_go_on(tmp_path: Path) -> None:
    app = load_app(write(tmp_path))
    training, judging = job(app)
    head_D = app.initial()
    before = head_D.tobytes()
    torch.manual_seed(3)
    expected = torch.rand(3)

    torch.manual_seed(3)
    app.train(head_D, training, 1)
    app.score([head_D], judging)

    assert head_D.tobytes() == before
    assert torch.equal(torch.rand(3), expected)
    assert not torch.are_deterministic_algorithms_enabled()


SWITCHES = {
    "gradients": "torch.set_grad_enabled(False)",
    "the default type": "torch.set_default_dtype(torch.float64)",
    "threads": "torch.set_num_threads(3)",
    "numpy's errors": "np.seterr(all='raise')",
}


def test_a_score_of_tensors_is_one_of_numbers(tmp_path: Path) -> None:
    tensors = "return chainfl.Score(torch.tensor(0.5), torch.tensor(3), torch.tensor(4)) or chainfl.Score"
    app = load_app(write(tmp_path, PLAIN.replace("return chainfl.Score", tensors)))

    (found,) = app.score([app.initial()], job(app)[1])

    assert [type(each) for each in (found.loss, found.correct, found.samples)] == [float, int, int]
    assert (found.loss, found.accuracy) == (0.5, 0.75)


@pytest.mark.parametrize("what", SWITCHES)
def test_a_switch_that_training_turns_is_turned_back(what: str, tmp_path: Path) -> None:
    app = load_app(
        write(tmp_path, PLAIN.replace('    return {"train', f'    {SWITCHES[what]}\n    return {{"train'))
    )
    training, _ = job(app)
    threads = torch.get_num_threads()

    first_D = app.train(app.initial(), training, 1)

    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() == torch.float32
    assert torch.get_num_threads() == threads
    assert np.geterr()["under"] == "ignore"
    assert np.array_equal(app.train(app.initial(), training, 1), first_D)


def test_the_vector_holds_what_is_trainable_and_floating_buffers_by_name(tmp_path: Path) -> None:
    text = PLAIN.replace(
        "    return nn.Sequential(", "    torch.manual_seed(1)\n    net = nn.Sequential("
    ).replace(
        "nn.Linear(8, 3))\n", "nn.Linear(8, 3))\n    net[0].weight.requires_grad = False\n    return net\n", 1
    )
    app = load_app(write(tmp_path, text))

    names = [tensor.name for tensor in app.layout.tensors]

    assert names == sorted(names)
    assert "0.weight" not in names
    assert {"0.bias", "1.running_mean", "1.running_var", "4.weight"} <= set(names)
    assert app.layout.buffers == ("1.num_batches_tracked",)


def test_a_tensor_with_two_names_is_in_the_vector_once_and_not_at_all_where_it_is_frozen(
    tmp_path: Path,
) -> None:
    tied = PLAIN.replace("    return nn.Sequential(", "    net = nn.Sequential(").replace(
        "nn.Linear(8, 3))\n",
        "nn.Linear(8, 3), nn.Linear(8, 3))\n    net[5].weight = net[4].weight\n    return net\n",
        1,
    )
    names = {tensor.name for tensor in load_app(write(tmp_path, tied)).layout.tensors}
    assert "4.weight" in names
    assert "5.weight" not in names

    frozen = tied.replace("    return net\n", "    net[4].weight.requires_grad = False\n    return net\n")
    names = {tensor.name for tensor in load_app(write(tmp_path, frozen)).layout.tensors}
    assert not {"4.weight", "5.weight"} & names


def test_a_pretrained_start_is_kept_as_the_first_model(tmp_path: Path) -> None:
    text = PLAIN.replace("    return nn.Sequential(", "    net = nn.Sequential(").replace(
        "nn.Linear(8, 3))\n",
        "nn.Linear(8, 3))\n    nn.init.constant_(net[4].bias, 0.25)\n    return net\n",
        1,
    )
    app = load_app(write(tmp_path, text))
    at = sum(tensor.size for tensor in app.layout.tensors if tensor.name < "4.bias")
    assert app.initial()[at : at + 3].tolist() == [0.25, 0.25, 0.25]


def test_parameters_chooses_what_is_trained_together(tmp_path: Path) -> None:
    chosen = "\n\ndef parameters(model):\n    return model[4].named_parameters(prefix='last')\n"
    app = load_app(write(tmp_path, PLAIN + chosen))
    training, _ = job(app)
    assert [tensor.name for tensor in app.layout.tensors] == ["last.bias", "last.weight"]
    assert app.train(app.initial(), training, 1).shape == (27,)


def test_what_is_not_trained_together_is_as_built_in_every_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Only the last layer is shared, and the optimiser moves all: a slip that would let a node drift from the others.
    text = (
        PLAIN
        + "\n\ndef parameters(model):\n    return [(n, p) for n, p in model.named_parameters() if n[0] == '4']\n"
    )
    app = load_app(write(tmp_path, text))
    training, judging = job(app)
    head_D = app.initial()

    before = app.score([head_D], judging)
    first_D = app.train(head_D, training, 1)

    assert np.array_equal(app.train(head_D, training, 1), first_D)
    assert app.score([head_D], judging) == before
    warned = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert warned == ["mine: a call changes 0.weight, which is not among parameters(): the change is lost"]


def test_the_digest_is_of_the_source_alone(tmp_path: Path) -> None:
    app = load_app(write(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    assert (
        app.digest
        == load_app(write(tmp_path / "elsewhere")).digest
        == app_digest({"mine.py": PLAIN.encode()})
    )
    assert app.digest != load_app(write(tmp_path, PLAIN + "\n")).digest
    assert app_digest({"b.py": b"2", "a.py": b"1"}) == app_digest({"a.py": b"1", "b.py": b"2"})


def test_an_installed_package_is_an_app_and_its_digest_covers_all_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "mylearning_a"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text("WIDTH = 8\n")
    write(package, PLAIN, "vision.py")
    monkeypatch.syspath_prepend(str(tmp_path))

    app = load_app("mylearning_a.vision")

    files = {path.name: path.read_bytes() for path in package.glob("*.py")}
    assert app.name == "mylearning_a.vision"
    assert app.digest == app_digest(files)
    (package / "helper.py").write_text("WIDTH = 9\n")
    assert load_app("mylearning_a.vision").digest != app.digest


PACKAGES = {
    "raises": ("raise RuntimeError('out of order')", r"__init__.py:1: import: RuntimeError: out of order"),
    "needs what is not there": (
        "import nonsense_package",
        r"'broken.mine': needs nonsense_package, which is not",
    ),
    "is sound": ("", r"'broken.mine': no such file, and no such module"),
}


@pytest.mark.parametrize("what", PACKAGES)
def test_a_package_that_does_not_run_is_told_from_a_module_that_is_not_there(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    init, says = PACKAGES[what]
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "__init__.py").write_text(init)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    with pytest.raises(AppError, match=says):
        load_app("broken.mine")


def test_a_sponsor_sets_the_config_and_it_reaches_the_context(tmp_path: Path) -> None:
    app = load_app(write(tmp_path), {"rate": "0.5", "epochs": "1", "shifts": "false"})
    assert (app.config.rate, app.config.epochs, app.config.shifts) == (0.5, 1, False)
    for changes, says in (
        ({"speed": "1"}, "config has no speed; it has: epochs, optimiser, rate, shifts"),
        ({"epochs": "1.5"}, "config.epochs is '1.5'; give a int"),
        ({"shifts": "maybe"}, "give a bool"),
    ):
        with pytest.raises(AppError, match=says):
            load_app(write(tmp_path), changes)


def test_an_installed_module_that_is_loaded_again_has_its_own_config_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PLAIN.replace("nn.Dropout(0.5)", "nn.Dropout(config.rate)")
    assert text != PLAIN
    (tmp_path / "own_config.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)

    rates = []
    for given in ({"rate": "0.25"}, {}, {"rate": "0.75"}):
        layers = load_app("own_config", given).build().modules()
        rates.append(next(layer.p for layer in layers if isinstance(layer, torch.nn.Dropout)))
    assert rates == [0.25, 0.01, 0.75]


def test_two_functions_are_enough_for_a_classifier(tmp_path: Path) -> None:
    text = PLAIN[: PLAIN.index("def train(")]
    app = load_app(write(tmp_path, text))
    training, judging = job(app)
    head_D = app.initial()
    update_D = app.train(head_D, training, 1)
    before, after = app.score([head_D, update_D], judging)
    assert after.loss < before.loss
    assert after.samples == 10


BAD = {
    "no model": (
        "def model():",
        "def modell():",
        r"the app has no model\(\); is modell\(\) meant to be it\?",
    ),
    "no data": ("def data(where):", "def samples(where):", r"the app has no data\(\)"),
    "train misspelt": ("def train(", "def trian(", r"no train\(\); is trian\(\) meant to be it\?"),
    "a name that is no function": ("def score(", "score = 3\ndef other(", "score is a int, not a function"),
    "does not parse": ("def model():", "def model(:", "invalid syntax"),
    "fails at import": ("config = Config()", "config = 1 / 0", r"mine.py:\d+: import: ZeroDivisionError"),
    "ends the process at import": (
        "config = Config()",
        "raise SystemExit(3)",
        r"mine.py:\d+: import: SystemExit: 3",
    ),
    "needs what is not there": ("import random\n", "import nonsense_package\n", "needs nonsense_package"),
    "config of a list": ("rate: float = 0.01", "rate: tuple = ()", "config.rate is a tuple"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_app_is_refused_in_one_line_when_it_is_loaded(what: str, tmp_path: Path) -> None:
    old, new, says = BAD[what]
    assert old in PLAIN
    with pytest.raises(AppError, match=says) as refused:
        load_app(write(tmp_path, PLAIN.replace(old, new)))
    assert "\n" not in str(refused.value)
    assert "mine.py" in str(refused.value)


LATE = {
    "wrong shapes": (
        "noisy.float())",
        "noisy.float()[:, :2])",
        r"mine.py:\d+: train\(\): RuntimeError: mat1 and mat2",
    ),
    "returns the model": ('return {"train loss": loss.item()}', "return model", "a dict of numbers by name"),
    "changes the model": (
        "    optimiser = ",
        "    model[4] = nn.Linear(8, 4)\n    optimiser = ",
        "names or shapes",
    ),
    "ends the process": ("    ctx.log(", "    raise SystemExit(0)\n    ctx.log(", "SystemExit"),
    "exhausts memory": (
        "    ctx.log(",
        "    held = [torch.empty(2**31) for _ in range(2**20)]\n    ctx.log(",
        r"mine.py:\d+: train\(\): (RuntimeError|MemoryError)",
    ),
    "never ends": (
        "    ctx.log(",
        "    while True:\n        pass\n    ctx.log(",
        r"mine.py:\d+: train\(\): .* not ended",
    ),
    "never ends and catches all": (
        "    ctx.log(",
        "    while True:\n        try:\n            x.sum()\n        except Exception:\n            pass\n    ctx.log(",
        "not ended after",
    ),
    "never ends and catches even what is no exception": (
        "    ctx.log(",
        "    while True:\n        try:\n            x.sum()\n        except:\n            pass\n    ctx.log(",
        r"mine.py:\d+: train\(\): .* not ended",
    ),
    "never ends and suppresses all": (
        "    ctx.log(",
        "    from contextlib import suppress\n    while True:\n        with suppress(BaseException):\n"
        "            x.sum()\n    ctx.log(",
        r"mine.py:\d+: train\(\): .* not ended",
    ),
    "an error whose text fails": (
        "    ctx.log(",
        "    class Odd(Exception):\n        def __str__(self):\n            raise RuntimeError\n"
        "    raise Odd\n    ctx.log(",
        r"mine.py:\d+: train\(\): Odd: no message",
    ),
    "a loss of words": (
        "return chainfl.Score",
        "return chainfl.Score('low') or chainfl.Score",
        "'loss' as a str",
    ),
    "more correct than there are": (
        "return chainfl.Score",
        "return chainfl.Score(1.0, 5, 4) or chainfl.Score",
        "5 correct of 4",
    ),
    "train tells words": (
        'return {"train loss": loss.item()}',
        'return {"train loss": "low"}',
        "gives 'train loss' as a str; give a number",
    ),
    "data gives one thing": ("return (x[10:], y[10:]), (x[:10], y[:10])", "return x", "return two things"),
    "data gives nothing": ("(x[:10], y[:10])", "(x[:0], y[:0])", "no samples held out"),
    "score measures words": (
        '{"seed": ctx.seed}',
        '{"seed": "many"}',
        r"score\(\) gives 'seed' as a str; give a number",
    ),
    "score gives text": ("return chainfl.Score", 'return "good" or chainfl.Score', "return the mean loss"),
}


@pytest.mark.parametrize("what", LATE)
def test_an_app_that_fails_in_a_call_is_told_by_file_and_line(what: str, tmp_path: Path) -> None:
    old, new, says = LATE[what]
    assert old in PLAIN
    app = load_app(write(tmp_path, PLAIN.replace(old, new)))

    with pytest.raises(AppError, match=says) as refused:
        _play(app, 3 if "never" in what else 120)
    assert "\n" not in str(refused.value)

    # The next round finds the app as it was: a failed call leaves nothing behind.
    sound = load_app(write(tmp_path))
    assert sound.train(sound.initial(), job(sound)[0], 1).shape == (sound.layout.d,)


def _play(app: App, seconds: float) -> None:
    with time_limit(seconds, "training"):
        training, judging = job(app)
        app.train(app.initial(), training, 1)
        app.score([app.initial()], judging)


def test_a_missing_package_of_an_extra_is_a_missing_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "peft", None)
    with pytest.raises(ToolMissingError, match=r"needs peft.*\[hf\]"):
        load_app(write(tmp_path, "import peft\n"))


def test_importing_chainfl_brings_no_torch_and_score_is_there() -> None:
    import subprocess
    import sys

    code = "import chainfl, sys; assert 'torch' not in sys.modules and 'numpy' not in sys.modules; chainfl.Score(1.0); "
    code += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert chainfl.App is App
