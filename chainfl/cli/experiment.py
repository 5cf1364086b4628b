"""`chainfl experiment`: campaigns of many runs, and the tables, plots and verdicts that they give."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chainfl.cli.output import finish, json_option, print_table
from chainfl.errors import InputError, ToolMissingError
from chainfl.report import Report, narrate, report

if TYPE_CHECKING:
    from chainfl.sim.experiments.campaign import Campaign
    from chainfl.sim.experiments.results import Results
    from chainfl.sim.experiments.runner import Plan

RUNS = Path("runs") / "experiments"


@click.group(
    short_help="Run campaigns and report on them.",
    epilog="Example: chainfl experiment run sabfl/3-LH --size small",
)
def experiment() -> None:
    """The papers' tables and figures, and campaigns of your own, from one file each (docs/campaigns.md)."""


@experiment.command("list", short_help="List the campaigns.", epilog="Example: chainfl experiment list sabfl")
@click.argument("name", required=False)
@json_option
def list_(name: str | None, as_json: bool) -> int:
    """List the campaigns inside the package, or the groups of campaign NAME (or of a file NAME.toml)."""
    from chainfl.sim.experiments.campaign import find_campaign, shipped
    from chainfl.sim.experiments.cells import expand

    campaigns = [find_campaign(each) for each in ([name] if name else shipped())]
    rows = []
    for campaign in campaigns:
        for size in campaign.sizes or ("small",):
            cells, _ = expand(campaign, size)
            rows += [
                (
                    campaign.name,
                    group.name,
                    size,
                    str(sum(cell.group == group.name for cell in cells)),
                    group.title,
                )
                for group in campaign.groups.values()
            ]
    columns = ("campaign", "group", "size", "cells", "what")
    metrics: dict[str, object] = {"groups": [dict(zip(columns, row, strict=True)) for row in rows]}
    answer = report("experiment-list", metrics)
    if name:
        return finish(answer, as_json, lambda _: print_table(columns[1:], [row[1:] for row in rows]))
    return finish(answer, as_json, lambda _: _show_campaigns(campaigns, rows))


def _show_campaigns(campaigns: Sequence["Campaign"], rows: Sequence[tuple[str, ...]]) -> None:
    """One line for each campaign: hundreds of groups would scroll away."""
    lines = []
    for campaign in campaigns:
        own = [row for row in rows if row[0] == campaign.name]
        sizes = {size: sum(int(row[3]) for row in own if row[2] == size) for _, _, size, _, _ in own}
        cells = ", ".join(f"{size} {count}" for size, count in sizes.items())
        lines.append((campaign.name, str(len(campaign.groups)), cells, campaign.title))

    print_table(("campaign", "groups", "cells by size", "what"), lines)
    click.echo("the groups of one: chainfl experiment list NAME")


