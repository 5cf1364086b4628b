"""All mutants of the contracts in one program: each changed piece becomes a choice between mutant and original.

Which mutant is on is the block's coinbase, a word that the contracts never read, that costs two gas and that every EVM
lets its user set: mutant k is on when the coinbase is the address k. So everything is compiled once.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from scripts.mutation.table import Edit, Mutant, Shape, Span, StaleRowError, span_of

_PURE = re.compile(r"\bpure\b")


def coinbase(number: int) -> str:
    """The coinbase that switches on the mutant with this number; 0: none."""
    return f"0x{number:040x}"


def woven(text: str, file: str, mutants: Iterable[Mutant]) -> str:
    """The source of one file with all its mutants in it.

    Raises:
        StaleRowError: an edit does not fit the text, or two edits overlap without being of the same piece.
    """
    choices: dict[Span, list[tuple[int, Edit]]] = defaultdict(list)
    for mutant in mutants:
        for edit in mutant.edits:
            if edit.file == file:
                choices[span_of(text, edit)].append((mutant.number, edit))
    _expect_apart(file, choices)

    for span in sorted(choices, key=lambda each: each.start, reverse=True):
        text = text[: span.start] + _choice(text[span.start : span.end], choices[span]) + text[span.end :]
    return text


def impure(text: str) -> str:
    """Functions that read no state may now read the coinbase."""
    return _PURE.sub("view", text)


def _expect_apart(file: str, spans: Iterable[Span]) -> None:
    ordered = sorted(spans, key=lambda span: span.start)
    for one, next_ in pairwise(ordered):
        if next_.start < one.end:
            raise StaleRowError(f"{file}: two mutants overlap at characters {one.start} and {next_.start}")


def _choice(original: str, edits: Iterable[tuple[int, Edit]]) -> str:
    text = original
    for number, edit in edits:
        text = _FORMS[edit.shape].format(number=number, mutated=edit.to, original=text)
    return text


_FORMS = {
    Shape.EXPRESSION: "(block.coinbase == address({number}) ? ({mutated}) : ({original}))",
    Shape.STATEMENT: "if (block.coinbase == address({number})) {{ {mutated} }} else {{ {original} }}",
    Shape.ASSEMBLY: "add(mul(eq(coinbase(), {number}), {mutated}), mul(iszero(eq(coinbase(), {number})), {original}))",
}
