"""The command group and the one place where errors become exit codes (docs/exit-codes.md)."""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Final, NoReturn

import click

from chainfl.cli.commands import COMMANDS
from chainfl.cli.lazy import LazyGroup
from chainfl.cli.output import Answer
from chainfl.errors import ChainflError, InputError, ToolMissingError
from chainfl.report import emit, narrate, refusal, version_line
from chainfl.tools import EXTRAS, pip_install

INTERNAL_ERROR: Final = 70
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141


class App(LazyGroup):
    """The commands of `chainfl`."""

    entries = COMMANDS


def _show_version(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        click.echo(version_line())
        ctx.exit()


@click.group(
    cls=App,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Example: chainfl doctor. Each command shows its own with --help.",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    help="Show version and commit.",
    callback=_show_version,
)
def cli() -> None:
    """Federated learning run by Ethereum contracts, checkable by anyone."""


def main() -> NoReturn:
    """Run the command line of this process and end it with the exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; every error becomes one line and an exit code, never a traceback."""
    answer = Answer()

    try:
        result = cli.main(list(arguments), prog_name="chainfl", standalone_mode=False, obj=answer)
        return result if isinstance(result, int) else 0
    except ChainflError as error:
        return _refuse(error, answer)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        return _refuse(InputError(_with_hint(error)), answer)
    except click.Abort:
        narrate("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # Python would complain once more when it closes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except ModuleNotFoundError as error:
        return _lacks(error, answer)
    except Exception as error:
        return _fail(error, answer)


def _refuse(error: ChainflError, answer: Answer) -> int:
    _show_traceback()
    narrate(f"error: {_one_line(error)}")
    if answer.as_json:
        emit(refusal(answer.name, error, answer.seconds))
    return error.exit_code


def _lacks(error: ModuleNotFoundError, answer: Answer) -> int:
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        return _fail(error, answer)
    remedy = pip_install(EXTRAS[package])
    return _refuse(
        ToolMissingError(f"{package} is not installed, and this command needs it: {remedy}"), answer
    )


def _fail(error: Exception, answer: Answer) -> int:
    what = f"unexpected {type(error).__name__}: {_one_line(error)}"
    _show_traceback()
    narrate(f"error: {what}; set CHAINFL_DEBUG=1 to see where, and please report it")
    if answer.as_json:
        emit(refusal(answer.name, InternalError(what), answer.seconds))
    return INTERNAL_ERROR


class InternalError(ChainflError):
    """A defect of chainfl itself; only the error handler makes one."""

    exit_code = INTERNAL_ERROR


def _with_hint(error: click.ClickException) -> str:
    ctx = getattr(error, "ctx", None)
    hint = f" (try: {ctx.command_path} --help)" if ctx is not None else ""
    return error.format_message() + hint


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _show_traceback() -> None:
    if os.environ.get("CHAINFL_DEBUG", "0") not in {"", "0"}:
        traceback.print_exc()
