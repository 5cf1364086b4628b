"""docs/pictures/badge-*.svg: the badges of README, from the files that decide what they say; no server is asked."""

import re
import tomllib
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
HEIGHT: Final = 20
PADDING: Final = 7
LETTER: Final = 6.6
"""Width of a letter of 11 pixels, on the average of what is written here."""


def licence() -> str:
    """The licence that the package names."""
    return badge("licence", str(_project()["project"]["license"]))


def pythons() -> str:
    """The Pythons that the package takes: the first and the last."""
    classifiers = "\n".join(_project()["project"]["classifiers"])
    versions = re.findall(r"Python :: (3\.\d+)", classifiers)
    return badge("python", f"{versions[0]} to {versions[-1]}")


def workflow() -> str:
    """The Pythons that the workflow runs all tests on."""
    parsed = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    versions = parsed["jobs"]["test"]["strategy"]["matrix"]["python"]
    return badge("workflow tests", ", ".join(versions))


def coverage() -> str:
    """The floor of what the unit tests reach, which the workflow holds."""
    return badge("coverage", f"{_project()['tool']['coverage']['report']['fail_under']:g} % or more")


def badge(name: str, value: str) -> str:
    """Two words side by side; dark enough on both grounds to be read on light and dark pages."""
    left, right = (round(len(text) * LETTER + 2 * PADDING) for text in (name, value))
    said = escape(f"{name}: {value}")
    text = 'y="14" text-anchor="middle" fill="#ffffff" font-family="Verdana, DejaVu Sans, sans-serif" font-size="11"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{HEIGHT}" role="img" '
        f'aria-label="{said}">\n'
        f"  <title>{said}</title>\n"
        f'  <rect width="{left}" height="{HEIGHT}" fill="#4a5058"/>\n'
        f'  <rect x="{left}" width="{right}" height="{HEIGHT}" fill="#1f5fa8"/>\n'
        f'  <text x="{left / 2:g}" {text}>{escape(name)}</text>\n'
        f'  <text x="{left + right / 2:g}" {text}>{escape(value)}</text>\n'
        "</svg>\n"
    )


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
