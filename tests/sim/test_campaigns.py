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
from chainfl.sim.experiments.claims import judge
from chainfl.sim.experiments.report import blocks_of
from chainfl.sim.experiments.results import pack, read_results
from chainfl.sim.experiments.runner import CELLS, Plan, open_run, run_campaign
from chainfl.sim.experiments.workers import side_by_side
from chainfl.sim.pages import as_html, as_markdown
from tests.processes import await_that

SMALL = """
title = "Two rules"
seeds = 2

[base]
model = "mnist-mlp-small"
participants = 8
committee = 3
rounds = 2
local_steps = 1
score_samples = 5
test_samples = 50

[axes]
rule = ["softmax", "mean"]

[[claims]]
text = "the better rule is above the other"
group = "all"
first = "softmax"
"""


def quiet(_line: str) -> None:
    return


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
        (('group = "all"', 'group = "none"'), "no group of campaign mine is called 'none'"),
        (("[axes]", "[axes"), "no TOML"),
        (("seeds = 2", "seeds = 0"), "seeds must be"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_before_anything_runs(
    tmp_path: Path, change: tuple[str, str], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        run_here(SMALL.replace(*change, 1), tmp_path / "run")

    assert not (tmp_path / "run").exists()


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
        ('over = ["softmax", "median"]', "not tested", "median was not run"),
        ('along = "rule"\nshape = "falls"', "holds", "rule: softmax 85.0, mean 75.0; 2 seeds"),
        ('along = "rule"\nshape = "cliff"', "fails", "75.0"),
        ('level = "mean"\nat_least = 0.7', "holds", "mean 75.0, 2 seeds"),
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


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped())
def test_every_shipped_campaign_runs_in_its_smoke_size(name: str, tmp_path: Path) -> None:
    ran = run_campaign(Plan(find_campaign(name), "smoke", tmp_path, jobs=0), quiet)

    assert ran.failed == {}
    assert ran.finished > 0
    assert judge(read_results(tmp_path))
