"""The protocol in memory: ledger, store, whole rounds and experiments."""
