"""A terminal's text as SVG: lines appear one after the other, or all at once where motion is not wanted."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

LINE_HEIGHT: Final = 18
CHARACTER: Final = 7.85
MARGIN: Final = 20
HEAD: Final = 40
SECONDS: Final = 14.0

COLOURS: Final = (
    (r"\s*(LIE|convicted)\b|.*\bOBJECTS$", "bad"),
    (r"\s*(final|proof)\b|.*: ok \(|.*all verified$", "good"),
    (r"round \d+$|audit: |\$ ", "head"),
)

STYLE: Final = """
  svg { --paper: #fbfbfa; --frame: #d5dae0; --ink: #26313c; --soft: #6b7885; --good: #1f7a4a; --bad: #b9321c; }
  @media (prefers-color-scheme: dark) {
    svg { --paper: #12181f; --frame: #33404c; --ink: #d9e0e7; --soft: #8a98a6; --good: #5cc68d; --bad: #ff8a75; }
  }
  .paper { fill: var(--paper); stroke: var(--frame); } .dot { fill: var(--frame); }
  text { font: 13px ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: var(--ink); }
  .title { fill: var(--soft); } .good { fill: var(--good); } .bad { fill: var(--bad); font-weight: 600; }
  .head { font-weight: 600; }
  .line { animation: show 0.01s both; } @keyframes show { from { opacity: 0; } to { opacity: 1; } }
  @media (prefers-reduced-motion: reduce) { .line { animation: none; } }
"""


@dataclass(frozen=True, slots=True)
class Said:
    """A line, and when it came: seconds since the start."""

    at: float
    text: str


def render(said: Sequence[Said], title: str) -> str:
    """The lines in a window. Long pauses are shortened so that everything is there after SECONDS."""
    columns = max((len(each.text) for each in said), default=0)
    width = round(2 * MARGIN + CHARACTER * max(columns, len(title) + 8))
    height = HEAD + MARGIN + LINE_HEIGHT * len(said)
    lines = [
        _line(each, when, index) for index, (each, when) in enumerate(zip(said, shortened(said), strict=True))
    ]
    dots = "".join(f'<circle class="dot" cx="{20 + 18 * each}" cy="20" r="5.5"/>' for each in range(3))

    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(title)}">\n'
        f"<style>{STYLE}</style>\n"
        f'<rect class="paper" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="9"/>{dots}\n'
        f'<text class="title" x="{width / 2:.0f}" y="25" text-anchor="middle">{escape(title)}</text>\n'
        + "\n".join(lines)
        + "\n</svg>\n"
    )


def shortened(said: Sequence[Said], longest: float = 1.0) -> list[float]:
    """When to show each line: no pause is longer than `longest`, and the whole is scaled to SECONDS at the most."""
    when: list[float] = []
    now = 0.0
    before = said[0].at if said else 0.0
    for each in said:
        now += min(longest, each.at - before)
        before = each.at
        when.append(now)
    scale = min(1.0, SECONDS / now) if now else 1.0
    return [each * scale for each in when]


def _line(said: Said, when: float, index: int) -> str:
    kind = next((name for pattern, name in COLOURS if re.match(pattern, said.text)), "")
    y = HEAD + 14 + LINE_HEIGHT * index
    text = escape(said.text).replace(" ", "\u00a0")
    classes = f"line {kind}".strip()
    return f'<text class="{classes}" x="{MARGIN}" y="{y}" style="animation-delay: {when:.2f}s">{text}</text>'
