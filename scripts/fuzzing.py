"""What scripts/fuzz does after set-up: run fuzz targets, show how far they are, keep and replay what breaks them.

usage: scripts/fuzz [--seconds N] [--runs N] [--seed N] [--engine own|atheris] [--json] [TARGET ...]
       scripts/fuzz --list
       scripts/fuzz --replay TARGET FILE

The own engine repeats itself for a seed. atheris (pip install 'chainfl-protocol[fuzz]') is led by coverage, finds more
in the same time, and is taken where it is installed; what it learns it keeps beside the crashes, for the next run.
"""

import argparse
import logging
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from chainfl.errors import ChainflError, InputError, ToolMissingError  # noqa: E402
from chainfl.report import Report, emit, narrate, refusal, report  # noqa: E402
from chainfl.tools import pip_install  # noqa: E402
from tests.fuzz.run import MAX_SECONDS, Failure, Outcome, check, fuzz, shrink  # noqa: E402
from tests.fuzz.target import Target  # noqa: E402
from tests.fuzz.targets import TARGETS  # noqa: E402

SECONDS: Final = 10.0
ENGINES: Final = ("own", "atheris")
RSS_MB: Final = 2048
"""What libFuzzer allows in all: instrumented code takes half of it before the first input."""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line of scripts/fuzz."""
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz", description="Fuzz the readers of bytes from strangers (docs/fuzzing.md)."
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="which (default all)")
    parser.add_argument(
        "--seconds", type=float, help=f"at most, for each target (default {SECONDS:g} without --runs)"
    )
    parser.add_argument("--runs", type=int, help="executions of each target at most")
    parser.add_argument(
        "--seed", type=int, default=0, help="the own engine repeats itself for a seed (default 0)"
    )
    parser.add_argument(
        "--engine", choices=ENGINES, help="default: atheris if it is installed and --seconds is given"
    )
    parser.add_argument(
        "--crashes", type=Path, default=ROOT / ".fuzz", help="where to keep what breaks a target"
    )

    parser.add_argument("--list", action="store_true", help="name the targets and what they read")
    parser.add_argument("--replay", nargs=2, metavar=("TARGET", "FILE"), help="run one input")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Do what is asked; 0 when nothing broke."""
    asked = parse(arguments)
    started = time.perf_counter()

    try:
        if asked.list:
            found = list_targets()
        elif asked.replay:
            found = replay(*asked.replay)
        else:
            found = campaign(asked, started)
    except ChainflError as error:
        if asked.json:
            return emit(refusal("fuzz", error))
        narrate(f"error: {error}")
        return error.exit_code
    return emit(found) if asked.json else found.exit_code


def list_targets() -> Report:
    """Every target with the first line of what it reads."""
    readers = {name: getattr(target.read, "func", target.read) for name, target in TARGETS.items()}
    told = {name: (reader.__doc__ or "").splitlines()[0] for name, reader in readers.items()}
    for name, what in told.items():
        narrate(f"{name:<16}{what}")
    return report("fuzz", {"targets": told})


def replay(name: str, file: str) -> Report:
    """Run one input, and show where it breaks."""
    target = _target(name)
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None
    failure = check(target, data)
    narrate(f"{name}: {'accepted or refused, as it should be' if failure is None else failure.what}")
    if failure is not None:
        target.read(data)  # for the traceback
    return report("fuzz", {"target": name, "failure": failure and failure.what}, ok=failure is None)


def campaign(asked: argparse.Namespace, started: float) -> Report:
    """Run each target in turn."""
    targets = [_target(name) for name in asked.targets] or list(TARGETS.values())
    engine = asked.engine or ("atheris" if find_spec("atheris") and asked.runs is None else "own")
    if engine == "atheris" and find_spec("atheris") is None:
        raise ToolMissingError(f"atheris is not installed: {pip_install('fuzz')}, or take --engine own")

    rows: dict[str, object] = {}
    broken: list[str] = []
    for target in targets:
        outcome = _run(target, asked, engine)
        narrate(_line(outcome))
        for failure in outcome.failures:
            file = _keep(asked.crashes, shrink(target, failure))
            broken.append(str(file))
            narrate(f"  {failure.what}\n  replay: scripts/fuzz --replay {target.name} {file}")

        rows[target.name] = {
            "executions": outcome.executions,
            "per_second": round(outcome.rate),
            "accepted": outcome.accepted,
            "places": outcome.places,
            "failures": len(outcome.failures),
        }

    seconds = time.perf_counter() - started
    metrics = {"engine": engine, "targets": rows, "crashes": broken}
    return report("fuzz", metrics, ok=not broken, seed=asked.seed, seconds=seconds)


def _run(target: Target, asked: argparse.Namespace, engine: str) -> Outcome:
    seconds = asked.seconds or (None if asked.runs else SECONDS)
    if engine == "atheris":
        return guided(target, asked.crashes, seconds, asked.runs)
    return fuzz(
        target, asked.runs or sys.maxsize, asked.seed, seconds, lambda so_far: narrate("  " + _line(so_far))
    )


def guided(target: Target, folder: Path, seconds: float | None, runs: int | None) -> Outcome:
    """Let atheris run a target in a process of its own: libFuzzer ends the process with the first defect."""
    learnt = folder / "learnt" / target.name
    learnt.mkdir(parents=True, exist_ok=True)
    prefix = folder / f"atheris-{target.name}-"

    command = [sys.executable, "-m", "tests.fuzz.guided", target.name, str(learnt), str(target.folder)]
    command += [f"-max_len={target.max_bytes}", f"-timeout={MAX_SECONDS:g}", f"-rss_limit_mb={RSS_MB}"]
    command += [f"-artifact_prefix={prefix}", "-print_final_stats=1"]
    command += [f"-runs={runs}"] if runs else []
    command += [f"-max_total_time={max(1, round(seconds))}"] if seconds else []

    started = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace")
    outcome = Outcome(target.name, seconds=time.perf_counter() - started)

    counted = re.search(r"number_of_executed_units: (\d+)", done.stderr) or re.search(
        r"Done (\d+) runs", done.stderr
    )
    outcome.executions = int(counted[1]) if counted else 0
    covered = re.findall(r" ft: (\d+)", done.stderr)
    outcome.places = int(covered[-1]) if covered else 0

    # What atheris breaks is tried without it: only then is it our defect and not its instrumentation's.
    artifact = re.search(r"Test unit written to (\S+)", done.stderr)
    if artifact:
        data = Path(artifact[1]).read_bytes()
        again = check(target, data)
        outcome.failures.append(again or Failure(target.name, data, "breaks it under atheris only", ()))
    elif done.returncode:
        raise ToolMissingError(f"atheris ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return outcome


def _target(name: str) -> Target:
    if name not in TARGETS:
        raise InputError(f"no target is called {name!r}; there are {', '.join(TARGETS)}")
    return TARGETS[name]


def _line(outcome: Outcome) -> str:
    accepted = f"{outcome.accepted:>9,} accepted " if outcome.accepted else ""  # atheris does not tell
    return (
        f"{outcome.target:<16}{outcome.executions:>10,} executions {outcome.rate:>8,.0f}/s "
        f"{accepted}{outcome.places:>6,} places {len(outcome.failures):>3} failures"
    )


def _keep(folder: Path, failure: Failure) -> Path:
    file = folder / failure.target / failure.file_name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(failure.data)
    return file


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # the API logs what it refuses
    warnings.simplefilter("error")
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("interrupted")
