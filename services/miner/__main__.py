"""The miner: combines updates and proposes blocks, and nothing else.

python -m services.miner --settings services/miner/settings.toml
"""

import sys

from chainfl.cli import run

if __name__ == "__main__":
    sys.exit(run(["node", "run", "--role", "miner", *sys.argv[1:]]))
