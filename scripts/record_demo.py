"""Record a run of the demonstration as docs/pictures/demo.svg: python -m scripts.record_demo [--rounds 1].

The picture holds what the command printed, line by line, from the first round on; only pauses are shortened and the
folder of the run is left out. Its title has the command, the commit and the day.
"""

import argparse
import datetime
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from chainfl.report import narrate, version_line
from scripts.pages.terminal import Said, render

TARGET: Final = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "demo.svg"


def record(command: Sequence[str]) -> Iterator[Said]:
    """Run a command and give its lines, standard output and error together, as they come.

    Raises:
        subprocess.CalledProcessError: it ended badly.
    """
    started = time.monotonic()
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield Said(time.monotonic() - started, line.rstrip())
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(command))


def told(said: Sequence[Said]) -> list[Said]:
    """What is shown: from the first round to the line that says how it went, without empty lines."""
    first = next(index for index, each in enumerate(said) if each.text == "round 1")
    last = next(index for index, each in enumerate(said) if each.text.startswith("took "))
    return [each for each in said[first : last + 1] if each.text]


def main(arguments: Sequence[str]) -> int:
    """Run the demonstration and write its picture."""
    parser = argparse.ArgumentParser(prog="python -m scripts.record_demo", description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=1, help="rounds before the one with the lie (default 1)"
    )
    parser.add_argument("--out", type=Path, default=TARGET, help="the file to write")
    asked = parser.parse_args(arguments)

    # Asked now: whoever edits while the demonstration runs does not change what ran.
    version = version_line()
    with tempfile.TemporaryDirectory(prefix="chainfl-demo-") as folder:
        options = ["--rounds", str(asked.rounds), "--home", f"{folder}/home"]
        said = []
        for each in record([sys.executable, "-m", "chainfl", "demo", *options]):
            narrate(each.text)
            said.append(each)

    today = datetime.datetime.now(datetime.UTC).date()
    title = f"chainfl demo --rounds {asked.rounds}  ·  {version}  ·  {today}"
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(render(told(said), title), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
