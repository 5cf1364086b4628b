"""The node: plays whatever role a round gives its key.

python -m services.node --settings services/node/settings.toml
"""

import sys

from chainfl.cli import run

if __name__ == "__main__":
    sys.exit(run(["node", "run", *sys.argv[1:]]))
