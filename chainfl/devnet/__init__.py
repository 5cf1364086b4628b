"""A private chain with node processes on one machine, for demonstrations and for trying things out."""
