"""The contracts, as compiled, held against the rules."""
