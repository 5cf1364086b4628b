"""Federated learning run by Ethereum contracts, checkable by anyone."""

__version__ = "0.1.0"

# The name on PyPI; `chainfl` there is somebody else's package.
DISTRIBUTION = "chainfl-protocol"
