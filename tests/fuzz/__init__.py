"""Fuzzing of everything that reads bytes from strangers (docs/fuzzing.md)."""
