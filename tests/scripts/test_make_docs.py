"""Pages that are made from the code are the ones that the code gives, and their makers say what is wrong."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from chainfl.errors import InputError
from chainfl.node.settings import NodeSettings
from chainfl.sim.experiments.campaign import shipped
from chainfl.sim.experiments.results import read_results
from scripts import make_docs, record_demo
from scripts.pages import api, badges, cli, costs, million, picture, results, selfish, terminal
from scripts.pages.terminal import Said

GAS = """
| gas per call | K = 20 | K = 100 |
|---|---|---|
| draw | 1,000 | 2,000 |
| tally | 10 | 20 |

| gas per call | K = 20 |
|---|---|
| draw, with a header | 1,100 \u2013 1,300 |

| call | prototype | limit | found | |
|---|---|---|---|---|
| proof, K = 20 | 5 | 6 | 7,000 | kept |
"""


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("licence", badges.licence),
        ("python", badges.pythons),
        ("workflow", badges.workflow),
        ("coverage", badges.coverage),
    ],
)
def test_the_readme_says_of_each_badge_what_is_on_it(name: str, make: Callable[[], str]) -> None:
    drawn = ElementTree.fromstring(make())
    readme = (make_docs.DOCS.parent / "README.md").read_text(encoding="utf-8")

    assert f'badge-{name}.svg" height="20" alt="{drawn.get("aria-label")}">]' in readme


@pytest.mark.parametrize("name", make_docs.PAGES)
def test_a_generated_page_is_what_the_code_gives(name: str) -> None:
    written = (make_docs.DOCS / name).read_text(encoding="utf-8")

    assert written == make_docs.PAGES[name](), "run: python -m scripts.make_docs"


@pytest.mark.parametrize("name", results.packed())
def test_every_figure_of_the_results_is_drawn_from_the_packed_run(name: str) -> None:
    folder = results.RESULTS / name / results.FIGURES

    written = {f"{name}/{results.FIGURES}/{path.name}": path.read_text() for path in folder.iterdir()}

    drawn = {path: text for path, text in results.figures().items() if path.startswith(f"{name}/")}
    assert written == drawn, "run: python -m scripts.make_docs"


@pytest.mark.parametrize("name", results.packed())
def test_a_packed_run_is_of_the_campaign_that_is_shipped(name: str) -> None:
    packed = (results.RESULTS / name / "campaign.toml").read_text(encoding="utf-8")

    assert packed == shipped()[name], "pack the run of today's campaign file"


def test_the_papers_small_campaigns_run_in_three_hours_on_two_cores() -> None:
    """By the cells that are kept; those that are not yet run are counted as the others of their group."""
    whole = 0.0
    for name in ("sabfl", "cmfl", "fedrob", "varsel"):
        found = read_results(results.RESULTS / name)
        for group in found.campaign.groups:
            cells = {cell.key() for cell in found.cells if cell.group == group}
            kept = [found.found[key]["seconds"] for key in cells & found.found.keys()]
            assert kept or not cells, f"{name}/{group}: no cell was run"
            whole += sum(kept) / max(1, len(kept)) * len(cells)

    assert whole / 2 <= 3 * 3600


@pytest.mark.parametrize("folder", [*(results.RESULTS / name for name in results.packed()), selfish.PACKED])
def test_every_packed_cell_is_still_a_cell_of_its_campaign(folder: Path) -> None:
    found = read_results(folder)

    assert found.found.keys() <= {cell.key() for cell in found.cells}, "a new setting is declared with _later"


def test_every_number_of_the_results_page_comes_from_a_run() -> None:
    page = results.page()

    assert results.packed()
    for name in results.packed():
        found = read_results(results.RESULTS / name)
        assert found.found
        assert found.campaign.title in page


def test_a_page_that_was_edited_is_stale(tmp_path: Path) -> None:
    make_docs.write(tmp_path)
    assert make_docs.stale(tmp_path) == []

    (tmp_path / "costs.md").write_text("cheap")

    assert make_docs.stale(tmp_path) == ["costs.md"]


def test_every_option_of_a_node_is_in_the_commands_page() -> None:
    page = cli.page()

    flags = [f"--{name.replace('_', '-')}" for name in NodeSettings.model_fields]
    assert [flag for flag in flags if f"| `{flag}" not in page] == []


def test_every_route_is_in_the_routes_page() -> None:
    page = api.page()

    paths = list(api.openapi()["paths"])
    assert len(paths) >= 20
    assert [path for path in paths if f"## `{path}`" not in page] == []


def test_newer_gas_tables_win_and_ranges_count_by_their_upper_end() -> None:
    gas = costs.read_gas(GAS)

    assert gas["draw"] == {"K = 20": 1300, "K = 100": 2000}
    assert gas["tally"] == {"K = 20": 10, "K = 100": 20}
    assert gas["proof, K = 20"] == {"found": 7000}


def test_gas_that_the_page_lacks_is_named() -> None:
    with pytest.raises(InputError, match="no gas of 'commitUpdate' in column 'K = 20'"):
        costs.bill(costs.read_gas(GAS))


def test_a_million_is_computed_from_what_ten_thousand_cost() -> None:
    gas = {
        "draw out of 10,000, each account drawn": {"found": 18_500},
        "change of stake: pay in and allocate": {"found": 60_000},
    }

    assert [million.words(count) for count in (8, 9, 64, 65, 10_000, 1_000_000)] == [1, 2, 2, 3, 5, 7]
    assert million.draw_gas(18_500, 10_000) == 21_000 + 8 * 18_500
    assert million.stake_gas(60_000, 1_000_000) == 60_000 + 5 * 5_000
    page = million.page(gas, million.Simulated("a day", 100_000, 6.0, 600.0))
    assert f"| {21_000 + 8 * 18_500 * 7 // 5:,} |" in page
    assert "| 60 s, 6.0 GB at most |" in page
    assert "| 4.29 times the least one |" in page


def test_costs_are_gas_times_price_and_bytes_times_blob_price() -> None:
    prices = costs.Prices(ether_usd=1000, blob_gwei=2)

    assert costs.on_rollup(costs.Line("", "", 1_000_000, 500), 3, prices) == pytest.approx(
        (3_000_000 + 1_000) * 1e-9 * 1000
    )


def test_the_page_takes_other_prices(capsys: pytest.CaptureFixture[str]) -> None:
    assert costs.main(["--ether-usd", "4321", "--ethereum-gwei", "12"]) == 0

    said = capsys.readouterr().out
    assert "4,321 US dollars" in said
    assert "| gas on Ethereum | 12 gwei |" in said


def test_the_picture_shows_every_phase_and_is_whole() -> None:
    root = ElementTree.fromstring(picture.page())

    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [phase for phase in picture.PHASES if phase not in texts] == []
    assert "prefers-color-scheme: dark" in picture.page()


def test_long_pauses_of_a_recording_are_shortened_and_lines_keep_their_order() -> None:
    said = [Said(0.0, "a"), Said(0.5, "b"), Said(60.0, "c")]

    assert terminal.shortened(said) == [0.0, 0.5, 1.5]
    assert max(terminal.shortened([Said(float(each), "") for each in range(100)])) == terminal.SECONDS


def test_a_recording_holds_the_lines_as_they_were_printed() -> None:
    drawn = terminal.render([Said(0.0, "  LIE  a < b & c"), Said(1.0, "round 1")], "chainfl demo")

    root = ElementTree.fromstring(drawn)
    lines = [
        each for each in root.iter("{http://www.w3.org/2000/svg}text") if "line" in each.get("class", "")
    ]
    assert [(each.text or "").replace("\u00a0", " ") for each in lines] == ["  LIE  a < b & c", "round 1"]
    assert [each.get("class") for each in lines] == ["line bad", "line head"]


def test_a_recording_starts_with_the_first_round() -> None:
    texts = ["deploying", "round 1", "", "  final", "took 3 s; all verified", "look further"]

    shown = record_demo.told([Said(0.0, text) for text in texts])

    assert [each.text for each in shown] == ["round 1", "  final", "took 3 s; all verified"]


def test_a_run_that_fails_is_not_recorded() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        list(record_demo.record([sys.executable, "-c", "print('x'); exit(3)"]))


def test_the_recorded_run_in_the_documents_says_what_it_is() -> None:
    drawn = record_demo.TARGET.read_text(encoding="utf-8")

    title = ElementTree.fromstring(drawn).get("aria-label", "")
    assert title.startswith("chainfl demo --rounds ")
    assert "dirty" not in title
    assert "convicted" in drawn
    assert "all\u00a0verified" in drawn
