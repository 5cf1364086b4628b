"""The audit API: a read-only index of a chain's tasks, audits on demand, and the dashboard.

set -a && . services/audit_api/settings.env && python -m services.audit_api
"""

import sys

from chainfl.cli import run

if __name__ == "__main__":
    sys.exit(run(["serve", *sys.argv[1:]]))
