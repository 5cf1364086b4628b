"""Redo a round from ledger and blobs alone, compare, and build fraud proofs."""
