"""The protocol without a chain: ledger, store and journal in memory, and a round as a story on one page."""
