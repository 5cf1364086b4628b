"""Mutation testing: small bugs in contracts and rules, one at a time, and which tests find them (docs/mutants.md)."""
