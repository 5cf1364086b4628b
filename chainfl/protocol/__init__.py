"""The rules, pure integers: what the contracts decide, decided again in Python."""
