"""The routes, one module per thing that is asked for."""
