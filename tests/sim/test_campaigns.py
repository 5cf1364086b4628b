"""Campaigns: files are checked before anything runs, finished cells stay, failures stay alone, verdicts compute."""

import json
import multiprocessing
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainfl.cli.app import run as command
from chainfl.errors import InputError
from chainfl.sim.experiments.campaign import find_campaign, parse, shipped
from chainfl.sim.experiments.cells import Cell, expand
from chainfl.sim.experiments.check import impossible_cells
from chainfl.sim.experiments.claims import judge
from chainfl.sim.experiments.estimate import estimate
from chainfl.sim.experiments.figures import draw_figures
from chainfl.sim.experiments.report import blocks_of
from chainfl.sim.experiments.results import pack, read_results
from chainfl.sim.experiments.runner import CELLS, Plan, open_run, run_campaign
from chainfl.sim.experiments.workers import side_by_side
from chainfl.sim.pages import as_html, as_markdown
from tests.processes import await_that
from tests.sim.campaign import SMALL_CELLS, quiet

DATA = os.environ.get("CHAINFL_DATA")

SMALL = f"""
title = "Two rules"
seeds = 2
{SMALL_CELLS}
[axes]
rule = ["softmax", "mean"]

[[claims]]
text = "the better rule is above the other"
group = "all"
first = "softmax"
"""


def run_here(text: str, folder: Path, **more: Any) -> Any:
    return run_campaign(Plan(parse("mine", text), "small", folder, jobs=0, **more), quiet)


def test_a_strangers_campaign_on_an_npz_file_runs_and_reports(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "own.npz", x=rng.integers(0, 255, (200, 28, 28), np.uint8), y=rng.integers(0, 4, 200))
    text = SMALL.replace("[base]", f'[base]\ndataset = "npz:{tmp_path / "own.npz"}"')
    (tmp_path / "own.toml").write_text(text)

    code = command(
        ["experiment", "run", str(tmp_path / "own.toml"), "--run", str(tmp_path / "run"), "--jobs", "1"]
    )

    assert code == 0
    assert len(list((tmp_path / "run" / CELLS).glob("*.json"))) == 4
    assert "| softmax |" in (tmp_path / "run" / "report.md").read_text()
    assert "<table>" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(
    ("x", "model", "classes"),
    [
        (np.random.default_rng(2).random((300, 6)), "dense:inputs=6,classes=3", 3),
        (np.random.default_rng(2).random((300, 8, 5)), "dense:height=8,width=5,hidden=0,classes=13", 13),
        (np.random.default_rng(2).random((300, 6, 6, 3)), "conv:side=6,channels=3,hidden=4,classes=2", 2),
        (np.arange(2400).reshape(300, 8) % 40, "lstm:length=8,words=40,hidden=3,classes=4", 4),
    ],
)
def test_data_of_any_shape_and_number_of_classes_runs(
    tmp_path: Path, x: Any, model: str, classes: int
) -> None:
    rare = np.where(np.arange(300) % 7, 0, np.arange(300) % classes)
    np.savez(tmp_path / "own.npz", x=x, y=rare.astype(np.int64))
    text = SMALL.replace("mnist-mlp-small", model).replace("seeds = 2", "seeds = 1")
    text = text.replace("[base]", f'[base]\ndataset = "npz:{tmp_path / "own.npz"}"\nhostile = 0.25')

    ran = run_here(text.replace('"mean"]', '"mean", "dnc:f=1"]\nattack = ["min-max"]'), tmp_path / "run")

    assert (ran.finished, ran.failed) == (3, {})


