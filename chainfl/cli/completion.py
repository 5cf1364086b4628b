"""`chainfl completion`: tab completion for bash, zsh and fish."""

import click
from click.shell_completion import get_completion_class

from chainfl.errors import InputError


@click.command(
    short_help="Print the completion script of a shell.",
    epilog='Example: eval "$(chainfl completion bash)", or put that line into ~/.bashrc.',
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete chainfl's commands and options."""
    complete = get_completion_class(shell)
    if complete is None:
        raise InputError(f"no completion for {shell}")
    click.echo(complete(ctx.find_root().command, {}, "chainfl", "_CHAINFL_COMPLETE").source())
