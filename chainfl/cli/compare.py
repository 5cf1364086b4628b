"""`chainfl compare`: runs of the simulator side by side, from their folders alone."""

import base64
import io
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chainfl.cli.output import finish, json_option, print_table
from chainfl.errors import InputError
from chainfl.report import report

if TYPE_CHECKING:
    from chainfl.sim.comparison import Comparison


@click.command(
    short_help="Show runs side by side.",
    epilog="Example: chainfl compare runs/softmax runs/median --html compared.html",
)
@click.argument("runs", nargs=-1, required=True, metavar="RUN…", type=click.Path(path_type=Path))
@click.option("--measure", help="What the plot shows, such as loss or share_hostile [accuracy, else loss].")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw it into this file, .png, .svg or .pdf.")
@click.option("--html", type=click.Path(path_type=Path), help="Write one page with tables and plot.")
@json_option
def compare(
    runs: tuple[Path, ...], measure: str | None, plot: Path | None, html: Path | None, as_json: bool
) -> int:
    """Compare runs that were kept with simulate --run: what each ended with, and in which settings they differ."""
    from chainfl.sim.comparison import compare as read

    compared = read(runs)
    chosen = measure or compared.usual_measure()
    lines = compared.lines(chosen)
    written = [
        *([_write(plot, _picture(compared, chosen, plot.suffix))] if plot is not None else []),
        *([_write(html, _page(compared, chosen))] if html is not None else []),
    ]

    metrics: dict[str, object] = {
        "runs": [run.plain() for run in compared.runs],
        "differences": compared.differences,
        "measure": chosen,
        "series": lines,
        "written": [str(path) for path in written],
    }
    return finish(report("compare", metrics), as_json, lambda _: _show(compared, written))


def _show(compared: "Comparison", written: list[Path]) -> None:
    from chainfl.sim.comparison import COLUMNS, rows_of

    print_table(COLUMNS, rows_of(compared))
    if compared.differences:
        names = [run.name for run in compared.runs]
        rows = [(name, *values) for name, values in compared.differences.items()]
        print_table(("differs in", *names), rows)
    for path in written:
        click.echo(f"written: {path}")


def _picture(compared: "Comparison", measure: str, ending: str) -> bytes:
    from chainfl.sim.plots import draw_lines

    kind = ending.removeprefix(".").lower()
    if kind not in ("png", "svg", "pdf"):
        raise InputError(f"--plot: {ending or 'no ending'!r} is no kind of picture: give .png, .svg or .pdf")
    drawn = io.BytesIO()
    draw_lines(compared.lines(measure), measure.replace("_", " ")).savefig(drawn, format=kind, dpi=120)
    return drawn.getvalue()


def _page(compared: "Comparison", measure: str) -> bytes:
    """One file: the picture is in it."""
    from chainfl.sim.comparison import blocks_of
    from chainfl.sim.pages import as_html

    inside = base64.b64encode(_picture(compared, measure, ".svg")).decode()
    return as_html(blocks_of(compared, [f"data:image/svg+xml;base64,{inside}"])).encode()


def _write(path: Path, data: bytes) -> Path:
    from chainfl.sim.runfiles import write_whole

    try:
        write_whole(path, data)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    return path
