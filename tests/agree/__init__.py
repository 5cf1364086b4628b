"""The contracts' bytecode and the rules in Python, driven by the same actions."""
