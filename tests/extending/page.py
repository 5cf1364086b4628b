"""The edits that docs/extending.md names, read from its diffs and applied to a copy of the tree."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "extending.md"
COPIED = ("chainfl", "contracts/src", "contracts/test", "docs", "scripts", "tests")
FILES = ("pyproject.toml", "contracts/foundry.toml", "contracts/package.json", "contracts/solc")


@dataclass(frozen=True, slots=True)
class Edit:
    """Lines of one file, and what takes their place."""

    path: str
    old: str
    new: str


def edits() -> list[Edit]:
    """All edits of the page, in order."""
    fences = re.findall(r"^```diff\n\+\+\+ (\S+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [_edit(path, hunk) for path, body in fences for hunk in body.split("@@\n")]


def _edit(path: str, hunk: str) -> Edit:
    lines = hunk.splitlines()
    old = [line[1:] for line in lines if line[0] in " -"]
    new = [line[1:] for line in lines if line[0] in " +"]
    return Edit(path, "\n".join(old), "\n".join(new))


def copy_tree(to: Path) -> None:
    """What building and testing need; the packages of npm are linked."""
    for folder in COPIED:
        shutil.copytree(ROOT / folder, to / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in FILES:
        shutil.copy2(ROOT / file, to / file)
    (to / "contracts" / "node_modules").symlink_to(ROOT / "contracts" / "node_modules")


def apply(edit: Edit, tree: Path) -> None:
    """Make the edit; the lines that it replaces stand in the file once."""
    path = tree / edit.path
    text = path.read_text()
    found = re.findall(rf"^{re.escape(edit.old)}$", text, re.MULTILINE)

    assert len(found) == 1, f"docs/extending.md: {edit.path} has {len(found)} times {edit.old!r}"

    path.write_text(text.replace(f"{edit.old}\n", f"{edit.new}\n"))
