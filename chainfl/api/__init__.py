"""The audit API: an index of what a chain says, verification on demand, and a dashboard, all read-only."""
