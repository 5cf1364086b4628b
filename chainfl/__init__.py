"""Federated learning run by Ethereum contracts, checkable by anyone."""

__version__ = "0.1.0"
