"""The audit API: an index of a chain's events, verification on demand, and a dashboard, all read-only."""
