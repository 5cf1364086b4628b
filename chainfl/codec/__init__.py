"""Canonical values: fixed-point vectors, the Merkle tree, records and commitments."""