def test_a_trigger_on_samples_that_have_no_brightest_value_is_named_before_anything_runs(
    tmp_path: Path,
) -> None:
    np.savez(tmp_path / "own.npz", x=np.arange(2400).reshape(300, 8) % 40, y=np.arange(300) % 2)
    text = SMALL.replace("mnist-mlp-small", "lstm:length=8,words=40")
    text = text.replace("[base]", f'[base]\ndataset = "npz:{tmp_path / "own.npz"}"\nhostile = 0.25')

    with pytest.raises(InputError, match=r"4 cells cannot be run: .*a pixel trigger needs images or numbers"):
        run_here(text.replace('"mean"]', '"mean"]\nattack = ["backdoor"]'), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_finished_cell_is_never_run_again_and_a_missing_one_is(tmp_path: Path) -> None:
    first = run_here(SMALL, tmp_path)
    lost = sorted((tmp_path / CELLS).glob("*.json"))[0]
    kept = sorted((tmp_path / CELLS).glob("*.json"))[1]
    before = (lost.read_text(), kept.stat().st_mtime_ns)
    lost.unlink()

    again = run_here(SMALL, tmp_path)

    assert (first.finished, again.found, again.finished) == (4, 3, 1)
    assert kept.stat().st_mtime_ns == before[1]
    assert json.loads(lost.read_text())["root"] == json.loads(before[0])["root"]


def test_a_file_that_is_not_whole_is_of_no_finished_cell(tmp_path: Path) -> None:
    run_here(SMALL, tmp_path)
    cut, other, *_ = sorted((tmp_path / CELLS).glob("*.json"))
    whole = cut.read_text()
    cut.write_text(whole[: len(whole) // 2])
    other.write_text(whole)
    (tmp_path / CELLS / "left.json.new").write_text("{")
    said: list[str] = []

    assert "1 of 4 cells" not in as_markdown(blocks_of(read_results(tmp_path)))
    assert "2 of 4 cells" in as_markdown(blocks_of(read_results(tmp_path)))
    again = run_campaign(Plan(parse("mine", SMALL), "small", tmp_path, jobs=0), said.append)

    assert (again.found, again.finished) == (2, 2)
    assert next(line for line in said if "damaged: its cell is run again" in line).startswith(str(cut))
    assert json.loads(cut.read_text())["root"] == json.loads(whole)["root"]


def test_a_packed_run_goes_on(tmp_path: Path) -> None:
    run_here(SMALL.replace("seeds = 2", "seeds = 1"), tmp_path / "run")
    pack(tmp_path / "run", tmp_path / "packed")

    again = run_here(SMALL, tmp_path / "packed")

    assert (again.found, again.finished) == (2, 2)


def test_a_dry_run_tells_what_is_left_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(SMALL.replace('"mean"]', '"mean", "krum:f=9"]'))
    place = ["--run", str(tmp_path / "run"), "--jobs", "1"]

    code = command(["experiment", "run", str(tmp_path / "own.toml"), *place, "--dry-run"])
    before = estimate(Plan(parse("mine", SMALL), "small", tmp_path / "run"))[0]
    missing = not (tmp_path / "run").exists()
    run_here(SMALL.replace("seeds = 2", "seeds = 1"), tmp_path / "run")
    after = estimate(Plan(parse("mine", SMALL), "small", tmp_path / "run"))[0]

    assert code == 1
    assert missing
    assert [(each.cells, each.left) for each in (*before, *after)] == [(4, 4), (4, 2)]
    assert before[0].seconds is not None
    assert before[0].seconds_left == 4 * before[0].seconds > 0


def fail_one(cell: Cell, _data: str | None) -> dict[str, Any]:
    """A cell that kills its process, one that raises, and others that end well."""
    label = dict(cell.labels)["rule"]
    if label == "mean" and cell.seed == 0:
        os._exit(9)
    if label == "mean":
        raise ValueError("no\nluck")
    return {"key": cell.key()}


def test_a_cell_that_fails_or_dies_is_reported_and_the_others_go_on() -> None:
    cells, _ = expand(parse("mine", SMALL), "small")

    outcomes = {outcome.cell.name: outcome for outcome in side_by_side(cells, None, 2, fail_one)}

    assert len(outcomes) == 4
    assert outcomes["mine/all rule=mean seed=0"].error == "its process ended with code 9"
    assert outcomes["mine/all rule=mean seed=1"].error == "ValueError: no luck"
    assert all(outcomes[f"mine/all rule=softmax seed={seed}"].result for seed in (0, 1))


def start_and_say(folder: Path) -> None:
    """A parent whose worker says who it is and then never ends."""
    cells, _ = expand(parse("mine", SMALL), "small")
    list(side_by_side(cells, str(folder), 1, never_ends))


def never_ends(_cell: Cell, data: str | None) -> dict[str, Any]:
    (Path(str(data)) / "pid").write_text(str(os.getpid()))
    threading.Event().wait()
    return {}


def test_processes_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    parent = multiprocessing.get_context("spawn").Process(target=start_and_say, args=(tmp_path,))
    parent.start()
    await_that(
        lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text()), 60, "a worker's number"
    )
    worker = int((tmp_path / "pid").read_text())

    parent.kill()
    parent.join()

    await_that(
        lambda: (
            not Path(f"/proc/{worker}").exists() or "(zombie)" in Path(f"/proc/{worker}/status").read_text()
        ),
        60,
        "the worker's end",
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("title =", "titel ="), r"no key is called 'titel'; there are: .*\(did you mean 'title'\?\)"),
        (
            ("rounds = 2", "round = 2"),
            r"no setting is called 'round'; there are: .*\(did you mean 'rounds'\?\)",
        ),
        (("rounds = 2", 'rounds = "two"'), "rounds must be a whole number, not 'two'"),
        (
            ("participants = 8", "participants = 3"),
            "cannot be run: mine/all rule=softmax: 3 participants leave no worker",
        ),
        (('"mean"]', '"meen"]'), r"rule=meen: no rule is called 'meen'; there are: .*did you mean"),
        (("[base]", '[base]\ndataset = "minst"'), r"no data set is called 'minst'.*did you mean 'mnist"),
        (("[base]", '[base]\ndataset = "npz:gone.npz"'), "no such file"),
        (("[base]", '[base]\npartition = "shards:per=9000"'), "shards"),
        (('"mean"]', '"krum:f=9"]'), r"Krum needs at least f \+ 3 = 12 updates"),
        (("mnist-mlp-small", "covtype-mlp"), "takes samples of"),
        (("first =", "frist ="), "did you mean 'first"),
        (
            ('first = "softmax"', 'first = "softmx"'),
            r"label of axis rule of group all.*did you mean 'softmax",
        ),
        (('first = "softmax"', 'along = "attack"'), "axis of group all is called 'attack'; there are: rule"),
        (('first = "softmax"', 'along = "rule"\nshape = "up"'), "no shape is called 'up'; there are: cliff"),
        (
            ('first = "softmax"', 'first = "mean"\nof = { attack = "alie" }'),
            "axis of group all is called 'attack'",
        ),
        (('first = "softmax"', 'level = "mean"\nnear_paper = 2.0'), "has no number of the paper for mean"),
        (('group = "all"', 'group = "none"'), "no group of campaign mine is called 'none'"),
        (("[axes]", "[axes"), "no TOML"),
        (("[axes]", "[axes]\nrule = ['krum']"), "no TOML"),
        (("seeds = 2", "seeds = 0"), "seeds must be a whole number from 1 to 10000, not 0"),
        (("seeds = 2", "seeds = true"), "seeds must be a whole number"),
        (("seeds = 2", f"seeds = {10**12}"), "from 1 to 10000, not 1000000000000"),
        (("[axes]", "[sizes.small]\nseeds = '3'\n[axes]"), "sizes: small: seeds must be .* not '3'"),
        (("rounds = 2", "rounds = 2\nseeds = -1"), "mine/all: seeds must be"),
        (("rounds = 2", "rounds = 2\nseed = -1"), "seed must be at least 0"),
        (("rounds = 2", f"rounds = 2\nseed = {10**90}"), "is not a uint256"),
        (("[axes]", "[sizes.small]\nleave_out = 'mean'\n[axes]"), "leave_out must be a table"),
        (("[axes]", "[sizes.small]\nleave_out.rule = 'mean'\n[axes]"), "rule must be a list of labels"),
        (("[axes]", "[sizes.small]\nleave_out.rule = ['meen']\n[axes]"), "did you mean 'mean'"),
        (("[axes]", "[sizes.small]\nleave_out.rul = ['mean']\n[axes]"), "did you mean 'rule'"),
        (("[axes]", "[groups.a]\nsizes.smalls = { rounds = 1 }\n[axes]"), "no size .*did you mean 'small'"),
        (("[axes]", "[groups.all]\nsizes.small.skip = 3\n[axes]"), "skip must be a text, not 3"),
        (("[axes]", "[groups.all]\nfigure = 'axes'\n[axes]"), "no figure is called .*did you mean 'axis'"),
        (("[axes]", "[groups.all]\npaper.softmx = 9.0\n[axes]"), "paper: .*did you mean 'softmax'"),
        (("[axes]", "[groups.all]\npaper.softmax = '9'\n[axes]"), "softmax must be a number, not '9'"),
        (("[axes]", "[groups]\n[axes]"), r"\[groups\] is empty"),
        (('"mean"]', "\"mean\"]\nattack = ['alie']\nworker_attack = ['alie']"), "are the same setting"),
        (('"mean"]', '"softmax:beta=nan"]'), "beta must be a finite number, not 'nan'"),
        (("mnist-mlp-small", "dens:inputs=3,classes=2"), "did you mean 'dense'"),
        (('first = "softmax"', "first = 3"), "claim 1: first must be a text, not 3"),
        (('first = "softmax"', 'over = "softmax"'), "over must be a list of texts"),
        (('first = "softmax"', 'level = "mean"\nat_least = "x"'), "at_least must be a number, not 'x'"),
        (('first = "softmax"', 'level = "mean"\nof = "x"'), "of must be a table"),
        (('first = "softmax"', 'first = "mean"\nmeasure = "lst"'), "did you mean 'last'"),
        (('first = "softmax"', 'decays = "accuracies"'), "did you mean 'accuracy'"),
        (('group = "all"', 'groups = "all"'), "groups must be a list of texts"),
        (('group = "all"', ""), "needs a group or groups"),
        (("[axes]", "[[tables]]\ntitle = 'x'\nkind = 'ranks'\ngroups = 3\n[axes]"), "groups must be a list"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_before_anything_runs(
    tmp_path: Path, change: tuple[str, str], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        run_here(SMALL.replace(*change, 1), tmp_path / "run")

    assert not (tmp_path / "run").exists()


def test_a_reason_is_named_once_for_all_the_cells_that_have_it(tmp_path: Path) -> None:
    text = SMALL.replace('"mean"]', '"krum:f=9"]\npartition = ["iid", "shards:per=9000"]')

    with pytest.raises(InputError) as caught:
        run_here(text, tmp_path / "run")

    said = str(caught.value)
    assert said.count("Krum needs at least f + 3 = 12 updates") == 1
    assert "smaller committee (and 1 more)" in said
    assert said.count("shards: 8 clients with 9000") == 1
    assert said.startswith("6 cells cannot be run: mine/all rule=softmax partition=shards:per=9000 seed=0: ")


def test_impossible_cells_can_be_left_out(tmp_path: Path) -> None:
    ran = run_here(SMALL.replace('"mean"]', '"krum:f=9"]'), tmp_path, skip_impossible=True)

    assert (ran.finished, len(ran.impossible)) == (2, 2)


def with_accuracies(folder: Path, values: dict[str, list[float]]) -> None:
    """A run's folder whose cells have these means of the last five, by rule and seed; best is a point more."""
    plan = Plan(parse("mine", SMALL), "small", folder)
    open_run(plan)
    for cell in expand(plan.campaign, "small")[0]:
        value = values[dict(cell.labels)["rule"]][cell.seed]
        shown = {"measures": {"last": value, "best": value + 0.01}, "series": {}}
        plain = {"key": cell.key(), **shown, "outside_bounds": None, "seconds": 1.0}
        (folder / CELLS / f"{cell.key()}.json").write_text(json.dumps(plain))


@pytest.mark.parametrize(
    ("claim", "verdict", "why"),
    [
        ('first = "softmax"', "holds", "softmax 85.0, mean 75.0; 2 of 2"),
        ('first = "mean"', "fails", "mean 75.0, softmax 85.0; 0 of 2"),
        ('over = ["softmax", "mean"]\nby = 0.15', "fails", "0 of 2"),
        ('order = ["softmax", "mean"]\nby = 0.05', "holds", "2 of 2"),
        (
            'along = "rule"\nshape = "falls"',
            "holds",
            "rule: softmax 85.0, mean 75.0; so in 2 seeds; 2 of 2 seeds",
        ),
        ('along = "rule"\nshape = "cliff"', "fails", "75.0"),
        ('level = "mean"\nat_least = 0.7', "holds", "mean 75.0; 2 of 2 seeds"),
        ('level = "mean"\nat_most = 0.7', "fails", "mean 75.0"),
        ('untested = "no data"', "not tested", "no data"),
    ],
)
def test_verdicts_are_computed_from_the_cells(tmp_path: Path, claim: str, verdict: str, why: str) -> None:
    with_accuracies(tmp_path, {"softmax": [0.8, 0.9], "mean": [0.7, 0.8]})
    text = SMALL.replace('first = "softmax"', claim)
    (tmp_path / "campaign.toml").write_text(text)

    (found,) = judge(read_results(tmp_path))

    assert found.verdict == verdict
    assert why in next(iter(found.findings.values())).why


@pytest.mark.parametrize(("first", "second"), [("softmax", "mean"), ("mean", "softmax")])
def test_a_mean_that_rests_on_one_lucky_seed_is_unclear(tmp_path: Path, first: str, second: str) -> None:
    with_accuracies(tmp_path, {"softmax": [0.9, 0.7], "mean": [0.7, 0.75]})
    text = SMALL.replace('first = "softmax"', f'over = ["{first}", "{second}"]')
    (tmp_path / "campaign.toml").write_text(text)

    (found,) = judge(read_results(tmp_path))

    assert found.verdict == "unclear"
    assert "1 of 2 comparisons by seed" in found.findings["last"].why


SETTINGS = SMALL.replace("[axes]", "[sizes.small]\n\n[axes]").replace(
    "[[claims]]",
    "".join(f"[groups.{name}]\nset = {{ batch = {n} }}\n" for n, name in enumerate("abc", 2)) + "[[claims]]",
)
"""Three settings of two rules, two seeds each."""


def judged(folder: Path, claim: str, values: dict[str, list[float]]) -> Any:
    """The finding by the last five rounds where these cells were run: values by seed, by group and rule."""
    text = SETTINGS.replace('group = "all"\nfirst = "softmax"', claim)
    plan = Plan(parse("mine", text), "small", folder)
    open_run(plan)
    for cell in expand(plan.campaign, "small")[0]:
        known = values.get(f"{cell.group} {dict(cell.labels)['rule']}", [])
        if cell.seed < len(known):
            shown = {"measures": {"last": known[cell.seed]}, "series": {"loss": [2.0, known[cell.seed]]}}
            plain = {"key": cell.key(), **shown, "outside_bounds": None, "seconds": 1.0}
            (folder / CELLS / f"{cell.key()}.json").write_text(json.dumps(plain))
    (found,) = judge(read_results(folder))
    return next(iter(found.findings.values()))


BETTER = {"softmax": [0.9, 0.8], "mean": [0.7, 0.6]}
WORSE = {"softmax": [0.5, 0.5], "mean": [0.7, 0.6]}
OVER_ALL = [
    'groups = ["a", "b", "c"]\nfirst = "softmax"',
    'groups = ["a", "b", "c"]\nover = ["softmax", "mean"]',
    'groups = ["a", "b", "c"]\norder = ["softmax", "mean"]',
    'groups = ["a", "b", "c"]\nalong = "rule"\nshape = "falls"',
    'groups = ["a", "b", "c"]\nlevel = "softmax"\nat_least = 0.6',
]


def in_groups(**by_group: dict[str, list[float]]) -> dict[str, list[float]]:
    return {f"{group} {rule}": seen for group, rules in by_group.items() for rule, seen in rules.items()}


@pytest.mark.parametrize("claim", OVER_ALL)
def test_a_claim_over_settings_that_were_not_all_run_is_not_tested(tmp_path: Path, claim: str) -> None:
    part = judged(tmp_path / "part", claim, in_groups(a=BETTER, b=BETTER))
    whole = judged(tmp_path / "whole", claim, in_groups(a=BETTER, b=BETTER, c=BETTER))
    refuted = judged(tmp_path / "refuted", claim, in_groups(a=BETTER, b=WORSE))

    assert part.verdict == "not tested"
    assert part.why.startswith("holds in 2 of 3 settings, 1 not tested: ")
    assert "c: " in part.why
    assert whole.verdict == "holds"
    assert refuted.verdict == "fails"
    assert refuted.why.startswith("holds in 1, fails in 1 of 3 settings, 1 not tested: ")


def test_first_in_so_many_settings_is_decided_when_the_others_cannot_change_it(tmp_path: Path) -> None:
    claim = 'groups = ["a", "b", "c"]\nfirst = "softmax"\nsettings = 2'

    found = {
        name: judged(tmp_path / name, claim, in_groups(**groups)).verdict
        for name, groups in {
            "enough": {"a": BETTER, "b": BETTER},
            "open": {"a": BETTER, "b": WORSE},
            "lost": {"a": WORSE, "b": WORSE},
        }.items()
    }

    assert found == {"enough": "holds", "open": "not tested", "lost": "fails"}


@pytest.mark.parametrize(
    ("shape", "verdict"), [("peak", "holds"), ("rises", "fails"), ("falls", "holds"), ("cliff", "holds")]
)
def test_a_label_moves_across_groups(tmp_path: Path, shape: str, verdict: str) -> None:
    claim = f'groups = ["a", "b", "c"]\nacross = "softmax"\nshape = "{shape}"'
    values = in_groups(a={"softmax": [0.7, 0.7]}, b={"softmax": [0.8, 0.9]}, c={"softmax": [0.5, 0.6]})

    whole = judged(tmp_path / "whole", claim, values)
    part = judged(tmp_path / "part", claim, {name: seen for name, seen in values.items() if name[0] != "c"})

    assert whole.verdict == verdict
    assert whole.why.startswith("softmax: a 70.0, b 85.0, c 55.0; so in ")
    assert part.verdict == "not tested"
    assert part.why == "softmax was not run in c"


def test_ranks_over_some_settings_decide_when_the_others_cannot_change_it(tmp_path: Path) -> None:
    claim = 'groups = ["a", "b", "c"]\nranks = "softmax"'

    found = {
        name: judged(tmp_path / name, claim, in_groups(**groups))
        for name, groups in {
            "open": {"a": BETTER},
            "enough": {"a": BETTER, "b": BETTER},
            "lost": {"a": WORSE, "b": WORSE},
            "whole": {"a": BETTER, "b": BETTER, "c": WORSE},
        }.items()
    }

    assert {name: each.verdict for name, each in found.items()} == {
        "open": "not tested",
        "enough": "holds",
        "lost": "fails",
        "whole": "holds",
    }
    assert (
        found["open"].why == "mean ranks over 1 of 3 settings: softmax 1.00, mean 2.00; not run whole: b, c"
    )
    assert found["enough"].why.endswith("not run whole: c; their ranks cannot change the verdict")
    assert found["whole"].why == "mean ranks: softmax 1.33, mean 1.67"


def test_a_ratio_is_judged_by_its_distance_from_one(tmp_path: Path) -> None:
    values = in_groups(a=BETTER, b=WORSE)

    steady = judged(tmp_path / "steady", 'groups = ["a", "b"]\nratio = "mean"', values)
    moved = judged(tmp_path / "moved", 'groups = ["a", "b"]\nratio = "softmax"', values)
    part = judged(tmp_path / "part", 'groups = ["a", "b"]\nratio = "mean"', in_groups(a=BETTER))

    assert steady.verdict == "holds"
    assert (
        steady.why == "distance of the ratios from 1: softmax 0.700, mean 0.000; so in 2 seeds; 2 of 2 seeds"
    )
    assert moved.verdict == "fails"
    assert part.verdict == "not tested"
    with pytest.raises(InputError, match="named in pairs"):
        judged(tmp_path / "odd", 'groups = ["a", "b", "c"]\nratio = "mean"', values)


@pytest.mark.parametrize(
    "claim", [*OVER_ALL, 'groups = ["a", "b", "c"]\ndecays = "loss"\nof = { rule = "mean" }']
)
def test_one_seed_of_several_planned_ones_decides_nothing(tmp_path: Path, claim: str) -> None:
    once = {rule: seen[:1] for rule, seen in BETTER.items()}

    found = judged(tmp_path, claim, in_groups(a=once, b=once, c=once))

    assert found.verdict == "not tested"
    assert "holds with the one seed of 2 that was run" in found.why


def test_first_is_over_the_labels_too_that_a_size_leaves_out(tmp_path: Path) -> None:
    with_accuracies(tmp_path, {"softmax": [0.9, 0.9], "mean": [0.7, 0.7]})
    text = SMALL.replace('["softmax", "mean"]', '["softmax", "mean", "median"]')
    (tmp_path / "campaign.toml").write_text(
        text.replace("[axes]", '[sizes.small]\nleave_out = { rule = ["median"] }\n\n[axes]')
    )

    (found,) = judge(read_results(tmp_path))

    assert found.verdict == "not tested"
    assert found.findings["last"].why == "all: median was not run"


def test_a_shape_that_half_of_the_seeds_do_not_show_is_unclear(tmp_path: Path) -> None:
    values = {"softmax": [0.9, 0.6], "mean": [0.5, 0.7]}

    found = judged(tmp_path, 'group = "a"\nalong = "rule"\nshape = "falls"', in_groups(a=values))

    assert found.verdict == "unclear"
    assert "so in 1 seeds" in found.why


def test_the_rule_with_the_lower_attack_success_is_the_better_one(tmp_path: Path) -> None:
    with_accuracies(tmp_path, {"softmax": [0.9, 0.9], "mean": [0.2, 0.3]})
    text = SMALL.replace('first = "softmax"', 'over = ["mean", "softmax"]\nmeasure = "attack_success"')
    (tmp_path / "campaign.toml").write_text(text)
    for path in (tmp_path / CELLS).glob("*.json"):
        kept = json.loads(path.read_text())
        path.write_text(json.dumps(kept | {"measures": {"attack_success": kept["measures"]["last"]}}))

    (found,) = judge(read_results(tmp_path))

    assert found.verdict == "holds"


def test_a_report_shows_means_spread_and_both_measures_and_survives_packing(tmp_path: Path) -> None:
    with_accuracies(tmp_path / "run", {"softmax": [0.8, 0.9], "mean": [0.7, 0.8]})
    pack(tmp_path / "run", tmp_path / "packed")

    whole, packed = (as_markdown(blocks_of(read_results(tmp_path / name))) for name in ("run", "packed"))

    assert whole == packed
    assert "| softmax | 85.0 ± 7.1 | 86.0 ± 7.1 |" in whole
    assert "last: holds" in whole
    assert "best: holds" in whole


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("mine", SMALL, "chainfl experiment run mine.toml"),
        (
            "mine",
            SMALL.replace("[axes]", "[sizes.small]\nrounds = 1\n[axes]"),
            "chainfl experiment run mine.toml --size small",
        ),
        ("sabfl", shipped()["sabfl"], "chainfl experiment run sabfl --size small"),
    ],
)
def test_a_report_says_what_runs_it(tmp_path: Path, name: str, text: str, says: str) -> None:
    open_run(Plan(parse(name, text), "small", tmp_path))

    head = blocks_of(read_results(tmp_path))[:1]

    assert f"`{says}`: 0 of " in as_markdown(head)
    assert f"<code>{says}</code>: 0 of " in as_html(head)


def test_a_grid_too_large_for_one_picture_is_drawn_in_several(tmp_path: Path) -> None:
    axes = 'rule = ["softmax", "mean"]\nhostile = [0.0, 0.1, 0.2]\nbatch = [8, 16, 32, 64]'
    plan = Plan(parse("mine", SMALL.replace('rule = ["softmax", "mean"]', axes)), "small", tmp_path)
    open_run(plan)
    for cell in expand(plan.campaign, "small")[0]:
        shown = {"measures": {"last": 0.5, "best": 0.6}, "series": {"accuracy": [0.4, 0.6]}}
        plain = {"key": cell.key(), **shown, "outside_bounds": None, "seconds": 1.0}
        (tmp_path / CELLS / f"{cell.key()}.json").write_text(json.dumps(plain))

    written = draw_figures(read_results(tmp_path), tmp_path / "figures")

    assert len(written["all"]) == 12
    assert "figures/all-0.1-16-accuracy.svg" in written["all"]
    assert all((tmp_path / each).stat().st_size > 1000 for each in written["all"])


def test_a_report_escapes_what_a_file_says(tmp_path: Path) -> None:
    text = SMALL.replace("Two rules", "<b>Two</b>")
    run_here(text, tmp_path)

    page = as_html(blocks_of(read_results(tmp_path)))

    assert "<b>" not in page


def test_a_folder_of_another_campaign_is_refused(tmp_path: Path) -> None:
    run_here(SMALL, tmp_path)

    with pytest.raises(InputError, match="holds mine in size small"):
        run_campaign(Plan(replace(parse("mine", SMALL), name="other"), "small", tmp_path, jobs=0), quiet)


def test_unknown_campaigns_groups_and_sizes_list_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"no campaign is called 'sabf'.*did you mean 'sabfl"):
        find_campaign("sabf")
    with pytest.raises(InputError, match=r"no group of campaign sabfl is called '3-LX'.*did you mean '3-LH"):
        find_campaign("sabfl/3-LX")
    with pytest.raises(InputError, match="no size of campaign sabfl is called 'huge'"):
        find_campaign("sabfl").size("huge")


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_campaign_has_all_sizes_without_impossible_combinations(name: str) -> None:
    campaign = find_campaign(name)

    for size in ("smoke", "small", "paper"):
        cells, impossible = expand(campaign, size)
        assert cells
        assert impossible == []


@pytest.mark.deep
@pytest.mark.parametrize("name", shipped())
def test_every_cell_of_every_shipped_campaign_can_be_dealt_its_data(name: str) -> None:
    if DATA is None:
        if "data" in os.environ.get("CHAINFL_REQUIRE", "").split(","):
            pytest.fail("CHAINFL_DATA names no directory, and CHAINFL_REQUIRE names data")
        pytest.skip("CHAINFL_DATA names no directory")
    campaign = find_campaign(name)

    for size in ("smoke", "small", "paper"):
        assert impossible_cells(expand(campaign, size)[0], DATA) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped())
def test_every_shipped_campaign_runs_in_its_smoke_size(name: str, tmp_path: Path) -> None:
    ran = run_campaign(Plan(find_campaign(name), "smoke", tmp_path, jobs=0), quiet)

    assert ran.failed == {}
    assert ran.finished > 0
    assert judge(read_results(tmp_path))
