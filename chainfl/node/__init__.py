"""The node: one process per key that plays whatever role the round gives it."""