@experiment.command(
    short_help="Run a campaign.", epilog="Example: chainfl experiment run mine.toml --run runs/mine --jobs 2"
)
@click.argument("name")
@click.option("--size", help="smoke (seconds), small (two cores) or paper; else small.")
@click.option(
    "--run", "folder", type=click.Path(path_type=Path), help="Folder of the run [runs/experiments/NAME-SIZE]."
)
@click.option(
    "--data", type=click.Path(file_okay=False), help="Directory with data files; else CHAINFL_DATA."
)
@click.option("--jobs", type=click.IntRange(1), help="Cells side by side, a process each [one a core].")
@click.option("--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True)
@click.option(
    "--skip-impossible", is_flag=True, help="Leave out cells that cannot be run, and run the others."
)
@click.option(
    "--check",
    type=click.IntRange(1),
    metavar="CELLS",
    help="Run nothing new: play so many finished cells again, and compare the roots of their models.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Run nothing: how many cells are left, and how long they take by two rounds of a few of each group.",
)
@json_option
def run(
    name: str,
    size: str | None,
    folder: Path | None,
    data: str | None,
    jobs: int | None,
    engine: str,
    skip_impossible: bool,
    check: int | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Run every cell of campaign NAME, NAME/GROUP or FILE.toml that is not finished yet, then report.

    Stop it with Ctrl-C at any moment: the same command goes on with the cells that are left.
    """
    from chainfl.learning.compute import cores
    from chainfl.sim.experiments.campaign import find_campaign
    from chainfl.sim.experiments.results import read_results
    from chainfl.sim.experiments.runner import Plan, run_campaign

    campaign = find_campaign(name)
    wanted = campaign.size(size)
    place = folder or RUNS / f"{campaign.name}-{wanted}"
    plan = Plan(campaign, wanted, place, data, jobs or cores(), engine, skip_impossible)
    if check is not None:
        return _check(plan, check, as_json)
    if dry_run:
        return _estimate(plan, as_json)
    ran = run_campaign(plan, narrate)

    # Named at the end too: the lines of a long run have scrolled away.
    for cell, why in (ran.failed | ran.impossible).items():
        narrate(f"not run: {cell}: {why}")

    results = read_results(place)
    written = write_report(results, place)
    metrics: dict[str, object] = {
        "run": str(place),
        "cells": ran.cells,
        "finished_before": ran.found,
        "finished": ran.finished,
        "failed": ran.failed,
        "impossible": ran.impossible,
        "claims": _claims(results),
        "report": [str(path) for path in written],
    }
    answer = report("experiment-run", metrics, ok=not ran.failed, seconds=ran.seconds)
    return finish(answer, as_json, lambda _: _show(results, written))


def _check(plan: "Plan", most: int, as_json: bool) -> int:
    """Play finished cells again; the exit code is 1 where a root is another."""
    from chainfl.sim.experiments.again import line_of, play_again

    lines = []
    differing = []
    for again in play_again(plan, most):
        lines.append(line_of(again))
        narrate(lines[-1])
        if not again.agrees:
            differing.append(again.cell.name)

    metrics: dict[str, object] = {"run": str(plan.folder), "played": len(lines), "differing": differing}
    answer = report("experiment-check", metrics, ok=not differing)
    return finish(
        answer,
        as_json,
        lambda _: click.echo(f"{len(lines) - len(differing)} of {len(lines)} cells end in the same root"),
    )


def _estimate(plan: "Plan", as_json: bool) -> int:
    """What is left to run and how long it takes; exit code 1 where cells cannot be run."""
    from chainfl.sim.experiments.estimate import estimate
    from chainfl.sim.experiments.runner import duration

    narrate(f"playing two rounds of a few cells of each group on {plan.jobs} cores")
    groups, impossible = estimate(plan)
    for cell, why in impossible.items():
        narrate(f"cannot be run: {cell}: {why}")
    whole = sum(each.seconds_left for each in groups)
    rows = [
        (
            each.group,
            str(each.cells),
            str(each.left),
            "unknown" if each.left and each.seconds is None else f"{each.seconds or 0:.1f}",
            f"{each.seconds_left / 60:.1f}",
        )
        for each in groups
    ]
    metrics: dict[str, object] = {
        "groups": [
            {"group": each.group, "cells": each.cells, "left": each.left, "seconds_a_cell": each.seconds}
            for each in groups
        ],
        "impossible": impossible,
        "core_seconds": whole,
        "seconds": whole / plan.jobs,
    }

    def show(_: Report) -> None:
        print_table(("group", "cells", "left", "seconds a cell", "core-minutes"), rows)
        click.echo(f"{whole / 60:.1f} core-minutes, {duration(whole / plan.jobs)} on {plan.jobs} cores")

    return finish(report("experiment-estimate", metrics, ok=not impossible), as_json, show)


@experiment.command(
    "report",
    short_help="Write the report of runs.",
    epilog="Example: chainfl experiment report runs/experiments/sabfl-small",
)
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--pack",
    "target",
    type=click.Path(path_type=Path),
    help="Also keep the run here, small enough to commit.",
)
@json_option
def report_(folders: tuple[Path, ...], target: Path | None, as_json: bool) -> int:
    """Write report.md, report.html and plots into the FOLDERS of runs, from what lies there alone."""
    from chainfl.sim.experiments.results import pack, read_results

    if target is not None and len(folders) != 1:
        raise InputError("--pack keeps one run: name one folder")
    found = [(folder, read_results(folder)) for folder in folders]
    written = [path for folder, results in found for path in write_report(results, folder)]
    if target is not None:
        pack(folders[0], target)
    metrics: dict[str, object] = {
        "report": [str(path) for path in written],
        "claims": [claim for _, results in found for claim in _claims(results)],
    }

    def show(_: Report) -> None:
        for _folder, results in found:
            _show(results, ())

    return finish(report("experiment-report", metrics), as_json, show)


def write_report(results: "Results", folder: Path) -> list[Path]:
    """Write Markdown, HTML and, where matplotlib is installed, plots."""
    from chainfl.sim.experiments.figures import draw_figures
    from chainfl.sim.experiments.report import blocks_of
    from chainfl.sim.pages import as_html, as_markdown
    from chainfl.sim.runfiles import write_whole

    try:
        pictures = draw_figures(results, folder / "figures")
    except ToolMissingError as error:
        narrate(str(error))
        pictures = {}
    blocks = blocks_of(results, pictures)
    written = [folder / "report.md", folder / "report.html"]
    for path, text in zip(written, (as_markdown(blocks), as_html(blocks)), strict=True):
        write_whole(path, text)
    return written


def _claims(results: "Results") -> list[dict[str, object]]:
    from chainfl.sim.experiments.claims import judge

    return [
        {
            "campaign": results.campaign.name,
            "claim": each.text,
            "verdict": each.verdict,
            "by": {measure: [found.verdict, found.why] for measure, found in each.findings.items()},
        }
        for each in judge(results)
    ]


def _show(results: "Results", written: "tuple[Path, ...] | list[Path]") -> None:
    from chainfl.sim.experiments.report import blocks_of

    for block in blocks_of(results):
        run_rows = [row for row in block.rows if "not run" not in row]
        if block.columns and run_rows:
            click.echo(block.title)
            print_table(block.columns, run_rows)
    for path in written:
        click.echo(str(path))
