"""Apps in the simulator: templates and examples run, the same seed gives the same roots, errors are one line."""

import json
import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from chainfl.cli.app import run
from chainfl.cli.apps import TEMPLATES

ROOT = Path(__file__).resolve().parents[2]
FEW = ["--participants", "5", "--committee", "3", "--rounds", "2", "--min-updates", "1"]
# Without noise `private` has learnt all in its first round; its line in examples/README.md plays it with --dp.
EXAMPLES = sorted({path.parent.name for path in (ROOT / "examples").glob("*/app.py")} - {"private"})


SEEN = """
import torch
from torch import nn


def model():
    return nn.Linear(2, 2)


def data(where):
    with open(where) as file:
        rows = int(file.read())
    x = torch.ones(rows, 2)
    y = torch.zeros(rows).long()
    return (x, y), (x[:2], y[:2])


def train(model, samples, ctx):
    with torch.no_grad():
        model.weight += len(samples[0])
    return {"rows": len(samples[0]), "nobody's": float("nan")}
"""


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run([*arguments, "--json"])
    out = capsys.readouterr().out
    assert len(out.splitlines()) == 1
    plain: dict[str, Any] = json.loads(out)
    return code, plain


def new(folder: Path, template: str, capsys: pytest.CaptureFixture[str]) -> str:
    code, told = answer(capsys, "new", str(folder / template), "--template", template)
    assert code == 0
    return str(told["metrics"]["app"])


@pytest.mark.slow
def test_an_app_with_dropout_adam_and_augmentation_gives_the_same_roots_twice_and_with_real_roles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = new(tmp_path, "vision", capsys)
    text = Path(app).read_text()
    assert all(word in text for word in ("Dropout", "AdamW", "roll("))
    assert len(text.splitlines()) <= 60

    _, first = answer(capsys, "simulate", "--app", app, *FEW)
    _, again = answer(capsys, "simulate", "--app", app, *FEW)
    _, faithful = answer(capsys, "simulate", "--app", app, *FEW, "--faithful")
    _, other = answer(capsys, "simulate", "--app", app, *FEW, "--seed", "1")

    roots = [
        [one["model_root"] for one in told["metrics"]["rounds"]] for told in (first, again, faithful, other)
    ]
    assert roots[0] == roots[1] == roots[2]
    assert not set(roots[0]) & set(roots[3])
    assert first["metrics"]["rounds"][1]["accuracy"] > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("template", ["tabular", "text"])
