"""docs/pictures/round.svg: one round, phase by phase and actor by actor, in the light or dark of whoever looks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

PHASES: Final = ("Draw", "Train", "Reveal", "Score", "Tally", "Propose", "Challenge")
LANES: Final = ("Contract", "Workers", "Committee", "Miner", "Anybody")

LEFT: Final = 96
TOP: Final = 64
COLUMN: Final = 138
LANE: Final = 74
CARD_WIDTH: Final = 118
CARD_HEIGHT: Final = 56
END: Final = 132


@dataclass(frozen=True, slots=True)
class Card:
    """What one actor does in one phase."""

    phase: str
    lane: str
    lines: tuple[str, ...]
    kind: str = "plain"


CARDS: Final = (
    Card("Draw", "Contract", ("draws the roles", "by stake, from", "RANDAO"), "chain"),
    Card("Train", "Workers", ("train on own", "data, commit", "(sealed)")),
    Card("Reveal", "Workers", ("show the root,", "publish bytes")),
    Card("Score", "Committee", ("score updates on", "own data, commit", "(sealed)")),
    Card("Tally", "Committee", ("reveals the scores",)),
    Card("Tally", "Contract", ("turns scores into", "shares, integers", "of sum 2³¹"), "chain"),
    Card("Propose", "Miner", ("adds updates up", "by shares, posts", "the new root")),
    Card("Challenge", "Committee", ("redoes the sum,", "attests or objects")),
    Card("Challenge", "Anybody", ("one transaction", "proves one wrong", "parameter"), "proof"),
    Card("Challenge", "Contract", ("re-executes it,", "slashes the liar"), "chain"),
)

# From card to card, in the order of a round.
FLOW: Final = (
    ("Draw", "Contract", "Train", "Workers"),
    ("Train", "Workers", "Reveal", "Workers"),
    ("Reveal", "Workers", "Score", "Committee"),
    ("Score", "Committee", "Tally", "Committee"),
    ("Tally", "Contract", "Propose", "Miner"),
    ("Propose", "Miner", "Challenge", "Committee"),
    ("Propose", "Miner", "Challenge", "Anybody"),
)

STYLE: Final = """
  svg { --paper: #ffffff; --band: #f4f6f9; --ink: #1c2733; --soft: #5b6876; --line: #aeb9c5; --card: #ffffff;
        --chain: #e3edfb; --chain-line: #3b74c4; --proof: #fde8e4; --proof-line: #c8452f; --good: #2c8a57; }
  @media (prefers-color-scheme: dark) {
    svg { --paper: #10161d; --band: #171f28; --ink: #e6ebf0; --soft: #9aa8b5; --line: #4a5866; --card: #1d2731;
          --chain: #1b3050; --chain-line: #6ea3ee; --proof: #45201b; --proof-line: #f0806c; --good: #5cc68d; }
  }
  .paper { fill: var(--paper); } .band { fill: var(--band); }
  text { font-family: system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; font-size: 12px; }
  text { fill: var(--ink); }
  .phase { font-weight: 600; font-size: 14px; } .number { fill: var(--soft); font-size: 11px; }
  .lane { font-weight: 600; font-size: 13px; } .note { fill: var(--soft); font-size: 12px; }
  .card { fill: var(--card); stroke: var(--line); } .chain { fill: var(--chain); stroke: var(--chain-line); }
  .proof { fill: var(--proof); stroke: var(--proof-line); }
  .flow { fill: none; stroke: var(--soft); stroke-width: 1.5; marker-end: url(#tip); }
  .tip { fill: var(--soft); } .good { fill: none; stroke: var(--good); } .bad { fill: none; stroke: var(--line); }
"""


def page() -> str:
    """The picture as SVG."""
    width = LEFT + COLUMN * len(PHASES) + END
    height = TOP + LANE * len(LANES) + 58
    body = [
        *_bands(width),
        *_heads(),
        *map(_flow, FLOW),
        _tally(),
        _verdict(),
        *map(_card, CARDS),
        *_ends(),
        _note(height),
    ]

    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-labelledby="title about">\n'
        f'<title id="title">A round of chainfl</title>\n'
        f'<desc id="about">{escape(_words())}</desc>\n'
        f"<style>{STYLE}</style>\n"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>\n'
        f'<rect class="paper" width="{width}" height="{height}" rx="10"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _words() -> str:
    """The picture in words, for those who cannot see it."""
    return " ".join(f"{card.phase}: {card.lane.lower()}: {' '.join(card.lines)}." for card in CARDS)


def _bands(width: int) -> list[str]:
    shapes = []
    for index, lane in enumerate(LANES):
        y = TOP + index * LANE
        if index % 2 == 0:
            shapes.append(f'<rect class="band" x="0" y="{y}" width="{width}" height="{LANE}"/>')
        shapes.append(f'<text class="lane" x="16" y="{y + LANE // 2 + 4}">{lane}</text>')
    return shapes


def _heads() -> list[str]:
    return [
        f'<text class="number" x="{_middle(name)}" y="24" text-anchor="middle">{index}</text>'
        f'<text class="phase" x="{_middle(name)}" y="44" text-anchor="middle">{name}</text>'
        for index, name in enumerate(PHASES, start=1)
    ]


def _card(card: Card) -> str:
    x = _middle(card.phase) - CARD_WIDTH // 2
    y = _centre(card.lane) - CARD_HEIGHT // 2
    kind = {"plain": "card"}.get(card.kind, card.kind)
    box = f'<rect class="{kind}" x="{x}" y="{y}" width="{CARD_WIDTH}" height="{CARD_HEIGHT}" rx="7"/>'
    return box + _paragraph(card.lines, _middle(card.phase), _centre(card.lane))


def _paragraph(lines: Sequence[str], x: int, y: int) -> str:
    first = y + 4 - 8 * (len(lines) - 1)
    return "".join(
        f'<text x="{x}" y="{first + 16 * index}" text-anchor="middle">{escape(line)}</text>'
        for index, line in enumerate(lines)
    )


def _flow(step: tuple[str, str, str, str]) -> str:
    """A curve from the right edge of one card to the left edge of the next."""
    from_phase, from_lane, to_phase, to_lane = step
    x1 = _middle(from_phase) + CARD_WIDTH // 2
    y1 = _centre(from_lane)
    x2 = _middle(to_phase) - CARD_WIDTH // 2
    y2 = _centre(to_lane)
    middle = (x1 + x2) // 2
    return f'<path class="flow" d="M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}"/>'


def _tally() -> str:
    """From the committee's scores straight up to the contract's shares."""
    x = _middle("Tally")
    bottom = _centre("Committee") - CARD_HEIGHT // 2
    top = _centre("Contract") + CARD_HEIGHT // 2
    return f'<path class="flow" d="M{x} {bottom} L{x} {top}"/>'


def _verdict() -> str:
    """From the proof, past the committee, up to the contract."""
    x = _middle("Challenge") + CARD_WIDTH // 2
    bottom = _centre("Anybody")
    top = _centre("Contract")
    return f'<path class="flow" d="M{x} {bottom} C{x + 26} {bottom} {x + 26} {top + 10} {x + 1} {top + 8}"/>'


def _ends() -> list[str]:
    """How a round ends."""
    x = LEFT + COLUMN * len(PHASES) + END // 2 + 6
    ends = (
        ("good", _centre("Workers"), ("Final", "a new head,", "pay is credited")),
        ("bad", _centre("Miner"), ("Void", "the head stays")),
    )
    shapes = [f'<text class="phase" x="{x}" y="44" text-anchor="middle">End</text>']
    for kind, y, lines in ends:
        shapes.append(
            f'<rect class="{kind}" x="{x - 55}" y="{y - 30}" width="110" height="60" rx="12" stroke-width="1.5"/>'
        )
        shapes.append(_paragraph(lines, x, y))
    return shapes


def _note(height: int) -> str:
    first = "Blue: done by the contract, in integers that Python reproduces bit for bit. Models lie in IPFS;"
    second = "the chain holds their 32-byte roots. Each phase has a deadline; anybody may end a phase that is over."
    return (
        f'<text class="note" x="16" y="{height - 32}">{first}</text>'
        f'<text class="note" x="16" y="{height - 14}">{second}</text>'
    )


def _middle(phase: str) -> int:
    return LEFT + PHASES.index(phase) * COLUMN + COLUMN // 2


def _centre(lane: str) -> int:
    return TOP + LANES.index(lane) * LANE + LANE // 2
