"""A run's report, from its folder alone: tables beside the papers' numbers, ranks, a line for each claim."""

from collections.abc import Mapping, Sequence

from chainfl.sim.experiments.campaign import shipped
from chainfl.sim.experiments.claims import Verdict, judge
from chainfl.sim.experiments.results import Labels, Results, mean, spread
from chainfl.sim.experiments.tables import table_of
from chainfl.sim.pages import Block, Row


def blocks_of(results: Results, pictures: Mapping[str, Sequence[str]] | None = None) -> list[Block]:
    """The whole report."""
    shown = pictures or {}
    groups = [_group_block(results, name, shown.get(name, ())) for name in results.campaign.groups]
    return [
        _head(results),
        *([_claims_block(judge(results))] if results.campaign.claims else []),
        *_table_blocks(results),
        *groups,
        *(
            [Block("Failed cells", rows=tuple(results.failed.items()), columns=("cell", "why"))]
            * bool(results.failed)
        ),
    ]


def _head(results: Results) -> Block:
    campaign = results.campaign
    finished = [cell for each in results.by_group.values() for cell, _ in each]
    done = len(finished)
    seeds = sorted({cell.seed for cell in finished})
    said = [
        campaign.about,
        f"`{_command(results)}`: {done} of {len(results.cells)} cells, "
        f"seeds {', '.join(map(str, seeds)) or 'none'}, {results.seconds() / 60:.0f} core-minutes; "
        f"{'; '.join(str(results.about.get(each, '')) for each in ('machine', 'chainfl'))}; "
        f"begun {results.about.get('started', '')}.",
        *(f"Outside the contract's bounds: {line}." for line in results.outside()),
    ]
    return Block(campaign.title, [text for text in said if text], level=1)


def _command(results: Results) -> str:
    """What runs these cells: a campaign of the package by its name, another by its file."""
    campaign = results.campaign
    name = campaign.name if campaign.name in shipped() else f"{campaign.name}.toml"
    return f"chainfl experiment run {name}" + (f" --size {results.size}" if campaign.sizes else "")


def _claims_block(verdicts: Sequence[Verdict]) -> Block:
    rows = []
    for each in verdicts:
        by = "; ".join(
            f"{measure}: {found.verdict} ({found.why})" for measure, found in each.findings.items()
        )
        rows.append((each.text, each.verdict, f"{by}{f'. {each.note}' if each.note else ''}"))
    text = "`last` is the mean of the last five rounds, `best` the best round; the verdict is by the first named."
    return Block("Claims", [text], ("claim", "verdict", "why"), rows)


def _table_blocks(results: Results) -> list[Block]:
    """The tables that the campaign's file asks for; of a campaign without some of their groups, none."""
    blocks = []
    for said in results.campaign.tables:
        columns, rows = table_of(results, said)
        blocks.append(Block(str(said["title"]), [str(said["text"])] if "text" in said else [], columns, rows))
    return blocks


def _group_block(results: Results, name: str, pictures: Sequence[str]) -> Block:
    group = results.campaign.groups[name]
    skipped = results.skipped(name)
    if skipped is not None:
        return Block(group.title, [f"Not run in size {results.size}: {skipped}."])
    if group.kind == "traffic":
        columns: Row = (*group.axes, "MB a round", "seconds a round", "hours")
        measures = ("megabytes_a_round", "seconds_a_round", "hours")
        rows = [
            (*(label for _, label in labels), *(_plain(results, name, labels, each) for each in measures))
            for labels in results.rows(name)
        ]
        return Block(group.title, (), columns, rows, pictures)

    extra = _extra_measures(results, name)
    columns = (
        *group.axes,
        "last five",
        "best",
        *(["paper"] if group.paper else []),
        *extra.values(),
        "seeds",
    )
    rows = [_row(results, name, labels, tuple(extra)) for labels in results.rows(name)]
    text = "In percent: mean over seeds, plus or minus their standard deviation."
    return Block(group.title, [text], columns, rows, pictures)


def _extra_measures(results: Results, name: str) -> dict[str, str]:
    """Measures that this group's cells have beside accuracy, and what their columns are called."""
    known = {
        "training_loss": "training loss",
        "attack_success": "attack success",
        "hostile_share": "hostile share",
        "hostile_in_committee": "hostile in committee",
        "hostile_selected": "hostile selected",
        "external_weight": "1'w",
    }
    return {
        measure: title
        for measure, title in known.items()
        if any(any(results.values(name, dict(labels), measure).values()) for labels in results.rows(name))
    }


def _row(results: Results, name: str, labels: Labels, extra: Sequence[str]) -> Row:
    last = results.values(name, dict(labels), "last")
    papers = results.campaign.groups[name].paper
    paper = papers.get(next((label for _, label in labels), ""))
    return (
        *(label for _, label in labels),
        _percent(last),
        _percent(results.values(name, dict(labels), "best")),
        *([f"{paper:g}" if paper is not None else ""] if papers else []),
        *(_plain(results, name, labels, measure) for measure in extra),
        str(len(last)),
    )


def _percent(values: Mapping[int, float]) -> str:
    if not values:
        return "not run"
    wide = spread(values)
    return f"{100 * mean(values):.1f}" + (f" ± {100 * wide:.1f}" if wide is not None else "")


def _plain(results: Results, name: str, labels: Labels, measure: str) -> str:
    values = results.values(name, dict(labels), measure)
    if values:
        return f"{mean(values):.4g}"
    return "" if any(labels == cell.labels for cell, _ in results.by_group.get(name, ())) else "not run"
