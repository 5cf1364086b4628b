"""The tables of docs/selfish.md follow the packed run, cell by cell."""

import shutil
from pathlib import Path

from chainfl.sim.experiments.campaign import shipped
from chainfl.sim.experiments.results import read_results
from chainfl.sim.experiments.runner import PACKED
from scripts.pages import selfish


def test_the_packed_run_is_of_the_campaign_that_is_shipped() -> None:
    assert (selfish.PACKED / "campaign.toml").read_text(encoding="utf-8") == shipped()["selfish"]


def test_every_cell_of_the_packed_run_counts_in_the_tables(tmp_path: Path) -> None:
    folder = tmp_path / "packed"
    shutil.copytree(selfish.PACKED, folder)
    whole = selfish.tables(read_results(folder))
    lines = (folder / PACKED).read_text(encoding="utf-8").splitlines(keepends=True)

    (folder / PACKED).write_text("".join(lines[1:]), encoding="utf-8")

    assert whole in selfish.page()
    assert selfish.tables(read_results(folder)) != whole
