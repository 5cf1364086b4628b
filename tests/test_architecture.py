"""Where is it? The pages that answer it name files, folders, functions and classes that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
ROOMS = (ROOT, ROOT / "chainfl", ROOT / "contracts" / "src", ROOT / "docs")
"""What the page's paths start from."""

MOST_HOPS = 3
"""From the root to a file: a folder, a folder in it, the file."""

FINDS = {
    "How to add a rule": "docs/extending.md",
    "A silent miner's fate": "chainfl/protocol/round.py",
    "A silent miner's fate on chain": "contracts/src/round/Transitions.sol",
    "What is in a block": "chainfl/codec/records.py",
    "How a node survives `kill -9`": "chainfl/node/journal.py",
    "How the API audits": "chainfl/api/jobs.py",
    "How a round is audited": "chainfl/audit/verify.py",
    "Where the dashboard's data comes from": "chainfl/api/indexer.py",
}
"""The questions that a newcomer asked first, and the file that answers each."""


def rows() -> list[tuple[str, str]]:
    """Question and answer of each row of the table."""
    table = PAGE.read_text(encoding="utf-8").split("## Where is it?")[1]
    return [
        tuple(row) for row in re.findall(r"^\| (?!question)([^|-][^|]*) \| (.*) \|$", table, re.MULTILINE)
    ]


def named(cell: str) -> list[str]:
    """What a cell has in backticks, and the targets of its links."""
    return re.findall(r"`([^`]+)`", cell) + re.findall(r"\]\(([^)#]+)", cell)


def place(name: str, beside: list[Path]) -> Path | None:
    """The file or folder of this name: from a room of the tree, or beside a file that was named before it."""
    starts = [*ROOMS, *(path.parent for path in beside), *(path.parent.parent for path in beside)]
    return next((start / name for start in starts if (start / name).exists()), None)


def defines(path: Path, symbol: str) -> bool:
    """Whether a source file defines a function, class or struct of this name."""
    words = r"(?:def|class|function|struct|contract|library|enum)"
    return re.search(rf"\b{words} {re.escape(symbol)}\b", path.read_text(encoding="utf-8")) is not None


@pytest.mark.parametrize(("question", "answer"), rows(), ids=[row[0] for row in rows()])
def test_what_an_answer_names_is_there(question: str, answer: str) -> None:
    files: list[Path] = []
    symbols: list[str] = []
    for name in named(answer):
        found = place(name, files)
        if found is not None:
            files.append(found)
        elif re.fullmatch(r"[A-Za-z_]\w*", name) and name != "import":
            symbols.append(name)
        else:
            assert name == "import chainfl", f"{question}: {name} is nowhere"

    assert files, f"{question}: no file is named"
    sources = [path for path in files if path.is_file()]
    assert [one for one in symbols if not any(defines(path, one) for path in sources)] == []


def test_the_page_has_a_row_for_each_first_question() -> None:
    asked = [question for question, _ in rows()]

    assert len(asked) >= 12
    assert [
        one
        for one in ("add a rule", "silent miner", "in a block", "kill -9", "API audits", "dashboard")
        if one not in " ".join(asked)
    ] == []


@pytest.mark.parametrize(("question", "path"), FINDS.items(), ids=list(FINDS))
def test_the_answer_lies_at_most_three_hops_from_a_room(question: str, path: str) -> None:
    found = ROOT / path
    rooms = [room for room in ROOMS if found.is_relative_to(room)]
    hops = min(len(found.relative_to(room).parts) for room in rooms)

    assert found.is_file(), question
    assert hops <= MOST_HOPS
    assert found.name in PAGE.read_text(encoding="utf-8"), f"{question}: the page does not name {path}"


def test_the_rules_stand_beside_each_other_in_both_languages() -> None:
    text = PAGE.read_text(encoding="utf-8")
    stands = text.split("**The rules stand twice**")[1].split("`tests/agree`")[0]
    solidity, python = stands.split(" are ")
    contracts = re.findall(r"`(?:round/)?([A-Z]\w+)`", solidity)
    modules = re.findall(r"`(\w+\.py)`", python)

    assert len(contracts) == len(modules) >= 6
    assert [name for name in contracts if not (ROOT / "contracts/src/round" / f"{name}.sol").is_file()] == []
    assert [name for name in modules if not (ROOT / "chainfl/protocol" / name).is_file()] == []


def test_the_folders_of_the_picture_are_there() -> None:
    picture = PAGE.read_text(encoding="utf-8").split("```")[1]
    folders = re.findall(r"\b([a-z]+)/(?=\s)", picture)
    files = re.findall(r"\b([a-z]+\.py)\b", picture)

    assert len(folders) >= 8
    assert [name for name in folders if not (ROOT / "chainfl" / name).is_dir()] == []
    assert [name for name in files if not (ROOT / "chainfl" / name).is_file()] == []
