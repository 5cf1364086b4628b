"""`chainfl keys`: make an encrypted key, show its address."""

from pathlib import Path

import click

from chainfl.cli.output import finish, json_option
from chainfl.errors import InputError
from chainfl.report import Report, narrate, report


@click.group(epilog="Example: chainfl keys new key.json --password-file pass")
def keys() -> None:
    """Make and show encrypted keys."""


@keys.command(epilog="Example: chainfl keys new key.json --password-file pass")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--password-file",
    type=click.Path(path_type=Path),
    help="Its first line becomes the password; asked for twice when not given.",
)
@json_option
def new(file: Path, password_file: Path | None, as_json: bool) -> int:
    """Make a key and keep it encrypted in FILE, which must not exist yet."""
    from chainfl.chain.keys import exposed, new_key, read_password
    from chainfl.chain.send import checksum

    if file.exists():
        raise InputError(f"{file} exists: a key is never overwritten; name another file")
    address = checksum(new_key(file, read_password(password_file, is_new=True)))
    warning = exposed(password_file)
    if warning is not None:
        narrate(f"warning: {warning}")
    narrate(f"back up {file} and its password: nobody can restore either")
    return finish(report("keys-new", {"address": address, "file": str(file)}), as_json, _show)


@keys.command(epilog="Example: chainfl keys show key.json")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def show(file: Path, as_json: bool) -> int:
    """Print the address of the key in FILE; no password is needed."""
    from chainfl.chain.keys import address_of
    from chainfl.chain.send import checksum

    address = checksum(address_of(file))
    return finish(report("keys-show", {"address": address, "file": str(file)}), as_json, _show)


def _show(answer: Report) -> None:
    click.echo(answer.metrics["address"])
