"""Hatchling's hook: a wheel or source archive carries the commit it was built from, as chainfl/commit.txt.

An archive without a repository around it keeps the file that it came with; where neither is there, there is no file.
"""

import atexit
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class RecordCommit(BuildHookInterface[Any]):
    """Adds chainfl/commit.txt to what is built, except to an editable install, which asks git itself."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the commit to a file outside of the tree and have it packed."""
        commit = commit_of(Path(self.root))
        if version == "editable" or commit is None:
            return

        # The file has to last until the archive is written, which is after this call.
        folder = tempfile.TemporaryDirectory(prefix="chainfl-build-")
        atexit.register(folder.cleanup)
        path = Path(folder.name) / "commit.txt"
        path.write_text(commit + "\n")
        build_data["force_include"][str(path)] = "chainfl/commit.txt"


def commit_of(root: Path) -> str | None:
    """The commit of the repository at this root, `-dirty` where tracked files differ; None without one."""
    if not (root / ".git").exists():
        return None
    head = _git(root, "rev-parse", "HEAD")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    return None if head is None else head + ("-dirty" if changed else "")


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
