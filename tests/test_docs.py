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
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
COMMAND = re.compile(r"(?<![\w/.-])chainfl +(?:-|[a-z])[^`\n]*")


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_documents_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", page.read_text())

    assert [link for link in links if not (page.parent / link).exists()] == []
