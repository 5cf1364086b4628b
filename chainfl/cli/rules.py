"""`chainfl rules`: every rule there is, its parameters, and what a chain can prove of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from chainfl.cli.output import finish, json_option, print_table
from chainfl.report import report

if TYPE_CHECKING:
    from chainfl.sim.robust.table import Row


@click.command(short_help="List the rules and what a chain proves.", epilog="Example: chainfl rules --json")
@json_option
def rules(as_json: bool) -> int:
    """List all rules: those of the chain, the simulator's own, and what may stand before a rule with a plus."""
    from chainfl.sim.robust.table import all_rules

    rows = all_rules()
    answer = report("rules", {"rules": [row.as_plain() for row in rows]})
    return finish(answer, as_json, lambda _: _show(rows))


def _show(rows: Sequence["Row"]) -> None:
    """The table, with room to fold between parameters, and how one is typed."""
    columns = ("rule", "plays on", "a chain proves", "parameters")
    print_table(
        columns, [(row.name, row.plays_on, row.proof, row.parameters.replace(",", ", ")) for row in rows]
    )
    click.echo(
        "typed as --rule fedrob:b=2,alpha=0.9; a parameter that is left out has the value shown here\n"
        "what ends in + stands before a rule: --rule nnm:f=4+median"
    )
