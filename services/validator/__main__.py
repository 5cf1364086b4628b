"""The validator: scores updates and votes on proposals, and nothing else.

python -m services.validator --settings services/validator/settings.toml
"""

import sys

from chainfl.cli import run

if __name__ == "__main__":
    sys.exit(run(["node", "run", "--role", "validator", *sys.argv[1:]]))
