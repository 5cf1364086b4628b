"""The ledger on an Ethereum chain: web3 lives here and nowhere else."""
