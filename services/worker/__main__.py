"""The worker: trains and publishes updates, and nothing else.

python -m services.worker --settings services/worker/settings.toml
"""

import sys

from chainfl.cli import run

if __name__ == "__main__":
    sys.exit(run(["node", "run", "--role", "worker", *sys.argv[1:]]))
