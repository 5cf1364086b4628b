"""A click group that imports a command only when it is called."""

from collections.abc import Mapping
from importlib import import_module

import click

from chainfl.cli.commands import Entry
from chainfl.names import nearest


class LazyGroup(click.Group):
    """A group whose commands are named in a table and imported on first use."""

    entries: Mapping[str, Entry] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, without importing what is behind them."""
        return sorted({*super().list_commands(ctx), *self.entries})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command itself, imported now."""
        entry = self.entries.get(cmd_name)
        return load(entry.target) if entry else super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, but the refusal of an unknown name lists the known ones."""
        if args and args[0] not in self.list_commands(ctx) and not args[0].startswith("-"):
            known = self.list_commands(ctx)
            ctx.fail(f"no command {args[0]!r}; there are: {', '.join(known)}{nearest(args[0], known)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands in the help, from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._short_help(ctx, name)) for name in self.list_commands(ctx)])

    def _short_help(self, ctx: click.Context, name: str) -> str:
        if name in self.entries:
            return self.entries[name].help
        command = super().get_command(ctx, name)
        return command.get_short_help_str() if command else ""


def load(target: str) -> click.Command:
    """Import `module:attribute`, a click command."""
    module, _, attribute = target.partition(":")
    command = getattr(import_module(module), attribute)
    if not isinstance(command, click.Command):
        raise TypeError(f"{target} is {type(command).__name__}, not a click command")
    return command
