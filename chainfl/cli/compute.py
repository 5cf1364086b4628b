"""`chainfl compute`: the canonical values, from numbers on stdin."""

import click


@click.group()
def compute() -> None:
    """Compute canonical values from your own numbers."""
