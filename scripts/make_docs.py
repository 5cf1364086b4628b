"""Make the generated pages and pictures of docs/ anew, or compare them: python -m scripts.make_docs [--check]."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from scripts.pages import api, badges, cli, costs, million, picture, results, selfish

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "costs.md": costs.page,
    "million.md": million.page,
    "pictures/badge-coverage.svg": badges.coverage,
    "pictures/badge-licence.svg": badges.licence,
    "pictures/badge-python.svg": badges.pythons,
    "pictures/badge-workflow.svg": badges.workflow,
    "pictures/round.svg": picture.page,
    "reference/api.md": api.page,
    "reference/cli.md": cli.page,
    "results.md": results.page,
    "selfish.md": selfish.page,
}


def pages() -> dict[str, str]:
    """Every generated file of docs/ as the code and the packed runs give it today, by name."""
    drawn = {f"results/{name}": text for name, text in results.figures().items()}
    return {name: make() for name, make in PAGES.items()} | drawn


def stale(folder: Path = DOCS) -> list[str]:
    """The pages that are not what the code gives today."""
    return [name for name, text in pages().items() if _read(folder / name) != text]


def write(folder: Path = DOCS) -> None:
    """Write every page."""
    for name, text in pages().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def main(arguments: Sequence[str]) -> int:
    """Write or compare; 1 when a page is stale."""
    parser = argparse.ArgumentParser(prog="python -m scripts.make_docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; name the pages that are stale")
    asked = parser.parse_args(arguments)
    if not asked.check:
        write()
        return 0

    old = stale()
    for name in old:
        sys.stderr.write(f"docs/{name} is stale: run python -m scripts.make_docs\n")
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