def test_a_template_without_classes_learns_and_its_loss_falls(
    template: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = new(tmp_path, template, capsys)

    code, told = answer(capsys, "simulate", "--app", app, *FEW, "--run", str(tmp_path / "run"))

    assert code == 0
    losses = [one["loss"] for one in told["metrics"]["rounds"]]
    assert losses[1] < losses[0]
    assert [one["accuracy"] for one in told["metrics"]["rounds"]] == [None, None]
    assert told["metrics"]["accuracy"] is None
    assert (tmp_path / "run" / "plots" / "loss.png").is_file()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(
    find_spec("peft") is None or find_spec("transformers") is None, reason="peft (extra hf) not found"
)
def test_adapters_of_a_transformer_are_all_that_is_on_chain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import runpy

    app = new(tmp_path, "lora", capsys)
    base = tmp_path / "base"
    runpy.run_path(str(Path(app).with_name("make_base.py")))["main"](str(base))
    monkeypatch.setenv("LORA_BASE", str(base))
    capsys.readouterr()

    code, told = answer(
        capsys, "simulate", "--app", app, *FEW, "--app-config", "batch=32", "--test-samples", "16"
    )

    from chainfl.learning.app import load_app
    from chainfl.learning.taskapp import manifest_of

    manifest = manifest_of(load_app(app), score_samples=300, scale=20)
    losses = [one["loss"] for one in told["metrics"]["rounds"]]
    assert code == 0
    assert losses[1] < losses[0]
    assert manifest.layout.d <= 200_000
    assert all("lora" in tensor.name for tensor in manifest.layout.tensors)
    assert sum(each.bytes for each in manifest.base) > 4 * 5_000_000


def test_each_participant_may_have_a_place_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = tmp_path / "seen.py"
    app.write_text(SEEN)
    for client in range(8):
        (tmp_path / f"part-{client}.txt").write_text(str(10 + client))

    place = str(tmp_path / "part-{client}.txt")
    code, told = answer(capsys, "simulate", "--app", str(app), *FEW, "--dataset", place)
    assert code == 0
    assert told["metrics"]["rounds"][0]["outcome"] == "final"

    # What train() answers is in each round, as the mean over its workers; with `mean` all of them have a share.
    more = ["--participants", "8", "--rule", "mean"]
    code, told = answer(capsys, "simulate", "--app", str(app), *FEW, *more, "--dataset", place)
    assert code == 0
    for one in told["metrics"]["rounds"]:
        rows = [9 + id_ for id_ in one["selected"]]
        assert len(rows) >= 2
        assert one["training"] == {"rows": sum(rows) / len(rows)}

    (tmp_path / "part-4.txt").unlink()
    code, told = answer(capsys, "simulate", "--app", str(app), *FEW, "--dataset", place)
    assert code == 2
    assert "seen.py:11: data(): FileNotFoundError" in told["error"]["message"]


def test_honest_training_that_gives_no_numbers_is_told_in_one_line_a_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    app = tmp_path / "seen.py"
    app.write_text(SEEN.replace("+= len(samples[0])", "*= float('nan')"))
    for client in range(5):
        (tmp_path / f"part-{client}.txt").write_text("10")

    code, told = answer(
        capsys, "simulate", "--app", str(app), *FEW, "--dataset", str(tmp_path / "part-{client}.txt")
    )

    assert code == 0
    assert [one["outcome"] for one in told["metrics"]["rounds"]] == ["void", "void"]
    lines = [each.getMessage() for each in caplog.records if "left out" in each.getMessage()]
    assert len(lines) == 2
    assert lines[0].startswith("round 1: the update of participant ")
    assert "is nan" in lines[0]


REFUSED = {
    "no such file": (["--app", "nowhere.py"], "nowhere.py"),
    "an option of built-in models": (["--app", "{app}", "--batch", "4"], "--batch is for built-in models"),
    "a config without an app": (["--app-config", "rate=1"], "--app-config is for an app"),
    "a partition by label": (["--app", "{app}", "--partition", "dirichlet:lambda=0.1"], "needs labels"),
    "an attack on labels": (["--app", "{app}", "--hostile", "0.4"], "changes labels"),
    "a config that is not there": (["--app", "{app}", "--app-config", "speed=1"], "config has no speed"),
    "a failing data()": (["--app", "{app}", "--dataset", "none.csv"], "data(): FileNotFoundError"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_an_app_cannot_do_is_refused_in_one_line(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, says = REFUSED[what]
    app = new(tmp_path, "tabular", capsys)
    code, told = answer(capsys, "simulate", *FEW, *(each.format(app=app) for each in arguments))
    assert code == 2
    assert says in told["error"]["message"]
    assert "please report it" not in told["error"]["message"]


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_readme_of_a_new_app_names_each_step_that_its_template_needs(
    template: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(new(tmp_path, template, capsys)).parent
    assert run(["new", str(tmp_path / "other"), "--template", template]) == 0
    told = capsys.readouterr().out.splitlines()
    steps = (folder / "README.md").read_text().split("```")[1].strip().splitlines()

    assert steps[-4].startswith(f"chainfl app check {folder}/app.py")
    assert steps[:-4] == ([f"python {folder}/make_base.py"] if template == "lora" else [])
    assert (told[1] == f"python {tmp_path}/other/make_base.py") == (template == "lora")


def test_the_readme_of_a_folder_with_a_space_can_be_typed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my app"
    assert run(["new", str(folder)]) == 0
    told = capsys.readouterr().out.splitlines()[1:] + (folder / "README.md").read_text().splitlines()
    words = [shlex.split(line, comments=True) for line in told if line.startswith("chainfl ")]
    assert len(words) == 6
    assert all(str(folder / "app.py") in each for each in words if "join" not in each)


def test_what_an_app_prints_does_not_mix_with_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = Path(new(tmp_path, "tabular", capsys))
    text = app.read_text().replace(
        "    optimiser.step()", "    optimiser.step()\n            print('in a step')"
    )
    app.write_text("print('at import')\n" + text)

    assert run(["simulate", "--app", str(app), *FEW, "--json"]) == 0

    told = capsys.readouterr()
    assert json.loads(told.out)["ok"]
    assert {"at import", "in a step"} <= set(told.err.splitlines())


def test_a_kept_run_goes_on_with_its_own_app_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app, kept = Path(new(tmp_path, "tabular", capsys)), str(tmp_path / "kept")
    assert answer(capsys, "simulate", "--app", str(app), *FEW, "--run", kept)[0] == 0

    sound = app.read_text()
    app.write_text(sound + "# another\n")
    code, told = answer(capsys, "simulate", "--resume", kept, "--rounds", "3")
    assert code == 2
    assert re.search(
        r"begun with an app of digest \w{64}, \S+app.py has \w{64} now", told["error"]["message"]
    )

    other = str(tmp_path / "other")
    assert answer(capsys, "simulate", "--app", str(app), *FEW, "--run", other)[0] == 0
    compared = answer(capsys, "compare", kept, other)[1]["metrics"]["differences"]
    assert list(compared) == ["app digest"]
    assert len(set(compared["app digest"])) == 2

    app.write_text(sound)
    code, told = answer(capsys, "simulate", "--resume", kept, "--rounds", "3")
    assert code == 0
    assert len(told["metrics"]["rounds"]) == 3


def test_a_new_app_is_never_written_over_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new(tmp_path, "tabular", capsys)
    code, told = answer(capsys, "new", str(tmp_path / "tabular"))
    assert code == 2
    assert "exists already" in told["error"]["message"]


def test_a_check_answers_by_exit_code_and_names_the_digest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = Path(new(tmp_path, "tabular", capsys))
    code, told = answer(capsys, "app", "check", str(app), "--samples", "64")
    assert code == 0
    assert len(told["metrics"]["digest"]) == 64

    app.write_text(app.read_text().replace("optimiser.step()", "model[0].bias.data += float('nan')"))
    code, told = answer(capsys, "app", "check", str(app), "--samples", "64")
    assert code == 2
    assert "0.bias" in told["metrics"]["findings"][-1]["text"]
    assert "0.bias" in told["error"]["message"]


def test_a_check_ends_as_other_commands_do_where_the_users_code_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = Path(new(tmp_path, "tabular", capsys))
    sound = app.read_text()

    app.write_text(sound.replace("optimiser.step()", "raise KeyError('oops')"))
    assert run(["app", "check", str(app), "--samples", "64"]) == 2
    assert re.search(
        r"^error: \S+app.py:\d+: train\(\): KeyError: 'oops'$", capsys.readouterr().err, re.MULTILINE
    )

    app.write_text(sound.replace("config = Config()", "while True:\n    pass"))
    assert run(["app", "check", str(app), "--seconds", "1"]) == 2
    assert re.search(
        r"^error: \S+app.py:\d+: import has not ended after 1 s$", capsys.readouterr().err, re.MULTILINE
    )

    app.write_text(sound.replace("functional.mse_loss(answers, y).item()", "-1.0"))
    assert run(["app", "check", str(app), "--samples", "64"]) == 1
    assert "less than 0 has no place on chain" in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_and_learns(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = answer(capsys, "simulate", "--app", str(ROOT / "examples" / example), *FEW)
    losses = [one["loss"] for one in told["metrics"]["rounds"]]
    assert code == 0
    assert losses[1] < losses[0]
