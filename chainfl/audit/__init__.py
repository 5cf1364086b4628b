"""Redo a round from ledger and blobs alone, compare, and build the proof of a lie."""
