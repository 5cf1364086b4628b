"""Chain and store together: what sponsors, auditors and challengers do from a command or a service."""
