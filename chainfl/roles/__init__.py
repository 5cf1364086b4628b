"""Each role's part in a round, in order. Roles see ports only: the same code runs in memory and on a chain."""
