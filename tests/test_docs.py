"""What the documents say can be typed: commands and options that they name exist, settings that exist are named."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from pydantic.fields import FieldInfo

from chainfl.cli.app import cli
from chainfl.node.settings import NodeSettings

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "docker" / "README.md"])
COMMAND = re.compile(r"(?<![\w/.-])chainfl +(?:-|[a-z])[^`\n]*")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def leaves(
    command: click.Command = cli, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from leaves(inner, (*path, name))


LEAVES = dict(leaves())
GROUPS = {path[:length] for path in LEAVES for length in range(len(path))}


def examples(text: str) -> list[str]:
    """The `chainfl …` lines of code blocks and the `chainfl …` between backticks."""
    blocks = "\n".join(re.findall(r"^```\w*\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL))
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    inline = [" ".join(each.split()) for each in re.findall(r"`([^`]+)`", prose)]
    return [
        found
        for line in [*blocks.replace("\\\n", " ").splitlines(), *inline]
        for found in COMMAND.findall(line)
    ]


def complaint(example: str) -> str | None:
    """Why an example cannot be typed, or None."""
    words = re.sub(r"\s#.*|\s[|>;].*|\)$", "", example).split()[1:]
    paths: list[tuple[str, ...]] = [()]
    while words and not words[0].startswith("-"):
        inner = [(*path, name) for path in paths for name in words[0].split("|")]
        if not all(path in LEAVES or path in GROUPS for path in inner):
            break
        paths, words = inner, words[1:]
    if paths == [()]:
        return None if not words or words[0].startswith("-") else f"no command {words[0]}"
    for path in paths:
        known = {
            "--help",
            *(
                name
                for each in getattr(LEAVES.get(path), "params", ())
                for name in each.opts + each.secondary_opts
            ),
        }
        for flag in (word.split("=")[0].rstrip(".,") for word in words if re.match(r"--[a-z]", word)):
            if flag not in known:
                return f"`chainfl {' '.join(path)}` has no {flag}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_in_a_document_can_be_typed(page: Path) -> None:
    wrong = [f"{each}: {why}" for each in examples(page.read_text()) if (why := complaint(each))]

    assert wrong == []


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_the_example_in_the_help_can_be_typed(path: tuple[str, ...]) -> None:
    shown = COMMAND.findall(LEAVES[path].epilog or "")

    assert shown
    assert [why for each in shown if (why := complaint(each))] == []


def test_documents_show_commands_at_all() -> None:
    assert len(examples((ROOT / "README.md").read_text())) >= 10
    assert complaint("chainfl stake add 5 --enroll") == "`chainfl stake add` has no --enroll"
    assert complaint("chainfl stakes add 5") == "no command stakes"


def test_every_setting_of_a_node_is_explained_in_the_operators_guide() -> None:
    guide = (ROOT / "docs" / "operating.md").read_text()

    rows = [
        f"| `--{name.replace('_', '-')}` | {_default(field)} | {field.description} |"
        for name, field in NodeSettings.model_fields.items()
    ]

    assert [row for row in rows if row not in guide] == []


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return "–" if field.default is None else f"`{field.default}`"  # noqa: RUF001 (a dash in a table)


def anchors(page: Path) -> set[str]:
    """Where a link into a page can lead: its headings as GitHub and the site name them, and ids of its own."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.+)$", prose, flags=re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", each.lower()) for each in headings)
    return {each.strip().replace(" ", "-") for each in plain} | set(re.findall(r'<a id="([^"]+)"', prose))


def dead_links(page: Path) -> list[str]:
    """Links of a page to files or headings of this repository that are not there."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    dead = []
    for link in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)|<img[^>]* src=\"(?!https?:)([^\"]+)\"", text):
        target, _, anchor = (link[0] or link[1]).partition("#")
        path = page.parent / target if target else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            dead.append(link[0] or link[1])
    return dead


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_between_documents_lead_somewhere(page: Path) -> None:
    assert dead_links(page) == []


def test_a_link_that_leads_nowhere_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('# One `two`\n[a](#one-two) [b](gone.md) [c](page.md#three) <img src="gone.svg">\n')

    assert dead_links(page) == ["gone.md", "page.md#three", "gone.svg"]


def test_documents_link_to_each_other() -> None:
    links = [link for page in PAGES for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text())]

    assert len(links) > 150


def source() -> str:
    """All messages of the package on one line: adjacent pieces of text joined as Python joins them."""
    folders = (ROOT / "chainfl", ROOT / "services", ROOT / "scripts")
    files = sorted(path for folder in folders if folder.is_dir() for path in folder.rglob("*.py"))
    text = "\n".join([*(path.read_text() for path in files), (ROOT / "scripts" / "setup").read_text()])
    return re.sub(r'"\s*\n\s*f?"', "", text)


def test_every_message_in_troubleshooting_is_one_that_is_printed() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    rows = re.findall(r"^\| (`.+?) \|", page, flags=re.MULTILINE)
    messages = [each for row in rows for each in re.findall(r"`([^`]+)`", row)]
    printed = source()

    # `…` stands for a value; what is between two of them is printed as it stands.
    pieces = [piece.strip() for each in messages for piece in each.split("…")]
    known = [piece for piece in pieces if len(piece) >= 8]

    assert len(known) >= 30
    assert [piece for piece in known if piece not in printed] == []


def test_troubleshooting_has_a_section_for_every_exit_code_that_needs_one() -> None:
    codes = re.findall(r"^\| (\d+) \|", (ROOT / "docs" / "exit-codes.md").read_text(), flags=re.MULTILINE)
    sections = re.findall(
        r"^## (\d+): ", (ROOT / "docs" / "troubleshooting.md").read_text(), flags=re.MULTILINE
    )

    assert set(codes) - set(sections) == {"0", "130", "141"}


def test_every_decision_is_in_the_list_of_decisions() -> None:
    listed = (ROOT / "docs" / "adr" / "index.md").read_text()
    pages = sorted((ROOT / "docs" / "adr").glob("0*.md"))

    rows = []
    for page in pages:
        number, _, title = page.read_text().splitlines()[0].removeprefix("# ").partition(". ")
        rows.append(f"| {number} | [{title}]({page.name}) |")

    assert [row for row in rows if row not in listed] == []


def test_every_file_that_the_architecture_page_names_is_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`((?:[\w]+/)*[\w]+\.(?:py|sol))`", page))

    roots = (ROOT, ROOT / "chainfl", ROOT / "chainfl" / "protocol", ROOT / "contracts" / "src")
    missing = [name for name in sorted(named) if not any((root / name).is_file() for root in roots)]

    assert len(named) >= 20
    assert missing == []


NAMES_TESTS = ("attacks.md", "security.md", "mutants.md", "mutants-table.md")
"""Pages that promise a test by its name."""


def all_tests() -> set[str]:
    """The names of all tests and of their files, in Python and in Solidity."""
    python, solidity = (ROOT / "tests").rglob("*.py"), (ROOT / "contracts" / "test").rglob("*.sol")
    found = set[str]()
    for path, form in [
        *((p, r"def (test_\w+)") for p in python),
        *((p, r"function (\w+)") for p in solidity),
    ]:
        found |= {path.stem, *re.findall(form, path.read_text())}
    return found


@pytest.mark.parametrize("name", NAMES_TESTS)
def test_every_test_that_a_page_names_exists(name: str) -> None:
    named = re.findall(r"`((?:test|invariant)\w*)`", (ROOT / "docs" / name).read_text())

    assert named or name == "security.md"
    assert set(named) - all_tests() == set()
