"""docs/reference/cli.md: every command with its usage, options and example, read from the commands themselves."""

import re
from collections.abc import Iterator
from typing import Final

import click

from chainfl.cli.app import cli

ABOUT: Final = """\
# Commands

Made from the commands themselves by `python -m scripts.make_docs`; a test compares. `chainfl COMMAND --help` shows the
same on your machine. Exit codes are [one page](../exit-codes.md) for all commands. `--json` prints one object on
stdout, [always of the same form](../schemas/report.json), and everything for people goes to stderr.
"""


def page() -> str:
    """The whole page."""
    commands = list(leaves(cli, ("chainfl",)))
    return "\n".join([ABOUT, _contents(commands), *(_section(path, each) for path, each in commands)])


def leaves(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, with the words that call it, in alphabetical order."""
    if not isinstance(command, click.Group):
        yield path, command
        return

    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None, f"{name} is listed and not there"
        yield from leaves(inner, (*path, name))


def _contents(commands: list[tuple[tuple[str, ...], click.Command]]) -> str:
    rows = ["| command | does |", "|---|---|"]
    for path, command in commands:
        name = " ".join(path)
        rows.append(f"| [`{name}`](#{name.replace(' ', '-')}) | {_cell(_first_sentence(command))} |")
    return "\n".join(rows) + "\n"


def _section(path: tuple[str, ...], command: click.Command) -> str:
    context = click.Context(command, info_name=" ".join(path))
    usage = " ".join([*path, *command.collect_usage_pieces(context)])
    parts = [f"## {' '.join(path)}", f"```\n{usage}\n```", _prose(command.help or "")]

    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    if options:
        parts.append("\n".join(["| option | default | |", "|---|---|---|", *map(_row, options)]))
    if command.epilog:
        parts.append(_example(command.epilog))
    return "\n\n".join(part for part in parts if part) + "\n"


def _row(option: click.Option) -> str:
    names = ", ".join(option.opts)
    if option.secondary_opts:
        names += " / " + ", ".join(option.secondary_opts)
    value = "" if option.is_flag or option.count else f" {_value(option)}"
    extra = " May be given several times." if option.multiple else ""
    return f"| `{names}{value}` | {_default(option)} | {_cell(option.help or '')}{extra} |"


def _value(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return "\\|".join(str(each) for each in option.type.choices)
    return option.metavar or option.type.name.upper()


def _default(option: click.Option) -> str:
    if option.required:
        return "required"
    # click marks "no default" by a value of its own, which is not None.
    value = option.to_info_dict()["default"]
    if value is None or value == () or value is False or callable(value):
        return ""
    return ", ".join(f"`{each}`" for each in value) if isinstance(value, tuple) else f"`{value}`"


def _prose(text: str) -> str:
    """A docstring as paragraphs; what click keeps as it stands (after `\\b`) becomes a block."""
    paragraphs = []
    for each in re.split(r"\n\s*\n", text.strip()):
        if each.startswith("\b"):
            paragraphs.append("```\n" + each.removeprefix("\b").strip("\n") + "\n```")
        else:
            paragraphs.append(_escape(" ".join(each.split())))
    return "\n\n".join(paragraphs)


def _example(epilog: str) -> str:
    """The epilog, its command as code where it is one."""
    text = " ".join(epilog.split())
    command = text.removeprefix("Example: ")
    return f"Example:\n\n```\n{command}\n```" if command.startswith("chainfl ") else _escape(text)


def _first_sentence(command: click.Command) -> str:
    text = " ".join((command.help or command.short_help or "").split())
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0]


def _cell(text: str) -> str:
    return _escape(" ".join(text.split())).replace("|", "\\|")


def _escape(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*")
