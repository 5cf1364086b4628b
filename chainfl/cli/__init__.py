"""The `chainfl` command."""

from chainfl.cli.app import main, run

__all__ = ["main", "run"]
