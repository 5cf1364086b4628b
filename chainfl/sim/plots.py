"""Plots of a run: accuracy per round, shares of honest and hostile, the committee's make-up (extra `plot`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from chainfl.errors import ToolMissingError
from chainfl.sim.run import RoundFacts

BLUE: Final = "#2b6cb0"
RED: Final = "#c05621"
GREY: Final = "#a0aec0"


def draw_plots(folder: Path, facts: Sequence[RoundFacts], title: str) -> list[Path]:
    """Write the three pictures of a run into the folder.

    Raises:
        ToolMissingError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ToolMissingError("plots need matplotlib: pip install 'chainfl[plot]'") from None
    folder.mkdir(parents=True, exist_ok=True)
    rounds = [one.round for one in facts]
    written = []
    for name, label, curves in (
        ("accuracy", "test accuracy", [("head", BLUE, [one.accuracy for one in facts])]),
        (
            "shares",
            "part of the new model",
            [
                ("honest", BLUE, [one.share_honest for one in facts]),
                ("hostile", RED, [one.share_hostile for one in facts]),
                ("head", GREY, [one.share_head for one in facts]),
            ],
        ),
        (
            "committee",
            "members",
            [
                ("hostile members", GREY, [float(one.hostile_in_committee) for one in facts]),
                ("acting so", RED, [float(one.acting_hostile) for one in facts]),
                ("majority", BLUE, [one.committee // 2 + 1.0 for one in facts]),
            ],
        ),
    ):
        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.subplots()
        for curve, colour, values in curves:
            axes.plot(rounds, values, label=curve, color=colour)
        axes.set(xlabel="round", ylabel=label, title=title)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False)
        written.append(folder / f"{name}.png")
        figure.savefig(written[-1], dpi=120)
    return written
