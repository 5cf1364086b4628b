"""`python -m chainfl` is the `chainfl` command."""

from chainfl.cli import main

if __name__ == "__main__":
    main()
