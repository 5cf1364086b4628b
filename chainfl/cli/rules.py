"""`chainfl rules`: every rule there is, its parameters, and what a chain can prove of it."""

import click

from chainfl.cli.output import finish, json_option, print_table
from chainfl.report import report


@click.command(short_help="List the rules and what a chain proves.", epilog="Example: chainfl rules --json")
@json_option
def rules(as_json: bool) -> int:
    """List all rules: those of the chain, the simulator's own, and what may stand before a rule with a plus."""
    from chainfl.sim.robust.table import all_rules

    rows = all_rules()
    answer = report("rules", {"rules": [row.as_plain() for row in rows]})
    columns = ("rule", "plays on", "a chain can prove", "parameters")
    shown = [(row.name, row.plays_on, row.proof, row.parameters) for row in rows]
    return finish(answer, as_json, lambda _: print_table(columns, shown))
