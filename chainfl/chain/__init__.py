"""The ledger on an Ethereum chain; the only package that knows web3."""
